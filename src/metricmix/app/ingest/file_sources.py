r"""Sources computed from files: dissimilarities of all items, and of new items to them.

New items are *attached*: what was computed for the n items of the fit stays as it is, and the
dissimilarities of a new item x follow from its own data.

- *Columns*: the distance of its encoded cells, by the medians, categories and words of the fit.
- *Paths*: :math:`\min_u \ell(x, u) + M[u, j]` over its edges; other new items may lie between.
  Without a path, it is the largest distance plus the longest edge, as in the fit.
- *Smoothed*: with :math:`B = D^{-1/2} (A + I) D^{-1/2}`, of which only the rows of new items are
  computed, and the restart probability r, their smoothed attributes solve
  :math:`Z = r F + (1 - r)(B_{new} Z + B_{old} Z_{old})`.
- *Matrix*: its row is given.

A source is also known by its rows and by the values of pairs (:meth:`FileSource.by_pairs`), so that
neither needs the matrix of all items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import Column, Encoding, encode
from metricmix.app.ingest.edge_list import EdgeFile
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.dissimilarity.breadth_first import breadth_first
from metricmix.dissimilarity.default_sources import DIRECTIONS, WIDE_FROM
from metricmix.dissimilarity.diffusion import (
    diffusion,
    pagerank_smoothed,
    smoothing_operator,
    strengths_of,
)
from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.nearest_items import NearestItems, nearest_items, one_blas_thread
from metricmix.dissimilarity.neighbour_overlap import SharedNeighbours, ShortPaths, jaccard
from metricmix.dissimilarity.path_length import knn_path_length, path_length
from metricmix.dissimilarity.sources import DenseSource, FeatureSource, GraphSource, Source
from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices

__all__ = ["FileSource", "GraphFileSource", "NewItemData", "graph_from_edges", "make_source"]

FAR_APART = 4
"""Links from which on two items are equally far apart, where only values of pairs are computed."""
ANGLES = ("cosine", "angular", "correlation")
"""Metrics by which the nearest items are those at the smallest angle."""


@dataclass(frozen=True)
class NewItemData:
    """New items: their table, their edges by graph file, their rows by the name of the source.

    Edges go between new items, numbered from n on, and items of the fit, numbered up to n - 1.
    """

    items: ItemTable
    edges: dict[str, EdgeFile]
    rows: dict[str, Floats]


class FileSource(ABC):
    """A source over the n items of a table, computed from files."""

    def __init__(self, spec: SourceSpec, items: ItemTable) -> None:
        self.spec, self.items = spec, items
        self.n = len(items.ids)

    @abstractmethod
    def matrix(self) -> Floats:
        """Return the dissimilarities of all items, (n, n)."""

    def by_pairs(self) -> Source | None:
        """Return the source by rows and by values of pairs, at a cost that does not grow with n.

        Path lengths are bounded there: they end at four links, or at two that have lengths. None if
        a value takes those of all items.
        """
        return None

    def by_rows(self) -> Source | None:
        """Return the source by rows, with the values of :meth:`matrix`.

        None if a row takes those of all items.
        """
        return self.by_pairs()

    @property
    def table(self) -> Any:
        """The rows that distances are computed from, dense or CSR; None if there are none."""
        return None

    def nearest(self, k: int) -> NearestItems | None:
        """Return the k nearest items of every item; None unless it is a table or a matrix."""
        return None

    def new_pairs(self, new: NewItemData, x: Indices, j: Indices) -> Floats:
        """Return the dissimilarities from new items x to items j elementwise, as in `by_pairs`."""
        return self.cross(new, None)[x, j]

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the dissimilarities from m new items to all items, (m, n).

        `known` is what :meth:`matrix` returned; path lengths need it. InputError if the kind does
        not support new items.
        """
        raise InputError(
            f"nothing tells how far new items are by {self.spec.kind!r}",
            argument=f"source {self.spec.name!r}",
            remedy="put them into the table with an empty label, and fit again",
        )


