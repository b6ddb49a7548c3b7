"""Angles between topics of texts and counts."""

from __future__ import annotations

from metricmix.cached import cached_property
from metricmix.dissimilarity.column_sources import topics_of, unit_rows
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.exceptions import InputError
from metricmix.typing import Floats

__all__ = ["TopicAngles"]


@KINDS.register(
    "topics",
    words="angle between the 100 leading topics of texts or counts",
    example="about=topics:title,abstract",
    order=6,
    needs=("columns",),
    view=True,
    report="angle between topics",
)
class TopicAngles(TableSource):
    """Angles between texts and counts by their leading singular vectors."""

    metric = "angular"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        selected = spec.select_columns(data.columns)
        self.columns = tuple(column for column in selected if column.kind in ("text", "count"))
        if not self.columns:
            raise InputError(
                argument=f"source {spec.name!r}", expected="columns of texts or counts, found none"
            )
        self.topics = topics_of(data, self.columns)

    @cached_property
    def table(self) -> Floats:
        """The topics of all items, rows at length 1."""
        return unit_rows(self.topics.of(self.items))

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the topics of new items."""
        return unit_rows(self.topics.of(new.items))
