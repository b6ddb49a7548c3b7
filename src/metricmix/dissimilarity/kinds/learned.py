"""Logistic or ridge regressions on columns."""

from __future__ import annotations

from metricmix.dissimilarity.learned_sources import ModelSource
from metricmix.dissimilarity.specs import KINDS

__all__ = ["ColumnModel"]


@KINDS.register(
    "learned",
    words="a logistic or ridge regression on columns",
    example="said=learned:title,year",
    order=4,
    needs=("columns",),
    options=("view",),
    model="linear",
    report="{regression}",
)
class ColumnModel(ModelSource):
    """Distances between what a regression on the encoded columns, or on a view, predicts."""
