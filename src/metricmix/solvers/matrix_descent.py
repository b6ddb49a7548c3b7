r"""The whole matrix as the variable: Steps 1–3 of the paper.

.. math:: \min_{X = X^T} \; \sum_t p_t \, g_t\big(P(\mathrm{softplus}_\beta(X))\big)
          + \rho \, \mathrm{mean}(X_{ij}^2)

Each drawn pair moves only the entries on its shortest path, :math:`X_{uv} \leftarrow X_{uv} -
\eta \, g'(d_{ij}) \, \sigma(\beta X_{uv})`. Pairs drawn together move together: a batch is that
many of the paper's steps, taken at one point, not their mean.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import TimeUp, check_time, stop_after
from metricmix.kernels.mixing import form_lengths, length_of
from metricmix.metric import clip_to_metric
from metricmix.mixture.edge_lengths import lengths_of
from metricmix.mixture.linear import LINKS, link_code, link_derivative
from metricmix.objectives.base import Objective, check_objective
from metricmix.paths.all_pairs import project
from metricmix.paths.pair import bundle_paths
from metricmix.solvers.loop import RunOptions, Solver, check_run_options, finish, run
from metricmix.solvers.minimize import FEW_TERMS
from metricmix.solvers.problem import PAIRS_AT_ONCE
from metricmix.solvers.result import SolveResult, Status
from metricmix.solvers.stochastic import SCHEDULES, step_size
from metricmix.typing import Floats, Indices
from metricmix.validation import (
    check_choice,
    check_integer,
    check_number,
    check_random_state,
    check_square,
)

__all__ = ["PathDescent", "PathDescentState", "descend_along_paths", "move_edges"]


@dataclass
class PathDescentState:
    """The variable X, its edge lengths, and the mean of the terms drawn since the last check."""

    X: Floats
    seen: float = 0.0
    count: int = 0
    best: float = np.inf
    waited: int = 0
    w: Floats | None = field(default=None, metadata={"checkpoint": False})


@dataclass(frozen=True, eq=False)
class MatrixProblem:
    """An objective over the metric P(link(X)), and the X to start from."""

    objective: Objective
    X0: Floats
    directed: bool
    link: str
    beta: float
    n_jobs: int | None

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.X0)

    def edge_lengths(self, X: Floats) -> Floats:
        """Return link(X)."""
        w = np.empty_like(X)
        block = X[None].view()
        block.flags.writeable = False  # as stacks are, so that the kernel is compiled once
        rows_at_once = 256  # rows of a matrix between two looks at the clock
        for low in range(0, self.n, rows_at_once):
            check_time()
            rows = w[low : low + rows_at_once]
            form_lengths(block, np.ones(1), self.beta, link_code(self.link), low, rows)
        return w

    def metric(self, w: Floats) -> Floats:
        """Return P(w)."""
        check_time()
        return project(w, directed=self.directed, n_jobs=self.n_jobs)

    def value(self, X: Floats, d: Floats) -> float:
        """Return the objective over all terms at X, whose metric is d."""
        total, n_terms = 0.0, self.objective.n_terms(self.n)
        for start in range(0, n_terms, PAIRS_AT_ONCE):
            check_time()
            values, p = self.terms(X, d, np.arange(start, min(n_terms, start + PAIRS_AT_ONCE)))
            total += float(values @ p)
        return total

    def estimate(self, X: Floats, d: Floats) -> float:
        """Return the mean of a few terms."""
        n_terms = self.objective.n_terms(self.n)
        few = np.random.default_rng(0).integers(n_terms, size=FEW_TERMS)
        values, p = self.terms(X, d, few)
        return float(values @ p / p.sum())

    def terms(self, X: Floats, d: Floats, terms: Indices) -> tuple[Floats, Floats]:
        """Return the values of terms, ridge included, and their probabilities."""
        objective = self.objective
        i, j = objective.pairs(terms, self.n)
        value, _ = objective.evaluate(terms, d[i, j], self.n)
        ridge = objective.rho * np.where(i == j, 0.0, X[i, j] ** 2).mean(axis=1)
        return value + ridge, objective.probabilities(terms, self.n)

    @cached_property
    def start_lengths(self) -> Floats:
        """The edge lengths of X0."""
        return self.edge_lengths(self.X0)

    @cached_property
    def start_value(self) -> float:
        """The objective at X0."""
        return self.value(self.X0, self.metric(self.start_lengths))

    def fingerprint(self) -> str:
        """Return a digest of the problem."""
        digest = hashlib.sha256(self.objective.fingerprint() + self.X0.tobytes())
        digest.update(repr((self.directed, self.link, self.beta)).encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class PathDescent(Solver[PathDescentState]):
    """Stochastic descent over the entries of a matrix; see the module.

    Parameters
    ----------
    learning_rate : float
        Size of the step per drawn pair.
    schedule : {"constant", "sqrt", "inverse"}
        How the step size falls.
    decay : float, optional
        Steps after which it begins to fall; default a twentieth of the default `max_iter`.
    batch_size : int, optional
        Terms drawn per step; default n.
    tol : float, optional
        Stop when the mean over a check has not improved by this share for `patience` checks.
    patience : int
        Checks without improvement that `tol` waits for.
    """

    learning_rate: float = 0.2
    schedule: str = "inverse"
    decay: float | None = None
    batch_size: int | None = None
    tol: float | None = None
    patience: int = 5

    problem: MatrixProblem = field(init=False, repr=False, compare=False)
    state_type = PathDescentState
    returns: ClassVar[Literal["mean"]] = "mean"

    def __post_init__(self) -> None:
        check_number(self.learning_rate, name="learning_rate", low=0, open_low=True)
        check_choice(self.schedule, SCHEDULES, name="schedule")
        check_integer(self.patience, name="patience", low=1)
        if self.decay is not None:
            check_number(self.decay, name="decay", low=0, open_low=True)
        if self.batch_size is not None:
            check_integer(self.batch_size, name="batch_size", low=1)
        if self.tol is not None:
            check_number(self.tol, name="tol", low=0)

    def bind(self, problem: MatrixProblem) -> PathDescent:
        """Return this solver with a problem."""
        bound = replace(self)
        object.__setattr__(bound, "problem", problem)
        return bound

    @property
    def default_max_iter(self) -> int:
        """Iterations that draw every term 50 times on average."""
        n_terms = self.problem.objective.n_terms(self.problem.n)
        return -(-50 * n_terms // (self.batch_size or self.problem.n))

    def default_check_every(self, max_iter: int) -> int:
        """Return a fiftieth of all iterations."""
        return max(1, max_iter // 50)

    @property
    def tests_convergence(self) -> bool:
        """Only with a `tol`."""
        return self.tol is not None

    def init(self, rng: np.random.Generator) -> PathDescentState:
        """Return the start."""
        return PathDescentState(self.problem.X0.copy())

    def step(
        self, state: PathDescentState, iteration: int, rng: np.random.Generator
    ) -> PathDescentState:
        """Draw terms, find their shortest paths, move the entries on them (in place)."""
        problem, objective, X = self.problem, self.problem.objective, state.X
        n, beta, link = problem.n, problem.beta, problem.link
        terms = objective.sample(rng, self.batch_size or n, n)
        w = problem.edge_lengths(X) if state.w is None else state.w
        i, j = objective.pairs(terms, n)
        lengths = lengths_of(w, directed=problem.directed)
        paths = bundle_paths(lengths, i.ravel(), j.ravel(), n_jobs=problem.n_jobs)
        value, slope = objective.evaluate(terms, paths.lengths.reshape(i.shape), n)
        number, u, v = paths.edges()
        decay = max(1.0, self.default_max_iter / 20) if self.decay is None else self.decay
        rate = step_size(self.learning_rate, self.schedule, decay, iteration)
        move = -rate * slope.ravel()[number] * link_derivative(X[u, v], beta, link)
        seen = float(value.mean())
        if objective.rho:
            first, second = i.ravel(), j.ravel()
            apart = first != second
            first, second = first[apart], second[apart]
            entries = X[first, second]
            u, v = np.concatenate([u, first]), np.concatenate([v, second])
            pull = -rate * 2.0 * objective.rho / i.shape[1]
            move = np.concatenate([move, pull * entries])
            seen += objective.rho * float(np.sum(entries**2)) / i.size
        if not (np.isfinite(move).all() and np.isfinite(seen)):
            return replace(state, seen=np.nan, count=state.count + 1)
        before = X[u, v], w[u, v]
        try:
            move_edges(X, w, u, v, move, beta, link_code(link), not problem.directed)
            return replace(state, w=w, seen=state.seen + seen, count=state.count + 1)
        except KeyboardInterrupt:  # undo a partial step
            for matrix, entries in zip((X, w), before, strict=True):
                matrix[u, v] = entries
                if not problem.directed:
                    matrix[v, u] = entries
            raise

    def check(self, state: PathDescentState) -> tuple[PathDescentState, float]:
        """Return the mean of the terms drawn since the last check."""
        if state.count == 0:
            problem = self.problem
            return replace(state, w=problem.start_lengths.copy()), problem.start_value
        objective = state.seen / state.count
        state = replace(state, seen=0.0, count=0)
        improved = objective < state.best - (self.tol or 0.0) * abs(state.best)
        if improved or not np.isfinite(state.best):
            return replace(state, best=objective, waited=0), objective
        return replace(state, waited=state.waited + 1), objective

    def status(self, state: PathDescentState) -> Status | None:
        """Stop when the mean has not improved for `patience` checks."""
        if self.tol is not None and state.waited >= self.patience:
            return Status.CONVERGED
        return None

    def is_finite(self, state: PathDescentState) -> bool:
        """Return whether the last step met finite values."""
        return bool(np.isfinite(state.seen))

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        settings = [getattr(self, f.name) for f in fields(self) if f.init]
        return f"{self.problem.fingerprint()} {settings}"


def descend_along_paths(
    objective: Objective,
    X0: ArrayLike,
    solver: PathDescent | None = None,
    *,
    directed: bool = False,
    link: str = "softplus",
    beta: float = 1.0,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    **options: Unpack[RunOptions],
) -> SolveResult:
    r"""Minimise an objective over metrics by steps along shortest paths of sampled pairs.

    .. math:: \min_X \; \sum_t p_t \, g_t\big(P(\mathrm{softplus}_\beta(X))\big)
              + \rho \, \mathrm{mean}(X_{ij}^2)

    Parameters
    ----------
    objective : Objective
        Any: least squares, triplets, labels, your own.
    X0 : (n, n) array
        Where to start, of any sign: the metric is P(softplus(X0)). To start at given lengths w,
        pass ``metricmix.mixture.inverse_link(w)``.
    solver : PathDescent, optional
        Settings: learning_rate, schedule, decay, batch_size, tol, patience.
    directed : bool
        Whether the metric may be asymmetric; else X0 must be symmetric.
    link, beta : str, float
        The link and its sharpness.
    random_state, n_jobs
        As in :func:`metricmix.minimize`.
    **options
        See :class:`~metricmix.solvers.RunOptions`. `max_iter` is such that every term is drawn 50
        times on average, unless given.

    Returns
    -------
    SolveResult
        With `metric`, a metric to rounding, and the exact `objective` at it. If there is no time
        for the shortest paths of the last X (after Ctrl-C, with thousands of items), the metric is
        :func:`~metricmix.metric.clip_to_metric` of its edge lengths, with an estimate of the
        objective; a checkpoint keeps X.
    """
    check_run_options(options)
    check_objective(objective, of_weights=False)
    rng, seed = check_random_state(random_state)
    limit = options.get("time_limit")
    with stop_after(limit):
        X = check_square(
            X0, name="X0", directed=directed, allow_negative=True, require_zero_diagonal=False
        ).astype(np.float64)
        objective.check(len(X))
        check_number(beta, name="beta", low=0, open_low=True)
        check_choice(link, LINKS, name="link")
        problem = MatrixProblem(objective, X, directed, link, beta, n_jobs)
        bound = (solver or PathDescent()).bind(problem)
        if limit is not None:  # the result takes as long to evaluate as the start
            started = time.perf_counter()
            with suppress(TimeUp):
                problem.start_value  # noqa: B018 (cached)
            # Time is kept to evaluate the result: 1.5 times what the start took.
            options["time_limit"] = max(0.0, limit - 1.5 * (time.perf_counter() - started))
        outcome = run(bound, rng, seed=seed, **options)
        state = outcome.state
        X = problem.X0 if state is None else state.X

        def lengths() -> Floats:
            if outcome.n_iter == 0:
                return problem.start_lengths
            known: Floats | None = state.w
            return problem.edge_lengths(X) if known is None else known

        def evaluated() -> tuple[Floats, float, str]:
            metric = problem.metric(lengths())
            return metric, problem.value(X, metric), "exact"

        def clipped() -> tuple[Floats, float, str]:
            metric = clip_to_metric(lengths())
            return metric, problem.estimate(X, metric), "sampled"

        metric, value, kind = finish(outcome, evaluated, clipped)
    return SolveResult(
        objective=value,
        objective_kind=kind,
        status=outcome.status,
        n_iter=outcome.n_iter,
        trace=outcome.trace,
        metric=metric,
    ).warn_unless_converged()


@kernel
def move_edges(
    X: Floats,
    w: Floats,
    u: Indices,
    v: Indices,
    move: Floats,
    beta: float,
    link: int,
    symmetric: bool,
) -> None:
    """Add move[e] to X[u[e], v[e]] (and to its mirror image), then renew the lengths there.

    With the identity link entries stay at 0 or above, where lengths are.
    """
    for e in range(u.shape[0]):
        X[u[e], v[e]] += move[e]
        if link == 0 and X[u[e], v[e]] < 0.0:
            X[u[e], v[e]] = 0.0
        if symmetric:
            X[v[e], u[e]] = X[u[e], v[e]]
    for e in range(u.shape[0]):
        w[u[e], v[e]] = length_of(X[u[e], v[e]], beta, link)
        if symmetric:
            w[v[e], u[e]] = w[u[e], v[e]]
