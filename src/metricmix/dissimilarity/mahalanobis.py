"""Distances after a linear map, as learned by other metric learners."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.feature_rows import FeatureRows, feature_rows
from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe
from metricmix.exceptions import InputError
from metricmix.state import stored
from metricmix.typing import Floats
from metricmix.validation import as_float_array, check_choice, check_table

__all__ = ["AppliedMahalanobis", "MahalanobisRecipe", "as_linear_map", "mahalanobis"]


@overload
def mahalanobis(
    X: None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> MahalanobisRecipe: ...
@overload
def mahalanobis(
    X: ArrayLike | Any, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix: ...
@states(SourceFacts("pseudo-metric", new_items=True, row_cost="O(n k), k the rank of M"))
def mahalanobis(
    X: ArrayLike | Any | None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix | MahalanobisRecipe:
    """Mahalanobis distance: ``sqrt((x - y)^T M (x - y))``, or ``||L x - L y||`` with ``M = L^T L``.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Without X the function returns a
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
        return MahalanobisRecipe(matrix, kind)
    table = check_table(X)
    transform = as_linear_map(matrix, table.shape[1], kind)
    distances = features(np.asarray(table @ transform.T), "euclidean")
    known = facts("mahalanobis")
    return as_dissimilarity(distances, "mahalanobis", items=table_items(X), facts=known)


def as_linear_map(matrix: ArrayLike, d: int, kind: str) -> Floats:
    """Return the linear map L, (k, d), of full rank where `matrix` is M = ``L^T L``."""
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
    rounding = 1e-10 * largest  # asymmetry and negative eigenvalues up to here are rounding
    symmetric = asymmetry <= rounding
    if kind == "metric" and not symmetric:
        found = f"largest asymmetry {asymmetry:.3g}" if square else f"shape {given.shape}"
        raise InputError(
            f"kind='metric' expects a symmetric matrix ({d}, {d}), found {found}",
            argument="matrix",
            remedy="pass kind='map' for a linear map",
        )
    if kind == "map" or not symmetric:
        return given
    values, vectors = np.linalg.eigh((given + given.T) / 2)
    largest = float(np.abs(values).max())
    if values[0] < -rounding:
        raise InputError(
            argument="matrix",
            expected=f"positive semi-definite, its smallest eigenvalue is {values[0]:.6g}",
            remedy="pass kind='map' if it is a linear map",
        )
    used = values > rounding
    used[-1] = True  # the zero matrix keeps one (zero) row
    return np.asarray((vectors[:, used] * np.sqrt(np.maximum(values[used], 0.0))).T)


@stored("mahalanobis")
class MahalanobisRecipe(Recipe):
    """``||L x - L y||``: :func:`~metricmix.dissimilarity.mahalanobis` of a later table.

    >>> MahalanobisRecipe([[2, 0]]).apply([[0, 0], [1, 1]]).cross([[3, 7]])
    array([[6., 4.]])
    """

    kind = "mahalanobis"
    usual: ClassVar[dict[str, Any]] = {"kind": "auto"}

    def __init__(self, matrix: ArrayLike, kind: str = "auto") -> None:
        check_choice(kind, ("auto", "metric", "map"), name="kind")
        given = as_float_array(matrix, name="matrix").astype(np.float64)
        super().__init__({"matrix": given, "kind": kind})

    def apply(self, X: ArrayLike | Any) -> AppliedMahalanobis:
        """Return the distances among the mapped rows of X, and from new rows to them."""
        return AppliedMahalanobis(self, X)


class AppliedMahalanobis(AppliedRecipe):
    """Distances among n mapped rows, and from new rows to them."""

    def __init__(self, recipe: MahalanobisRecipe, X: ArrayLike | Any) -> None:
        super().__init__(recipe, X)
        matrix, kind = recipe.arguments["matrix"], recipe.arguments["kind"]
        self._map = as_linear_map(matrix, self._table.shape[1], kind)

    @property
    def matrix(self) -> DissimilarityMatrix:
        """The distances among the mapped rows."""
        matrix: DissimilarityMatrix = mahalanobis(self._table, **self.recipe.arguments)
        return matrix

    @cached_property
    def mapped_rows(self) -> FeatureRows:
        """The mapped rows, ready for distances from new ones."""
        return feature_rows(self.map_rows(self._table))

    def map_rows(self, X: Any) -> Floats:
        """Return ``L x`` row by row: a matrix product may round equal rows differently."""
        if isinstance(X, np.ndarray):
            return np.array([self._map @ row for row in X])
        return np.asarray(X @ self._map.T)

    def compute_cross(self, Y: Any) -> Floats:
        """Return the distances from the mapped rows of Y."""
        return self.mapped_rows.cross(self.map_rows(Y))
