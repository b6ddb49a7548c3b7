r"""The metric nearest to a dissimilarity."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from metricmix.devices import resolve_device
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import TimeUp, stop_after
from metricmix.kernels.threads import ThreadPool, effective_threads
from metricmix.nearness.constraints import SMALL
from metricmix.nearness.dual_ascent import repair_primal
from metricmix.nearness.norms.norm import NORMS
from metricmix.nearness.problem import NearnessProblem, matrix_of, pairs_of
from metricmix.nearness.reading import read_problem, tighten_bounds
from metricmix.nearness.solver import ClosedForm, NearnessSolver, OutOfTime, WarmStart
from metricmix.nearness.unknown import FilledMetric, fill_unknown
from metricmix.solvers.loop import RunOptions, check_run_options, finish, run
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_number, check_square

__all__ = ["NearnessResult", "nearest_metric", "solver_for"]


@dataclass(frozen=True, kw_only=True, repr=False)
class NearnessResult(SolveResult):
    r"""A metric near a dissimilarity, with a certificate.

    Attributes
    ----------
    metric : (n, n) array
        A metric within the bounds, whatever the status. Bounds hold exactly, and fixed entries keep
        their last bit; triangle inequalities hold to rounding of the longest side. If the bounds
        themselves violate a triangle inequality by less than 1e-9 of its longest side, so may the
        metric.
    objective : float
        Its distance from D in the norm asked for, over pairs i < j.
    lower_bound : float
        No metric within the bounds has a smaller objective.
    gap : float
        ``(objective - lower_bound) / objective``, and 0 where both are 0.
    status, message : Status, str
        Why the solver stopped, and the same in words, with what to try next.
    n_iter : int
        Rounds.
    trace : Trace
        Objective and lower bound (`bound`), round by round.
    triangles, multipliers : (T, 3) and (T,) arrays
        Constraints (i, j, k), :math:`x_{ij} - x_{ik} - x_{kj} \le 0`, and their Lagrange
        multipliers z > 0, which prove the lower bound; see the notes.
    filled, allowed : (F, 2) arrays
        The unknown pairs (i, j), i < j, and the smallest and largest distance that each can have,
        given all other entries of `metric` and the bounds; NaN where there was no time to find out.

    Notes
    -----
    The multipliers are those of the objective f as it is reported, weights included, and satisfy

    .. math:: \min_{L \le x \le U} \; f(x) + \sum_t z_t (x_{ij} - x_{ik} - x_{kj}) \;\ge\; b

    with b the `lower_bound` (to rounding of the entries), however the run ended; the left-hand side
    is never above the optimum. L and U are the bounds on the entries: `lower` or 0 (D for
    "increase"), and the shortest-path closure of `upper` (of D for "decrease"), at most the largest
    entry of D and `lower`. For "decrease" the closure is the solution, so that there are no
    multipliers.

    At the optimum, with :math:`u = A^T z` the sum of the multipliers over the constraints where a
    pair is the long side, less that over those where it is a short one:

    - constraints with z > 0 hold with equality;
    - "l2", "increase": :math:`u = 2 w (d - x)` where x is strictly between its bounds;
    - "l1": :math:`|u| \le w`, and :math:`u = w\,\mathrm{sign}(d - x)` where x differs from d,
      again strictly between the bounds;
    - "linf", without bounds: :math:`\sum |u| / w = 1`, unless D is a metric;
    - if z is unique, the optimum falls at the rate z as the right-hand side 0 is raised.

    Where several z are optimal, this is one of them. Where the gap is not 0, these conditions hold
    approximately, and the inequality as it stands.
    """

    advice: ClassVar[Mapping[Status, str]] = {
        Status.CONVERGED: "converged: the gap is within tol",
        Status.MAX_ITER: "reached max_iter before tol; go on with start=result, or take a larger "
        "tol",
        Status.TIME_LIMIT: "reached time_limit before tol; go on with start=result, or give more "
        "time",
        Status.STALLED: "neither bound moves any more: tol asks for more digits than the "
        "arithmetic has; take a larger tol",
        Status.STOPPED: "stopped by the callback; go on with start=result",
        Status.INTERRUPTED: "interrupted; go on with start=result",
        Status.DIVERGED: "met values that are not finite; check weights of very different size",
    }

    metric: Floats
    lower_bound: float
    gap: float
    triangles: Ints
    multipliers: Floats
    filled: Indices
    allowed: Floats


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
    n_jobs: int | None = None,
    device: str = "cpu",
    **options: Unpack[RunOptions],
) -> NearnessResult:
    r"""Return the metric nearest to a dissimilarity, and a bound on how near any metric can be.

    .. math:: \min_x \; f(x) \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

    with, over pairs i < j,

    {norms}

    Parameters
    ----------
    D : (n, n) array
        Dissimilarities >= 0, symmetric, with a zero diagonal. NaN, or a masked entry of a masked
        array, is unknown, unless the entry on the other side of the diagonal is known. An asymmetry
        of up to 1e-9 of the largest entry counts as rounding (the entry below the diagonal is
        taken), except for fixed entries.
    norm : str
        One of those above.
    weights : (n, n) array, optional
        w >= 0, symmetric; where it is 0, the entry is unknown. Default 1.
    tol : float
        Stop when the gap, ``(objective - lower_bound) / objective``, is at most this.
    lower, upper : number or (n, n) array, optional
        Bounds on the entries; NaN and infinities are none. They are feasible if the shortest path
        of upper bounds between two items is at least their lower bound, up to 1e-9 of that bound.
    fixed : (n, n) array of bool, optional
        Entries to keep, to the last bit; such an entry is both its lower and its upper bound.
    start : NearnessResult or (n, n) array, optional
        A result to go on from (of this problem or one like it), or a metric to improve on.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" computes on a GPU, through PyTorch: norm "l2" without bounds and unknown entries, by
        sweeps over triangles that share no pair. "auto" does so where it can. The certificate is
        the same, and results agree to the tolerance.
    **options
        `max_iter` (rounds, default 1000: each separates all triangles once and sweeps over the
        known constraints), `time_limit`, `callback`, `checkpoint`, `verbose`, `check_every`: see
        :class:`~metricmix.solvers.RunOptions`. A callback receives a
        :class:`~metricmix.solvers.Progress` whose `bound` is the lower bound. A run that goes on
        from a checkpoint ignores `start`.

    Returns
    -------
    NearnessResult
        With `metric`, `objective`, `lower_bound`, `gap`, `n_iter`, `status`, `message`. `metric`
        is a metric within the bounds however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is invalid, no metric satisfies the bounds, unknown entries leave two items
        without a path, or the problem does not fit into memory; or if there are lower and upper
        bounds, and `time_limit` is too short to find any metric within them.
    CheckpointError
        If the checkpoint is damaged or belongs to another problem.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Notes
    -----
    Unknown entries have no part in f. When the others are found, each unknown one gets a central
    value of the interval that the triangle inequality allows (`result.allowed`): the midpoint, or
    one near it where the midpoints are no metric; see :mod:`~metricmix.nearness.unknown`. That is
    the same for all norms.

    ``"linf"`` has many solutions; this is the largest one. :func:`~metricmix.nearness.refine_linf`
    finds one that changes little else.

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
    NORMS.find(norm)
    tol = max(check_number(tol, name="tol", low=0), 8 * float(np.finfo(np.float64).eps))
    check_run_options(options)
    bounds = (lower, upper, fixed)
    threads = effective_threads(n_jobs)
    where = resolve_device(device)
    with stop_after(options.get("time_limit")):
        given = read_problem(norm, D, weights, bounds)
        problem = given
        if where != "cpu" and not problem.kind.runs_on_devices(problem):
            if device != "auto":
                able = " or ".join(map(repr, NORMS.names(device=True)))
                raise InputError(
                    argument="device",
                    expected=f"'cpu' for another norm than {able}, bounds or unknown entries",
                    found=f"{device!r}",
                )
            where = "cpu"
        with ThreadPool(threads if problem.n >= SMALL else 1) as pool:
            solver: NearnessSolver[Any] = OutOfTime(problem)
            with suppress(TimeUp):
                problem = tighten_bounds(given, n_jobs)
                solver = solver_for(problem, pool, tol, where)
                solver.start = read_start(start, problem, threads)
            outcome = run(solver, np.random.default_rng(0), **options)
            state = finish(
                outcome,
                lambda: solver.within(given, solver.finish(outcome.state)),
                lambda: solver.within(given, solver.quick_finish(outcome.state)),
            )
            triangles, multipliers = solver.multipliers(state)
        metric, filled, allowed = finish(
            outcome,
            lambda: fill_pairs(problem, state.metric, n_jobs),
            lambda: as_found(problem, state.metric),
        )
    objective = problem.objective_unit * state.upper
    if len(outcome.trace):  # the end of an unfinished run may have found a better metric
        outcome.trace.objective[-1] = objective
    return NearnessResult(
        metric=problem.unit * metric,
        objective=objective,
        lower_bound=problem.objective_unit * min(state.lower, state.upper),
        gap=solver.gap(state),
        n_iter=outcome.n_iter,
        status=outcome.status,
        trace=outcome.trace,
        triangles=triangles,
        multipliers=problem.multiplier_unit * multipliers,
        filled=filled,
        allowed=problem.unit * allowed,
    ).warn_unless_converged()


