"""Path lengths over nearest neighbours by columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_sources import ColumnSource, NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.path_length import knn_path_length
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["NeighbourPaths"]


@KINDS.register(
    "knn",
    words="paths over nearest neighbours",
    example="near=knn:p*:k=10",
    order=2,
    needs=("columns",),
    options=("k", "metric"),
    report="paths over nearest neighbours",
)
class NeighbourPaths(ColumnSource):
    """Path lengths over nearest neighbours, k each, by a distance of columns."""

    @cached_property
    def applied(self) -> Any:
        """The path lengths between the encoded columns."""
        recipe = knn_path_length(k=self.spec.k, metric=self.spec.metric)
        return recipe.apply(self.encoding.features)

    def matrix(self) -> DissimilarityMatrix:
        """Return the path lengths between all items."""
        lengths: DissimilarityMatrix = self.applied.matrix
        return lengths

    def by_pairs(self) -> None:
        """Return None: a value takes those of all items."""
        return

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the lengths of paths that begin at new items, each joined to its k nearest."""
        return np.asarray(self.applied.cross(self.new_rows(new)))
