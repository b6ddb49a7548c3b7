"""Attributes smoothed along a graph."""

from __future__ import annotations

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.relation_sources import GraphRows
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["SmoothedSource"]


@KINDS.register(
    "smoothed",
    words="attributes, averaged along a graph",
    example="said=smoothed:cites.csv",
    order=11,
    needs=("relation", "columns"),
    options=("restart",),
    view=True,
    report="attributes smoothed along the graph",
    report_of_groups="attributes smoothed over shared groups",
)
class SmoothedSource(GraphRows):
    """Angles between attributes, averaged over random walks in the graph."""

    @cached_property
    def table(self) -> Floats:
        """The attributes, each row of norm 1, smoothed along the graph: (n, d)."""
        return self.smooth()

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the attributes of new items, smoothed along their edges, (m, d)."""
        return self.links.attached(new, self.spec.restart, self.new_start(new), self.table)
