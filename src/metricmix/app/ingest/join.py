"""Joining files by id: which items take part, what is missing on either side, one stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import Column, decide
from metricmix.app.ingest.edge_list import EdgeFile, read_edge_file
from metricmix.app.ingest.file_sources import FileSource, make_source
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.match import JoinedSource, between_items, meet_edges, meet_matrix
from metricmix.app.ingest.source_specs import SourceSpec, default_specs
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError, TableFileError
from metricmix.memory import check_fits
from metricmix.validation import symmetrized

__all__ = ["Gathered", "Joined", "Plan", "join", "plan"]

PER_PAIR = {
    "metric": 1e-7,
    "knn": 5e-7,
    "paths": 1e-8,
    "smoothed": 5e-7,
    "pagerank": 1e-6,
    "jaccard": 1e-7,
    "matrix": 1e-8,
}
"""Seconds per pair of items, as measured once on two cores: a guess of the right order."""
PER_PASSED_EDGE = 1e-8
"""Seconds for an edge with a length that the search from one item passes."""


@dataclass(frozen=True)
class Joined:
    """What would be joined: counts, examples, decisions, and what building the stack takes.

    `memory_bytes` is the peak while sources become a stack, `seconds` a guess of the right order;
    both without what learning takes afterwards.
    """

    n_items: int
    classes: dict[str, int]
    columns: tuple[Column, ...]
    sources: tuple[JoinedSource, ...]
    directed: bool
    memory_bytes: int
    seconds: float

    @property
    def n_labelled(self) -> int:
        """Number of items with a label."""
        return sum(self.classes.values())


@dataclass(frozen=True)
class Gathered:
    """The items, the stack of their sources, and how each source was made."""

    items: ItemTable
    columns: tuple[Column, ...]
    sources: tuple[FileSource, ...]
    stack: DissimilarityStack
    report: Joined


@dataclass(frozen=True)
class Plan:
    """Files that fit together, not yet made into dissimilarities: what ``--dry-run`` asks for."""

    items: ItemTable
    sources: tuple[FileSource, ...]
    report: Joined

    def build(self, on_source: Callable[[int, int], None] | None = None) -> Gathered:
        """Compute all sources; TooLargeError, before anything is begun, if they do not fit.

        Sources are kept to seven digits (float32). `on_source(done, all)` is called as they are
        finished.
        """
        n, R, directed = len(self.items.ids), len(self.sources), self.report.directed
        check_fits(
            lambda items: _bytes(items, R),
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
        return Gathered(self.items, self.report.columns, self.sources, stack, self.report)


def join(items: ItemTable, specs: Sequence[SourceSpec] = (), **options: object) -> Gathered:
    """Join and compute at once: ``plan(items, specs, **options).build()``."""
    return plan(items, specs, **options).build()  # type: ignore[arg-type]


def plan(
    items: ItemTable,
    specs: Sequence[SourceSpec] = (),
    *,
    kinds: Mapping[str, str] | None = None,
    defaults: bool = True,
) -> Plan:
    r"""Join a table, graphs and matrices by id: the table's items are the items.

    - *Graphs*: nodes that are not in the table are left out with their edges, and reported; items
      that are not in a graph are isolated, and reported. Pairs without a path are as far as the
      farthest that have one and one edge more.
    - *Matrices* may hold more than the items: the rest is left out, and reported. An item that is
      not in a matrix is an error, since nobody knows how far it is.
    - What has no ids (sparse and plain matrices) is in the order of the table, and as long.

    Parameters
    ----------
    items : ItemTable
    specs : sequence of SourceSpec
        Sources that are stated.
    kinds : mapping of column names to kinds, optional
        See :func:`~metricmix.app.ingest.column_types.decide`.
    defaults : bool
        Whether the table's columns, and they along the graphs, are sources as well: those of
        :func:`~metricmix.app.ingest.source_specs.default_specs`.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file does not fit the table; it says which one, and why.
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
    if len(items.ids) < 2:
        raise TableFileError(f"{items.source}: expected two items at least, found one")
    columns = decide(items, kinds)
    graphs = {spec.file: _read_graph(spec.file, specs) for spec in specs if spec.of_graph}
    chosen = list(specs)
    if defaults:
        walked = [spec for spec in specs if spec.kind == "paths" and _conducts(graphs[spec.file])]
        made = default_specs(columns, walked, alone=not specs)
        chosen = [spec for spec in made if spec.of_table] + chosen
        chosen += [spec for spec in made if not spec.of_table]
    _check_names(items, chosen)
    directed = any(spec.directed for spec in specs if spec.kind == "matrix") or any(
        graphs[spec.file].directed for spec in specs if spec.kind == "paths"
    )
    reports, sources = [], []
    for spec in chosen:
        met, source = _meet(items, spec, columns, graphs, directed)
        reports.append(met)
        sources.append(source)
    n = len(items.ids)
    report = Joined(
        n,
        dict(sorted(Counter(label for label in items.labels or () if label).items())),
        columns,
        tuple(reports),
        directed,
        _bytes(n, len(reports)),
        _seconds(n, reports, graphs),
    )
    return Plan(items, tuple(sources), report)


def _read_graph(file: str | None, specs: Sequence[SourceSpec]) -> EdgeFile:
    """Read a graph, as all sources that are made of it state it."""
    assert file is not None
    users = [spec for spec in specs if spec.file == file]
    stated = {
        name: {getattr(spec, name) for spec in users} - {None}
        for name in ("weight", "directed", "weight_column", "ends")
    }
    if any(len(ways) > 1 for ways in stated.values()):
        names = ", ".join(repr(spec.name) for spec in users)
        raise InputError(
            argument=f"sources {names}",
            expected=f"{file} to be read in one way",
            found="different options",
        )
    options: Any = {name: next(iter(ways), None) for name, ways in stated.items()}
    return read_edge_file(file, **options)


def _conducts(graph: EdgeFile) -> bool:
    """Return whether walks can go along the edges: both ways, and none of length 0."""
    return not graph.directed and (graph.weight != "length" or bool(np.all(graph.weights)))


def _meet(
    items: ItemTable,
    spec: SourceSpec,
    columns: tuple[Column, ...],
    graphs: Mapping[str | None, EdgeFile],
    directed: bool,
) -> tuple[JoinedSource, FileSource]:
    """Return how one source meets the table, and the source, not yet computed."""
    if spec.kind == "matrix":
        met, values = meet_matrix(items, spec.name, Path(spec.file or ""), directed)
        return met, make_source(spec, items, columns, values=values)
    if spec.of_graph:
        graph = graphs[spec.file]
        met = meet_edges(items, spec.name, spec.kind, graph)
        return met, make_source(spec, items, columns, between_items(items, graph))
    names = tuple(column.name for column in spec.chosen(columns))
    met = JoinedSource(spec.name, spec.kind, str(items.source), names)
    return met, make_source(spec, items, columns)


def _check_names(items: ItemTable, specs: Sequence[SourceSpec]) -> None:
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


# -- what it takes -------------------------------------------------------------------------------


def _bytes(n: int, sources: int) -> int:
    """Return the memory that the stack takes at its peak: all sources, and one being made."""
    return 4 * n * n * sources + 3 * 8 * n * n


def _seconds(
    n: int, sources: Sequence[JoinedSource], graphs: Mapping[str | None, EdgeFile]
) -> float:
    """Return about how long building takes: pairs of items, and edges passed from each item."""
    passed = sum(len(graph.ends) for graph in graphs.values() if graph.weights is not None)
    pairs = n * n * sum(PER_PAIR[source.kind] for source in sources)
    return pairs + PER_PASSED_EDGE * n * passed
