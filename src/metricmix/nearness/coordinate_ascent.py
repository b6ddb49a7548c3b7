r"""Coordinate ascent on the duals of triangle constraints (Hildreth, Dykstra), with momentum.

For :math:`\min_x \sum_e \phi_e(x_e)` over pairs e with rows :math:`v_t = x_{ij} - x_{ik} - x_{kj}
\le 0`, the point that belongs to duals z is :math:`x_e = \arg\min \phi_e(x) + (A^T z)_e\, x`. A
sweep goes from row to row and chooses the best dual of each, the others being what they are. For
:math:`\phi_e = \tfrac{h_e}{2} (x - d_e)^2` that is

.. math:: c = \max\Bigl(\frac{v_t}{1/h_{ij} + 1/h_{ik} + 1/h_{kj}},\; -z_t\Bigr), \qquad
          z_t \leftarrow z_t + c, \qquad
          x_{ij} \mathrel{-}= \frac{c}{h_{ij}}, \quad x_{ik} \mathrel{+}= \frac{c}{h_{ik}}, \quad
          x_{kj} \mathrel{+}= \frac{c}{h_{kj}}.

With momentum a sweep starts at :math:`z + \beta (z - z_{before})`. The point x is linear in z and
is moved beforehand, all at once (:func:`move_on`); the duals are moved when their row comes, which
also lifts those that would be negative. Rows start .. stop - 1 are done, in this order; or going
`back`, in the other one, without momentum.
"""

from __future__ import annotations

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.typing import Floats, Ints

__all__ = [
    "WIDTH",
    "add_rows",
    "bend",
    "bends",
    "move_on",
    "move_on_bent",
    "points_of",
    "row_excess",
    "row_product",
    "sweep_bent",
    "sweep_even",
    "sweep_weighted",
]


@kernel
def sweep_even(
    x: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    back: bool,
    start: int,
    stop: int,
) -> None:
    """Sweep where every h is 1."""
    third = 1.0 / 3.0
    for row in range(start, stop):
        t = start + stop - 1 - row if back else row
        p, q, r = side[t], leg[t], other[t]
        ahead = z[t]
        if not back:
            ahead += beta * (ahead - before[t])
            before[t] = z[t]
        c = max((x[p] - x[q] - x[r]) * third, -ahead)
        x[p] -= c
        x[q] += c
        x[r] += c
        z[t] = ahead + c


@kernel
def sweep_weighted(
    x: Floats,
    inverse: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    back: bool,
    start: int,
    stop: int,
) -> None:
    """Sweep with `inverse` = 1 / h."""
    for row in range(start, stop):
        t = start + stop - 1 - row if back else row
        p, q, r = side[t], leg[t], other[t]
        ahead = z[t]
        if not back:
            ahead += beta * (ahead - before[t])
            before[t] = z[t]
        excess = x[p] - x[q] - x[r]
        c = max(excess / (inverse[p] + inverse[q] + inverse[r]), -ahead)
        x[p] -= c * inverse[p]
        x[q] += c * inverse[q]
        x[r] += c * inverse[r]
        z[t] = ahead + c


