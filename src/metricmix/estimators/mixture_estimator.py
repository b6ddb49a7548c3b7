"""What the estimators share: from scikit-learn's conventions to the learning core, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_ids import is_frame, table_items
from metricmix.dissimilarity.item_keys import item_keys
from metricmix.dissimilarity.specs import TableSpec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.inputs import FeatureInput, IdInput, Input, PrecomputedInput, input_kind
from metricmix.estimators.parameters import NestedParameters, StoredEstimator
from metricmix.estimators.stored_fit import (
    FIT_PARTS,
    check_result,
    check_selection,
    check_sources,
    check_supervised,
    checked_task,
    fit_state,
    scales_of,
)
from metricmix.exceptions import InputError
from metricmix.labels import check_groups, check_label_order, group_numbers
from metricmix.learning.candidates import Selection
from metricmix.learning.learn import objective_of
from metricmix.learning.learned import Learned, Options
from metricmix.learning.task import Task
from metricmix.mixture.linear import Mixture
from metricmix.paths.geodesic import check_stored_edges
from metricmix.paths.learned_metric import Metric
from metricmix.solvers.result import SolveResult
from metricmix.state import LoadOptions, NotStored, require
from metricmix.typing import AnyArray, Floats
from metricmix.validation import unmasked

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.dissimilarity.known import Known
    from metricmix.learning.findings import MetricFinding
    from metricmix.paths.contributions import Contributions

__all__ = [
    "MixtureEstimator",
    "discard_previous_fit",
]


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureEstimator(NestedParameters, StoredEstimator):
    """Base of the estimators over a mixture of sources.

    Parameters are the fields of the class, in scikit-learn's sense: stored as they are, checked in
    ``fit``. Fields with ``init=False`` are what a fit leaves; the next fit forgets them.
    """

    _may_choose: ClassVar[bool] = False
    """Whether parameters may be left to selection."""
    fitted_parts: ClassVar[Mapping[str, Any]] = FIT_PARTS

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

    learned_: Learned = field(init=False)
    classes_: AnyArray = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: AnyArray = field(init=False)
    _input: Input = field(init=False)

    # -- scikit-learn's conventions --------------------------------------------------------------

    @property
    def metric(self) -> str | None:
        """``"precomputed"`` where X is dissimilarities, as scikit-learn's own estimators say it."""
        return "precomputed" if isinstance(self.sources, str) else None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")

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

    # -- to the learning core ----------------------------------------------------------------------

    def learning_options(self, **changes: Any) -> Options:
        """Return the parameters as settings of learning."""
        own = {name.name for name in fields(Options)} & {part.name for part in fields(self)}
        return Options(**{name: getattr(self, name) for name in own} | changes)

    def _open(self, X: Any, y: Any, options: Options) -> Input:
        """Check the parameters, and return the items of the fit."""
        options.check(may_choose=self._may_choose)
        scaling = "none" if self.scaling is None else self.scaling
        kind = input_kind(self.sources)
        opened: Input
        if kind is FeatureInput:
            specs = FeatureInput.specs_of(self.sources)
            table = self._check_table(X, specs, ensure_min_samples=2)
            opened = FeatureInput(self.sources, table, scaling, table_items(X))
            opened.check_labels(y)
        elif kind is IdInput:
            opened = IdInput(self.sources, X, scaling)
        else:
            opened = PrecomputedInput(X, scaling, type(self).__name__)
            self.n_features_in_ = len(opened.stack)
        options.check_stack(opened.stack)
        if y is not None and len(opened.samples) != _num_samples(y):
            raise InputError(
                argument="y",
                expected=f"{len(opened.samples)} labels, one per item of X",
                found=_num_samples(y),
            )
        check_label_order(X, y)
        return opened

    def _check_table(self, X: Any, specs: list[TableSpec], **options: Any) -> Any:
        """Return a feature table as scikit-learn checks it; `reset=False` compares with the fit."""
        missing = all(spec.arguments.get("metric") == "nan_euclidean" for spec in specs)
        finite = "allow-nan" if missing else True
        check_numbers(X)
        try:
            return validate_data(
                self, unmasked(X), accept_sparse="csr", ensure_all_finite=finite, **options
            )
        except ValueError as error:
            if "contains NaN" not in str(error):
                raise
            raise InputError(
                argument="X",
                expected="numbers",
                found="NaN",
                remedy="fill in missing values, or use the metric 'nan_euclidean'",
            ) from None

    def _new_rows(self, X: Any) -> Iterator[AnyArray | CrossEdges]:
        """Yield the raw dissimilarities of new items X, (M, n, R), some items at a time.

        Over sparse edges, those on the edges of the new items.
        """
        if isinstance(self._input, FeatureInput):
            X = self._check_table(X, self._input.specs, reset=False)
        return self._input.rows(X)

    # -- model files -------------------------------------------------------------------------------

    def check_unchanged(self) -> None:
        """Raise if parameters that say what the items are have changed since the fit."""
        check_sources(self.sources, self._input, self.learned_.whole)

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters, if they are still those of the fit.

        Of a stack its scaling alone, since the fit has the sources; of an objective of your own
        its name; of class weights in a Series a dictionary.
        """
        self.check_unchanged()
        given, objective = super().stored_parameters(), self.objective
        if hasattr(given.get("class_weight"), "to_dict"):
            given["class_weight"] = given["class_weight"].to_dict()
        if isinstance(self.sources, DissimilarityStack):
            scales = scales_of(self.sources, self.stack_)
            given["sources"] = {"scaling": self.sources.scaling, "scales": scales}
        if not (objective is None or isinstance(objective, str | NotStored)):
            name = getattr(objective, "__name__", type(objective).__name__)
            given["objective"] = NotStored(str(name))
        return given

    def fitted_state(self, *, keep: bool) -> dict[str, Any]:
        """Return what was learned, and from which items."""
        return fit_state(self._input, self.learned_, keep=keep)

    def restore_learned(
        self,
        fitted: Mapping[str, Any],
        options: LoadOptions,
        *,
        is_numeric: bool = False,
        selection: Selection | None = None,
    ) -> tuple[Input, Learned]:
        """Return the items of a fit and what was learned from them, from stored parts."""
        opened, self.sources = fitted["input"].opened(self.sources, options)
        result, edges, near = fitted["result"], fitted["edges"], fitted["near"]
        whole, values, known = opened.stack, fitted["known"], None
        require(0.0 <= fitted["moved_share"] <= 1.0, "expected 'moved_share' to be from 0 to 1")
        if opened.n_features is not None:
            self.n_features_in_ = opened.n_features
        check_result(result, whole, verify=options.verify)
        check_stored_edges(edges, near, whole, verify=options.verify)
        task = checked_task(fitted["classes"], values, len(whole), is_numeric=is_numeric)
        if values is not None:
            check_supervised(whole, values)
            weight = getattr(self, "class_weight", None)
            groups = fitted["groups"]
            require(groups is None or groups.shape == values.shape, "expected a group of each item")
            groups = None if groups is None else groups[opened.samples]
            known = known_items(opened, task, values[opened.samples], weight, groups)
        chosen = given = self.learning_options()
        if selection is not None:
            check_selection(selection, whole.names, task)
            chosen = given.as_candidate(selection.best)
        named = isinstance(chosen.objective, str) and known is not None
        learned = Learned(
            stack=whole if edges is None else EdgeStack.of(whole, edges),
            whole=whole,
            near=near,
            task=task,
            known=known,
            options=chosen,
            result=result,
            moved_share=fitted["moved_share"],
            objective=objective_of(chosen, known) if named else None,
            given=given,
            selection=selection,
        )
        return opened, learned

    # -- what was learned --------------------------------------------------------------------------

    @property
    def stack_(self) -> DissimilarityStack:
        """The sources."""
        return self.learned_.stack

    @property
    def mixture_(self) -> Mixture:
        """What was learned."""
        return self.learned_.mixture

    @property
    def weights_(self) -> Floats:
        """The learned weights, one per source of `stack_.names`."""
        check_is_fitted(self)
        return self.learned_.mixture.weights

    @property
    def result_(self) -> SolveResult:
        """What the solver returned."""
        return self.learned_.result

    @property
    def moved_share_(self) -> float:
        """Share of the distances that the projection made shorter."""
        return self.learned_.moved_share

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver; 1 where there was nothing to minimise."""
        return max(1, self.learned_.result.n_iter)

    @property
    def metric_(self) -> Metric:
        """The metric between the items of `stack_`."""
        return self.learned_.metric

    def compute_metric(self, *, device: str = "cpu") -> Floats:
        """Return the metric between all items of `stack_`, (n, n).

        One all-pairs computation, O(n³), unless the mixture is a metric already: then O(n² R).
        `device` is that of :func:`metricmix.path_metric`. `metric_` answers single questions
        without it.
        """
        check_is_fitted(self)
        return self.metric_.to_array(device=device)

    def contributions(self, i: Any, j: Any) -> Contributions:
        """Return how much each source contributes to the distance from item `i` to item `j`.

        Items of `stack_`, by their ids (by their numbers, if it has none). See
        :func:`metricmix.paths.contributions`.
        """
        check_is_fitted(self)
        return self.metric_.contributions(i, j)

    def diagnose(self) -> tuple[MetricFinding, ...]:
        """Return what may be wrong with the metric: hubs, collapse, twins, a class that takes all.

        See :func:`metricmix.learning.findings.diagnose`.
        """
        from metricmix.learning.findings import diagnose

        check_is_fitted(self)
        return diagnose(self.learned_)

    def weights_table(
        self, n_bootstrap: int = 200, level: float = 0.95, random_state: Any = None
    ) -> pd.DataFrame:
        """Return the weights with bootstrap intervals, a row per source.

        See :func:`metricmix.learning.bootstrap.weights_table`.
        """
        from metricmix.learning.bootstrap import weights_table

        check_is_fitted(self)
        return weights_table(self.learned_, n_bootstrap, level, random_state)


