"""Minimise an objective over the weights of a mixture; what every solver over weights is."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import TimeUp, stop_after
from metricmix.mixture.linear import LINKS, LinearWeights, Mixture
from metricmix.mixture.local import RegionWeights
from metricmix.objectives.base import Objective, check_objective
from metricmix.registry import Registry
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.loop import Outcome, RunOptions, Solver, check_run_options, finish, run
from metricmix.solvers.problem import CONSTRAINTS, Problem, project_weights
from metricmix.solvers.result import SolveResult
from metricmix.solvers.unprojected import UnprojectedProblem
from metricmix.typing import Floats
from metricmix.validation import check_choice, check_number, check_random_state

__all__ = ["METHODS", "IterativeSolver", "WeightSolver", "minimize", "solver_from_options"]


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
        bound = replace(self)
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


def minimize(
    objective: Objective,
    stack: DissimilarityStack | RegionWeights | ArrayLike,
    method: str | WeightSolver = "stochastic",
    *,
    link: str | None = None,
    beta: float | None = None,
    start: Mixture | ArrayLike | None = None,
    constraint: str | None = None,
    projection: bool = True,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    **options: Unpack[RunOptions],
) -> SolveResult:
    r"""Learn the weights of a mixture of dissimilarities.

    .. math:: \min_{\alpha \in C} \; \sum_t p_t \, g_t(d(\alpha)) + \rho \lVert\alpha - c\rVert^2,
              \qquad d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    Parameters
    ----------
    objective : Objective
        What to minimise: see :mod:`metricmix.objectives`. The centre c of its ridge is 0, or that
        of :meth:`Objective.centred <metricmix.objectives.Objective.centred>`.
    stack : DissimilarityStack
        The sources (or what makes one: an (n, n, R) array, a list of matrices). Or what the weights
        mean, if not a linear mixture: :class:`~metricmix.mixture.RegionWeights`.
    method : str or solver
        A name, or a solver with settings of its own, as in
        ``mm.solvers.Stochastic(batch_size=1)``.

        {path_methods}

        The others fit another model, see :mod:`metricmix.solvers.linear_model`: the mixture itself
        is the metric, without softplus and projection, under all triangle inequalities.

        {linear_methods}
    link, beta : str, float
        The link and its sharpness; default those of `start`, else "softplus" and 1. The exact
        methods have the link "identity".
    start : Mixture or array of R weights, optional
        Default: 1/R each.
    constraint : {None, "nonnegative", "simplex"}
        Weights of any sign, non-negative, or non-negative with sum 1.
    projection : bool
        Whether the objective is that of the metric d = P(w). If False it is that of the edge
        lengths w: only the pairs that it looks at are needed, so that a few hundred labels among
        many thousands of items take milliseconds; see :mod:`metricmix.solvers.problem`.
    random_state : int or Generator, optional
        Seed; the same seed gives the same result, bit for bit, on one machine.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    **options
        max_iter, time_limit, check_every, callback, checkpoint, verbose: see
        :class:`~metricmix.solvers.RunOptions`. `max_iter` is 2000 for "stochastic" (500 with
        ``scaling="paper"``), 200 for "full", 100 for "path-generation", 500 for "cutting-plane".
        The methods that are one call to another solver take none of them but `verbose`, and
        "trust-constr" `max_iter`.

    Returns
    -------
    SolveResult
        `mixture`, `weights`, `objective`, `status`, `message`, `n_iter`, `trace`; exact methods add
        `violation`, and "cutting-plane" `lower_bound` and `gap`. A solver that stopped before it
        was done warns, and its message says what to try.

    Raises
    ------
    InputError
        If an argument is not what it should be, or the method does not take it.

    Examples
    --------
    Recover the weights of a known mixture of two sources, one of them negative:

    >>> import numpy as np, metricmix as mm
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(2, 40, 3))
    >>> near, far = mm.dissimilarity.features(X), mm.dissimilarity.features(Y)
    >>> stack = mm.DissimilarityStack([near, far], names=["near", "far"])
    >>> truth = mm.Mixture([1.5, -0.4])
    >>> target = mm.project(mm.mixture.edge_lengths(stack, truth).matrix())
    >>> result = mm.minimize(mm.objectives.LeastSquares(target), stack, method="full")
    >>> result.weights.round(3)
    array([ 1.5, -0.4])
    """
    solver = method if isinstance(method, WeightSolver) else METHODS[method]()
    refuse_settings(solver, options)
    check_run_options(options)
    with stop_after(options.get("time_limit")):
        check_objective(objective)
        rng, seed = check_random_state(random_state)
        weighting = stack if isinstance(stack, RegionWeights) else None
        if isinstance(stack, RegionWeights):
            stack = stack.stack
        elif not isinstance(stack, DissimilarityStack):
            stack = DissimilarityStack(stack)
        objective.check(stack.n_items)
        like = start if isinstance(start, Mixture) else Mixture([1.0])
        if solver.linear:
            asked = like.link if link is None and like is start else link
            if asked not in (None, "identity"):
                raise InputError(
                    f"method={solver.method!r} takes the mixture itself for the metric, "
                    f"link='identity', got {asked!r}",
                    argument="link",
                    remedy="methods 'full' and 'stochastic' take it",
                )
            link = "identity"
            if stack.edges is not None:
                raise InputError(
                    f"method={solver.method!r} needs the triangles of all items, which sparse "
                    "edges do not have",
                    argument="stack",
                    remedy="use 'path-generation', 'full' or 'stochastic'",
                )
        if start is not None and not solver.takes_start:
            raise InputError(
                f"not an argument of method={solver.method!r}, which is one call to a solver",
                argument="start",
            )
        model = LinearModel if solver.linear else Problem if projection else UnprojectedProblem
        weights_of = (weighting or LinearWeights(stack)).weights_of
        problem = model(
            objective,
            stack,
            check_choice(link or like.link, LINKS, name="link"),
            check_number(like.beta if beta is None else beta, name="beta", low=0, open_low=True),
            check_choice(constraint or "none", CONSTRAINTS, name="constraint"),
            n_jobs,
            None if objective.centre is None else weights_of(objective.centre),
            weighting,
        )
        equal = np.full(problem.n_weights, 1.0 / problem.n_weights)
        bound = solver.bind(problem, equal if start is None else weights_of(start))
        return bound.solve(rng, seed, **options)


def solver_from_options(
    method: str, options: Mapping[str, Any]
) -> tuple[WeightSolver, dict[str, Any]]:
    """Return the solver of that name, with its settings taken from `options`, and the rest.

    >>> solver_from_options("full", {"tol": 1e-4, "max_iter": 30})
    (LBFGS(tol=0.0001, memory=10, temperature=None), {'max_iter': 30})
    """
    solver = METHODS[method]
    names = settings_of(solver)
    settings = {name: value for name, value in options.items() if name in names}
    return solver(**settings), {k: v for k, v in options.items() if k not in names}


def settings_of(solver: type[WeightSolver]) -> list[str]:
    """Return the names of the settings of a solver."""
    return [field.name for field in fields(solver) if field.init]


def refuse_settings(solver: WeightSolver, options: Mapping[str, Any]) -> None:
    """Raise InputError for settings of solvers among the options of a run."""
    own = settings_of(type(solver))
    takes = f"{type(solver).__name__} takes {', '.join(own)}"
    for name in (name for name in options if name not in RunOptions.__annotations__):
        owners = [kind.__name__ for kind in METHODS.values() if name in settings_of(kind)]
        if name in own:
            raise InputError(
                "a setting of the solver",
                argument=name,
                remedy=f"pass method=metricmix.solvers.{type(solver).__name__}({name}=...)",
            )
        if owners:
            raise InputError(
                f"a setting of {' and '.join(owners)}, not of this method",
                argument=name,
                remedy=takes,
            )
        raise InputError(
            "unknown argument",
            argument=name,
            remedy=f"a run takes {', '.join(RunOptions.__annotations__)}; {takes}",
        )
