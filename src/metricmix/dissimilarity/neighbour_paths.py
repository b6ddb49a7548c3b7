"""Path lengths over the nearest neighbours among the rows of a feature table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_metrics import Metric, check_metric_name
from metricmix.dissimilarity.features import FeatureDistances, features
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.path_length import Unreachable, check_unreachable, fill_unreachable
from metricmix.dissimilarity.sources import DenseSource
from metricmix.dissimilarity.specs import TableSpec
from metricmix.exceptions import InputError
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_square_fits

__all__ = ["NeighbourPaths", "knn_path_length"]


@overload
def knn_path_length(
    X: None = None,
    k: int = 10,
    metric: Metric = "euclidean",
    *,
    unreachable: Unreachable = None,
    **metric_params: Any,
) -> TableSpec: ...
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
) -> DissimilarityMatrix | TableSpec:
    """Geodesic distance as in Isomap: path length over nearest neighbours.

    ``M[i, j] = min over paths i .. j of sum of metric(x_u, x_v)``, where an edge u - v exists if u
    is among the k nearest neighbours of v, or v among those of u.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Without X the function returns a
        :class:`~metricmix.dissimilarity.specs.TableSpec`, for a table that is given later; there k
        becomes n - 1 where n is not larger than k, and unreachable pairs are bridged without a
        warning unless told otherwise.
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
        check_unreachable(policy)
        check_metric_name(metric)
        own = {"k": check_integer(k, name="k", low=1), "metric": metric, "unreachable": policy}
        return TableSpec(NeighbourPaths, "knn_path_length", {**own, **metric_params})
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    if np.isscalar(X):
        raise InputError(
            argument="X",
            expected="a table",
            found=f"{X!r}",
            remedy=f"knn_path_length(k={X!r}), without a table, is a source of one",
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


class NeighbourPaths(FeatureDistances):
    """Path lengths over the nearest neighbours among n rows, and from new rows by way of them.

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

    function = "knn_path_length"
    own = ("k", "unreachable")
    usual: ClassVar[Mapping[str, Any]] = {"metric": "euclidean", "unreachable": "bridge"}

    def __init__(self, spec: TableSpec, X: ArrayLike | Any) -> None:
        super().__init__(spec, X)
        if self.n < 2:
            raise InputError(
                argument="X", expected="at least two rows to have neighbours among", found="1"
            )

    def matrix(self) -> DissimilarityMatrix:
        """Return the path lengths among the rows."""
        arguments = {**self.spec.arguments, "k": min(self.spec.arguments["k"], self.n - 1)}
        lengths: DissimilarityMatrix = knn_path_length(self.table, **arguments)
        return lengths

    @cached_property
    def lengths(self) -> DissimilarityMatrix:
        """The same, kept for new rows."""
        return self.matrix()

    def cross(self, new: Any, known: Any = None) -> Floats:
        """Return the path lengths from new rows; a stack has those among the n rows already."""
        paths = known.matrix if isinstance(known, DenseSource) else np.asarray(self.lengths)
        distances = super().cross(new)
        values = np.empty_like(distances)
        nearest = mark_nearest(distances, min(self.spec.arguments["k"], self.n))
        for i, chosen in enumerate(nearest):
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
