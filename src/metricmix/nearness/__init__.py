"""The metric nearest to a dissimilarity, with a certificate of how near any metric can be."""

from metricmix.nearness.any_objective import minimize_metric
from metricmix.nearness.culprits import Blame, blame
from metricmix.nearness.nearest import nearest_metric
from metricmix.nearness.result import NearnessProgress, NearnessResult, NearnessTrace

__all__ = [
    "Blame",
    "NearnessProgress",
    "NearnessResult",
    "NearnessTrace",
    "blame",
    "minimize_metric",
    "nearest_metric",
]
