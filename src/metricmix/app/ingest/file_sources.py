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
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import Column, Encoding, encode
from metricmix.app.ingest.edge_list import EdgeFile
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.dissimilarity.diffusion import (
    diffusion,
    pagerank_smoothed,
    smoothing_operator,
    strengths_of,
)
from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.neighbour_overlap import jaccard
from metricmix.dissimilarity.path_length import knn_path_length, path_length
from metricmix.exceptions import InputError
from metricmix.typing import Floats

__all__ = ["FileSource", "GraphFileSource", "NewItemData", "graph_from_edges", "make_source"]


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

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the dissimilarities from m new items to all items, (m, n).

        `known` is what :meth:`matrix` returned. InputError if the kind does not support new items.
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
    def smoothed(self) -> Floats:
        """The attributes, each row of norm 1, smoothed along the graph: (n, d)."""
        operator = smoothing_operator(self.graph)
        return pagerank_smoothed(operator, _unit_rows(self.encoding.features), self.spec.restart)

    @cached_property
    def applied(self) -> Any:
        """The cosine distances of the smoothed attributes."""
        return features(metric="cosine").apply(self.smoothed)

    def matrix(self) -> Floats:
        """Return the cosine distances of all items."""
        return np.asarray(self.applied.matrix)

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
        attributes = _unit_rows(self.encoding.transform(new.items))
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


class MatrixSource(FileSource):
    """A matrix that was given."""

    def __init__(self, spec: SourceSpec, items: ItemTable, values: Floats | None) -> None:
        super().__init__(spec, items)
        self.values = values

    def matrix(self) -> Floats:
        """Return the matrix."""
        assert self.values is not None
        return self.values

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
