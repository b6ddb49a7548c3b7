"""Shared neighbours or groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.neighbour_overlap import SharedNeighbours
from metricmix.dissimilarity.relation_sources import RelationSource
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats

__all__ = ["JaccardSource"]


@KINDS.register(
    "jaccard",
    words="neighbours or groups that items share",
    example="shared=jaccard:cites.csv",
    order=13,
    needs=("relation",),
    options=("in", "out", "both"),
    report="shared neighbours",
    report_of_groups="shared groups",
)
class JaccardSource(RelationSource):
    """Jaccard distances of neighbourhoods, or of the things that items belong to."""

    @cached_property
    def shared(self) -> SharedNeighbours:
        """The distances, by the rows of neighbours or things."""
        if self.links.memberships is not None:
            return SharedNeighbours(self.links.memberships.presence, self.spec.name)
        return SharedNeighbours(_ones(self.links.graph.adjacency), self.spec.name)

    def matrix(self) -> DissimilarityMatrix:
        """Return one minus the Jaccard index of the neighbourhoods."""
        rows = self.shared.rows(np.arange(self.n))
        return as_dissimilarity(rows, self.spec.name, facts=self.shared.facts)

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""
        return self.shared

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the distances of the neighbourhoods of new items; other new items are in none."""
        if self.links.memberships is not None:
            return self.shared.cross(_ones(self.links.new_memberships(new)))
        rows = _ones(self.links.new_graph(new).adjacency)[self.n :]
        among = np.diff(rows[:, self.n :].tocsr().indptr)
        return self.shared.cross(rows[:, : self.n].tocsr(), among)


def _ones(table: Any) -> Any:
    """Return a CSR array with 1 in place of every stored entry."""
    from scipy.sparse import csr_array

    ones = np.ones(len(table.indices))
    return csr_array((ones, table.indices, table.indptr), shape=table.shape)
