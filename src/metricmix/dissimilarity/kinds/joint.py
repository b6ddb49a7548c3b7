"""Attributes smoothed along a graph of links and near items."""

from __future__ import annotations

from dataclasses import replace

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import unit_rows
from metricmix.dissimilarity.item_graphs import JointGraph, near_graph
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, view_of
from metricmix.dissimilarity.relation_sources import GraphRows
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.typing import Floats

__all__ = ["JointlySmoothed"]

NEAR_RESTART = 0.2
"""Of smoothed attributes by which near items are found."""


@KINDS.register(
    "joint",
    words="attributes, averaged along links and near items",
    example="beside=joint:cites.csv:k=5",
    order=22,
    needs=("relation", "columns"),
    options=("k", "restart", "view"),
    view=True,
    report="attributes smoothed along the graph and near items",
    report_of_groups="attributes smoothed over shared groups and near items",
)
class JointlySmoothed(GraphRows):
    """Angles between attributes, averaged over walks along links and the k nearest items.

    Near are items of similar attributes, or of similar rows of a view. Links are ten times as
    strong.
    """

    joins_nearest = False

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        near = replace(spec, metric="angular", restart=NEAR_RESTART)
        self.graph = JointGraph(self.links, near_graph(data, view_of(near, data, "metric"), spec.k))

    @cached_property
    def smoothed(self) -> Floats:
        """The attributes, smoothed, (n, d)."""
        return self.smooth(self.graph)

    @cached_property
    def table(self) -> Floats:
        """The smoothed attributes, rows at length 1."""
        return unit_rows(self.smoothed)

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the attributes of new items, smoothed along their links and near items."""
        own = self.new_start(new)
        return unit_rows(self.graph.attached(new, self.spec.restart, own, self.smoothed))
