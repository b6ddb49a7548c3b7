"""How much the neighbourhoods of two nodes have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    graph_items,
    states,
)
from metricmix.dissimilarity.sources import Source
from metricmix.kernels.compile import kernel
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_square_fits

__all__ = ["SharedNeighbours", "jaccard", "resource_allocation"]


@states(SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n), and the degrees of the neighbours"))
def jaccard(graph: Any, *, nodes: Any = None, closed: bool = False) -> DissimilarityMatrix:
    """Jaccard distance of neighbourhoods: ``1 - |N(i) & N(j)| / |N(i) | N(j)|``.

    Parameters
    ----------
    graph, nodes
        See :func:`~metricmix.dissimilarity.graphs.as_graph`. Weights and directions are ignored:
        only who is joined to whom counts.
    closed : bool
        Count a node among its own neighbours, so that two nodes joined to each other and to the
        same others are at 0. The default is the usual open neighbourhood, under which joined nodes
        without a common neighbour are at 1.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "jaccard", with the ids of the nodes in `items` (None for numbered rows), entries in
        [0, 1]; it obeys the triangle inequality. An isolated node is
        at 1 from every other node, isolated ones included: nothing says that they are alike. Costs
        one sparse product, O(sum of squared degrees), and O(n^2) memory.

    Raises
    ------
    InputError
        If the graph is not acceptable.

    >>> jaccard([(0, 1), (1, 2), (2, 3)], nodes=4)
    DissimilarityMatrix([[0. , 1. , 0.5, 1. ],
                         [1. , 0. , 1. , 0.5],
                         [0.5, 1. , 0. , 1. ],
                         [1. , 0.5, 1. , 0. ]])
    """
    joined = as_graph(graph, nodes=nodes, weight="ignore")
    adjacency = joined.adjacency
    check_square_fits(
        adjacency.shape[0], 25, what="the matrix", argument="graph", instead="take fewer items"
    )
    if closed:
        from scipy.sparse import eye_array

        adjacency = (adjacency + eye_array(adjacency.shape[0])).tocsr()
    common = (adjacency @ adjacency.T).toarray()
    degree = np.diagonal(common)
    union = degree[:, None] + degree[None, :] - common
    np.divide(common, union, out=common, where=union > 0)  # two isolated nodes: 0 of 0 in common
    distances = 1.0 - common
    np.fill_diagonal(distances, 0.0)
    items = graph_items(graph, nodes, joined.nodes)
    return as_dissimilarity(distances, "jaccard", items=items, facts=facts("jaccard"))


class SharedNeighbours(Source):
    """:func:`jaccard` of a graph, computed on demand: a pair costs the degrees of its two nodes.

    Parameters
    ----------
    graph, nodes, closed
        As in :func:`jaccard`.
    name : str, optional
    """

    def __init__(
        self, graph: Any, *, nodes: Any = None, closed: bool = False, name: str | None = "jaccard"
    ) -> None:
        adjacency = as_graph(graph, nodes=nodes, weight="ignore").adjacency
        self.n, self.name, self.facts = adjacency.shape[0], name, facts("jaccard")
        if closed:
            from scipy.sparse import eye_array

            adjacency = (adjacency + eye_array(self.n)).tocsr()
        adjacency.sort_indices()
        self.adjacency, self.degrees = adjacency, np.diff(adjacency.indptr)

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        common: Floats = (self.adjacency[indices] @ self.adjacency.T).toarray()
        union = self.degrees[indices][:, None] + self.degrees - common
        np.divide(common, union, out=common, where=union > 0)
        distances = 1.0 - common
        distances[np.arange(len(indices)), indices] = 0.0
        return distances

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        values = np.empty(len(i))
        ends = np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
        jaccard_of_pairs(self.adjacency.indptr, self.adjacency.indices, *ends, values)
        return values


@kernel
def jaccard_of_pairs(indptr: Ints, indices: Ints, i: Indices, j: Indices, values: Floats) -> None:
    """Fill `values` by merging sorted lists of neighbours."""
    for k in range(i.size):
        a, a_end = indptr[i[k]], indptr[i[k] + 1]
        b, b_end = indptr[j[k]], indptr[j[k] + 1]
        total, common = (a_end - a) + (b_end - b), 0
        while a < a_end and b < b_end:
            if indices[a] == indices[b]:
                common += 1
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                a += 1
            else:
                b += 1
        values[k] = 0.0 if i[k] == j[k] else 1.0
        if common > 0 and i[k] != j[k]:
            values[k] = 1.0 - common / (total - common)


@states(SourceFacts("no", bound=1.0, row_cost="O(n), and the degrees of the neighbours"))
def resource_allocation(graph: Any, *, nodes: Any = None) -> DissimilarityMatrix:
    """Resource allocation, normalised: ``1 - RA_ij / sqrt(RA_ii RA_jj)``.

    ``RA_ij = sum over common neighbours k of 1 / degree(k)`` is what j receives if i sends one unit
    to each neighbour, and each passes it on in equal parts: a neighbour shared by few tells more
    than one shared by many. RA is the Gram matrix of the rows of ``A diag(degree)^(-1/2)``, so that
    dividing by the diagonal makes it a cosine: in [0, 1], whatever the degrees, and exactly 0 for
    nodes with the same neighbours. ``exp(-RA)`` would not be 0 on the diagonal.

    Parameters
    ----------
    graph, nodes
        See :func:`~metricmix.dissimilarity.graphs.as_graph`. Weights and directions are ignored.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "resource_allocation", with the ids of the nodes in `items` (None for numbered rows).
        An isolated node is at 1 from every other node. Costs one
        sparse product, O(sum of squared degrees), and O(n^2) memory.

    Raises
    ------
    InputError
        If the graph is not acceptable.

    >>> resource_allocation([(0, 1), (1, 2), (2, 3)], nodes=4).round(3)
    array([[0.   , 1.   , 0.423, 1.   ],
           [1.   , 0.   , 1.   , 0.423],
           [0.423, 1.   , 0.   , 1.   ],
           [1.   , 0.423, 1.   , 0.   ]])
    """
    joined = as_graph(graph, nodes=nodes, weight="ignore")
    adjacency = joined.adjacency
    degree = np.diff(adjacency.indptr)
    check_square_fits(
        adjacency.shape[0], 8, what="the matrix", argument="graph", instead="take fewer items"
    )
    shares = adjacency.multiply(1 / np.sqrt(np.maximum(degree, 1))[None, :]).tocsr()
    distances = np.asarray(features(shares, "cosine"))
    np.minimum(distances, 1.0, out=distances)
    isolated = np.flatnonzero(degree == 0)
    distances[np.ix_(isolated, isolated)] = 1.0
    np.fill_diagonal(distances, 0.0)
    items = graph_items(graph, nodes, joined.nodes)
    known = facts("resource_allocation")
    return as_dissimilarity(distances, "resource_allocation", items=items, facts=known)
