r"""Coordinate ascent for proximal terms: a quadratic, an absolute value and bounds.

.. math:: \phi_e(x) = \tfrac{h_e}{2} (x - c_e)^2 + h_e \tau_e |x - d_e|
          \qquad l_e \le x \le u_e

The violation of a constraint is piecewise linear in its dual: a coordinate step goes from
breakpoint to breakpoint; see :mod:`~metricmix.nearness.coordinate_ascent` for sweeps and momentum.
"""

from __future__ import annotations

import math

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import ConstraintArrays, TriangleConstraints
from metricmix.nearness.coordinate_ascent import AcceleratedAscent, AscentState
from metricmix.typing import Floats

__all__ = [
    "WIDTH",
    "ProximalAscent",
    "extrapolate_proximal",
    "proximal_points",
    "soft_threshold",
    "solve_coordinate",
    "sweep_proximal",
    "thresholds",
]

WIDTH = 6
"""Columns of the table: y, 1 / h, d, tau, first, last."""


class ProximalAscent(AcceleratedAscent):
    r"""The terms are :math:`\tfrac{h}{2} (x - c)^2 + h \tau |x - d|` within bounds.

    With :math:`y = c - A^T z / h`, the primal point is y soft-thresholded around d and clipped at
    the bounds. The state's point is a table with y and the constants of each pair in one cache
    line.

    Parameters
    ----------
    d, h, tau, lower, upper : (pairs,) arrays
    """

    def __init__(self, d: Floats, h: Floats, tau: Floats, lower: Floats, upper: Floats) -> None:
        super().__init__(len(d))
        self.d, self.h, self.tau = d, h, tau
        self.lower, self.upper = lower, upper

    def start(self, state: AscentState, constraints: TriangleConstraints, centre: Floats) -> None:
        """Set y = c - A^T z / h."""
        super().start(state, constraints, centre)
        y = centre - constraints.transposed() / self.h
        first, last = thresholds(self.d, self.tau, self.lower, self.upper)
        state.centre = centre
        state.point = np.stack([y, 1.0 / self.h, self.d, self.tau, first, last], axis=1)
        state.previous_point = y.copy()

    def primal(self, state: AscentState, pool: ThreadPool) -> Floats:
        """Return x."""
        x, flat = np.empty(len(self.d)), state.point.ravel()
        pool.run(lambda part: proximal_points(flat, *part, x), self.parts)
        return x

    def recentre(self, state: AscentState, centre: Floats, stiffer: float = 1.0) -> None:
        """Move the centres, and multiply every h by `stiffer`, but not h tau.

        The duals stay; the primal point moves along.
        """
        table = state.point
        for values in (table[:, 0], state.previous_point):
            values -= state.centre
            values /= stiffer
            values += centre
        if stiffer != 1.0:
            table[:, 1] /= stiffer
            table[:, 3] /= stiffer
            d, tau = table[:, 2], table[:, 3]
            table[:, 4], table[:, 5] = thresholds(d, tau, self.lower, self.upper)
        state.centre = centre
        state.dual_value = -math.inf

    def extrapolate(
        self, state: AscentState, constraints: TriangleConstraints, beta: float
    ) -> float:
        """Extrapolate y; return the dual value before that."""
        arrays = (state.point.ravel(), state.previous_point, state.centre, beta)
        values = constraints.pool.run(lambda part: extrapolate_proximal(*arrays, *part), self.parts)
        return float(sum(values))

    def sweep(
        self, state: AscentState, constraints: TriangleConstraints, beta: float, *, backward: bool
    ) -> None:
        """Sweep over all constraints."""
        arrays, flat = constraints.arrays, state.point.ravel()
        constraints.sweep(
            lambda start, stop: sweep_proximal(flat, arrays, beta, backward, start, stop),
            backward=backward,
        )


