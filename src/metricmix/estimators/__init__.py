"""Estimators for scikit-learn: the metric as a transformer, classifiers, a regressor, rules."""

from metricmix.estimators.attribution import Contributions, contributions
from metricmix.estimators.bootstrap import weights_table
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.comparison import Comparison, Method, PairedDifference, compare
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.explanation import Explanation, explain
from metricmix.estimators.files.models import load, save
from metricmix.estimators.findings import MetricFinding, diagnose
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.network import Network
from metricmix.estimators.regression_comparison import TargetComparison, TargetMethod
from metricmix.estimators.regression_explanation import TargetExplanation
from metricmix.estimators.regression_rules import KernelRidge, NearestMean
from metricmix.estimators.regression_selection import TargetSelection
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.rules import ClassMean, KNearest, Logistic, Nearest, Spreading
from metricmix.estimators.selection import LabelledKFold, Selection

__all__ = [
    "ClassMean",
    "Comparison",
    "Contributions",
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
    "TargetComparison",
    "TargetExplanation",
    "TargetMethod",
    "TargetSelection",
    "compare",
    "contributions",
    "diagnose",
    "explain",
    "load",
    "save",
    "weights_table",
]
