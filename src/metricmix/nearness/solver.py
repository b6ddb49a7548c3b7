"""What the solvers of nearness problems share, and the two that take no steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from metricmix.exceptions import InputError
from metricmix.kernels.deadline import TimeUp
from metricmix.metric import clip_to_metric
from metricmix.nearness.problem import NearnessProblem
from metricmix.solvers.loop import Certificate, Solver
from metricmix.solvers.result import Status, relative_gap
from metricmix.typing import Floats, Ints

__all__ = ["BestMetric", "ClosedForm", "NearnessSolver", "OutOfTime", "WarmStart"]


class WarmStart(NamedTuple):
    """Where a solver starts from, in the units of the problem: a metric, duals of triangles."""

    metric: Floats | None = None
    triangles: Ints | None = None
    multipliers: Floats | None = None


@dataclass(kw_only=True)
class BestMetric:
    """The best metric so far (as pairs), its objective, and a lower bound of the optimum.

    `unchanged` says that the metric is D itself up to rounding: then the gap is 0.
    """

    metric: Floats | None = None
    upper: float = math.inf
    lower: float = 0.0
    unchanged: bool = False


State = TypeVar("State", bound=BestMetric)


class NearnessSolver(Solver[State]):
    """Base of the solvers of a nearness problem.

    Parameters
    ----------
    problem : NearnessProblem
    tol : float
        Relative gap to reach.
    start : WarmStart, optional
    """

    returns = "last"

    def __init__(
        self, problem: NearnessProblem, *, tol: float = 0.0, start: WarmStart | None = None
    ) -> None:
        self.problem, self.tol = problem, tol
        self.start = WarmStart() if start is None else start

    def check(self, state: State) -> tuple[State, float]:
        """Return the objective of the best metric so far, in units of the input."""
        return state, self.problem.objective_unit * state.upper

    def certificate(self, state: State) -> Certificate:
        """Return the lower bound, in units of the input, and the gap."""
        return Certificate(self.problem.objective_unit * state.lower, self.gap(state))

    def gap(self, state: State) -> float:
        """Return the relative gap between the bounds."""
        return 0.0 if state.unchanged else relative_gap(state.upper, state.lower)

    def status(self, state: State) -> Status | None:
        """Stop when the gap is small enough."""
        return Status.CONVERGED if self.gap(state) <= self.tol else None

    def fingerprint(self) -> str:
        """Return a digest of the problem; another `tol` may go on from the same checkpoint."""
        return self.problem.fingerprint()

    def finish(self, state: State) -> State:
        """Return the state to report, with a metric; called once, at the end of the run."""
        return state

    def within(self, given: NearnessProblem, state: State) -> State:
        """Return the state with a metric within the bounds of the problem as it was given.

        They are wider than those of the solver, or infeasible by rounding.
        """
        assert state.metric is not None
        metric = np.clip(state.metric, given.lower, given.upper)
        if np.array_equal(metric, state.metric):
            return state
        return replace(state, metric=metric, upper=given.objective(metric))

    def quick_finish(self, state: State) -> State:
        """Return the same where there is no time for that, with some metric within the bounds."""
        problem = self.problem
        metric = clip_to_metric(problem.d, problem.lower, problem.upper)
        if np.isnan(metric).any():
            if state.metric is not None:
                return state
            assert problem.upper is not None  # a metric by itself
            metric = np.minimum(problem.upper, problem.ceiling)
        return self.improved(state, metric, problem.objective(metric))

    def multipliers(self, state: State) -> tuple[Ints, Floats]:
        """Return the triangles (i, j, k) with a positive multiplier, and the multipliers."""
        return np.empty((0, 3), np.int32), np.empty(0)

    def improved(self, state: State, metric: Floats, objective: float) -> State:
        """Return the state with this metric if it is better than the best so far."""
        if state.metric is not None and objective >= state.upper:
            return state
        unchanged = self.problem.is_unchanged(metric)
        return replace(state, metric=metric, upper=objective, unchanged=unchanged)


class ClosedForm(NearnessSolver[BestMetric]):
    """The solver of problems whose solution is known: no steps, the same results.

    Parameters
    ----------
    problem : NearnessProblem
    metric : (pairs,) array
        The solution.
    """

    state_type = BestMetric

    def __init__(self, problem: NearnessProblem, metric: Floats) -> None:
        super().__init__(problem)
        self.metric = metric

    def init(self, rng: np.random.Generator) -> BestMetric:
        """Return the solution."""
        objective = self.problem.objective(self.metric)
        return BestMetric(metric=self.metric, upper=objective, lower=objective)

    def step(self, state: BestMetric, iteration: int, rng: np.random.Generator) -> BestMetric:
        """Return the same state."""
        return state


class OutOfTime(NearnessSolver[BestMetric]):
    """The solver of problems whose bounds take too long to read: a metric without any search."""

    state_type = BestMetric

    def init(self, rng: np.random.Generator) -> BestMetric:
        """Return no metric."""
        return BestMetric()

    def step(self, state: BestMetric, iteration: int, rng: np.random.Generator) -> BestMetric:
        """Return the same state."""
        return state

    def check(self, state: BestMetric) -> tuple[BestMetric, float]:
        """Stop at once."""
        raise TimeUp

    def finish(self, state: BestMetric) -> BestMetric:
        """Return the metric.

        Raises
        ------
        InputError
            If the bounds are too far apart for that.
        """
        problem = self.problem
        metric = clip_to_metric(problem.d, problem.lower, problem.upper)
        if np.isnan(metric).any():
            raise InputError(
                argument="time_limit",
                expected="enough time to find a metric within the bounds",
                remedy="allow more, or leave out bounds",
            )
        return self.improved(state, metric, problem.objective(metric))

    def quick_finish(self, state: BestMetric) -> BestMetric:
        """Return the metric."""
        return self.finish(state)
