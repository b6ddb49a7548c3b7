"""Attributes as shares of their row, along a graph."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.graph_rows import GraphRows
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.items.encoding import counts_of
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["ShareRows"]


class ShareRows(GraphRows):
    """A view of attributes as shares of their row, of mean square 1 after they are smoothed.

    Counts are taken as they are, other attributes as they are encoded.
    """

    metric = "euclidean"
    joins_nearest = False

    def starting_rows(self, items: Items) -> Any:
        """Return the attributes of items, over the sum of their sizes."""
        from sklearn.preprocessing import normalize

        if all(column.kind == "count" for column in self.columns):
            return normalize(counts_of(items, self.columns), norm="l1")
        here = items is self.items
        rows = self.encoding.features if here else self.encoding.transform(items)
        return normalize(rows, norm="l1")

    @property
    def smoothed(self) -> Floats:
        """The shares of all items, smoothed, (n, d)."""
        raise NotImplementedError

    def new_smoothed(self, new: NewItemData) -> Floats:
        """Return the shares of new items, smoothed, (m, d)."""
        raise NotImplementedError

    @cached_property
    def size(self) -> float:
        """The root mean square length of the smoothed rows."""
        return float(np.sqrt(np.square(self.smoothed).sum(axis=1).mean())) or 1.0

    @cached_property
    def table(self) -> Floats:
        """The smoothed shares, of mean square 1."""
        return self.smoothed / self.size

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the smoothed shares of new items on the scale of the fit."""
        return self.new_smoothed(new) / self.size
