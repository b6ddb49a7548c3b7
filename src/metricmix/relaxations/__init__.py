"""Relaxations of clustering and cutting over metrics, with certified bounds.

:func:`~metricmix.relaxations.solve.solve` runs all of them; a new relaxation is one file like
``max_cut.py``.
"""

from metricmix.relaxations.correlation_clustering import (
    CorrelationClustering,
    correlation_clustering,
)
from metricmix.relaxations.max_cut import MaxCut, max_cut
from metricmix.relaxations.solve import Relaxation
from metricmix.relaxations.sparsest_cut import SparsestCut, sparsest_cut

__all__ = [
    "CorrelationClustering",
    "MaxCut",
    "Relaxation",
    "SparsestCut",
    "correlation_clustering",
    "max_cut",
    "sparsest_cut",
]
