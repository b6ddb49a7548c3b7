"""Matching ids: which edges, groups and entries belong to the items, and which do not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.dissimilarity.unknown_pairs import known_both_ways
from metricmix.exceptions import InputError, MatrixFileError, TableFileError
from metricmix.items.cells import quoted, shorten
from metricmix.items.items import BY_ROW, Items, id_hint
from metricmix.items.relation import (
    Matrix,
    Memberships,
    Relation,
    are_memberships,
    column_of_things,
    memberships_of,
)
from metricmix.typing import Floats, Indices
from metricmix.validation import check_square

__all__ = [
    "SourceReport",
    "holds_memberships",
    "match_edges",
    "match_matrix",
    "match_memberships",
    "places_of",
]

EXAMPLES = 3
"""Ids that are reported as examples."""
ASYMMETRY_REMEDY = "add :directed to its name, or symmetrise it (metricmix repair --symmetrise)"
OF_CLASSES = {"regression": "logistic regression", "labels": "labels"}
OF_NUMBERS = {"regression": "ridge regression", "labels": "targets"}
"""Words of kinds that depend on what is predicted."""


@dataclass(frozen=True)
class SourceReport:
    """How the ids of one source match those of the table.

    `foreign` ids are in the source only, `missing` ids in the table only; `lookalikes` are pairs
    of a foreign id and the id of the table that it may stand for. `n_repeated` edges are duplicates
    of others; `n_both_ways` edges of an undirected graph occur in both directions, and
    `direction_stated` says whether that was asked for. Where most ids are foreign, `id_hint` says
    what may match them. `n_unknown` pairs of items have no entry in a matrix.
    """

    name: str
    kind: str
    file: str
    columns: tuple[str, ...] = ()
    by_order: bool = False
    n_foreign: int = 0
    foreign: tuple[str, ...] = ()
    n_missing: int = 0
    missing: tuple[str, ...] = ()
    n_unknown: int = 0
    n_edges: int = 0
    n_edges_left_out: int = 0
    n_repeated: int = 0
    n_both_ways: int = 0
    direction_stated: bool = False
    n_loops: int = 0
    weight: str | None = None
    directed: bool = False
    unused: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    lookalikes: tuple[tuple[str, str], ...] = ()
    how_read: tuple[str, ...] = ()
    direction: str | None = None
    n_things: int = 0
    things: tuple[str, ...] = ()
    n_between: int = 0
    n_namesakes: int = 0
    n_across: int = 0
    why: str = ""
    of_numbers: bool = False
    n_zero: int = 0
    id_hint: str = ""
    is_tree: bool = False
    view: str | None = None

    def describe(self) -> str:
        """Return what the source is computed from, in one line."""
        facts = KINDS.said(self.kind).facts
        words = facts.get("report_of_groups", facts["report"]) if self.n_things else facts["report"]
        if self.view not in (None, "columns"):
            of = "on" if facts.get("model") == "linear" and "relation" in facts["needs"] else "by"
            words = facts.get("report_of_view", facts["report"])
            words += f" {of} {KINDS.said(self.view).facts['report']}"
        what = words.format(**(OF_NUMBERS if self.of_numbers else OF_CLASSES))
        if "matrix" in facts["needs"]:
            what = "distances in the tree" if self.is_tree else what
            return f"{what} of {self.file}{' (by order)' * self.by_order}"
        if self.columns:
            plural = "s" * (len(self.columns) > 1)
            return f"{what} of {len(self.columns):,} column{plural}: {shorten(self.columns)}"
        if self.n_things:
            return (
                f"{what} in {self.file}, {self.n_edges:,} memberships in {self.n_things:,} groups"
            )
        weights = {"length": "with lengths", "similarity": "with similarities"}
        direction = "directed " if self.directed and facts.get("directed") else ""
        way = {"out": " along the edges", "in": " against the edges"}.get(self.direction or "", "")
        return (
            f"{what}{way} in {self.file}, {self.n_edges:,} {direction}edges "
            f"{weights.get(self.weight or '', 'of length 1')}"
        )

    def remarks(self) -> Iterator[str]:
        """Yield how a file was read, what does not match, and what may be a mistake."""
        yield from self.how_read
        if self.header:
            yield f"the first line is read as a header: {shorten(self.header)}"
        name = Path(self.file).name
        if self.n_things:
            yield from self._about_memberships(name)
            return
        if self.n_edges_left_out or self.n_foreign:
            edges, ids = self.n_edges_left_out, self.n_foreign
            dropped = f"{edges:,} edge{'s' * (edges != 1)} dropped: " if edges else ""
            yield (
                f"{dropped}{ids:,} id{'s are' if ids != 1 else ' is'} not in the table"
                + (f", such as {shorten(self.foreign)}" if self.foreign else "")
                + (f"; {self.id_hint}" if self.id_hint else "")
            )
        if 10 * self.n_across > self.n_edges:
            yield f"{name}:membership would compare items by the other ids, too"
        for theirs, ours in self.lookalikes[:1]:
            yield f"unknown id {theirs!r}; did you mean {ours!r}?"
        if self.n_missing:
            what = "row" if self.kind == "matrix" else "edge"
            yield (
                f"{self.n_missing:,} item{'s have' if self.n_missing != 1 else ' has'} no {what}, "
                f"such as {shorten(self.missing)}"
            )
        if self.n_unknown:
            yield f"{self.n_unknown:,} pair{'s are' if self.n_unknown != 1 else ' is'} unknown"
        if self.kind == "matrix" and (self.n_missing or self.n_unknown):
            yield "unknown entries are estimated from other sources and by the triangle inequality"
        if self.n_both_ways:
            both = self.n_both_ways
            hint = "" if self.direction_stated else "; add :directed if direction matters"
            yield f"{both:,} edge{'s occur' if both != 1 else ' occurs'} in both directions{hint}"
        if self.n_zero:
            yield f"{self.n_zero:,} edge{'s' * (self.n_zero != 1)} of similarity 0 dropped"
        merged = {"duplicate edge": self.n_repeated, "self-loop": self.n_loops}
        if any(merged.values()):
            yield ", ".join(f"{n:,} {what}{'s' * (n > 1)}" for what, n in merged.items() if n)
        if self.unused:
            yield (
                f"columns not used: {shorten(self.unused)}; if one contains lengths, pass "
                f"{shlex.quote(f'{name}:length={self.unused[0]}')}; if similarities, "
                f":similarity={self.unused[0]}"
            )

    def _about_memberships(self, name: str) -> Iterator[str]:
        """Yield how edges between items and things were read."""
        yield (
            f"read as memberships: {self.n_across:,} edges join an item with a group that is not "
            f"in the table, such as {shorten(self.things)}; {name}:graph would drop them"
        )
        if self.n_repeated:
            yield f"{self.n_repeated:,} of them are duplicates"
        if self.n_namesakes:
            are = "groups have" if self.n_namesakes > 1 else "group has"
            yield f"{self.n_namesakes:,} {are} the id of an item: a group like all of that column"
        if self.n_between:
            yield f"{self.n_between:,} edges join two items: each is a group of the other"
        if self.n_edges_left_out:
            yield f"{self.n_edges_left_out:,} edges dropped: neither end is in the table"
        if self.n_missing:
            have = "items belong" if self.n_missing != 1 else "item belongs"
            yield f"{self.n_missing:,} {have} to no group, such as {shorten(self.missing)}"


def holds_memberships(
    items: Items, file: str | None, edges: Relation, specs: Sequence[SourceSpec]
) -> bool:
    """Return whether an edge list joins items with things, as was stated or as it looks.

    Not where most of these things may be items whose ids are written otherwise.
    """
    stated = {spec.membership for spec in specs if spec.file == file} - {None}
    if stated:
        return bool(stated.pop())
    number = edges.numbers_in(items.ids)
    if not are_memberships(edges, number):
        return False
    assert edges.ids is not None
    foreign = [edges.ids[k] for k in np.flatnonzero(number < 0)]
    return 2 * len(similar_ids(items.ids, foreign)) < len(foreign)


def similar_ids(ids: Sequence[str], foreign: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a foreign id and the id of an item that it may stand for."""

    def plain(name: str) -> str:
        return re.sub(r"\.0+$", "", name).lstrip("0").casefold().replace(" ", "")

    id_of = {plain(item): item for item in ids}
    return [(name, id_of[plain(name)]) for name in foreign if plain(name) in id_of]


