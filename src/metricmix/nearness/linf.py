r"""The smallest largest change: nearest in the maximum norm.

.. math:: t^* = \min \{ t : P(\min(d + t/w, u)) \ge \max(d - t/w, l) \}

P being the shortest-path closure: the left-hand side is the largest metric that raises no entry by
more than :math:`t/w`, and it will do if and only if it lowers none by more. Where it does not, some
pair and some path between its ends say

.. math:: \max(d_{ij} - s/w_{ij},\, l_{ij}) \;\le\; \sum_e \min(d_e + s/w_e,\, u_e)
          \qquad \text{for no } s \le t

and the smallest s for which they allow it is a lower bound of t*. So t goes up from bound to bound
(Newton's method on a line with finitely many bends) until it will do: then it is t* itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metricmix.nearness.checkpoints import Kept
from metricmix.nearness.problem import Problem, closure_of, items_of, matrix_of, pairs_of
from metricmix.paths.all_pairs import close_in_place
from metricmix.solvers.loop import Solver
from metricmix.solvers.result import Status, relative_gap
from metricmix.typing import Floats, Ints

__all__ = ["ChangeState", "LargestChange"]


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Share of the largest length by which sums along paths may be off."""


@dataclass
class ChangeState:
    """The change to try next, and whether Newton's method chose it."""

    t: float
    newton: bool


class LargestChange(Solver[ChangeState]):
    """Newton's method for the smallest largest change; see the module.

    Parameters
    ----------
    problem : Problem
    tol : float
        Gap to reach.
    start : Kept
        Metric within the bounds and bound to go on from, where there are any.
    n_jobs : int, optional
        Threads.
    """

    state_type = ChangeState

    def __init__(self, problem: Problem, *, tol: float, start: Kept, n_jobs: int | None) -> None:
        self.problem, self.tol, self.n_jobs = problem, tol, n_jobs
        self.known = problem.w > 0
        self.per_unit = np.divide(1.0, problem.w, out=np.zeros(len(problem.w)), where=self.known)
        self.rounding = ROUNDING * problem.ceiling
        self.size = problem.ceiling * float(problem.w.max())
        self.metric: Floats | None = None
        self.unchanged = False  # whether the best metric is d, but for rounding
        self.lower, self.upper = start.lower, math.inf
        self.tried = -math.inf  # the largest change known to be too small
        self.lower_bounds: list[float] = []
        if start.metric is not None:
            self._offer(start.metric)

    @property
    def gap(self) -> float:
        """The gap so far."""
        return 0.0 if self.unchanged else relative_gap(self.upper, self.lower)

    def init(self, rng: np.random.Generator) -> ChangeState:
        """Start from the smallest change that is not known to be too small."""
        return ChangeState(self.lower, newton=False)

    def step(self, state: ChangeState, iteration: int, rng: np.random.Generator) -> ChangeState:
        """Close the lengths that t allows; go on to the t that the worst pair needs."""
        t, problem = state.t, self.problem
        longest = np.where(self.known, problem.d + t * self.per_unit, np.inf)
        if problem.upper is not None:
            longest = np.minimum(longest, problem.upper)
        shortest = np.where(self.known, problem.d - t * self.per_unit, 0.0)
        if problem.lower is not None:
            shortest = np.maximum(shortest, problem.lower)
        lengths = matrix_of(longest, problem.n)
        closed = close_in_place(lengths.copy(), symmetric=True, n_jobs=self.n_jobs)
        metric = pairs_of(closed)
        self._offer(metric)
        lacking = shortest - metric
        worst = int(lacking.argmax())
        room = self.upper - self.lower
        if lacking[worst] > self.rounding:
            way = _way(worst, lengths, closed)
            needed = t if way is None else self._needed(worst, way, t)
            self.lower = max(self.lower, min(needed, self.upper))
            self.tried = max(self.tried, t)
        # Newton's steps are finitely many, but may be short: then the middle is tried in between.
        short = state.newton and self.upper - self.lower > 0.7 * room
        if self.tried < self.lower and not short:
            return ChangeState(self.lower, newton=True)
        return ChangeState(0.5 * (self.lower + self.upper), newton=False)

    def check(self, state: ChangeState) -> tuple[ChangeState, float]:
        """Return the objective of the best metric so far."""
        if self.metric is None:
            # As large as the bounds allow; above the lower ones, since some metric is.
            top = np.full(len(self.known), self.problem.ceiling)
            upper = self.problem.upper
            top = top if upper is None else np.minimum(top, upper)
            self._offer(closure_of(top, self.problem.n, self.n_jobs))
        self.lower_bounds.append(self.lower)
        return state, self.upper

    def status(self, state: ChangeState) -> Status | None:
        """Stop when the gap is small enough, or as small as arithmetic allows."""
        if self.gap <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if self.upper - self.lower <= ROUNDING * self.size else None

    def is_finite(self, state: ChangeState) -> bool:
        """Return whether the next change is a number."""
        return math.isfinite(state.t)

    def weights(self, state: ChangeState) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints."""
        return ""

    def finish(self) -> Floats:
        """Return the best metric, as pairs."""
        if self.metric is None:
            self.check(ChangeState(0.0, newton=False))
        assert self.metric is not None
        return self.metric

    def triangles(self) -> tuple[Ints, Floats]:
        """Return nothing: there are no duals."""
        return np.empty((0, 3), np.int32), np.empty(0)

    def _needed(self, pair: int, way: Ints, t: float) -> float:
        """Return the smallest change >= t with which the pair is no longer than the way."""
        d, per_unit, problem = self.problem.d, self.per_unit, self.problem
        low = 0.0 if problem.lower is None else float(problem.lower[pair])
        high = np.full(len(way), np.inf) if problem.upper is None else problem.upper[way]
        while True:
            target = d[pair] - t * per_unit[pair] if self.known[pair] else -np.inf
            raised = np.where(self.known[way], d[way] + t * per_unit[way], np.inf)
            lacking = max(float(target), low) - float(np.minimum(raised, high).sum())
            slope = float(per_unit[way][raised < high].sum())
            slope += float(per_unit[pair]) if target > low else 0.0
            if lacking <= 0.0 or slope == 0.0 or t + lacking / slope == t:
                return t
            t += lacking / slope

    def _offer(self, metric: Floats) -> None:
        """Keep a metric if it keeps the bounds and is the best so far."""
        lower = self.problem.lower
        if lower is not None:
            if np.any(lower - metric > self.rounding):
                return
            metric = np.maximum(metric, lower)
        largest = float(np.max(self.problem.w * np.abs(metric - self.problem.d)))
        if self.metric is None or largest < self.upper:
            self.metric, self.upper = metric, largest
            self.unchanged = self.problem.is_unchanged(metric)


def _way(pair: int, lengths: Floats, closed: Floats) -> Ints | None:
    """Return the pairs on a shortest way between the two items of a pair.

    None if edges of length 0 lead in circles.
    """
    i, v = items_of(pair)
    way = []
    while v != i:
        reached = closed[i] + lengths[:, v]
        reached[v] = np.inf
        shortest = reached <= reached.min() * (1.0 + ROUNDING)
        k = int(np.where(shortest, closed[i], np.inf).argmin())  # the nearest to i gets there first
        way.append(max(k, v) * (max(k, v) - 1) // 2 + min(k, v))
        if len(way) == len(lengths):
            return None
        v = k
    return np.array(way, np.int32)
