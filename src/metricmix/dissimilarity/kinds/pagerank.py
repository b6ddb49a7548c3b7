"""Where random walks in a graph lead."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_rows import FeatureRows, FeatureSource
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.relation_sources import RelationSource
from metricmix.dissimilarity.smoothing import LARGE, pagerank_matrix
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["PageRankSource"]


@KINDS.register(
    "pagerank",
    words="where random walks in a graph lead",
    example="walks=pagerank:cites.csv",
    order=12,
    needs=("relation",),
    options=("restart", "in", "out", "both"),
    report="walks",
    report_of_groups="walks over shared groups",
)
class PageRankSource(RelationSource):
    r"""Angles between the square roots of personalised PageRank vectors.

    Edges that are followed in one direction make the walk :math:`P = D^{-1} (A + I)`.
    """

    @cached_property
    def walks(self) -> Floats:
        """Where walks from each item lead: its PageRank vector in each row, (n, n)."""
        restart = self.spec.restart
        if not self.links.one_way:
            return pagerank_matrix(self.links.operator, restart)
        from scipy.linalg import solve

        system = np.eye(self.n) - (1.0 - restart) * self.links.operator.toarray()
        return np.asarray(solve(system, restart * np.eye(self.n), overwrite_a=True))

    @cached_property
    def distances(self) -> FeatureRows:
        """The distances of the PageRank vectors, which take n² numbers."""
        return FeatureRows(self.roots(self.walks), "angular", {})

    def roots(self, table: Floats) -> Floats:
        """Return square roots, in single precision where n² numbers are many.

        Entries are negative by rounding only.
        """
        precision = np.float32 if self.n**2 > LARGE else np.float64
        found = np.maximum(table, 0.0, dtype=precision)
        return np.asarray(np.sqrt(found, out=found))

    def matrix(self) -> DissimilarityMatrix:
        """Return the distances of all items."""
        return self.distances.matrix()

    def by_rows(self) -> Source:
        """Return the same by rows."""
        return FeatureSource(self.distances, name=self.spec.name)

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the distances from new items, whose walks go on from their neighbours."""
        m = len(new.items.ids)
        known_walks = np.hstack([self.walks, np.zeros((self.n, m))])
        own = np.hstack([np.zeros((m, self.n)), np.eye(m)])
        reached = self.links.attached(new, self.spec.restart, own, known_walks)
        return FeatureRows(self.roots(known_walks), "angular", {}).cross(self.roots(reached))
