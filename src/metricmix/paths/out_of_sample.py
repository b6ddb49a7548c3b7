r"""Out-of-sample distances: from new items to the items of a stack.

.. math:: d(x, j) = \min_u \; w(x, u) + d(u, j)

A new item x is joined to the n items of a stack by edges, and is the first item of its paths only.
Its distances take one min-plus product with known distances d(u, j), its nearest labelled items a
short search or a look-up in the nearest ones of every u. No all-pairs computation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.cross_edges import CrossEdges, find_same_items
from metricmix.kernels.compile import kernel_step
from metricmix.kernels.minplus import min_plus
from metricmix.kernels.mixing import floor_of, length_of, link_in_place, tangent_of
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.network import NetworkMixture
from metricmix.paths.dijkstra import (
    Goal,
    SearchState,
    nearest_wanted,
    open_entries,
    search_rows,
    take_wanted,
)
from metricmix.paths.neighbours import kneighbors, nearest_labelled
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["NewItems", "SparseNewItems", "join_distances", "nearest_by_table"]


@dataclass(frozen=True)
class NewItems:
    """M new items, joined by edges to the n items of a stack.

    Attributes
    ----------
    lengths : EdgeLengths
        Of the edges between the items of the stack.
    m : (M, n) array
        Mixture values of the edges from the new items, before the link.
    same : (M,) array
        For a new item whose row is that of an item of the stack, 0 to itself included, that item:
        it *is* that item, at distance 0 from it. -1 for all others.
    n_jobs : int, optional
        Threads.
    shares : (M, C) array, optional
        Memberships of the new items, where the mixture is a local one.
    rows : (M, n, R) array, optional
        Their raw dissimilarities.
    """

    lengths: EdgeLengths
    m: Floats
    same: Indices
    n_jobs: int | None = None
    shares: Floats | None = None
    rows: Any = None

    @classmethod
    def from_rows(
        cls, lengths: EdgeLengths, rows: AnyArray | CrossEdges, *, n_jobs: int | None = None
    ) -> NewItems:
        """Join new items to the items of a stack.

        `rows` are their raw dissimilarities to all of these, (M, n, R), or, over a sparse edge set,
        those on their edges.
        """
        if isinstance(rows, CrossEdges):
            return SparseNewItems.from_edges(lengths, rows, n_jobs=n_jobs)
        if isinstance(lengths.mixture, NetworkMixture):
            m = lengths.mixture.values(np.moveaxis(rows, -1, 0), lengths.stack)
        else:
            m = np.asarray(rows @ lengths.raw_weights, dtype=np.float64)
        same = find_same_items(lengths.stack, rows, m, lengths.raw_weights)
        shares = lengths.mixed.new_shares(m, None, same)
        if shares is not None:
            new, mixed = lengths.n + np.arange(len(m)), lengths.mixed.joined(shares)
            m = mixed.values(np.moveaxis(rows, -1, 0), new[:, None], np.arange(lengths.n)[None])
        return cls(lengths, np.ascontiguousarray(m), same, n_jobs, shares, rows)

    def __len__(self) -> int:
        return len(self.m)

    def select(self, chosen: Any) -> NewItems:
        """Return some of the new items, by a mask or by numbers."""
        shares = None if self.shares is None else self.shares[chosen]
        m, rows = np.ascontiguousarray(self.m[chosen]), self.rows
        rows = None if rows is None else rows[chosen]
        return replace(self, m=m, same=self.same[chosen], shares=shares, rows=rows)

    def edges(self) -> Floats:
        """Return the lengths of the edges to all items, (M, n)."""
        w = self.m.copy()
        parts = np.array_split(w, 4 * effective_threads(self.n_jobs))
        in_threads(
            lambda part: link_in_place(part, self.lengths.beta, self.lengths.link),
            [part for part in parts if len(part)],
            self.n_jobs,
        )
        w[self.same >= 0, self.same[self.same >= 0]] = 0.0
        return w

    def edges_of(self, q: int) -> tuple[Indices, Floats]:
        """Return the items that new item q has edges to, and the lengths of these."""
        return np.arange(self.lengths.n), self.select([q]).edges()[0]

    def distances(self, d: Floats) -> Floats:
        """Return the distances to some items, given those from all items to them.

        Parameters
        ----------
        d : (n, T) array
            Distances from every item of the stack to the T items.

        Returns
        -------
        (M, T) array
            One min-plus product, M n T pairs of operations at most.
        """
        return min_plus(self.edges(), d, n_jobs=self.n_jobs)

    def nearest(
        self, wanted: NDArray[np.bool_], k: int, table: tuple[Floats, Indices] | None = None
    ) -> tuple[Floats, Indices]:
        """Return the k nearest wanted items of every new item.

        Parameters
        ----------
        wanted : (n,) mask
            At least k items.
        k : int
        table : pair of (n, k) arrays, optional
            Distances and numbers of the k nearest wanted items of every item of the stack, if known
            (:func:`~metricmix.paths.nearest_labelled`): one pass over the edges is enough then.
            Without it, a search per new item settles items until it has found k wanted ones.

        Returns
        -------
        distances, items : (M, k) arrays
            Nearest first.
        """
        m = self.m
        if (self.same >= 0).any():  # an edge of length 0 leads to an equal item
            m = m.copy()
            known = np.flatnonzero(self.same >= 0)
            m[known, self.same[known]] = -np.inf
        lengths, dense = self.lengths, self.lengths.dense
        distances = np.empty((len(m), k))
        items = np.empty((len(m), k), np.int64)
        threads = effective_threads(self.n_jobs)
        ends = np.linspace(0, len(m), min(len(m), 4 * threads) + 1).astype(np.int64)
        shares = list(pairwise(ends.tolist()))
        goal = Goal(k, wanted, ties=False, cap=False)

        def search(share: tuple[int, int]) -> None:
            state = SearchState.empty(lengths.n)
            if dense is not None:
                nearest_wanted(dense, m, *share, goal, state, distances, items)
                return
            for q in range(*share):
                open_entries(m[q], lengths.beta, lengths.link, goal, state)
                search_rows(lengths, False, goal, state)
                take_wanted(goal, state, distances[q], items[q])

        if table is not None:
            link = (lengths.beta, lengths.link)
            in_threads(
                lambda share: nearest_by_table(m, *link, *share, *table, distances, items),
                shares,
                threads,
            )
        else:  # without a block rows have to be requested, one after another
            in_threads(search, shares, threads if dense is not None else 1)
        self.correct_zeros(distances)
        return distances, items

    def correct_zeros(self, distances: Floats) -> None:
        """Set distances (M, k) from items to themselves to 0.

        The link of -inf is the smallest number above 0.
        """
        entered = (self.same >= 0)[:, None] & (distances <= np.finfo(np.float64).tiny)
        distances[entered] = 0.0


@dataclass(frozen=True)
class SparseNewItems(NewItems):
    """M new items, joined by sparse edges: what ``NewItems.from_rows`` makes of `CrossEdges`.

    Attributes
    ----------
    m : (A,) array
        Mixture values of their edges, before the link.
    rows : CrossEdges
        These edges.

    The others are those of :class:`NewItems`. A distance costs one addition per edge.
    """

    rows: CrossEdges = None  # type: ignore[assignment]

    @classmethod
    def from_edges(
        cls, lengths: EdgeLengths, rows: CrossEdges, *, n_jobs: int | None = None
    ) -> SparseNewItems:
        """Join new items whose edges to the stack's items are `rows`."""
        m = np.asarray(lengths.raw_weights @ rows.values, dtype=np.float64)
        same = find_same_items(lengths.stack, rows, m, lengths.raw_weights)
        shares = None
        if not lengths.is_linear:
            shares = lengths.mixed.new_shares(*padded(rows, m), same)
        if shares is not None:
            new = lengths.n + np.repeat(np.arange(len(same)), np.diff(rows.indptr))
            m = lengths.mixed.joined(shares).values(rows.values, new, rows.ends)
        return cls(lengths, m, same, n_jobs, shares, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: Any) -> SparseNewItems:
        """Return some of the new items, by a mask or by numbers."""
        shares = None if self.shares is None else self.shares[chosen]
        numbers = np.arange(len(self))[chosen]
        taken = [np.arange(*self.rows.indptr[[q, q + 1]]) for q in numbers]
        m = self.m[np.concatenate([np.empty(0, np.int64), *taken])]
        same, rows = self.same[chosen], self.rows.rows(chosen)
        return replace(self, m=m, same=same, shares=shares, rows=rows)

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


