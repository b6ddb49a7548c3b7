"""The regressor: learn the metric, then predict a numeric target by a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import column_or_1d

from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError
from metricmix.labels import as_labels, check_targets
from metricmix.learning.task import Numbers
from metricmix.state import saved
from metricmix.typing import Floats

__all__ = ["MetricMixtureRegressor"]


@saved("MetricMixtureRegressor")
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
        such as ``NearestMean(n_neighbors=7)``; see :mod:`metricmix.learning.rules`.
        "auto": see `selection_`.
    {new_items}

    Attributes
    ----------
    transduction_ : (n,) array
        The target of every item of `stack_`: its own, or that of the rule.
    selection_ : Selection
        What was chosen where parameters leave it open, what it was compared with on held-out
        targets, and why; see :mod:`metricmix.learning.selection`. With the default
        parameters: weights >= 0 and kernel ridge regression, unless others (signed weights, equal
        ones, a single source), another rho or another rule are clearly better. With fewer than 20
        known targets weights stay equal.
    rule_ : Rule
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
    ((442,), ('learned', 'forest'))
    """

    _task: ClassVar[Any] = Numbers

    objective: Any = "kernel-regression"

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
