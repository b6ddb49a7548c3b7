"""Regressions in the feature space of a Gaussian kernel."""

from __future__ import annotations

from metricmix.dissimilarity.learned_sources import ModelSource
from metricmix.dissimilarity.specs import KINDS

__all__ = ["KernelModel"]


@KINDS.register(
    "kernel",
    words="a regression with a Gaussian kernel on columns",
    example="curved=kernel:*",
    order=8,
    needs=("columns",),
    options=("view",),
    model="linear",
    report="{regression} with a Gaussian kernel",
)
class KernelModel(ModelSource):
    """What a logistic or ridge regression with a Gaussian kernel predicts of two items."""

    kernel = "rbf"
    usual_view = "columns"
