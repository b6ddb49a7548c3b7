r"""The sum of absolute changes, by dual ascent with proximal terms.

.. math:: f(x) = \sum_e w_e |x_e - d_e|
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import time_left
from metricmix.kernels.threads import ThreadPool, call_in_background
from metricmix.nearness.constraints import TriangleConstraints
from metricmix.nearness.coordinate_ascent import AscentState
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.loss import Loss
from metricmix.nearness.norms.norm import NORMS, Norm
from metricmix.nearness.problem import NearnessProblem
from metricmix.nearness.proximal_ascent import ProximalAscent
from metricmix.nearness.solver import NearnessSolver
from metricmix.typing import Floats

__all__ = ["AbsoluteLoss", "AbsoluteNorm", "sum_absolutes"]


LARGEST_PROGRAM = 30_000
"""Constraints up to which a linear program takes seconds, not minutes."""


@NORMS.register(
    "l1",
    order=1,
    words="sum of absolute changes over pairs",
    brief="absolute changes",
    formula="sum of w abs(x - d)",
    how="the same, by the proximal point method",
)
class AbsoluteNorm(Norm):
    """Weighted absolute values."""

    power = 1

    def objective(self, change: Floats, w: Floats) -> float:
        """Return the sum of w abs(x - d)."""
        return float(np.sum(w * np.abs(change)))

    def solver(
        self, problem: NearnessProblem, pool: ThreadPool, tol: float, device: str
    ) -> NearnessSolver[Any]:
        """Return dual ascent."""
        return DualAscent(AbsoluteLoss(problem, pool.threads), pool, tol=tol)


class AbsoluteLoss(Loss):
    """Weighted absolute values."""

    @cached_property
    def ascent(self) -> ProximalAscent:
        """Dual ascent with proximal terms around d."""
        problem, (weights, d) = self.problem, self.filled
        h = weights / (float(problem.d[self.known].mean()) or problem.ceiling)
        return ProximalAscent(d, h, problem.w / h, self.low, self.high)

    def centre(self, metric: Floats | None) -> Floats:
        """Return the metric, or d."""
        return self.filled[1] if metric is None else metric

    def sweeps(self, state: AscentState) -> tuple[int, int]:
        """Return factors for the number of sweeps: many once the gap is small; measured."""
        return (16, 1) if state.close else (4, 4)

    def objective_of_rows(self, rows: Floats, low: int) -> float:
        """Return a part of f."""
        return float(sum_absolutes(rows, low, self.problem.d, self.problem.w))

    def dual_scale(self, constraints: TriangleConstraints) -> float:
        """Return 1, or less where the duals exceed what any term can balance."""
        u, w = constraints.transposed()[self.known], self.problem.w[self.known]
        most = float(np.max(np.abs(u) / w, initial=0.0))
        return min(1.0, 2.0 / most) if 0 < most < math.inf else 0.0

    def lower_bound(self, constraints: TriangleConstraints, x: Floats) -> tuple[float, float]:
        r"""Return the best of the bounds of duals :math:`s z`, :math:`0 < s \le 1`, and its s.

        Where :math:`s\,|A^T z| \le w`, a term is smallest at d; elsewhere at one of its limits. One
        end scales all duals down until the first holds everywhere; the other leaves them.
        """
        w, d = self.problem.w, self.problem.d
        u = constraints.transposed()
        at = np.clip(d, self.low, self.high)
        at_d, at_low, at_high = (w * np.abs(x - d) for x in (at, self.low, self.high))
        down, up = u * (self.low - at), u * (self.high - at)
        base = constraints.product(at)
        known = self.known
        least = min(1.0, float(np.min(w[known] / np.maximum(np.abs(u[known]), 1e-300))))

        def bound(s: float) -> float:
            terms = np.minimum(np.minimum(at_d, at_low + s * down), at_high + s * up)
            return s * base + float(np.sum(terms))

        factors = [1.0 - share * (1.0 - least) for share in (0.0, 0.1, 0.3, 0.6, 1.0)]
        return max((bound(s), s) for s in factors)

    def recentre(self, state: AscentState, x: Floats, upper: float, lower: float) -> None:
        """Move all centres to x.

        The terms get softer if the lower bound has been five times worse than the upper one for
        five rounds, and stiffer if the upper bound has.
        """
        value = self.problem.objective(x)
        dual_lags = value - lower > 5.0 * (upper - value)
        primal_lags = upper - value > 5.0 * (value - lower)
        state.close = upper - lower <= 3e-4 * upper  # then a proximal step is worth many sweeps
        state.lag = state.lag - 1 if dual_lags else state.lag + 1 if primal_lags else 0
        stiffer = 1.0
        if abs(state.lag) == 5:
            stiffer = 1.5 if primal_lags else 1.0 / 1.5
            state.lag = 0
        self.ascent.recentre(state, x, stiffer)
        state.theta = 1.0  # all centres moved: the last step says little about the next one

    def solve_restricted(self, constraints: TriangleConstraints) -> tuple[Floats, Floats] | None:
        """Solve the linear program over these constraints; None if it is too large or fails."""
        if len(constraints) > LARGEST_PROGRAM:
            return None
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack

        w, low, high = self.problem.w, self.low, self.high
        pairs, count, arrays = len(w), len(constraints), constraints.arrays
        d = np.where(self.known, self.problem.d, low)
        columns = np.stack([arrays.ij, arrays.ik, arrays.kj], axis=1).ravel()
        values = np.tile([1.0, -1.0, -1.0], count)
        A = csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, pairs))
        raised = np.stack([np.maximum(0.0, low - d), np.maximum(0.0, high - d)], axis=1)
        lowered = np.stack([np.maximum(0.0, d - high), np.maximum(0.0, d - low)], axis=1)
        solve: Any = linprog  # its stubs do not allow arrays of bounds
        found = call_in_background(
            solve,
            np.concatenate([w, w]),
            A_ub=hstack([A, -A], format="csr"),
            b_ub=-(A @ d),
            bounds=np.concatenate([raised, lowered]),
            method="highs-ipm",
            options={"time_limit": time_left()},
        )
        if found.status != 0:
            return None
        return d + found.x[:pairs] - found.x[pairs:], np.maximum(0.0, -found.ineqlin.marginals)


@kernel
def sum_absolutes(rows: Floats, low: int, d: Floats, w: Floats) -> float:
    """Return the sum of w |x - d| over rows low, low + 1, ..., left of the diagonal."""
    total = 0.0
    for r in range(rows.shape[0]):
        i = low + r
        x = rows[r]
        first = i * (i - 1) // 2
        for j in range(i):
            total += w[first + j] * abs(x[j] - d[first + j])
    return total
