"""Logistic or ridge regressions on smoothed attributes or on memberships."""

from __future__ import annotations

from metricmix.dissimilarity.learned_sources import ModelSource
from metricmix.dissimilarity.specs import KINDS

__all__ = ["GraphModel"]


@KINDS.register(
    "learned_graph",
    words="a regression on attributes smoothed along a graph, or on groups",
    example="topic=learned_graph:cites.csv",
    order=15,
    needs=("relation", "columns"),
    needs_of_groups=("memberships",),
    options=("restart", "view"),
    model="linear",
    report="{regression} on attributes smoothed along the graph",
    report_of_view="{regression}",
    report_of_groups="{regression} on memberships",
)
class GraphModel(ModelSource):
    """Distances between what a regression on smoothed attributes or memberships predicts."""

    usual_view = "smoothed"
