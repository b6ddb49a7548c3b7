"""How well walks in a graph lead from one item to the other."""

from __future__ import annotations

from metricmix.dissimilarity.item_sources import SourceData
from metricmix.dissimilarity.relation_sources import Links, LogWalks, links_of
from metricmix.dissimilarity.specs import KINDS, SourceSpec

__all__ = ["LinkWalks"]


@KINDS.register(
    "log_pagerank",
    words="how well walks in a graph lead from one item to the other",
    example="reach=log_pagerank:cites.csv",
    order=20,
    needs=("relation",),
    report="walks between items",
    report_of_groups="walks between items over shared groups",
)
class LinkWalks(LogWalks):
    """Minus the logarithm of personalised PageRank in a given graph."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        self._links = links_of(spec, data)
        super().__init__(spec, data, self._links)

    @property
    def links(self) -> Links:
        """The graph."""
        return self._links
