"""Logistic or ridge regressions on columns."""

from __future__ import annotations

from metricmix.dissimilarity.item_sources import SourceData, view_of
from metricmix.dissimilarity.learned_sources import ModelSource
from metricmix.dissimilarity.specs import KINDS, SourceSpec

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

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data, view_of(spec, data, "metric"))
