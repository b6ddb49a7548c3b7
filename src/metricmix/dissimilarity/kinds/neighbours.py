"""Attributes beside the mean of the neighbours'."""

from __future__ import annotations

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import unit_rows
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.relation_sources import GraphRows
from metricmix.dissimilarity.smoothing import walked
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["OwnAndNeighbours"]


@KINDS.register(
    "neighbours",
    words="attributes beside the mean of the neighbours'",
    example="both=neighbours:cites.csv",
    order=24,
    needs=("relation", "columns"),
    view=True,
    report="own attributes beside those of neighbours",
    report_of_groups="own attributes beside those of items with shared groups",
)
class OwnAndNeighbours(GraphRows):
    """Angles between own attributes beside the mean of the neighbours', each at length 1.

    Where links join unlike items, smoothing mixes the two; here a model can tell them apart.
    """

    @cached_property
    def table(self) -> Floats:
        """The rows of all items, (n, 2 d)."""
        around = walked(self.links.strengths, self.start, (0.0, 1.0))
        return np.hstack([self.start, unit_rows(around)])

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the rows of new items, (m, 2 d)."""
        own = self.new_start(new)
        around = self.links.new_strengths(new) @ np.vstack([self.start, own])
        return np.hstack([own, unit_rows(around)])
