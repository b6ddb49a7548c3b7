r"""A concurrent flow over given routes, shared out by primal-dual steps.

Every pair p of items sends :math:`D_p = \delta_i \delta_j` over routes P that are shared out by
:math:`z \ge 0`, :math:`\sum_{P \text{ of } p} z_P = D_p`. Against it plays :math:`x \ge 0`, a
length for every edge, with :math:`\sum_e c_e x_e` given:

.. math:: \max_x \min_z \; \sum_P z_P \sum_{e \in P} x_e

A step from (x, z), with :math:`L_e = \sum_{P \ni e} z_P` the load of an edge, goes to

.. math:: x' = \mathrm{proj}\bigl(x + \tfrac{1}{\omega\, n_e} L\bigr), \qquad
          z' = \mathrm{proj}\bigl(z - \tfrac{\omega D_p}{h_p} (2 x' - x)(P)\bigr)

where :math:`n_e` is the sum of :math:`D_p` over all routes with e and :math:`h_p` the most edges of
a route of p. Like those of :mod:`metricmix.relaxations.primal_dual`,
steps are reflected and drawn back to
an anchor.

Routes are kept as in :mod:`metricmix.relaxations.flow_steps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "add_loads",
    "find_routes",
    "move_lengths",
    "move_routes",
    "move_times",
    "search_tree",
    "share_evenly",
    "weights_of",
    "with_routes",
]


@kernel
def add_loads(starts: Indices, path: Ints, z: Floats, loads: Floats) -> None:
    """Add to the load of every edge what routes with shares z put on it."""
    for r in range(z.shape[0]):
        if z[r] != 0.0:
            for t in range(starts[r], starts[r + 1]):
                loads[path[t]] += z[r]


@kernel
def share_evenly(low: int, high: int, demand: Floats, routes: Indices, z: Floats) -> None:
    """Share out what every pair sends over its routes evenly."""
    p = 0
    for i in range(low, high):
        for j in range(i):
            for r in range(routes[p], routes[p + 1]):
                z[r] = demand[i] * demand[j] / (routes[p + 1] - routes[p])
            p += 1


@kernel
def weights_of(
    low: int,
    high: int,
    demand: Floats,
    routes: Indices,
    starts: Indices,
    z: Floats,
    amounts: Floats,
    scales: Floats,
) -> float:
    """Write the demand of the pair of every route, and h_p / D_p.

    Return the least share of its demand that a pair sends.
    """
    least, p = 1.0, 0
    for i in range(low, high):
        for j in range(i):
            amount, hops, sent = demand[i] * demand[j], 0, 0.0
            for r in range(routes[p], routes[p + 1]):
                hops = max(hops, starts[r + 1] - starts[r])
                sent += z[r]
            for r in range(routes[p], routes[p + 1]):
                amounts[r], scales[r] = amount, hops / amount
            least = min(least, sent / amount)
            p += 1
    return least


@kernel
def move_routes(
    low: int,
    high: int,
    demand: Floats,
    routes: Indices,
    starts: Indices,
    path: Ints,
    ahead: Floats,
    z: Floats,
    anchor: Floats,
    moved: Floats,
    loads: Floats,
    omega: float,
    a: float,
) -> float:
    """Step of the routes of a part, with `ahead` 2 x' - x; `moved` gets z', `loads` those of z.

    Return how far they go: the sum of h_p (z' - z)^2 / D_p.
    """
    loads[:] = 0.0
    room = np.empty(64)
    total = 0.0
    p = 0
    for i in range(low, high):
        for j in range(i):
            first, last = routes[p], routes[p + 1]
            p += 1
            amount = demand[i] * demand[j]
            if last == first + 1:
                for t in range(starts[first], starts[last]):
                    loads[path[t]] += amount
                continue
            hops = 0
            for r in range(first, last):
                hops = max(hops, starts[r + 1] - starts[r])
            for r in range(first, last):
                length = 0.0
                for t in range(starts[r], starts[r + 1]):
                    length += ahead[path[t]]
                moved[r] = z[r] - omega * amount * length / hops
            while room.shape[0] < last - first:
                room = np.empty(2 * room.shape[0])
            _to_simplex(moved[first:last], amount, room)
            for r in range(first, last):
                y = moved[r]
                total += hops * (y - z[r]) * (y - z[r]) / amount
                z[r] = a * (2.0 * y - z[r]) + (1.0 - a) * anchor[r]
                if z[r] != 0.0:
                    for t in range(starts[r], starts[r + 1]):
                        loads[path[t]] += z[r]
    return total


@kernel
def _to_simplex(y: Floats, amount: float, room: Floats) -> None:
    """Replace y by the nearest entries >= 0 with this sum."""
    size = y.shape[0]
    for k in range(size):  # sorted, largest first: there are few
        value, t = y[k], k
        while t > 0 and room[t - 1] < value:
            room[t] = room[t - 1]
            t -= 1
        room[t] = value
    total, level = 0.0, 0.0
    for k in range(size):
        total += room[k]
        lower = (total - amount) / (k + 1)
        if room[k] <= lower:
            break
        level = lower
    for k in range(size):
        y[k] = max(0.0, y[k] - level)


@kernel
def move_lengths(
    c: Floats,
    counts: Floats,
    loads: Floats,
    x: Floats,
    anchor: Floats,
    ahead: Floats,
    moved: Floats,
    omega: float,
    a: float,
) -> float:
    r"""Step of the lengths; `moved` gets x', `ahead` 2 x' - x.

    The sum of c x' is that of c. Return how far they go: the sum of n_e (x' - x)^2.
    """
    m = c.shape[0]
    for e in range(m):
        moved[e] = x[e] + loads[e] / (omega * counts[e])
    # x' = max(0, moved - level c / n): the sum falls with the level, ever more slowly, so that
    # Newton's method from below goes up to the level and stops there.
    wanted, level, tried = float(np.sum(c)), -np.inf, 0
    while tried < 200:
        total, slope = -wanted, 0.0
        for e in range(m):
            if moved[e] * counts[e] > level * c[e]:
                total += c[e] * moved[e]
                slope += c[e] * c[e] / counts[e]
        higher = total / slope
        if higher <= level:
            break
        level = higher
        tried += 1
    total = 0.0
    for e in range(m):
        y = max(0.0, moved[e] - level * c[e] / counts[e])
        moved[e] = y
        total += counts[e] * (y - x[e]) * (y - x[e])
        ahead[e] = 2.0 * y - x[e]
        x[e] = a * ahead[e] + (1.0 - a) * anchor[e]
    return total


@kernel
def move_times(
    low: int,
    high: int,
    demand: Floats,
    routes: Indices,
    starts: Indices,
    path: Ints,
    z: Floats,
    z_anchor: Floats,
    z_moved: Floats,
    c: Floats,
    counts: Floats,
    loads: Floats,
    x: Floats,
    x_anchor: Floats,
    ahead: Floats,
    x_moved: Floats,
    omega: float,
    first: int,
    last: int,
) -> tuple[float, float]:
    """Do steps first .. last - 1 since the anchor with one part; return how far the last went."""
    far_x, far_z = 0.0, 0.0
    for k in range(first, last):
        a = (k + 1.0) / (k + 2.0)
        far_x = move_lengths(c, counts, loads, x, x_anchor, ahead, x_moved, omega, a)
        far_z = move_routes(
            *(low, high, demand, routes, starts, path),
            *(ahead, z, z_anchor, z_moved, loads, omega, a),
        )
    return far_x, far_z


# -- routes of a concurrent flow: found by shortest paths, kept by pairs ------------------------


@kernel
def search_tree(
    i: int,
    starts: Indices,
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
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    demand: Floats,
    routes: Indices,
    path_starts: Indices,
    path: Ints,
    tolerance: float,
    closed: Floats,
) -> tuple[Indices, Ints, Ints, float]:
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
    routes: Indices,
    starts: Indices,
    path: Ints,
    shares: Floats,
    pairs: Indices,
    counts: Ints,
    found: Ints,
) -> tuple[Indices, Indices, Ints, Floats]:
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
