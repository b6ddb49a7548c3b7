"""The join on item id: an item table, graphs and matrices become one stack of sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.default_specs import default_specs, named_specs, used_by_default
from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.file_sources import FileSource, make_source
from metricmix.app.ingest.matrices import places_of, read_matrix
from metricmix.app.ingest.source_specs import SUPERVISED_KINDS, SourceSpec
from metricmix.app.ingest.trees import NEWICK
from metricmix.dissimilarity.sources import DenseSource
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError, MatrixFileError, TableFileError
from metricmix.items.cells import quoted, shorten
from metricmix.items.columns import Column, infer_columns
from metricmix.items.items import BY_ROW, Items, id_hint, numbered_like
from metricmix.items.memberships import Memberships, are_memberships, memberships_of
from metricmix.items.relation import Relation
from metricmix.items.target import TargetColumn
from metricmix.memory import check_fits
from metricmix.typing import Floats
from metricmix.validation import check_square, symmetrized

__all__ = [
    "JoinReport",
    "JoinedData",
    "Plan",
    "SourceReport",
    "check_specs",
    "join",
    "match_edges",
    "match_matrix",
    "plan",
    "read_graph",
]

EXAMPLES = 3
"""Ids that are reported as examples."""
LABELS_A_CLASS = 3
FEWEST_TARGETS = 20
"""From which on, on average a class or in all, there are supervised sources by default."""
ASYMMETRY_REMEDY = "state that it is directed, or symmetrise it, as metricmix repair does"
PER_PAIR = {
    "metric": 1e-7,
    "knn": 5e-7,
    "gower": 1e-7,
    "learned": 1e-7,
    "forest": 1e-7,
    "paths": 1e-8,
    "smoothed": 5e-7,
    "pagerank": 1e-6,
    "jaccard": 1e-7,
    "membership": 1e-7,
    "learned_graph": 5e-7,
    "spread": 1e-7,
    "matrix": 1e-8,
}
"""Seconds per pair of items, as measured once on two cores: the right order of magnitude."""
OF_COLUMNS = {
    "metric": "distance",
    "knn": "paths over nearest neighbours",
    "gower": "Gower distance",
    "learned": "logistic regression",
    "forest": "random forest",
}
OF_GRAPHS = {
    "paths": "path lengths",
    "smoothed": "attributes smoothed along the graph",
    "pagerank": "walks",
    "jaccard": "shared neighbours",
    "learned_graph": "logistic regression on attributes smoothed along the graph",
    "spread": "labels spread over the graph",
}
OF_THINGS = {
    "jaccard": "shared groups",
    "membership": "angle between memberships",
    "pagerank": "walks over shared groups",
    "smoothed": "attributes smoothed over shared groups",
    "learned_graph": "logistic regression on memberships",
    "spread": "labels spread over shared groups",
}
OF_NUMBERS = {"logistic regression": "ridge regression", "labels spread": "targets spread"}
"""What a source of each kind is, in words; and what is said otherwise for a numeric target."""
PER_TRAVERSED_EDGE = 1e-8
"""Seconds per weighted edge in a search from one item."""


# -- what was joined -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceReport:
    """How the ids of one source match those of the table.

    `foreign` ids are in the source only, `missing` ids in the table only; `lookalikes` are pairs
    of a foreign id and the id of the table that it may stand for. `n_repeated` edges are duplicates
    of others; `n_both_ways` edges of an undirected graph occur in both directions, and
    `direction_stated` says whether that was asked for. Where most ids are foreign, `id_hint` says
    what may match them.
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
    n_across: int = 0
    why: str = ""
    of_numbers: bool = False
    n_zero: int = 0
    id_hint: str = ""

    def describe(self) -> str:
        """Return what the source is computed from, in one line."""
        text = self._describe()
        for of_classes, of_numbers in OF_NUMBERS.items() if self.of_numbers else ():
            if text.startswith(of_classes):
                return of_numbers + text.removeprefix(of_classes)
        return text

    def _describe(self) -> str:
        if self.kind == "matrix":
            what = "distances in the tree" if self.file.lower().endswith(NEWICK) else "matrix"
            return f"{what} of {self.file}{' (by order)' * self.by_order}"
        if self.columns:
            what = OF_COLUMNS[self.kind]
            plural = "s" * (len(self.columns) > 1)
            return f"{what} of {len(self.columns):,} column{plural}: {shorten(self.columns)}"
        if self.n_things:
            return (
                f"{OF_THINGS[self.kind]} in {self.file}, {self.n_edges:,} memberships in "
                f"{self.n_things:,} groups"
            )
        weights = {"length": "with lengths", "similarity": "with similarities"}
        direction = "directed " if self.directed and self.kind == "paths" else ""
        way = {"out": " along the edges", "in": " against the edges"}.get(self.direction or "", "")
        return (
            f"{OF_GRAPHS[self.kind]}{way} in {self.file}, {self.n_edges:,} {direction}edges "
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
            yield (
                f"{self.n_missing:,} item{'s have' if self.n_missing != 1 else ' has'} no edge, "
                f"such as {shorten(self.missing)}"
            )
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
                f"{name}:length={self.unused[0]}; if similarities, :similarity={self.unused[0]}"
            )

    def _about_memberships(self, name: str) -> Iterator[str]:
        """Yield how edges between items and things were read."""
        yield (
            f"read as memberships: {self.n_across:,} edges join an item with a group that is not "
            f"in the table, such as {shorten(self.things)}; {name}:graph would drop them"
        )
        if self.n_repeated:
            yield f"{self.n_repeated:,} of them are duplicates"
        if self.n_between:
            yield f"{self.n_between:,} edges join two items: each is a group of the other"
        if self.n_edges_left_out:
            yield f"{self.n_edges_left_out:,} edges dropped: neither end is in the table"
        if self.n_missing:
            have = "items belong" if self.n_missing != 1 else "item belongs"
            yield f"{self.n_missing:,} {have} to no group, such as {shorten(self.missing)}"


