r"""Accelerated coordinate ascent on the duals of triangle constraints.

.. math:: \max_{z \ge 0} \; \sum_e \min_x \bigl[\phi_e(x) + (A^T z)_e\, x\bigr]

The primal point of duals z is :math:`x_e = \arg\min \phi_e(x) + (A^T z)_e\, x`. A sweep maximises
over one dual after the other (Hildreth, Dykstra). For :math:`\phi_e = \tfrac{h_e}{2} (x - d_e)^2`
and :math:`v_t = x_{ij} - x_{ik} - x_{kj}` the update is

.. math:: c = \max\Bigl(\frac{v_t}{1/h_{ij} + 1/h_{ik} + 1/h_{kj}},\; -z_t\Bigr), \qquad
          z_t \leftarrow z_t + c, \qquad
          x_{ij} \mathrel{-}= \frac{c}{h_{ij}}, \quad x_{ik} \mathrel{+}= \frac{c}{h_{ik}}, \quad
          x_{kj} \mathrel{+}= \frac{c}{h_{kj}}.

Acceleration is Nesterov's: a sweep starts at :math:`z + \beta (z - z_{prev})` with :math:`\beta =
(\theta_k - 1) / \theta_{k+1}`. x is linear in z and is extrapolated before the sweep; each dual is
extrapolated when its turn comes, and clipped at 0. The momentum restarts when the dual value
falls. Measured, that takes a fifth of the sweeps, or less, where plain sweeps are slow.

A sweep is not symmetric, and where many constraints share a pair its errors rotate; momentum
amplifies them and restarts every few sweeps. Then each forward sweep is followed by a backward one
without momentum. The pair is symmetric, and momentum works again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import time_is_up
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import ConstraintArrays, KeyedDuals, TriangleConstraints
from metricmix.typing import Floats, Indices

__all__ = [
    "AcceleratedAscent",
    "AscentState",
    "QuadraticAscent",
    "extrapolate",
    "sweep_unweighted",
    "sweep_weighted",
]


SHORT, RESTARTS = 10, 4
"""After `RESTARTS` restarts in a row, each within `SHORT` sweeps, sweeps go both ways."""


@dataclass(kw_only=True)
class AscentState:
    """Duals of the constraints, their primal point, and the momentum.

    Attributes
    ----------
    keys, dual, previous_dual : (T,) arrays
        The constraints (:class:`~metricmix.nearness.constraints.KeyedDuals`).
    point : (pairs,) or (pairs, 6) array
        The primal point x, or the table of
        :class:`~metricmix.nearness.proximal_ascent.ProximalAscent`; empty before the start.
    previous_point : (pairs,) array
        x, or the y of the table, one sweep ago.
    centre : (pairs,) array
        Centre of the proximal terms; empty if there are none.
    theta, dual_value : float
        Nesterov's sequence, and the dual value before the last sweep.
    since_restart, short_runs : int
        Sweeps since the last restart, and short runs of the momentum in a row.
    lag, close : int, bool
        Schedule of the proximal point method: rounds in which the upper bound (> 0) or the lower
        bound (< 0) was the worse one, and whether the gap is small.
    """

    keys: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    dual: Floats = field(default_factory=lambda: np.empty(0))
    previous_dual: Floats = field(default_factory=lambda: np.empty(0))
    point: Floats = field(default_factory=lambda: np.empty(0))
    previous_point: Floats = field(default_factory=lambda: np.empty(0))
    centre: Floats = field(default_factory=lambda: np.empty(0))
    theta: float = 1.0
    dual_value: float = -math.inf
    since_restart: int = 0
    short_runs: int = 0
    lag: int = 0
    close: bool = False

    def set_constraints(self, constraints: TriangleConstraints) -> None:
        """Take keys and duals from a set of constraints, which shares the arrays from here on."""
        self.keys, self.dual, self.previous_dual = constraints.duals

    @property
    def duals(self) -> KeyedDuals:
        """Keys and duals of the constraints."""
        return KeyedDuals(self.keys, self.dual, self.previous_dual)


class AcceleratedAscent(ABC):
    r"""Accelerated coordinate ascent for terms :math:`\phi_e`; the state is updated in place.

    Parameters
    ----------
    pairs : int
    """

    def __init__(self, pairs: int) -> None:
        part = 1 << 15  # pairs per task; fixed, so that sums do not depend on the number of threads
        self.parts = [(low, min(low + part, pairs)) for low in range(0, pairs, part)]

    @abstractmethod
    def start(self, state: AscentState, constraints: TriangleConstraints, centre: Floats) -> None:
        """Set the primal point of the duals, without momentum.

        `centre` is that of the proximal terms, where there are any.
        """
        state.theta, state.dual_value = 1.0, -math.inf

    @abstractmethod
    def primal(self, state: AscentState, pool: ThreadPool) -> Floats:
        """Return the primal point x, over all pairs; not to be written to."""

    @abstractmethod
    def extrapolate(
        self, state: AscentState, constraints: TriangleConstraints, beta: float
    ) -> float:
        """Extrapolate the primal point; return the dual value before that."""

    @abstractmethod
    def sweep(
        self, state: AscentState, constraints: TriangleConstraints, beta: float, *, backward: bool
    ) -> None:
        """Sweep over all constraints."""

    def climb(self, state: AscentState, constraints: TriangleConstraints, sweeps: int) -> None:
        """Do this many sweeps (or one more), or fewer if the time is up."""
        done = 0
        while done < sweeps and not time_is_up():
            following = (1.0 + math.sqrt(1.0 + 4.0 * state.theta**2)) / 2.0
            # Momentum closer to 1 makes sweeps that are not symmetric unstable.
            beta = min(0.97, (state.theta - 1.0) / following)
            value = self.extrapolate(state, constraints, beta)
            # A fall shows after the next extrapolation; that sweep still goes ahead.
            state.since_restart += 1
            if value < state.dual_value:
                state.short_runs = state.short_runs + 1 if state.since_restart < SHORT else 0
                following, state.since_restart = 1.0, 0
            state.theta, state.dual_value = following, value
            self.sweep(state, constraints, beta, backward=False)
            done += 1
            if state.short_runs >= RESTARTS:
                self.sweep(state, constraints, 0.0, backward=True)
                done += 1


# -- quadratic terms ----------------------------------------------------------------------------


class QuadraticAscent(AcceleratedAscent):
    r"""The terms are :math:`\tfrac{h}{2} (x - d)^2`, without bounds.

    Parameters
    ----------
    d, h : (pairs,) arrays
    even : bool
        Whether every h is 1.
    """

    def __init__(self, d: Floats, h: Floats, even: bool) -> None:
        super().__init__(len(d))
        self.d = d
        self.h = np.ones(1) if even else h
        self.inverse = None if even else 1.0 / h

    def start(self, state: AscentState, constraints: TriangleConstraints, centre: Floats) -> None:
        """Set x = d - A^T z / h."""
        super().start(state, constraints, centre)
        pull = constraints.transposed()
        state.point = self.d - (pull if self.inverse is None else pull / self.h)
        state.previous_point = state.point.copy()

    def primal(self, state: AscentState, pool: ThreadPool) -> Floats:
        """Return x."""
        return state.point

    def extrapolate(
        self, state: AscentState, constraints: TriangleConstraints, beta: float
    ) -> float:
        """Extrapolate x; return the dual value before that."""
        arrays = (state.point, state.previous_point, self.d, self.h, beta)
        values = constraints.pool.run(lambda part: extrapolate(*arrays, *part), self.parts)
        return float(sum(values))

    def sweep(
        self, state: AscentState, constraints: TriangleConstraints, beta: float, *, backward: bool
    ) -> None:
        """Sweep over all constraints."""
        arrays, x, inverse = constraints.arrays, state.point, self.inverse

        def of_part(start: int, stop: int) -> None:
            if inverse is None:
                sweep_unweighted(x, arrays, beta, backward, start, stop)
            else:
                sweep_weighted(x, inverse, arrays, beta, backward, start, stop)

        constraints.sweep(of_part, backward=backward)


@kernel
def sweep_unweighted(
    x: Floats, constraints: ConstraintArrays, beta: float, backward: bool, start: int, stop: int
) -> None:
    """Sweep over the constraints start .. stop - 1 where every h is 1.

    A `backward` sweep takes them in reverse order and without momentum.
    """
    ij, ik, kj = constraints.ij, constraints.ik, constraints.kj
    z, previous = constraints.dual, constraints.previous
    third = 1.0 / 3.0
    for step in range(start, stop):
        t = start + stop - 1 - step if backward else step
        p, q, r = ij[t], ik[t], kj[t]
        ahead = z[t]
        if not backward:
            ahead += beta * (ahead - previous[t])
            previous[t] = z[t]
        c = max((x[p] - x[q] - x[r]) * third, -ahead)
        x[p] -= c
        x[q] += c
        x[r] += c
        z[t] = ahead + c


@kernel
def sweep_weighted(
    x: Floats,
    inverse: Floats,
    constraints: ConstraintArrays,
    beta: float,
    backward: bool,
    start: int,
    stop: int,
) -> None:
    """Sweep as :func:`sweep_unweighted`, with `inverse` = 1 / h."""
    ij, ik, kj = constraints.ij, constraints.ik, constraints.kj
    z, previous = constraints.dual, constraints.previous
    for step in range(start, stop):
        t = start + stop - 1 - step if backward else step
        p, q, r = ij[t], ik[t], kj[t]
        ahead = z[t]
        if not backward:
            ahead += beta * (ahead - previous[t])
            previous[t] = z[t]
        violation = x[p] - x[q] - x[r]
        c = max(violation / (inverse[p] + inverse[q] + inverse[r]), -ahead)
        x[p] -= c * inverse[p]
        x[q] += c * inverse[q]
        x[r] += c * inverse[r]
        z[t] = ahead + c


@kernel
def extrapolate(
    x: Floats, previous: Floats, d: Floats, h: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Add beta times the last step to x; return this part of the dual value before that.

    .. math:: \sum_e \tfrac{h_e}{2} (d_e - x_e)(d_e + x_e)

    is the dual value of z where x is the primal point of z, to a precision that shows whether it
    grows. `h` may have the length 1 if all are equal.
    """
    total = 0.0
    if h.shape[0] == 1:
        for e in range(start, stop):
            now = x[e]
            total += (d[e] - now) * (d[e] + now)
            x[e] = now + beta * (now - previous[e])
            previous[e] = now
        return 0.5 * float(h[0]) * total
    for e in range(start, stop):
        now = x[e]
        total += h[e] * (d[e] - now) * (d[e] + now)
        x[e] = now + beta * (now - previous[e])
        previous[e] = now
    return 0.5 * total
