"""The join on item id: an item table, graphs and matrices become one stack of sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

import numpy as np

from metricmix.dissimilarity.column_sources import have_similar_sizes
from metricmix.dissimilarity.default_specs import default_specs, named_specs, used_by_default
from metricmix.dissimilarity.item_sources import (
    ItemSource,
    SourceData,
)
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.learned_sources import known_of
from metricmix.dissimilarity.matching import (
    SourceReport,
    holds_memberships,
    match_edges,
    match_matrix,
    match_memberships,
)
from metricmix.dissimilarity.relation_sources import graph_from_edges
from metricmix.dissimilarity.sources import ItemData, Source
from metricmix.dissimilarity.specs import SourceSpec, graph_names
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.value_storage import (
    OnSource,
    StackSizes,
    ValueStorage,
    build_stack,
    choose_storage,
)
from metricmix.exceptions import InputError, TableFileError
from metricmix.items.cells import did_you_mean
from metricmix.items.columns import Column, infer_columns
from metricmix.items.items import Items, numbered_like
from metricmix.items.relation import Memberships, Relation
from metricmix.items.target import TargetColumn

__all__ = ["JoinReport", "JoinedData", "Plan", "check_specs", "plan_sources"]

LABELS_A_CLASS = 3
FEWEST_TARGETS = 20
"""From which on, on average a class or in all, there are supervised sources by default."""


# -- what was joined -----------------------------------------------------------------------------


@dataclass(frozen=True)
class JoinReport:
    """What is joined: counts, examples, and the kinds of columns.

    `labels_left_out` are labels, each with the id of its item, that are treated as unknown.
    `left_out` are sources that are not made by default here, and why. With a numeric `target` there
    are no classes. `set_apart` says which columns are no attributes.
    """

    n_items: int
    classes: dict[str, int]
    columns: tuple[Column, ...]
    sources: tuple[SourceReport, ...]
    directed: bool
    labels_left_out: tuple[tuple[str, str], ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    target: TargetColumn | None = None
    set_apart: tuple[str, ...] = ()

    @property
    def n_labelled(self) -> int:
        """Number of items with a label, or with a known target."""
        return sum(self.classes.values()) if self.target is None else self.target.n_known

    @property
    def not_used(self) -> tuple[str, ...]:
        """A line for each reason why sources are not made by default, with their names."""
        names: dict[str, list[str]] = {}
        for name, why in self.left_out.items():
            names.setdefault(why, []).append(name)
        return tuple(f"not used by default: {', '.join(n)} ({why})" for why, n in names.items())


@dataclass(frozen=True)
class JoinedData:
    """The items, the stack of their sources, and how each source is computed.

    `plan` is what it was built from, and `storage` how values are held.
    """

    plan: Plan
    storage: ValueStorage
    sources: tuple[ItemSource, ...]
    stack: DissimilarityStack

    @property
    def items(self) -> Items:
        """The items."""
        return self.plan.items

    @property
    def columns(self) -> tuple[Column, ...]:
        """Their columns."""
        return self.plan.report.columns

    @property
    def report(self) -> JoinReport:
        """What was joined."""
        return self.plan.report

    @property
    def edges_per_item(self) -> int | None:
        """The number of nearest items by each table, of a stack over sparse edges."""
        return self.storage.edges_per_item

    @property
    def by_source(self) -> dict[ItemSource, Source]:
        """What the stack holds of each source that does not depend on labels."""
        held = zip(self.sources, self.stack.between_any.sources, self.stack.facts, strict=True)
        found = {one: (copy(part), facts) for one, part, facts in held if not one.spec.supervised}
        for part, facts in found.values():
            part.facts = facts
        return {one: part for one, (part, _) in found.items()}

    def holds_as(self, storage: ValueStorage) -> bool:
        """Return whether values are held in that way."""
        one, other = ((each.kind, each.edges_per_item) for each in (self.storage, storage))
        return one == other

    def made_for(self, specs: Sequence[SourceSpec], known: Known) -> dict[SourceSpec, ItemSource]:
        """Return those of its sources that other labels leave as they are, or that can take these.

        Matrices only if all others are the same: their unknown entries are estimated from these.
        """
        made = {one.spec: one.relabel(known) for one in self.plan.sources}
        if [one for one in made if not one.supervised] != [s for s in specs if not s.supervised]:
            made = {spec: one for spec, one in made.items() if "matrix" not in spec.needs}
        return made

    def knows_all(self, sources: Sequence[ItemSource]) -> bool:
        """Return whether the sources that do not depend on labels are those of this plan."""
        own, theirs = (
            [one for one in listed if not one.spec.supervised]
            for listed in (self.plan.sources, sources)
        )
        return len(own) == len(theirs) and all(map(is_, own, theirs))


@dataclass(frozen=True)
class Plan:
    """Data that match, before dissimilarities are computed: the result of ``--dry-run``.

    `data` is what all sources share, and `ids` are what the stack calls its items. `earlier` is
    what was built of the same items with other labels.
    """

    items: Items
    sources: tuple[ItemSource, ...]
    report: JoinReport
    data: SourceData
    ids: Any
    earlier: JoinedData | None = None

    @property
    def sizes(self) -> StackSizes:
        """What memory and storage depend on."""
        links = {source.file: source.n_edges for source in self.report.sources}
        matrices = sum("matrix" in source.spec.needs for source in self.sources)
        return StackSizes(
            self.report.n_items,
            len(self.sources),
            self.report.n_labelled,
            n_tables=sum(source.joins_nearest for source in self.sources),
            n_links=sum(links.values()),
            n_matrices=matrices,
        )

    @property
    def item_data(self) -> ItemData:
        """The columns as features, and the links of each graph and of all together.

        Links count by their strength, each graph as much as any other on average.
        """
        columns = [column for column in self.report.columns if column.kind != "ignore"]
        table = self.data.encoding(columns).features if columns else None
        graphs = {
            source.links.spec.file: source.links
            for source in self.sources
            if source.links is not None
        }
        names = graph_names([source.spec for source in self.sources])
        links, single, memberships = None, {}, {}
        for file, graph in graphs.items():
            lengths = graph_from_edges(graph.edges, len(self.items.ids), directed=False).adjacency
            strengths = lengths.copy()
            strengths.data = 1.0 / lengths.data if lengths.data.all() else np.ones(lengths.nnz)
            strengths.data /= max(float(strengths.data.mean()), 1e-300) if lengths.nnz else 1.0
            links = strengths if links is None else links + strengths
            single[names[file or ""]] = strengths
            if graph.memberships is not None:
                memberships[names[file or ""]] = graph.memberships.table
        complete = not any(source.spec.kind == "matrix" for source in self.sources)
        return ItemData(table, links, complete, single, memberships)

    def build(
        self,
        storage: ValueStorage | None = None,
        on_source: OnSource = lambda done, total: None,
    ) -> JoinedData:
        """Compute the sources, their values stored as stated, by default as `choose_storage` says.

        `on_source(done, all)` is called after each source.

        Raises
        ------
        TooLargeError
            If the values do not fit into memory; nothing is computed then.
        InputError
            If no source has values of single rows or pairs, as computed rows and edges need.
        """
        storage = storage or choose_storage(self.sizes)
        storage.check_fits(str(self.items.source))
        directed, earlier = self.report.directed, self.earlier
        held, on_edges = {}, None
        if earlier is not None and earlier.holds_as(storage):
            held = earlier.by_source
            on_edges = earlier.stack if earlier.knows_all(self.sources) else None
        stack = build_stack(
            self.sources,
            storage,
            on_source,
            directed=directed,
            items=self.ids,
            held=held,
            on_edges=on_edges,
        )
        made_from = self.item_data
        for source in stack.between_any.sources:
            source.made_from = made_from
        kept = tuple(source for source in self.sources if source.spec.name in stack.names)
        return JoinedData(replace(self, earlier=None), storage, kept, stack)


# -- the join ------------------------------------------------------------------------------------


def plan_sources(
    items: Items,
    specs: Sequence[SourceSpec] = (),
    *,
    kinds: Mapping[str, str] | None = None,
    defaults: bool = True,
    only: Sequence[str] = (),
    earlier: JoinedData | None = None,
) -> Plan:
    r"""Join a table, graphs and matrices on item id; the items are those of the table.

    - *Graphs*: nodes that are not in the table are dropped with their edges, and reported; items
      that are not in a graph are isolated, and reported. Pairs without a path get the largest
      distance plus the longest edge.
    - *Matrices* may hold more than the items: the rest is dropped, and reported. Items that are not
      in a matrix, and pairs without an entry, are reported, too; their entries are estimated
      (:mod:`metricmix.dissimilarity.unknown_pairs`). If most items are missing, that is an error.
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
    earlier : JoinedData, optional
        The result of the same items with other labels, whose sources are taken over.

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
    columns = infer_columns(items, kinds) if earlier is None else earlier.columns
    for spec in specs:
        if spec.uses_graph and spec.file not in items.relations:
            known = list(items.relations)
            expected = did_you_mean(known, spec.file or "") if known else "edges, found none"
            raise InputError(argument=f"source {spec.name!r}", expected=expected)
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
            n_items=n,
            n_known=n_known(items),
            alone=not specs,
            alike=have_similar_sizes(items, columns),
            supervised=can_cross_fit(items),
            numbers=numbers,
        )
        if not only:
            added, left_out = used_by_default(added, specs, directed=is_directed(specs))
        why |= {one.spec.name: one.why for one in added}
        new = [one.spec for one in added]
        all_specs = [spec for spec in new if spec.uses_columns] + all_specs
        all_specs += [spec for spec in new if not spec.uses_columns]
    check_specs(items, all_specs)
    if only:
        all_specs = named_specs(all_specs, only)
    directed = is_directed(all_specs)
    reports, sources = [], []
    shared = {} if earlier is None else earlier.plan.data.without_labels()
    made = {} if earlier is None else earlier.made_for(all_specs, known_of(items))
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
            report = replace(
                report,
                name=spec.name,
                kind=spec.kind,
                direction=spec.direction,
                direction_stated=spec.directed is not None,
            )
        else:
            names = tuple(column.name for column in spec.select_columns(columns))
            report = SourceReport(spec.name, spec.kind, str(items.source), names)
        of_numbers = numbers and spec.supervised
        report = replace(report, why=why[spec.name], of_numbers=of_numbers, view=spec.view)
        reports.append(report)
        data = SourceData(items, columns, edges, values, shared)
        sources.append(made[spec] if spec in made else spec.bind(data))
    report_of_all = JoinReport(
        n,
        {} if numbers else dict(sorted(labels_of(items).items())),
        columns,
        tuple(reports),
        directed,
        items.labels_left_out,
        left_out,
    )
    data = SourceData(items, columns, shared=shared)
    return Plan(items, tuple(sources), report_of_all, data, items.ids, earlier)


def is_directed(specs: Iterable[SourceSpec]) -> bool:
    """Return whether a matrix or path lengths among the sources are stated to be directed."""
    return any(spec.directed for spec in specs if spec.facts.get("directed"))


def can_cross_fit(items: Items) -> bool:
    """Return whether there are enough labels to fit to some and judge by others.

    Three a class on average, or 20 targets.
    """
    if items.targets is not None:
        return n_known(items) >= FEWEST_TARGETS
    classes = labels_of(items)
    return len(classes) > 1 and classes.total() >= LABELS_A_CLASS * len(classes)


def n_known(items: Items) -> int:
    """Return how many items have a known label or target."""
    if items.targets is not None:
        return int((~np.isnan(items.targets)).sum())
    return labels_of(items).total()


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
