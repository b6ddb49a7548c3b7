"""Labels or targets spread over a graph."""

from __future__ import annotations

from metricmix.dissimilarity.learned_sources import SpreadOverGraph
from metricmix.dissimilarity.specs import KINDS

__all__ = ["SpreadSource"]


@KINDS.register(
    "spread",
    words="labels spread over a graph",
    example="near=spread:cites.csv",
    order=16,
    needs=("relation",),
    options=("restart",),
    model="spread",
    report="{labels} spread over the graph",
    report_of_groups="{labels} spread over shared groups",
)
class SpreadSource(SpreadOverGraph):
    """Labels or targets spread over a given graph."""