class ColumnSource(FileSource):
    """Distances of columns, or path lengths over nearest neighbours by them."""

    def __init__(self, spec: SourceSpec, items: ItemTable, columns: tuple[Column, ...]) -> None:
        super().__init__(spec, items)
        self.columns = columns

    @cached_property
    def encoding(self) -> Encoding:
        """The columns as features."""
        return encode(self.items, self.columns)

    @cached_property
    def applied(self) -> Any:
        """The distance, applied to the features."""
        if self.spec.kind == "knn":
            recipe: Any = knn_path_length(k=self.spec.k, metric=self.spec.metric)
        else:
            recipe = features(metric=self.spec.metric)
        return recipe.apply(self.encoding.features)

    def matrix(self) -> Floats:
        """Return the distances of the columns."""
        return np.asarray(self.applied.matrix)

    def by_pairs(self) -> Source | None:
        """Return the distances of the columns; None for paths over nearest neighbours."""
        if self.spec.kind == "knn":
            return None
        return FeatureSource(self.encoding.features, self.spec.metric, name=self.spec.name)

    @property
    def table(self) -> Any:
        """The encoded columns."""
        return self.encoding.features

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the columns, at the smallest distance or angle."""
        how = "cosine" if self.spec.metric in ANGLES else "euclidean"
        return nearest_items(self.table, k, how)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from the cells of new items."""
        return np.asarray(self.applied.cross(self.encoding.transform(new.items)))


class GraphFileSource(FileSource):
    """A source computed from a graph: `edges` between items, numbered as in the table."""

    def __init__(self, spec: SourceSpec, items: ItemTable, edges: EdgeFile) -> None:
        super().__init__(spec, items)
        self.edges = edges

    @cached_property
    def graph(self) -> Graph:
        """The graph over the items; directed only if the kind is ``paths``."""
        return graph_from_edges(self.edges, self.n, directed=self.spec.kind == "paths")

    def new_graph(self, new: NewItemData) -> Graph:
        """Return the edges of the new items, over n + m nodes."""
        n, m = self.n, len(new.items.ids)
        edges = new.edges.get(self.spec.file or "")
        if edges is None:
            return as_graph(np.empty((0, 2), np.int64), nodes=n + m)
        return graph_from_edges(edges, n + m, directed=self.spec.kind == "paths")


class PathSource(GraphFileSource):
    """Path lengths; pairs without a path get the largest one plus the longest edge."""

    def matrix(self) -> Floats:
        """Return all path lengths."""
        return np.asarray(
            path_length(self.graph, directed=self.graph.directed, unreachable="bridge")
        )

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


