"""Estimators for scikit-learn: the metric as a transformer, classifiers, a regressor, rules."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import LabelledKFold, MetricMixtureClassifierCV
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.learning.candidates import Selection
from metricmix.learning.explanation import Explanation
from metricmix.learning.findings import MetricFinding
from metricmix.learning.network_fit import Network
from metricmix.learning.rules import (
    ClassMean,
    KernelRidge,
    KNearest,
    Logistic,
    Nearest,
    NearestMean,
    Spreading,
)
from metricmix.learning.verdict import Comparison, Method, PairedDifference

if TYPE_CHECKING:
    from metricmix.estimators.metric_repair import MetricRepair

__all__ = [
    "ClassMean",
    "Comparison",
    "Explanation",
    "KNearest",
    "KernelRidge",
    "LabelledKFold",
    "Logistic",
    "Method",
    "MetricFinding",
    "MetricMixture",
    "MetricMixtureClassifier",
    "MetricMixtureClassifierCV",
    "MetricMixtureRegressor",
    "MetricRepair",
    "Nearest",
    "NearestMean",
    "Network",
    "PairedDifference",
    "Selection",
    "Spreading",
]


def __getattr__(name: str) -> Any:
    if name == "MetricRepair":  # the only one that needs nearest metrics and relaxations
        from metricmix.estimators.metric_repair import MetricRepair

        return MetricRepair
    if name in ("load", "save"):  # they store estimators, and so come after them
        return getattr(import_module("metricmix.storage.models"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
