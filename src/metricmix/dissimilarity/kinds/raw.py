"""Numbers in their own units."""

from __future__ import annotations

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import NumberRows
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["RawNumbers"]


@KINDS.register(
    "raw",
    words="Euclidean distance of numbers in their own units, as of pixels",
    example="pixels=raw:p*",
    order=6,
    needs=("columns",),
    view=True,
    report="distance in their own units",
)
class RawNumbers(NumberRows):
    """Euclidean distance of numbers as they are, but for far values, centred, of mean square 1."""

    joins_nearest = False

    metric = "euclidean"

    @cached_property
    def scale(self) -> tuple[Floats, float]:
        """The means of the columns, and the root mean square length of the centred rows."""
        kept = self.near_values(self.items)
        middle = kept.mean(axis=0)
        largest = float(np.abs(kept - middle).max(initial=0.0)) or 1.0
        lengths = np.square((kept - middle) / largest).sum(axis=1)  # finite for large numbers, too
        return middle, largest * float(np.sqrt(lengths.mean())) or 1.0

    @cached_property
    def table(self) -> Floats:
        """The centred rows, (n, d)."""
        middle, size = self.scale
        return np.asarray((self.near_values(self.items) - middle) / size)

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the rows of new items on the scale of the fit."""
        middle, size = self.scale
        return np.asarray((self.near_values(new.items) - middle) / size)
