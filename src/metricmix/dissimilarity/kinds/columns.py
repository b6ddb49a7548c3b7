"""All columns on one scale."""

from __future__ import annotations

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import scaled_numbers, topics_of
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.columns import numbers_of
from metricmix.items.encoding import Encoding
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["JointColumns"]


@KINDS.register(
    "columns",
    words="Euclidean distance of all columns on one scale",
    example="whole=columns:*",
    order=6,
    needs=("columns",),
    view=True,
    report="distance on one scale",
)
class JointColumns(TableSource):
    """Euclidean distance of all columns beside each other, of mean square 1.

    Numbers are less their median, over their spread, cut off at 3; where some are missing, a 0/1
    column says so. Categories are 0/1 columns. Topics of texts and counts count as much as all
    other columns together.
    """

    metric = "euclidean"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns = spec.select_columns(data.columns)
        kinds = ("number", "plain", "date")
        self.numbers = tuple(column for column in self.columns if column.kind in kinds)
        self.categories = tuple(column for column in self.columns if column.kind == "category")
        words = tuple(column for column in self.columns if column.kind in ("text", "count"))
        self.topics = topics_of(data, words) if words else None
        self.data = data

    @cached_property
    def codes(self) -> Encoding | None:
        """The categories as 0/1 columns, computed when they are first needed."""
        return self.data.encoding(self.categories) if self.categories else None

    @cached_property
    def gaps(self) -> tuple[int, ...]:
        """Columns of numbers that miss values, one for each set of items."""
        missing = self.missing(self.items)
        _, first = np.unique(missing, axis=1, return_index=True)
        return tuple(int(k) for k in first if missing[:, k].any())

    def missing(self, items: Items) -> Floats:
        """Return 1 where numbers are missing, (n, d)."""
        known = [np.isnan(numbers_of(items, column)) for column in self.numbers]
        return np.column_stack([np.empty((len(items.ids), 0)), *known])

    def beside(self, items: Items) -> Floats:
        """Return all columns of items beside each other, (n, d)."""
        parts = [scaled_numbers(items, self.numbers)]
        if self.numbers:
            parts.append(self.missing(items)[:, list(self.gaps)])
        if self.codes is not None:
            here = items is self.items
            codes = self.codes.features if here else self.codes.transform(items)
            parts.append(codes if isinstance(codes, np.ndarray) else codes.toarray())
        if self.topics is not None:
            n_columns = len(self.numbers) + len(self.categories)
            parts.append(np.sqrt(max(1, n_columns)) * self.topics.of(items))
        return np.hstack(parts)

    @cached_property
    def size(self) -> float:
        """The root mean square length of the rows."""
        return float(np.sqrt(np.square(self.beside(self.items)).sum(axis=1).mean())) or 1.0

    @cached_property
    def table(self) -> Floats:
        """The rows of all items, (n, d)."""
        return self.beside(self.items) / self.size

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the rows of new items on the scale of the fit."""
        return self.beside(new.items) / self.size