def known_items(
    opened: Input, task: Task, values: AnyArray, class_weight: Any = None, groups: Any = None
) -> Known:
    """Return what is known of all items of the stack, `values` and `groups` being those of X."""
    everyone = np.full(opened.stack.n_items, task.known_of(values).unknown, dtype=values.dtype)
    everyone[opened.samples] = values
    known = replace(task.known_of(everyone), class_weight=task.check_class_weight(class_weight))
    if groups is not None:
        of_all = len(values) + np.arange(opened.stack.n_items)
        of_all[opened.samples] = group_numbers(groups, len(values))
        check_groups(of_all, known.mask)
        known = replace(known, groups=of_all)
    table = opened.X if isinstance(opened, FeatureInput) else None
    return replace(known, keys=item_keys(opened.stack, known, table))


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


def check_numbers(X: Any) -> None:
    """Raise if a column of a frame holds texts or dates, which distances do not take."""
    for k, name in enumerate(X.columns if is_frame(X) else ()):
        column = X.iloc[:, k]
        if getattr(column.dtype, "kind", "O") in "biuf":
            continue
        try:
            column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise InputError(
                argument="X",
                expected="numbers in every column",
                found=f"{column.dtype} in {name!r}",
                remedy="mm.fit(X, label=y) takes texts, categories and dates",
            ) from None
