"""New items beside those of a fit: their edges, memberships, dissimilarities and labels.

New items are *attached*: what was computed for the items of the fit stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.item_sources import (
    ANGLES,
    ItemSource,
    NewItemData,
    SourceData,
    UnusedSource,
    known_shares,
    little_data,
    lowered,
)
from metricmix.dissimilarity.matching import EXAMPLES
from metricmix.dissimilarity.nearest_items import UNLIKE
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.specs import graph_names
from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError
from metricmix.items.columns import Column, unreadable_cells
from metricmix.items.items import Items, row_start
from metricmix.items.memberships import Memberships, memberships_of
from metricmix.items.relation import Relation
from metricmix.memory import check_room
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.paths.joined_items import Joined
from metricmix.typing import Floats

__all__ = [
    "FitInputs",
    "NewEdgesReport",
    "NewLabel",
    "attach_edges",
    "attach_relations",
    "new_columns",
    "new_item_edges",
    "predict_new",
    "remarks_on_new",
]


@dataclass(frozen=True)
class FitInputs:
    """The items of a fit and how their sources are computed; matrices are in the model.

    `edges_per_item` is None unless values are held on sparse edges.
    """

    items: Items
    columns: tuple[Column, ...]
    sources: tuple[ItemSource, ...]
    id_column: str | None
    label_column: str | None
    edges_per_item: int | None = None

    @classmethod
    def of(cls, joined: JoinedData) -> FitInputs:
        """Return what new items are compared with: of the columns, those that sources use."""
        used = {
            column.name
            for source in joined.sources
            if source.spec.needs_columns
            for column in source.spec.select_columns(joined.columns)
        }
        items = joined.items
        columns = tuple(column for column in joined.columns if column.name in used)
        found = (items, columns, joined.sources, items.id_column, items.label_column)
        return cls(*found, joined.edges_per_item)


@dataclass(frozen=True)
class NewEdgesReport:
    """Edges of new items: those used and left out, unknown ids, new items without an edge."""

    name: str
    n_edges: int
    n_left_out: int
    n_foreign: int
    foreign: tuple[str, ...]
    n_without: int

    @property
    def dropped(self) -> str:
        """How many edges were dropped, and examples of unknown ids; "" if none was."""
        lost = self.n_left_out
        unknown = f"; unknown ids such as {', '.join(self.foreign)}" if self.foreign else ""
        return f"{self.name}: {lost} edge{'s' * (lost != 1)} dropped{unknown}" if lost else ""

    @property
    def isolated(self) -> str:
        """How many new items have no edge; "" if all have."""
        alone = self.n_without
        have, are = ("s have", "are") if alone != 1 else (" has", "is")
        why = "" if self.n_edges else " (pass --edges)"
        text = f"{self.name}: {alone} new item{have} no edge and {are} far from all others{why}"
        return text if alone else ""


def attach_relations(
    inputs: FitInputs, items: Items, relations: Iterable[tuple[str, str, Relation]]
) -> tuple[dict[str, Relation], dict[str, Any], tuple[NewEdgesReport, ...]]:
    """Return the edges of new items by the graph of the fit, their memberships, and reports.

    `relations` are edges with the graph of the fit that they belong to, and what they are called in
    the report; a graph may have several. Of memberships there are edges to the items that share a
    group of the fit, and the rows (m, T).
    """
    links = {
        source.spec.file: source.links for source in inputs.sources if source.links is not None
    }
    names = graph_names([source.spec for source in inputs.sources])
    graphs: dict[str, Relation] = {}
    memberships: dict[str, Any] = {}
    reports = []
    for file, called, found in relations:
        fitted = links[file]
        if fitted.memberships is not None:
            more, report = attach_memberships(fitted.memberships, items, found, called)
            memberships[file] = memberships[file] + more if file in memberships else more
            graphs[file] = fitted.memberships.projected(memberships[file])
            reports.append(report)
            continue
        edges, report = attach_edges(inputs.items, items, found, called)
        if file in graphs:  # several files of one graph
            one, weights = graphs[file], None
            if one.weights is not None and edges.weights is not None:
                weights = np.concatenate([one.weights, edges.weights])
            edges = replace(one, ends=np.concatenate([one.ends, edges.ends]), weights=weights)
        graphs[file] = edges
        reports.append(report)
    reports += [
        NewEdgesReport(names[file], 0, 0, 0, (), len(items.ids))
        for file in names
        if file not in graphs
    ]
    return graphs, memberships, tuple(reports)


def attach_memberships(
    fitted: Memberships, new: Items, edges: Relation, name: str
) -> tuple[Any, NewEdgesReport]:
    """Return the memberships of new items in the things of the fit, CSR (m, T)."""
    if edges.ids is None:
        raise InputError(argument=edges.source, expected="edges between ids, found numbers only")
    number = edges.numbers_in(new.ids)
    found = memberships_of(edges, number, len(new.ids), fitted.things)
    things = set(fitted.things)
    known = np.array([item in things for item in edges.ids], dtype=bool)
    mine, other = number >= 0, edges.ends[:, ::-1]
    used = (mine[edges.ends] & known[other]).any(axis=1)
    foreign = [edges.ids[k] for k in np.flatnonzero(~mine & ~known)]
    report = NewEdgesReport(
        name,
        int(used.sum()),
        int((~used).sum()),
        len(foreign),
        tuple(foreign[:EXAMPLES]),
        int((np.diff(found.table.indptr) == 0).sum()),
    )
    return found.table, report


def attach_edges(
    old: Items, new: Items, edges: Relation, name: str
) -> tuple[Relation, NewEdgesReport]:
    """Return the edges with a new item at an end; old items are numbered first, then new ones."""
    if edges.ids is None:
        raise InputError(argument=edges.source, expected="edges between ids, found numbers only")
    n, m = len(old.ids), len(new.ids)
    start = row_start(edges.ids, n + m)
    if old.id_column is None and start not in (None, int(old.ids[0])):
        raise InputError(
            argument=edges.source,
            expected=f"row numbers as in the fit, {old.ids[0]} to {old.ids[-1]}",
            found=f"numbers from {start}",
            remedy=f"the new items are {new.ids[0]} to {new.ids[-1]}",
        )
    number = edges.numbers_in((*old.ids, *new.ids))
    ends = number[edges.ends]
    used = (ends.min(axis=1) >= 0) & (ends.max(axis=1) >= n)
    foreign = [edges.ids[k] for k in np.flatnonzero(number < 0)]
    connected = set(ends[used].ravel().tolist())
    report = NewEdgesReport(
        name,
        int(used.sum()),
        int((~used).sum()),
        len(foreign),
        tuple(foreign[:EXAMPLES]),
        sum(k not in connected for k in range(n, n + m)),
    )
    return edges.select(used, ends, n + m), report


def new_item_edges(inputs: FitInputs, new: NewItemData) -> CrossEdges:
    """Return the edges of new items to items of the fit, with the values of the sources.

    They lead along the given links and to the nearest items by each table and matrix, as many as in
    the fit; not to items at cosine distance 1, unless a new item would have no edge at all.

    Raises
    ------
    TooLargeError
        If the distances from the new items to all others do not fit into memory.
    InputError
        If a new item has no edge, or a source does not support new items.
    """
    n, m, k = len(inputs.items.ids), len(new.items.ids), inputs.edges_per_item or 1
    check_room(
        m * n * (8.0 * len(inputs.sources) + 1),
        what=f"comparing {m} new items with {n} others",
        instead="predict fewer at a time",
        argument=str(new.items.source),
    )
    chosen = np.zeros((m, n), dtype=bool)
    rows: dict[str, Floats] = {}
    for source in inputs.sources:
        if source.links is not None and source.spec.file in new.edges:
            ends = np.sort(new.edges[source.spec.file].ends, axis=1)
            across = ends[(ends[:, 0] < n) & (ends[:, 1] >= n)]
            chosen[across[:, 1] - n, across[:, 0]] = True
        if source.table is None and source.spec.kind != "matrix":
            continue
        values = rows[source.spec.name] = source.cross(new, None)
        near = np.argpartition(values, min(k, n) - 1, axis=1)[:, : min(k, n)]
        unlike = np.inf
        if source.metric == "angular":
            unlike = 0.5 * UNLIKE
        elif source.metric in ANGLES:
            unlike = UNLIKE
        close = np.take_along_axis(values, near, axis=1) < unlike
        chosen[np.nonzero(close)[0], near[close]] = True
    alone = np.flatnonzero(~chosen.any(axis=1))
    if len(alone) and rows:
        chosen[alone, next(iter(rows.values()))[alone].argmin(axis=1)] = True
    elif len(alone):
        raise InputError(
            argument="--edges",
            expected="an edge to an item of the fit for every new item",
            found=f"none for {new.items.ids[alone[0]]!r}",
        )
    x, j = np.nonzero(chosen)
    values_on_edges = [
        rows[source.spec.name][x, j] if source.spec.name in rows else source.new_pairs(new, x, j)
        for source in inputs.sources
    ]
    names = [source.spec.name for source in inputs.sources]
    return CrossEdges.of_sorted(x, j, np.stack(values_on_edges), names, (m, n))


# -- labels ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewLabel:
    """The label of a new item, its probability, and the nearest labelled item.

    A predicted number has no probability.
    """

    id: str
    label: str | float
    confidence: float | None
    nearest: str
    distance: float


def predict_new(model: MixturePredictor, kept: FitInputs, new: NewItemData) -> Iterator[NewLabel]:
    """Yield a label for every new item, in their order.

    New items are attached to the items of the fit, whose metric stays as it is
    (:mod:`metricmix.dissimilarity.item_sources`); no path leads through a new item. Over sparse
    edges they get edges of their own (:func:`~metricmix.fitting.new_items.new_item_edges`).
    """
    kept, _ = without_unneeded(model, kept, new)
    metric, known = model.metric_, model.known_
    stack = metric.whole.stack
    sources = tuple(source.relabelled(known.values, known.n_classes) for source in kept.sources)
    kept = replace(kept, sources=sources)
    shares = known_shares(sources, new)
    if stack.edges is not None:
        joined = metric.join(new_item_edges(kept, new))
        yield from labelled_new_items(model, new.items.ids, joined, shares)
        return
    rows = np.stack(
        [
            source.cross(
                new,
                stack.select([r]).raw_rows(np.arange(metric.n))[0] if source.needs_known else None,
            )
            for r, source in enumerate(kept.sources)
        ],
        axis=-1,
    )
    values_at_once = 1 << 24  # dissimilarities that are passed to the model at a time
    step = max(1, values_at_once // (rows.shape[1] * rows.shape[2]))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        joined = metric.join(rows[some], validate=False)
        yield from labelled_new_items(model, new.items.ids[some], joined, shares[some])


def remarks_on_new(
    model: MixturePredictor, kept: FitInputs, new: NewItemData, edges: Iterable[NewEdgesReport]
) -> Iterator[str]:
    """Yield what was noticed in the data of new items: cells, columns and edges not used."""
    kept, unneeded = without_unneeded(model, kept, new)
    cells = list(unreadable_cells(new.items, kept.columns))
    most = 5  # cells that cannot be read, reported each
    yield from cells[:most]
    if len(cells) > most:
        yield f"and {len(cells) - most:,} more such cells"
    shares = known_shares(kept.sources, new)
    yield from little_data(new.items.ids, shares, numbers=model.is_numeric)
    if unneeded:
        are, them = ("s are", "them") if len(unneeded) > 1 else (" is", "it")
        yield (
            f"{new.items.source}: the column{are} missing and not needed, since only sources of "
            f"weight 0 use {them}: {', '.join(unneeded)}"
        )
    for graph in edges:
        yield from filter(None, (graph.dropped, graph.isolated))


def without_unneeded(
    model: MixturePredictor, kept: FitInputs, new: NewItemData
) -> tuple[FitInputs, tuple[str, ...]]:
    """Return the inputs less sources of weight 0 whose columns new items lack, and these columns.

    Such a source is 0 from every new item. Columns that another source needs are not among them.
    """
    if isinstance(model.mixture_, LocalMixture | NetworkMixture):
        return kept, ()
    weights = np.abs(model.weights_)
    negligible = 1e-12  # share of the largest weight up to which a weight is 0
    unused = weights <= negligible * weights.max()
    lacking = [
        tuple(name for name in source.column_names if name not in new.items.columns)
        for source in kept.sources
    ]
    sources = tuple(
        UnusedSource(source.spec, SourceData(source.items, ())) if zero and names else source
        for source, zero, names in zip(kept.sources, unused, lacking, strict=True)
    )
    needed = {name for source in sources for name in source.column_names}
    columns = dict.fromkeys(name for names in lacking for name in names if name not in needed)
    return replace(kept, sources=sources), tuple(columns)


def labelled_new_items(
    model: MixturePredictor, ids: Sequence[str], new: Joined, shares: Floats
) -> Iterator[NewLabel]:
    """Yield labels of new items, given their dissimilarities or their edges.

    `shares` say how much of their data is known: little of it lowers the confidence.
    """
    known, answers = model.known_, model.learned_.rule.of_new(new.items)
    distances, nearest = new.nearest(1, known)
    found: list[tuple[str | float, float | None]]
    if known.is_numeric:
        found = [(value, None) for value in answers.tolist()]
    else:
        trusted = lowered(answers, shares)
        found = [(str(model.classes_[p.argmax()]), float(p.max())) for p in trusted]
    for k, (label, confidence) in enumerate(found):
        yield NewLabel(ids[k], label, confidence, str(nearest[k, 0]), float(distances[k, 0]))


def new_columns(labels: Sequence[NewLabel], *, numbers: bool) -> dict[str, list[Any]]:
    """Return the labels of new items as columns, without a confidence of predicted `numbers`."""
    columns: dict[str, list[Any]] = {"id": [new.id for new in labels]}
    columns["predicted" if numbers else "label"] = [new.label for new in labels]
    if not numbers:
        columns["confidence"] = [new.confidence for new in labels]
    columns["nearest"] = [new.nearest for new in labels]
    return columns | {"distance": [new.distance for new in labels]}
