"""Views of columns of numbers in their own units, without far values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from metricmix.dissimilarity.item_sources import SourceData, TableSource
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.table_sources import far_limits
from metricmix.exceptions import InputError
from metricmix.items.columns import CUT, NUMERIC, Column, numbers_of
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["NumberRows", "filled_numbers", "scaled_numbers"]


class NumberRows(TableSource):
    """A view of the columns of numbers, dates and counts among those that are selected."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data.items)
        selected = spec.select_columns(data.columns)
        self.columns = tuple(column for column in selected if column.kind in NUMERIC)
        if not self.columns:
            raise InputError(
                argument=f"source {spec.name!r}", expected="columns of numbers, found none"
            )

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Between which values of each column lie, but for far ones."""
        return far_limits(filled_numbers(self.items, self.columns))

    def near_values(self, items: Items) -> Floats:
        """Return the numbers of items, far ones clipped as in the fit, (n, d)."""
        return np.asarray(np.clip(filled_numbers(items, self.columns), *self.limits))


def filled_numbers(items: Items, columns: Sequence[Column]) -> Floats:
    """Return columns of numbers; a missing number is the median of the fit, a missing count 0."""
    table = np.empty((len(items.ids), len(columns)))
    for k, column in enumerate(columns):
        values = numbers_of(items, column)
        table[:, k] = np.where(np.isnan(values), column.centre, values)
    return table


def scaled_numbers(items: Items, columns: Sequence[Column]) -> Floats:
    """Return columns less their median, over their spread, cut off at 3; plain ones as they are."""
    values = filled_numbers(items, columns)
    for k, column in enumerate(columns):
        if column.kind != "plain":
            away = (values[:, k] - column.centre) / (column.reach / CUT or 1.0)
            values[:, k] = np.clip(away, -CUT, CUT)
    return values
