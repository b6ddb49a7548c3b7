r"""Dijkstra's algorithm on a complete graph whose rows of edge lengths are mixed on demand.

.. math:: d(v) = \min_{s \in \text{roots}} d(s, v)

A row of the mixture is computed when its item is settled, O(R n), and the link is evaluated only
for edges whose lower bound could shorten a path. Open items are kept in chunks of `CHUNK` with the
smallest distance of each, which costs less on a complete graph than a heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.heap import clear, reach
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, mix_row, tangent_of
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.sparse_pairs import arcs_of, grow_ball, use_balls
from metricmix.paths.sparse_rows import roots_of, search_all
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "CHUNK",
    "Goal",
    "SearchState",
    "SettledItems",
    "any_below",
    "cap_distances",
    "dijkstra",
    "nearest_wanted",
    "open_entries",
    "open_item",
    "open_roots",
    "pop_nearest",
    "refresh_chunk",
    "relax",
    "relax_row",
    "reset",
    "search_dense",
    "search_rows",
    "settle_row",
    "take_wanted",
]

CHUNK = 64
"""Items whose smallest key is kept: with n items a search compares n / 64 + 64 numbers per step."""


class SettledItems(NamedTuple):
    """The result of a search from some roots.

    Attributes
    ----------
    distances : (n,) array
        Final for the settled items.
    predecessors : (n,) array
        The item before each on its shortest path; -1 at the roots.
    roots : (n,) array
        The root at the other end of that path.
    settled : array
        The settled items, nearest first.
    """

    distances: Floats
    predecessors: Ints
    roots: Ints
    settled: Ints


class SearchState(NamedTuple):
    """The arrays of a search over n items.

    Attributes
    ----------
    dist : (n,) array
        Tentative distances, inf where nothing is known.
    key : (n,) array
        The distances of open items, inf for all others.
    chunk_min : (chunks,) array
        The smallest key of every chunk of items.
    pred, root : (n,) arrays
        Predecessor and root of the path behind `dist`.
    order : (n,) array
        The settled items, nearest first.
    counts : (2,) array
        How many items are settled, and how many of these are wanted.
    """

    dist: Floats
    key: Floats
    chunk_min: Floats
    pred: Ints
    root: Ints
    order: Ints
    counts: Indices

    @classmethod
    def empty(cls, n: int) -> SearchState:
        """Return uninitialised arrays for n items."""
        chunks, counts = np.empty(-(-n // CHUNK)), np.empty(2, np.int64)
        pred, root, order = np.empty((3, n), np.int32)
        return cls(np.empty(n), np.empty(n), chunks, pred, root, order, counts)


class Goal(NamedTuple):
    """When a search ends: once `limit` of the `wanted` items (a mask) are settled.

    With `ties`, all items as near as the last of them are settled too. With `cap`, there is one
    root and all items are wanted, so that items beyond the limit-th edge can be left out.
    """

    limit: int
    wanted: NDArray[np.bool_]
    ties: bool
    cap: bool


def dijkstra(
    lengths: EdgeLengths, roots: Indices, *, limit: int | None = None, reverse: bool = False
) -> SettledItems:
    """Settle the `limit` items nearest to the set of `roots` (default: all items).

    Items at the same distance as the last of them are settled too, so that ties can be broken by
    number. With `reverse`, distances run from the items to the roots. Each settled item costs one
    row of the mixture: computed in the kernel where the sources are in memory, else requested.
    """
    n = lengths.n
    limit = n if limit is None else limit
    if lengths.edges is not None:
        return dijkstra_sparse(lengths, roots, limit, reverse)
    state = SearchState.empty(n)
    open_roots(roots, state)
    cap = limit < n and len(roots) == 1
    search_rows(lengths, reverse, Goal(limit, np.ones(n, np.bool_), True, cap), state)
    return SettledItems(state.dist, state.pred, state.root, state.order[: state.counts[0]])


def search_rows(lengths: EdgeLengths, reverse: bool, goal: Goal, state: SearchState) -> None:
    """Run a search to its goal, over rows mixed in the kernel or requested one by one."""
    if lengths.dense is not None:
        search_dense(lengths.dense, reverse, goal, state)
        return
    while (u := settle_row(goal, state)) >= 0:
        m = lengths.mixed_rows(np.array([u]), reverse=reverse)[0]
        relax_row(u, m, lengths.beta, lengths.link, goal, state)


def dijkstra_sparse(
    lengths: EdgeLengths, roots: Indices, limit: int, reverse: bool
) -> SettledItems:
    """Settle the `limit` nearest items over a sparse edge set; the others are left at inf."""
    n = lengths.n
    root = np.full(n, -1, np.int32)
    if limit >= n:
        dist, pred = search_all(lengths, roots, reverse=reverse)
        roots_of(dist, pred, root)
        order = np.argsort(dist, kind="stable")[: np.isfinite(dist).sum()].astype(np.int32)
        return SettledItems(dist, pred, root, order)
    dist, pred = np.full(n, np.inf), np.full(n, -1, np.int32)
    with use_balls(lengths) as (ball, _):
        for r in np.unique(roots):
            reach(r, 0.0, -1, ball)
        grow_ball(arcs_of(lengths, 1, reverse=reverse), limit, ball)
        order = ball.order[: ball.counts[1]].copy()
        dist[order], pred[order] = ball.dist[order], ball.pred[order]
        clear(ball)
    roots_of(dist, pred, root)
    return SettledItems(dist, pred, root, order)


# -- open items ----------------------------------------------------------------------------------


@kernel_step
def reset(dist: Floats, key: Floats, chunk_min: Floats, pred: Ints) -> None:
    """Set every item to unreached."""
    for v in range(dist.shape[0]):  # loops compile ten times faster than assignments to slices
        dist[v] = np.inf
        key[v] = np.inf
        pred[v] = -1
    for c in range(chunk_min.shape[0]):
        chunk_min[c] = np.inf


@kernel_step
def open_item(v: int, distance: float, dist: Floats, key: Floats, chunk_min: Floats) -> None:
    """Give item v a tentative distance."""
    dist[v] = distance
    key[v] = distance
    c = v // CHUNK
    if distance < chunk_min[c]:
        chunk_min[c] = distance


@kernel_step
def refresh_chunk(c: int, key: Floats, chunk_min: Floats) -> None:
    """Recompute the smallest key of chunk c."""
    smallest = np.inf
    for v in range(c * CHUNK, min(c * CHUNK + CHUNK, key.shape[0])):
        if key[v] < smallest:
            smallest = key[v]
    chunk_min[c] = smallest


@kernel_step
def pop_nearest(key: Floats, chunk_min: Floats) -> int:
    """Close and return the open item with the smallest key, or return -1 if none is open."""
    best = np.inf
    chunk = -1
    for c in range(chunk_min.shape[0]):
        if chunk_min[c] < best:
            best = chunk_min[c]
            chunk = c
    if chunk < 0:
        return -1
    u = chunk * CHUNK
    while key[u] != best:
        u += 1
    key[u] = np.inf
    refresh_chunk(chunk, key, chunk_min)
    return u


# -- the search ----------------------------------------------------------------------------------


@kernel_step
def open_roots(roots: Indices, state: SearchState) -> None:
    """Start a search: every item unreached, every root at distance 0."""
    reset(state.dist, state.key, state.chunk_min, state.pred)
    state.counts[0] = 0
    state.counts[1] = 0
    for v in range(state.root.shape[0]):
        state.root[v] = -1
    for r in roots:
        state.root[r] = r
        open_item(r, 0.0, state.dist, state.key, state.chunk_min)


@kernel_step
def any_below(start: float, m: Floats, shift: float, slope: float, bound: Floats) -> bool:
    """Return whether any edge of a chunk may lead from `start` to below its bound; branch-free."""
    count = 0
    for k in range(m.shape[0]):
        count += 1 if start + floor_of(m[k], shift, slope) < bound[k] else 0
    return count > 0


@kernel_step
def relax(u: int, m: Floats, beta: float, link: int, state: SearchState) -> None:
    """Relax every edge out of the settled item u; m is its row of the mixture, before the link.

    The link is evaluated only where its lower bound could improve a distance. Settled items never
    improve: their distance is at most that of u.
    """
    dist, key, chunk_min = state.dist, state.key, state.chunk_min
    n = dist.shape[0]
    du = dist[u]
    shift, slope = tangent_of(beta, link)
    for c in range(chunk_min.shape[0]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        if not any_below(du, m[low:high], shift, slope, dist[low:high]):
            continue
        for v in range(low, high):
            if v != u and du + floor_of(m[v], shift, slope) < dist[v]:
                reached = du + length_of(m[v], beta, link)
                if reached < dist[v]:
                    state.pred[v] = u
                    state.root[v] = state.root[u]
                    open_item(v, reached, dist, key, chunk_min)


@kernel
def cap_distances(limit: int, state: SearchState) -> None:
    """Close items that cannot be among the `limit` nearest, once one row has been relaxed."""
    dist, key, chunk_min = state.dist, state.key, state.chunk_min
    # The limit-th smallest distance, by insertion: numpy's partition takes seconds to compile.
    smallest = np.full(limit, np.inf)
    for v in range(dist.shape[0]):
        if dist[v] < smallest[limit - 1]:
            place = limit - 1
            while place > 0 and smallest[place - 1] > dist[v]:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = dist[v]
    cap = smallest[limit - 1]
    if cap == np.inf:
        return
    beyond = np.nextafter(cap, np.inf)
    for v in range(dist.shape[0]):
        if dist[v] > cap:
            dist[v] = beyond  # only a path no longer than the cap can open the item again
            key[v] = np.inf
    for c in range(chunk_min.shape[0]):
        if chunk_min[c] > cap:
            chunk_min[c] = np.inf


@kernel_step
def settle_row(goal: Goal, state: SearchState) -> int:
    """Settle the nearest open item; return it, or -1 if its row is not needed."""
    dist, order, counts = state.dist, state.order, state.counts
    u: int = pop_nearest(state.key, state.chunk_min)
    if u < 0 or (counts[1] >= goal.limit and dist[u] > dist[order[counts[0] - 1]]):
        return -1
    order[counts[0]] = u
    counts[0] += 1
    counts[1] += 1 if goal.wanted[u] else 0
    done = counts[0] == dist.shape[0] or (counts[1] >= goal.limit and not goal.ties)
    return -1 if done else u


@kernel
def relax_row(u: int, m: Floats, beta: float, link: int, goal: Goal, state: SearchState) -> None:
    """Relax every edge out of the settled item u; see :func:`relax`, and :class:`Goal`."""
    relax(u, m, beta, link, state)
    if goal.cap and state.counts[0] == 1:
        cap_distances(goal.limit, state)


@kernel
def search_dense(lengths: DenseLengths, reverse: bool, goal: Goal, state: SearchState) -> None:
    """Settle items until the goal is reached; the roots are open.

    `state.order` receives them as they are settled, `state.pred` the item before each on its
    shortest path (after it, when `reverse`), `state.root` the root of the path.
    """
    m = np.empty(state.dist.shape[0])
    while True:
        u = settle_row(goal, state)
        if u < 0:
            return
        mix_row(lengths.block, lengths.weights, u, reverse, m)
        relax_row(u, m, lengths.beta, lengths.link, goal, state)


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
