"""What the estimators share: reading X, learning weights, predicting by a rule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.matrix import table_items
from metricmix.dissimilarity.recipes import Recipe
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.inputs import (
    FeatureInput,
    IdInput,
    Input,
    PrecomputedInput,
    check_label_order,
    input_kind,
)
from metricmix.estimators.parameters import NestedParameters
from metricmix.exceptions import (
    ConvergenceWarning,
    InputError,
    ProjectionWarning,
    warn_caller,
)
from metricmix.kernels.threads import blas_threads, effective_threads
from metricmix.mixture.edge_lengths import EdgeLengths, link_in_place
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.objectives import ClassMeans, LabelContrast, Neighbourhood
from metricmix.objectives.base import Objective
from metricmix.objectives.regression import TargetObjective
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.trees import distances_from
from metricmix.solvers.minimize import METHODS, minimize, solver_from_options
from metricmix.solvers.path_generation import PathGeneration
from metricmix.solvers.problem import CONSTRAINTS
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.solvers.stochastic import Stochastic
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer, unmasked

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.attribution import Contributions
    from metricmix.estimators.findings import MetricFinding

__all__ = [
    "NEW_ITEMS",
    "OBJECTIVES",
    "MixtureEstimator",
    "MixtureLearner",
    "MixturePredictor",
    "check_refittable",
    "class_means_ridge",
    "discard_previous_fit",
    "given_objective",
    "has_settled",
    "make_objective",
    "nearly_zero",
]

RHO = {"label-contrast": 1e-1, "neighbourhood": 1e-3}
"""Default weight of the ridge; the linear objective needs more of it."""
OBJECTIVES = ("class-means", *RHO)
FEW, RHO_OF_FEW, SMALLEST_RHO, FADING, GROWING = 6.0, 1e-2, 1e-5, 5, 6
"""The ridge of class means: see :func:`class_means_ridge`."""
MOVED_AT_MOST = 0.1
"""Share of distances that the projection may move before weights are learned through paths."""
NEARLY_ZERO = 0.01
"""Share of the length between equal items below which a length or a distance has collapsed."""
STEPS_ON_LENGTHS = 1000
"""Default `max_iter` of the full method on edge lengths, where a step takes a millisecond."""
NEW_ITEMS = ("attached", "augmented")
LEARNED = (
    *("_input", "_objective", "_edges", "_near", "stack_"),
    *("result_", "mixture_", "n_iter_", "moved_share_"),
)
"""What :meth:`MixtureLearner._learn` sets."""
ROOTS = 32
"""Items from which that share is measured."""
OWN = ("beta", "constraint", "max_iter", "method", "n_jobs", "projection")
"""Options of the solver that are parameters of the estimators themselves."""
START = 4.0
"""Sum of the initial weights: as sharp as a softmax over distances of mean 1 should be."""
LABELS_AT_ONCE = 1000
"""Labelled items from which on class means are taken over blocks, not over all of them at once."""
LABELS_PER_STEP = 20
"""Labelled items whose class means a stochastic step looks at."""


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureEstimator(NestedParameters):
    """Base of the estimators over a mixture of sources.

    Parameters are the fields of the class, in scikit-learn's sense: stored as they are, checked in
    ``fit``. Fields with ``init=False`` are what a fit leaves; the next fit forgets them.
    """

    _constraints: ClassVar[tuple[str, ...]] = CONSTRAINTS
    _geodesics: ClassVar[tuple[str | None, ...]] = (None,)
    _objectives: ClassVar[tuple[str, ...]] = OBJECTIVES

    sources: Any = field(default="precomputed", kw_only=False)
    objective: Any = "class-means"
    shrink_to: str = "equal"
    constraint: str | None = "nonnegative"
    scaling: Any = "mean"
    projection: bool | str = "auto"
    geodesic: Any = None
    method: Any = "full"
    max_iter: int | None = None
    solver_options: Mapping[str, Any] | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False

    stack_: DissimilarityStack = field(init=False)
    mixture_: Mixture = field(init=False)
    result_: SolveResult = field(init=False)
    moved_share_: float = field(init=False)
    n_iter_: int = field(init=False)
    classes_: AnyArray = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: AnyArray = field(init=False)

    # -- scikit-learn's conventions --------------------------------------------------------------

    @property
    def metric(self) -> str | None:
        """``"precomputed"`` where X is dissimilarities, as scikit-learn's own estimators say it."""
        return "precomputed" if isinstance(self.sources, str) else None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        try:
            kind = input_kind(self.sources)
        except InputError:  # fit will say so
            return tags
        inputs = tags.input_tags
        inputs.pairwise = inputs.positive_only = inputs.three_d_array = kind is PrecomputedInput
        inputs.one_d_array = inputs.string = kind is IdInput
        inputs.two_d_array = kind is not IdInput
        inputs.sparse = kind is FeatureInput
        return tags

    # -- X -----------------------------------------------------------------------------------------

    def _open(self, X: Any, y: Any) -> Input:
        """Check the parameters, and return the items of the fit."""
        effective_threads(self.n_jobs)
        check_choice(self.shrink_to, ("equal", "zero"), name="shrink_to")
        if isinstance(self.method, str):
            check_choice(self.method, tuple(METHODS), name="method")
        check_choice(self.constraint or "none", self._constraints, name="constraint")
        if self.projection not in (True, False, "auto"):
            raise InputError(
                argument="projection",
                expected="'auto', True or False",
                found=f"{self.projection!r}",
            )
        if self.geodesic not in self._geodesics:
            if isinstance(self.geodesic, str) or self.geodesic is None:
                choices = ", ".join(map(repr, self._geodesics))
                raise InputError(
                    argument="geodesic",
                    expected=f"{choices} or a number of nearest items",
                    found=f"{self.geodesic!r}",
                )
            check_integer(self.geodesic, name="geodesic", low=1)
        for name in self.solver_options or {}:
            if name in (*OWN, "link"):
                problem = f"{name!r} is a parameter of the estimator itself"
                if name == "link":
                    problem = "estimators use the softplus link, got 'link'"
                raise InputError(problem, argument="solver_options")
        scaling = "none" if self.scaling is None else self.scaling
        kind = input_kind(self.sources)
        opened: Input
        if kind is FeatureInput:
            recipes = FeatureInput.recipes_of(self.sources)
            table = self._check_table(X, recipes, ensure_min_samples=2)
            opened = FeatureInput(self.sources, table, scaling, table_items(X))
            opened.check_labels(y)
        elif kind is IdInput:
            opened = IdInput(self.sources, X, scaling)
        else:
            opened = PrecomputedInput(X, scaling, type(self).__name__)
            self.n_features_in_ = len(opened.stack)
        if opened.stack.edges is not None and self.geodesic not in (None, "auto"):
            raise InputError(
                "the edges of this stack are sparse already",
                argument="geodesic",
                remedy="leave it out",
            )
        if y is not None and len(opened.samples) != _num_samples(y):
            raise InputError(
                argument="y",
                expected=f"{len(opened.samples)} labels, one per item of X",
                found=_num_samples(y),
            )
        check_label_order(X, y)
        return opened

    def _check_table(self, X: Any, recipes: list[Recipe], **options: Any) -> Any:
        """Return a feature table as scikit-learn checks it; `reset=False` compares with the fit."""
        missing = all(recipe.arguments.get("metric") == "nan_euclidean" for recipe in recipes)
        finite = "allow-nan" if missing else True
        return validate_data(
            self, unmasked(X), accept_sparse="csr", ensure_all_finite=finite, **options
        )

    # -- what was learned --------------------------------------------------------------------------

    @property
    def weights_(self) -> Floats:
        """The learned weights, one per source of `stack_.names`."""
        check_is_fitted(self, "mixture_")
        return self.mixture_.weights

    def contributions(self, i: Any, j: Any) -> Contributions:
        """Return how much each source contributes to the distance from item `i` to item `j`.

        Items of `stack_`, by their ids (by their numbers, if it has none). See
        :func:`metricmix.estimators.attribution.contributions`.
        """
        from metricmix.estimators.attribution import contributions

        check_is_fitted(self)
        return contributions(self.stack_, self.mixture_, i, j)

    def diagnose(self) -> tuple[MetricFinding, ...]:
        """Return what may be wrong with the metric: hubs, collapse, twins, a class that takes all.

        See :func:`metricmix.estimators.findings.diagnose`.
        """
        from metricmix.estimators.findings import diagnose

        check_is_fitted(self)
        best: Any = getattr(self, "best_estimator_", self)
        return diagnose(best)

    def weights_table(
        self, n_bootstrap: int = 200, level: float = 0.95, random_state: Any = None
    ) -> pd.DataFrame:
        """Return the weights with bootstrap intervals, a row per source.

        See :func:`metricmix.estimators.bootstrap.weights_table`.
        """
        from metricmix.estimators.bootstrap import weights_table

        return weights_table(self, n_bootstrap, level, random_state)


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureLearner(MixtureEstimator):
    """Base of the estimators that learn one mixture, with one ridge and one link."""

    rho: float | None = None
    beta: float = 1.0

    _input: Input = field(init=False)
    _objective: Objective | None = field(init=False)
    _single: str | None = field(init=False, default=None)  # the source with the whole weight
    _centred_on: tuple[str, ...] | None = field(init=False, default=None)  # sources; None for all
    _edges: EdgeSet | None = field(init=False, default=None)  # those of a geodesic metric
    _near: Mixture | None = field(init=False, default=None)  # by whose lengths items are near

    def _learn(
        self,
        opened: Input,
        objective: Objective | None,
        result: SolveResult | None = None,
        moved_share: float = 0.0,
    ) -> None:
        """Learn the weights, unless `result` has them, and set what was learned."""
        self._input, self._objective, self.stack_ = opened, objective, opened.stack
        if result is None:
            self.stack_, self._near = self._with_edges(objective, opened.stack)
            self._edges = None if self._near is None else self.stack_.edges
            result, moved_share = self._solve_as_used(objective, self.stack_)
        elif self._edges is not None:
            self.stack_ = EdgeStack.of(opened.stack, self._edges)
        self.result_, self.moved_share_ = result, moved_share
        assert result.mixture is not None
        self.mixture_, self.n_iter_ = result.mixture, result.n_iter

    def _with_edges(
        self, objective: Objective | None, stack: DissimilarityStack
    ) -> tuple[DissimilarityStack, Mixture | None]:
        """Return the stack that paths are searched in, and the mixture by which items are near.

        The stack itself and None, unless `geodesic` is a number: then edges lead to the nearest
        items by the lengths that are learned over all pairs.
        """
        if stack.edges is not None or not isinstance(self.geodesic, int | np.integer):
            return stack, None
        over_all = copy(self)
        over_all.projection, over_all.method, over_all.max_iter = False, "full", None
        over_all.solver_options = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # only to find what is near
            result = over_all._solve(objective, stack, refit=True, verbose=False)
        assert result.mixture is not None
        return self._along(stack, result.mixture), result.mixture

    def _along(self, stack: DissimilarityStack, mixture: Mixture) -> DissimilarityStack:
        """Return a stack on the edges to the items that are nearest by a mixture, if geodesic."""
        if stack.edges is not None or not isinstance(self.geodesic, int | np.integer):
            return stack
        from metricmix.paths.geodesic import geodesic_stack

        return geodesic_stack(stack, mixture, int(self.geodesic))

    def _make_objective(self, known: Any, item_weights: Floats | None = None) -> Objective | None:
        """Return what to minimise, for the labels of all items of a stack."""
        return make_objective(self, known, np.unique(known[known >= 0]), item_weights)

    def _solve_as_used(
        self, objective: Objective | None, stack: DissimilarityStack, **options: Any
    ) -> tuple[SolveResult, float]:
        """Learn on edge lengths, and again through paths if the projection changes too many.

        Return the result, and the share of the distances that the projection changes. `options` are
        those of :meth:`_solve`. Learning through paths has a checkpoint of its own. Over sparse
        edges weights are always learned through paths.
        """
        if stack.edges is not None and objective is not None:
            result = self._solve_on_edges(objective, stack, **options)
            return result, self._moved_share(stack, result, np.arange(stack.n_items))
        result = self._solve(objective, stack, **options)
        if result.status is Status.INTERRUPTED:
            return result, 0.0
        known = getattr(objective, "labelled", np.arange(stack.n_items))
        share = self._moved_share(stack, result, known)
        if share <= MOVED_AT_MOST or objective is None or self.projection is True:
            return result, share
        if self.projection is False:
            warn_caller(
                f"weights were learned on edge lengths, and the projection changes {share:.0%} of "
                "the distances; use projection='auto' or True to learn through paths",
                ProjectionWarning,
            )
            return result, share
        through_paths = self._through_paths()
        given = dict(self.solver_options or {})
        if given.get("checkpoint") is not None:
            file = Path(given["checkpoint"])
            given["checkpoint"] = file.with_name(f"{file.stem}.paths{file.suffix}")
        through_paths.solver_options = given
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = through_paths._solve(objective, stack, **options)
        if not has_settled(result):
            result.warn_unless_converged()
        return result, self._moved_share(stack, result, known)

    def _solve_on_edges(
        self, objective: Objective, stack: DissimilarityStack, **options: Any
    ) -> SolveResult:
        """Learn through paths along sparse edges.

        Where the sources are known between any two items, the start is what the pairs of labelled
        items say by themselves, which takes no search.
        """
        if self.projection is False:
            raise InputError(
                "over sparse edges weights are learned through paths",
                argument="projection",
                remedy="pass 'auto' or True",
            )
        given = {**(self.solver_options or {}), **options}
        comparable = isinstance(stack, EdgeStack) and stack.origin is not None
        startable = comparable and "start" not in given
        if startable and isinstance(objective, (ClassMeans, TargetObjective)):
            on_lengths = copy(self)
            on_lengths.projection, on_lengths.method, on_lengths.max_iter = False, "full", None
            on_lengths.solver_options = None
            pairs = on_lengths._make_objective(objective.y[objective.labelled])
            few = stack.between_any.part(objective.labelled)
            options["start"] = on_lengths._solve(pairs, few, refit=True, verbose=False).weights
        return self._through_paths()._solve(objective, stack, **options)

    def _through_paths(self) -> Self:
        """Return a copy that learns through paths, by path generation unless told otherwise."""
        copied = copy(self)
        copied.projection = True
        own = {"tol", "memory", "temperature"} & set(self.solver_options or {})
        if self.method == "full" and not own:
            copied.method = PathGeneration()
        return copied

    def _moved_share(self, stack: DissimilarityStack, result: SolveResult, items: Indices) -> float:
        """Return the share of distances, from at most 32 of the items, that paths make shorter."""
        assert result.mixture is not None
        lengths = EdgeLengths(stack, result.mixture)
        if lengths.is_metric:
            return 0.0
        roots = items
        if len(items) > ROOTS:
            roots = np.sort(np.random.default_rng(0).choice(items, ROOTS, replace=False))
        edges = lengths.rows(roots)
        moved = distances_from(lengths, roots, n_jobs=self.n_jobs) < edges * (1.0 - 1e-6)
        there = np.isfinite(edges)
        return float(moved[there].sum() / max(1, int(there.sum()) - len(roots)))

    def _solve(
        self,
        objective: Objective | None,
        stack: DissimilarityStack,
        *,
        refit: bool = False,
        centre: Floats | None = None,
        **options: Any,
    ) -> SolveResult:
        """Return the weights that minimise an objective; equal ones where there is none.

        `options` are those of the solver, and go before `solver_options`. A `refit`, of a fold or
        a resample, has neither callback nor checkpoint. `centre` is the start, and the centre of
        the ridge whatever `shrink_to` says.
        """
        equal = self._equal_weights(stack) if centre is None else centre
        if objective is None:
            weights = equal
            if self._single is not None:
                weights = np.where(np.array(stack.names) == self._single, equal.sum(), 0.0)
            mixture = Mixture(weights, stack.names, beta=self.beta, scaling=stack.scales)
            return SolveResult(
                objective=np.nan,
                objective_kind="none",
                status=Status.COMPLETED,
                n_iter=0,
                trace=Trace(),
                mixture=mixture,
            )
        if self.shrink_to == "equal" or centre is not None:
            objective = objective.centred(equal)
        defaults: dict[str, Any] = {"start": equal, "verbose": self.verbose}
        if "random_state" not in options:
            defaults["random_state"] = seed_of(self.random_state)
        if self.method == "stochastic" and isinstance(objective, ClassMeans):
            defaults["batch_size"] = 1  # a block of labelled items is a batch already
        given = dict(self.solver_options or {})
        for name in ("callback", "checkpoint") if refit else ():
            given.pop(name, None)
        if centre is not None:
            given.pop("start", None)  # that of the user is for common weights
        options = {**defaults, **given, **options}
        method = self.method
        if isinstance(method, str):
            method, options = solver_from_options(method, options)
        # Products of some ten thousand numbers: waking threads for them takes longer than they do,
        # and the last digits would depend on how many there are.
        projected = self.projection is True
        max_iter = self.max_iter
        if max_iter is None and isinstance(method, METHODS["full"]) and not projected:
            max_iter = STEPS_ON_LENGTHS
        with nullcontext() if projected else blas_threads(1):
            return minimize(
                objective,
                stack,
                method,
                beta=self.beta,
                constraint=self.constraint,
                projection=projected,
                max_iter=max_iter,
                n_jobs=self.n_jobs,
                **options,
            )

    def _as_fitted(self) -> Self:
        """Return a copy whose parameters say what the fit did, for refits on other labels."""
        copied = copy(self)
        if self.result_.objective_kind != "none":
            copied.projection = self.result_.objective_kind != "unprojected"
        return copied

    def _equal_weights(self, stack: DissimilarityStack) -> Floats:
        """Return the initial weights, and the centre of the ridge: the same for all sources.

        Where sources were chosen, the same for these, and 0 for the others.
        """
        chosen = np.ones(stack.n_sources)
        if self._centred_on is not None:
            chosen = np.isin(stack.names, self._centred_on).astype(np.float64)
        return np.asarray(chosen * (total_weight(self.constraint) / chosen.sum()))

    def _lengths(self) -> EdgeLengths:
        return EdgeLengths(self.stack_, self.mixture_)

    def _new_rows(self, X: Any) -> Iterator[AnyArray | CrossEdges]:
        """Yield the raw dissimilarities of new items X, (M, n, R), some items at a time.

        Over sparse edges, those on the edges of the new items.
        """
        if isinstance(self._input, FeatureInput):
            X = self._check_table(X, self._input.recipes, reset=False)
        return self._input.rows(X)

    def _join_rows(self, rows: AnyArray | CrossEdges) -> NewItems:
        """Join new items to those of the fit, given what :meth:`_new_rows` yields."""
        if isinstance(rows, CrossEdges):
            from metricmix.paths.sparse_new_items import SparseNewItems

            return SparseNewItems.from_edges(self._lengths(), rows, n_jobs=self.n_jobs)
        if self._near is not None:
            from metricmix.paths.geodesic import join_nearest

            k, near = self._as_fitted().geodesic, EdgeLengths(self._input.stack, self._near)
            return join_nearest(self._lengths(), near, rows, k, n_jobs=self.n_jobs)
        return NewItems.from_rows(self._lengths(), rows, n_jobs=self.n_jobs)


