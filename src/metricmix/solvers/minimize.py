"""The front door: minimise an objective over the weights of a mixture."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.linear import LINKS, Mixture
from metricmix.objectives.base import Objective, check_objective
from metricmix.solvers.cutting_plane import CuttingPlane
from metricmix.solvers.direct import Direct, TrustConstr
from metricmix.solvers.lbfgs import Full
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.loop import Progress, run
from metricmix.solvers.problem import CONSTRAINTS, Problem, UnprojectedProblem
from metricmix.solvers.result import SolveResult
from metricmix.solvers.stochastic import Stochastic
from metricmix.validation import (
    check_choice,
    check_integer,
    check_number,
    check_random_state,
)

__all__ = ["minimize"]

METHODS: dict[str, Any] = {
    "stochastic": Stochastic,
    "full": Full,
    "cutting-plane": CuttingPlane,
    "direct": Direct,
    "trust-constr": TrustConstr,
}
AT_ONCE = ("direct", "trust-constr")
"""Methods that are one call to a solver: they have no steps to look at."""
EXACT = ("cutting-plane", *AT_ONCE)
"""Methods that take the mixture itself for the metric, and constrain the weights so that it is."""
PAPER = {"optimizer": "sgd", "learning_rate": 1.0, "schedule": "constant", "batch_size": 1}
EXACT_UP_TO = 2000
"""Up to this many items, the objective of the result is evaluated over all terms."""


def minimize(
    objective: Objective,
    stack: DissimilarityStack | ArrayLike,
    method: str = "stochastic",
    *,
    link: str | None = None,
    beta: float | None = None,
    start: Mixture | ArrayLike | None = None,
    constraint: str | None = None,
    projection: bool = True,
    centre: Mixture | ArrayLike | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    check_every: int | None = None,
    random_state: int | np.random.Generator | None = None,
    callback: Callable[[Progress], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
    **options: Any,
) -> SolveResult:
    r"""Learn the weights of a mixture of dissimilarities.

    .. math:: \min_{\alpha \in C} \; \sum_t p_t \, g_t(d(\alpha)) + \rho \lVert\alpha\rVert^2,
              \qquad d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    Parameters
    ----------
    objective : Objective
        What to minimise: see :mod:`metricmix.objectives`.
    stack : DissimilarityStack
        The sources (or what makes one: an (n, n, R) array, a list of matrices).
    method : {"stochastic", "full", "cutting-plane", "direct", "trust-constr"}
        "stochastic" is Algorithm 1: each step draws a few pairs, and needs one shortest path each,
        O(R n) per pair. "full" computes all shortest paths in each step and an exact sub-gradient,
        O(n³) but few steps; the choice up to a few thousand items.
        The others fit another model, see :mod:`metricmix.solvers.linear_model`: the mixture itself
        is the metric, without softplus and projection, under all triangle inequalities.
        "cutting-plane" finds the optimum of quadratic objectives and proves it, for thousands of
        items. "direct" is the paper's baseline for the same, by cvxpy, up to a few hundred;
        "trust-constr" takes any smooth objective, for a few dozen.
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
    centre : Mixture or array of R weights, optional
        Where the ridge draws weights to, :math:`\rho \lVert\alpha - c\rVert^2`; default 0, as in
        the paper. Equal weights are a good centre where there is little to learn from.
    max_iter : int, optional
        Steps; default 2000 (500 with ``scaling="paper"``), 200 ("full") or 500 ("cutting-plane").
    time_limit : float, optional
        Seconds after which to stop with what there is.
    check_every : int, optional
        Steps between checks (a trace entry each); default a hundredth of `max_iter` for
        "stochastic", else 1.
    random_state : int or Generator, optional
        Seed; the same seed gives the same result, bit for bit, on one machine.
    callback : callable, optional
        Called with a :class:`~metricmix.solvers.Progress` at every check; returning True stops.
    checkpoint : path, optional
        File to save the run to, again and again. If it is there already and belongs to this
        problem, the run goes on from it, to the result it would have had.
    verbose : bool
        Show a progress bar with the time left, on a terminal.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    **options
        Of the method: see :class:`~metricmix.solvers.Stochastic` (optimizer, learning_rate,
        schedule, batch_size, scaling, averaging, n_validation, checked, tol, patience),
        :class:`~metricmix.solvers.Full` (tol, memory, temperature),
        :class:`~metricmix.solvers.CuttingPlane` (tol, rows_per_round, forget_after),
        :class:`~metricmix.solvers.Direct` (form, solver, solver_options) and
        :class:`~metricmix.solvers.TrustConstr` (tol). ``scaling="paper"`` also sets the paper's own
        settings where none are given: plain steps of size 1, one pair each.

    Returns
    -------
    SolveResult
        `mixture`, `weights`, `objective`, `status`, `message`, `n_iter`, `trace`; exact methods add
        `violation`, and "cutting-plane" `lower_bound` and `gap`. A solver that stopped before it
        was done warns, and its message says what to try.

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
    check_choice(method, tuple(METHODS), name="method")
    check_objective(objective)
    rng, seed = check_random_state(random_state)
    if not isinstance(stack, DissimilarityStack):
        stack = DissimilarityStack(stack)
    objective.check(stack.n_items)
    like = start if isinstance(start, Mixture) else Mixture([1.0])
    linear = method in EXACT
    problem = (LinearModel if linear else Problem if projection else UnprojectedProblem)(
        objective,
        stack,
        _identity(method, link, start)
        if linear
        else check_choice(link or like.link, LINKS, name="link"),
        check_number(like.beta if beta is None else beta, name="beta", low=0, open_low=True),
        check_choice(constraint or "none", CONSTRAINTS, name="constraint"),
        n_jobs,
        None if centre is None else _weights_of(centre, stack),
    )
    if method in AT_ONCE:
        refused: dict[str, Any] = {"time_limit": time_limit, "check_every": check_every}
        refused |= {"callback": callback, "checkpoint": checkpoint}
        return _solve_at_once(method, problem, start, max_iter, refused, options)
    paper = method == "stochastic" and options.get("scaling") == "paper"
    options = {**(PAPER if paper else {}), **options, "start": _start(start, stack)}
    solver = _make_solver(method, problem, options)
    judged = solver.returns == "best"
    outcome = run(
        solver,
        rng,
        seed=seed,
        max_iter=max_iter,
        time_limit=time_limit,
        check_every=check_every,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
    )
    weights = solver.weights(outcome.state)
    if isinstance(solver, CuttingPlane):
        return SolveResult(
            objective=outcome.objective,
            objective_kind="exact",
            status=outcome.status,
            n_iter=outcome.n_iter,
            trace=outcome.trace,
            mixture=problem.mixture(weights),
            lower_bound=outcome.state.lower,
            gap=solver.gap(outcome.state),
            has_interior=solver.has_interior(outcome.state),
            violation=solver.model.violation(weights),
        ).warn_unless_converged()
    value, kind = outcome.objective, "held-out" if judged else "running mean"
    if isinstance(solver, Full):
        kind = "exact" if solver.temperature is None else "soft"
    elif stack.n_items <= EXACT_UP_TO or not projection:
        exact = problem.value(weights)
        if np.isfinite(exact):
            value, kind = exact, "exact"
    if kind == "exact" and not projection:
        kind = "unprojected"
    return SolveResult(
        objective=value,
        objective_kind=kind,
        status=outcome.status,
        n_iter=outcome.n_iter,
        trace=outcome.trace,
        mixture=problem.mixture(weights),
    ).warn_unless_converged()


