r"""The metric nearest in the maximum norm.

.. math:: t^* = \min \{ t : P(\min(d + t/w, u)) \ge \max(d - t/w, l) \}

P is the shortest-path closure: the left-hand side is the largest metric that raises no entry by
more than :math:`t/w`, and t is feasible if and only if it lowers none by more. If t is
infeasible, some pair ij and some path between its ends violate

.. math:: \max(d_{ij} - s/w_{ij},\, l_{ij}) \;\le\; \sum_e \min(d_e + s/w_e,\, u_e)
          \qquad \text{for every } s \le t

and the smallest s that satisfies it is a lower bound of t*. t goes from bound to bound (Newton's
method on a piecewise linear function) until it is feasible: then it is t* itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from metricmix.nearness.problem import (
    BestMetric,
    NearnessProblem,
    NearnessSolver,
    WarmStart,
    closure_of,
    items_of,
    matrix_of,
    pairs_of,
)
from metricmix.paths.all_pairs import close_in_place
from metricmix.solvers.result import Status
from metricmix.typing import Floats, Ints

__all__ = ["LInfinitySolver", "LInfinityState", "shortest_path_pairs"]


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Rounding error of a path length, as a share of the entry that the path is compared with."""


@dataclass(kw_only=True)
class LInfinityState(BestMetric):
    """The change t to try next, whether Newton's method chose it, and the largest infeasible t.

    `repeats` says that the last step chose the same t again: no further step changes anything.
    """

    t: float = 0.0
    newton: bool = False
    infeasible: float = -math.inf
    repeats: bool = False


class LInfinitySolver(NearnessSolver[LInfinityState]):
    """Newton's method for the smallest feasible change; see the module.

    Parameters
    ----------
    problem : NearnessProblem
    tol : float
        Relative gap to reach.
    start : WarmStart, optional
        A metric within the bounds.
    n_jobs : int, optional
        Threads.
    """

    state_type = LInfinityState

    def __init__(
        self,
        problem: NearnessProblem,
        *,
        tol: float,
        start: WarmStart | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(problem, tol=tol, start=start)
        self.n_jobs = n_jobs
        self.known = problem.w > 0
        self.per_unit = np.divide(1.0, problem.w, out=np.zeros(len(problem.w)), where=self.known)

    def init(self, rng: np.random.Generator) -> LInfinityState:
        """Start from no change."""
        state = LInfinityState()
        return state if self.start.metric is None else self.offered(state, self.start.metric)

    def step(
        self, state: LInfinityState, iteration: int, rng: np.random.Generator
    ) -> LInfinityState:
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
        state = replace(self.offered(state, metric))
        lacking = shortest - metric
        lacking -= ROUNDING * np.maximum(shortest, problem.d + t * self.per_unit)
        worst = int(lacking.argmax())
        room = state.upper - state.lower
        if lacking[worst] > 0.0:
            path = shortest_path_pairs(worst, lengths, closed)
            needed = t if path is None else self.smallest_change(worst, path, t)
            state.lower = max(state.lower, min(needed, state.upper))
            state.infeasible = max(state.infeasible, t)
        # Newton's method takes finitely many steps, but they may be short: then bisect in between.
        short = state.newton and state.upper - state.lower > 0.7 * room
        state.newton = state.infeasible < state.lower and not short
        state.t = state.lower if state.newton else 0.5 * (state.lower + state.upper)
        state.repeats = state.t == t
        return state

    def check(self, state: LInfinityState) -> tuple[LInfinityState, float]:
        """Return the objective of the best metric so far, in units of the input."""
        return super().check(self.finish(state))

    def status(self, state: LInfinityState) -> Status | None:
        """Stop when the gap is small enough, or as small as the arithmetic allows."""
        small = state.upper - state.lower <= ROUNDING * state.upper
        stalled = Status.STALLED if small or state.repeats else None
        return super().status(state) or stalled

    def is_finite(self, state: LInfinityState) -> bool:
        """Return whether the next change is finite."""
        return math.isfinite(state.t)

    def finish(self, state: LInfinityState) -> LInfinityState:
        """Return the state with a metric: at first the largest one that the bounds allow."""
        if state.metric is not None:
            return state
        top = np.full(len(self.known), self.problem.ceiling)
        upper = self.problem.upper
        top = top if upper is None else np.minimum(top, upper)
        return self.offered(state, closure_of(top, self.problem.n, self.n_jobs))

    def smallest_change(self, pair: int, path: Ints, t: float) -> float:
        """Return the smallest change >= t for which the pair is no longer than the path."""
        d, per_unit, problem = self.problem.d, self.per_unit, self.problem
        low = 0.0 if problem.lower is None else float(problem.lower[pair])
        high = np.full(len(path), np.inf) if problem.upper is None else problem.upper[path]
        while True:
            target = d[pair] - t * per_unit[pair] if self.known[pair] else -np.inf
            raised = np.where(self.known[path], d[path] + t * per_unit[path], np.inf)
            lacking = max(float(target), low) - float(np.minimum(raised, high).sum())
            slope = float(per_unit[path][raised < high].sum())
            slope += float(per_unit[pair]) if target > low else 0.0
            if lacking <= 0.0 or slope == 0.0 or t + lacking / slope == t:
                return t
            t += lacking / slope

    def offered(self, state: LInfinityState, metric: Floats) -> LInfinityState:
        """Return the state with this metric, if it is within the bounds and the best so far."""
        lower = self.problem.lower
        if lower is not None:
            if np.any(metric < (1.0 - ROUNDING) * lower):
                return state
            metric = np.maximum(metric, lower)
        return self.improved(state, metric, self.problem.objective(metric))


def shortest_path_pairs(pair: int, lengths: Floats, closed: Floats) -> Ints | None:
    """Return the pairs on a shortest path between the two items of a pair.

    None if edges of length 0 form a cycle.
    """
    i, v = items_of(pair)
    path = []
    while v != i:
        reached = closed[i] + lengths[:, v]
        reached[v] = np.inf
        shortest = reached <= reached.min() * (1.0 + ROUNDING)
        k = int(np.where(shortest, closed[i], np.inf).argmin())  # the one nearest to i
        path.append(max(k, v) * (max(k, v) - 1) // 2 + min(k, v))
        if len(path) == len(lengths):
            return None
        v = k
    return np.array(path, np.int32)
