r"""Minus the logarithm of personalised PageRank over a graph of items."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import FLOOR, RESTART, LogPageRank, pagerank_smoothed
from metricmix.dissimilarity.item_graphs import ItemGraph, solved
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, SourceData
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity, facts
from metricmix.dissimilarity.sources import ComputedSource, Source
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.typing import Floats

__all__ = ["LogWalks"]


class LogWalks(ItemSource):
    r""":math:`-\log(P + 10^{-6})`, P the personalised PageRank of a graph.

    A new item is not part of the graph of the fit, its walks go on from its neighbours: with its
    rows of B, :math:`P_{new} = (I - (1 - r) B_{new})^{-1} (1 - r) B_{old} P`.
    """

    def __init__(self, spec: SourceSpec, data: SourceData, graph: ItemGraph) -> None:
        super().__init__(spec, data)
        self.graph = graph

    def by_rows(self) -> Source:
        """Return the rows, a run of PageRank each."""
        rank, known = LogPageRank(self.graph.operator), facts("log_pagerank")
        return ComputedSource(self.n, rank, columns=rank, name=self.spec.name, facts=known)

    def matrix(self) -> DissimilarityMatrix:
        """Return the values of all items."""
        rows = LogPageRank(self.graph.operator)(np.arange(self.n))
        rows = np.minimum(rows, rows.T)  # equal but for rounding
        return as_dissimilarity(rows, self.spec.name, facts=facts("log_pagerank"))

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the values from new items, whose walks go on from their neighbours."""
        steps = self.graph.new_steps(new)
        # P is symmetric, so that B_old P takes a run of PageRank per new item.
        start = np.asarray(steps.across.T.toarray())
        onwards = pagerank_smoothed(self.graph.operator, start, RESTART, FLOOR / 1000).T
        share = solved(steps, RESTART, (1.0 - RESTART) * onwards)
        return np.asarray(np.maximum(-np.log(np.maximum(share, 0.0) + FLOOR), 0.0))
