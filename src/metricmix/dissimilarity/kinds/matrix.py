"""Precomputed matrices."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, SourceData
from metricmix.dissimilarity.nearest_items import NearestItems
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.exceptions import InputError
from metricmix.typing import Floats

__all__ = ["MatrixSource"]


@KINDS.register(
    "matrix",
    words="a precomputed matrix",
    example="heard=matrix:distances.npy",
    order=99,
    needs=("matrix",),
    options=("directed",),
    directed=True,
    report="matrix",
)
class MatrixSource(ItemSource):
    """A matrix that was given."""

    joins_nearest = True

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.values = data.values
        unknown = None if self.values is None else np.isnan(self.values).sum(axis=1)
        self.known = None if unknown is None else 1.0 - unknown / self.n
        self.n_unknown = 0 if unknown is None else int(unknown.sum())

    def known_entries(self, new: NewItemData | None) -> Floats | None:
        """Return the share of the entries that were given."""
        if new is None:
            return self.known
        rows = new.rows.get(self.spec.name)
        return None if rows is None else np.asarray(1.0 - np.isnan(rows).mean(axis=1))

    def matrix(self) -> Floats:
        """Return the matrix."""
        assert self.values is not None
        return self.values

    def by_pairs(self) -> Source:
        """Return the matrix, of which single values are read."""
        directed = bool(self.spec.directed)
        found = DenseSource(self.matrix(), name=self.spec.name, directed=directed)
        found.n_unknown = self.n_unknown
        return found

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the entries of each row."""
        values, k = self.matrix(), min(k, self.n - 1)
        items = np.empty((self.n, k), np.int32)
        for i, row in enumerate(values):
            others = np.array(row, dtype=np.float64)
            others[i] = np.inf
            items[i] = np.argsort(others, kind="stable")[:k]
        return NearestItems(items, np.take_along_axis(values, items, axis=1), "blocks", 1.0)

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the rows that were given for the new items."""
        if self.spec.name not in new.rows:
            raise InputError(
                argument=f"source {self.spec.name!r}",
                expected="the rows of the new items, found none",
                remedy=(
                    f"pass --matrix {shlex.quote(self.spec.name)}=FILE with a row per new item "
                    "and a column per item of the fit"
                ),
            )
        return new.rows[self.spec.name]
