"""Labels or targets spread over near items."""

from __future__ import annotations

from metricmix.dissimilarity.learned_sources import SpreadOverGraph
from metricmix.dissimilarity.specs import KINDS

__all__ = ["SpreadNear"]


@KINDS.register(
    "spread_near",
    words="labels spread over nearest items by columns",
    example="around=spread_near:*:k=10",
    order=8,
    needs=("columns",),
    options=("k", "restart", "view"),
    model="spread",
    report="{labels} spread over nearest items",
)
class SpreadNear(SpreadOverGraph):
    """Labels or targets spread over the graph of near items."""
