"""Relaxations of clustering and cutting over metrics, with certified bounds."""

from metricmix.relaxations.correlation_clustering import (
    CorrelationClustering,
    correlation_clustering,
)
from metricmix.relaxations.max_cut import MaxCut, max_cut
from metricmix.relaxations.result import (
    Relaxation,
    RelaxationProgress,
    RelaxationTrace,
)
from metricmix.relaxations.sparsest_cut import SparsestCut, sparsest_cut

__all__ = [
    "CorrelationClustering",
    "MaxCut",
    "Relaxation",
    "RelaxationProgress",
    "RelaxationTrace",
    "SparsestCut",
    "correlation_clustering",
    "max_cut",
    "sparsest_cut",
]
