r"""Paths shorter than 1 over the attracting pairs of a signed graph.

Items are joined by m edges with lengths :math:`x_e \ge 0`, those between attracting pairs. Pairs
that repel want to be apart by 1, and pay :math:`1 - d_{ij}` where a path makes them nearer. Every
search below goes from one item no farther than 1, which on a sparse graph is not far.

A graph is given as ``starts, ends, edges``: item i has the neighbours ``ends[starts[i]:starts[i +
1]]`` over these edges. Weights, positive where a pair attracts, come in the same way: listed pairs
have ``weights[pair]``, all others one and the same `default` <= 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.typing import Floats, Indices, Ints, Keys

__all__ = ["fill_within", "find_short", "mixed", "search_ball", "sum_within"]


@kernel
def search_ball(
    i: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    radius: float,
    dist: Floats,
    heap: Ints,
    place: Ints,
    order: Ints,
) -> int:
    """Write the items nearer to i than the radius into `order`, by distance; return their number.

    `dist` comes with inf and `place` with -1 everywhere, and must be cleaned up by the caller: for
    the items of `order` only.
    """
    dist[i] = 0.0
    size = lift(i, 0, heap, place, dist)
    count = 0
    while size > 0:
        u: int = take_first(size, heap, place, dist)
        size -= 1
        order[count] = u
        count += 1
        for t in range(starts[u], starts[u + 1]):
            v = ends[t]
            reached = dist[u] + x[edges[t]]
            if reached < dist[v] and reached < radius:
                dist[v] = reached
                size = lift(v, size, heap, place, dist)
    return count


@kernel
def sum_within(
    low: int,
    high: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    weight_starts: Indices,
    weight_ends: Ints,
    weight_pairs: Ints,
    weights: Floats,
    default: float,
) -> float:
    """Return the sum of w_ij (1 - d_ij) over low <= i < high, j < i, where d_ij < 1."""
    n = starts.shape[0] - 1
    dist, row = np.full(n, np.inf), np.full(n, default)
    heap, place, order = np.empty(n, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
    total = 0.0
    for i in range(low, high):
        count = search_ball(i, starts, ends, edges, x, 1.0, dist, heap, place, order)
        for t in range(weight_starts[i], weight_starts[i + 1]):
            row[weight_ends[t]] = weights[weight_pairs[t]]
        for t in range(count):
            j = order[t]
            if j < i:
                total += row[j] * (1.0 - dist[j])
            dist[j] = np.inf
        for t in range(weight_starts[i], weight_starts[i + 1]):
            row[weight_ends[t]] = default
    return total


@kernel
def find_short(
    low: int,
    high: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    extra: Floats,
    weight_starts: Indices,
    weight_ends: Ints,
    weight_pairs: Ints,
    weights: Floats,
    default: float,
    known_starts: Indices,
    known_ends: Ints,
    known_columns: Ints,
    allowed: Floats,
    tolerance: float,
    capacity: Floats,
    spread: float,
    times: int,
) -> tuple[Ints, Ints, Ints, Floats, Keys, float]:
    """Return paths that are too short, from low <= i < high to j < i.

    A path from i to j is too short if the pair repels and 1 - length exceeds by the tolerance what
    is `allowed` to the pair: an entry of `allowed` for pairs that have a column, 0 for others. The
    search does not go on from where such a path ends, so that no listed path begins with another
    one: the longer ones may well be gone when the shorter ones are.

    Paths are shortest ones for the lengths x + `extra`, small numbers that decide between paths
    which are about as short. They grow along every path found, by `spread` times how strongly the
    pair repels over the `capacity` of the edge: so paths spread over all edges, and searching
    several `times` from the same item finds different ones.

    Returns
    -------
    pairs : (2 T,) array
        i and j of every path.
    counts, path : (T,) and (sum of counts,) arrays
        The edges of every path.
    costs : (T,) array
        How strongly the pairs repel.
    keys : (T,) array
        A number that tells paths apart.
    worst : float
        The most by which a path is too short.
    """
    n = starts.shape[0] - 1
    dist, row, grant = np.full(n, np.inf), np.full(n, default), np.zeros(n)
    heap, place = np.empty(n, np.int32), np.full(n, -1, np.int32)
    before, by, length = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    touched = np.empty(n, np.int32)
    pairs, counts, path = np.empty(512, np.int32), np.empty(256, np.int32), np.empty(1024, np.int32)
    costs, keys = np.empty(256), np.empty(256, np.uint64)
    found, used, worst = 0, 0, 0.0
    for turn in range((high - low) * times):
        i = low + turn // times
        for t in range(weight_starts[i], weight_starts[i + 1]):
            row[weight_ends[t]] = weights[weight_pairs[t]]
        for t in range(known_starts[i], known_starts[i + 1]):
            grant[known_ends[t]] = allowed[known_columns[t]]
        dist[i], length[i], touched[0] = 0.0, 0.0, i
        size, seen = lift(i, 0, heap, place, dist), 1
        while size > 0:
            u: int = take_first(size, heap, place, dist)
            size -= 1
            excess = 1.0 - length[u] - grant[u]
            if u != i and row[u] < 0.0 and excess > 0.0:
                worst = excess if excess > worst else worst
                if excess > tolerance:
                    if u < i:
                        steps, v = 0, u
                        while v != i:
                            steps += 1
                            v = before[v]
                        if found == counts.shape[0]:
                            pairs, counts = _larger(pairs), _larger(counts)
                            costs, keys = _larger(costs), _larger(keys)
                        while used + steps > path.shape[0]:
                            path = _larger(path)
                        pairs[2 * found], pairs[2 * found + 1], counts[found] = i, u, steps
                        key, v = mixed(i * n + u), u
                        while v != i:
                            path[used] = by[v]
                            share = -row[u] / capacity[by[v]]
                            extra[by[v]] += spread * share if share < 1.0 else spread
                            key += mixed(-1 - by[v])
                            used += 1
                            v = before[v]
                        costs[found], keys[found] = -row[u], key
                        found += 1
                    continue
            for t in range(starts[u], starts[u + 1]):
                v, e = ends[t], edges[t]
                reached = dist[u] + x[e] + extra[e]
                if reached < dist[v] and reached < 1.0:
                    if dist[v] == np.inf:
                        touched[seen] = v
                        seen += 1
                    dist[v], length[v] = reached, length[u] + x[e]
                    before[v], by[v] = u, e
                    size = lift(v, size, heap, place, dist)
        for t in range(seen):
            dist[touched[t]] = np.inf
        for t in range(weight_starts[i], weight_starts[i + 1]):
            row[weight_ends[t]] = default
        for t in range(known_starts[i], known_starts[i + 1]):
            grant[known_ends[t]] = 0.0
    return pairs[: 2 * found], counts[:found], path[:used], costs[:found], keys[:found], worst


@kernel
def _larger(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy with room for twice as much."""
    more = np.empty(2 * array.shape[0], array.dtype)
    more[: array.shape[0]] = array
    return more


@kernel
def mixed(number: int) -> np.uint64:
    """Return a number with its bits mixed well (splitmix64), so that sums of them tell apart."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def fill_within(
    low: int,
    high: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    out: Floats,
) -> None:
    """Write min(1, d_ij) into rows low .. high - 1 of a matrix, up to the diagonal."""
    n = starts.shape[0] - 1
    dist = np.full(n, np.inf)
    heap, place, order = np.empty(n, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
    for i in range(low, high):
        count = search_ball(i, starts, ends, edges, x, 1.0, dist, heap, place, order)
        for j in range(i):
            out[i, j] = 1.0
        out[i, i] = 0.0
        for t in range(count):
            j = order[t]
            if j < i:
                out[i, j] = dist[j]
            dist[j] = np.inf
