"""The stack over a sparse edge set: R values on each of E edges in place of R matrices."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.matrix import ItemIds, SourceFacts, check_ids
from metricmix.dissimilarity.sources import SCALINGS, Source
from metricmix.dissimilarity.stack import DissimilarityStack, check_names
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice

__all__ = ["EdgeSource", "EdgeStack"]


class EdgeSource(Source):
    """One dissimilarity that is known on the edges of a set, and infinite elsewhere."""

    def __init__(self, edges: EdgeSet, values: AnyArray, name: str | None = None) -> None:
        self.edges, self.values, self.name = edges, values, name
        self.n, self.directed = edges.n, edges.directed

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, inf where there is no edge."""
        return self._rows(indices, self.edges.out)

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, inf where there is no edge."""
        return self._rows(indices, self.edges.into)

    def _rows(self, indices: Indices, arcs: tuple[AnyArray, AnyArray, AnyArray]) -> AnyArray:
        indptr, ends, edge = arcs
        rows = np.full((len(indices), self.n), np.inf)
        for row, u in zip(rows, indices, strict=True):
            here = slice(indptr[u], indptr[u + 1])
            row[ends[here]] = self.values[edge[here]]
            row[u] = 0.0
        return rows

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise, inf where there is no edge."""
        found = self.edges.find(i, j)
        values = np.full(found.shape, np.inf)
        known = found >= 0
        values[known] = self.values[found[known]]
        values[np.equal(i, j)] = 0.0
        return values


class EdgeStack(DissimilarityStack):
    r"""R dissimilarities on the E edges of a sparse set over n items; immutable.

    The learned distance is the length of the shortest path along these edges: a true metric, and,
    for the same weights, never below the one over all pairs.

    Parameters
    ----------
    edges : EdgeSet
    values : (R, E) array
        The dissimilarities of the two ends of each edge, in the order of ``edges.tails``. Not
        negative. Used without a copy.
    names : sequence of str, optional
    items : sequence of n different hashable ids, optional
    scaling : {None, "none", "norm", "mean", "max"} or array of R numbers
        As for :class:`DissimilarityStack`, over the edges.
    facts : sequence of SourceFacts or None, optional
        What is known to hold for the sources.
    origin : DissimilarityStack, optional
        The same sources between any two items, from which supervised ones are computed anew for
        other labels. Its scales are taken over where it has some.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> edges = mm.dissimilarity.EdgeSet(3, [0, 1], [1, 2])
    >>> stack = mm.EdgeStack(edges, np.array([[1.0, 2.0]]), ["walk"])
    >>> stack
    EdgeStack(n=3, edges=2, sources=['walk'])
    >>> mm.shortest_path(stack, [1.0], 0, 2).nodes
    (0, 1, 2)
    """

    def __init__(
        self,
        edges: EdgeSet,
        values: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        items: Sequence[object] | None = None,
        scaling: str | ArrayLike | None = None,
        facts: Sequence[SourceFacts | None] | None = None,
        origin: DissimilarityStack | None = None,
    ) -> None:
        table = np.atleast_2d(np.asarray(values))
        if table.ndim != 2 or table.shape[1] != len(edges) or len(table) == 0:
            raise InputError(
                argument="values",
                expected=f"shape (R, {len(edges)}), a value per source and edge",
                found=table.shape,
            )
        if table.dtype not in (np.float32, np.float64):
            table = table.astype(np.float64)
        for row in table:  # one source at a time: no copy of all of them
            if not (np.isfinite(row).all() and row.min(initial=0.0) >= 0):
                raise InputError(
                    argument="values",
                    expected="finite dissimilarities >= 0, found NaN, infinity or negative ones",
                )
        self.edges, self.values, self.origin = edges, table.view(), origin
        self.values.flags.writeable = False
        self._n, self._directed = edges.n, edges.directed
        self._items = ItemIds(self._n, None if items is None else check_ids(items, self._n))
        self._block = None
        self._sources = tuple(EdgeSource(edges, row) for row in table)
        self._names = check_names(names, list(self._sources))
        self._n_unreachable = (0,) * len(table)
        self._facts = tuple(facts or (None,) * len(table))
        self._ranges = {}
        self._scaling, self._scales = self._resolve_scaling(scaling)

    def __repr__(self) -> str:
        listed = f"n={self._n}, edges={len(self.edges)}, sources={list(self._names)}"
        return f"EdgeStack({listed}{', directed=True' * self._directed})"

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs, (R, len(i)), undivided; inf where there is no edge."""
        return np.stack([source.pairs(i, j) for source in self._sources])

    def select(self, names: Sequence[str | int]) -> EdgeStack:
        """Return a stack of some of the sources, in the order given."""
        chosen = [self._position(name) for name in names]
        stack = copy.copy(self)
        stack.values = self.values[chosen]
        stack._sources = tuple(self._sources[r] for r in chosen)
        stack._names = tuple(self._names[r] for r in chosen)
        stack._facts = tuple(self._facts[r] for r in chosen)
        stack._n_unreachable = (0,) * len(chosen)
        stack._scales = self._scales[chosen]
        stack.origin = None if self.origin is None else self.origin.select(names)
        return stack

    def _resolve_scaling(self, scaling: str | ArrayLike | None) -> tuple[str, Floats]:
        name = "none" if scaling is None else scaling
        if not isinstance(name, str):
            return super()._resolve_scaling(scaling)
        check_choice(name, SCALINGS, name="scaling")
        if self.origin is not None and self.origin.scaling != "none":
            return self.origin.scaling, self.origin.scales
        scales = np.ones(len(self.values))
        for r, row in enumerate(self.values if name != "none" and len(self.edges) else []):
            scale = float(
                np.sqrt(np.square(row, dtype=np.float64).mean())
                if name == "norm"
                else row.max()
                if name == "max"
                else row.mean(dtype=np.float64)
            )
            scales[r] = scale or 1.0
        scales.flags.writeable = False
        return name, scales
