"""Walks over near items by a view."""

from __future__ import annotations

from metricmix.dissimilarity.relation_sources import LogWalks
from metricmix.dissimilarity.specs import KINDS

__all__ = ["NearWalks"]


@KINDS.register(
    "near",
    words="walks over nearest items by columns",
    example="chains=near:*:k=10",
    order=7,
    needs=("columns",),
    options=("k", "view"),
    report="walks over nearest items",
)
class NearWalks(LogWalks):
    """How well chains of near items lead from one item to the other."""