def match_edges(items: Items, spec: SourceSpec, edges: Relation) -> tuple[SourceReport, Relation]:
    """Match the nodes of a graph with the items.

    Returns the report, and the edges between different items, numbered as in the table.
    TableFileError if there is none.
    """
    number = edges.numbers_in(items.ids)
    ends = number[edges.ends]
    inside = ends.min(axis=1) >= 0
    loops = ends[:, 0] == ends[:, 1]
    used, n_zero = inside & ~loops, 0
    if edges.weight == "similarity" and edges.weights is not None:
        n_zero = int((used & (edges.weights <= 0)).sum())
        used &= edges.weights > 0
    if not len(ends):
        raise TableFileError(
            f"{edges.source}: expected edges between items of {items.source}, found a graph of "
            f"{edges.n_nodes} nodes without edges; leave it out"
        )
    if inside.any() and not used.any():
        raise TableFileError(
            f"{edges.source}: expected edges between different items, found only edges of an item "
            "with itself, or of similarity 0"
        )
    if not inside.any():
        theirs = f", such as {quoted(edges.ids)}" if edges.ids else ""
        remedy = id_hint(items, edges.ids or ()) or "are the ids in another column?"
        if items.id_column is None:
            rows = f"{items.ids[0]} to {items.ids[-1]}"
            remedy = f"with --id {items.id_option}, edges name row numbers, {rows}"
            if not isinstance(items.source, Path):
                remedy = f"the rows of the table have no ids, so edges name row numbers, {rows}"
        raise TableFileError(
            f"{edges.source}: expected edges between items of {items.source}, such as "
            f"{quoted(items.ids)}, found none among {edges.n_nodes} nodes{theirs}; {remedy}"
        )
    alone = np.bincount(ends[used].ravel(), minlength=len(items.ids)) == 0
    missing = [items.ids[k] for k in np.flatnonzero(alone).tolist()]
    foreign = [] if edges.ids is None else [edges.ids[k] for k in np.flatnonzero(number < 0)]
    pairs = distinct_pairs(ends[inside], len(items.ids))
    n_pairs = len(pairs)
    if not edges.directed:
        n_pairs = len(distinct_pairs(np.sort(pairs, axis=1), len(items.ids)))
    lookalikes = similar_ids(items.ids, foreign)
    report = SourceReport(
        spec.name,
        spec.kind,
        str(edges.source),
        by_order=edges.ids is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
        n_missing=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        n_edges=int(used.sum()),
        n_edges_left_out=int((~inside).sum()),
        n_repeated=int(inside.sum()) - len(pairs),
        n_both_ways=len(pairs) - n_pairs,
        direction_stated=spec.directed is not None,
        n_loops=int((inside & loops).sum()),
        weight=edges.weight,
        directed=edges.directed,
        unused=edges.unused,
        header=edges.header,
        lookalikes=tuple(lookalikes[:EXAMPLES]),
        direction=spec.direction,
        n_across=0 if lookalikes else int((~inside & (ends.max(axis=1) >= 0)).sum()),
        n_zero=n_zero,
        id_hint=id_hint(items, edges.ids or ()) if 2 * len(foreign) > edges.n_nodes else "",
    )
    return report, edges.select(used, ends, len(items.ids))


