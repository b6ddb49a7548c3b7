"""Shares of attributes smoothed by PageRank."""

from __future__ import annotations

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.relation_sources import ShareRows
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["SmoothedShares"]


@KINDS.register(
    "shares",
    words="shares of attributes, averaged along a graph",
    example="mix=shares:cites.csv",
    order=23,
    needs=("relation", "columns"),
    options=("restart",),
    view=True,
    report="shares of attributes smoothed along the graph",
    report_of_groups="shares of attributes smoothed over shared groups",
)
class SmoothedShares(ShareRows):
    """Euclidean distance of smoothed shares: unlike an angle, it sees how far they are spread."""

    @cached_property
    def smoothed(self) -> Floats:
        """The shares, smoothed by PageRank."""
        return self.smooth()

    def new_smoothed(self, new: NewItemData) -> Floats:
        """Return the shares of new items, smoothed along their edges."""
        return self.links.attached(new, self.spec.restart, self.new_start(new), self.smoothed)
