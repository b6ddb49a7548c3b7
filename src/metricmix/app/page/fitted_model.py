"""What the page reads of a fitted model."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError
from metricmix.labels import class_numbers
from metricmix.plots.style import SCALE
from metricmix.typing import Indices

__all__ = ["fitted_predictor", "label_numbers"]


def fitted_predictor(model: object) -> MixturePredictor:
    """Return the model, or the best estimator of a search, if it is fitted and predicts."""
    found = getattr(model, "best_estimator_", model)
    if not isinstance(found, MixturePredictor):
        raise InputError(
            argument="model",
            expected="a fitted MetricMixtureClassifier or MetricMixtureRegressor",
            found=type(model).__name__,
        )
    check_is_fitted(found)
    return found


def label_numbers(model: MixturePredictor) -> tuple[tuple[str, ...], Indices]:
    """Return the classes as texts, and the class number of every item.

    The classes of a numeric target are ranges with about as many items each, from low to high.
    """
    if not model.known_.is_numeric:
        names = tuple(str(label) for label in model.classes_.tolist())
        return names, class_numbers(model.classes_, model.transduction_)
    y = model.transduction_
    ends = np.unique(np.quantile(y, np.linspace(0, 1, len(SCALE) + 1)))
    ends = ends if len(ends) > 1 else np.array([y.min(), y.max()])
    labels = np.clip(np.searchsorted(ends, y, side="right") - 1, 0, len(ends) - 2)
    return tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(ends.tolist())), labels