def distinct_pairs(ends: Indices, n: int) -> Indices:
    """Return pairs of numbers below n, each once."""
    keys = np.unique(ends[:, 0] * n + ends[:, 1])
    return np.column_stack([keys // n, keys % n])


def match_memberships(
    items: Items, spec: SourceSpec, edges: Relation
) -> tuple[SourceReport, Memberships]:
    """Match one end of each edge with the items; the other ends are groups they belong to.

    TableFileError if no item belongs to anything, or no two share a thing.
    """
    if edges.ids is None:
        raise TableFileError(
            f"{edges.source}: expected ids of items and groups, found numbers only"
        )
    number = edges.numbers_in(items.ids)
    known = number[edges.ends] >= 0
    found = memberships_of(edges, number, len(items.ids))
    if not found.things or found.members.max() < 2:
        ends = [[edges.ids[k] for k in set(column)] for column in edges.ends.T.tolist()]
        hint = next(filter(None, (id_hint(items, names) for names in ends)), "")
        raise TableFileError(
            f"{edges.source}: expected groups that two items of {items.source} share, found "
            f"{'none' if found.things else 'no item'} among {edges.n_nodes} nodes, such as "
            f"{quoted(edges.ids)}{f'; {hint}' if hint else ''}"
        )
    missing = [items.ids[k] for k in np.flatnonzero(np.diff(found.table.indptr) == 0)]
    across = known[:, 0] != known[:, 1]
    column = column_of_things(edges, number)
    of_item = known.any(axis=1) if column is None else known[:, 1 - column]
    between = edges.ends[known.all(axis=1)]
    in_table = set(items.ids)
    things = [name for name in found.things if name not in in_table]
    report = SourceReport(
        spec.name,
        spec.kind,
        str(edges.source),
        n_missing=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        n_edges=int(found.table.nnz),
        n_edges_left_out=int((~of_item).sum()),
        weight=edges.weight,
        unused=edges.unused,
        n_things=len(found.things),
        things=tuple(things[:EXAMPLES]),
        n_between=len(between) if column is None else 0,
        n_namesakes=0 if column is None else len(np.unique(between[:, column])),
        n_repeated=int(across.sum()) - len(np.unique(edges.ends[across], axis=0)),
        n_across=int(across.sum()),
    )
    return report, found


def match_matrix(
    items: Items, spec: SourceSpec, *, directed: bool = False
) -> tuple[SourceReport, Floats]:
    """Match the names of a matrix with the items.

    Returns the report, and the entries in the order of the items, NaN where they are not known.
    MatrixFileError if most items are not in it, or it is not a dissimilarity matrix: entries >= 0,
    zero diagonal, symmetric unless `directed`.
    """
    ids, n, matrix = items.ids, len(items.ids), items.matrices[spec.file or ""]
    file = matrix.source
    if matrix.items is None and len(matrix.values) != n:
        raise MatrixFileError(
            f"{file}: expected {n} rows, one per item of {items.source}, found "
            f"{len(matrix.values)}; a matrix without ids is in the order of the table"
        )
    names = ids if matrix.items is None else matrix.items
    hint = id_hint(items, names, "row0" if "0" in names else BY_ROW)
    rows = np.arange(n)
    if matrix.items is not None:
        rows = places_of(matrix, ids, items.source, hint)
    absent = rows < 0
    values = matrix.values[np.ix_(rows, rows)]
    if absent.any():
        values[absent], values[:, absent] = np.nan, np.nan
    try:
        check_square(
            values,
            name=str(file),
            directed=directed,
            allow_unknown=True,
            offer_directed=False,
            items=ids,
        )
        if np.isnan(values).any():
            values = known_both_ways(values, str(file), directed=directed)
    except InputError as error:
        if error.expected.startswith("symmetric"):
            error = error.replace(remedy=ASYMMETRY_REMEDY)
        raise MatrixFileError(str(error)) from None
    used = set(rows.tolist())
    foreign = [name for k, name in enumerate(names) if k not in used]
    missing = [ids[k] for k in np.flatnonzero(absent)]
    unknown = int(np.isnan(values[np.ix_(~absent, ~absent)]).sum())
    report = SourceReport(
        spec.name,
        "matrix",
        str(file),
        by_order=matrix.items is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
        n_missing=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        n_unknown=unknown if directed else unknown // 2,
        how_read=matrix.remarks,
        is_tree=matrix.is_tree,
    )
    return report, values


def places_of(
    matrix: Matrix, ids: Sequence[str], table: Path | str | None = None, hint: str = ""
) -> Indices:
    """Return the rows of a matrix that belong to some ids, -1 if it has none.

    MatrixFileError if at least half of them have none; `hint` says what to do then. Names of trees
    may have underscores for blanks, as Newick and NEXUS allow.
    """
    names = matrix.items or ()
    row_of = {name: k for k, name in enumerate(names)}
    if matrix.is_tree:
        for k, name in enumerate(names):
            row_of.setdefault(name.replace("_", " "), k)
    missing = [item for item in ids if item not in row_of]
    if 2 * len(missing) >= len(ids):
        raise MatrixFileError(
            f"{matrix.source}: expected most of the {len(ids)} items"
            f"{f' of {table}' if table else ''}, found {len(missing)} missing, such as "
            f"{quoted(missing)}, and ids such as {quoted(names)}; "
            f"{hint or 'add them, or take them out of the table'}"
        )
    return np.array([row_of.get(item, -1) for item in ids], dtype=np.int64)
