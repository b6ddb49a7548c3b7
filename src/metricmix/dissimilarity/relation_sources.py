r"""Sources computed from graphs and memberships: the links of items, and of new items to them.

What is *attached* for a new item x (:mod:`metricmix.dissimilarity.item_sources`):

- *Paths*: :math:`\min_u \ell(x, u) + M[u, j]` over its edges; other new items may lie between.
  Without a path, it is the largest distance plus the longest edge, as in the fit.
- *Smoothed*: with :math:`B = D^{-1/2} (A + I) D^{-1/2}`, of which only the rows of new items are
  computed, and the restart probability r, their smoothed attributes solve
  :math:`Z = r F + (1 - r)(B_{new} Z + B_{old} Z_{old})`.
- *PageRank*: the same, F being the identity: where walks from x lead.
- *Jaccard*, *memberships*: its own neighbours or things, compared with those of all items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.diffusion import (
    FLOOR,
    RESTART,
    LogPageRank,
    strengths_of,
)
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_graphs import ItemGraph, near_graph, solved
from metricmix.dissimilarity.item_sources import (
    ItemSource,
    NewItemData,
    SourceData,
    TableSource,
    view_of,
)
from metricmix.dissimilarity.kept_rows import KeptRows
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity, facts
from metricmix.dissimilarity.smoothing import narrow, pagerank_smoothed, walked
from metricmix.dissimilarity.sources import ComputedSource, Source
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.encoding import Encoding, counts_of
from metricmix.items.items import Items
from metricmix.items.relation import Memberships, Relation
from metricmix.typing import AnyArray, Floats

__all__ = [
    "GraphRows",
    "Links",
    "LogWalks",
    "RelationSource",
    "ShareRows",
    "graph_from_edges",
    "links_of",
    "walked_graph",
]


class Links(ItemGraph):
    """The graph that a source is computed from: `edges` between items, numbered as in the table.

    Where the file holds `memberships`, the edges are those of their projection.
    """

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        self.spec, self.items, self.n = spec, data.items, len(data.items.ids)
        edges = data.edges
        assert edges is not None
        self.memberships = edges if isinstance(edges, Memberships) else None
        self.edges = edges.projection if isinstance(edges, Memberships) else edges

    @property
    def one_way(self) -> bool:  # type: ignore[override]
        """Whether edges are followed in one direction only."""
        along = self.spec.directed and KINDS.said(self.spec.kind).facts.get("directed")
        return self.edges.directed and bool(along or self.spec.direction in ("in", "out"))

    @cached_property
    def graph(self) -> Graph:
        """The graph over the items; directed only if edges are followed in one direction."""
        return graph_from_edges(self._turned(self.edges), self.n, directed=self.one_way)

    def new_graph(self, new: NewItemData) -> Graph:
        """Return the edges of the new items, over n + m nodes."""
        n, m = self.n, len(new.items.ids)
        edges = new.edges.get(self.spec.file or "")
        if edges is None:
            return as_graph(np.empty((0, 2), np.int64), nodes=n + m)
        return graph_from_edges(self._turned(edges), n + m, directed=self.one_way)

    def _turned(self, edges: Relation) -> Relation:
        """Return the edges with their directions reversed, if those into items count."""
        return replace(edges, ends=edges.ends[:, ::-1]) if self.spec.direction == "in" else edges

    def linked(self, new: NewItemData | None = None) -> AnyArray:
        """Return which items, or which of the new ones, have an edge or a membership, (n,)."""
        file = self.spec.file or ""
        if self.memberships is not None:
            table = self.memberships.table if new is None else new.memberships.get(file)
            m = self.n if new is None else len(new.items.ids)
            return np.zeros(m, dtype=bool) if table is None else np.diff(table.indptr) > 0
        if new is None:
            return np.bincount(self.edges.ends.ravel(), minlength=self.n) > 0
        everyone = self.n + len(new.items.ids)
        edges = new.edges.get(file)
        ends = np.empty(0, np.int64) if edges is None else edges.ends.ravel()
        return np.bincount(ends, minlength=everyone)[self.n :] > 0

    @cached_property
    def strengths(self) -> Any:
        """One over the length of every edge, (n, n)."""
        return strengths_of(self.graph)

    def new_strengths(self, new: NewItemData) -> Any:
        """Return one over the length of the edges of new items, (m, n + m)."""
        return strengths_of(self.new_graph(new))[self.n :]

    def new_memberships(self, new: NewItemData) -> Any:
        """Return the memberships of new items, in the things of the fit: CSR (m, T)."""
        from scipy.sparse import csr_array

        assert self.memberships is not None
        given = new.memberships.get(self.spec.file or "")
        shape = (len(new.items.ids), len(self.memberships.things))
        return csr_array(shape) if given is None else given


def links_of(spec: SourceSpec, data: SourceData) -> Links:
    """Return the graph that a source is computed from."""
    links: Links = Links(spec, data)
    key = ("links", spec.file, links.one_way, links.memberships is None, spec.direction)
    found: Links = data.once(key, lambda: links)
    return found


def walked_graph(spec: SourceSpec, data: SourceData) -> tuple[ItemGraph, TableSource | None]:
    """Return the graph that walks go along: the given one, or near items by a view, and this."""
    if spec.uses_graph:
        return links_of(spec, data), None
    view = view_of(spec, data, "columns")
    return near_graph(data, view, spec.k), view


class RelationSource(ItemSource):
    """A source computed from a graph or from memberships."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self._links = links_of(spec, data)

    @property
    def links(self) -> Links:
        """The graph, or the memberships."""
        return self._links


