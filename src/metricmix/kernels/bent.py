r"""Coordinate ascent where a pair's term has kinks or bounds.

.. math:: \phi_e(x) = \tfrac{h_e}{2} (x - c_e)^2 + t_e |x - d_e|, \qquad l_e \le x \le u_e

The point that belongs to duals z is a bent line of :math:`y_e = c_e - (A^T z)_e / h_e`: flat where
x is at a bound or, within :math:`\tau_e = t_e / h_e`, at the kink d, and of slope 1 elsewhere. So
the excess :math:`v = x_{ij} - x_{ik} - x_{kj}` falls with a row's dual along a line with a few
bends, and its zero is found by walking from bend to bend.

A pair is a line of a table, so that one look at memory brings all of it: y, 1/h, d, tau, l, u.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["bend", "move_on_bent", "points_of", "sweep_bent"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
BENDS = 16
"""Most bends passed in one step: each of the three pairs has four."""


@kernel
def bend(y: float, d: float, tau: float, lower: float, upper: float) -> float:
    """Return x that belongs to y."""
    apart = y - d
    if apart > tau:
        apart -= tau
    elif apart < -tau:
        apart += tau
    else:
        apart = 0.0
    x = d + apart
    return lower if x < lower else upper if x > upper else x


@kernel
def points_of(table: Floats, start: int, stop: int, x: Floats) -> None:
    """Write the points of the pairs start .. stop - 1."""
    for e in range(start, stop):
        pair = table[e]
        x[e] = bend(pair[0], pair[2], pair[3], pair[4], pair[5])


@kernel
def _ahead(y: float, pair: Floats, up: bool) -> tuple[float, float]:
    """Return the slope of the bent line at y, looking up or down, and how far it goes on so."""
    d, tau, lower, upper = pair[2], pair[3], pair[4], pair[5]
    first = lower + tau if lower >= d else lower - tau  # x leaves its lower bound here
    last = upper - tau if upper <= d else upper + tau  # and meets its upper one here
    if up:
        far = np.inf
        for place in (first, d - tau, d + tau, last):
            if place > y:
                far = min(far, place - y)
        flat = y < first or y >= last or d - tau <= y < d + tau
    else:
        far = np.inf
        for place in (first, d - tau, d + tau, last):
            if place < y:
                far = min(far, y - place)
        flat = y <= first or y > last or d - tau < y <= d + tau
    return (0.0 if flat else 1.0), far


@kernel
def _best_change(side: Floats, leg: Floats, other: Floats, change: float, least: float) -> float:
    """Return the change of the dual, >= least, from `change` on, that makes the excess 0."""
    for _ in range(BENDS):
        y_side = side[0] - change * side[1]
        y_leg = leg[0] + change * leg[1]
        y_other = other[0] + change * other[1]
        excess = bend(y_side, side[2], side[3], side[4], side[5])
        excess -= bend(y_leg, leg[2], leg[3], leg[4], leg[5])
        excess -= bend(y_other, other[2], other[3], other[4], other[5])
        if excess == 0.0:
            break
        up = excess > 0.0
        slope, far = _ahead(y_side, side, not up)
        total = slope * side[1]
        reach = far / side[1]
        slope, far = _ahead(y_leg, leg, up)
        total += slope * leg[1]
        reach = min(reach, far / leg[1])
        slope, far = _ahead(y_other, other, up)
        total += slope * other[1]
        reach = min(reach, far / other[1])
        step = abs(excess) / total if total > 0.0 else np.inf
        if reach == np.inf and step == np.inf:
            break  # nothing moves any more: the bounds forbid it
        moved: float = change + min(step, reach) if up else change - min(step, reach)
        if moved <= least:
            return least
        if moved == change or step <= reach:
            return moved
        change = moved
    return change


@kernel
def sweep_bent(
    table: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    start: int,
    stop: int,
) -> None:
    """Sweep over the rows start .. stop - 1; see :mod:`metricmix.kernels.sweeps`."""
    for t in range(start, stop):
        p, q, r = table[side[t]], table[leg[t]], table[other[t]]
        now = z[t]
        ahead = now + beta * (now - before[t])
        before[t] = now
        c = _best_change(p, q, r, max(0.0, -ahead), -ahead)
        p[0] -= c * p[1]
        q[0] += c * q[1]
        r[0] += c * r[1]
        z[t] = ahead + c


@kernel
def move_on_bent(
    table: Floats, before: Floats, centre: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Move y by beta times its last step; return this part of the dual value at the old y.

    .. math:: \sum_e \phi_e(x_e) + h_e (c_e - y_e)\, x_e
    """
    total = 0.0
    for e in range(start, stop):
        pair = table[e]
        y, d, tau = pair[0], pair[2], pair[3]
        x = bend(y, d, tau, pair[4], pair[5])
        c = centre[e]
        value = 0.5 * (x - c) * (x - c) + tau * abs(x - d) + (c - y) * x
        total += value / pair[1]
        pair[0] = y + beta * (y - before[e])
        before[e] = y
    return total
