"""The front door to objectives over whole metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.kernels.threads import Crew, threads_for
from metricmix.nearness.pairwise import OverPairs
from metricmix.nearness.problem import closure_of, matrix_of
from metricmix.nearness.projected_gradient import Projected
from metricmix.nearness.splitting import Splitting
from metricmix.objectives.base import Objective, check_objective
from metricmix.solvers.loop import Progress, check_run_options, run
from metricmix.solvers.matrix_descent import descend_along_paths
from metricmix.solvers.result import SolveResult
from metricmix.typing import Floats
from metricmix.validation import (
    check_choice,
    check_number,
    check_square,
    symmetrized,
)

__all__ = ["Shape", "minimize_metric", "shape_of"]


METHODS = ("paths", "projected")
MAX_ITER, TOL = 2000, 1e-6
"""Defaults of "projected"."""
ROUNDING = 1e-13
MOST_PAIRS = 8
"""Distances of a term up to which copies of them are affordable."""


def minimize_metric(
    objective: Objective,
    X0: ArrayLike,
    method: str = "paths",
    *,
    max_iter: int | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = None,
    callback: Callable[[Progress], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
    **options: Any,
) -> SolveResult:
    r"""Minimise an objective over all metrics on n items: the entries are the variables.

    .. math:: \min_d \; \sum_t p_t \bigl(g_t(d) + \rho \, \mathrm{mean}_{ij \in t}(X_{ij}^2)\bigr)
              \qquad d \text{ a metric}

    with the mean over the pairs ij that term t looks at.

    Parameters
    ----------
    objective : Objective
        Any: least squares, triplets, labels, your own.
    X0 : (n, n) array
        Where to start.
    method : {"paths", "projected"}
        "paths" is the paper's: :math:`d = P(\mathrm{softplus}(X))`, drawn pairs move the entries on
        their shortest paths, X of any sign; see
        :func:`~metricmix.solvers.matrix_descent.descend_along_paths`.
        "projected" takes d = X itself,
        looks at all terms in every step and goes back to the nearest metric, starting from the one
        nearest to X0: slower, for a few hundred items, but exact for convex g, and stationary for
        smooth g of any kind. Smooth objectives go by spectral projected gradients
        (:mod:`~metricmix.nearness.projected_gradient`), convex ones with kinks and up to 8
        distances per term by splitting (:mod:`~metricmix.nearness.splitting`); which
        it is, is found by looking along random segments
        (:mod:`~metricmix.nearness.minimize_metric`).
    max_iter : int, optional
        Steps; default such that every term is drawn 50 times on average ("paths"), 2000
        ("projected").
    tol : float, optional
        "paths": see there. "projected": stop when no metric is better by more than this share of
        the objective (or of 1e-4 of what was gained since the start, if that is more), default
        1e-6. That is proved where there is a `gap`, and estimated elsewhere.
    time_limit, random_state, callback, checkpoint, verbose, n_jobs
        As in :func:`metricmix.minimize`.
    **options
        Of the method: "paths" takes directed, link, beta, learning_rate, schedule, decay,
        batch_size, patience, check_every; "projected" none.

    Returns
    -------
    SolveResult
        With `metric`, a metric to rounding, and the exact `objective` at it. "projected" adds
        `lower_bound` and `gap` where the objective is declared convex (``objective.convex``), each
        of its terms looks at one distance, and none falls for ever as its distance grows.

    Warns
    -----
    ConvergenceWarning
        If "projected" ended before `tol`; kinks of objectives that are not convex, or that look at
        more distances per term, are where that happens.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> target = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])  # 9 > 1 + 1
    >>> goal = mm.objectives.LeastSquares(target)
    >>> result = mm.minimize_metric(goal, target, "projected")
    >>> result.metric.round(3)
    array([[0.   , 3.333, 6.667],
           [3.333, 0.   , 3.333],
           [6.667, 3.333, 0.   ]])
    >>> bool(result.gap < 1e-6)
    True
    >>> start = np.ones((3, 3))
    >>> along = mm.minimize_metric(goal, start, max_iter=3000, random_state=0)
    >>> round(result.objective, 2), round(along.objective, 2)
    (3.63, 3.63)
    """
    check_choice(method, METHODS, name="method")
    common: dict[str, Any] = {
        "time_limit": time_limit,
        "callback": callback,
        "checkpoint": checkpoint,
        "verbose": verbose,
    }
    if method == "paths":
        return descend_along_paths(
            objective,
            X0,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
            n_jobs=n_jobs,
            **common,
            **options,
        )
    for name in options:
        raise InputError("not an option of method='projected', which takes none", argument=name)
    return _project(objective, X0, max_iter, tol, n_jobs, common)


def _project(
    objective: Objective,
    X0: ArrayLike,
    max_iter: int | None,
    tol: float | None,
    n_jobs: int | None,
    common: dict[str, Any],
) -> SolveResult:
    check_objective(objective)
    start = check_square(
        X0, name="X0", allow_negative=True, require_zero_diagonal=False, offer_directed=False
    )
    start = np.array(symmetrized(start), np.float64)
    n = len(start)
    objective.check(n)
    common["max_iter"] = MAX_ITER if max_iter is None else max_iter
    check_run_options(common)
    small = check_number(TOL if tol is None else tol, name="tol", low=0)
    over = OverPairs(objective, n)
    with Crew(threads_for(n, n_jobs)) as crew:
        solver = _solver_for(over, start, small, crew)
        outcome = run(solver, np.random.default_rng(0), **common)
        state = outcome.state
        closed = closure_of(np.maximum(state.best, 0.0), n, crew.threads)
    # Steps between metrics of very different size may break triangles by more than rounding.
    if np.abs(closed - state.best).max(initial=0.0) > ROUNDING * closed.max(initial=0.0):
        state = replace(state, best=closed, best_value=over.value_and_gradient(closed)[0])
    gap = solver.gap(state)
    return SolveResult(
        objective=state.best_value,
        objective_kind="exact",
        status=outcome.status,
        n_iter=outcome.n_iter,
        trace=outcome.trace,
        metric=matrix_of(state.best, n),
        lower_bound=None if gap is None else min(state.lower, state.best_value),
        gap=gap,
    ).warn_unless_converged()


def _solver_for(over: OverPairs, start: Floats, tol: float, crew: Crew) -> Projected | Splitting:
    """Return the way over kinks where there are some, if terms are convex and small enough."""
    shape = Shape(kinked=False, convex=over.objective.convex)
    if 0 < over.where.shape[1] <= MOST_PAIRS and over.pairs:
        shape = shape_of(over, float(np.abs(start).mean()))
    convex = over.objective.convex or shape.convex
    kind = Splitting if shape.kinked and convex else Projected
    return kind(over, start, convex=convex, tol=tol, crew=crew)


# -- whether the terms of an objective have kinks, and whether they look convex -----------------


SEGMENTS, PIECES, HALVINGS = 4096, 32, 34
SCALES = 12.0
"""Segments end between 2^-12 and 2^12 times the typical distance: kinks have their own scale."""
JUMP, FALL = 1e-3, 1e-7
"""Shares of the largest derivative that count as a jump, and as a fall."""


class Shape(NamedTuple):
    """What was found along the segments."""

    kinked: bool
    convex: bool


def shape_of(over: OverPairs, typical: float) -> Shape:
    """Look at terms drawn at random, each along a segment drawn at random."""
    rng = np.random.default_rng(0)
    terms = rng.integers(len(over.terms), size=SEGMENTS)
    end = rng.random((len(terms), over.where.shape[1])) + 0.1
    end *= (typical or 1.0) * 2.0 ** rng.uniform(-SCALES, SCALES, (len(terms), 1))
    end[over.where[terms] == over.pairs] = 0.0

    def slope(share: Floats) -> Floats:
        return np.asarray((over.evaluate(terms, share[:, None] * end)[1] * end).sum(axis=1))

    grid = np.linspace(0.0, 1.0, PIECES + 2)[1:]  # not at 0, where own functions may have a pole
    with np.errstate(all="ignore"):
        slopes = np.stack([slope(np.full(len(terms), share)) for share in grid])
        height = np.abs(slopes).max(axis=0)
        falls = np.diff(slopes, axis=0) < -FALL * height
        jumps = _smallest_jump(slope, grid, slopes) > JUMP * height
    convex, kinked = not falls.any(), bool(jumps.any())
    return Shape(kinked, convex)


def _smallest_jump(slope: Callable[[Floats], Floats], grid: Floats, slopes: Floats) -> Floats:
    """Return the change of each slope over a tiny piece, where it is largest."""
    change = np.abs(np.diff(slopes, axis=0))
    worst = change.argmax(axis=0)
    column = np.arange(slopes.shape[1])
    a, b = grid[worst], grid[worst + 1]
    at_a, at_b = slopes[worst, column], slopes[worst + 1, column]
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        at = slope(middle)
        first = np.abs(at - at_a) >= np.abs(at_b - at)
        a, at_a = np.where(first, a, middle), np.where(first, at_a, at)
        b, at_b = np.where(first, middle, b), np.where(first, at, at_b)
    return np.asarray(np.abs(at_b - at_a))
