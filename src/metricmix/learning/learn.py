r"""Learning: from a stack and what is known of its items to a mixture.

.. math:: \alpha = \arg\min_\alpha \; f(\alpha) + \rho \lVert \alpha - c \rVert^2

1. Weights are learned on edge lengths, which needs the pairs of labelled items only.
2. Where the projection then moves more than 10 % of the distances, they are learned again through
   shortest paths (``projection="auto"``).
3. A geodesic metric has edges to the nearest items by the lengths learned over all pairs; over
   sparse edges weights are always learned through paths.
4. Local weights, and networks, start from the common weights.

Everything here is a function of its arguments: nothing is kept, and no argument is changed. Folds,
resamples, candidates and comparisons learn again by the same function, :func:`learn`.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import (
    ConvergenceWarning,
    InputError,
    ProjectionWarning,
    warn_caller,
    without_warnings,
)
from metricmix.kernels.process_settings import blas_threads
from metricmix.learning.examples import examples_of
from metricmix.learning.learned import Learned, Options, seed_of
from metricmix.learning.network_fit import fit_network
from metricmix.learning.regions import memberships
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import RegionWeights
from metricmix.objectives import ClassMeans, make_objective
from metricmix.objectives.base import Objective
from metricmix.objectives.regression import TargetObjective
from metricmix.paths.geodesic import geodesic_stack
from metricmix.paths.trees import distances_from
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.minimize import minimize, solver_from_options
from metricmix.solvers.newton import Newton
from metricmix.solvers.path_generation import PathGeneration
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.solvers.stochastic import Stochastic
from metricmix.typing import Floats, Indices

__all__ = [
    "MOVED_AT_MOST",
    "along",
    "learn",
    "moved_share",
    "objective_of",
    "solve",
]

MOVED_AT_MOST = 0.1
"""Share of distances that the projection may move before weights are learned through paths."""


def learn(
    stack: DissimilarityStack,
    task: Task,
    known: Known | None,
    options: Options,
    *,
    item_weights: Floats | None = None,
    refit: bool = False,
    **solver: Any,
) -> Learned:
    """Learn a mixture of the sources of a stack.

    Parameters
    ----------
    stack : DissimilarityStack
        Its supervised sources are computed from `known`.
    task : Task
    known : Known or None
        What is known of the items; None where the objective brings what it needs.
    options : Options
        Nothing in them is left open.
    item_weights : (n,) array, optional
        How much each label counts in a named objective.
    refit : bool
        Whether this is a fold or a resample: without callback, checkpoint and progress.
    **solver
        Options of the solver that go before those of `options`: ``start``, ``random_state``.

    Returns
    -------
    Learned
    """
    if refit:
        options = options.replace(verbose=False)
    on_edges, near, share = stack, None, 0.0
    examples = examples_of(stack, known, options)
    if examples is not None and known is not None:
        weights = None if item_weights is None else item_weights[known.items]
        objective = objective_of(options, known.take(known.items), weights, examples=True)
        result = solve(objective, examples, task, options, refit=refit, **solver)
    else:
        objective = objective_of(options, known, item_weights)
        on_edges, near = along_nearest(stack, task, objective, options)
        result, share = solve_as_used(objective, on_edges, task, options, refit=refit, **solver)
    return Learned(
        stack=on_edges,
        whole=stack,
        near=near,
        task=task,
        known=known,
        options=options,
        result=result,
        moved_share=share,
        objective=objective,
    )


def objective_of(
    options: Options, known: Known | None, item_weights: Floats | None = None, **more: Any
) -> Objective | None:
    """Return what to minimise, for what is known of all items of a stack; None for nothing."""
    if known is None:
        own = options.objective
        return own if isinstance(own, Objective) else None
    stochastic = options.method == "stochastic" or isinstance(options.method, Stochastic)
    return make_objective(
        options.objective,
        known,
        rho=options.rho,
        item_weights=item_weights,
        stochastic=stochastic,
        **more,
    )


# -- which edges -----------------------------------------------------------------------------------


def along_nearest(
    stack: DissimilarityStack, task: Task, objective: Objective | None, options: Options
) -> tuple[DissimilarityStack, Mixture | None]:
    """Return the stack that paths are searched in, and the mixture by which items are near.

    The stack itself and None, unless the metric is geodesic: then edges lead to the nearest items
    by the lengths that are learned over all pairs.
    """
    if stack.edges is not None or options.neighbours is None:
        return stack, None
    with without_warnings(ConvergenceWarning):  # only to find what is near
        result = solve(
            objective, stack, task, options.on_lengths.replace(verbose=False), refit=True
        )
    assert result.mixture is not None
    return along(stack, result.mixture, options), result.mixture


def along(stack: DissimilarityStack, mixture: Mixture, options: Options) -> DissimilarityStack:
    """Return a stack on the edges to the items that are nearest by a mixture, if geodesic."""
    if stack.edges is not None or options.neighbours is None:
        return stack
    return geodesic_stack(stack, mixture, options.neighbours)


# -- on edge lengths, or through paths -------------------------------------------------------------


def solve_as_used(
    objective: Objective | None,
    stack: DissimilarityStack,
    task: Task,
    options: Options,
    *,
    refit: bool = False,
    **solver: Any,
) -> tuple[SolveResult, float]:
    """Learn on edge lengths, and again through paths if the projection changes too many.

    Return the result, and the share of the distances that the projection changes; NaN for a refit
    on edge lengths. Learning through paths has a checkpoint of its own. Over sparse edges weights
    are always learned through paths.
    """
    everyone = np.arange(stack.n_items)
    if stack.edges is not None and objective is not None:
        result = solve_on_edges(objective, stack, task, options, refit=refit, **solver)
        return result, moved_share(stack, result, everyone, options.n_jobs)
    result = solve(objective, stack, task, options, refit=refit, **solver)
    if result.status is Status.INTERRUPTED:
        return result, 0.0
    if refit and options.projection is False:
        return result, np.nan  # nothing depends on it
    known = getattr(objective, "labelled", everyone)
    share = moved_share(stack, result, known, options.n_jobs)
    if share <= MOVED_AT_MOST or objective is None or options.projection is True:
        return result, share
    if options.projection is False:
        warn_caller(
            f"weights were learned on edge lengths, and the projection changes {share:.0%} of "
            "the distances; use projection='auto' or True to learn through paths",
            ProjectionWarning,
        )
        return result, share
    given = dict(options.solver_options or {})
    if given.get("checkpoint") is not None:
        file = Path(given["checkpoint"])
        given["checkpoint"] = file.with_name(f"{file.stem}.paths{file.suffix}")
    again = through_paths(options).replace(solver_options=given)
    with without_warnings(ConvergenceWarning):
        result = solve(objective, stack, task, again, refit=refit, **solver)
    if not result.has_settled:
        result.warn_unless_converged()
    return result, moved_share(stack, result, known, options.n_jobs)


def solve_on_edges(
    objective: Objective,
    stack: DissimilarityStack,
    task: Task,
    options: Options,
    *,
    refit: bool = False,
    **solver: Any,
) -> SolveResult:
    """Learn through paths along sparse edges.

    Where the sources are known between any two items, the start is what the pairs of labelled items
    say by themselves, which takes no search.
    """
    if options.projection is False:
        raise InputError(
            "over sparse edges weights are learned through paths",
            argument="projection",
            remedy="pass 'auto' or True",
        )
    given = {**(options.solver_options or {}), **solver}
    comparable = isinstance(stack, EdgeStack) and stack.origin is not None
    startable = comparable and "start" not in given
    if startable and isinstance(objective, (ClassMeans, TargetObjective)):
        quick = options.on_lengths.replace(verbose=False)
        labelled = objective.labelled
        pairs = objective_of(quick, task.known_of(objective.y[labelled]))
        few = stack.between_any.part(labelled)
        solver["start"] = solve(pairs, few, task, quick, refit=True).weights
    return solve(objective, stack, task, through_paths(options), refit=refit, **solver)


def through_paths(options: Options) -> Options:
    """Return settings for learning through paths, by path generation unless told otherwise."""
    method = PathGeneration() if is_left_open(options) else options.method
    return options.replace(projection=True, method=method)


def is_left_open(options: Options) -> bool:
    """Return whether the method is the default, without settings of its own."""
    own = {"tol", "memory", "temperature"} & set(options.solver_options or {})
    return bool(options.method == "full" and not own)


def moved_share(
    stack: DissimilarityStack, result: SolveResult, items: Indices, n_jobs: int | None = None
) -> float:
    """Return the share of distances, from at most 32 of the items, that paths make shorter."""
    assert result.mixture is not None
    lengths = EdgeLengths(stack, result.mixture)
    if lengths.is_metric:
        return 0.0
    roots = items
    if len(items) > 32:
        roots = np.sort(np.random.default_rng(0).choice(items, 32, replace=False))
    edges = lengths.rows(roots)
    moved = distances_from(lengths, roots, n_jobs=n_jobs) < edges * (1.0 - 1e-6)
    there = np.isfinite(edges)
    return float(moved[there].sum() / max(1, int(there.sum()) - len(roots)))


# -- one minimisation ------------------------------------------------------------------------------


def solve(
    objective: Objective | None,
    stack: DissimilarityStack,
    task: Task,
    options: Options,
    *,
    refit: bool = False,
    **solver: Any,
) -> SolveResult:
    """Return the weights that minimise an objective: common ones, then what starts from them.

    Without an objective, equal weights. `solver` are options of the solver, which go before those
    of `options`. A `refit`, of a fold or a resample, has neither callback nor checkpoint.
    """
    centre = options.equal_weights(stack)
    if objective is None:
        return given_weights(stack, centre, options)
    more = options.is_local or options.network is not None
    # Callbacks and checkpoints are for the weights that are used.
    result = minimised(objective, stack, options, centre, refit=refit or more, **solver)
    if not more or result.status is Status.INTERRUPTED:
        return result
    assert result.mixture is not None
    if options.network is not None:
        seed = np.random.default_rng(seed_of(options.random_state)).integers(2**31)
        return fit_network(
            options.network,
            stack,
            objective,
            result.mixture,
            monotone=options.constraint is not None,
            projection=options.projection is True,
            device=options.device,
            seed=int(seed),
            verbose=options.verbose and not refit,
        )
    solver.pop("start", None)
    lengths = EdgeLengths(stack, result.mixture)
    regions = RegionWeights(stack, *memberships(lengths, objective, task, options))
    common = np.zeros(len(regions.names))
    common[: stack.n_sources] = result.mixture.weights
    given = {k: v for k, v in (options.solver_options or {}).items() if k != "start"}
    options = options.replace(shrink_to="equal", solver_options=given)
    ridged = objective.centred(common, options.rho_local)
    return minimised(ridged, regions, options, common, refit=refit, **solver)


def given_weights(stack: DissimilarityStack, equal: Floats, options: Options) -> SolveResult:
    """Return equal weights as a result."""
    return SolveResult(
        objective=np.nan,
        objective_kind="none",
        status=Status.COMPLETED,
        n_iter=0,
        trace=Trace(),
        mixture=Mixture(equal, stack.names, beta=options.beta, scaling=stack.scales),
    )


def minimised(
    objective: Objective,
    stack: DissimilarityStack | RegionWeights,
    options: Options,
    centre: Floats,
    *,
    refit: bool,
    **solver: Any,
) -> SolveResult:
    """Return the weights that minimise an objective, from `centre` on."""
    if options.shrink_to == "equal":
        objective = objective.centred(centre)
    defaults: dict[str, Any] = {"start": centre, "verbose": options.verbose}
    if "random_state" not in solver:
        defaults["random_state"] = seed_of(options.random_state)
    if options.method == "stochastic" and isinstance(objective, ClassMeans):
        defaults["batch_size"] = 1  # a block of labelled items is a batch already
    given = dict(options.solver_options or {})
    for name in ("callback", "checkpoint") if refit else ():
        given.pop(name, None)
    merged = {**defaults, **given, **solver}
    projected = options.projection is True
    # On edge lengths a Newton step costs little more than a gradient.
    method = "newton" if is_left_open(options) and not projected else options.method
    if isinstance(method, str):
        method, merged = solver_from_options(method, merged)
    max_iter = options.max_iter
    if max_iter is None and isinstance(method, (LBFGS, Newton)) and not projected:
        max_iter = 1000  # a step on edge lengths takes a millisecond
    # Products of some ten thousand numbers: waking threads for them takes longer than they do,
    # and the last digits would depend on how many there are.
    with nullcontext() if projected else blas_threads(1):
        return minimize(
            objective,
            stack,
            method,
            beta=options.beta,
            constraint=options.constraint,
            projection=projected,
            max_iter=max_iter,
            n_jobs=options.n_jobs,
            **merged,
        )
