r"""Out-of-sample distances over sparse edges: new items joined by a few edges each.

.. math:: d(x, j) = \min_{u \in N(x)} \; w(x, u) + d(u, j)

over the edges N(x) of a new item x. A distance costs one addition per edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.compile import kernel_step
from metricmix.kernels.mixing import link_in_place
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.neighbours import kneighbors, nearest_labelled
from metricmix.paths.out_of_sample import ROUNDING, ROW_ROUNDING, NewItems, nearest_by_table
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["SparseNewItems", "has_edges_of", "join_distances"]


@dataclass(frozen=True)
class SparseNewItems(NewItems):
    """M new items, joined by sparse edges: what ``NewItems.from_rows`` makes of `CrossEdges`.

    Attributes
    ----------
    m : (A,) array
        Mixture values of their edges, before the link.
    rows : CrossEdges
        These edges.

    The others are those of :class:`~metricmix.paths.out_of_sample.NewItems`.
    """

    rows: CrossEdges = None  # type: ignore[assignment]

    @classmethod
    def from_edges(
        cls, lengths: EdgeLengths, rows: CrossEdges, *, n_jobs: int | None = None
    ) -> SparseNewItems:
        """Join new items whose edges to the stack's items are `rows`."""
        same = find_same(lengths, rows)
        m = np.asarray(lengths.raw_weights @ rows.values, dtype=np.float64)
        weights = None
        if lengths.item_weights is not None:
            weights = lengths.new_item_weights(*padded(rows, m), same)
        if weights is not None and lengths.item_weights is not None:
            own = np.repeat(weights, np.diff(rows.indptr), axis=0).T
            m = 0.5 * ((own + lengths.item_weights[:, rows.ends]) * rows.values).sum(axis=0)
        return cls(lengths, m, same, n_jobs, weights, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: Any) -> SparseNewItems:
        """Return some of the new items, by a mask or by numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        numbers = np.arange(len(self))[chosen]
        taken = [np.arange(*self.rows.indptr[[q, q + 1]]) for q in numbers]
        m = self.m[np.concatenate([np.empty(0, np.int64), *taken])]
        same, rows = self.same[chosen], self.rows.rows(chosen)
        return replace(self, m=m, same=same, weights=weights, rows=rows)

    def edges(self) -> Floats:
        """Return the lengths of all edges, (A,)."""
        w = self.m.copy()
        link_in_place(w, self.lengths.beta, self.lengths.link)
        w[self._to_same] = 0.0
        return w

    def edges_of(self, q: int) -> tuple[Indices, Floats]:
        """Return the items that new item q has edges to, and the lengths of these."""
        here = self.rows.row(q)
        return self.rows.ends[here], self.edges()[here]

    @property
    def _to_same(self) -> Indices:
        """The edges from new items to the items that they are."""
        row = np.repeat(np.arange(len(self)), np.diff(self.rows.indptr))
        return np.flatnonzero(self.rows.ends == self.same[row])

    def distances(self, d: AnyArray) -> Floats:
        """Return the distances to some items, (M, T), given those from all items, (n, T)."""
        w, found = self.edges(), np.empty((len(self), d.shape[1]))
        rows = self.rows
        in_threads(
            lambda share: join_distances(rows.indptr, rows.ends, w, d, *share, found),
            self._shares(),
            self.n_jobs,
        )
        return found

    def nearest(
        self, wanted: NDArray[np.bool_], k: int, table: tuple[Floats, Indices] | None = None
    ) -> tuple[Floats, Indices]:
        """Return the k nearest wanted items of every new item: distances and numbers, (M, k).

        `table` has those of every item of the stack, if they are known.
        """
        near, who = self._table(wanted, k) if table is None else table
        m = self.m.copy()
        m[self._to_same] = -np.inf  # an edge of length 0
        distances, items = np.empty((len(self), k)), np.empty((len(self), k), np.int64)
        link = (self.lengths.beta, self.lengths.link)
        for q in range(len(self)):
            here = self.rows.row(q)
            ends, some = self.rows.ends[here], slice(q, q + 1)
            nearest_by_table(
                m[None, here], *link, 0, 1, near[ends], who[ends], distances[some], items[some]
            )
        self.correct_zeros(distances)
        return distances, items

    def _table(self, wanted: NDArray[np.bool_], k: int) -> tuple[Floats, Indices]:
        """Return the k nearest wanted items of the items that edges lead to."""
        lengths = self.lengths
        if not wanted.all():
            return nearest_labelled(lengths, None, np.flatnonzero(wanted), k)
        near, who = np.full((lengths.n, k), np.inf), np.full((lengths.n, k), -1)
        ends = np.unique(self.rows.ends)
        near[ends, 0], who[ends, 0] = 0.0, ends
        if k > 1:
            near[ends, 1:], who[ends, 1:] = kneighbors(
                lengths, None, k - 1, ends, n_jobs=self.n_jobs
            )
        return near, who

    def _shares(self) -> list[tuple[int, int]]:
        """Return ranges of the new items, for threads."""
        count = min(len(self), 4 * effective_threads(self.n_jobs))
        return list(pairwise(np.linspace(0, len(self), count + 1).astype(np.int64).tolist()))


def padded(rows: CrossEdges, m: Floats) -> tuple[Floats, Indices]:
    """Return values on edges, and their ends, as (M, D) arrays; inf and 0 beyond the last edge."""
    counts = np.diff(rows.indptr)
    shape = (len(rows), int(counts.max(initial=1)))
    row = np.repeat(np.arange(len(rows)), counts)
    place = np.arange(len(m)) - np.repeat(rows.indptr[:-1], counts)
    values, ends = np.full(shape, np.inf), np.zeros(shape, np.int64)
    values[row, place], ends[row, place] = m, rows.ends
    return values, ends


def find_same(lengths: EdgeLengths, rows: CrossEdges) -> Indices:
    """Return which new items have the very edges of an item of the stack; -1 for the others."""
    stack = lengths.stack
    same = np.full(len(rows), -1)
    equal = (rows.values <= ROUNDING * stack.scales[:, None]).all(axis=0)
    row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    for edge in np.flatnonzero(equal):
        q, u = int(row[edge]), int(rows.ends[edge])
        if same[q] < 0 and has_edges_of(stack, rows, q, u):
            same[q] = u
    return same


def has_edges_of(stack: DissimilarityStack, rows: CrossEdges, q: int, u: int) -> bool:
    """Return whether new item q is at 0 from item u, and has the edges of u else."""
    assert isinstance(stack, EdgeStack)
    arcs, here = stack.edges.out, rows.row(q)
    own = slice(arcs.indptr[u], arcs.indptr[u + 1])
    ends, raw = rows.ends[here], rows.values[:, here]
    others = ends != u
    if others.all() or not np.array_equal(ends[others], arcs.ends[own]):
        return False
    scales, theirs = stack.scales[:, None], stack.values[:, arcs.edge[own]]
    close = np.abs(raw[:, others] - theirs) <= ROW_ROUNDING * (scales + theirs)
    return bool(close.all() and (raw[:, ~others] <= ROUNDING * scales).all())


@kernel_step
def join_distances(
    indptr: Indices,
    ends: Indices,
    w: Floats,
    d: AnyArray,
    start: int,
    stop: int,
    found: Floats,
) -> None:
    """Fill the distances of the new items start .. stop - 1 through their edges."""
    for q in range(start, stop):
        row = found[q]
        row[:] = np.inf
        for edge in range(indptr[q], indptr[q + 1]):
            onward = d[ends[edge]]
            for t in range(row.shape[0]):
                row[t] = min(row[t], w[edge] + onward[t])
