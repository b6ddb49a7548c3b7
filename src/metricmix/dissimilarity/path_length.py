"""Path lengths in a graph, given or made of nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.breadth_first import breadth_first_all_pairs
from metricmix.dissimilarity.feature_rows import Metric
from metricmix.dissimilarity.features import FeatureRecipe, features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_ids import graph_items, table_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe
from metricmix.exceptions import InputError, UnreachableWarning, warn_caller
from metricmix.metric import metric_violations
from metricmix.state import stored
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number, check_square_fits

__all__ = [
    "AppliedKnnPathLength",
    "KnnPathLengthRecipe",
    "all_path_lengths",
    "check_unreachable",
    "check_unreachable_length",
    "fill_unreachable",
    "knn_path_length",
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


# -- path lengths over nearest neighbours ---------------------------------------------------------


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
@states(SourceFacts("pseudo-metric", new_items=True, row_cost="O(n (d + k log n)), after O(n^2 d)"))
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
        One row per item. Without X the function returns a
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
        policy = "bridge" if unreachable is None else unreachable
        return KnnPathLengthRecipe(k, metric, policy, metric_params)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    if np.isscalar(X):
        raise InputError(
            argument="X",
            expected="a table",
            found=f"{X!r}",
            remedy=f"knn_path_length(k={X!r}), without a table, returns a recipe",
        )
    check_unreachable(unreachable)
    # Distances, the order of neighbours, path lengths there and back.
    n_items = int(getattr(X, "shape", (0,))[0])
    check_square_fits(n_items, 4 * 8 + 1, what="the matrix of path lengths", argument="X")
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
    # Stored zeros are edges: equal rows are joined by edges of length zero.
    edges = csr_array((lengths.ravel(), ends), shape=(n, n))
    paths = dijkstra(edges, directed=False)
    paths = np.minimum(paths, paths.T)  # sums of the same numbers in another order
    missing = fill_unreachable(paths, float(lengths.max()), unreachable)
    known = facts("knn_path_length")
    return as_dissimilarity(paths, "knn_path_length", missing, table_items(X), known)


@stored("knn_path_length")
class KnnPathLengthRecipe(Recipe):
    """:func:`~metricmix.dissimilarity.knn_path_length` of a later table.

    With n <= k rows, as in a small fold, k becomes n - 1. A new row x enters the graph by its k
    nearest of the n rows: ``cross(x)[j] = min over these u of metric(x, x_u) + P[u, j]``, where P
    are the path lengths among the n rows.

    Notes
    -----
    For x = x_i the answer is row i of P. The minimum is at most ``0 + P[i, j]`` since i is among
    the neighbours of x; and it is not smaller, since the other neighbours u of x are, i itself
    taking one of the k places, among the k nearest of i: an edge joins them to i, so that
    ``P[i, j] <= metric(x_i, x_u) + P[u, j]`` by the triangle inequality of path lengths, and where
    u has no path to j, i has none either. Two things need care. Where candidates for the last
    place are equally distant the graph may have taken others than x does, so x takes only the rows
    at distance zero when there are any. And where more than k rows are equal, the graph may leave
    some of them apart; x then has the smallest of their path lengths.
    """

    kind = "knn_path_length"
    usual: ClassVar[dict[str, Any]] = {"metric": "euclidean", "unreachable": "bridge"}

    def __init__(
        self,
        k: int = 10,
        metric: Metric = "euclidean",
        unreachable: Unreachable = "bridge",
        params: Mapping[str, Any] | None = None,
    ) -> None:
        self.k = check_integer(k, name="k", low=1)
        check_unreachable(unreachable)
        self.distance = FeatureRecipe(metric, params)
        own = {"k": self.k, "metric": metric, "unreachable": unreachable}
        super().__init__({**own, **(params or {})})

    def apply(self, X: ArrayLike | Any) -> AppliedKnnPathLength:
        """Return the path lengths among the rows of X, and from new rows to them."""
        return AppliedKnnPathLength(self, X)


class AppliedKnnPathLength(AppliedRecipe):
    """Path lengths over the nearest neighbours among n rows, and from new rows by way of them."""

    def __init__(self, recipe: KnnPathLengthRecipe, X: ArrayLike | Any) -> None:
        super().__init__(recipe, X)
        if self.n < 2:
            raise InputError(
                argument="X", expected="at least two rows to have neighbours among", found="1"
            )
        self.k = recipe.k
        self._distance = recipe.distance.apply(self._table)

    @cached_property
    def matrix(self) -> DissimilarityMatrix:
        """The path lengths among the rows, kept for new ones."""
        arguments = {**self.recipe.arguments, "k": min(self.k, self.n - 1)}
        matrix: DissimilarityMatrix = knn_path_length(self._table, **arguments)
        return matrix

    def compute_cross(self, Y: Any) -> Floats:
        """Return the path lengths from the rows of Y."""
        paths = np.asarray(self.matrix)
        distances = self._distance.compute_cross(Y)
        values = np.empty_like(distances)
        for i, chosen in enumerate(mark_nearest(distances, min(self.k, self.n))):
            by = np.flatnonzero(chosen)
            values[i] = (distances[i, by, None] + paths[by]).min(axis=0)
        return values


def mark_nearest(distances: Floats, k: int) -> NDArray[np.bool_]:
    """Mark the k smallest entries of each row, ties to the first; only the zeros, if there are any.

    Distances equal up to rounding are ties, or the choice would depend on how they were rounded.
    """
    last = np.partition(distances, k - 1, axis=1)[:, k - 1, None]
    tie = 1e-9  # relative difference up to which the distances of two neighbours count as equal
    below = distances < last * (1 - tie)
    tied = ~below & (distances <= last * (1 + tie))
    places = k - below.sum(axis=1, keepdims=True)
    chosen: NDArray[np.bool_] = below | (tied & (np.cumsum(tied, axis=1) <= places))
    zero = distances == 0
    return np.where(zero.any(axis=1, keepdims=True), zero, chosen)