def graph_from_edges(edges: Relation, n: int, *, directed: bool) -> Graph:
    """Return edges between numbered items as a graph over n of them."""
    from scipy.sparse import coo_array

    weights = np.ones(len(edges.ends)) if edges.weights is None else edges.weights
    matrix = coo_array((weights, (edges.ends[:, 0], edges.ends[:, 1])), shape=(n, n))
    return as_graph(matrix, nodes=n, weight=edges.weight, directed=directed and edges.directed)


class LogWalks(ItemSource):
    r""":math:`-\log(P + 10^{-6})`, P the personalised PageRank of a graph.

    A new item is not part of the graph of the fit, its walks go on from its neighbours: with its
    rows of B, :math:`P_{new} = (I - (1 - r) B_{new})^{-1} (1 - r) B_{old} P`.
    """

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.graph, self.base = walked_graph(spec, data)

    @property
    def links(self) -> Links | None:
        """The graph, if it was given."""
        return self.graph if isinstance(self.graph, Links) else None

    def by_rows(self) -> Source:
        """Return the rows, a run of PageRank each; the last ones are kept."""
        rows, known = KeptRows(LogPageRank(self.graph.operator)), facts("log_pagerank")
        return ComputedSource(self.n, rows, columns=rows, name=self.spec.name, facts=known)

    def matrix(self) -> DissimilarityMatrix:
        """Return the values of all items."""
        rows = LogPageRank(self.graph.operator)(np.arange(self.n))
        rows = np.minimum(rows, rows.T)  # equal but for rounding
        return as_dissimilarity(rows, self.spec.name, facts=facts("log_pagerank"))

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the values from new items, whose walks go on from their neighbours."""
        steps = self.graph.new_steps(new)
        # P is symmetric, so that B_old P takes a run of PageRank per new item.
        start = np.asarray(steps.across.T.toarray())
        onwards = pagerank_smoothed(self.graph.operator, start, RESTART, FLOOR / 1000).T
        share = solved(steps, RESTART, (1.0 - RESTART) * onwards)
        return np.asarray(np.maximum(-np.log(np.maximum(share, 0.0) + FLOOR), 0.0))


PRECISION, SINGLE_PRECISION = 1e-8, 1e-4
"""To which smoothed attributes are computed: far below what their distances tell."""


class GraphRows(RelationSource, TableSource):
    """A view of attributes along a graph, which starts from their rows at length 1.

    Wide attributes are taken by their 256 leading singular vectors (:func:`narrow`).
    """

    metric = "angular"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns = spec.select_columns(data.columns)
        self.data = data

    @cached_property
    def encoding(self) -> Encoding:
        """The columns as features, computed when they are first needed."""
        return self.data.encoding(self.columns)

    def starting_rows(self, items: Items) -> Any:
        """Return the rows of items before they are smoothed, (n, d), dense or CSR."""
        from sklearn.preprocessing import normalize

        here = items is self.items
        return normalize(self.encoding.features if here else self.encoding.transform(items))

    @property
    def start_key(self) -> tuple[Any, ...]:
        """Under which sources that start from the same rows share them."""
        return "start", self.starting_rows.__qualname__, tuple(c.name for c in self.columns)

    @property
    def narrowed(self) -> tuple[Floats, Any]:
        """The rows before they are smoothed, (n, d), and their leading directions.

        These are the leading singular vectors of large and wide tables, else None.
        """
        found: tuple[Floats, Any] = self.data.once(
            self.start_key, lambda: narrow(self.starting_rows(self.items))
        )
        return found

    @property
    def start(self) -> Floats:
        """The rows of all items before they are smoothed, (n, d)."""
        return self.narrowed[0]

    def new_start(self, new: NewItemData) -> Floats:
        """Return the rows of new items before they are smoothed, (m, d)."""
        rows, directions = self.starting_rows(new.items), self.narrowed[1]
        if directions is not None:
            return np.asarray(rows @ directions)
        return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())

    def smooth(self, graph: ItemGraph | None = None) -> Floats:
        """Return the rows, smoothed by PageRank over the links, or over another graph, (n, d)."""
        operator, single = (graph or self.links).operator, self.start.dtype == np.float32
        precision = SINGLE_PRECISION if single else PRECISION
        return pagerank_smoothed(operator, self.start, self.spec.restart, precision)

    def walk(self, rows: Floats, weights: Sequence[float]) -> Floats:
        """Return the sum of rows after 0, 1, ... steps along the links, each with its weight."""
        return walked(self.links.operator, rows, weights)

    def step(self, rows: Floats) -> Floats:
        """Return the rows after one step along the links."""
        return self.walk(rows, (0.0, 1.0))


class ShareRows(GraphRows):
    """A view of attributes as shares of their row, of mean square 1 after they are smoothed.

    Counts are taken as they are, other attributes as they are encoded.
    """

    metric = "euclidean"
    joins_nearest = False

    def starting_rows(self, items: Items) -> Any:
        """Return the attributes of items, over the sum of their sizes."""
        from sklearn.preprocessing import normalize

        if all(column.kind == "count" for column in self.columns):
            return normalize(counts_of(items, self.columns), norm="l1")
        here = items is self.items
        rows = self.encoding.features if here else self.encoding.transform(items)
        return normalize(rows, norm="l1")

    @property
    def smoothed(self) -> Floats:
        """The shares of all items, smoothed, (n, d)."""
        raise NotImplementedError

    def new_smoothed(self, new: NewItemData) -> Floats:
        """Return the shares of new items, smoothed, (m, d)."""
        raise NotImplementedError

    @cached_property
    def size(self) -> float:
        """The root mean square length of the smoothed rows."""
        return float(np.sqrt(np.square(self.smoothed).sum(axis=1).mean())) or 1.0

    @cached_property
    def table(self) -> Floats:
        """The smoothed shares, of mean square 1."""
        return self.smoothed / self.size

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the smoothed shares of new items on the scale of the fit."""
        return self.new_smoothed(new) / self.size
