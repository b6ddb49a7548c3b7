"""Joining files by id: which items take part, what is missing on either side, one stack."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.features import Metric, check_metric_name, features
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError, TableFileError
from metricmix.gathering.attributes import Column, Encoding, decide, encode
from metricmix.gathering.edges import EdgeFile
from metricmix.gathering.meeting import JoinedSource, meet_edges, meet_matrix, path_lengths
from metricmix.gathering.tables import ItemTable
from metricmix.memory import check_fits

__all__ = ["Gathered", "Joined", "Plan", "join", "plan"]

ATTRIBUTES = "attributes"
PER_PAIR = {ATTRIBUTES: 5e-8, "edges": 1e-8, "weighted edges": 1.5e-7, "matrix": 1e-8}
"""Seconds per pair of items, as measured once on two cores: a guess of the right order."""

Path = str | os.PathLike[str]
Floats = NDArray[np.float64]


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
    """Ids and labels ('' where unlabelled, None without a label column), and the stack of sources.

    `encoding` is None where the table has no attributes that say anything.
    """

    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    stack: DissimilarityStack
    encoding: Encoding | None
    report: Joined


@dataclass(frozen=True)
class Plan:
    """Files that fit together, not yet made into dissimilarities: what ``--dry-run`` asks for."""

    items: ItemTable
    encoding: Encoding | None
    edges: dict[str, EdgeFile]
    matrices: dict[str, Floats]
    metric: Metric
    report: Joined

    def build(self) -> Gathered:
        """Compute all sources; TooLargeError, before anything is begun, if they do not fit."""
        n, sources = len(self.items.ids), len(self.report.sources)
        check_fits(
            lambda items: _bytes(items, sources),
            n,
            what=f"joining {sources} sources",
            instead="take fewer items or sources",
            argument=str(self.items.source),
        )
        found: dict[str, Any] = {}
        if self.encoding is not None:
            found[ATTRIBUTES] = features(self.encoding.features, self.metric)
        for name, edges in self.edges.items():
            found[name] = path_lengths(edges, self.items.ids)
        found |= self.matrices
        ids = self.items.ids
        stack = DissimilarityStack(found, directed=self.report.directed, items=ids)
        return Gathered(ids, self.items.labels, stack, self.encoding, self.report)


def join(items: ItemTable, **options: Any) -> Gathered:
    """Join and compute at once: ``plan(items, **options).build()``."""
    return plan(items, **options).build()


def plan(
    items: ItemTable,
    *,
    edges: Mapping[str, EdgeFile] | None = None,
    matrices: Mapping[str, Path] | None = None,
    kinds: Mapping[str, str] | None = None,
    metric: Metric = "euclidean",
    directed: bool = False,
) -> Plan:
    r"""Join a table, graphs and matrices by id: the table's items are the items.

    - *Attributes* of the table are the source "attributes", if any column says something.
    - *Graphs* become path lengths. Nodes that are not in the table are left out with their edges,
      and reported; items that are not in a graph are isolated, and reported. Pairs without a path
      are as far as the farthest that have one and one edge more.
    - *Matrices* may hold more than the items: the rest is left out, and reported. An item that is
      not in a matrix is an error, since nobody knows how far it is.
    - What has no ids (sparse and plain matrices) is in the order of the table, and as long.

    Parameters
    ----------
    items : ItemTable
    edges : mapping of source names to EdgeFile, optional
    matrices : mapping of source names to paths, optional
        Read by :func:`~metricmix.dissimilarity.matrix_files.read_matrix`.
    kinds : mapping of column names to kinds, optional
        See :func:`~metricmix.gathering.attributes.decide`.
    metric : str or callable
        Of the attributes; see :func:`~metricmix.dissimilarity.features`.
    directed : bool
        Whether matrices may be asymmetric. A directed graph makes everything directed.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file does not fit the table; it says which one, and why.
    InputError
        If two sources have the same name, or there is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from metricmix.gathering import read_edge_file, read_items
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "towns.csv").write_text("town,people\nAa,300\nBo,41\nCu,7\n")
    >>> _ = (folder / "roads.csv").write_text("from,to,length\nAa,Bo,12\nBo,Xi,7\n")
    >>> roads = read_edge_file(folder / "roads.csv")
    >>> found = join(read_items(folder / "towns.csv"), edges={"roads": roads})
    >>> found.stack
    DissimilarityStack(n=3, sources=['attributes', 'roads'], items=['Aa', 'Bo', ...])
    >>> found.report.sources[1].foreign, found.report.sources[1].missing
    (('Xi',), ('Cu',))
    """
    graphs, files = dict(edges or {}), dict(matrices or {})
    check_metric_name(metric)
    if len(items.ids) < 2:
        raise TableFileError(f"{items.source}: expected two items at least, found one")
    columns = decide(items, kinds)
    encoding = encode(items, columns)
    _check_names(items, encoding, graphs, files)
    one_way = directed or any(graph.directed for graph in graphs.values())
    reports, ready = [], {}
    if encoding is not None:
        reports.append(JoinedSource(ATTRIBUTES, ATTRIBUTES, str(items.source)))
    reports += [meet_edges(items, name, graph) for name, graph in graphs.items()]
    for name, file in files.items():
        met, ready[name] = meet_matrix(items, name, file, one_way)
        reports.append(met)
    n = len(items.ids)
    report = Joined(
        n,
        dict(sorted(Counter(label for label in items.labels or () if label).items())),
        columns,
        tuple(reports),
        one_way,
        _bytes(n, len(reports)),
        _seconds(n, reports, graphs),
    )
    return Plan(items, encoding, graphs, ready, metric, report)


def _check_names(
    items: ItemTable, encoding: Encoding | None, edges: Iterable[str], files: Iterable[str]
) -> None:
    if encoding is None and not edges and not files:
        raise TableFileError(
            f"{items.source}: expected a column of attributes besides ids and labels that differs "
            "between items, found none; add one, or give edges or a matrix"
        )
    names = [*([ATTRIBUTES] if encoding is not None else []), *edges, *files]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"sources: expected different names, got {name!r} twice; rename one")


# -- what it takes -------------------------------------------------------------------------------


def _bytes(n: int, sources: int) -> int:
    """Return the memory that the stack takes at its peak: every source, their copy, one more."""
    return 8 * n * n * (2 * sources + 1)


def _seconds(n: int, sources: Sequence[JoinedSource], edges: Mapping[str, EdgeFile]) -> float:
    """Return about how long building takes: pairs of items, and edges passed from each item."""
    passed = sum(len(graph.ends) for graph in edges.values() if graph.weights is not None)
    return n * n * sum(PER_PAIR[source.kind] for source in sources) + 1e-8 * n * passed
