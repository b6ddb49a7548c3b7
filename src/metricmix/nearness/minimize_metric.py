"""Minimise any objective over all metrics."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.kernels.deadline import TimeUp, stop_after
from metricmix.kernels.threads import ThreadPool, threads_for
from metricmix.metric import clip_to_metric
from metricmix.nearness.pair_objective import PairObjective, TermProperties, check_smoothness
from metricmix.nearness.problem import closure_of, matrix_of, pairs_of
from metricmix.nearness.projected_gradient import ProjectedGradient
from metricmix.nearness.splitting import Splitting
from metricmix.objectives.base import Objective, check_objective
from metricmix.solvers.loop import Outcome, RunOptions, check_run_options, finish, run
from metricmix.solvers.matrix_descent import PathDescent, descend_along_paths
from metricmix.solvers.result import SolveResult
from metricmix.typing import Floats
from metricmix.validation import (
    check_choice,
    check_copies_fit,
    check_number,
    check_square,
    symmetrized,
)

__all__ = ["minimize_metric"]


METHODS = ("paths", "projected")
ROUNDING, ROOM = 1e-13, 1e-12
"""Violations up to this share of the pair's own length count as rounding; what evens them out, as a
share of the largest entry."""


def minimize_metric(
    objective: Objective,
    X0: ArrayLike,
    method: str | PathDescent = "paths",
    *,
    tol: float | None = None,
    directed: bool = False,
    link: str = "softplus",
    beta: float = 1.0,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    **options: Unpack[RunOptions],
) -> SolveResult:
    r"""Minimise an objective over all metrics on n items: the entries are the variables.

    .. math:: \min_d \; \sum_t p_t \bigl(g_t(d) + \rho \, \mathrm{mean}_{ij \in t}(X_{ij}^2)\bigr)
              \qquad d \text{ a metric}

    with the mean over the pairs ij of term t.

    Parameters
    ----------
    objective : Objective
        Any: least squares, triplets, labels, your own.
    X0 : (n, n) array
        Where to start.
    method : {"paths", "projected"} or PathDescent
        "paths" is the paper's: :math:`d = P(\mathrm{softplus}(X))`, drawn pairs move the entries on
        their shortest paths, X of any sign; see
        :func:`~metricmix.solvers.matrix_descent.descend_along_paths`. Its settings are those of
        :class:`~metricmix.solvers.PathDescent`.
        "projected" takes d = X itself,
        evaluates all terms in every step and projects onto the metrics, starting from the one
        nearest to X0: slower, for a few hundred items, but exact for convex g, and stationary for
        smooth g of any kind. It takes spectral projected gradients
        (:mod:`~metricmix.nearness.projected_gradient`) for smooth objectives, and splitting
        (:mod:`~metricmix.nearness.splitting`) for convex non-smooth ones with up to 8 distances
        per term; :func:`~metricmix.nearness.pair_objective.check_smoothness` tells them apart.
    tol : float, optional
        "paths": see there. "projected": stop when no metric is better by more than this share of
        the objective (or of 1e-4 of what was gained since the start, if that is more), default
        1e-6. That is proved where there is a `gap`, and estimated elsewhere.
    directed, link, beta
        Of "paths" only: whether X and the metric may be asymmetric, and the link.
    random_state, n_jobs
        As in :func:`metricmix.minimize`.
    **options
        Options of a run (:class:`~metricmix.solvers.RunOptions`): `max_iter` (default such that
        every term is drawn 50 times on average for "paths", 2000 for "projected"), `time_limit`,
        `callback`, `checkpoint`, `verbose`, `check_every`.

    Returns
    -------
    SolveResult
        With `metric`, a metric to rounding, and the exact `objective` at it. "projected" adds
        `lower_bound` and `gap` where the objective is declared convex (``objective.convex``), each
        of its terms depends on one distance, and none decreases for ever as its distance grows.

    Warns
    -----
    ConvergenceWarning
        If "projected" ended before `tol`: that may happen for non-smooth objectives that are not
        convex, or with more distances per term.

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
    if not isinstance(method, PathDescent):
        check_choice(method, METHODS, name="method")
    check_run_options(options)
    if method != "projected":
        solver = PathDescent() if isinstance(method, str) else method
        return descend_along_paths(
            *(objective, X0, solver if tol is None else replace(solver, tol=tol)),
            directed=directed,
            link=link,
            beta=beta,
            random_state=random_state,
            n_jobs=n_jobs,
            **options,
        )
    for name, given in (("directed", directed), ("link", link != "softplus"), ("beta", beta != 1)):
        if given:
            raise InputError("method='projected' has none", argument=name)
    return minimize_by_projection(objective, X0, tol, n_jobs, options)


def minimize_by_projection(
    objective: Objective,
    X0: ArrayLike,
    tol: float | None,
    n_jobs: int | None,
    options: RunOptions,
) -> SolveResult:
    """Minimise with the entries of the metric as variables; see :func:`minimize_metric`."""
    check_objective(objective, of_weights=False)
    check_copies_fit(X0, 3, what="the search for a metric", argument="X0")
    start = check_square(
        X0, name="X0", allow_negative=True, require_zero_diagonal=False, offer_directed=False
    )
    start = np.array(symmetrized(start), np.float64)
    n = len(start)
    objective.check(n)
    tol = check_number(1e-6 if tol is None else tol, name="tol", low=0)
    with (
        stop_after(options.get("time_limit")),
        ThreadPool(threads_for(n, n_jobs)) as pool,
    ):
        over_pairs = PairObjective(objective, n)
        outcome, certificate = Outcome.cut_short(), None
        with suppress(TimeUp):
            solver = solver_for(over_pairs, start, tol, pool)
            outcome = run(solver, np.random.default_rng(0), **options)
        state = outcome.state
        # Steps between metrics of very different size may violate triangles by more than rounding.
        best = np.maximum(pairs_of(start) if state is None else state.best, 0.0)
        closed = finish(
            outcome,
            lambda: closure_of(best, n, pool.threads),
            # A metric up to rounding becomes one if all entries are raised by so much.
            lambda: best + ROOM * best.max() if state else clip_to_metric(best),
        )
    if state is None or np.any(np.abs(closed - state.best) > ROUNDING * closed):
        value = over_pairs.value_and_gradient(closed)[0]
    else:
        closed, value = state.best, state.best_value
    if state is not None:
        certificate = solver.certificate(replace(state, best=closed, best_value=value))
    certified = certificate is not None and math.isfinite(certificate.bound)
    return SolveResult(
        objective=value,
        status=outcome.status,
        n_iter=outcome.n_iter,
        trace=outcome.trace,
        metric=matrix_of(closed, n),
        lower_bound=min(state.lower, value) if certified else None,
        gap=certificate.gap if certificate is not None and certified else None,
    ).warn_unless_converged()


def solver_for(
    objective: PairObjective, start: Floats, tol: float, pool: ThreadPool
) -> ProjectedGradient | Splitting:
    """Return splitting for convex non-smooth terms of few distances, else projected gradients."""
    properties = TermProperties(nonsmooth=False, convex=objective.objective.convex)
    # With few distances per term, splitting can afford a copy of each.
    if 0 < objective.where.shape[1] <= 8 and objective.pairs:
        properties = check_smoothness(objective, float(np.abs(start).mean()))
    convex = objective.objective.convex or properties.convex
    kind = Splitting if properties.nonsmooth and convex else ProjectedGradient
    return kind(objective, start, convex=convex, tol=tol, pool=pool)