# -- kernels -------------------------------------------------------------------------------------


@kernel_step
def nearest_by_table(
    m: Floats,
    beta: float,
    link: int,
    start: int,
    stop: int,
    table_distances: Floats,
    table_items: Indices,
    distances: Floats,
    items: Indices,
) -> None:
    """Find the k nearest wanted items of new items from the k nearest of every item.

    `table_distances` and `table_items` (n, k) are sorted by distance. Wherever a path enters, at
    item u, the wanted items that it can lead to nearest are those of u.
    """
    k = distances.shape[1]
    shift, slope = tangent_of(beta, link)
    for q in range(start, stop):
        best, who = distances[q], items[q]
        for slot in range(k):
            best[slot] = np.inf
            who[slot] = -1
        for u in range(m.shape[1]):
            if floor_of(m[q, u], shift, slope) + table_distances[u, 0] >= best[k - 1]:
                continue
            edge = length_of(m[q, u], beta, link)
            for t in range(k):
                reached = edge + table_distances[u, t]
                if reached >= best[k - 1]:
                    break
                place = k - 1
                for slot in range(k):
                    if who[slot] == table_items[u, t]:
                        place = slot  # in the list already: only a shorter path counts
                        break
                if who[place] == table_items[u, t] and best[place] <= reached:
                    continue
                while place > 0 and best[place - 1] > reached:
                    best[place] = best[place - 1]
                    who[place] = who[place - 1]
                    place -= 1
                best[place] = reached
                who[place] = table_items[u, t]


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