def table_of_norms() -> str:
    """Return the norms as a table: name, objective, method."""
    of_norms = [(said.name, said.facts) for said in NORMS.declarations()]
    rows = [(f'``"{name}"``', facts["formula"], facts["how"]) for name, facts in of_norms]
    rows.insert(0, ("norm", "f(x)", "how"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n    ".join([rule, lines[0], rule, *lines[1:], rule])


assert nearest_metric.__doc__ is not None
nearest_metric.__doc__ = nearest_metric.__doc__.replace("{norms}", table_of_norms())


def fill_pairs(problem: NearnessProblem, metric: Floats, n_jobs: int | None) -> FilledMetric:
    """Return a metric, given as pairs, with central values for the entries without weight."""
    n, bounds = problem.n, (problem.lower, problem.upper)
    unknown = np.zeros((n, n), bool)
    if problem.missing:
        unknown = matrix_of((problem.w == 0).astype(float), n) > 0
        lower, upper = (None if bound is None else matrix_of(bound, n) for bound in bounds)
    else:
        lower = upper = None
    return fill_unknown(matrix_of(metric, n), unknown, lower=lower, upper=upper, n_jobs=n_jobs)


def as_found(problem: NearnessProblem, metric: Floats) -> FilledMetric:
    """Return a metric, given as pairs, as it is: without time to fill, no interval is known."""
    unknown = matrix_of((problem.w == 0).astype(float), problem.n) if problem.missing else 0.0
    pairs = np.argwhere(np.triu(np.broadcast_to(unknown, (problem.n, problem.n)) > 0))
    return FilledMetric(matrix_of(metric, problem.n), pairs, np.full((len(pairs), 2), np.nan))


def solver_for(
    problem: NearnessProblem, pool: ThreadPool, tol: float, device: str = "cpu"
) -> NearnessSolver[Any]:
    """Return the solver for the norm of a problem, on a device."""
    if problem.n < 3:  # no triangles
        return ClosedForm(problem, np.clip(problem.d, problem.lower, problem.upper))
    return problem.kind.solver(problem, pool, tol, device)


def read_start(start: Any, problem: NearnessProblem, n_jobs: int) -> WarmStart:
    """Return a result or matrix to start from, in the units of the problem."""
    if start is None:
        return WarmStart()
    triangles = multipliers = None
    if isinstance(start, NearnessResult):
        if len(start.metric) != problem.n:
            raise InputError(
                argument="start",
                expected=f"a result for {problem.n} items, like D",
                found=f"one for {len(start.metric)}",
            )
        if problem.multiplier_unit > 0:
            triangles, multipliers = start.triangles, start.multipliers / problem.multiplier_unit
        start = start.metric
    given = check_square(start, name="start", offer_directed=False)
    if len(given) != problem.n:
        raise InputError(argument="start", expected=f"shape {(problem.n,) * 2}", found=given.shape)
    metric = repair_primal(pairs_of(given) / problem.unit, problem, n_jobs)
    return WarmStart(metric, triangles, multipliers)
