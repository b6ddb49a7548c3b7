"""Shares of attributes averaged over steps along a graph."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from metricmix.dissimilarity.graph_sources import STAY, WALKS
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.share_rows import ShareRows
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["WalkedShares"]


@KINDS.register(
    "shares_walks",
    words="shares of attributes, averaged over 16 steps along a graph",
    example="walked=shares_walks:cites.csv",
    order=23,
    needs=("relation", "columns"),
    view=True,
    report="shares of attributes of 16 steps along the graph",
    report_of_groups="shares of attributes of 16 steps over shared groups",
)
class WalkedShares(ShareRows):
    r"""Euclidean distance of :math:`0.05\,S + \frac{0.95}{16} \sum_{t \le 16} B^t S`."""

    def stages(self) -> list[Floats]:
        """Return the shares before each step, and after the last."""
        found = [self.start]
        for _ in range(WALKS):
            found.append(np.asarray(self.links.operator @ found[-1]))
        return found

    @cached_property
    def smoothed(self) -> Floats:
        """The average over the steps."""
        first, *steps = self.stages()
        return np.asarray(STAY * first + (1 - STAY) / WALKS * np.sum(steps, axis=0))

    def new_smoothed(self, new: NewItemData) -> Floats:
        """Return the same of new items."""
        own = self.new_start(new)
        steps = self.links.walked(new, own, self.stages()[:-1])
        return np.asarray(STAY * own + (1 - STAY) / WALKS * np.sum(steps, axis=0))