def _solve_at_once(
    method: str,
    problem: Problem,
    start: Mixture | ArrayLike | None,
    max_iter: int | None,
    refused: dict[str, Any],
    options: dict[str, Any],
) -> SolveResult:
    """Run a method that is one call; refuse, by name, what only a loop can do."""
    if method == "direct":
        refused = {**refused, "start": start, "max_iter": max_iter}
    else:
        options = {**options, "start": _start(start, problem.stack)}
        if max_iter is not None:
            options["max_iter"] = check_integer(max_iter, name="max_iter")
    for name, value in refused.items():
        if value is not None:
            raise InputError(
                f"not an argument of method={method!r}, which is one call to a solver",
                argument=name,
            )
    result: SolveResult = _make_solver(method, problem, options).solve()
    return result


def _start(start: Mixture | ArrayLike | None, stack: DissimilarityStack) -> Any:
    if start is None:
        return np.full(stack.n_sources, 1.0 / stack.n_sources)
    return _weights_of(start, stack)


def _weights_of(given: Mixture | ArrayLike, stack: DissimilarityStack) -> Any:
    """Return weights of the stack's sources, in its order and by its scales."""
    mixture = given if isinstance(given, Mixture) else Mixture(given)
    return mixture.raw_weights(stack) * stack.scales


def _identity(method: str, link: str | None, start: Mixture | ArrayLike | None) -> str:
    """Return the link of the exact methods; another one is another model."""
    asked = start.link if link is None and isinstance(start, Mixture) else link
    if asked not in (None, "identity"):
        raise InputError(
            (
                f"method={method!r} takes the mixture itself for the metric, "
                f"link='identity', got {asked!r}"
            ),
            argument="link",
            remedy="methods 'full' and 'stochastic' take it",
        )
    return "identity"


def _make_solver(method: str, problem: Problem, options: dict[str, Any]) -> Any:
    kind = METHODS[method]
    first, *known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            own = [name for name in known if name not in ("start", "max_iter")]
            raise InputError(
                f"not an option of method={method!r}, which takes {', '.join(own)}", argument=name
            )
    return kind(**{first: problem}, **options)