def thresholds(d: Floats, tau: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the y where x leaves its lower bound, and where it reaches its upper one."""
    first = np.where(lower >= d, lower + tau, lower - tau)
    last = np.where(upper <= d, upper - tau, upper + tau)
    return first, last


@kernel
def soft_threshold(y: float, d: float, tau: float, first: float, last: float) -> float:
    """Return x of y: clipped, and soft-thresholded around d; branch-free."""
    y = min(max(y, first), last)
    return y - min(max(y - d, -tau), tau)


@kernel
def _point_at(flat: Floats, e: int, y: float) -> float:
    """Return x of y, for the pair whose line begins at e."""
    d, tau, first, last = flat[e + 2], flat[e + 3], flat[e + 4], flat[e + 5]
    return soft_threshold(y, d, tau, first, last)  # type: ignore[no-any-return]


@kernel
def proximal_points(flat: Floats, start: int, stop: int, x: Floats) -> None:
    """Write x of the pairs start .. stop - 1."""
    for pair in range(start, stop):
        x[pair] = _point_at(flat, WIDTH * pair, flat[WIDTH * pair])


@kernel
def _violation(flat: Floats, p: int, q: int, r: int, change: float) -> float:
    """Return the violation of a constraint after a change of its dual."""
    x = _point_at(flat, p, flat[p] - change * flat[p + 1])
    x -= _point_at(flat, q, flat[q] + change * flat[q + 1])
    return x - _point_at(flat, r, flat[r] + change * flat[r + 1])  # type: ignore[no-any-return]


@kernel
def _slope(flat: Floats, e: int, y: float) -> float:
    """Return 1/h where x moves with y, in both directions, and 0 elsewhere."""
    moves = (flat[e + 4] < y) & (y < flat[e + 5]) & (abs(y - flat[e + 2]) > flat[e + 3])
    return flat[e + 1] if moves else 0.0


@kernel
def _slope_ahead(flat: Floats, e: int, y: float, up: bool) -> tuple[float, float]:
    """Return the slope of x on one side of y, and the change of the dual to the next breakpoint."""
    low, high = flat[e + 2] - flat[e + 3], flat[e + 2] + flat[e + 3]
    first, last = flat[e + 4], flat[e + 5]
    # A step to a breakpoint may end one rounding error short of it; it counts as reached.
    rounding = 1e-14 * (abs(y) + abs(low) + abs(high) + abs(flat[e]))
    distance = np.inf
    if up:
        at = y + rounding
        for place in (first, low, high, last):
            if place > at:
                distance = min(distance, place - y)
        constant = at < first or at >= last or low <= at < high
    else:
        at = y - rounding
        for place in (first, low, high, last):
            if place < at:
                distance = min(distance, y - place)
        constant = at <= first or at > last or low < at <= high
    return (0.0 if constant else flat[e + 1]), distance / flat[e + 1]


@kernel
def solve_coordinate(flat: Floats, p: int, q: int, r: int, change: float, least: float) -> float:
    """Return the change of a dual, >= least, that makes the violation 0.

    The violation is piecewise linear in the change: the search goes from breakpoint to breakpoint,
    starting at `change`.
    """
    for _ in range(16):  # each of the three pairs has four breakpoints
        violation = _violation(flat, p, q, r, change)
        if violation == 0.0:
            break
        up = violation > 0.0
        a, reach_a = _slope_ahead(flat, p, flat[p] - change * flat[p + 1], not up)
        b, reach_b = _slope_ahead(flat, q, flat[q] + change * flat[q + 1], up)
        c, reach_c = _slope_ahead(flat, r, flat[r] + change * flat[r + 1], up)
        reach = min(reach_a, min(reach_b, reach_c))
        slope = a + b + c
        step = abs(violation) / slope if slope > 0.0 else np.inf
        if up and reach == np.inf and step == np.inf:
            break  # the bounds do not allow less
        moved: float = change + min(step, reach) if up else change - min(step, reach)
        if moved <= least:
            return least
        if moved == change or step <= reach:
            return moved
        change = moved
    return change


@kernel
def sweep_proximal(
    flat: Floats, constraints: ConstraintArrays, beta: float, backward: bool, start: int, stop: int
) -> None:
    """Sweep over the table of :class:`ProximalAscent`, as `sweep_unweighted` does over x."""
    ij, ik, kj = constraints.ij, constraints.ik, constraints.kj
    z, previous = constraints.dual, constraints.previous
    for step in range(start, stop):
        t = start + stop - 1 - step if backward else step
        p, q, r = WIDTH * ij[t], WIDTH * ik[t], WIDTH * kj[t]
        ahead = z[t]
        if not backward:
            ahead += beta * (ahead - previous[t])
            previous[t] = z[t]
        least = -ahead
        c = max(0.0, least)
        violation = _violation(flat, p, q, r, c)
        if violation > 0.0 or (violation < 0.0 and c > least):
            # Mostly no breakpoint is in the way: one Newton step, then a check.
            slope = _slope(flat, p, flat[p] - c * flat[p + 1])
            slope += _slope(flat, q, flat[q] + c * flat[q + 1])
            slope += _slope(flat, r, flat[r] + c * flat[r + 1])
            there = c
            if slope > 0.0:
                there = max(c + violation / slope, least)
            rest = _violation(flat, p, q, r, there)
            if (there == least and rest <= 0.0) or abs(rest) <= 1e-3 * abs(violation):
                c = there
            else:
                c = solve_coordinate(flat, p, q, r, c, least)
        flat[p] -= c * flat[p + 1]
        flat[q] += c * flat[q + 1]
        flat[r] += c * flat[r + 1]
        z[t] = ahead + c


@kernel
def extrapolate_proximal(
    flat: Floats, previous: Floats, centre: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Add beta times the last step to y; return this part of the dual value before that.

    .. math:: \sum_e \phi_e(x_e) + h_e (c_e - y_e)\, x_e
    """
    total = 0.0
    for pair in range(start, stop):
        e = WIDTH * pair
        y, c = flat[e], centre[pair]
        x = _point_at(flat, e, y)
        value = 0.5 * (x - c) * (x - c) + flat[e + 3] * abs(x - flat[e + 2]) + (c - y) * x
        total += value / flat[e + 1]
        flat[e] = y + beta * (y - previous[pair])
        previous[pair] = y
    return total
