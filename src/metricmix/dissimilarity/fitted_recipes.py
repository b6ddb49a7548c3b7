"""Recipes that have been applied: dissimilarities among n rows, and from new rows to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.features import FeatureRows, check_table, feature_rows
from metricmix.dissimilarity.mahalanobis import as_linear_map, mahalanobis
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.path_length import knn_path_length
from metricmix.exceptions import InputError

if TYPE_CHECKING:
    from metricmix.dissimilarity.recipes import (
        FeatureRecipe,
        KnnPathLengthRecipe,
        MahalanobisRecipe,
        Recipe,
    )

__all__ = ["AppliedFeatures", "AppliedKnnPathLength", "AppliedMahalanobis", "AppliedRecipe"]

TIE = 1e-9
"""Distances that differ by less than this share of themselves count as equal among neighbours."""


class AppliedRecipe(ABC):
    """A recipe and the n rows it was applied to, which must not be changed afterwards.

    Attributes
    ----------
    recipe : Recipe
    name : str
        That of the recipe.
    n : int
        Number of rows.
    """

    def __init__(self, recipe: Recipe, X: ArrayLike | Any) -> None:
        self.recipe = recipe
        self.name = recipe.name
        self._allow_nan = recipe.arguments.get("metric") == "nan_euclidean"
        self._table = check_table(X, allow_nan=self._allow_nan)
        self.n: int = self._table.shape[0]

    def __repr__(self) -> str:
        return f"<{self.recipe!r} of {self.n} rows>"

    @property
    @abstractmethod
    def matrix(self) -> DissimilarityMatrix:
        """The (n, n) dissimilarities among the rows, computed when asked for."""

    def cross(self, Y: ArrayLike | Any) -> NDArray[np.float64]:
        """Return the (m, n) dissimilarities from the m rows of a new table to the n rows.

        Each row of the answer depends on that row of Y alone, up to rounding; a row of Y that
        equals one of the n rows is at exactly 0 from it.

        Raises
        ------
        InputError
            If Y is not a table with the features of the n rows, or the metric is not defined for
            some of its rows.
        """
        table = check_table(Y, allow_nan=self._allow_nan, name="Y")
        if table.shape[1] != self._table.shape[1]:
            raise InputError(
                argument="Y",
                expected=(
                    f"{self._table.shape[1]} features, as in the rows that "
                    f"{self.recipe!r} was applied to"
                ),
                found=table.shape[1],
            )
        if not isinstance(self._table, np.ndarray):
            return self._compute_cross(type(self._table)(table))
        return self._compute_cross(table if isinstance(table, np.ndarray) else table.toarray())

    @abstractmethod
    def _compute_cross(self, Y: Any) -> NDArray[np.float64]:
        """Return what `cross` returns for a checked table as sparse as the n rows."""

    def _at_zero_if_equal(self, values: NDArray[np.float64], Y: Any) -> NDArray[np.float64]:
        """Set `values` to 0 where rows are equal; "correlation" and others only come close."""
        for i, digest in enumerate(_digests(Y)):
            values[i, self._places.get(digest, [])] = 0.0
        return values

    @cached_property
    def _places(self) -> dict[bytes, list[int]]:
        places: dict[bytes, list[int]] = {}
        for j, digest in enumerate(_digests(self._table)):
            places.setdefault(digest, []).append(j)
        return places


class AppliedFeatures(AppliedRecipe):
    """Distances among n rows, and from new rows to them."""

    def __init__(self, recipe: FeatureRecipe, X: ArrayLike | Any) -> None:
        super().__init__(recipe, X)
        self._rows = feature_rows(self._table, **recipe.arguments)

    @property
    def matrix(self) -> DissimilarityMatrix:
        """The distances among the rows."""
        return self._rows.matrix()

    def _compute_cross(self, Y: Any) -> NDArray[np.float64]:
        return self._at_zero_if_equal(self._rows.cross(Y), Y)


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

    def _compute_cross(self, Y: Any) -> NDArray[np.float64]:
        paths = np.asarray(self.matrix)
        distances = self._distance._compute_cross(Y)
        values = np.empty_like(distances)
        for i, chosen in enumerate(_nearest(distances, min(self.k, self.n))):
            by = np.flatnonzero(chosen)
            values[i] = (distances[i, by, None] + paths[by]).min(axis=0)
        return values


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
    def _mapped(self) -> FeatureRows:
        return feature_rows(self._image(self._table))

    def _image(self, X: Any) -> NDArray[np.float64]:
        # A product of matrices rounds a row differently in different company.
        if isinstance(X, np.ndarray):
            return np.array([self._map @ row for row in X])
        return np.asarray(X @ self._map.T)

    def _compute_cross(self, Y: Any) -> NDArray[np.float64]:
        return self._at_zero_if_equal(self._mapped.cross(self._image(Y)), Y)


def _nearest(distances: NDArray[np.float64], k: int) -> NDArray[np.bool_]:
    """Mark the k smallest of each row, ties to the first; or, where there are any, the zeros.

    Distances equal up to rounding are ties, or the choice would depend on how they were rounded.
    """
    last = np.partition(distances, k - 1, axis=1)[:, k - 1, None]
    below = distances < last * (1 - TIE)
    tied = ~below & (distances <= last * (1 + TIE))
    places = k - below.sum(axis=1, keepdims=True)
    chosen: NDArray[np.bool_] = below | (tied & (np.cumsum(tied, axis=1) <= places))
    zero = distances == 0
    return np.where(zero.any(axis=1, keepdims=True), zero, chosen)


def _digests(X: Any) -> list[bytes]:
    """Return one digest per row of a table, equal for equal rows."""
    if isinstance(X, np.ndarray):
        rows = [(row + 0.0).tobytes() for row in X]  # -0.0 becomes 0.0
    else:
        rows = []
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            places, entries = X.indices[start:stop], X.data[start:stop]
            stored = entries != 0
            rows.append(places[stored].astype(np.int64).tobytes() + entries[stored].tobytes())
    return [blake2b(row, digest_size=16).digest() for row in rows]
