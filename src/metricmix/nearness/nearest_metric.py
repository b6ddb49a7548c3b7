r"""The metric nearest to a dissimilarity."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller
from metricmix.kernels.threads import Crew, effective_threads
from metricmix.nearness.checkpoints import Keeper, Kept
from metricmix.nearness.constraints import SMALL
from metricmix.nearness.dual_ascent import DualAscent, metric_near
from metricmix.nearness.linf import LargestChange
from metricmix.nearness.losses import Absolutes, Squares
from metricmix.nearness.problem import Problem, bounded, matrix_of, pairs_of, read_problem
from metricmix.nearness.result import NearnessProgress, NearnessResult, NearnessTrace
from metricmix.solvers.loop import Outcome, Progress, RunOptions, Solver, check_run_options, run
from metricmix.solvers.result import Status
from metricmix.typing import Floats
from metricmix.validation import check_choice, check_number, check_square

__all__ = ["NORMS", "Known", "nearest_metric"]


NORMS = ("l2", "l1", "linf", "decrease", "increase")

CLOSURE, ASCENT = 100, 300
"""Bytes of memory per entry of D that solvers take at most, without and with duals; measured."""


def nearest_metric(
    D: ArrayLike,
    norm: str = "l2",
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    fixed: ArrayLike | None = None,
    start: NearnessResult | ArrayLike | None = None,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callback: Callable[[NearnessProgress], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> NearnessResult:
    r"""Return the metric nearest to a dissimilarity, and a bound on how near any metric can be.

    .. math:: \min_x \; f(x) \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

    with, over pairs i < j,

    ============== =================================== =========================================
    norm           f(x)                                how
    ============== =================================== =========================================
    ``"l2"``       sum of w (x - d)^2                  dual ascent over the triangles that matter
    ``"l1"``       sum of w abs(x - d)                 the same, by the proximal point method
    ``"linf"``     largest w abs(x - d)                the smallest t with P(d + t/w) >= d - t/w
    ``"decrease"`` sum of w (x - d)^2, where x <= d    shortest paths: nearest in every norm
    ``"increase"`` sum of w (x - d)^2, where x >= d    as l2, with a bound
    ============== =================================== =========================================

    Parameters
    ----------
    D : (n, n) array
        Dissimilarities >= 0, symmetric, with a zero diagonal. NaN is a missing entry.
    norm : {"l2", "l1", "linf", "decrease", "increase"}
    weights : (n, n) array, optional
        w >= 0, symmetric; 0 is a missing entry. Default 1.
    tol : float
        Stop when the gap, ``(objective - lower_bound) / objective``, is at most this.
    lower, upper : number or (n, n) array, optional
        Bounds on the entries; NaN and infinities are none.
    fixed : (n, n) array of bool, optional
        Entries to leave as they are.
    start : NearnessResult or (n, n) array, optional
        A result to go on from (of this problem or one like it), or a metric to improve on.
    max_iter : int
        Rounds: each looks at all triangles once and sweeps over those that matter a few times.
    time_limit : float, optional
        Seconds, looked at after every round.
    callback : callable, optional
        Called after every round with a :class:`~metricmix.nearness.NearnessProgress`; stops the
        solver by returning True.
    checkpoint : path, optional
        File for bounds, metric and duals, written every few seconds (after a round) and at the end,
        however it comes. If it is there already the run goes on from it, with limits of its own;
        `start` is ignored.
    verbose : bool
        Show progress on a terminal.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.

    Returns
    -------
    NearnessResult
        With `metric`, `objective`, `lower_bound`, `gap`, `n_iter`, `status`, `message`. Its metric
        is a metric within the bounds however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is not as it should be, no metric keeps the bounds, missing entries leave two
        items without a path, or the problem does not fit into memory.
    CheckpointError
        If the checkpoint is damaged or belongs to another problem.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Notes
    -----
    Missing entries are filled: along shortest paths at first, then as the solver moves them.
    ``"linf"`` has many solutions; returned is the largest one. One nearer to D in other respects
    comes from ``norm="l2"`` with ``lower=D - t / w, upper=D + t / w``, t being its objective.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> D = np.array([[0.0, 1.0, 7.0], [1.0, 0.0, 3.0], [7.0, 3.0, 0.0]])
    >>> result = mm.nearest_metric(D)
    >>> result.metric  # 7 > 1 + 3: each side gives way by 1
    array([[0., 2., 6.],
           [2., 0., 4.],
           [6., 4., 0.]])
    >>> round(result.objective, 6), round(result.lower_bound, 6), result.converged
    (3.0, 3.0, True)
    >>> mm.nearest_metric(D, "decrease").metric[0].tolist()
    [0.0, 1.0, 4.0]
    >>> mm.nearest_metric(D, "linf").objective
    1.0
    """
    check_choice(norm, NORMS, name="norm")
    tol = max(check_number(tol, name="tol", low=0), 8 * float(np.finfo(np.float64).eps))
    limits: RunOptions = {"max_iter": max_iter, "time_limit": time_limit, "verbose": verbose}
    check_run_options({**limits, "callback": callback})
    memory = CLOSURE if norm in ("linf", "decrease") else ASCENT
    problem = read_problem(D, weights, lower, upper, fixed, bytes_per_entry=memory)
    one_sided = norm in ("increase", "decrease")
    note = f" (norm={norm!r} makes D a bound, too)" if one_sided else ""
    problem = bounded(_one_sided(problem, norm), n_jobs, note)
    power = 1 if norm in ("l1", "linf") else 2
    units = Units(
        problem.unit,
        problem.unit**power * problem.weight_unit,
        power * problem.unit ** (power - 1) * problem.weight_unit,
    )
    threads = effective_threads(n_jobs)
    with Crew(threads if problem.n >= SMALL else 1) as crew:
        keeper = None if checkpoint is None else Keeper(checkpoint, problem, norm)
        kept = keeper.read() if keeper else None
        solver = _solver_for(
            norm, problem, crew, tol, kept or _begin_at(start, problem, units, threads)
        )
        limits["callback"] = _telling(callback, keeper, solver, units)
        outcome = run(solver, np.random.default_rng(0), **limits)
        metric = solver.finish()
        if keeper:
            keeper.keep(solver, now=True)
    triangles, multipliers = solver.triangles()
    result = NearnessResult(
        metric=units.length * matrix_of(metric, problem.n),
        objective=units.objective * solver.upper,
        lower_bound=units.objective * min(solver.lower, solver.upper),
        gap=solver.gap,
        n_iter=outcome.n_iter,
        status=outcome.status,
        trace=_traced(outcome, solver, units),
        triangles=triangles,
        multipliers=units.multiplier * multipliers,
    )
    if not result.converged:
        warn_caller(result.message, ConvergenceWarning)
    return result


class Units(NamedTuple):
    """What 1 stands for: lengths, objective, multipliers of triangles."""

    length: float
    objective: float
    multiplier: float


def _one_sided(problem: Problem, norm: str) -> Problem:
    """Return the problem with the bound that the norm stands for."""
    if norm == "increase":
        known = np.where(problem.w > 0, problem.d, 0.0)
        lower = known if problem.lower is None else np.maximum(known, problem.lower)
        return replace(problem, lower=lower)
    if norm == "decrease":
        known = np.where(problem.w > 0, problem.d, np.inf)
        upper = known if problem.upper is None else np.minimum(known, problem.upper)
        return replace(problem, upper=upper)
    return problem


def _solver_for(
    norm: str, problem: Problem, crew: Crew, tol: float, start: Kept
) -> DualAscent | LargestChange | Known:
    threads = crew.threads
    terms = Absolutes(problem, threads) if norm == "l1" else Squares(problem, threads)
    if problem.n < 3:  # no triangles
        x = np.clip(problem.d, problem.lower, problem.upper)
        change = float(np.max(problem.w * np.abs(x - problem.d), initial=0.0))
        return Known(x, change if norm == "linf" else terms.objective(x))
    if norm == "decrease":
        # The largest metric below is nearest in every norm; it was needed to check the bounds.
        assert problem.upper is not None
        return Known(problem.upper, terms.objective(problem.upper))
    if norm == "linf":
        return LargestChange(problem, tol=tol, start=start, n_jobs=threads)
    return DualAscent(terms, crew, tol=tol, start=start)


def _begin_at(start: Any, problem: Problem, units: Units, n_jobs: int) -> Kept:
    """Return a result or matrix of the user's as something to go on from."""
    if start is None:
        return Kept()
    duals: tuple[Any, Any] = (None, None)
    if isinstance(start, NearnessResult):
        if len(start.metric) != problem.n:
            raise InputError(
                argument="start",
                expected=f"a result for {problem.n} items, like D",
                found=f"one for {len(start.metric)}",
            )
        if units.multiplier > 0:
            duals = (start.triangles, start.multipliers / units.multiplier)
        start = start.metric
    given = check_square(start, name="start", offer_directed=False)
    if len(given) != problem.n:
        raise InputError(argument="start", expected=f"shape {(problem.n,) * 2}", found=given.shape)
    return Kept(metric_near(pairs_of(given) / units.length, problem, n_jobs), *duals)


