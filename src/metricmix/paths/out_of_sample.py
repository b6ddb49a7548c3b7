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

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.minplus import min_plus
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, link_in_place, tangent_of
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, EdgeLengths
from metricmix.mixture.network import NetworkMixture
from metricmix.paths.dijkstra import (
    Goal,
    SearchState,
    open_item,
    open_roots,
    search_dense,
    search_rows,
)
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "NewItems",
    "are_items",
    "nearest_by_table",
    "nearest_wanted",
    "open_entries",
    "take_wanted",
]

ROUNDING = 1e-12
"""Dissimilarities up to this share of the scale of their source count as 0."""
ROW_ROUNDING = 1e-6
"""Relative difference up to which two rows count as equal (float32 sources included)."""


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
    weights : (M, R) array, optional
        Weights of the raw sources at the new items, where the mixture is a local one.
    """

    lengths: EdgeLengths
    m: Floats
    same: Indices
    n_jobs: int | None = None
    weights: Floats | None = None

    @classmethod
    def from_rows(
        cls, lengths: EdgeLengths, rows: AnyArray | CrossEdges, *, n_jobs: int | None = None
    ) -> NewItems:
        """Join new items to the items of a stack.

        `rows` are their raw dissimilarities to all of these, (M, n, R), or, over a sparse edge set,
        those on their edges.
        """
        if isinstance(rows, CrossEdges):
            from metricmix.paths.sparse_new_items import SparseNewItems

            return SparseNewItems.from_edges(lengths, rows, n_jobs=n_jobs)
        if isinstance(lengths.mixture, NetworkMixture):
            m = lengths.mixture.values(np.moveaxis(rows, -1, 0), lengths.stack)
        else:
            m = np.asarray(rows @ lengths.raw_weights, dtype=np.float64)
        same = find_same_items(lengths, rows, m)
        weights = lengths.new_item_weights(m, None, same)
        if weights is not None and lengths.item_weights is not None:
            m = 0.5 * (
                np.einsum("mnr,mr->mn", rows, weights)
                + np.einsum("mnr,rn->mn", rows, lengths.item_weights)
            )
        return cls(lengths, np.ascontiguousarray(m), same, n_jobs, weights)

    def __len__(self) -> int:
        return len(self.m)

    def select(self, chosen: Any) -> NewItems:
        """Return some of the new items, by a mask or by numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        m = np.ascontiguousarray(self.m[chosen])
        return replace(self, m=m, same=self.same[chosen], weights=weights)

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


def are_items(stack: DissimilarityStack, rows: AnyArray | CrossEdges, first: int) -> bool:
    """Return whether `rows` are those of the items first, first + 1, … of the stack.

    See :meth:`NewItems.from_rows`.
    """
    if first + len(rows) > stack.n_items:
        return False
    if isinstance(rows, CrossEdges):
        from metricmix.paths.sparse_new_items import has_edges_of

        return all(has_edges_of(stack, rows, q, first + q) for q in range(len(rows)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        if not _same_rows(stack, some, first + start + np.arange(len(some))).all():
            return False
    return True


def find_same_items(lengths: EdgeLengths, raw: AnyArray, m: Floats) -> Indices:
    """Return which new items have the very row of an item of the stack; -1 for the others.

    Of several such items, the first.
    """
    weights, scales = lengths.raw_weights, lengths.stack.scales
    same = np.full(len(raw), -1)
    # Where no source tells two items apart, neither does the mixture: few places to look at.
    near = np.abs(m) <= ROUNDING * float(np.abs(weights) @ scales)
    item, place = np.nonzero(near)
    equal = (np.abs(raw[item, place]) <= ROUNDING * scales).all(axis=1)
    item, place = item[equal], place[equal]
    while len(item):  # the next place of each item that is still looking for one
        known, first = np.unique(item, return_index=True)
        for start in range(0, len(known), ROWS_AT_ONCE):
            chunk = slice(start, start + ROWS_AT_ONCE)
            some, at = known[chunk], place[first[chunk]]
            same[some] = np.where(_same_rows(lengths.stack, raw[some], at), at, -1)
        left = same[item] < 0
        left[first] = False
        item, place = item[left], place[left]
    return same


def _same_rows(stack: DissimilarityStack, raw: AnyArray, items: Indices) -> NDArray[np.bool_]:
    """Return which of the rows `raw` (M, n, R) are those of the items, up to rounding."""
    theirs = np.moveaxis(stack.raw_rows(items), 0, -1)
    close = np.abs(raw - theirs) <= ROW_ROUNDING * (stack.scales + theirs)
    return np.asarray(close.all(axis=(1, 2)))


# -- kernels -------------------------------------------------------------------------------------


@kernel
def open_entries(m: Floats, beta: float, link: int, goal: Goal, state: SearchState) -> None:
    """Open the items at which a path from a new item, with mixture values `m`, may enter the stack.

    The link is increasing, so the k-th smallest value of a wanted item bounds all that matters:
    items beyond it, and paths longer than its edge, are left out.
    """
    dist, key, chunk_min = state.dist, state.key, state.chunk_min
    k, wanted = goal.limit, goal.wanted
    open_roots(np.empty(0, np.int64), state)
    smallest = np.full(k, np.inf)
    for v in range(m.shape[0]):
        if wanted[v] and m[v] < smallest[k - 1]:
            place = k - 1
            while place > 0 and smallest[place - 1] > m[v]:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = m[v]
    cap = smallest[k - 1]
    beyond = np.nextafter(length_of(cap, beta, link), np.inf)
    for v in range(m.shape[0]):
        if m[v] <= cap:
            open_item(v, length_of(m[v], beta, link), dist, key, chunk_min)
        else:
            dist[v] = beyond


@kernel
def nearest_wanted(
    lengths: DenseLengths,
    m: Floats,
    start: int,
    stop: int,
    goal: Goal,
    state: SearchState,
    distances: Floats,
    items: Indices,
) -> None:
    """Find the k nearest wanted items of the new items start .. stop - 1, one search each.

    `m` (M, n) holds their mixture values; `distances` and `items` (M, k) receive the answers.
    """
    for q in range(start, stop):
        open_entries(m[q], lengths.beta, lengths.link, goal, state)
        search_dense(lengths, False, goal, state)
        take_wanted(goal, state, distances[q], items[q])


@kernel_step
def take_wanted(goal: Goal, state: SearchState, distances: Floats, items: Indices) -> None:
    """Write the wanted items of a search that has ended, and their distances."""
    found = 0
    for k in range(state.counts[0]):
        v = state.order[k]
        if goal.wanted[v]:
            distances[found] = state.dist[v]
            items[found] = v
            found += 1


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
