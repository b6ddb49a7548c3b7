"""The neighbours of two nodes: how many they share, and the shortest way over one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.item_ids import graph_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.sources import Source
from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_square_fits

__all__ = ["SharedNeighbours", "ShortPaths", "jaccard", "resource_allocation"]


@states(SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n), and the degrees of the neighbours"))
def jaccard(graph: Any, *, nodes: Any = None, closed: bool = False) -> DissimilarityMatrix:
    """Jaccard distance of neighbourhoods: ``1 - |N(i) & N(j)| / |N(i) | N(j)|``.

    Parameters
    ----------
    graph, nodes
        See :func:`~metricmix.dissimilarity.graphs.as_graph`. Weights and directions are ignored:
        only who is joined to whom counts.
    closed : bool
        Count a node among its own neighbours, so that two nodes joined to each other and to the
        same others are at 0. The default is the usual open neighbourhood, under which joined nodes
        without a common neighbour are at 1.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "jaccard", with the ids of the nodes in `items` (None for numbered rows), entries in
        [0, 1]; it obeys the triangle inequality. An isolated node is
        at 1 from every other node, isolated ones included: nothing says that they are alike. Costs
        one sparse product, O(sum of squared degrees), and O(n^2) memory.

    Raises
    ------
    InputError
        If the graph is not acceptable.

    >>> jaccard([(0, 1), (1, 2), (2, 3)], nodes=4)
    DissimilarityMatrix([[0. , 1. , 0.5, 1. ],
                         [1. , 0. , 1. , 0.5],
                         [0.5, 1. , 0. , 1. ],
                         [1. , 0.5, 1. , 0. ]])
    """
    joined = as_graph(graph, nodes=nodes, weight="ignore")
    adjacency = joined.adjacency
    check_square_fits(
        adjacency.shape[0], 25, what="the matrix", argument="graph", instead="take fewer items"
    )
    if closed:
        from scipy.sparse import eye_array

        adjacency = (adjacency + eye_array(adjacency.shape[0])).tocsr()
    distances = SharedNeighbours(adjacency).rows(np.arange(joined.n))
    items = graph_items(graph, nodes, joined.nodes)
    return as_dissimilarity(distances, "jaccard", items=items, facts=facts("jaccard"))


class SharedNeighbours(Source):
    """:func:`jaccard`, computed on demand: a pair costs the degrees of its two nodes.

    Parameters
    ----------
    table : CSR array of ones, of any width
        The neighbours of each item.
    name : str, optional
    """

    def __init__(self, table: Any, name: str | None = "jaccard") -> None:
        table.sort_indices()
        self.n, self.name, self.facts = table.shape[0], name, facts("jaccard")
        self.adjacency, self.degrees = table, np.diff(table.indptr)

    def cross(self, table: Any, n_others: Any = 0) -> Floats:
        """Return the distances from the rows of another CSR array of ones, (m, n).

        `n_others` is how many neighbours each of them has beside these, which nobody shares.
        """
        common: Floats = (table @ self.adjacency.T).toarray()
        union = (np.diff(table.indptr) + n_others)[:, None] + self.degrees - common
        np.divide(common, union, out=common, where=union > 0)  # two isolated nodes: 0 of 0
        return 1.0 - common

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        distances = self.cross(self.adjacency[indices])
        distances[np.arange(len(indices)), indices] = 0.0
        return distances

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        values = np.empty(len(i))
        ends = np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
        jaccard_of_pairs(self.adjacency.indptr, self.adjacency.indices, *ends, values)
        return values


@kernel
def jaccard_of_pairs(indptr: Ints, indices: Ints, i: Indices, j: Indices, values: Floats) -> None:
    """Fill `values` by merging sorted lists of neighbours."""
    for k in range(i.size):
        a, a_end = indptr[i[k]], indptr[i[k] + 1]
        b, b_end = indptr[j[k]], indptr[j[k] + 1]
        total, common = (a_end - a) + (b_end - b), 0
        while a < a_end and b < b_end:
            if indices[a] == indices[b]:
                common += 1
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                a += 1
            else:
                b += 1
        values[k] = 0.0 if i[k] == j[k] else 1.0
        if common > 0 and i[k] != j[k]:
            values[k] = 1.0 - common / (total - common)


@states(SourceFacts("no", bound=1.0, row_cost="O(n), and the degrees of the neighbours"))
def resource_allocation(graph: Any, *, nodes: Any = None) -> DissimilarityMatrix:
    """Resource allocation, normalised: ``1 - RA_ij / sqrt(RA_ii RA_jj)``.

    ``RA_ij = sum over common neighbours k of 1 / degree(k)`` is what j receives if i sends one unit
    to each neighbour, and each passes it on in equal parts: a neighbour shared by few tells more
    than one shared by many. RA is the Gram matrix of the rows of ``A diag(degree)^(-1/2)``, so that
    dividing by the diagonal makes it a cosine: in [0, 1], whatever the degrees, and exactly 0 for
    nodes with the same neighbours. ``exp(-RA)`` would not be 0 on the diagonal.

    Parameters
    ----------
    graph, nodes
        See :func:`~metricmix.dissimilarity.graphs.as_graph`. Weights and directions are ignored.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "resource_allocation", with the ids of the nodes in `items` (None for numbered rows).
        An isolated node is at 1 from every other node. Costs one
        sparse product, O(sum of squared degrees), and O(n^2) memory.

    Raises
    ------
    InputError
        If the graph is not acceptable.

    >>> resource_allocation([(0, 1), (1, 2), (2, 3)], nodes=4).round(3)
    array([[0.   , 1.   , 0.423, 1.   ],
           [1.   , 0.   , 1.   , 0.423],
           [0.423, 1.   , 0.   , 1.   ],
           [1.   , 0.423, 1.   , 0.   ]])
    """
    joined = as_graph(graph, nodes=nodes, weight="ignore")
    adjacency = joined.adjacency
    degree = np.diff(adjacency.indptr)
    check_square_fits(
        adjacency.shape[0], 8, what="the matrix", argument="graph", instead="take fewer items"
    )
    shares = adjacency.multiply(1 / np.sqrt(np.maximum(degree, 1))[None, :]).tocsr()
    distances = np.asarray(features(shares, "cosine"))
    np.minimum(distances, 1.0, out=distances)
    isolated = np.flatnonzero(degree == 0)
    distances[np.ix_(isolated, isolated)] = 1.0
    np.fill_diagonal(distances, 0.0)
    items = graph_items(graph, nodes, joined.nodes)
    known = facts("resource_allocation")
    return as_dissimilarity(distances, "resource_allocation", items=items, facts=known)


class ShortPaths(Source):
    r"""Lengths of paths of one or two links; all others count as two of the longest links.

    .. math:: M_{ij} = \min\Big(w_{ij},\; \min_k (w_{ik} + w_{kj}),\; 2 \max w\Big)

    where w is infinite between items without a link. The value of a pair costs the degrees of its
    two ends, whatever the size of the graph; paths of any number of links would cost a search.

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
