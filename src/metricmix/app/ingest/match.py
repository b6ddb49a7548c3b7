"""How one source meets the table: who is in both, and who is missing on either side."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import quoted
from metricmix.app.ingest.edge_list import EdgeFile
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.matrices import MatrixFile, read_matrix
from metricmix.exceptions import InputError, MatrixFileError, TableFileError
from metricmix.typing import Floats
from metricmix.validation import check_square

__all__ = [
    "JoinedSource",
    "between_items",
    "described",
    "meet_edges",
    "meet_matrix",
    "remarks",
    "some",
]


EXAMPLES = 3
ASYMMETRIC = "state that it is directed, or symmetrise it, as metricmix repair does"

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class JoinedSource:
    """How one source met the table: what is in it and not in the table, and the reverse."""

    name: str
    kind: str
    file: str
    columns: tuple[str, ...] = ()
    by_order: bool = False
    n_foreign: int = 0
    foreign: tuple[str, ...] = ()
    n_missing: int = 0
    missing: tuple[str, ...] = ()
    n_edges: int = 0
    n_edges_left_out: int = 0
    n_repeated: int = 0
    n_loops: int = 0
    weight: str | None = None
    directed: bool = False
    unused: tuple[str, ...] = ()
    lookalikes: tuple[tuple[str, str], ...] = ()


# -- edges ---------------------------------------------------------------------------------------


def meet_edges(items: ItemTable, name: str, kind: str, edges: EdgeFile) -> JoinedSource:
    """Return how a graph meets the table; TableFileError if they have no edge in common."""
    place = _places(edges, items.ids)
    inside = (place[edges.ends] >= 0).all(axis=1)
    real = inside & _joins(place[edges.ends], edges)
    if inside.any() and not real.any():
        raise TableFileError(
            f"{edges.source}: expected edges between different items, found only edges of an item "
            "with itself, or of similarity 0"
        )
    if not inside.any():
        theirs = f", such as {quoted(edges.ids)}" if edges.ids else ""
        raise TableFileError(
            f"{edges.source}: expected edges between items of {items.source}, such as "
            f"{quoted(items.ids)}, found none among {edges.n_nodes} nodes{theirs}; is another "
            "column that of the ids?"
        )
    there = set(place[edges.ends[real]].ravel().tolist())
    missing = [item for k, item in enumerate(items.ids) if k not in there]
    foreign = [] if edges.ids is None else [edges.ids[k] for k in np.flatnonzero(place < 0)]
    return JoinedSource(
        name,
        kind,
        str(edges.source),
        by_order=edges.ids is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
        n_missing=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        n_edges=int(real.sum()),
        n_edges_left_out=int((~inside).sum()),
        n_repeated=_repeated(place[edges.ends[inside]], edges.directed),
        n_loops=int(
            (place[edges.ends[inside]] == place[edges.ends[inside]][:, :1]).all(axis=1).sum()
        ),
        weight=edges.weight,
        directed=edges.directed,
        unused=edges.unused,
        lookalikes=tuple(_lookalikes(foreign, items.ids)),
    )


def _joins(ends: NDArray[np.int64], edges: EdgeFile) -> NDArray[np.bool_]:
    """Return which edges join two different nodes: a similarity of 0 does not."""
    joins = ends[:, 0] != ends[:, 1]
    if edges.weight == "similarity" and edges.weights is not None:
        joins &= edges.weights > 0
    return np.asarray(joins)


def _repeated(ends: NDArray[np.int64], directed: bool) -> int:
    """Return how many edges are there again, in either direction unless they are directed."""
    if not directed:
        ends = np.sort(ends, axis=1)
    return len(ends) - len(np.unique(ends, axis=0))


def _lookalikes(foreign: Sequence[str], ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a few unknown ids with ids of the table that they were probably meant to be."""

    def plain(name: str) -> str:
        return re.sub(r"\.0+$", "", name).lstrip("0").casefold().replace(" ", "")

    meant = {plain(item): item for item in ids}
    found = ((name, meant[plain(name)]) for name in foreign if plain(name) in meant)
    return islice(found, EXAMPLES)


