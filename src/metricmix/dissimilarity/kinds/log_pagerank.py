"""How well walks in a graph lead from one item to the other."""

from __future__ import annotations

from metricmix.dissimilarity.relation_sources import LogWalks
from metricmix.dissimilarity.specs import KINDS

__all__ = ["LinkWalks"]


@KINDS.register(
    "log_pagerank",
    words="how well walks in a graph lead from one item to the other",
    example="reach=log_pagerank:cites.csv",
    order=20,
    needs=("relation",),
    report="walks between items",
    report_of_groups="walks between items over shared groups",
)
class LinkWalks(LogWalks):
    """Minus the logarithm of personalised PageRank in a given graph."""
