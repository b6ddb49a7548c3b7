"""Distances after a linear map, as learned by other metric learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.features import check_table, features
from metricmix.dissimilarity.items import table_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.exceptions import InputError
from metricmix.validation import as_float_array, check_choice

if TYPE_CHECKING:
    from metricmix.dissimilarity.recipes import MahalanobisRecipe

__all__ = ["as_linear_map", "mahalanobis"]

ROUNDING = 1e-10
"""Asymmetry and negative eigenvalues up to this share of the largest are taken for rounding."""


@overload
def mahalanobis(
    X: None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> MahalanobisRecipe: ...
@overload
def mahalanobis(
    X: ArrayLike | Any, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix: ...
def mahalanobis(
    X: ArrayLike | Any | None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix | MahalanobisRecipe:
    """Mahalanobis distance: ``sqrt((x - y)^T M (x - y))``, or ``||L x - L y||`` with ``M = L^T L``.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Without X the answer is a
        :class:`~metricmix.dissimilarity.recipes.Recipe`, to be applied to a table later.
    matrix : array
        Either M, (d, d), symmetric and positive semi-definite; or a linear map L, (k, d), such as
        ``NeighborhoodComponentsAnalysis().fit(X, y).components_``.
    kind : "auto", "metric" or "map"
        Which of the two it is. "auto" takes a symmetric (d, d) matrix for M and everything else
        for L; a map that happens to be symmetric needs ``kind="map"``.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Costs n d k + n^2 k / 2 operations, k the rank of M.

    Raises
    ------
    InputError
        If the shapes do not fit, or M is not symmetric positive semi-definite.

    >>> mahalanobis([[0, 0], [1, 1]], [[4, 0], [0, 5]])
    DissimilarityMatrix([[0., 3.],
                         [3., 0.]])
    >>> mahalanobis(matrix=[[4, 0], [0, 5]])
    mahalanobis(matrix=[[4.0, 0.0], [0.0, 5.0]])
    """
    check_choice(kind, ("auto", "metric", "map"), name="kind")
    if matrix is None:
        raise InputError(
            argument="matrix",
            expected="a metric M or a linear map L",
            found="None",
            remedy="pass matrix=",
        )
    if X is None:
        from metricmix.dissimilarity.recipes import MahalanobisRecipe

        return MahalanobisRecipe(matrix, kind)
    table = check_table(X)
    transform = as_linear_map(matrix, table.shape[1], kind)
    distances = features(np.asarray(table @ transform.T), "euclidean")
    return as_dissimilarity(distances, "mahalanobis", items=table_items(X))


def as_linear_map(matrix: ArrayLike, d: int, kind: str) -> NDArray[np.float64]:
    """Return the map L, (k, d), that `matrix` is or, being M, that has ``L^T L = M``."""
    given = as_float_array(matrix, name="matrix").astype(np.float64)
    if given.ndim != 2 or given.shape[1] != d or not np.isfinite(given).all():
        raise InputError(
            f"matrix: expected finite entries and shape ({d}, {d}) or (k, {d}) for features of "
            f"width {d}, got shape {given.shape}"
            + ("" if np.isfinite(given).all() else " with NaN or inf")
        )
    largest = float(np.abs(given).max(initial=0.0))
    square = given.shape[0] == d
    asymmetry = float(np.abs(given - given.T).max(initial=0.0)) if square else np.inf
    symmetric = asymmetry <= ROUNDING * largest
    if kind == "metric" and not symmetric:
        found = f"largest asymmetry {asymmetry:.3g}" if square else f"shape {given.shape}"
        raise InputError(
            f"kind='metric' expects a symmetric matrix ({d}, {d}), found {found}",
            argument="matrix",
            remedy="pass kind='map' for a linear map",
        )
    return given if kind == "map" or not symmetric else _root(given)


def _root(metric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L of full row rank with ``L^T L = metric``."""
    values, vectors = np.linalg.eigh((metric + metric.T) / 2)
    largest = float(np.abs(values).max())
    if values[0] < -ROUNDING * largest:
        raise InputError(
            argument="matrix",
            expected=f"positive semi-definite, its smallest eigenvalue is {values[0]:.6g}",
            remedy="pass kind='map' if it is a linear map",
        )
    used = values > ROUNDING * largest
    used[-1] = True  # the zero matrix keeps one (zero) row
    root: NDArray[np.float64] = (vectors[:, used] * np.sqrt(np.maximum(values[used], 0.0))).T
    return root
