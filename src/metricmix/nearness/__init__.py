"""The metric nearest to a dissimilarity, and the best metric for a graph, with certified bounds."""

from metricmix.nearness.minimize_metric import minimize_metric
from metricmix.nearness.nearest_metric import NearnessResult, nearest_metric
from metricmix.nearness.norms.linf import refine_linf
from metricmix.nearness.unknown import FilledMetric, fill_unknown
from metricmix.nearness.violations import (
    Triangle,
    ViolationCount,
    items_explaining_violations,
    violation_counts,
    worst_triangles,
)
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
    "CorrelationClustering",
    "FilledMetric",
    "MaxCut",
    "NearnessResult",
    "Relaxation",
    "SparsestCut",
    "Triangle",
    "ViolationCount",
    "correlation_clustering",
    "fill_unknown",
    "items_explaining_violations",
    "max_cut",
    "minimize_metric",
    "nearest_metric",
    "refine_linf",
    "sparsest_cut",
    "violation_counts",
    "worst_triangles",
]