def _places(edges: EdgeFile, ids: Sequence[str]) -> NDArray[np.int64]:
    """Return which item every node is, -1 for those that are none."""
    if edges.ids is None:
        if edges.n_nodes != len(ids):
            raise TableFileError(
                f"{edges.source}: expected {len(ids)} rows, one per item of the table, found "
                f"{edges.n_nodes}; a matrix without ids is in the order of the table"
            )
        return np.arange(len(ids))
    item = {name: k for k, name in enumerate(ids)}
    return np.array([item.get(name, -1) for name in edges.ids], dtype=np.int64)


def between_items(items: ItemTable, edges: EdgeFile) -> EdgeFile:
    """Return the edges between items, their ends numbered as in the table."""
    ends = _places(edges, items.ids)[edges.ends]
    inside = (ends >= 0).all(axis=1) & _joins(ends, edges)
    weights = None if edges.weights is None else edges.weights[inside]
    return replace(edges, n_nodes=len(items.ids), ids=None, ends=ends[inside], weights=weights)


# -- matrices ------------------------------------------------------------------------------------


def meet_matrix(
    items: ItemTable, name: str, file: PathLike, directed: bool
) -> tuple[JoinedSource, Floats]:
    """Return how a matrix meets the table, and its entries in the order of the items.

    MatrixFileError if an item is not in it, or it is no dissimilarity between them.
    """
    matrix = read_matrix(file)
    rows = _rows(items, file, matrix)
    values = matrix.values[np.ix_(rows, rows)]
    _check_values(items, file, values, directed)
    inside = set(rows.tolist())
    foreign = [matrix.name(k) for k in range(len(matrix.values)) if k not in inside]
    met = JoinedSource(
        name,
        "matrix",
        str(file),
        by_order=matrix.items is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
    )
    return met, values


def _check_values(items: ItemTable, file: PathLike, values: Floats, directed: bool) -> None:
    unknown = np.argwhere(np.isnan(values))
    if len(unknown):
        i, j = unknown[0].tolist()
        raise MatrixFileError(
            f"{file}: expected all entries between items, found none from {items.ids[i]!r} to "
            f"{items.ids[j]!r} ({len(unknown)} such); fill them in, as metricmix repair does"
        )
    try:
        check_square(values, name=str(file), directed=directed, offer_directed=False)
    except InputError as error:  # which numbers items: people know them by their ids

        def pair(at: re.Match[str]) -> str:
            return f"from {items.ids[int(at[1])]!r} to {items.ids[int(at[2])]!r}"

        words = re.sub(r"at \((\d+), (\d+)\)", pair, str(error))
        words = re.sub("symmetrise it, .*", ASYMMETRIC, words)
        raise MatrixFileError(words) from None


def _rows(items: ItemTable, file: PathLike, matrix: MatrixFile) -> NDArray[np.int64]:
    n = len(items.ids)
    if matrix.items is None:
        if len(matrix.values) != n:
            raise MatrixFileError(
                f"{file}: expected {n} rows, one per item of {items.source}, found "
                f"{len(matrix.values)}; a matrix without ids is in the order of the table"
            )
        return np.arange(n)
    row = {name: k for k, name in enumerate(matrix.items)}
    missing = [item for item in items.ids if item not in row]
    if missing:
        raise MatrixFileError(
            f"{file}: expected all {n} items of {items.source}, found {len(missing)} missing, such "
            f"as {quoted(missing)}, and ids such as {quoted(matrix.items)}; add them, or take them "
            "out of the table"
        )
    return np.array([row[item] for item in items.ids], dtype=np.int64)


# -- what was joined, in words ------------------------------------------------------------------

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
