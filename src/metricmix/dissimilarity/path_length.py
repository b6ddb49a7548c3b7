"""Path lengths in a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.breadth_first import (
    breadth_first,
    breadth_first_all_pairs,
    clipped_path_lengths,
)
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_ids import graph_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.sources import ComputedSource
from metricmix.exceptions import InputError, UnreachableWarning, warn_caller
from metricmix.metric import metric_violations
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_number, check_square_fits

__all__ = [
    "GraphSource",
    "all_path_lengths",
    "check_unreachable",
    "check_unreachable_length",
    "fill_unreachable",
    "path_length",
]


Unreachable = str | float | None
ROUNDING = 1e-9
"""Share of the longest path by which rounding may violate the triangle inequality."""


@states(
    SourceFacts("pseudo-metric", directed=True, row_cost="O(E), with edge lengths O(E log n)"),
)
def path_length(
    graph: Any,
    *,
    nodes: Any = None,
    weight: str | None = None,
    directed: bool = False,
    unreachable: Unreachable = None,
) -> DissimilarityMatrix:
    """Length of the shortest path: ``M[i, j] = min over paths i to j of the sum of edge lengths``.

    Parameters
    ----------
    graph, nodes, weight, directed
        See :func:`~metricmix.dissimilarity.graphs.as_graph`: matrices, networkx, igraph, edge
        tables. Without weights every edge has length 1. With ``directed=True``, M[i, j] is the
        length from i to j.
    unreachable : None, "bridge", number >= 0, "raise" or "inf"
        What pairs without a path are worth. "bridge": the largest finite path length + the
        largest edge length (1 if there is none), as if one more edge led there. None, the default,
        does the same with an :class:`~metricmix.exceptions.UnreachableWarning`. "inf" leaves them
        infinite, which a stack refuses. A number c has to preserve the triangle inequality: if i
        and j are joined by a path and k is not, ``M[i, j] <= M[i, k] + M[k, j] = 2 c``, so c is at
        least half of the longest path. With ``directed=True``, where k may be joined to i or j in
        one direction, ``c >= M[i, j] - M[k, j]`` and ``c >= M[i, j] - M[i, k]`` are needed too
        (checked in O(n^3) if c is below the longest path, which is always enough).

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "path_length", with the number of ordered pairs without a path in `n_unreachable`, and
        the ids of the nodes in `items`, by which a stack lines it up (None for numbered rows).
        Edges of length zero are edges. Costs O(n E / 64) word operations per level of the
        breadth-first search without weights, O(n E log n) with them.

    Raises
    ------
    InputError
        If the graph is not acceptable, pairs are unreachable under ``unreachable="raise"``, or a
        number for them violates the triangle inequality.

    >>> path_length([(0, 1), (1, 2)], nodes=4, unreachable="bridge")
    DissimilarityMatrix([[0., 1., 2., 3.],
                         [1., 0., 1., 3.],
                         [2., 1., 0., 3.],
                         [3., 3., 3., 0.]])
    """
    check_unreachable(unreachable)
    lengths = as_graph(graph, nodes=nodes, weight=weight, directed=directed)
    distances = all_path_lengths(lengths)
    longest_edge = float(lengths.adjacency.data.max(initial=0.0))
    missing = fill_unreachable(distances, longest_edge, unreachable, directed=directed)
    items = graph_items(graph, nodes, lengths.nodes)
    known = replace(facts("path_length"), directed=directed)
    return as_dissimilarity(distances, "path_length", missing, items, known)


def all_path_lengths(graph: Graph) -> Floats:
    """Return all path lengths of `graph`, inf where there is no path."""
    adjacency = graph.adjacency
    # The result, infinite entries marked; searches of sparse graphs, or there and back apart.
    needed = 8 + 1 + (8 if graph.weighted else 4)
    instead = "use fewer items, or GraphSource, which searches on demand"
    n = adjacency.shape[0]
    check_square_fits(
        n, needed, what="the matrix of path lengths", argument="graph", instead=instead
    )
    if not graph.weighted:
        return breadth_first_all_pairs(adjacency.indptr, adjacency.indices)
    from scipy.sparse.csgraph import dijkstra

    # scipy keeps stored zeros as edges of sparse (not of dense) input; the adjacency holds both
    # directions already, so that its own symmetrisation is not needed.
    distances: Floats = dijkstra(adjacency, directed=True)
    # There and back the same numbers are added in another order.
    return distances if graph.directed else np.minimum(distances, distances.T)


def check_unreachable(unreachable: Unreachable) -> None:
    """Raise unless `unreachable` names a policy."""
    if unreachable is None or unreachable in ("bridge", "raise", "inf"):
        return
    if isinstance(unreachable, str):
        raise InputError(
            argument="unreachable",
            expected="'bridge', 'raise', 'inf' or a number >= 0",
            found=f"{unreachable!r}",
        )
    check_number(unreachable, name="unreachable", low=0.0)


def fill_unreachable(
    distances: Floats,
    longest_edge: float,
    unreachable: Unreachable,
    *,
    directed: bool = False,
) -> int:
    """Give infinite entries a value, in place, and return how many there were.

    `longest_edge` is what "bridge" adds to the largest finite distance; 0 stands for 1, so that
    what is not connected is never at distance zero. A number that would violate the triangle
    inequality is an :class:`~metricmix.exceptions.InputError`.
    """
    infinite = np.isinf(distances)
    missing = int(infinite.sum())
    if missing == 0 or unreachable == "inf":
        return missing
    n = len(distances)
    pairs = n * (n - 1)
    share = f"{missing} of {pairs} ordered pairs ({missing / pairs:.1%})"
    if unreachable == "raise":
        i, j = np.unravel_index(int(infinite.argmax()), infinite.shape)
        raise InputError(
            f"{share} have no path, such as ({i}, {j})",
            argument="graph",
            remedy=("pass unreachable='bridge' or a number, or keep one connected component"),
        )
    largest = float(np.max(distances, where=~infinite, initial=0.0))
    if unreachable is None or unreachable == "bridge":
        value = largest + (longest_edge or 1.0)
    else:
        value = float(unreachable)
        if not directed:
            check_unreachable_length(value, largest)
    distances[infinite] = value
    if directed and value < largest:
        excess = metric_violations(distances, directed=True).triangle
        if excess > ROUNDING * largest:
            raise InputError(
                argument="unreachable",
                expected="a number that preserves the triangle inequality",
                found=f"{value:g}",
                remedy=f"pass {largest:g}, the longest path, or more",
            )
    if unreachable is None:
        warn_caller(
            f"{share} have no path and were given {value:g}, the largest path length plus the "
            "largest edge length; pass unreachable='bridge' to agree, or a number",
            UnreachableWarning,
        )
    return missing


def check_unreachable_length(value: float, longest: float) -> None:
    """Raise unless pairs without a path may have this length beside paths of length `longest`."""
    if 2 * value < longest * (1 - ROUNDING):
        raise InputError(
            argument="unreachable",
            expected=f"at least {longest / 2:g}, to satisfy the triangle inequality",
            found=f"{value:g}",
            remedy="pass that or more, or 'bridge'",
        )


class GraphSource(ComputedSource):
    """Path lengths of an unweighted graph, by one breadth-first search per row.

    Unreachable pairs need a stated length here, since the largest finite distance of the whole
    graph is not known without searching all of it.

    Parameters
    ----------
    graph : graph
        As in :func:`~metricmix.dissimilarity.path_length`; weights are ignored.
    unreachable : float
        Length given to pairs without a path. In an undirected graph, a row with a path more than
        twice as long raises :class:`~metricmix.exceptions.InputError`: the triangle inequality
        would not hold. In a directed one it is up to the caller that it does.
    clipped : bool
        Whether longer paths count as `unreachable` too, which is then a whole number. The length
        of a pair is found from the surroundings of its two ends.
    nodes, directed
        As in :func:`~metricmix.dissimilarity.path_length`.
    name : str, optional
    """

    def __init__(
        self,
        graph: Any,
        *,
        unreachable: float,
        clipped: bool = False,
        nodes: Any = None,
        directed: bool = False,
        name: str | None = None,
    ) -> None:
        forward = as_graph(graph, nodes=nodes, weight="ignore", directed=directed).adjacency
        backward = forward.T.tocsr() if directed else forward
        longest = check_integer(unreachable, name="unreachable", low=1) if clipped else 0

        def search(adjacency: Any) -> Callable[[Indices], AnyArray]:
            indptr, indices = adjacency.indptr, adjacency.indices

            def rows(sources: Indices) -> AnyArray:
                hops = breadth_first(indptr, indices, sources).astype(np.float64)
                missing = (hops < 0) | (hops > longest) if clipped else hops < 0
                if not directed and not clipped:
                    apart = missing.any(axis=1)
                    check_unreachable_length(unreachable, float(hops[apart].max(initial=0.0)))
                hops[missing] = unreachable
                return hops

            return rows

        def lengths(i: Indices, j: Indices) -> AnyArray:
            there, back = ((A.indptr, A.indices) for A in (forward, backward))
            return clipped_path_lengths(there, back, i, j, longest)

        super().__init__(
            forward.shape[0],
            search(forward),
            columns=search(backward),
            pairs=lengths if clipped else None,
            name=name or "path_length",
        )
        self.directed = directed
        known = replace(facts("path_length"), directed=directed)
        self.facts = replace(known, metric="no") if directed else known
