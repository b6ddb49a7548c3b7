r"""Path lengths of at most two links of a weighted graph, for sparse edges.

.. math:: M_{ij} = \min\Big(w_{ij},\; \min_k (w_{ik} + w_{kj}),\; 2 \max w\Big)

where w is infinite between items without a link. The value of a pair costs the degrees of its two
ends, whatever the size of the graph; path lengths over any number of links would cost a search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.sources import Source
from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["ShortPaths"]


class ShortPaths(Source):
    """Lengths of paths of one or two links; all others count as two of the longest links.

    Parameters
    ----------
    graph : graph
        As in :func:`~metricmix.dissimilarity.as_graph`, with lengths.
    directed : bool
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> line = csr_array([[0, 1.0, 0, 0], [0, 0, 3.0, 0], [0, 0, 0, 1.0], [0, 0, 0, 0]])
    >>> source = ShortPaths(as_graph(line, nodes=4, weight="length"))
    >>> source.pairs(np.array([0, 0, 0]), np.array([1, 2, 3]))
    array([1., 4., 6.])
    """

    def __init__(
        self, graph: Any, *, directed: bool = False, name: str | None = "path_length"
    ) -> None:
        adjacency = as_graph(graph, directed=directed).adjacency
        adjacency.sort_indices()
        backward = adjacency.T.tocsr() if directed else adjacency
        backward.sort_indices()
        self.n, self.name, self.directed = adjacency.shape[0], name, directed
        self.farthest = 2.0 * float(adjacency.data.max(initial=0.0))
        self._out, self._into = (
            (part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data)
            for part in (adjacency, backward)
        )

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return self._rows(indices, self._out)

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``."""
        return self._rows(indices, self._into)

    def _rows(self, indices: Indices, arcs: tuple[Indices, Ints, Floats]) -> Floats:
        values = np.full((len(indices), self.n), self.farthest)
        two_links_from(*arcs, np.ascontiguousarray(indices, np.int64), values)
        return values

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        values = np.full(len(i), self.farthest)
        ends = np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
        two_links_between(*self._out, *self._into, *ends, values)
        return values


@kernel
def two_links_from(indptr: Indices, ends: Ints, w: Floats, roots: Indices, values: Floats) -> None:
    """Lower the rows of `values` to what one or two links reach from each root."""
    for a in range(roots.size):
        u, row = roots[a], values[a]
        for e in range(indptr[u], indptr[u + 1]):
            k = ends[e]
            row[k] = min(row[k], w[e])
            for f in range(indptr[k], indptr[k + 1]):
                row[ends[f]] = min(row[ends[f]], w[e] + w[f])
        row[u] = 0.0


@kernel
def two_links_between(
    indptr: Indices,
    ends: Ints,
    w: Floats,
    into_indptr: Indices,
    into_ends: Ints,
    into_w: Floats,
    i: Indices,
    j: Indices,
    values: AnyArray,
) -> None:
    """Lower `values` by merging the sorted links out of each i and into each j."""
    for p in range(i.size):
        if i[p] == j[p]:
            values[p] = 0.0
            continue
        best = values[p]
        b, b_end = into_indptr[j[p]], into_indptr[j[p] + 1]
        for a in range(indptr[i[p]], indptr[i[p] + 1]):
            k = ends[a]
            if k == j[p]:
                best = min(best, w[a])
            while b < b_end and into_ends[b] < k:
                b += 1
            if b < b_end and into_ends[b] == k:
                best = min(best, w[a] + into_w[b])
        values[p] = best
