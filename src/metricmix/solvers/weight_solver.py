"""What every solver over the weights of a mixture is: settings, a problem to bind, a result."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self, TypeVar, Unpack

import numpy as np

from metricmix.kernels.threads import TimeUp
from metricmix.registry import Registry
from metricmix.solvers.loop import Outcome, RunOptions, Solver, finish, run
from metricmix.solvers.problem import Problem, project_weights
from metricmix.solvers.result import SolveResult
from metricmix.typing import Floats

__all__ = ["METHODS", "IterativeSolver", "WeightSolver"]

State = TypeVar("State")

FEW_TERMS = 64
"""Terms of an estimate."""


@dataclass(frozen=True, kw_only=True)
class WeightSolver(ABC):
    """Base of what ``minimize(method=...)`` takes: the settings of a solver.

    :func:`~metricmix.minimize` binds a copy to the problem and the start, and calls :meth:`solve`.

    Attributes
    ----------
    method : class variable, str
        Its name, for ``minimize(method="...")``: set where a solver is registered.
    linear : class variable, bool
        Whether the mixture itself is the metric, under constraints
        (:class:`~metricmix.solvers.linear_model.LinearModel`), or its shortest paths are.
    takes_start : class variable, bool
        Whether the start matters.
    """

    method: ClassVar[str]
    linear: ClassVar[bool] = False
    takes_start: ClassVar[bool] = True

    problem: Problem = field(init=False, repr=False, compare=False)
    start: Floats = field(init=False, repr=False, compare=False)

    def bind(self, problem: Problem, start: Floats) -> Self:
        """Return this solver with a problem and (R,) weights to start from."""
        bound = copy.copy(self)
        object.__setattr__(bound, "problem", problem)
        object.__setattr__(bound, "start", start)
        return bound

    @abstractmethod
    def solve(
        self, rng: np.random.Generator, seed: int | None = None, **options: Unpack[RunOptions]
    ) -> SolveResult:
        """Minimise; warn if that did not succeed."""


METHODS: Registry[type[WeightSolver]] = Registry("method", "metricmix.solvers", "method")


class IterativeSolver(WeightSolver, Solver[State]):
    """Base of the solvers that the loop runs."""

    def solve(
        self, rng: np.random.Generator, seed: int | None = None, **options: Unpack[RunOptions]
    ) -> SolveResult:
        """Run the loop."""
        outcome = run(self, rng, seed=seed, **options)
        found = finish(outcome, lambda: self.result(outcome), lambda: self.quick_result(outcome))
        return replace(found, status=outcome.status).warn_unless_converged()

    @abstractmethod
    def weights(self, state: State) -> Floats:
        """Return the weights."""

    @property
    def objective_kind(self) -> str:
        """What the objective of a check is: see :class:`~metricmix.solvers.SolveResult`."""
        return self.problem.kind

    def result(self, outcome: Outcome) -> SolveResult:
        """Return what the loop found.

        Raises
        ------
        TimeUp
            If nothing has been evaluated.
        """
        if not outcome.evaluated:
            raise TimeUp
        return SolveResult(
            objective=outcome.objective,
            objective_kind=self.objective_kind,
            status=outcome.status,
            n_iter=outcome.n_iter,
            trace=outcome.trace,
            mixture=self.problem.mixture(self.weights(outcome.state)),
        )

    def quick_result(self, outcome: Outcome) -> SolveResult:
        """Return what the loop found, where there is no time to evaluate it.

        If not even the start was evaluated, its objective is the mean of a few terms.
        """
        if outcome.evaluated:
            return IterativeSolver.result(self, outcome)
        problem = self.problem
        few = np.random.default_rng(0).integers(problem.n_terms, size=FEW_TERMS)
        weights = project_weights(self.start, problem.constraint)
        return SolveResult(
            objective=problem.estimate(weights, few),
            objective_kind="sampled",
            status=outcome.status,
            n_iter=outcome.n_iter,
            trace=outcome.trace,
            mixture=problem.mixture(weights),
        )

    def fingerprint(self) -> str:
        """Return a digest of problem, settings and start."""
        settings = [(f.name, getattr(self, f.name)) for f in fields(self) if f.init]
        text = self.problem.fingerprint() + repr((self.method, settings, self.start.tolist()))
        return hashlib.sha256(text.encode()).hexdigest()
