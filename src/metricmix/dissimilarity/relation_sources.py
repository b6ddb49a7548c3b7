r"""Sources computed from graphs and memberships in files, and from new items to all items.

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

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.breadth_first import breadth_first
from metricmix.dissimilarity.diffusion import (
    pagerank_smoothed,
    smoothing_operator,
    strengths_of,
)
from metricmix.dissimilarity.features import FeatureSource, features
from metricmix.dissimilarity.graph_sources import DIRECTIONS, WIDE_FROM
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.nearest_items import NearestItems, nearest_items
from metricmix.dissimilarity.neighbour_overlap import SharedNeighbours, ShortPaths
from metricmix.dissimilarity.path_length import path_length
from metricmix.dissimilarity.sources import GraphSource, Source
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.items.columns import Column, Encoding, encode
from metricmix.items.items import Items
from metricmix.items.memberships import Memberships
from metricmix.items.relation import Relation
from metricmix.kernels.threads import blas_threads
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "JaccardSource",
    "MembershipSource",
    "PageRankSource",
    "PathSource",
    "RelationSource",
    "SmoothedSource",
    "graph_from_edges",
]

FAR_APART = 4
"""Links from which on two items are equally far apart, where only values of pairs are computed."""


class RelationSource(ItemSource):
    """A source computed from a graph: `edges` between items, numbered as in the table.

    Where the file holds `memberships`, the edges are those of their projection.
    """

    def __init__(self, spec: SourceSpec, items: Items, edges: Relation | Memberships) -> None:
        super().__init__(spec, items)
        self.memberships = edges if isinstance(edges, Memberships) else None
        self.edges = edges.projection if isinstance(edges, Memberships) else edges

    @property
    def links(self) -> RelationSource:
        """Itself."""
        return self

    @property
    def one_way(self) -> bool:
        """Whether edges are followed in one direction only."""
        kinds_of_walks = self.spec.direction in ("in", "out")
        return self.edges.directed and (self.spec.kind == "paths" or kinds_of_walks)

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

    def attached(self, new: NewItemData, restart: float, own: Any, known: Any) -> Floats:
        """Return the smoothed rows of new items, (m, d).

        They solve ``Z = restart own + (1 - restart) (B_new Z + B_old known)``, `own` being the rows
        of the new items (m, d) before, and `known` those of all items (n, d) after smoothing.
        """
        from scipy.sparse import eye_array
        from scipy.sparse.linalg import spsolve

        n, m = self.n, len(new.items.ids)
        strengths = strengths_of(self.new_graph(new))[n:]
        mine = 1.0 + np.asarray(strengths.sum(axis=1)).ravel()
        if self.one_way:
            left, right_old, right_new = 1.0 / mine, np.ones(n), np.ones(m)
        else:
            old = 1.0 + np.asarray(strengths_of(self.graph).sum(axis=1)).ravel()
            left = right_new = 1.0 / np.sqrt(mine)
            right_old = 1.0 / np.sqrt(old)
        across = strengths[:, :n].multiply(left[:, None]).multiply(right_old[None, :])
        among = (strengths[:, n:] + eye_array(m)).multiply(left[:, None])
        among = among.multiply(right_new[None, :])
        right = restart * own + (1.0 - restart) * (across @ known)
        system = (eye_array(m) - (1.0 - restart) * among).tocsc()
        return np.asarray(spsolve(system, right)).reshape(m, -1)


class PathSource(RelationSource):
    """Path lengths; pairs without a path get the largest one plus the longest edge."""

    def matrix(self) -> DissimilarityMatrix:
        """Return all path lengths."""
        return path_length(self.graph, directed=self.graph.directed, unreachable="bridge")

    def by_pairs(self) -> Source:
        """Return the lengths of paths of at most four links, or of two that have lengths."""
        return self._bounded(self.graph)

    def _bounded(self, graph: Graph) -> Source:
        directed, name = graph.directed, self.spec.name
        if graph.weighted:
            return ShortPaths(graph, directed=directed, name=name)
        return GraphSource(graph, unreachable=FAR_APART, clipped=True, directed=directed, name=name)

    def new_pairs(self, new: NewItemData, x: Indices, j: Indices) -> Floats:
        """Return the same in the graph with the new items; other new items may lie between."""
        edges = new.edges.get(self.spec.file or "")
        if edges is None:
            return np.full(len(x), self._farthest)
        weights = None
        if self.edges.weights is not None and edges.weights is not None:
            weights = np.concatenate([self.edges.weights, edges.weights])
        ends = np.concatenate([self.edges.ends, edges.ends])
        joined = replace(self.edges, ends=ends, weights=weights)
        total = self.n + len(new.items.ids)
        graph = graph_from_edges(joined, total, directed=True)
        return np.minimum(self._bounded(graph).pairs(self.n + x, j), self._farthest)

    @property
    def _farthest(self) -> float:
        """The largest bounded path length."""
        longest = float(self.graph.adjacency.data.max())
        return 2.0 * longest if self.graph.weighted else float(FAR_APART)

    def by_rows(self) -> Source:
        """Return all path lengths, by a search for each row."""
        return GraphRows(self.graph, self.spec.name)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the lengths of the paths that begin at new items."""
        n, m = self.n, len(new.items.ids)
        edges = self.new_graph(new).adjacency.tocoo()
        longest = float(self.graph.adjacency.data.max())
        farthest = float(known.max())
        # The largest entry is that of pairs without a path, unless the graph is connected.
        lengths = known if self._connected else np.where(known < farthest, known, np.inf)
        rows = np.full((m, n), np.inf)
        among = []
        for x, u, length in zip(
            edges.row.tolist(), edges.col.tolist(), edges.data.tolist(), strict=True
        ):
            if x >= n > u:
                np.minimum(rows[x - n], length + lengths[u], out=rows[x - n])
            elif x >= n:
                among.append((x - n, u - n, length))
        for _ in range(m):  # a path goes through m new items at most
            before = rows.copy()
            for x, y, length in among:
                np.minimum(rows[x], length + rows[y], out=rows[x])
            if np.array_equal(before, rows):
                break
        reached = np.isfinite(rows)
        own = rows.max(axis=1, keepdims=True, where=reached, initial=farthest)
        return np.asarray(np.where(reached, rows, own + (longest if self._connected else 0.0)))

    @property
    def _connected(self) -> bool:
        """Whether there is a path between any two items."""
        from scipy.sparse.csgraph import connected_components

        parts, _ = connected_components(
            self.graph.adjacency, directed=self.graph.directed, connection="strong"
        )
        return bool(parts == 1)


