"""The join on item id: an item table, graphs and matrices become one stack of sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import Column, infer_columns
from metricmix.app.ingest.delimited_text import quoted
from metricmix.app.ingest.edge_list import EdgeFile, read_edge_file
from metricmix.app.ingest.file_sources import FileSource, GraphFileSource, make_source
from metricmix.app.ingest.item_table import BY_ROW, ItemTable
from metricmix.app.ingest.matrices import read_matrix
from metricmix.app.ingest.source_specs import SourceSpec, default_specs
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError, MatrixFileError, TableFileError
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
    "shorten",
]

EXAMPLES = 3
"""Ids that are reported as examples."""
ASYMMETRY_REMEDY = "state that it is directed, or symmetrise it, as metricmix repair does"
PER_PAIR = {
    "metric": 1e-7,
    "knn": 5e-7,
    "paths": 1e-8,
    "smoothed": 5e-7,
    "pagerank": 1e-6,
    "jaccard": 1e-7,
    "matrix": 1e-8,
}
"""Seconds per pair of items, as measured once on two cores: the right order of magnitude."""
PER_TRAVERSED_EDGE = 1e-8
"""Seconds per weighted edge in a search from one item."""


# -- what was joined -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceReport:
    """How the ids of one source match those of the table.

    `foreign` ids are in the source only, `missing` ids in the table only; `lookalikes` are pairs
    of a foreign id and the id of the table that it may stand for.
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
    n_loops: int = 0
    weight: str | None = None
    directed: bool = False
    unused: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    lookalikes: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        """Return what the source is computed from, in one line."""
        if self.kind == "matrix":
            return f"matrix of {self.file}{' (by order)' * self.by_order}"
        if self.columns:
            what = "distance" if self.kind == "metric" else "paths over nearest neighbours"
            plural = "s" * (len(self.columns) > 1)
            return f"{what} of {len(self.columns):,} column{plural}: {shorten(self.columns)}"
        kind = {
            "paths": "path lengths",
            "smoothed": "attributes smoothed along the graph",
            "pagerank": "walks",
            "jaccard": "shared neighbours",
        }[self.kind]
        weights = {"length": "with lengths", "similarity": "with similarities"}
        direction = "directed " if self.directed and self.kind == "paths" else ""
        return (
            f"{kind} in {self.file}, {self.n_edges:,} {direction}edges "
            f"{weights.get(self.weight or '', 'each counting 1')}"
        )

    def remarks(self) -> Iterator[str]:
        """Yield what does not match on either side, and what may be a mistake."""
        if self.header:
            yield f"its first line is taken for a header: {shorten(self.header)}"
        if self.n_edges_left_out or self.n_foreign:
            edges, ids = self.n_edges_left_out, self.n_foreign
            dropped = f"{edges:,} edge{'s' * (edges != 1)} left out: " if edges else ""
            yield (
                f"{dropped}{ids:,} id{'s are' if ids != 1 else ' is'} not in the table"
                + (f", such as {shorten(self.foreign)}" if self.foreign else "")
            )
        for theirs, ours in self.lookalikes[:1]:
            yield f"{theirs!r} there looks like {ours!r} in the table; write ids alike"
        if self.n_missing:
            yield (
                f"{self.n_missing:,} item{'s have' if self.n_missing != 1 else ' has'} no edge in "
                f"it, such as {shorten(self.missing)}"
            )
        if self.n_repeated or self.n_loops:
            yield f"{self.n_repeated:,} edges are there again, {self.n_loops:,} lead nowhere else"
        if self.unused:
            yield (
                f"not used: {shorten(self.unused)}; if one is how far, say "
                f"{Path(self.file).name}:length={self.unused[0]}"
            )


def shorten(names: Sequence[str], separator: str = ", ", most: int = 4) -> str:
    """Return the first names in a list.

    >>> shorten("abcdef")
    'a, b, c, d, ...'
    """
    return separator.join(names[:most]) + (", ..." if len(names) > most else "")


@dataclass(frozen=True)
class JoinReport:
    """What is joined: counts, examples, the kinds of columns, and the cost of the stack.

    `labels_left_out` are labels, each with the id of its item, that are treated as unknown.
    `memory_bytes` is the peak while sources become a stack, `seconds` an estimate of the right
    order of magnitude; both without the cost of learning.
    """

    n_items: int
    classes: dict[str, int]
    columns: tuple[Column, ...]
    sources: tuple[SourceReport, ...]
    directed: bool
    memory_bytes: int
    seconds: float
    labels_left_out: tuple[tuple[str, str], ...] = ()

    @property
    def n_labelled(self) -> int:
        """Number of items with a label."""
        return sum(self.classes.values())


