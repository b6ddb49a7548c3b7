r"""What is minimised, pair by pair, and what its dual says.

.. math:: f(x) = \sum_e w_e (x_e - d_e)^2 \qquad \text{or} \qquad f(x) = \sum_e w_e |x_e - d_e|

For any :math:`z \ge 0` a lower bound of the minimum over metrics is

.. math:: \min_{L \le x \le U} \; f(x) + (A^T z)^T x

with L and U the bounds of the problem, 0, and the length that no entry need exceed. Coordinate
ascent wants terms that are strictly convex. Where they are not (absolute values, missing entries)
they get :math:`\tfrac{h}{2} (x - c)^2` on top, and the centre c follows x from round to round: the
proximal point method, which ends at a solution of the problem without them. Lower bounds leave
them out.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from metricmix.nearness.constraints import Rows
from metricmix.nearness.momentum import Ascent, BentAscent, PlainAscent
from metricmix.nearness.problem import Problem, closure_of
from metricmix.nearness.triangle_oracle import sum_absolutes, sum_squares
from metricmix.typing import Floats

__all__ = ["Absolutes", "Squares", "Terms", "solve_over_rows"]


LAG, ROUNDS = 5.0, 5
"""How much worse one bound must be than the other, and for how long, to change the stiffness."""

NEAR, FAR_SWEEPS, NEAR_SWEEPS = 3e-4, (4, 4), (16, 1)
"""Gap below which each centre is worth going a long way, and `sweeps` and `effort` before and
after; measured."""

ALIKE = 100.0
"""Duals that are so many times too large or small are still good to start from."""

MOST_ROWS = 30_000
"""Rows up to which a linear program takes seconds, not minutes."""


class Terms(Protocol):
    """What the solver needs to know of an objective.

    A round has `sweeps` times the usual number of sweeps, and up to `effort` times that where it is
    they that lag behind.
    """

    problem: Problem
    sweeps: int
    effort: int

    def ascent(self, rows: Rows, near: Floats | None) -> Ascent:
        """Return dual ascent from the duals of the rows, with centres at a point or of its own."""
        ...

    def objective(self, x: Floats) -> float:
        """Return f(x)."""
        ...

    def scale_for(self, rows: Rows) -> float:
        """Return what to multiply duals of another problem by, for them to fit this one."""
        ...

    def lower_bound(self, rows: Rows, x: Floats) -> float:
        """Return the lower bound that the duals of the rows give, x being what belongs to them."""
        ...

    def part(self, rows: Floats, low: int) -> float:
        """Return the part of f that rows low, low + 1, ... have left of the diagonal."""
        ...

    def follow(self, ascent: Ascent, upper: float, lower: float) -> None:
        """Move centres to x, after a round with these bounds of its own."""
        ...

    def solve_over(self, rows: Rows) -> tuple[Floats, Floats] | None:
        """Return the best x over the given rows, and their duals; None if sweeps are faster."""
        ...


class Squares:
    """Weighted squares."""

    sweeps, effort = 1, 8

    def __init__(self, problem: Problem, n_jobs: int | None) -> None:
        self.problem, self.n_jobs = problem, n_jobs
        self.missing = problem.w == 0 if problem.missing else None
        self.low, self.high = _limits(problem)

    def ascent(self, rows: Rows, near: Floats | None) -> Ascent:
        """Return dual ascent: plain if there are no bounds and nothing is missing."""
        problem = self.problem
        if self.missing is None and problem.lower is None and problem.upper is None:
            return PlainAscent(rows, problem.d, problem.w, problem.even)
        h, centre = problem.w, problem.d
        if self.missing is not None:
            h, centre = _filled(problem, self.n_jobs)
            centre = centre if near is None else np.where(self.missing, near, centre)
        return BentAscent(
            rows,
            d=centre,
            h=h,
            centre=centre,
            tau=np.zeros(len(h)),
            lower=self.low,
            upper=self.high,
        )

    def objective(self, x: Floats) -> float:
        """Return f(x)."""
        problem, missing = self.problem, self.missing
        apart = x - problem.d if missing is None else np.where(missing, 0.0, x - problem.d)
        return float(np.sum(problem.w * apart**2))

    def scale_for(self, rows: Rows) -> float:
        r"""Return the best s >= 0 for the bound :math:`2 s z^T A d - s^2 \|A^T z\|_{1/w}^2`.

        That leaves bounds on the entries out, so it is 1 unless sizes are very different.
        """
        known = self.problem.w > 0
        u, w = rows.transposed()[known], self.problem.w[known]
        square = float(np.sum(u * (u / w)))
        best = rows.product(self.problem.d) / square if square > 0 else 0.0
        if 1.0 / ALIKE <= best <= ALIKE:
            return 1.0
        return best if math.isfinite(best) and best > 0 else 0.0

    def lower_bound(self, rows: Rows, x: Floats) -> float:
        r"""Return :math:`\|x - d\|_w^2 + 2 z^T A x`.

        That loses no digits: it has no large terms that cancel, and an error of x counts squared.
        For missing pairs, x is where its sign says within the limits.
        """
        bound = self.objective(x) + 2.0 * rows.product(x)
        if self.missing is not None:
            u, at = rows.transposed()[self.missing], x[self.missing]
            low, high = self.low[self.missing], self.high[self.missing]
            bound += 2.0 * float(np.sum(np.minimum(u * (low - at), u * (high - at))))
        return bound

    def part(self, rows: Floats, low: int) -> float:
        """Return a part of f."""
        return float(sum_squares(rows, low, self.problem.d, self.problem.w))

    def follow(self, ascent: Ascent, upper: float, lower: float) -> None:
        """Move the centres of missing pairs to x."""
        if self.missing is not None and isinstance(ascent, BentAscent):
            ascent.recentre(np.where(self.missing, ascent.point(), self.problem.d))

    def solve_over(self, rows: Rows) -> tuple[Floats, Floats] | None:
        """Return None: sweeps are fast enough."""
        return None


class Absolutes:
    """Weighted absolute values."""

    def __init__(self, problem: Problem, n_jobs: int | None) -> None:
        self.problem, self.n_jobs = problem, n_jobs
        self.sweeps, self.effort = FAR_SWEEPS
        self.low, self.high = _limits(problem)
        self.lagging = 0

    def ascent(self, rows: Rows, near: Floats | None) -> Ascent:
        """Return dual ascent around d, or around the given point."""
        problem = self.problem
        weights, d = _filled(problem, self.n_jobs)
        h = weights / (float(problem.d[problem.w > 0].mean()) or problem.ceiling)
        return BentAscent(
            rows,
            d=d,
            h=h,
            centre=d if near is None else near,
            tau=problem.w / h,
            lower=self.low,
            upper=self.high,
        )

    def objective(self, x: Floats) -> float:
        """Return f(x)."""
        return float(np.sum(self.problem.w * np.abs(x - self.problem.d)))

    def scale_for(self, rows: Rows) -> float:
        """Return 1, or less where duals pull more than any term can hold."""
        known = self.problem.w > 0
        most = float(np.max(np.abs(rows.transposed()[known]) / self.problem.w[known], initial=0.0))
        return min(1.0, 2.0 / most) if 0 < most < math.inf else 0.0

    def lower_bound(self, rows: Rows, x: Floats) -> float:
        r"""Return the best of the bounds that :math:`s z`, :math:`0 < s \le 1`, give.

        Where :math:`s\,|A^T z| \le w`, a term is smallest at d; elsewhere at one of its limits.
        Shrinking all duals until the first holds everywhere is one end, not shrinking the other.
        """
        w, d = self.problem.w, self.problem.d
        u = rows.transposed()
        at = np.clip(d, self.low, self.high)
        known = w > 0
        stays, falls, rises = (w * np.abs(x - d) for x in (at, self.low, self.high))
        down, up = u * (self.low - at), u * (self.high - at)
        base = rows.product(at)
        least = min(1.0, float(np.min(w[known] / np.maximum(np.abs(u[known]), 1e-300))))

        def bound(s: float) -> float:
            terms = np.minimum(np.minimum(stays, falls + s * down), rises + s * up)
            return s * base + float(np.sum(terms))

        return max(bound(1.0 - share * (1.0 - least)) for share in (0.0, 0.1, 0.3, 0.6, 1.0))

    def part(self, rows: Floats, low: int) -> float:
        """Return a part of f."""
        return float(sum_absolutes(rows, low, self.problem.d, self.problem.w))

    def follow(self, ascent: Ascent, upper: float, lower: float) -> None:
        """Move all centres to x.

        They pull less if the lower bound has been the worse one for some rounds, or else more.
        """
        assert isinstance(ascent, BentAscent)
        x = ascent.point()
        value = self.objective(x)
        dual_lags = value - lower > LAG * (upper - value)
        primal_lags = upper - value > LAG * (value - lower)
        near = upper - lower <= NEAR * upper
        self.sweeps, self.effort = NEAR_SWEEPS if near else FAR_SWEEPS
        self.lagging = self.lagging - 1 if dual_lags else self.lagging + 1 if primal_lags else 0
        stiffer = 1.0
        if abs(self.lagging) == ROUNDS:
            stiffer = 1.5 if primal_lags else 1.0 / 1.5
            self.lagging = 0
        ascent.recentre(x, stiffer)
        ascent.start_over()  # all centres moved: the last step says little about the next one

    def solve_over(self, rows: Rows) -> tuple[Floats, Floats] | None:
        """Solve the linear program over the rows, if they are not too many for that."""
        if len(rows) > MOST_ROWS:
            return None
        return solve_over_rows(self.problem, rows, self.low, self.high)


def _limits(problem: Problem) -> tuple[Floats, Floats]:
    """Return bounds that some solution keeps."""
    pairs = len(problem.d)
    low = np.zeros(pairs) if problem.lower is None else problem.lower
    high = np.full(pairs, problem.ceiling)
    return low, high if problem.upper is None else np.minimum(high, problem.upper)


def _filled(problem: Problem, n_jobs: int | None) -> tuple[Floats, Floats]:
    """Return weights > 0 and dissimilarities, with the mean and the closure where none is known."""
    known = problem.w > 0
    if known.all():
        return problem.w, problem.d
    lengths = np.where(known, problem.d, np.inf if problem.upper is None else problem.upper)
    filled = closure_of(lengths, problem.n, n_jobs)
    weights = np.where(known, problem.w, problem.w[known].mean())
    return weights, np.where(known, problem.d, filled)


# -- absolute values as a linear program over the rows that matter ------------------------------


def solve_over_rows(
    problem: Problem, rows: Rows, low: Floats, high: Floats
) -> tuple[Floats, Floats] | None:
    """Return the point and the duals that are best for these rows, or None if that failed.

    Parameters
    ----------
    problem : Problem
    rows : Rows
        T rows; their duals are not looked at.
    low, high : (pairs,) arrays
        Bounds.

    Returns
    -------
    (pairs,) and (T,) arrays
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    pairs, count = len(problem.d), len(rows)
    d = np.where(problem.w > 0, problem.d, low)
    columns = np.stack([rows.side, rows.leg, rows.other], axis=1).ravel()
    values = np.tile([1.0, -1.0, -1.0], count)
    A = csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, pairs))
    raised = np.stack([np.maximum(0.0, low - d), np.maximum(0.0, high - d)], axis=1)
    lowered = np.stack([np.maximum(0.0, d - high), np.maximum(0.0, d - low)], axis=1)
    solve: Any = linprog  # its types know no arrays of bounds
    found = solve(
        np.concatenate([problem.w, problem.w]),
        A_ub=hstack([A, -A], format="csr"),
        b_ub=-(A @ d),
        bounds=np.concatenate([raised, lowered]),
        method="highs-ipm",
    )
    if found.status != 0:
        return None
    return d + found.x[:pairs] - found.x[pairs:], np.maximum(0.0, -found.ineqlin.marginals)
