"""Views of attributes along a graph."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.graph_sources import DIRECTIONS, WIDE_FROM
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.relation_sources import RelationSource
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.items.columns import Encoding, encode
from metricmix.items.items import Items
from metricmix.kernels.threads import blas_threads
from metricmix.typing import Floats

__all__ = ["GraphRows"]


class GraphRows(RelationSource, TableSource):
    """A view of attributes along a graph, which starts from their rows at length 1.

    Wide attributes are taken by their 256 leading singular vectors.
    """

    metric = "angular"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns = spec.select_columns(data.columns)

    @cached_property
    def encoding(self) -> Encoding:
        """All attributes as features."""
        return encode(self.items, self.columns)

    def starting_rows(self, items: Items) -> Any:
        """Return the rows of items before they are smoothed, (n, d), dense or CSR."""
        from sklearn.preprocessing import normalize

        here = items is self.items
        return normalize(self.encoding.features if here else self.encoding.transform(items))

    @cached_property
    def directions(self) -> Any:
        """The 256 leading directions of attributes too wide to be smoothed, (d, 256); else None."""
        rows = self.starting_rows(self.items)
        if rows.shape[1] <= DIRECTIONS or float(np.prod(rows.shape)) <= WIDE_FROM:
            return None
        from sklearn.decomposition import TruncatedSVD

        with blas_threads(1):
            svd = TruncatedSVD(DIRECTIONS, n_iter=2, random_state=0).fit(rows)
        return svd.components_.T

    def start_of(self, items: Items) -> Floats:
        """Return the rows of items before they are smoothed, dense, in the leading directions."""
        rows = self.starting_rows(items)
        if self.directions is not None:
            return np.asarray(rows @ self.directions)
        return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())

    @cached_property
    def start(self) -> Floats:
        """The rows of all items before they are smoothed, (n, d)."""
        return self.start_of(self.items)

    def new_start(self, new: NewItemData) -> Floats:
        """Return the rows of new items before they are smoothed, (m, d)."""
        return self.start_of(new.items)