@dataclass(eq=False, repr=False, kw_only=True)
class MixturePredictor(MixtureLearner):
    """Base of the estimators that predict labels or targets by a rule on the metric."""

    _constraints: ClassVar[tuple[str, ...]] = ("auto", *CONSTRAINTS)
    _geodesics: ClassVar[tuple[str | None, ...]] = (None, "auto")
    _unknown: ClassVar[float] = -1
    """What stands for an unknown label in `_known`."""

    constraint: str | None = "auto"
    rule: Any = "auto"
    new_items: str = "attached"

    transduction_: AnyArray = field(init=False)
    selection_: Any = field(init=False)
    rule_: Any = field(init=False)
    _rule: Any = field(init=False)

    @property
    def _known(self) -> AnyArray:
        """The labels or targets of all items of the stack, `_unknown` where they are unknown."""
        raise NotImplementedError

    def _fitted_rule(self, lengths: EdgeLengths, known: Any) -> Any:
        """Return the rule that was chosen, applied to a metric and known labels or targets."""
        raise NotImplementedError

    def _check_new_items(self) -> None:
        check_choice(self.new_items, NEW_ITEMS, name="new_items")

    def _settle(self, selection: Any) -> None:
        """Record what was chosen."""
        self.selection_, self.rule_ = selection, selection.best.rule

    def _as_fitted(self) -> Self:
        """Return a copy whose parameters say what the fit chose, for refits on other labels."""
        return MixtureLearner._as_fitted(self._settled(self.selection_.best))

    def _settled(self, candidate: Any) -> Self:
        """Return a copy with the settings of a candidate as its parameters."""
        settled = copy(self)
        settled.rule, settled.rho = candidate.rule, candidate.rho
        settled.constraint, settled.geodesic = candidate.constraint, candidate.geodesic
        settled._centred_on = candidate.sources
        if candidate.weights != "learned":
            settled.objective = None
            settled.constraint = "nonnegative" if self.constraint == "auto" else self.constraint
            settled._single = None if candidate.weights == "equal" else candidate.weights
        return settled

    def _learn_as(self, settled: Self, opened: Input, objective: Objective | None) -> None:
        """Learn with other parameters, and keep what was learned."""
        settled._learn(opened, objective)
        for name in LEARNED:
            setattr(self, name, getattr(settled, name))

    def _answers(self, X: Any) -> Floats:
        """Return what the rule says of the items X: class probabilities (M, C) or numbers (M,)."""
        check_is_fitted(self)
        members = self._input.members(X)
        if members is not None:
            return np.asarray(self._rule.of_items[members])
        if self.new_items == "augmented":
            return np.array([rule.of_items[-1] for rule in self._augmented_rules(X)])
        blocks = (self._join_rows(rows) for rows in self._new_rows(X))
        return np.concatenate([self._rule.of_new(new) for new in blocks])

    def _augmented_rules(self, X: Any) -> Iterator[Any]:
        """Yield, for each new item, the rule of the fit with that item added as the last one."""
        if not isinstance(self._input, FeatureInput):
            raise InputError(
                "'augmented' recomputes the sources, which needs a feature table and sources=[...]",
                argument="new_items",
                remedy="use 'attached' for precomputed dissimilarities",
            )
        if self._edges is not None:
            raise InputError(
                "'augmented' is for paths over all pairs, and this metric is a geodesic one",
                argument="new_items",
                remedy="use 'attached'",
            )
        known = np.append(self._known, self._unknown)
        table = self._check_table(X, self._input.recipes, reset=False)
        for stack in self._input.augmented(table):
            mixture = self.mixture_
            if isinstance(mixture, LocalMixture):
                mixture = mixture.extended(stack)
            yield self._fitted_rule(EdgeLengths(stack, mixture), known)

    def compute_metric(self, *, device: str = "cpu") -> Floats:
        """Return the metric between all items of `stack_`, (n, n).

        One all-pairs computation, O(n³), unless the mixture is a metric already: then O(n² R).
        `device` is that of :func:`metricmix.path_metric`.
        """
        check_is_fitted(self)
        options: Any = {"n_jobs": self.n_jobs, "device": device}
        return np.asarray(path_metric(self.stack_, self.mixture_, **options))


