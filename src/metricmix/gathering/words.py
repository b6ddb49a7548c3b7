"""What was joined, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from metricmix.gathering.meeting import JoinedSource

__all__ = ["described", "remarks", "some"]

SHOWN = 4
KINDS = {
    "paths": "path lengths",
    "smoothed": "attributes smoothed along the graph",
    "pagerank": "walks",
    "jaccard": "shared neighbours",
}
COUNTED = {None: "each counting 1", "length": "with lengths", "similarity": "with similarities"}


def described(source: JoinedSource) -> str:
    """Return what a source is made of, in a line."""
    if source.kind == "matrix":
        return f"matrix of {source.file}{' (by order)' * source.by_order}"
    if source.columns:
        what = "distance" if source.kind == "metric" else "paths over nearest neighbours"
        plural = "s" * (len(source.columns) > 1)
        return f"{what} of {len(source.columns):,} column{plural}: {some(source.columns)}"
    way = "directed " if source.directed and source.kind == "paths" else ""
    return (
        f"{KINDS[source.kind]} in {source.file}, {source.n_edges:,} {way}edges "
        f"{COUNTED[source.weight]}"
    )


def remarks(source: JoinedSource) -> Iterator[str]:
    """Yield what is missing on either side of a graph or matrix, and what may be a mistake."""
    if source.n_edges_left_out or source.n_foreign:
        lost, many = source.n_edges_left_out, source.n_foreign
        left = f"{lost:,} edge{'s' * (lost != 1)} left out: " if lost else ""
        yield (
            f"{left}{many:,} id{'s are' if many != 1 else ' is'} not in the table"
            + (f", such as {some(source.foreign)}" if source.foreign else "")
        )
    for theirs, ours in source.lookalikes[:1]:
        yield f"{theirs!r} there looks like {ours!r} in the table; write ids alike"
    if many := source.n_missing:
        yield (
            f"{many:,} item{'s have' if many != 1 else ' has'} no edge in it, such as "
            f"{some(source.missing)}"
        )
    if source.n_repeated or source.n_loops:
        yield f"{source.n_repeated:,} edges are there again, {source.n_loops:,} lead nowhere else"
    if source.unused:
        file = Path(source.file).name
        yield (
            f"not used: {some(source.unused)}; if one is how far, say {file}:length="
            f"{source.unused[0]}"
        )


def some(names: Sequence[str], between: str = ", ") -> str:
    """Return a few names in a row."""
    shown = between.join(names[:SHOWN])
    return f"{shown}, ..." if len(names) > SHOWN else shown
