"""Angles between memberships."""

from __future__ import annotations

from typing import Any

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData, TableSource
from metricmix.dissimilarity.relation_sources import RelationSource
from metricmix.dissimilarity.specs import KINDS

__all__ = ["MembershipSource"]


@KINDS.register(
    "membership",
    words="groups that items belong to",
    example="met=membership:events.csv",
    order=14,
    needs=("memberships",),
    report="angle between memberships",
)
class MembershipSource(RelationSource, TableSource):
    """Angles between memberships; things that few items belong to count more."""

    metric = "angular"

    @cached_property
    def table(self) -> Any:
        """The weighted memberships, (n, T)."""
        assert self.links.memberships is not None
        return self.links.memberships.weighted(self.links.memberships.table)

    def new_rows(self, new: NewItemData) -> Any:
        """Return the weighted memberships of new items, (m, T)."""
        assert self.links.memberships is not None
        return self.links.memberships.weighted(self.links.new_memberships(new))
