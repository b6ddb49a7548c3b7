"""scikit-learn's own checks, on every estimator in its variants."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from metricmix.estimators import (
    MetricMixture,
    MetricMixtureClassifier,
    MetricMixtureClassifierCV,
    MetricMixtureRegressor,
)
from metricmix.estimators.cross_validation import LabelledKFold
from metricmix.learning.rules import CLASS_RULES, KNearest
from reference.models import classifier

FEATURES = ["euclidean", "cityblock"]
FIXED: dict[str, Any] = {"constraint": "nonnegative", "rho": 1e-3}
"""Settings that leave the rule to be chosen, so that a fit compares three candidates, not ten."""
SMALL: dict[str, Any] = {
    "rhos": (1e-2, 1e-3),
    "rules": ("class-mean", "nearest"),
    "cv": LabelledKFold(2, random_state=0),
    "random_state": 0,
}
ESTIMATORS = [
    MetricMixture(),
    MetricMixture(FEATURES),
    MetricMixtureClassifier(),
    MetricMixtureClassifier(FEATURES, **FIXED),
    *(classifier("precomputed", rule=rule) for rule in ("class-mean", "spreading")),
    *(classifier(FEATURES, rule=rule) for rule in CLASS_RULES.names()),
    classifier(FEATURES, rule=KNearest(weights="distance")),
    MetricMixtureClassifierCV(**SMALL),
    MetricMixtureClassifierCV(FEATURES, **{**SMALL, "rhos": (1e-2,)}),
    MetricMixtureRegressor(),
    MetricMixtureRegressor(FEATURES, **FIXED),
    MetricMixtureRegressor(FEATURES, **FIXED, rule="k-nearest"),
    MetricMixtureRegressor(objective="target-differences", **FIXED, rule="k-nearest"),
]
"""Every way to choose, every way to give sources, and every rule; not all of their combinations."""
SLOW = [
    MetricMixtureClassifier(FEATURES),
    MetricMixtureRegressor(FEATURES),
    MetricMixtureRegressor(objective="target-differences", rule="k-nearest"),
    *(classifier("precomputed", rule=rule) for rule in ("nearest", "k-nearest", "logistic")),
    # All sources are computed anew for each item that is predicted.
    classifier(FEATURES, rule="nearest", new_items="augmented"),
]


def expected_to_fail(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, (MetricMixture, MetricMixtureRegressor)):
        return {}
    found = {"check_classifiers_classes": "trains on the labels -1 and 1; -1 means unlabelled here"}
    if estimator.metric == "precomputed":
        found["check_class_weight_classifiers"] = "passes similarities, whose diagonal is not 0"
    elif str(getattr(estimator, "rule", "")).lower().replace("-", "").startswith("knearest"):
        why = "a class without a vote has probability 0, whatever its weight"
        found["check_class_weight_classifiers"] = why
    return found


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_to_fail, xfail_strict=True)
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(SLOW, expected_failed_checks=expected_to_fail, xfail_strict=True)
def test_check_slow_ones(estimator: Any, check: Any) -> None:
    check(estimator)
