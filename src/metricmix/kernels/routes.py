r"""Routes of a concurrent flow: found by shortest paths, kept by pairs.

Pairs are (i, j), j < i, numbered row by row. The pairs of some rows are one part, with routes of
its own: pair p has the routes ``routes[p] .. routes[p + 1] - 1``, and route r the edges
``path[starts[r]:starts[r + 1]]``. What flows along them is up to
:mod:`metricmix.kernels.route_steps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first

__all__ = [
    "find_routes",
    "search_tree",
    "with_routes",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@kernel
def search_tree(
    i: int,
    starts: Starts,
    ends: Ints,
    edges: Ints,
    x: Floats,
    dist: Floats,
    heap: Ints,
    place: Ints,
    before: Ints,
    by: Ints,
) -> None:
    """Write distances from i, and for every item which one comes before it over which edge.

    `dist` comes with inf and `place` with -1 everywhere.
    """
    dist[i] = 0.0
    size = lift(i, 0, heap, place, dist)
    while size > 0:
        u: int = take_first(size, heap, place, dist)
        size -= 1
        for t in range(starts[u], starts[u + 1]):
            v = ends[t]
            reached = dist[u] + x[edges[t]]
            if reached < dist[v]:
                dist[v], before[v], by[v] = reached, u, edges[t]
                size = lift(v, size, heap, place, dist)


@kernel
def find_routes(
    low: int,
    high: int,
    starts: Starts,
    ends: Ints,
    edges: Ints,
    x: Floats,
    demand: Floats,
    routes: Starts,
    path_starts: Starts,
    path: Ints,
    tolerance: float,
    closed: Floats,
) -> tuple[Starts, Ints, Ints, float]:
    """Return routes, from low <= i < high to j < i, that are shorter than all a pair has.

    They must be so by a share `tolerance` of the length. Edges (i, j) get their distance in
    `closed`, which is less than x where there is a shorter way.

    Returns
    -------
    pairs : (T,) array
        The pair of every route, numbered within this part, ascending.
    counts, found : (T,) and (sum of counts,) arrays
        The edges of every route.
    total : float
        The sum of demand times distance over these pairs.
    """
    n = starts.shape[0] - 1
    dist = np.empty(n)
    heap, place = np.empty(n, np.int32), np.full(n, -1, np.int32)
    before, by = np.empty(n, np.int32), np.empty(n, np.int32)
    pairs, counts = np.empty(256, np.int64), np.empty(256, np.int32)
    found = np.empty(1024, np.int32)
    count, used, total, p = 0, 0, 0.0, 0
    for i in range(low, high):
        dist[:] = np.inf
        search_tree(i, starts, ends, edges, x, dist, heap, place, before, by)
        for t in range(starts[i], starts[i + 1]):
            if ends[t] < i:
                closed[edges[t]] = dist[ends[t]]
        row = 0.0
        for j in range(i):
            row += demand[j] * dist[j]
            best = np.inf
            for r in range(routes[p], routes[p + 1]):
                known = 0.0
                for t in range(path_starts[r], path_starts[r + 1]):
                    known += x[path[t]]
                best = min(best, known)
            if dist[j] < best * (1.0 - tolerance):
                hops, v = 0, j
                while v != i:
                    hops += 1
                    v = before[v]
                if count == counts.shape[0]:
                    pairs, counts = _larger(pairs), _larger(counts)
                while used + hops > found.shape[0]:
                    found = _larger(found)
                pairs[count], counts[count] = p, hops
                count += 1
                v = j
                while v != i:
                    found[used] = by[v]
                    used += 1
                    v = before[v]
            p += 1
        total += demand[i] * row
    return pairs[:count], counts[:count], found[:used], total


@kernel
def _larger(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy with room for twice as much."""
    more = np.empty(2 * array.shape[0], array.dtype)
    more[: array.shape[0]] = array
    return more


@kernel
def with_routes(
    routes: Starts,
    starts: Starts,
    path: Ints,
    shares: Floats,
    pairs: Starts,
    counts: Ints,
    found: Ints,
) -> tuple[Starts, Starts, Ints, Floats]:
    """Return routes and their shares with those that were found, each last of its pair.

    `shares` has a column per route; new ones get 0, and old ones with nothing but 0 are left out.
    """
    kept, size = pairs.shape[0], found.shape[0]
    for r in range(shares.shape[1]):
        if shares[:, r].any():
            kept += 1
            size += starts[r + 1] - starts[r]
    new_routes, new_starts = np.zeros_like(routes), np.zeros(kept + 1, np.int64)
    new_path, new_shares = np.empty(size, np.int32), np.zeros((shares.shape[0], kept))
    count, used, k, at = 0, 0, 0, 0
    for p in range(routes.shape[0] - 1):
        for r in range(routes[p], routes[p + 1]):
            if not shares[:, r].any():
                continue
            for t in range(starts[r], starts[r + 1]):
                new_path[used] = path[t]
                used += 1
            new_shares[:, count] = shares[:, r]
            count += 1
            new_starts[count] = used
        if k < pairs.shape[0] and pairs[k] == p:
            for _ in range(counts[k]):
                new_path[used] = found[at]
                used += 1
                at += 1
            k += 1
            count += 1
            new_starts[count] = used
        new_routes[p + 1] = count
    return new_routes, new_starts, new_path, new_shares