def _traced(
    outcome: Outcome, solver: DualAscent | LargestChange | Known, units: Units
) -> NearnessTrace:
    """Return what happened, with what the end of an unfinished run brought as its last entry."""
    trace, lower = outcome.trace, solver.lower_bounds
    rounds = len(trace)
    if rounds and solver.upper < trace.objective[-1]:
        trace.objective[-1] = solver.upper
    return NearnessTrace(
        trace.iteration,
        [units.objective * value for value in trace.objective],
        trace.time,
        lower_bound=[units.objective * value for value in lower[:rounds]],
    )


def _telling(
    callback: Callable[[NearnessProgress], Any] | None,
    keeper: Keeper | None,
    solver: DualAscent | LargestChange | Known,
    units: Units,
) -> Callable[[Progress], Any]:
    """Return a callback for the loop that keeps what was found, and tells the user's."""

    def tell(progress: Progress) -> Any:
        if keeper:
            keeper.keep(solver)
        if callback is None:
            return False
        bounds = units.objective * solver.upper, units.objective * solver.lower
        return callback(NearnessProgress(progress.iteration, *bounds, solver.gap, progress.seconds))

    return tell


# -- problems whose solution is at hand: nothing to iterate, the same way out -------------------


@dataclass
class Nothing:
    """There is no state."""


class Known(Solver[Nothing]):
    """A solver that knows the answer."""

    state_type = Nothing
    gap = 0.0

    def __init__(self, metric: Floats, objective: float) -> None:
        self.metric = metric
        self.lower = self.upper = objective
        self.lower_bounds: list[float] = []

    def init(self, rng: np.random.Generator) -> Nothing:
        """Return nothing."""
        return Nothing()

    def step(self, state: Nothing, iteration: int, rng: np.random.Generator) -> Nothing:
        """Do nothing."""
        return state

    def check(self, state: Nothing) -> tuple[Nothing, float]:
        """Return the objective."""
        self.lower_bounds.append(self.lower)
        return state, self.upper

    def status(self, state: Nothing) -> Status:
        """Stop."""
        return Status.CONVERGED

    def is_finite(self, state: Nothing) -> bool:
        """Return that it is."""
        return True

    def weights(self, state: Nothing) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints."""
        return ""

    def finish(self) -> Floats:
        """Return the metric, as pairs."""
        return self.metric

    def triangles(self) -> tuple[NDArray[np.int32], Floats]:
        """Return nothing: there are no duals."""
        return np.empty((0, 3), np.int32), np.empty(0)
