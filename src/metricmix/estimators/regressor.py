"""The regressor: learn the metric, then predict a numeric target by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import column_or_1d

from metricmix.dissimilarity.ridge import moved_in
from metricmix.estimators.base import (
    MixturePredictor,
    discard_previous_fit,
    given_objective,
)
from metricmix.estimators.inputs import Input
from metricmix.estimators.regression_rules import FittedRegression, as_regression_rule
from metricmix.estimators.regression_selection import (
    TargetSelection,
    select_for_target,
    target_ridge,
)
from metricmix.exceptions import InputError, warn_caller
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.objectives.base import Objective
from metricmix.objectives.regression import KernelRegression, TargetDifferences
from metricmix.typing import AnyArray, Floats
from metricmix.validation import as_labels, check_choice, check_targets, unmasked

if TYPE_CHECKING:
    from metricmix.estimators.regression_comparison import TargetComparison
    from metricmix.estimators.regression_explanation import TargetExplanation

__all__ = ["MetricMixtureRegressor", "read_targets"]

TARGET_OBJECTIVES = ("kernel-regression", "target-differences")
BLOCK, BLOCKS_FROM, LEARNED_FROM, PAIRS_FROM = 500, 1000, 4000, 1500
"""Targets that weights are learned from: in blocks of 500 from 1000 on, at most 4000; of those
whose differences are compared pair by pair, at most 1500."""


@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixtureRegressor(RegressorMixin, MixturePredictor):
    r"""Predict a numeric target by one metric learned from many dissimilarities.

    Items whose target is unknown (NaN, None or pandas' NA) take part in the metric and get a
    predicted one: `transduction_`.

    Parameters
    ----------
    {sources}
    objective : {"kernel-regression", "target-differences"}, Objective, callable or None
        What to minimise. "kernel-regression": the error of predicting each target from those of
        the nearby items (:class:`~metricmix.objectives.KernelRegression`). "target-differences":
        distances should follow differences of targets
        (:class:`~metricmix.objectives.TargetDifferences`). An objective of your own is used as it
        is; a function is called with the targets of all items, NaN where unknown. None: nothing is
        learned, the weights stay equal, for comparison.
    {learning}
    rho : float, optional
        Weight of the ridge. Default: 0.2 / L for L known targets, at least 0.0001 and at most 0.01,
        unless there is reason to choose ten times as much.
    beta : float
        Sharpness of the softplus.
    rule : {"auto", "kernel-ridge", "k-nearest"} or rule
        How targets follow from distances: the name of a rule, or a rule object with its settings,
        such as ``NearestMean(n_neighbors=7)``; see :mod:`metricmix.estimators.regression_rules`.
        "auto": see `selection_`.
    {new_items}

    Attributes
    ----------
    transduction_ : (n,) array
        The target of every item of `stack_`: its own, or that of the rule.
    selection_ : TargetSelection
        What was chosen where parameters leave it open, what it was compared with on held-out
        targets, and why; see :mod:`metricmix.estimators.regression_selection`. With the default
        parameters: weights >= 0 and kernel ridge regression, unless others (signed weights, equal
        ones, a single source), another rho or another rule are clearly better. With fewer than 20
        known targets weights stay equal.
    rule_ : RegressionRule
        The rule that was chosen.
    {attributes}

    Warns
    -----
    UserWarning
        If some targets are more than ten interquartile ranges outside the quartiles.
        For weights and predictions they count as the smallest or largest of the others.

    Examples
    --------
    A hundred known targets; the 342 others are predicted:

    >>> import numpy as np, metricmix as mm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> known = np.where(np.arange(len(y)) < 100, y, np.nan)
    >>> model = mm.MetricMixtureRegressor(sources=["euclidean", "cosine"]).fit(X, known)
    >>> bool(model.score(X[100:], y[100:]) > 0.4)
    True

    With the default sources, regressors among them:

    >>> stack = mm.sources_for(X, target=known)
    >>> model = mm.MetricMixtureRegressor(stack).fit(np.arange(len(y)), known)
    >>> model.transduction_.shape, stack.supervised[:2]
    ((442,), ('learned_columns', 'learned_raw'))
    """

    _unknown: ClassVar[float] = float("nan")
    _objectives: ClassVar[tuple[str, ...]] = TARGET_OBJECTIVES

    objective: Any = "kernel-regression"

    selection_: TargetSelection = field(init=False)
    _targets: Floats = field(init=False)
    _rule: FittedRegression = field(init=False)

    def fit(self, X: Any, y: Any) -> MetricMixtureRegressor:
        """Learn the weights, and predict the targets that are unknown.

        Parameters
        ----------
        X : as `sources` says
        y : array of n numbers
            NaN, None or pandas' NA where the target is unknown.
        """
        self._check_new_items()
        if self.rule != "auto":
            as_regression_rule(self.rule)
        with discard_previous_fit(self):
            opened = self._open(X, y)
            targets = read_targets(y, type(self).__name__)
            known = targets[~np.isnan(targets)]
            far = int((moved_in(known) != known).sum())
            if far:
                limits = moved_in(known)
                warn_caller(
                    f"{far} of {len(known)} targets are more than ten interquartile ranges outside "
                    f"the quartiles, such as {known[known != limits][0]:g}; they are clipped to "
                    f"{limits.min():g} or {limits.max():g}",
                    UserWarning,
                )
            self._fit_input(opened, targets)
        return self

    def _fit_input(
        self, opened: Input, given: Floats, loaded: Mapping[str, Any] | None = None
    ) -> None:
        """Fit to items that were read before, `given` being the targets of X.

        `loaded` is what the fit of a stored model left: "result", "moved_share", "selection", and
        "values", the targets of all items.
        """
        self._targets = np.full(opened.stack.n_items, np.nan)
        self._targets[opened.samples] = given
        opened.stack = opened.stack.relabelled(self._targets, 0)
        if loaded is not None:
            self._settle(loaded["selection"])
            own = not isinstance(self.objective, str)  # and was not stored
            settled = self._settled(self.selection_.best)
            objective = None if own else settled._make_objective(self._targets)
            self._learn(opened, objective, loaded["result"], loaded["moved_share"])
            self._rule = self._fitted_rule(self._lengths(), self._targets)
            self.transduction_ = loaded["values"]
            return
        self._settle(select_for_target(self, opened.stack, self._targets))
        settled = self._settled(self.selection_.best)
        self._learn_as(settled, opened, settled._make_objective(self._targets))
        self._rule = self._fitted_rule(self._lengths(), self._targets)
        self.transduction_ = self._targets.copy()
        unknown = np.isnan(self._targets)
        if unknown.any():
            self.transduction_[unknown] = self._rule.of_items[unknown]

    @property
    def _known(self) -> Floats:
        return self._targets

    def _fitted_rule(self, lengths: EdgeLengths, known: Any) -> FittedRegression:
        return FittedRegression(self.rule_, lengths, known, self.n_jobs)

    def _make_objective(self, known: Any, item_weights: Floats | None = None) -> Objective | None:
        """Return what to minimise, for the targets of all items of a stack."""
        if not isinstance(self.objective, str):
            return given_objective(self.objective, known)
        chosen = check_choice(self.objective, self._objectives, name="objective")
        items = np.flatnonzero(~np.isnan(known))
        rho = target_ridge(len(items)) if self.rho is None else self.rho
        most = LEARNED_FROM if chosen == "kernel-regression" else PAIRS_FROM
        if len(items) > most:
            some = np.random.default_rng(0).choice(items, most, replace=False)
            of_some = np.full(len(known), np.nan)
            of_some[some] = known[some]
            known = of_some
        if chosen == "target-differences":
            return TargetDifferences(known, rho, item_weights=item_weights)
        block_size = BLOCK if len(items) > BLOCKS_FROM else None
        return KernelRegression(known, rho, block_size=block_size, item_weights=item_weights)

    def predict(self, X: Any) -> Floats:
        """Return the predicted targets of the items X, (M,).

        What the rule says, also of items whose target was given; `transduction_` has those.
        """
        return self._answers(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R² of the predicted targets of X; items of unknown target are ignored."""
        found, targets = self.predict(X), check_targets(column_or_1d(as_labels(y)))
        known = ~np.isnan(targets)
        if not known.any():
            raise InputError(
                argument="y", expected="known targets to score, found every target unknown"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(targets[known], found[known], sample_weight=weights))

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> TargetExplanation:
        """Return why item `i` of the stack, or one new row X, has its predicted target.

        See :func:`metricmix.estimators.regression_explanation.explain_target`.
        """
        from metricmix.estimators.regression_explanation import explain_target

        return explain_target(self, i, X=X, k=k)

    def compare(
        self,
        *,
        n_splits: int | None = None,
        n_repeats: int = 1,
        random_state: Any = 0,
        table: Any = None,
        on_fold: Callable[[int, int], None] | None = None,
    ) -> TargetComparison:
        """Compare learned weights with simpler methods on held-out targets.

        See :func:`metricmix.estimators.regression_comparison.compare_targets`.
        """
        from metricmix.estimators.regression_comparison import compare_targets

        dealing: Any = {"n_splits": n_splits, "n_repeats": n_repeats, "random_state": random_state}
        return compare_targets(self, **dealing, table=table, on_fold=on_fold)


def read_targets(y: Any, estimator_name: str) -> Floats:
    """Return the targets of a fit, NaN where unknown; two of them known at least."""
    if y is None:
        raise InputError(
            f"This {estimator_name} estimator requires y to be passed, but the target y is None"
        )
    values: AnyArray = column_or_1d(as_labels(unmasked(y)), warn=True)
    if values.dtype.kind == "f":
        assert_all_finite(values, input_name="y", allow_nan=True)
    targets = check_targets(values)
    known = int((~np.isnan(targets)).sum())
    if known < 2:
        raise InputError(
            argument="y", expected=f"at least two known targets, found {known} (NaN is unknown)"
        )
    return targets