@kernel
def move_on(
    x: Floats, before: Floats, d: Floats, h: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Move x by beta times its last step; return this part of the dual value at the old x.

    .. math:: \sum_e \tfrac{h_e}{2} (d_e - x_e)(d_e + x_e)

    is the dual value of z where x belongs to z. (Good enough to see whether it grows.) `h` may have
    the length 1 if all are the same.
    """
    total = 0.0
    if h.shape[0] == 1:
        for e in range(start, stop):
            now = x[e]
            total += (d[e] - now) * (d[e] + now)
            x[e] = now + beta * (now - before[e])
            before[e] = now
        return 0.5 * float(h[0]) * total
    for e in range(start, stop):
        now = x[e]
        total += h[e] * (d[e] - now) * (d[e] + now)
        x[e] = now + beta * (now - before[e])
        before[e] = now
    return 0.5 * total


@kernel
def row_product(
    x: Floats, side: Ints, leg: Ints, other: Ints, z: Floats, start: int, stop: int
) -> float:
    r"""Return this part of :math:`z^T A x`."""
    total = 0.0
    for t in range(start, stop):
        if z[t] != 0.0:
            total += z[t] * (x[side[t]] - x[leg[t]] - x[other[t]])
    return total


@kernel
def row_excess(x: Floats, side: Ints, leg: Ints, other: Ints, start: int, stop: int) -> float:
    """Return the largest excess of the rows start .. stop - 1, or 0."""
    worst = 0.0
    for t in range(start, stop):
        worst = max(worst, x[side[t]] - x[leg[t]] - x[other[t]])
    return worst


@kernel
def add_rows(
    u: Floats, side: Ints, leg: Ints, other: Ints, z: Floats, start: int, stop: int
) -> None:
    r"""Add this part of :math:`A^T z` to u."""
    for t in range(start, stop):
        u[side[t]] += z[t]
        u[leg[t]] -= z[t]
        u[other[t]] -= z[t]


# -- coordinate ascent where a pair's term has kinks or bounds ----------------------------------


WIDTH = 6
"""Numbers of a line of the table."""

MANY = 16
"""Most bends passed in one step: each of the three pairs has four."""


def bends(d: Floats, tau: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the y where x leaves its lower bound, and where it meets its upper one."""
    first = np.where(lower >= d, lower + tau, lower - tau)
    last = np.where(upper <= d, upper - tau, upper + tau)
    return first, last


@kernel
def bend(y: float, d: float, tau: float, first: float, last: float) -> float:
    """Return x that belongs to y; without a branch that could be guessed wrong."""
    y = min(max(y, first), last)
    return y - min(max(y - d, -tau), tau)


@kernel
def _at(flat: Floats, e: int, y: float) -> float:
    """Return x that belongs to y, for the pair whose line begins at e."""
    return bend(y, flat[e + 2], flat[e + 3], flat[e + 4], flat[e + 5])  # type: ignore[no-any-return]


@kernel
def points_of(flat: Floats, start: int, stop: int, x: Floats) -> None:
    """Write the points of the pairs start .. stop - 1."""
    for pair in range(start, stop):
        x[pair] = _at(flat, WIDTH * pair, flat[WIDTH * pair])


@kernel
def _excess(flat: Floats, p: int, q: int, r: int, change: float) -> float:
    """Return the excess of a row after a change of its dual."""
    x = _at(flat, p, flat[p] - change * flat[p + 1])
    x -= _at(flat, q, flat[q] + change * flat[q + 1])
    return x - _at(flat, r, flat[r] + change * flat[r + 1])  # type: ignore[no-any-return]


@kernel
def _slope(flat: Floats, e: int, y: float) -> float:
    """Return 1/h where x follows y, up and down, and 0 where it does not."""
    follows = (flat[e + 4] < y) & (y < flat[e + 5]) & (abs(y - flat[e + 2]) > flat[e + 3])
    return flat[e + 1] if follows else 0.0


@kernel
def _ahead(flat: Floats, e: int, y: float, up: bool) -> tuple[float, float]:
    """Return the slope of x looking up or down from y, and for which change it goes on so."""
    low, high = flat[e + 2] - flat[e + 3], flat[e + 2] + flat[e + 3]
    first, last = flat[e + 4], flat[e + 5]
    # A step to a bend may end a rounding short of it: then it counts as reached.
    rounding = 1e-14 * (abs(y) + abs(low) + abs(high) + abs(flat[e]))
    far = np.inf
    if up:
        at = y + rounding
        for place in (first, low, high, last):
            if place > at:
                far = min(far, place - y)
        flat_here = at < first or at >= last or low <= at < high
    else:
        at = y - rounding
        for place in (first, low, high, last):
            if place < at:
                far = min(far, y - place)
        flat_here = at <= first or at > last or low < at <= high
    return (0.0 if flat_here else flat[e + 1]), far / flat[e + 1]


@kernel
def _walk(flat: Floats, p: int, q: int, r: int, change: float, least: float) -> float:
    """Return the change of the dual, >= least, that makes the excess 0, from `change` on."""
    for _ in range(MANY):
        excess = _excess(flat, p, q, r, change)
        if excess == 0.0:
            break
        up = excess > 0.0
        a, reach_a = _ahead(flat, p, flat[p] - change * flat[p + 1], not up)
        b, reach_b = _ahead(flat, q, flat[q] + change * flat[q + 1], up)
        c, reach_c = _ahead(flat, r, flat[r] + change * flat[r + 1], up)
        reach = min(reach_a, min(reach_b, reach_c))
        slope = a + b + c
        step = abs(excess) / slope if slope > 0.0 else np.inf
        if up and reach == np.inf and step == np.inf:
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
    flat: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    back: bool,
    start: int,
    stop: int,
) -> None:
    """Sweep over the rows start .. stop - 1; see :mod:`metricmix.nearness.coordinate_ascent`."""
    for row in range(start, stop):
        t = start + stop - 1 - row if back else row
        p, q, r = WIDTH * side[t], WIDTH * leg[t], WIDTH * other[t]
        ahead = z[t]
        if not back:
            ahead += beta * (ahead - before[t])
            before[t] = z[t]
        least = -ahead
        c = max(0.0, least)
        excess = _excess(flat, p, q, r, c)
        if excess > 0.0 or (excess < 0.0 and c > least):
            # Mostly no bend is in the way: one step, and a look at where it led.
            slope = _slope(flat, p, flat[p] - c * flat[p + 1])
            slope += _slope(flat, q, flat[q] + c * flat[q + 1])
            slope += _slope(flat, r, flat[r] + c * flat[r + 1])
            there = c
            if slope > 0.0:
                there = max(c + excess / slope, least)
            rest = _excess(flat, p, q, r, there)
            if (there == least and rest <= 0.0) or abs(rest) <= 1e-3 * abs(excess):
                c = there
            else:
                c = _walk(flat, p, q, r, c, least)
        flat[p] -= c * flat[p + 1]
        flat[q] += c * flat[q + 1]
        flat[r] += c * flat[r + 1]
        z[t] = ahead + c


@kernel
def move_on_bent(
    flat: Floats, before: Floats, centre: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Move y by beta times its last step; return this part of the dual value at the old y.

    .. math:: \sum_e \phi_e(x_e) + h_e (c_e - y_e)\, x_e
    """
    total = 0.0
    for pair in range(start, stop):
        e = WIDTH * pair
        y, c = flat[e], centre[pair]
        x = _at(flat, e, y)
        value = 0.5 * (x - c) * (x - c) + flat[e + 3] * abs(x - flat[e + 2]) + (c - y) * x
        total += value / flat[e + 1]
        flat[e] = y + beta * (y - before[pair])
        before[pair] = y
    return total