@dataclass(frozen=True)
class JoinReport:
    """What is joined: counts, examples, the kinds of columns, and the cost of the stack.

    `labels_left_out` are labels, each with the id of its item, that are treated as unknown.
    `memory_bytes` is the peak while sources become a stack, `seconds` an estimate of the right
    order of magnitude; both without the cost of learning. `left_out` are sources that are not made
    by default here, and why. With a numeric `target` there are no classes.
    """

    n_items: int
    classes: dict[str, int]
    columns: tuple[Column, ...]
    sources: tuple[SourceReport, ...]
    directed: bool
    memory_bytes: int
    seconds: float
    labels_left_out: tuple[tuple[str, str], ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    target: TargetColumn | None = None

    @property
    def n_labelled(self) -> int:
        """Number of items with a label, or with a known target."""
        return sum(self.classes.values()) if self.target is None else self.target.n_known


@dataclass(frozen=True)
class JoinedData:
    """The items, the stack of their sources, and how each source is computed.

    `edges_per_item` is the number of nearest items by each table, of a stack over sparse edges.
    """

    items: Items
    columns: tuple[Column, ...]
    sources: tuple[FileSource, ...]
    stack: DissimilarityStack
    report: JoinReport
    edges_per_item: int | None = None


@dataclass(frozen=True)
class Plan:
    """Files that match, before dissimilarities are computed: the result of ``--dry-run``."""

    items: Items
    sources: tuple[FileSource, ...]
    report: JoinReport

    def build(self, on_source: Callable[[int, int], None] | None = None) -> JoinedData:
        """Compute all sources; raises TooLargeError at once if they do not fit into memory.

        The stack holds float32. `on_source(done, all)` is called after each source.
        """
        n, R, directed = len(self.items.ids), len(self.sources), self.report.directed
        check_fits(
            lambda items: _memory_bytes(items, R),
            n,
            what=f"joining {R} source{'s' * (R > 1)}",
            instead="use fewer items or sources",
            argument=str(self.items.source),
        )
        given = [source for source in self.sources if source.spec.kind not in SUPERVISED_KINDS]
        block = np.empty((len(given), n, n), np.float32)
        held: dict[str, Any] = {source.spec.name: None for source in self.sources}
        for k, source in enumerate(given):
            matrix = source.matrix()
            block[k] = matrix if directed else symmetrized(matrix)
            part = DenseSource(block[k], directed=directed)
            part.facts = getattr(matrix, "facts", None)
            held[source.spec.name] = part
            if on_source is not None:
                on_source(k + 1, R)
        if len(given) == R:
            stack = DissimilarityStack.from_block(block, list(held), directed, items=self.items.ids)
        else:
            for source in self.sources:
                held[source.spec.name] = held[source.spec.name] or source.supervised
            stack = DissimilarityStack(held, None, directed, items=self.items.ids, validate=False)
        linked = with_links(stack, self.sources)
        return JoinedData(self.items, self.report.columns, self.sources, linked, self.report)


def with_links(stack: DissimilarityStack, sources: Iterable[FileSource]) -> DissimilarityStack:
    """Return a stack with the links of all graphs over items that its sources use."""
    graphs = {
        source.spec.file: source.links.edges.ends
        for source in sources
        if source.links is not None and source.links.memberships is None
    }
    return stack.with_links(np.concatenate(list(graphs.values()))) if graphs else stack


# -- the join ------------------------------------------------------------------------------------


def join(items: Items, specs: Sequence[SourceSpec] = (), **options: object) -> JoinedData:
    """Join and compute at once: ``plan(items, specs, **options).build()``."""
    return plan(items, specs, **options).build()  # type: ignore[arg-type]


def plan(
    items: Items,
    specs: Sequence[SourceSpec] = (),
    *,
    kinds: Mapping[str, str] | None = None,
    defaults: bool = True,
    only: Sequence[str] = (),
) -> Plan:
    r"""Join a table, graphs and matrices on item id; the items are those of the table.

    - *Graphs*: nodes that are not in the table are dropped with their edges, and reported; items
      that are not in a graph are isolated, and reported. Pairs without a path get the largest
      distance plus the longest edge.
    - *Matrices* may hold more than the items: the rest is dropped, and reported. An item that is
      not in a matrix is an error.
    - Files without ids (sparse and plain matrices) are in the order of the table, and as long.

    Parameters
    ----------
    items : Items
    specs : sequence of SourceSpec
        Sources that are stated.
    kinds : mapping of column names to kinds, optional
        See :func:`~metricmix.app.ingest.infer_columns`.
    defaults : bool
        Whether to add the sources of :mod:`metricmix.app.ingest.default_specs`: groups of columns,
        what graphs and memberships tell beside paths, and, where items have labels, supervised
        ones.
    only : sequence of str
        Names of sources, if the others are to be left out. Those that are not used by default, such
        as sources beyond the limit, can be named, too.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file does not match the table; it says which one, and why.
    InputError
        If two sources have the same name, there is none, or none of a name in `only`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metricmix.app.ingest import parse_edges, read_items
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "towns.csv").write_text("town,people\nAa,300\nBo,41\nCu,7\n")
    >>> _ = (folder / "roads.csv").write_text("from,to,length\nAa,Bo,12\nBo,Xi,7\n")
    >>> roads = parse_edges(str(folder / "roads.csv"))
    >>> found = join(read_items(folder / "towns.csv"), [roads])
    >>> found.stack.names
    ('numbers', 'roads', 'roads shared', 'roads walks', 'roads smoothed')
    >>> found.report.sources[1].foreign, found.report.sources[1].missing
    (('Xi',), ('Cu',))
    """
    n, numbers = len(items.ids), items.targets is not None
    if n < 2:
        raise TableFileError(f"{items.source}: expected at least two items, found one")
    columns = infer_columns(items, kinds)
    graphs = {
        spec.file: read_graph(spec.file or "", specs, items.ids)
        for spec in specs
        if spec.uses_graph
    }
    named = {str(file): edges.ids for file, edges in graphs.items() if edges.ids is not None}
    items = numbered_like(items, named)
    two_mode = {file: holds_memberships(items, file, graphs[file], specs) for file in graphs}
    specs = [as_membership(spec) if two_mode.get(spec.file) else spec for spec in specs]
    all_specs, why = list(specs), dict.fromkeys((spec.name for spec in specs), "as stated")
    left_out: dict[str, str] = {}
    if defaults:
        stated = [(spec, graphs[spec.file]) for spec in specs if spec.uses_graph]
        added = default_specs(
            columns,
            stated,
            alone=not specs,
            supervised=can_cross_fit(items),
            numbers=numbers,
        )
        if not only:
            added, left_out = used_by_default(added, specs, directed=is_directed(specs, graphs))
        why |= {one.spec.name: one.why for one in added}
        new = [one.spec for one in added]
        all_specs = [spec for spec in new if spec.uses_columns] + all_specs
        all_specs += [spec for spec in new if not spec.uses_columns]
    check_specs(items, all_specs)
    if only:
        all_specs = named_specs(all_specs, only)
    directed = is_directed(all_specs, graphs)
    reports, sources = [], []
    for spec in all_specs:
        edges: Relation | Memberships | None = None
        values = None
        if spec.kind == "matrix":
            report, values = match_matrix(items, spec, directed=directed)
        elif spec.membership:
            report, edges = match_memberships(items, spec, graphs[spec.file])
        elif spec.uses_graph:
            report, edges = match_edges(items, spec, graphs[spec.file])
        else:
            names = tuple(column.name for column in spec.select_columns(columns))
            report = SourceReport(spec.name, spec.kind, str(items.source), names)
        of_numbers = numbers and spec.kind in SUPERVISED_KINDS
        reports.append(replace(report, why=why[spec.name], of_numbers=of_numbers))
        sources.append(make_source(spec, items, columns, edges, values))
    weighted = sum(len(graph.ends) for graph in graphs.values() if graph.weights is not None)
    seconds = n * n * sum(PER_PAIR[spec.kind] for spec in all_specs)
    report_of_all = JoinReport(
        n,
        {} if numbers else dict(sorted(labels_of(items).items())),
        columns,
        tuple(reports),
        directed,
        _memory_bytes(n, len(sources)),
        seconds + PER_TRAVERSED_EDGE * n * weighted,
        items.labels_left_out,
        left_out,
    )
    return Plan(items, tuple(sources), report_of_all)


def is_directed(specs: Iterable[SourceSpec], graphs: Mapping[str | None, Relation]) -> bool:
    """Return whether a matrix or path lengths among the sources are directed."""
    return any(
        bool(spec.directed) if spec.kind == "matrix" else graphs[spec.file].directed
        for spec in specs
        if spec.kind in ("matrix", "paths")
    )


def can_cross_fit(items: Items) -> bool:
    """Return whether there are enough labels to fit to some and judge by others.

    Three a class on average, or 20 targets.
    """
    if items.targets is not None:
        return int((~np.isnan(items.targets)).sum()) >= FEWEST_TARGETS
    classes = labels_of(items)
    return len(classes) > 1 and classes.total() >= LABELS_A_CLASS * len(classes)


def labels_of(items: Items) -> Counter[str]:
    """Return how many items have each label."""
    return Counter(label for label in items.labels or () if label)


def read_graph(file: str, specs: Sequence[SourceSpec], ids: Sequence[str] = ()) -> Relation:
    """Read a graph once for all sources that use it; InputError if their options differ."""
    users = [spec for spec in specs if spec.file == file]
    stated = {
        name: {getattr(spec, name) for spec in users} - {None}
        for name in ("weight", "directed", "weight_column", "ends", "membership")
    }
    if any(len(values) > 1 for values in stated.values()):
        names = ", ".join(repr(spec.name) for spec in users)
        raise InputError(
            argument=f"sources {names}",
            expected=f"{file} with the same options everywhere",
            found="different options",
        )
    del stated["membership"]
    options: Any = {name: next(iter(values), None) for name, values in stated.items()}
    return read_edge_file(file, items=ids, **options)


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


def as_membership(spec: SourceSpec) -> SourceSpec:
    """Return a source of a file of memberships; in place of path lengths, shared groups."""
    kind = "jaccard" if spec.kind == "paths" else spec.kind
    return replace(spec, kind=kind, membership=True)


def similar_ids(ids: Sequence[str], foreign: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a foreign id and the id of an item that it may stand for."""

    def plain(name: str) -> str:
        return re.sub(r"\.0+$", "", name).lstrip("0").casefold().replace(" ", "")

    id_of = {plain(item): item for item in ids}
    return [(name, id_of[plain(name)]) for name in foreign if plain(name) in id_of]


def check_specs(items: Items, specs: Sequence[SourceSpec]) -> None:
    """Raise unless there are sources, and their names differ."""
    if not specs:
        raise TableFileError(
            f"{items.source}: expected a column of attributes besides ids and labels that differs "
            "between items, found none; add one, or give edges or a matrix"
        )
    name, times = Counter(spec.name for spec in specs).most_common(1)[0]
    if times > 1:
        raise InputError(
            argument="sources",
            expected="different names",
            found=f"{name!r} twice",
            remedy=(
                "rename a file with NAME=FILE, or define the column's source with "
                "--source NAME=cosine:COLUMN"
            ),
        )


def _memory_bytes(n: int, n_sources: int) -> int:
    """Return the peak memory of building the stack: all sources, and one being computed."""
    return 4 * n * n * n_sources + 3 * 8 * n * n


# -- matching ids --------------------------------------------------------------------------------


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
        raise TableFileError(
            f"{edges.source}: expected edges between items of {items.source}, such as "
            f"{quoted(items.ids)}, found none among {edges.n_nodes} nodes{theirs}; {remedy}"
        )
    connected = set(ends[used].ravel().tolist())
    missing = [item for k, item in enumerate(items.ids) if k not in connected]
    foreign = [] if edges.ids is None else [edges.ids[k] for k in np.flatnonzero(number < 0)]
    pairs = np.unique(ends[inside], axis=0)
    n_pairs = len(pairs) if edges.directed else len(np.unique(np.sort(pairs, axis=1), axis=0))
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
    in_table = set(items.ids)
    things = [name for name in found.things if name not in in_table]
    report = SourceReport(
        spec.name,
        spec.kind,
        str(edges.source),
        n_missing=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        n_edges=int(found.table.nnz),
        n_edges_left_out=int((~known.any(axis=1)).sum()),
        weight=edges.weight,
        unused=edges.unused,
        n_things=len(found.things),
        things=tuple(things[:EXAMPLES]),
        n_between=int(known.all(axis=1).sum()),
        n_repeated=int(across.sum()) - len(np.unique(edges.ends[across], axis=0)),
        n_across=int(across.sum()),
    )
    return report, found


def match_matrix(
    items: Items, spec: SourceSpec, *, directed: bool = False
) -> tuple[SourceReport, Floats]:
    """Match the names of a matrix with the items.

    Returns the report, and the entries in the order of the items. MatrixFileError if an item is not
    in it, or it is not a dissimilarity matrix: entries >= 0, zero diagonal, symmetric unless
    `directed`.
    """
    file, ids, n = Path(spec.file or ""), items.ids, len(items.ids)
    matrix = read_matrix(file)
    if matrix.items is None and len(matrix.values) != n:
        raise MatrixFileError(
            f"{file}: expected {n} rows, one per item of {items.source}, found "
            f"{len(matrix.values)}; a matrix without ids is in the order of the table"
        )
    names = ids if matrix.items is None else matrix.items
    hint = id_hint(items, names, "row0" if "0" in names else BY_ROW)
    rows = np.arange(n)
    if matrix.items is not None:
        rows = places_of(file, matrix, ids, items.source, hint)
    values = matrix.values[np.ix_(rows, rows)]
    unknown = np.argwhere(np.isnan(values))
    if len(unknown):
        i, j = unknown[0].tolist()
        raise MatrixFileError(
            f"{file}: expected all entries between items, found none from {ids[i]!r} to "
            f"{ids[j]!r} ({len(unknown)} such); fill them in, as metricmix repair does"
        )
    try:
        check_square(values, name=str(file), directed=directed, offer_directed=False, items=ids)
    except InputError as error:
        if error.expected.startswith("symmetric"):
            error = error.replace(remedy=ASYMMETRY_REMEDY)
        raise MatrixFileError(str(error)) from None
    used = set(rows.tolist())
    foreign = [name for k, name in enumerate(names) if k not in used]
    report = SourceReport(
        spec.name,
        "matrix",
        str(file),
        by_order=matrix.items is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
        how_read=matrix.remarks,
    )
    return report, values
