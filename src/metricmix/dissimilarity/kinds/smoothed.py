"""Attributes smoothed along a graph."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import pagerank_smoothed, smoothing_operator
from metricmix.dissimilarity.graph_sources import DIRECTIONS, WIDE_FROM
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.relation_sources import RelationSource
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.columns import Encoding, encode
from metricmix.kernels.threads import blas_threads
from metricmix.typing import Floats

__all__ = ["SmoothedSource"]


@KINDS.register(
    "smoothed",
    words="attributes, averaged along a graph",
    example="said=smoothed:cites.csv",
    order=11,
    needs=("relation", "columns"),
    options=("restart",),
    view=True,
    report="attributes smoothed along the graph",
    report_of_groups="attributes smoothed over shared groups",
    seconds_per_pair=5e-7,
)
class SmoothedSource(RelationSource, TableSource):
    """Angles between attributes, averaged over random walks in the graph."""

    metric = "angular"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns = spec.select_columns(data.columns)

    @cached_property
    def encoding(self) -> Encoding:
        """All attributes as features."""
        return encode(self.items, self.columns)

    @cached_property
    def directions(self) -> Any:
        """The 256 leading directions of attributes too wide to be smoothed, (d, 256); else None."""
        features = self.encoding.features
        if features.shape[1] <= DIRECTIONS or float(np.prod(features.shape)) <= WIDE_FROM:
            return None
        from sklearn.decomposition import TruncatedSVD

        with blas_threads(1):
            svd = TruncatedSVD(DIRECTIONS, n_iter=2, random_state=0).fit(_unit_rows(features))
        return svd.components_.T

    def _narrow(self, features: Any) -> Any:
        """Return features with each row at norm 1, in the leading directions if there are some."""
        rows = _unit_rows(features)
        return rows if self.directions is None else np.asarray(rows @ self.directions)

    @cached_property
    def smoothed(self) -> Floats:
        """The attributes, each row of norm 1, smoothed along the graph: (n, d)."""
        operator = smoothing_operator(self.links.graph)
        return pagerank_smoothed(operator, self._narrow(self.encoding.features), self.spec.restart)

    @property
    def table(self) -> Any:
        """The smoothed attributes."""
        return self.smoothed

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the attributes of new items, smoothed along their edges, (m, d)."""
        own = self._narrow(self.encoding.transform(new.items))
        own = own if isinstance(own, np.ndarray) else own.toarray()
        return self.links.attached(new, self.spec.restart, own, self.smoothed)


def _unit_rows(table: Any) -> Any:
    """Return the rows scaled to norm 1; zero rows stay zero."""
    from sklearn.preprocessing import normalize

    return normalize(table)