class SmoothedSource(GraphFileSource):
    """Cosine distances of attributes, averaged over random walks in the graph."""

    def __init__(
        self, spec: SourceSpec, items: ItemTable, edges: EdgeFile, columns: tuple[Column, ...]
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

        with one_blas_thread():
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
        """The cosine distances of the smoothed attributes."""
        return features(metric="cosine").apply(self.smoothed)

    def matrix(self) -> Floats:
        """Return the cosine distances of all items."""
        return np.asarray(self.applied.matrix)

    def by_pairs(self) -> Source:
        """Return the cosine distances of the smoothed attributes."""
        return FeatureSource(self.smoothed, "cosine", name=self.spec.name)

    @property
    def table(self) -> Any:
        """The smoothed attributes."""
        return self.smoothed

    def nearest(self, k: int) -> NearestItems:
        """Return the items whose smoothed attributes are at the smallest angle."""
        return nearest_items(self.table, k, "cosine")

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the cosine distances from new items, smoothed along their edges."""
        from scipy.sparse import eye_array
        from scipy.sparse.linalg import spsolve

        n, m, restart = self.n, len(new.items.ids), self.spec.restart
        strengths = strengths_of(self.new_graph(new))[n:]
        own = 1.0 + np.asarray(strengths.sum(axis=1)).ravel()
        old = 1.0 + np.asarray(strengths_of(self.graph).sum(axis=1)).ravel()
        across = strengths[:, :n].multiply(1.0 / np.sqrt(own)[:, None] / np.sqrt(old)[None, :])
        among = (strengths[:, n:] + eye_array(m)).multiply(
            1.0 / np.sqrt(own)[:, None] / np.sqrt(own)[None, :]
        )
        attributes = self._narrow(self.encoding.transform(new.items))
        right = restart * attributes + (1.0 - restart) * (across @ self.smoothed)
        left = (eye_array(m) - (1.0 - restart) * among).tocsc()
        smoothed = np.asarray(spsolve(left, right)).reshape(m, -1)
        return np.asarray(self.applied.cross(smoothed))


class PageRankSource(GraphFileSource):
    """Distances of personalised PageRank vectors."""

    def matrix(self) -> Floats:
        """Return the distances of the PageRank vectors."""
        return np.asarray(diffusion(self.graph, restart=self.spec.restart))


class JaccardSource(GraphFileSource):
    """Jaccard distances of neighbourhoods."""

    def matrix(self) -> Floats:
        """Return one minus the Jaccard index of the neighbourhoods."""
        return np.asarray(jaccard(self.graph))

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""
        return SharedNeighbours(self.graph, name=self.spec.name)


class MatrixSource(FileSource):
    """A matrix that was given."""

    def __init__(self, spec: SourceSpec, items: ItemTable, values: Floats | None) -> None:
        super().__init__(spec, items)
        self.values = values

    def matrix(self) -> Floats:
        """Return the matrix."""
        assert self.values is not None
        return self.values

    def by_pairs(self) -> Source:
        """Return the matrix, of which single values are read."""
        directed = bool(self.spec.directed)
        return DenseSource(self.matrix(), name=self.spec.name, directed=directed)

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the entries of each row."""
        values, k = self.matrix(), min(k, self.n - 1)
        items = np.empty((self.n, k), np.int32)
        for i, row in enumerate(values):
            others = np.array(row, dtype=np.float64)
            others[i] = np.inf
            items[i] = np.argsort(others, kind="stable")[:k]
        return NearestItems(items, np.take_along_axis(values, items, axis=1), "blocks", 1.0)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the rows that were given for the new items."""
        if self.spec.name not in new.rows:
            raise InputError(
                argument=f"source {self.spec.name!r}",
                expected="the rows of the new items, found none",
                remedy=(
                    f"pass --matrix {self.spec.name}=FILE with a row per new item and a "
                    "column per item of the fit"
                ),
            )
        return new.rows[self.spec.name]


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


def make_source(
    spec: SourceSpec,
    items: ItemTable,
    columns: tuple[Column, ...],
    edges: EdgeFile | None = None,
    values: Floats | None = None,
) -> FileSource:
    """Return the source that a specification describes.

    `edges` are those of its graph between items; `values` are the entries of its matrix, None
    where only dissimilarities of new items are needed.
    """
    if spec.kind == "matrix":
        return MatrixSource(spec, items, values)
    if spec.uses_columns:
        return ColumnSource(spec, items, spec.select_columns(columns))
    assert edges is not None
    if spec.kind == "smoothed":
        return SmoothedSource(spec, items, edges, spec.select_columns(columns))
    kinds: dict[str, type[PathSource | PageRankSource | JaccardSource]] = {
        "paths": PathSource,
        "pagerank": PageRankSource,
        "jaccard": JaccardSource,
    }
    return kinds[spec.kind](spec, items, edges)


def graph_from_edges(edges: EdgeFile, n: int, *, directed: bool) -> Graph:
    """Return edges between numbered items as a graph over n of them."""
    from scipy.sparse import coo_array

    weights = np.ones(len(edges.ends)) if edges.weights is None else edges.weights
    matrix = coo_array((weights, (edges.ends[:, 0], edges.ends[:, 1])), shape=(n, n))
    return as_graph(matrix, nodes=n, weight=edges.weight, directed=directed and edges.directed)


def _unit_rows(table: Any) -> Any:
    """Return the rows scaled to norm 1; zero rows stay zero."""
    from sklearn.preprocessing import normalize

    return normalize(table)
