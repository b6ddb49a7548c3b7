"""Attributes averaged over two steps along a graph."""

from __future__ import annotations

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import unit_rows
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.relation_sources import GraphRows
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["DiffusedAttributes"]


@KINDS.register(
    "diffusion",
    words="attributes, averaged over two steps along a graph",
    example="around=diffusion:cites.csv",
    order=21,
    needs=("relation", "columns"),
    view=True,
    report="attributes of two steps along the graph",
    report_of_groups="attributes of two steps over shared groups",
)
class DiffusedAttributes(GraphRows):
    r"""Angles between the rows of :math:`B^2 F`."""

    joins_nearest = False

    @cached_property
    def once(self) -> Floats:
        """The attributes after one step, (n, d), which new items need."""
        return self.step(self.start)

    @cached_property
    def table(self) -> Floats:
        """The attributes after two steps, rows at length 1."""
        return unit_rows(self.walk(self.start, (0.0, 0.0, 1.0)))

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the attributes of new items after two steps."""
        stages = [self.start, self.once]
        return unit_rows(self.links.walked(new, self.new_start(new), stages)[-1])
