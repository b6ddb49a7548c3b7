"""New items beside those of a fit: their edges, memberships and dissimilarities.

New items are *attached*: what was computed for the items of the fit stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.item_sources import (
    ANGLES,
    ItemSource,
    NewItemData,
    SourceData,
)
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matching import EXAMPLES
from metricmix.dissimilarity.nearest_items import UNLIKE
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.specs import SourceSpec, graph_names
from metricmix.exceptions import InputError, TableFileError
from metricmix.items.columns import Column
from metricmix.items.items import Items, row_start
from metricmix.items.relation import Memberships, Relation, memberships_of
from metricmix.memory import check_room
from metricmix.state import LoadOptions, checked_state, require, saved
from metricmix.typing import Floats

__all__ = ["FitInputs", "NewEdgesReport", "attach_new", "new_item_edges"]


@saved("FitInputs")
@dataclass(frozen=True)
class FitInputs:
    """The items of a fit and how their sources are computed; matrices are in the model.

    `edges_per_item` is None unless values are held on sparse edges. `name` is the column that says
    what items are called, if there is one.
    """

    items: Items
    columns: tuple[Column, ...]
    sources: tuple[ItemSource, ...]
    edges_per_item: int | None = None
    name: str = ""

    @classmethod
    def of(cls, joined: JoinedData, name: str = "") -> FitInputs:
        """Return what new items are compared with: of the columns, those that sources use."""
        used = {
            column.name
            for source in joined.sources
            if source.spec.needs_columns
            for column in source.spec.select_columns(joined.columns)
        }
        columns = tuple(column for column in joined.columns if column.name in used)
        return cls(joined.items, columns, joined.sources, joined.edges_per_item, name)

    def for_labels(self, known: Known) -> FitInputs:
        """Return the inputs with the sources of the labels of a fit.

        Those of the last labels are kept, with the models that sources have fitted to them: a
        query for new items would fit them again.
        """
        last = self.__dict__.get("last")
        if last is None or last[0] is not known:
            sources = tuple(source.relabel(known) for source in self.sources)
            last = known, replace(self, sources=sources)
            object.__setattr__(self, "last", last)
        return last[1]

    def to_state(self, *, keep: bool = True) -> dict[str, Any]:
        """Return what a file holds: the used columns, graphs of the items, specifications.

        Labels and matrices are in the model.
        """
        links = (source.links for source in self.sources)
        graphs = {one.spec.file: one.memberships or one.edges for one in links if one is not None}
        kept = [*(column.name for column in self.columns), *filter(None, [self.name])]
        columns = {name: self.items.columns[name] for name in kept}
        bare: Any = {"relations": {}, "matrices": {}}
        bare |= dict.fromkeys(("labels", "targets", "groups", "order"))
        origin = replace(self.items.origin, numbers=(), unit="item")
        held = {
            "items": replace(self.items, columns=columns, origin=origin, **bare),
            "columns": self.columns,
            "graphs": graphs,
            "specs": tuple(source.spec for source in self.sources),
            "edges_per_item": self.edges_per_item,
            "name": self.name,
        }
        return {"inputs": held}

    @classmethod
    def from_state(cls, sections: Mapping[str, Any], options: LoadOptions) -> FitInputs:
        """Return inputs from what a file holds; ModelFileError if its parts do not match."""
        held = checked_state(sections.get("inputs", {}), STATE, "the inputs of a fit")
        items, columns, near = held["items"], held["columns"], held["edges_per_item"]
        n, shared = len(items.ids), dict[Any, Any]()
        for name, edges in held["graphs"].items():
            known = isinstance(edges, Relation) and edges.n_nodes == n and edges.ids is None
            known |= isinstance(edges, Memberships) and edges.table.shape[0] == n
            require(known, f"expected edges of the items in {name!r}")
        require(near is None or near >= 1, "expected edges_per_item to be a number of items")
        require(held["specs"], "expected at least one source")
        names = {column.name for column in columns} | {*filter(None, [held["name"]])}
        require(names <= items.columns.keys(), "expected the values of all columns")
        for column in columns:
            known = items.known(column.name).any()
            require(known, f"expected a value in column {column.name!r}")
        sources = []
        for spec in held["specs"]:
            if spec.uses_graph:
                kind = Memberships if spec.membership else Relation
                known = isinstance(held["graphs"].get(spec.file), kind)
                require(known, f"expected the edges of {spec.name!r}")
            data = SourceData(items, columns, held["graphs"].get(spec.file), shared=shared)
            sources.append(spec.bind(data))
        return cls(items, columns, tuple(sources), near, held["name"])


STATE = {
    "items": Items,
    "columns": tuple[Column, ...],
    "graphs": dict,
    "specs": tuple[SourceSpec, ...],
    "edges_per_item": int | None,
    "name": str,
}
"""What a file holds of the inputs of a fit."""


@dataclass(frozen=True)
class NewEdgesReport:
    """Edges of new items: those used, those dropped and why, new items without an edge.

    `n_unknown` edges have an unknown id, such as `unknown`; `n_others` are of no new item.
    `given` is False for a graph of the fit without edges of new items.
    """

    name: str
    n_edges: int
    n_unknown: int
    n_others: int
    unknown: tuple[str, ...]
    n_without: int
    given: bool = True

    @classmethod
    def of(
        cls,
        name: str,
        edges: Relation,
        used: NDArray[np.bool_],
        known: NDArray[np.bool_],
        n_without: int,
    ) -> NewEdgesReport:
        """Return the report on edges of which some are `used`; `known` nodes have known ids."""
        lost = edges.ends[~used]
        unknown = int((~known[lost]).any(axis=1).sum())
        ids = tuple((edges.ids or ())[k] for k in np.flatnonzero(~known)[:EXAMPLES])
        return cls(name, int(used.sum()), unknown, len(lost) - unknown, ids, n_without)

    @property
    def dropped(self) -> str:
        """How many edges were dropped, and why; "" if none was."""
        lost, why = self.n_unknown + self.n_others, []
        if self.n_unknown:
            why.append(f"{self.n_unknown} with unknown ids such as {', '.join(self.unknown)}")
        if self.n_others:
            why.append(f"{self.n_others} without a new item")
        edges = f"edge{'s' * (lost != 1)}"
        return f"{self.name}: {lost} {edges} dropped: {', '.join(why)}" if lost else ""

    @property
    def isolated(self) -> str:
        """How many new items have no edge, or that none were given; "" if all have one."""
        alone = self.n_without
        if not self.given:
            return f"{self.name}: no edges given for new items, counted as unknown (pass --edges)"
        have = "s have" if alone != 1 else " has"
        return f"{self.name}: {alone} new item{have} no edge, counted as unknown" if alone else ""


def attach_new(
    inputs: FitInputs,
    items: Items,
    relations: Iterable[tuple[str, str, Relation]],
    rows: Iterable[tuple[str, Floats]],
) -> tuple[NewItemData, tuple[NewEdgesReport, ...]]:
    """Return new items as sources take them, from files and from Python; report on their edges.

    Parameters
    ----------
    inputs : FitInputs
    items : Items
        The new items, with the columns of the fit.
    relations : iterable of (graph of the fit, name in the report, Relation)
        Edges between new items and any others; a graph may have several.
    rows : iterable of (name of a matrix, array (m, n))

    Raises
    ------
    TableFileError
        If an item was in the fit already.
    """
    fitted = set(inputs.items.ids)
    for k, item in enumerate(items.ids):
        if item in fitted:
            raise TableFileError(
                f"{items.where(k, items.id_column or None)}: expected new items, found {item!r}, "
                "which was in the fit; the predictions of the fit have its label"
            )
    graphs, memberships, reports = attach_relations(inputs, items, relations)
    return NewItemData(items, graphs, dict(rows), memberships), reports


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
            both = inputs.items, items
            more, report = attach_memberships(fitted.memberships, *both, found, called)
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
        NewEdgesReport(names[file], 0, 0, 0, (), len(items.ids), given=False)
        for file in names
        if file not in graphs
    ]
    return graphs, memberships, tuple(reports)


def attach_memberships(
    fitted: Memberships, old: Items, new: Items, edges: Relation, name: str
) -> tuple[Any, NewEdgesReport]:
    """Return the memberships of new items in the things of the fit, CSR (m, T)."""
    if edges.ids is None:
        raise InputError(argument=edges.source, expected="edges between ids, found numbers only")
    number = edges.numbers_in(new.ids)
    found = memberships_of(edges, number, len(new.ids), fitted.things)
    mine, thing = number >= 0, np.isin(edges.ids, fitted.things)
    used: NDArray[np.bool_] = np.any(mine[edges.ends] & thing[edges.ends[:, ::-1]], axis=1)
    known = mine | thing | (edges.numbers_in(old.ids) >= 0)
    without = int((np.diff(found.table.indptr) == 0).sum())
    return found.table, NewEdgesReport.of(name, edges, used, known, without)


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
    without = m - int((np.unique(ends[used]) >= n).sum())
    report = NewEdgesReport.of(name, edges, used, number >= 0, without)
    return edges.select(used, ends, n + m), report


def new_item_edges(inputs: FitInputs, new: NewItemData) -> CrossEdges:
    """Return the edges of new items to items of the fit, with the values of the sources.

    They lead along the given links and to the nearest items by each table and matrix, as many as in
    the fit; not to items at cosine distance 1, unless a new item would have no edge at all. What a
    matrix does not know of a new item is NaN.

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
        rows[source.spec.name] = source.cross(new, None)
        values = np.where(np.isnan(rows[source.spec.name]), np.inf, rows[source.spec.name])
        near = np.argpartition(values, min(k, n) - 1, axis=1)[:, : min(k, n)]
        unlike = np.inf
        if source.metric == "angular":
            unlike = 0.5 * UNLIKE
        elif source.metric in ANGLES:
            unlike = UNLIKE
        close = np.take_along_axis(values, near, axis=1) < unlike
        chosen[np.nonzero(close)[0], near[close]] = True
    for values in rows.values():
        alone = np.flatnonzero(~chosen.any(axis=1) & ~np.isnan(values).all(axis=1))
        if len(alone):
            chosen[alone, np.nanargmin(values[alone], axis=1)] = True
    alone = np.flatnonzero(~chosen.any(axis=1))
    if len(alone):
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
    return CrossEdges.of_sorted(x, j, np.stack(values_on_edges), names, (m, n), allow_unknown=True)