@contextmanager
def discard_previous_fit(estimator: MixtureEstimator) -> Iterator[None]:
    """Forget an earlier fit, and restore it if this one fails."""
    state: dict[str, Any] = estimator.__dict__
    before = dict(state)
    for attribute in fields(estimator):
        if not attribute.init:
            state.pop(attribute.name, None)
    try:
        yield
    except BaseException:
        state.clear()
        state.update(before)
        raise


def given_objective(chosen: Any, known: Any) -> Objective | None:
    """Return an objective of the user; of a function, what it returns for labels or targets."""
    if chosen is None or isinstance(chosen, Objective):
        return chosen
    made = chosen(known) if callable(chosen) else chosen
    if not isinstance(made, Objective):
        expected = "it to return an Objective" if callable(chosen) else "an objective or its name"
        raise InputError(argument="objective", expected=expected, found=f"{made!r}")
    return made


def make_objective(
    estimator: MixtureLearner,
    codes: Indices,
    classes: AnyArray,
    item_weights: Floats | None = None,
) -> Objective | None:
    """Return what an estimator minimises, for class numbers of all items of its stack.

    `item_weights` are for the named objectives; an objective of your own weights items itself.
    """
    chosen = estimator.objective
    if not isinstance(chosen, str):
        return given_objective(chosen, codes)
    check_choice(chosen, OBJECTIVES, name="objective")
    sizes = np.bincount(codes[codes >= 0])
    if sizes.max() < 2:
        raise InputError(
            argument="y",
            expected="a class with at least two labelled items, to compare them",
            remedy=f"found one item in each of the {len(classes)} classes",
        )
    rho = estimator.rho
    if rho is None:
        rho = RHO[chosen] if chosen in RHO else class_means_ridge(sizes[sizes > 0])
    if chosen == "label-contrast":
        return LabelContrast(codes, rho, balanced=True, item_weights=item_weights)
    if chosen == "neighbourhood":
        return Neighbourhood(codes, rho, item_weights=item_weights)
    block_size = LABELS_AT_ONCE // 2 if sizes.sum() > LABELS_AT_ONCE else None
    if estimator.method == "stochastic" or isinstance(estimator.method, Stochastic):
        block_size = LABELS_PER_STEP
    return ClassMeans(codes, rho, block_size=block_size, item_weights=item_weights)


