"""The metric nearest to a dissimilarity, and the best metric for a graph, with certified bounds."""

from metricmix.nearness.any_objective import minimize_metric
from metricmix.nearness.culprits import Blame, Triangle, blame, how_many_explain, worst_triangles
from metricmix.nearness.nearest import nearest_metric
from metricmix.nearness.relaxations import (
    CorrelationClustering,
    Relaxation,
    RelaxationProgress,
    RelaxationTrace,
    correlation_clustering,
)
from metricmix.nearness.result import NearnessProgress, NearnessResult, NearnessTrace

__all__ = [
    "Blame",
    "CorrelationClustering",
    "NearnessProgress",
    "NearnessResult",
    "NearnessTrace",
    "Relaxation",
    "RelaxationProgress",
    "RelaxationTrace",
    "Triangle",
    "blame",
    "correlation_clustering",
    "how_many_explain",
    "minimize_metric",
    "nearest_metric",
    "worst_triangles",
]
