"""Estimators for scikit-learn: the metric as a transformer, classifiers, prediction rules."""

from metricmix.estimators.attribution import Contributions, contributions
from metricmix.estimators.bootstrap import weights_table
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.compared import Comparison, Method
from metricmix.estimators.comparison import compare
from metricmix.estimators.explanation import Explanation, explain
from metricmix.estimators.labelled_kfold import LabelledKFold
from metricmix.estimators.mixture import MetricMixture
from metricmix.estimators.persistence import load, save
from metricmix.estimators.repair import MetricRepair
from metricmix.estimators.selection import MetricMixtureClassifierCV

__all__ = [
    "Comparison",
    "Contributions",
    "Explanation",
    "LabelledKFold",
    "Method",
    "MetricMixture",
    "MetricMixtureClassifier",
    "MetricMixtureClassifierCV",
    "MetricRepair",
    "compare",
    "contributions",
    "explain",
    "load",
    "save",
    "weights_table",
]
