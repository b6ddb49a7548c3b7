"""Logistic or ridge regressions on smoothed attributes or on memberships."""

from __future__ import annotations

from metricmix.dissimilarity.item_sources import SourceData, view_of
from metricmix.dissimilarity.learned_sources import ModelSource
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.relation import Memberships

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

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        of_groups = isinstance(data.edges, Memberships)
        usual = "membership" if of_groups else "smoothed"
        super().__init__(spec, data, view_of(spec, data, usual))