class SmoothedSource(RelationSource):
    """Angles between attributes, averaged over random walks in the graph."""

    def __init__(
        self,
        spec: SourceSpec,
        items: Items,
        edges: Relation | Memberships,
        columns: tuple[Column, ...],
    ) -> None:
        super().__init__(spec, items, edges)
        self.columns = columns

    @cached_property
    def encoding(self) -> Encoding:
        """All attributes as features."""
        return encode(self.items, self.columns)

    @cached_property
    def directions(self) -> Any:
        """The 256 leading directions of attributes too wide to be smoothed, (d, 256); else None."""
        features = self.encoding.features
        if features.shape[1] <= DIRECTIONS or float(np.prod(features.shape)) <= WIDE_FROM:
            return None
        from sklearn.decomposition import TruncatedSVD

        with blas_threads(1):
            svd = TruncatedSVD(DIRECTIONS, n_iter=2, random_state=0).fit(_unit_rows(features))
        return svd.components_.T

    def _narrow(self, features: Any) -> Any:
        """Return features with each row at norm 1, in the leading directions if there are some."""
        rows = _unit_rows(features)
        return rows if self.directions is None else np.asarray(rows @ self.directions)

    @cached_property
    def smoothed(self) -> Floats:
        """The attributes, each row of norm 1, smoothed along the graph: (n, d)."""
        operator = smoothing_operator(self.graph)
        return pagerank_smoothed(operator, self._narrow(self.encoding.features), self.spec.restart)

    @cached_property
    def applied(self) -> Any:
        """The angles between the smoothed attributes."""
        return features(metric="angular").apply(self.smoothed)

    def matrix(self) -> DissimilarityMatrix:
        """Return the angles of all items."""
        matrix: DissimilarityMatrix = self.applied.matrix
        return matrix

    def by_pairs(self) -> Source:
        """Return the angles of the smoothed attributes."""
        return FeatureSource(self.smoothed, "angular", name=self.spec.name)

    @property
    def table(self) -> Any:
        """The smoothed attributes."""
        return self.smoothed

    def nearest(self, k: int) -> NearestItems:
        """Return the items whose smoothed attributes are at the smallest angle."""
        return nearest_items(self.table, k, "cosine")

    def new_rows(self, new: NewItemData) -> Floats:
        """Return the attributes of new items, smoothed along their edges, (m, d)."""
        own = self._narrow(self.encoding.transform(new.items))
        own = own if isinstance(own, np.ndarray) else own.toarray()
        return self.attached(new, self.spec.restart, own, self.smoothed)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the angles from new items, smoothed along their edges."""
        return np.asarray(self.applied.cross(self.new_rows(new)))


class PageRankSource(RelationSource):
    r"""Angles between the square roots of personalised PageRank vectors.

    Edges that are followed in one direction make the walk :math:`P = D^{-1} (A + I)`.
    """

    @cached_property
    def walks(self) -> Floats:
        """Where walks from each item lead: its PageRank vector in each row, (n, n)."""
        from scipy.sparse import eye_array

        restart = self.spec.restart
        if not self.one_way:
            return pagerank_smoothed(smoothing_operator(self.graph), np.eye(self.n), restart)
        from scipy.linalg import solve

        looped = (strengths_of(self.graph) + eye_array(self.n)).tocsr()
        steps = looped.multiply(1.0 / np.asarray(looped.sum(axis=1)).ravel()[:, None])
        system = np.eye(self.n) - (1.0 - restart) * steps.toarray()
        return np.asarray(solve(system, restart * np.eye(self.n), overwrite_a=True))

    def matrix(self) -> DissimilarityMatrix:
        """Return the distances of the PageRank vectors."""
        return features(_roots(self.walks), "angular")

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from new items, whose walks go on from their neighbours."""
        m = len(new.items.ids)
        known_walks = np.hstack([self.walks, np.zeros((self.n, m))])
        own = np.hstack([np.zeros((m, self.n)), np.eye(m)])
        reached = self.attached(new, self.spec.restart, own, known_walks)
        return np.asarray(
            features(metric="angular").apply(_roots(known_walks)).cross(_roots(reached))
        )