@dataclass(frozen=True)
class JoinedData:
    """The items, the stack of their sources, and how each source is computed.

    `edges_per_item` is the number of nearest items by each table, of a stack over sparse edges.
    """

    items: ItemTable
    columns: tuple[Column, ...]
    sources: tuple[FileSource, ...]
    stack: DissimilarityStack
    report: JoinReport
    edges_per_item: int | None = None


@dataclass(frozen=True)
class Plan:
    """Files that match, before dissimilarities are computed: the result of ``--dry-run``."""

    items: ItemTable
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
            instead="take fewer items or sources",
            argument=str(self.items.source),
        )
        block = np.empty((R, n, n), np.float32)
        for k, source in enumerate(self.sources):
            matrix = source.matrix()
            block[k] = matrix if directed else symmetrized(matrix)
            if on_source is not None:
                on_source(k + 1, R)
        names = [source.spec.name for source in self.sources]
        stack = DissimilarityStack.from_block(block, names, directed, items=self.items.ids)
        linked = with_links(stack, self.sources)
        return JoinedData(self.items, self.report.columns, self.sources, linked, self.report)


def with_links(stack: DissimilarityStack, sources: Iterable[FileSource]) -> DissimilarityStack:
    """Return a stack that knows the links of all graphs that its sources are made of."""
    graphs = {
        source.spec.file: source.edges.ends
        for source in sources
        if isinstance(source, GraphFileSource)
    }
    return stack.with_links(np.concatenate(list(graphs.values()))) if graphs else stack


# -- the join ------------------------------------------------------------------------------------


def join(items: ItemTable, specs: Sequence[SourceSpec] = (), **options: object) -> JoinedData:
    """Join and compute at once: ``plan(items, specs, **options).build()``."""
    return plan(items, specs, **options).build()  # type: ignore[arg-type]


