"""Relaxations of clustering and cutting over metrics, with certified bounds."""

from metricmix.nearness.relaxations.correlation_clustering import (
    CorrelationClustering,
    correlation_clustering,
)
from metricmix.nearness.relaxations.result import (
    Relaxation,
    RelaxationProgress,
    RelaxationTrace,
)

__all__ = [
    "CorrelationClustering",
    "Relaxation",
    "RelaxationProgress",
    "RelaxationTrace",
    "correlation_clustering",
]
