"""Angles between rows of numbers."""

from __future__ import annotations

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import NumberRows, scaled_numbers, unit_rows
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.specs import KINDS
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["NumberDirections"]


@KINDS.register(
    "direction",
    words="angle between rows of numbers, as of spectra or pixels",
    example="shape=direction:p*",
    order=6,
    needs=("columns",),
    view=True,
    report="angle between rows",
)
class NumberDirections(NumberRows):
    """Angles between rows of numbers in their own units; scaled ones if some are negative."""

    metric = "angular"

    @cached_property
    def is_signed(self) -> bool:
        """Whether numbers of the fit are negative."""
        return bool(self.near_values(self.items).min() < 0)

    def directions(self, items: Items) -> Floats:
        """Return the rows at length 1."""
        scaled = self.is_signed
        return unit_rows(scaled_numbers(items, self.columns) if scaled else self.near_values(items))

    @cached_property
    def table(self) -> Floats:
        """The rows of all items at length 1, (n, d)."""
        return self.directions(self.items)

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the rows of new items at length 1."""
        return self.directions(new.items)
