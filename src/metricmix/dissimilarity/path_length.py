"""Path lengths in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.breadth_first import breadth_first_all_pairs
from metricmix.dissimilarity.features import Metric, features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.items import graph_items, table_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.exceptions import InputError, UnreachableWarning, warn_caller
from metricmix.validation import check_number

if TYPE_CHECKING:
    from metricmix.dissimilarity.recipes import KnnPathLengthRecipe

__all__ = [
    "all_path_lengths",
    "check_unreachable",
    "fill_unreachable",
    "knn_path_length",
    "path_length",
]


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
            argument="unreachable",
            expected="'bridge', 'raise', 'inf' or a number >= 0",
            found=f"{unreachable!r}",
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
            f"{share} have no path, such as ({i}, {j})",
            argument="graph",
            remedy=("pass unreachable='bridge' or a number, or keep one connected component"),
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


# -- path lengths over nearest neighbours -------------------------------------------------------


@overload
def knn_path_length(
    X: None = None,
    k: int = 10,
    metric: Metric = "euclidean",
    *,
    unreachable: Unreachable = None,
    **metric_params: Any,
) -> KnnPathLengthRecipe: ...
@overload
def knn_path_length(
    X: ArrayLike | Any,
    k: int = 10,
    metric: Metric = "euclidean",
    *,
    unreachable: Unreachable = None,
    **metric_params: Any,
) -> DissimilarityMatrix: ...
def knn_path_length(
    X: ArrayLike | Any | None = None,
    k: int = 10,
    metric: Metric = "euclidean",
    *,
    unreachable: Unreachable = None,
    **metric_params: Any,
) -> DissimilarityMatrix | KnnPathLengthRecipe:
    """Geodesic distance as in Isomap: path length over nearest neighbours.

    ``M[i, j] = min over paths i .. j of sum of metric(x_u, x_v)``, where an edge u - v exists if u
    is among the k nearest neighbours of v, or v among those of u.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Without X the answer is a
        :class:`~metricmix.dissimilarity.recipes.Recipe`, to be applied to a table later; in a
        recipe k becomes n - 1 where n is not larger than k, and unreachable pairs are bridged
        without a warning unless told otherwise.
    k : int
        1 <= k <= n - 1; an item does not count as its own neighbour. Among equally distant
        candidates for the last places the choice is arbitrary but repeatable.
    metric, **metric_params
        See :func:`~metricmix.dissimilarity.features.features`.
    unreachable
        See :func:`~metricmix.dissimilarity.path_length.path_length`.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "knn_path_length". Equal rows are joined by edges of length zero, as any others.
        Costs that of the distances and O(n^2 k log n).

    Raises
    ------
    InputError
        If k is not a whole number in 1 .. n - 1, or for the reasons of `features`.

    >>> knn_path_length([[0, 0], [1, 0], [1, 1.5], [-0.6, 1.5]], k=1)
    DissimilarityMatrix([[0. , 1. , 2.5, 4.1],
                         [1. , 0. , 1.5, 3.1],
                         [2.5, 1.5, 0. , 1.6],
                         [4.1, 3.1, 1.6, 0. ]])
    >>> knn_path_length(k=5, metric="cosine")
    knn_path_length(k=5, metric='cosine')
    """
    if X is None:
        from metricmix.dissimilarity.recipes import KnnPathLengthRecipe

        policy = "bridge" if unreachable is None else unreachable
        return KnnPathLengthRecipe(k, metric, policy, metric_params)
    from scipy.sparse import coo_array

    if np.isscalar(X):
        raise InputError(
            argument="X",
            expected="a table",
            found=f"{X!r}",
            remedy=f"knn_path_length(k={X!r}) is a recipe for one to come",
        )
    check_unreachable(unreachable)
    distances = np.asarray(features(X, metric, **metric_params))
    n = len(distances)
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if not whole or not 1 <= k <= n - 1:
        raise InputError(
            argument="k", expected=f"a whole number in 1 .. {n - 1} for {n} items", found=f"{k!r}"
        )
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
    lengths = np.take_along_axis(distances, nearest, axis=1)
    ends = (np.repeat(np.arange(n), k), nearest.ravel())
    # Not an edge table: three edges between three items would look like a matrix.
    edges = coo_array((lengths.ravel(), ends), shape=(n, n))
    paths = all_path_lengths(as_graph(edges, weight="length"))
    missing = fill_unreachable(paths, float(lengths.max()), unreachable)
    return as_dissimilarity(paths, "knn_path_length", missing, table_items(X))
