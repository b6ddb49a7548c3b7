r"""Dijkstra's algorithm on a complete graph whose rows of edge lengths are mixed on demand.

.. math:: d(v) = \min_{s \in \text{roots}} d(s, v)

A row of the mixture is computed when its item is settled, O(R n), and the link is evaluated only
for edges whose lower bound could shorten a path. Open items are kept in chunks of `CHUNK` with the
smallest distance of each, which costs less on a complete graph than a heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, mix_row, tangent_of
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.sparse_pairs import arcs_of, clear_ball, grow_ball, open_in_ball, use_balls
from metricmix.paths.sparse_rows import roots_of, search_all
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "CHUNK",
    "SearchState",
    "SettledItems",
    "any_below",
    "cap_distances",
    "dijkstra",
    "dijkstra_rows",
    "open_item",
    "open_roots",
    "pop_nearest",
    "refresh_chunk",
    "relax",
    "reset",
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
    """

    dist: Floats
    key: Floats
    chunk_min: Floats
    pred: Ints
    root: Ints

    @classmethod
    def empty(cls, n: int) -> SearchState:
        """Return uninitialised arrays for n items."""
        pred, root = np.empty((2, n), np.int32)
        return cls(np.empty(n), np.empty(n), np.empty(-(-n // CHUNK)), pred, root)


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
    state, order = SearchState.empty(n), np.empty(n, np.int32)
    if lengths.dense is not None:
        count = dijkstra_rows(lengths.dense, reverse, limit, roots, state, order)
        return SettledItems(state.dist, state.pred, state.root, order[:count])
    open_roots(roots, state)
    count = 0
    while count < n:
        u = pop_nearest(state.key, state.chunk_min)
        if u < 0 or (count >= limit and state.dist[u] > state.dist[order[limit - 1]]):
            break
        order[count] = u
        count += 1
        if count < n:
            m = lengths.mixed_rows(np.array([u]), reverse=reverse)[0]
            relax(u, m, lengths.beta, lengths.link, state)
            if count == 1 and limit < n and len(roots) == 1:
                cap_distances(limit, state)
    return SettledItems(state.dist, state.pred, state.root, order[:count])


def dijkstra_sparse(
    lengths: EdgeLengths, roots: Indices, limit: int, reverse: bool
) -> SettledItems:
    """Settle the `limit` nearest items over a sparse edge set; the others are left at inf."""
    n, edges = lengths.n, lengths.edges
    assert edges is not None
    root = np.full(n, -1, np.int32)
    if limit >= n:
        dist, pred = search_all(lengths, roots, reverse=reverse)
        roots_of(dist, pred, root)
        order = np.argsort(dist, kind="stable")[: np.isfinite(dist).sum()].astype(np.int32)
        return SettledItems(dist, pred, root, order)
    dist, pred = np.full(n, np.inf), np.full(n, -1, np.int32)
    with use_balls(edges) as (ball, _):
        for r in np.unique(roots):
            open_in_ball(r, 0.0, -1, ball)
        grow_ball(arcs_of(lengths, 1, reverse=reverse), limit, ball)
        order = ball.order[: ball.counts[2]].copy()
        dist[order], pred[order] = ball.dist[order], ball.pred[order]
        clear_ball(ball)
    roots_of(dist, pred, root)
    return SettledItems(dist, pred, root, order)


# -- open items ----------------------------------------------------------------------------------


@kernel
def reset(dist: Floats, key: Floats, chunk_min: Floats, pred: Ints) -> None:
    """Set every item to unreached."""
    for v in range(dist.shape[0]):  # loops compile ten times faster than assignments to slices
        dist[v] = np.inf
        key[v] = np.inf
        pred[v] = -1
    for c in range(chunk_min.shape[0]):
        chunk_min[c] = np.inf


@kernel
def open_item(v: int, distance: float, dist: Floats, key: Floats, chunk_min: Floats) -> None:
    """Give item v a tentative distance."""
    dist[v] = distance
    key[v] = distance
    c = v // CHUNK
    if distance < chunk_min[c]:
        chunk_min[c] = distance


@kernel
def refresh_chunk(c: int, key: Floats, chunk_min: Floats) -> None:
    """Recompute the smallest key of chunk c."""
    smallest = np.inf
    for v in range(c * CHUNK, min(c * CHUNK + CHUNK, key.shape[0])):
        if key[v] < smallest:
            smallest = key[v]
    chunk_min[c] = smallest


@kernel
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


@kernel
def open_roots(roots: Indices, state: SearchState) -> None:
    """Start a search: every item unreached, every root at distance 0."""
    reset(state.dist, state.key, state.chunk_min, state.pred)
    for v in range(state.root.shape[0]):
        state.root[v] = -1
    for r in roots:
        state.root[r] = r
        open_item(r, 0.0, state.dist, state.key, state.chunk_min)


@kernel
def any_below(start: float, m: Floats, shift: float, slope: float, bound: Floats) -> bool:
    """Return whether any edge of a chunk may lead from `start` to below its bound; branch-free."""
    count = 0
    for k in range(m.shape[0]):
        count += 1 if start + floor_of(m[k], shift, slope) < bound[k] else 0
    return count > 0


@kernel
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


@kernel
def dijkstra_rows(
    lengths: DenseLengths,
    reverse: bool,
    limit: int,
    roots: Indices,
    state: SearchState,
    order: Ints,
) -> int:
    """Settle the `limit` nearest items and all at the same distance as the last; return how many.

    `order` receives them as they are settled, `state.pred` the item before each on its shortest
    path (after it, when `reverse`), `state.root` the root of the path.
    """
    dist = state.dist
    n = dist.shape[0]
    m = np.empty(n)
    open_roots(roots, state)
    settled = 0
    while settled < n:
        u = pop_nearest(state.key, state.chunk_min)
        if u < 0 or (settled >= limit and dist[u] > dist[order[limit - 1]]):
            break
        order[settled] = u
        settled += 1
        if settled == n:
            break
        mix_row(lengths.block, lengths.weights, u, reverse, m)
        relax(u, m, lengths.beta, lengths.link, state)
        if settled == 1 and limit < n and roots.shape[0] == 1:
            cap_distances(limit, state)
    return settled