class JaccardSource(RelationSource):
    """Jaccard distances of neighbourhoods, or of the things that items belong to."""

    @cached_property
    def shared(self) -> SharedNeighbours:
        """The distances, by the rows of neighbours or things."""
        if self.memberships is not None:
            return SharedNeighbours.of(self.memberships.presence, self.spec.name)
        return SharedNeighbours.of(_ones(self.graph.adjacency), self.spec.name)

    def matrix(self) -> DissimilarityMatrix:
        """Return one minus the Jaccard index of the neighbourhoods."""
        rows = self.shared.rows(np.arange(self.n))
        return as_dissimilarity(rows, self.spec.name, facts=self.shared.facts)

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""
        return self.shared

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances of the neighbourhoods of new items; other new items are in none."""
        if self.memberships is not None:
            return self.shared.cross(_ones(new_memberships(self, new)))
        rows = _ones(self.new_graph(new).adjacency)[self.n :]
        among = np.diff(rows[:, self.n :].tocsr().indptr)
        return self.shared.cross(rows[:, : self.n].tocsr(), among)


class MembershipSource(RelationSource):
    """Angles between memberships; things that few items belong to count more."""

    @cached_property
    def table(self) -> Any:
        """The weighted memberships, (n, T)."""
        assert self.memberships is not None
        return self.memberships.weighted(self.memberships.table)

    @cached_property
    def applied(self) -> Any:
        """The angles between the memberships."""
        return features(metric="angular").apply(self.table)

    def matrix(self) -> DissimilarityMatrix:
        """Return the angles of all items."""
        matrix: DissimilarityMatrix = self.applied.matrix
        return matrix

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""
        return FeatureSource(self.table, "angular", name=self.spec.name)

    def nearest(self, k: int) -> NearestItems:
        """Return the items whose memberships are at the smallest angle."""
        return nearest_items(self.table, k, "cosine")

    def new_rows(self, new: NewItemData) -> Any:
        """Return the weighted memberships of new items, (m, T)."""
        assert self.memberships is not None
        return self.memberships.weighted(new_memberships(self, new))

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the angles from the memberships of new items."""
        return np.asarray(self.applied.cross(self.new_rows(new)))


