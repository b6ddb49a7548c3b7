"""Distances of columns."""

from __future__ import annotations

from metricmix.dissimilarity.column_sources import ColumnSource
from metricmix.dissimilarity.specs import KINDS

__all__ = ["ColumnDistance"]


@KINDS.register(
    "metric",
    words="distance of columns, such as euclidean, cosine or cityblock",
    example="size=euclidean:height,weight",
    order=1,
    needs=("columns",),
    report="distance",
)
class ColumnDistance(ColumnSource):
    """Distances of columns, by a metric of this name."""
