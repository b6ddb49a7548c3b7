"""The metric nearest to a dissimilarity, and the best metric for a graph, with certified bounds."""

from metricmix.nearness.minimize_metric import minimize_metric
from metricmix.nearness.nearest_metric import nearest_metric
from metricmix.nearness.result import NearnessProgress, NearnessResult, NearnessTrace
from metricmix.nearness.violations import Blame, Triangle, blame, how_many_explain, worst_triangles
from metricmix.relaxations import (
    CorrelationClustering,
    MaxCut,
    Relaxation,
    SparsestCut,
    correlation_clustering,
    max_cut,
    sparsest_cut,
)

__all__ = [
    "Blame",
    "CorrelationClustering",
    "MaxCut",
    "NearnessProgress",
    "NearnessResult",
    "NearnessTrace",
    "Relaxation",
    "SparsestCut",
    "Triangle",
    "blame",
    "correlation_clustering",
    "how_many_explain",
    "max_cut",
    "minimize_metric",
    "nearest_metric",
    "sparsest_cut",
    "worst_triangles",
]
