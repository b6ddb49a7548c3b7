"""Path lengths in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.items import graph_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.exceptions import InputError, UnreachableWarning, warn_caller
from metricmix.kernels.breadth_first import breadth_first_all_pairs
from metricmix.validation import check_number

__all__ = ["all_path_lengths", "check_unreachable", "fill_unreachable", "path_length"]

Unreachable = str | float | None


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
        infinite, which a stack refuses.

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
        If the graph is not acceptable, or pairs are unreachable under ``unreachable="raise"``.

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
    missing = fill_unreachable(distances, longest_edge, unreachable)
    items = graph_items(graph, nodes, lengths.nodes)
    return as_dissimilarity(distances, "path_length", missing, items)


def all_path_lengths(graph: Graph) -> NDArray[np.float64]:
    """Return all path lengths of `graph`, inf where there is no path."""
    adjacency = graph.adjacency
    if not graph.weighted:
        return breadth_first_all_pairs(adjacency.indptr, adjacency.indices)
    from scipy.sparse.csgraph import dijkstra

    # scipy keeps stored zeros as edges of sparse (not of dense) input; the adjacency holds both
    # directions already, so that its own symmetrisation is not needed.
    distances: NDArray[np.float64] = dijkstra(adjacency, directed=True)
    # There and back the same numbers are added in another order.
    return distances if graph.directed else np.minimum(distances, distances.T)


def check_unreachable(unreachable: Unreachable) -> None:
    """Raise unless `unreachable` names a policy."""
    if unreachable is None or unreachable in ("bridge", "raise", "inf"):
        return
    if isinstance(unreachable, str):
        raise InputError(
            f"unreachable: expected 'bridge', 'raise', 'inf' or a number >= 0, got {unreachable!r}"
        )
    check_number(unreachable, name="unreachable", low=0.0)


def fill_unreachable(
    distances: NDArray[np.float64],
    longest_edge: float,
    unreachable: Unreachable,
) -> int:
    """Give infinite entries a value, in place, and return how many there were.

    `longest_edge` is what "bridge" adds to the largest finite distance; 0 stands for 1, so that
    what is not connected is never at distance zero.
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
            f"graph: {share} have no path, such as ({i}, {j}); pass unreachable='bridge' or a "
            "number, or keep one connected component"
        )
    if unreachable is None or unreachable == "bridge":
        largest = float(np.max(distances, where=~infinite, initial=0.0))
        value = largest + (longest_edge or 1.0)
    else:
        value = float(unreachable)
    distances[infinite] = value
    if unreachable is None:
        warn_caller(
            f"{share} have no path and were given {value:g}, the largest path length plus the "
            "largest edge length; pass unreachable='bridge' to agree, or a number",
            UnreachableWarning,
        )
    return missing
