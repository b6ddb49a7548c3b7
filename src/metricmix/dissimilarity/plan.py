"""The join on item id: an item table, graphs and matrices become one stack of sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.default_specs import default_specs, named_specs, used_by_default
from metricmix.dissimilarity.item_sources import ItemSource, SourceData, make_source
from metricmix.dissimilarity.matching import (
    SourceReport,
    holds_memberships,
    match_edges,
    match_matrix,
    match_memberships,
)
from metricmix.dissimilarity.sources import DenseSource
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError, TableFileError
from metricmix.items.columns import Column, infer_columns
from metricmix.items.items import Items, numbered_like
from metricmix.items.memberships import Memberships
from metricmix.items.relation import Relation
from metricmix.items.target import TargetColumn
from metricmix.memory import check_fits
from metricmix.validation import symmetrized

__all__ = ["JoinReport", "JoinedData", "Plan", "check_specs", "plan_sources"]

LABELS_A_CLASS = 3
FEWEST_TARGETS = 20
"""From which on, on average a class or in all, there are supervised sources by default."""
PER_TRAVERSED_EDGE = 1e-8
"""Seconds per weighted edge in a search from one item."""


# -- what was joined -----------------------------------------------------------------------------


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
    sources: tuple[ItemSource, ...]
    stack: DissimilarityStack
    report: JoinReport
    edges_per_item: int | None = None


@dataclass(frozen=True)
class Plan:
    """Files that match, before dissimilarities are computed: the result of ``--dry-run``."""

    items: Items
    sources: tuple[ItemSource, ...]
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
        given = [source for source in self.sources if not source.spec.supervised]
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


def with_links(stack: DissimilarityStack, sources: Iterable[ItemSource]) -> DissimilarityStack:
    """Return a stack with the links of all graphs over items that its sources use."""
    graphs = {
        source.spec.file: source.links.edges.ends
        for source in sources
        if source.links is not None and source.links.memberships is None
    }
    return stack.with_links(np.concatenate(list(graphs.values()))) if graphs else stack


# -- the join ------------------------------------------------------------------------------------


def plan_sources(
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
        See :func:`~metricmix.items.columns.infer_columns`.
    defaults : bool
        Whether to add the sources of :mod:`metricmix.dissimilarity.default_specs`: groups of
        columns, what graphs and memberships tell beside paths, and, where items have labels,
        supervised ones.
    only : sequence of str
        Names of sources, if the others are to be left out. Those that are not used by default, such
        as sources beyond the limit, can be named, too.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file does not match the table; it says which one, and why.
    InputError
        If two sources have the same name, there is none, or none of a name in `only`.
    """
    n, numbers = len(items.ids), items.targets is not None
    if n < 2:
        raise TableFileError(f"{items.source}: expected at least two items, found one")
    columns = infer_columns(items, kinds)
    graphs = {spec.file: items.relations[spec.file or ""] for spec in specs if spec.uses_graph}
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
    shared: dict[Any, Any] = {}
    matched: dict[str | None, tuple[SourceReport, Relation | Memberships]] = {}
    for spec in all_specs:
        edges: Relation | Memberships | None = None
        values = None
        if "matrix" in spec.needs:
            report, values = match_matrix(items, spec, directed=directed)
        elif spec.uses_graph:
            if spec.file not in matched:
                match: Any = match_memberships if spec.membership else match_edges
                matched[spec.file] = match(items, spec, graphs[spec.file])
            report, edges = matched[spec.file]
            stated = spec.directed is not None
            report = replace(
                report,
                name=spec.name,
                kind=spec.kind,
                direction=spec.direction,
                direction_stated=stated,
            )
        else:
            names = tuple(column.name for column in spec.select_columns(columns))
            report = SourceReport(spec.name, spec.kind, str(items.source), names)
        of_numbers = numbers and spec.supervised
        report = replace(report, why=why[spec.name], of_numbers=of_numbers, view=spec.view)
        reports.append(report)
        sources.append(make_source(spec, SourceData(items, columns, edges, values, shared)))
    weighted = sum(len(graph.ends) for graph in graphs.values() if graph.weights is not None)
    seconds = n * n * sum(spec.facts["seconds_per_pair"] for spec in all_specs)
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
        bool(spec.directed) if "matrix" in spec.needs else graphs[spec.file].directed
        for spec in specs
        if spec.facts.get("directed")
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


def as_membership(spec: SourceSpec) -> SourceSpec:
    """Return a source of a file of memberships; in place of path lengths, shared groups."""
    kind = spec.facts.get("kind_of_groups", spec.kind)
    return replace(spec, kind=kind, membership=True)


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
