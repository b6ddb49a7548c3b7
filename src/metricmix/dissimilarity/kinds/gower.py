"""Gower's distance of columns of different kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, SourceData
from metricmix.dissimilarity.matrix import SourceFacts, as_dissimilarity
from metricmix.dissimilarity.sources import ComputedSource, Source
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.columns import numbers_of
from metricmix.items.items import Items
from metricmix.typing import Floats, Indices

__all__ = ["GowerSource"]

FACTS = SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n d)")


@KINDS.register(
    "gower",
    words="Gower's distance of columns of different kinds",
    example="all=gower:*",
    order=3,
    needs=("columns",),
    report="Gower distance",
)
class GowerSource(ItemSource):
    r"""Gower's distance: the mean, over d columns, of how far two items differ.

    .. math:: M[i, j] = \tfrac{1}{d} \sum_c \delta_c(i, j)

    Categories differ by 0 or 1, numbers and dates by their distance over the range of the column,
    between its 1 % and 99 % quantiles, at most 1. A missing cell is 1/2 from every known one and 0
    from a missing one. So every column, and their mean, is a pseudo-metric in [0, 1].
    """

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns = spec.select_columns(data.columns)
        self.is_category = np.array([column.kind == "category" for column in self.columns])

    @cached_property
    def cells(self) -> Floats:
        """All cells, (n, d): numbers over their range, codes of categories, NaN where missing."""
        return self._scaled(self.items)

    @cached_property
    def _ranges(self) -> tuple[Floats, list[dict[str, int]]]:
        spreads = np.ones(len(self.columns))
        codes: list[dict[str, int]] = []
        for c, column in enumerate(self.columns):
            codes.append({})
            if column.kind == "category":
                values = sorted(set(self.items.texts(column.name)) - {""})
                codes[c] = {value: k for k, value in enumerate(values)}
                continue
            known = numbers_of(self.items, column)
            known = known[~np.isnan(known)]
            low, high = np.quantile(known, [0.01, 0.99])
            spreads[c] = high - low or np.ptp(known) or 1.0
        return spreads, codes

    def _scaled(self, items: Items) -> Floats:
        spreads, codes = self._ranges
        cells = np.empty((len(items.ids), len(self.columns)))
        for c, column in enumerate(self.columns):
            if self.is_category[c]:
                unseen = len(codes[c])  # differs from all
                texts = items.texts(column.name)
                cells[:, c] = [codes[c].get(text, unseen) if text else np.nan for text in texts]
            else:
                cells[:, c] = numbers_of(items, column) / spreads[c]
        return cells

    def _between(self, left: Floats, right: Floats) -> Floats:
        """Return the distances of rows of cells that broadcast against each other."""
        total = np.zeros(np.broadcast_shapes(left.shape[:-1], right.shape[:-1]))
        for c in range(left.shape[-1]):
            apart = np.abs(left[..., c] - right[..., c])
            apart = np.minimum(np.ceil(apart) if self.is_category[c] else apart, 1.0)
            neither = np.isnan(left[..., c]) & np.isnan(right[..., c])
            total += np.where(np.isnan(apart), np.where(neither, 0.0, 0.5), apart)
        return np.asarray(total / left.shape[-1])

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        values = self._between(self.cells[indices][:, None], self.cells[None])
        values[np.arange(len(indices)), indices] = 0.0
        return values

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        blocks = [self.rows(np.arange(k, min(self.n, k + 256))) for k in range(0, self.n, 256)]
        return as_dissimilarity(np.concatenate(blocks), self.spec.name, facts=FACTS)

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""

        def pairs(i: Indices, j: Indices) -> Floats:
            return np.where(i == j, 0.0, self._between(self.cells[i], self.cells[j]))

        rows = self.rows
        return ComputedSource(
            self.n, rows, columns=rows, pairs=pairs, name=self.spec.name, facts=FACTS
        )

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the distances from the cells of new items, over the ranges of the fit."""
        return self._between(self._scaled(new.items)[:, None], self.cells[None])
