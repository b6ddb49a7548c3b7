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

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import strengths_of
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_graphs import ItemGraph
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, SourceData
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.relation import Memberships, Relation
from metricmix.typing import AnyArray

__all__ = ["Links", "RelationSource", "graph_from_edges", "links_of"]


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
