"""Path lengths in a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.breadth_first import breadth_first, longest_path
from metricmix.dissimilarity.graphs import Graph
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.matrix import DissimilarityMatrix, facts
from metricmix.dissimilarity.neighbour_overlap import ShortPaths
from metricmix.dissimilarity.path_length import GraphSource, path_length
from metricmix.dissimilarity.relation_sources import RelationSource, graph_from_edges
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats, Indices

__all__ = ["PathRows", "PathSource"]

FAR_APART = 4
"""Links from which on two items are equally far apart, where only values of pairs are computed."""


@KINDS.register(
    "paths",
    words="path lengths in a graph",
    example="roads=paths:roads.csv:directed",
    order=10,
    needs=("relation",),
    kind_of_groups="jaccard",
    directed=True,
    report="path lengths",
)
class PathSource(RelationSource):
    """Path lengths; pairs without a path get the largest one plus the longest edge."""

    needs_known = True

    def matrix(self) -> DissimilarityMatrix:
        """Return all path lengths."""
        graph = self.links.graph
        return path_length(graph, directed=graph.directed, unreachable="bridge")

    def by_pairs(self) -> Source:
        """Return the lengths of paths of at most four links, or of two that have lengths."""
        return self._bounded(self.links.graph)

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
        if self.links.edges.weights is not None and edges.weights is not None:
            weights = np.concatenate([self.links.edges.weights, edges.weights])
        ends = np.concatenate([self.links.edges.ends, edges.ends])
        total = self.n + len(new.items.ids)
        joined = replace(self.links.edges, n_nodes=total, ends=ends, weights=weights)
        graph = graph_from_edges(joined, total, directed=True)
        return np.minimum(self._bounded(graph).pairs(self.n + x, j), self._farthest)

    @property
    def _farthest(self) -> float:
        """The largest bounded path length."""
        longest = float(self.links.graph.adjacency.data.max())
        return 2.0 * longest if self.links.graph.weighted else float(FAR_APART)

    def by_rows(self) -> Source:
        """Return all path lengths, by a search for each row."""
        return PathRows(self.links.graph, self.spec.name)

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return the lengths of the paths that begin at new items."""
        n, m = self.n, len(new.items.ids)
        edges = self.links.new_graph(new).adjacency.tocoo()
        longest = float(self.links.graph.adjacency.data.max())
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
            self.links.graph.adjacency, directed=self.links.graph.directed, connection="strong"
        )
        return bool(parts == 1)


class PathRows(Source):
    """All path lengths of a graph, a search for each row; without a path as :class:`PathSource`."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.n, self.name, self.directed = graph.n, name, graph.directed
        known = replace(facts("path_length"), directed=graph.directed)
        self.facts = replace(known, metric="no") if graph.directed else known
        self._graph = graph
        self._back = graph.adjacency.T.tocsr() if graph.directed else graph.adjacency

    @cached_property
    def unreachable(self) -> float:
        """The largest path length plus the longest edge: a search from every item, once."""
        adjacency, largest = self._graph.adjacency, 0.0
        if not self._graph.weighted:
            return longest_path(adjacency.indptr, adjacency.indices) + 1.0
        for start in range(0, self.n, 256):
            rows = self._search(adjacency, np.arange(start, min(self.n, start + 256)))
            largest = max(largest, float(rows.max(where=np.isfinite(rows), initial=0.0)))
        return largest + float(adjacency.data.max())

    def _bridged(self, rows: Floats) -> Floats:
        """Return rows with `unreachable` where there is no path."""
        apart = np.isinf(rows)
        return np.where(apart, self.unreachable, rows) if apart.any() else rows

    def _search(self, adjacency: Any, items: Indices) -> Floats:
        if not self._graph.weighted:
            hops = breadth_first(adjacency.indptr, adjacency.indices, items)
            return np.where(hops < 0, np.inf, hops)
        from scipy.sparse.csgraph import dijkstra

        return np.asarray(dijkstra(adjacency, indices=items))

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return self._bridged(self._search(self._graph.adjacency, np.asarray(indices)))

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``."""
        return self._bridged(self._search(self._back, np.asarray(indices)))