def class_means_ridge(sizes: Indices) -> float:
    r"""Return the default weight of the ridge of class means, for the labels of each class.

    .. math:: \rho = 10^{-2} (6 / m)^5, \quad \text{at least } 10^{-5}, \qquad
              \rho = 10^{-2} (6 / m)^6 \text{ for } m < 6

    with m labels per class on average. Five labels per class can make any source look perfect, so
    weights stay close to equal ones; twenty cannot.

    >>> [f"{class_means_ridge(np.full(3, m)):.1e}" for m in (2, 5, 10, 20, 40)]
    ['7.3e+00', '3.0e-02', '7.8e-04', '2.4e-05', '1.0e-05']
    """
    times = FEW / float(sizes.mean())
    return max(SMALLEST_RHO, RHO_OF_FEW * times ** (GROWING if times > 1.0 else FADING))


def check_refittable(objective: Any) -> None:
    """Raise if an objective was made for fixed labels, where each fold has its own."""
    if isinstance(objective, Objective):
        raise InputError(
            argument="objective",
            expected=(
                "a name or a function of the class numbers, since each fold has labels of its own"
            ),
            found="an objective",
            remedy="pass lambda codes: ...",
        )


def nearly_zero(lengths: EdgeLengths, w: Floats) -> NDArray[np.bool_]:
    r"""Return which lengths or distances are below a hundredth of the length between equal items.

    That is :math:`\log 2 / \beta`, and with weights >= 0 none is below. Without a link, it is 0:
    then those below a millionth of the mean count.
    """
    of_equal = np.zeros(1)
    link_in_place(of_equal, lengths.beta, lengths.link)
    least = of_equal[0] * NEARLY_ZERO if of_equal[0] > 0 else 1e-6 * float(np.mean(w))
    return np.asarray(w <= least)


def has_settled(result: SolveResult) -> bool:
    """Return whether a solver converged, or ended at kinks where it made no more progress."""
    last = result.trace.objective[-10:]
    flat = len(last) == 10 and last[0] - last[-1] <= 1e-3 * abs(last[-1])
    return result.status.is_success or result.status is Status.STALLED or flat


def total_weight(constraint: str | None) -> float:
    """Return the sum of the initial weights."""
    return 1.0 if constraint == "simplex" else START


def seed_of(random_state: Any) -> Any:
    """Return a seed for numpy's generators from what scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
