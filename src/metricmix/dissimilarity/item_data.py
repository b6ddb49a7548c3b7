"""What sources were computed from: a table and links, for methods that learn no metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = ["ItemData", "data_of"]


@dataclass(frozen=True, eq=False)
class ItemData:
    """What sources were computed from, for classifiers that learn no metric.

    Attributes
    ----------
    table : (n, d) array or CSR array, optional
        The attributes of the items.
    links : (n, n) CSR array, optional
        Strengths >= 0 of the links between items, symmetric.
    graphs : mapping of names to (n, n) CSR arrays
        The same of each graph, if there are several.
    complete : bool
        Whether all sources were computed from these; False if some came from elsewhere, such as
        precomputed matrices.
    """

    table: Any = None
    links: Any = None
    complete: bool = True
    graphs: Mapping[str, Any] = field(default_factory=dict)


def data_of(stack: DissimilarityStack) -> ItemData | None:
    """Return what the sources of a stack were computed from, together; None if none states it.

    `complete` says whether all of them do.
    """
    origin = stack.origin
    found = [] if origin is None else [source.made_from for source in origin.sources]
    stated = list({id(data): data for data in found if data is not None}.values())
    if not stated:
        return None
    return ItemData(
        next((data.table for data in stated if data.table is not None), None),
        next((data.links for data in stated if data.links is not None), None),
        None not in found and all(data.complete for data in stated),
        {name: links for data in stated for name, links in data.graphs.items()},
    )
