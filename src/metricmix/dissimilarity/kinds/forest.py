"""Random forests on columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from metricmix.dissimilarity.forests import Forest
from metricmix.dissimilarity.learned_sources import ModelSource, dense
from metricmix.dissimilarity.predictors import Predictor
from metricmix.dissimilarity.specs import KINDS

__all__ = ["ColumnForest"]


@KINDS.register(
    "forest",
    words="a random forest on columns, which finds interactions",
    example="trees=forest:*",
    order=5,
    needs=("columns",),
    options=("view",),
    model="forest",
    report="random forest",
)
class ColumnForest(ModelSource):
    """Distances between what a random forest on the encoded columns predicts."""

    @cached_property
    def rows(self) -> Any:
        """The rows of all items, dense: (n, d)."""
        return dense(self.base.table)

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The forest, and how labelled items are judged without their label."""
        return Forest(self.rows)
