"""Path lengths over nearest neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.features import Metric, features
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.items import table_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.path_length import (
    Unreachable,
    all_path_lengths,
    check_unreachable,
    fill_unreachable,
)
from metricmix.exceptions import InputError

if TYPE_CHECKING:
    from metricmix.dissimilarity.recipes import KnnPathLengthRecipe

__all__ = ["knn_path_length"]


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
            f"X: expected a table, got {X!r}; knn_path_length(k={X!r}) is a recipe for one to come"
        )
    check_unreachable(unreachable)
    distances = np.asarray(features(X, metric, **metric_params))
    n = len(distances)
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if not whole or not 1 <= k <= n - 1:
        raise InputError(f"k: expected a whole number in 1 .. {n - 1} for {n} items, got {k!r}")
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
    lengths = np.take_along_axis(distances, nearest, axis=1)
    ends = (np.repeat(np.arange(n), k), nearest.ravel())
    # Not an edge table: three edges between three items would look like a matrix.
    edges = coo_array((lengths.ravel(), ends), shape=(n, n))
    paths = all_path_lengths(as_graph(edges, weight="length"))
    missing = fill_unreachable(paths, float(lengths.max()), unreachable)
    return as_dissimilarity(paths, "knn_path_length", missing, table_items(X))