def new_memberships(source: RelationSource, new: NewItemData) -> Any:
    """Return the memberships of new items, in the things of the fit: CSR (m, T)."""
    from scipy.sparse import csr_array

    assert source.memberships is not None
    given = new.memberships.get(source.spec.file or "")
    shape = (len(new.items.ids), len(source.memberships.things))
    return csr_array(shape) if given is None else given


def _ones(table: Any) -> Any:
    """Return a CSR array with 1 in place of every stored entry."""
    from scipy.sparse import csr_array

    ones = np.ones(len(table.indices))
    return csr_array((ones, table.indices, table.indptr), shape=table.shape)


def _roots(table: Floats) -> Floats:
    """Return the square roots; entries are negative by rounding only."""
    return np.asarray(np.sqrt(np.maximum(table, 0.0)))


class GraphRows(Source):
    """All path lengths of a graph, a search for each row; without a path as :class:`PathSource`."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.n, self.name, self.directed = graph.n, name, graph.directed
        self._graph = graph
        self._back = graph.adjacency.T.tocsr() if graph.directed else graph.adjacency

    @cached_property
    def unreachable(self) -> float:
        """The largest path length plus the longest edge: a search from every item, once."""
        largest = 0.0
        for start in range(0, self.n, 256):
            rows = self._search(self._graph.adjacency, np.arange(start, min(self.n, start + 256)))
            largest = max(largest, float(rows.max(where=np.isfinite(rows), initial=0.0)))
        return largest + float(self._graph.adjacency.data.max())

    def _search(self, adjacency: Any, items: Indices) -> Floats:
        if not self._graph.weighted:
            hops = breadth_first(adjacency.indptr, adjacency.indices, items)
            return np.where(hops < 0, np.inf, hops)
        from scipy.sparse.csgraph import dijkstra

        return np.asarray(dijkstra(adjacency, indices=items))

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        rows = self._search(self._graph.adjacency, np.asarray(indices))
        return np.where(np.isinf(rows), self.unreachable, rows)

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``."""
        rows = self._search(self._back, np.asarray(indices))
        return np.where(np.isinf(rows), self.unreachable, rows)


def graph_from_edges(edges: Relation, n: int, *, directed: bool) -> Graph:
    """Return edges between numbered items as a graph over n of them."""
    from scipy.sparse import coo_array

    weights = np.ones(len(edges.ends)) if edges.weights is None else edges.weights
    matrix = coo_array((weights, (edges.ends[:, 0], edges.ends[:, 1])), shape=(n, n))
    return as_graph(matrix, nodes=n, weight=edges.weight, directed=directed and edges.directed)


def _unit_rows(table: Any) -> Any:
    """Return the rows scaled to norm 1; zero rows stay zero."""
    from sklearn.preprocessing import normalize

    return normalize(table)
