"""Labels or targets spread over a graph."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from metricmix.dissimilarity.diffusion import pagerank_smoothed, smoothing_operator
from metricmix.dissimilarity.item_sources import NewItemData, SourceData
from metricmix.dissimilarity.learned_sources import PredictionSource
from metricmix.dissimilarity.propagation import LabelPropagation, Spread
from metricmix.dissimilarity.relation_sources import Links
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.typing import Floats

__all__ = ["SpreadSource"]


@KINDS.register(
    "spread",
    words="labels spread over a graph",
    example="near=spread:cites.csv",
    order=16,
    needs=("relation",),
    options=("restart",),
    model="spread",
    report="{labels} spread over the graph",
    report_of_groups="{labels} spread over shared groups",
    seconds_per_pair=1e-7,
)
class SpreadSource(PredictionSource):
    """Labels or targets spread over a graph by PageRank."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data.items)
        self._links = Links(spec, data)

    @property
    def links(self) -> Links:
        """The graph."""
        return self._links

    @cached_property
    def predictor(self) -> LabelPropagation:  # type: ignore[override]
        """PageRank of the labels of each class, or of the targets."""
        return LabelPropagation(smoothing_operator(self.links.graph), self.spec.restart)

    def reached(self, new: NewItemData, start: Floats) -> Floats:
        """Return what of `start` (n, d) walks from new items reach, (m, d)."""
        operator = smoothing_operator(self.links.graph)
        spread = pagerank_smoothed(operator, start, self.spec.restart, 1e-6)
        nothing = np.zeros((len(new.items.ids), start.shape[1]))
        return self.links.attached(new, self.spec.restart, nothing, spread)

    def new_values(self, new: NewItemData) -> Floats:
        """Return what is made of the labels or targets that walks from new items reach."""
        nothing = np.zeros((len(new.items.ids), 0))
        if self.supervised.is_constant:
            return self.supervised.predicted(nothing)
        model = self.supervised.model
        assert isinstance(model, Spread)
        return model.predict(self.reached(new, model.start))
