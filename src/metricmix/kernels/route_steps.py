r"""A concurrent flow over given routes, shared out by primal-dual steps.

Every pair p of items sends :math:`D_p = \delta_i \delta_j` over routes P that are shared out by
:math:`z \ge 0`, :math:`\sum_{P \text{ of } p} z_P = D_p`. Against it plays :math:`x \ge 0`, a
length for every edge, with :math:`\sum_e c_e x_e` given:

.. math:: \max_x \min_z \; \sum_P z_P \sum_{e \in P} x_e

A step from (x, z), with :math:`L_e = \sum_{P \ni e} z_P` the load of an edge, goes to

.. math:: x' = \mathrm{proj}\bigl(x + \tfrac{1}{\omega\, n_e} L\bigr), \qquad
          z' = \mathrm{proj}\bigl(z - \tfrac{\omega D_p}{h_p} (2 x' - x)(P)\bigr)

where :math:`n_e` is the sum of :math:`D_p` over all routes with e and :math:`h_p` the most edges of
a route of p. Like those of :mod:`metricmix.kernels.clauses`, steps are reflected and drawn back to
an anchor.

Routes are kept as in :mod:`metricmix.kernels.routes`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = [
    "add_loads",
    "move_lengths",
    "move_routes",
    "move_times",
    "share_evenly",
    "weights_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@kernel
def add_loads(starts: Starts, path: Ints, z: Floats, loads: Floats) -> None:
    """Add to the load of every edge what routes with shares z put on it."""
    for r in range(z.shape[0]):
        if z[r] != 0.0:
            for t in range(starts[r], starts[r + 1]):
                loads[path[t]] += z[r]


@kernel
def share_evenly(low: int, high: int, demand: Floats, routes: Starts, z: Floats) -> None:
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
    routes: Starts,
    starts: Starts,
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
    routes: Starts,
    starts: Starts,
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
    routes: Starts,
    starts: Starts,
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
