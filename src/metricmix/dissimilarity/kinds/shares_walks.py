"""Shares of attributes averaged over steps along a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.relation_sources import ShareRows
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["WalkedShares"]

WALKS, STAY = 16, 0.05
"""Steps that are averaged over, and the share of the item itself."""


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

    def stages(self) -> Iterator[Floats]:
        """Yield the shares before the first step, and after each."""
        yield (rows := self.start)
        for _ in range(WALKS):
            yield (rows := self.step(rows))

    @cached_property
    def smoothed(self) -> Floats:
        """The average over the steps."""
        return self.walk(self.start, [STAY, *[(1 - STAY) / WALKS] * WALKS])

    def new_smoothed(self, new: NewItemData) -> Floats:
        """Return the same of new items."""
        own = self.new_start(new)
        return averaged(own, self.links.walked(new, own, islice(self.stages(), WALKS)))


def averaged(start: Floats, steps: Iterable[Floats]) -> Floats:
    """Return the average over the steps, the start counting 0.05."""
    total = np.zeros_like(start)
    for rows in steps:
        total += rows
    return np.asarray(STAY * start + (1 - STAY) / WALKS * total)