def plan(
    items: ItemTable,
    specs: Sequence[SourceSpec] = (),
    *,
    kinds: Mapping[str, str] | None = None,
    defaults: bool = True,
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
    items : ItemTable
    specs : sequence of SourceSpec
        Sources that are stated.
    kinds : mapping of column names to kinds, optional
        See :func:`~metricmix.app.ingest.infer_columns`.
    defaults : bool
        Whether to add the sources of :func:`~metricmix.app.ingest.default_specs`: the columns of
        the table, and their attributes smoothed along the graphs.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file does not match the table; it says which one, and why.
    InputError
        If two sources have the same name, or there is none.

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
    ('numbers', 'roads', 'roads smoothed')
    >>> found.report.sources[1].foreign, found.report.sources[1].missing
    (('Xi',), ('Cu',))
    """
    n = len(items.ids)
    if n < 2:
        raise TableFileError(f"{items.source}: expected two items at least, found one")
    columns = infer_columns(items, kinds)
    graphs = {
        spec.file: read_graph(spec.file or "", specs, items.ids)
        for spec in specs
        if spec.uses_graph
    }
    paths = [spec for spec in specs if spec.kind == "paths"]
    directed = any(spec.directed for spec in specs if spec.kind == "matrix") or any(
        graphs[spec.file].directed for spec in paths
    )
    all_specs = list(specs)
    if defaults:
        # Random walks need edges in both directions, and no edge of length 0.
        smoothable = [
            spec
            for spec in paths
            for graph in [graphs[spec.file]]
            if not graph.directed and (graph.weight != "length" or np.all(graph.weights))
        ]
        added = default_specs(columns, smoothable, alone=not specs)
        all_specs = [spec for spec in added if spec.uses_columns] + all_specs
        all_specs += [spec for spec in added if not spec.uses_columns]
    check_specs(items, all_specs)
    reports, sources = [], []
    for spec in all_specs:
        edges, values = None, None
        if spec.kind == "matrix":
            report, values = match_matrix(items, spec, directed=directed)
        elif spec.uses_graph:
            report, edges = match_edges(items, spec, graphs[spec.file])
        else:
            names = tuple(column.name for column in spec.select_columns(columns))
            report = SourceReport(spec.name, spec.kind, str(items.source), names)
        reports.append(report)
        sources.append(make_source(spec, items, columns, edges, values))
    weighted = sum(len(graph.ends) for graph in graphs.values() if graph.weights is not None)
    seconds = n * n * sum(PER_PAIR[spec.kind] for spec in all_specs)
    report_of_all = JoinReport(
        n,
        dict(sorted(Counter(label for label in items.labels or () if label).items())),
        columns,
        tuple(reports),
        directed,
        _memory_bytes(n, len(sources)),
        seconds + PER_TRAVERSED_EDGE * n * weighted,
        items.labels_left_out,
    )
    return Plan(items, tuple(sources), report_of_all)


def read_graph(file: str, specs: Sequence[SourceSpec], ids: Sequence[str] = ()) -> EdgeFile:
    """Read a graph once for all sources that use it; InputError if their options differ."""
    users = [spec for spec in specs if spec.file == file]
    stated = {
        name: {getattr(spec, name) for spec in users} - {None}
        for name in ("weight", "directed", "weight_column", "ends")
    }
    if any(len(values) > 1 for values in stated.values()):
        names = ", ".join(repr(spec.name) for spec in users)
        raise InputError(
            argument=f"sources {names}",
            expected=f"{file} to be read in one way",
            found="different options",
        )
    options: Any = {name: next(iter(values), None) for name, values in stated.items()}
    return read_edge_file(file, items=ids, **options)


def check_specs(items: ItemTable, specs: Sequence[SourceSpec]) -> None:
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
                "name a file otherwise, as in NAME=FILE, or state the column by "
                "--source NAME=cosine:COLUMN"
            ),
        )


def _memory_bytes(n: int, n_sources: int) -> int:
    """Return the peak memory of building the stack: all sources, and one being computed."""
    return 4 * n * n * n_sources + 3 * 8 * n * n


# -- matching ids --------------------------------------------------------------------------------


def match_edges(
    items: ItemTable, spec: SourceSpec, edges: EdgeFile
) -> tuple[SourceReport, EdgeFile]:
    """Match the nodes of a graph with the items.

    Returns the report, and the edges between different items, numbered as in the table.
    TableFileError if there is none.
    """
    number = edges.numbers_in(items.ids)
    ends = number[edges.ends]
    inside = ends.min(axis=1) >= 0
    loops = ends[:, 0] == ends[:, 1]
    used = inside & ~loops
    if edges.weight == "similarity" and edges.weights is not None:
        used &= edges.weights > 0
    if inside.any() and not used.any():
        raise TableFileError(
            f"{edges.source}: expected edges between different items, found only edges of an item "
            "with itself, or of similarity 0"
        )
    if not inside.any():
        theirs = f", such as {quoted(edges.ids)}" if edges.ids else ""
        remedy = "is another column that of the ids?"
        if items.id_column is None:
            remedy = f"with --id {BY_ROW}, edges name row numbers, 1 to {len(items.ids)}"
        raise TableFileError(
            f"{edges.source}: expected edges between items of {items.source}, such as "
            f"{quoted(items.ids)}, found none among {edges.n_nodes} nodes{theirs}; {remedy}"
        )
    connected = set(ends[used].ravel().tolist())
    missing = [item for k, item in enumerate(items.ids) if k not in connected]
    foreign = [] if edges.ids is None else [edges.ids[k] for k in np.flatnonzero(number < 0)]
    pairs = ends[inside] if edges.directed else np.sort(ends[inside], axis=1)

    def plain(name: str) -> str:
        return re.sub(r"\.0+$", "", name).lstrip("0").casefold().replace(" ", "")

    id_of = {plain(item): item for item in items.ids}
    lookalikes = [(name, id_of[plain(name)]) for name in foreign if plain(name) in id_of]
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
        n_repeated=len(pairs) - len(np.unique(pairs, axis=0)),
        n_loops=int((inside & loops).sum()),
        weight=edges.weight,
        directed=edges.directed,
        unused=edges.unused,
        header=edges.header,
        lookalikes=tuple(lookalikes[:EXAMPLES]),
    )
    return report, edges.select(used, ends, len(items.ids))


def match_matrix(
    items: ItemTable, spec: SourceSpec, *, directed: bool = False
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
    row_of = {name: k for k, name in enumerate(names)}
    missing = [item for item in ids if item not in row_of]
    if missing:
        raise MatrixFileError(
            f"{file}: expected all {n} items of {items.source}, found {len(missing)} missing, such "
            f"as {quoted(missing)}, and ids such as {quoted(names)}; add them, or take them out of "
            "the table"
        )
    rows = np.array([row_of[item] for item in ids], dtype=np.int64)
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
    in_table = set(ids)
    foreign = [name for name in names if name not in in_table]
    report = SourceReport(
        spec.name,
        "matrix",
        str(file),
        by_order=matrix.items is None,
        n_foreign=len(foreign),
        foreign=tuple(foreign[:EXAMPLES]),
    )
    return report, values
