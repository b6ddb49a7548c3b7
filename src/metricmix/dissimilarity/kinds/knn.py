"""Path lengths over nearest neighbours by columns."""

from __future__ import annotations

from typing import Any

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import ColumnSource
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.neighbour_paths import NeighbourPaths, knn_path_length
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["ColumnPaths"]


@KINDS.register(
    "knn",
    words="paths over nearest neighbours",
    example="near=knn:p*:k=10",
    order=2,
    needs=("columns",),
    options=("k", "metric"),
    report="paths over nearest neighbours",
)
class ColumnPaths(ColumnSource):
    """Path lengths over nearest neighbours, k each, by a distance of columns."""

    @cached_property
    def paths(self) -> NeighbourPaths:
        """The path lengths between the encoded columns."""
        spec = knn_path_length(k=self.spec.k, metric=self.spec.metric)
        return NeighbourPaths(spec, self.table)

    def matrix(self) -> DissimilarityMatrix:
        """Return the path lengths between all items."""
        return self.paths.lengths

    def by_pairs(self) -> None:
        """Return None: a value takes those of all items."""
        return

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the lengths of paths that begin at new items, each joined to its k nearest."""
        return self.paths.cross(self.new_rows(new))
