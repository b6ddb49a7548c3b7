r"""The objectives of dual ascent: weighted squares and absolute values, and their dual bounds.

.. math:: f(x) = \sum_e w_e (x_e - d_e)^2 \qquad \text{or} \qquad f(x) = \sum_e w_e |x_e - d_e|

For any :math:`z \ge 0`, a lower bound of the minimum over metrics is

.. math:: \min_{L \le x \le U} \; f(x) + (A^T z)^T x

with L and U the bounds of the problem, 0, and a length that no entry need exceed. Coordinate ascent
needs strictly convex terms. Where they are not (absolute values, missing entries) the proximal term
:math:`\tfrac{h}{2} (x - c)^2` is added, and the centre c moves to x after every round: the proximal
point method, which converges to a solution of the problem without these terms. Lower bounds leave
them out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import call_in_background, time_left
from metricmix.nearness.constraints import TriangleConstraints
from metricmix.nearness.coordinate_ascent import (
    AcceleratedAscent,
    AscentState,
    ProximalAscent,
    QuadraticAscent,
)
from metricmix.nearness.problem import NearnessProblem, closure_of
from metricmix.typing import Floats

__all__ = ["AbsoluteLoss", "Loss", "SquaredLoss", "sum_absolutes", "sum_squares"]


LAG, ROUNDS = 5.0, 5
"""Change the stiffness if one bound is `LAG` times worse than the other for `ROUNDS` rounds."""

CLOSE = 3e-4
"""Gap below which a proximal step is worth many sweeps."""

ALIKE = 100.0
"""Duals of another problem are used as they are if their scale is off by at most this factor."""

LARGEST_PROGRAM = 30_000
"""Constraints up to which a linear program takes seconds, not minutes."""


class Loss(ABC):
    """An objective f over pairs, a sum of convex terms.

    Parameters
    ----------
    problem : NearnessProblem
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    known : (pairs,) array of bool
    low, high : (pairs,) arrays
        Bounds that some solution satisfies.
    """

    def __init__(self, problem: NearnessProblem, n_jobs: int | None) -> None:
        self.problem, self.n_jobs = problem, n_jobs
        self.known = problem.w > 0
        pairs = len(problem.d)
        self.low = np.zeros(pairs) if problem.lower is None else problem.lower
        high = np.full(pairs, problem.ceiling)
        self.high = high if problem.upper is None else np.minimum(high, problem.upper)

    @cached_property
    def filled(self) -> tuple[Floats, Floats]:
        """Weights > 0 and dissimilarities: the mean and the closure stand in for missing ones."""
        problem, known = self.problem, self.known
        if known.all():
            return problem.w, problem.d
        unknown = np.inf if problem.upper is None else problem.upper
        closed = closure_of(np.where(known, problem.d, unknown), problem.n, self.n_jobs)
        weights = np.where(known, problem.w, problem.w[known].mean())
        return weights, np.where(known, problem.d, closed)

    @property
    @abstractmethod
    def ascent(self) -> AcceleratedAscent:
        """Dual ascent for the terms."""

    @abstractmethod
    def centre(self, metric: Floats | None) -> Floats:
        """Return the first centre of the proximal terms, given a metric to start from, if any."""

    @abstractmethod
    def sweeps(self, state: AscentState) -> tuple[int, int]:
        """Return how many times the usual number of sweeps a round has, and at most has.

        The second factor applies where it is the sweeps that limit progress.
        """

    @abstractmethod
    def objective_of_rows(self, rows: Floats, low: int) -> float:
        """Return the part of f in rows low, low + 1, ... of a matrix, left of the diagonal."""

    @abstractmethod
    def dual_scale(self, constraints: TriangleConstraints) -> float:
        """Return a factor that fits duals of another problem to this one."""

    @abstractmethod
    def lower_bound(self, constraints: TriangleConstraints, x: Floats) -> tuple[float, float]:
        """Return the lower bound of the duals times s, and s; x is their primal point."""

    @abstractmethod
    def recentre(self, state: AscentState, x: Floats, upper: float, lower: float) -> None:
        """Move the centres of the proximal terms to x, after a round with these bounds."""

    def solve_restricted(self, constraints: TriangleConstraints) -> tuple[Floats, Floats] | None:
        """Return the best x under these constraints only, and their duals; None if too slow."""
        return None


class SquaredLoss(Loss):
    """Weighted squares."""

    @cached_property
    def ascent(self) -> AcceleratedAscent:
        """Dual ascent: quadratic terms, or proximal ones if there are bounds or missing pairs."""
        problem, (h, d) = self.problem, self.filled
        if self.known.all() and problem.lower is None and problem.upper is None:
            return QuadraticAscent(d, h, problem.even)
        return ProximalAscent(d, h, np.zeros(len(h)), self.low, self.high)

    def centre(self, metric: Floats | None) -> Floats:
        """Return d, and the metric where d is missing."""
        _, d = self.filled
        return d if metric is None else np.where(self.known, d, metric)

    def sweeps(self, state: AscentState) -> tuple[int, int]:
        """Return factors for the number of sweeps."""
        return 1, 8

    def objective_of_rows(self, rows: Floats, low: int) -> float:
        """Return a part of f."""
        return float(sum_squares(rows, low, self.problem.d, self.problem.w))

    def dual_scale(self, constraints: TriangleConstraints) -> float:
        r"""Return the best s >= 0 for the bound :math:`2 s z^T A d - s^2 \|A^T z\|_{1/w}^2`.

        That ignores bounds on the entries, so it is 1 unless the scales are very different.
        """
        u, w = constraints.transposed()[self.known], self.problem.w[self.known]
        square = float(np.sum(u * (u / w)))
        best = constraints.product(self.problem.d) / square if square > 0 else 0.0
        if 1.0 / ALIKE <= best <= ALIKE:
            return 1.0
        return best if math.isfinite(best) and best > 0 else 0.0

    def lower_bound(self, constraints: TriangleConstraints, x: Floats) -> tuple[float, float]:
        r"""Return :math:`\|x - d\|_w^2 + 2 z^T A x`, and s = 1.

        No large terms cancel, and an error of x counts squared. A missing pair is at the limit that
        the sign of its coefficient selects.
        """
        bound = self.problem.objective(x) + 2.0 * constraints.product(x)
        missing = ~self.known
        if missing.any():
            u, at = constraints.transposed()[missing], x[missing]
            low, high = self.low[missing], self.high[missing]
            bound += 2.0 * float(np.sum(np.minimum(u * (low - at), u * (high - at))))
        return bound, 1.0

    def recentre(self, state: AscentState, x: Floats, upper: float, lower: float) -> None:
        """Move the centres of missing pairs to x."""
        if isinstance(self.ascent, ProximalAscent) and not self.known.all():
            self.ascent.recentre(state, np.where(self.known, self.problem.d, x))


@kernel
def sum_squares(rows: Floats, low: int, d: Floats, w: Floats) -> float:
    """Return the sum of w (x - d)^2 over rows low, low + 1, ..., left of the diagonal."""
    total = 0.0
    for r in range(rows.shape[0]):
        i = low + r
        x = rows[r]
        first = i * (i - 1) // 2
        for j in range(i):
            apart = x[j] - d[first + j]
            total += w[first + j] * apart * apart
    return total


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

        The terms get softer if the lower bound has been the worse one for some rounds, and stiffer
        if the upper bound has.
        """
        value = self.problem.objective(x)
        dual_lags = value - lower > LAG * (upper - value)
        primal_lags = upper - value > LAG * (value - lower)
        state.close = upper - lower <= CLOSE * upper
        state.lag = state.lag - 1 if dual_lags else state.lag + 1 if primal_lags else 0
        stiffer = 1.0
        if abs(state.lag) == ROUNDS:
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
