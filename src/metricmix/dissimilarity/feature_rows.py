"""Distances between the rows of a feature table, computed on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_metrics import (
    ALIASES,
    BY_PRODUCT,
    BY_SKLEARN,
    OF_DIRECTIONS,
    ON_SETS,
    Metric,
    check_metric_name,
    feature_facts,
    metric_name,
)
from metricmix.dissimilarity.item_keys import row_digests
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.squared_distances import (
    CHUNK,
    SquaredDistances,
    squared_distances,
    unit_rows,
)
from metricmix.exceptions import InputError
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_square_fits, check_table

__all__ = ["FeatureRows", "FeatureSource", "feature_rows"]

TOGETHER = 1 << 20
"""Distances that a thread computes together."""


def feature_rows(
    X: ArrayLike | Any, metric: Metric = "euclidean", **metric_params: Any
) -> FeatureRows:
    """Return an object that computes rows of ``features(X, metric)`` when asked for them."""
    check_metric_name(metric)
    table = check_table(X, allow_nan=metric == "nan_euclidean")
    return FeatureRows(table, metric, metric_params)


class FeatureRows:
    """``rows(indices)[k, j] = metric(x_indices[k], x_j)``, computed on demand.

    Up to rounding in the last digits these are the rows of :func:`features`.

    >>> feature_rows([[0, 0], [3, 4], [3, 4]]).rows(np.array([2]))
    array([[5., 0., 0.]])
    """

    def __init__(self, X: Any, metric: Metric, params: dict[str, Any]) -> None:
        self.n: int = X.shape[0]
        self.metric: Metric = metric if callable(metric) else ALIASES.get(metric, metric)
        self.name: str = metric_name(metric)
        self._params = dict(params)
        # Weighted forms of these metrics are rare: scipy computes them as it does the others.
        self._by_product = self.metric in BY_PRODUCT and not params
        self.facts = feature_facts(metric, params)
        if self._by_product:
            rows, self._norms = self._ready(X, name="X")
            self._squared = SquaredDistances(rows)
            return
        if self.metric == "normalized-euclidean":
            raise InputError(
                f"got parameters {sorted(params)}", argument="metric 'normalized-euclidean'"
            )
        self._X = X if isinstance(X, np.ndarray) else X.toarray()
        self._X = self._as_sets(self._X)
        if callable(metric):
            self.check_symmetric()
        if self.metric == "seuclidean" and "V" not in params:
            self._params["V"] = self._X.var(axis=0, ddof=min(1, self.n - 1))
        if self.metric == "mahalanobis" and "VI" not in params:
            covariance = np.atleast_2d(np.cov(self._X, rowvar=False)) if self.n > 1 else [[0.0]]
            if np.linalg.matrix_rank(covariance, hermitian=True) < X.shape[1]:
                raise InputError(
                    f"the covariance of X, shape {X.shape}, has no inverse",
                    argument="metric 'mahalanobis'",
                    remedy=(
                        "pass VI=, or use metricmix.dissimilarity.mahalanobis with a matrix of "
                        "your own"
                    ),
                )
            self._params["VI"] = np.linalg.inv(covariance)

    def check_symmetric(self) -> None:
        """Raise if a function is not symmetric, as tried on the first six rows."""
        function: Any = self.metric
        for i in range(min(5, self.n - 1)):
            there = float(function(self._X[i], self._X[i + 1], **self._params))
            back = float(function(self._X[i + 1], self._X[i], **self._params))
            if abs(there - back) > 1e-9 * max(abs(there), abs(back)):
                raise InputError(
                    argument=f"metric {self.name!r}",
                    expected="the same distance both ways",
                    found=f"{there:g} from row {i} to row {i + 1} and {back:g} back",
                    remedy="symmetrise the function",
                )

    def matrix(self) -> DissimilarityMatrix:
        """Return all rows, exactly symmetric: what :func:`features` returns."""
        n = self.n
        instead = "use fewer items, or FeatureSource, which computes rows on demand"
        check_square_fits(n, 8, what="the distance matrix", argument="X", instead=instead)
        matrix = np.empty((n, n))
        # A function is slow enough to be worth calling for exactly the pairs that are needed.
        step = 1 if callable(self.metric) else max(1, CHUNK // n)
        for start in range(0, n, step):
            stop = min(n, start + step)
            block = self.block(np.arange(start, stop), start)
            within = np.triu(block[:, : stop - start], 1)
            matrix[start:stop, start:stop] = within + within.T
            matrix[start:stop, stop:] = block[:, stop - start :]
            matrix[stop:, start:stop] = block[:, stop - start :].T
        return as_dissimilarity(matrix, self.name, facts=self.facts)

    def rows(self, indices: Indices) -> Floats:
        """Return the distances from `indices` to all items, (len(indices), n)."""
        indices = np.asarray(indices)
        step = max(1, TOGETHER // self.n)  # whatever the number of threads: products round by shape
        if not self._by_product or len(indices) <= step:
            return self.block(indices, 0)
        values = np.empty((len(indices), self.n), self._squared.X.dtype)

        def fill(start: int) -> None:
            values[start : start + step] = self.block(indices[start : start + step], 0)

        with blas_threads(1):
            in_threads(fill, range(0, len(indices), step), threads_for(self.n))
        return values

    def block(self, rows: Indices, first: int) -> Floats:
        """Return the distances from `rows` to the items first, first + 1, ..., n - 1."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._by_product:
                squared, scale = self._squared.block(rows, slice(first, None)), self._squared.scale
                left, right = self._norms[rows, None], self._norms[first:]
                values = self._finished(squared, scale, left, right)
            else:
                values = self._elementwise(self._X[rows], self._X[first:])
        here = np.flatnonzero(rows >= first)
        values[here, rows[here] - first] = 0.0
        if not self._by_product:
            for k, i in enumerate(rows):
                equal = self.equal_rows[self.digests[i]]
                values[k, equal[equal >= first] - first] = 0.0
        self._check_distances(values, lambda k, j: f"between rows {rows[k]} and {first + j}")
        return values

    def between(self, i: Indices, j: Indices) -> Floats:
        """Return the distances from the items `i` to the items `j`, (len(i), len(j))."""
        if not self._by_product:
            return self.rows(i)[:, j]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            squared, scale = self._squared.block(i, j), self._squared.scale
            values = self._finished(squared, scale, self._norms[i, None], self._norms[j])
        values[i[:, None] == j] = 0.0
        self._check_distances(values, lambda k, m: f"between rows {i[k]} and {j[m]}")
        return values

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of the pairs (i[k], j[k]), (len(i),): O(d) each."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._by_product:
                squared = squared_distances(self._squared.X, i, j)
                norms = self._norms[i], self._norms[j]
                values = self._finished(squared, self._squared.scale, *norms)
            else:
                values = np.empty(len(i))
                order = np.argsort(i, kind="stable")
                starts = np.flatnonzero(np.diff(i[order], prepend=-1))
                for few in np.split(order, starts[1:]) if len(order) else []:
                    row = i[few[0]]
                    values[few] = self._elementwise(self._X[[row]], self._X[j[few]])[0]
                digests = np.array(self.digests)
                values[digests[i] == digests[j]] = 0.0
        values[i == j] = 0.0
        self._check_distances(values[None], lambda _, k: f"between rows {i[k]} and {j[k]}")
        return values

    def cross(self, Y: Any) -> Floats:
        """Return ``metric(y_k, x_j)`` for the rows of a checked table as sparse as X, (m, n)."""
        if self._by_product:
            rows, norms = self._ready(Y, name="Y")
        else:
            rows = self._as_sets(Y if isinstance(Y, np.ndarray) else Y.toarray())
        values = np.empty((Y.shape[0], self.n))
        # sklearn's nan_euclidean cancels: row by row the rounding of one is not that of its batch.
        step = 1 if self.metric == "nan_euclidean" else max(1, CHUNK // self.n)
        for start in range(0, len(values), step):
            some = rows[start : start + step]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                if self._by_product:
                    squared, scales = self._squared.cross(some)
                    left = norms[start : start + step, None]
                    block = self._finished(squared, scales, left, self._norms)
                else:
                    block = self._elementwise(some, self._X)
            values[start : start + step] = block
        if not self._by_product:
            for k, digest in enumerate(row_digests(rows)):
                values[k, self.equal_rows.get(digest, [])] = 0.0
        self._check_distances(values, lambda k, j: f"from row {k} of Y to row {j} of X")
        return values

    @cached_property
    def digests(self) -> list[bytes]:
        """One digest per row, equal for rows that the metric reads as equal."""
        return row_digests(self._X)

    @cached_property
    def equal_rows(self) -> dict[bytes, Indices]:
        """The numbers of equal rows, by their digest."""
        found: dict[bytes, list[int]] = {}
        for j, digest in enumerate(self.digests):
            found.setdefault(digest, []).append(j)
        return {digest: np.array(rows) for digest, rows in found.items()}

    def _check_distances(self, values: Floats, where: Callable[[int, int], str]) -> None:
        """Raise if some distance is NaN, infinite or negative, naming its two rows."""
        if values.size and not (values.min() >= 0 and values.max() < np.inf):
            k, j = np.argwhere(~(np.isfinite(values) & (values >= 0)))[0]
            raise InputError(
                argument=f"metric {self.name!r}",
                expected=f"a finite distance >= 0 {where(k, j)}",
                found=f"{values[k, j]:g}",
                remedy="leave these rows out or choose another metric",
            )

    def _as_sets(self, X: AnyArray) -> AnyArray:
        """Return X != 0 for metrics on sets: scipy returns nonsense for other numbers."""
        return X != 0 if self.metric in ON_SETS else X

    def _ready(self, X: Any, *, name: str) -> tuple[Any, Floats]:
        """Return the rows whose squared distances are needed, and their norms if those are."""
        if self.metric not in (*OF_DIRECTIONS, "normalized-euclidean"):
            return X, np.zeros(X.shape[0])
        directions, norms = unit_rows(X)
        if self.metric in OF_DIRECTIONS:
            return directions, norms
        if not norms.all():
            i = int(np.argmin(norms))
            raise InputError(
                (f"'normalized-euclidean' divides by the norm of a row, and row {i} is all zeros"),
                argument=name,
                remedy="leave it out, or shift the features so that no row is zero",
            )
        return X, norms

    def _finished(
        self,
        squared: Floats,
        scale: float | Floats,
        left: Floats,
        right: Floats,
    ) -> Floats:
        """Turn squared distances, divided by scale^2, between rows of these norms into the metric.

        `scale` is one number, or one per row of `squared`, as a column; `left` and `right` have
        shapes that broadcast to that of `squared`.
        """
        if self.metric in OF_DIRECTIONS:
            if self.metric == "cosine":  # of unit vectors: ||u - v||^2 / 2 = 1 - u.v
                squared *= scale * scale / 2
                np.minimum(squared, 2.0, out=squared)
            else:  # ||u - v|| = 2 sin(angle / 2)
                np.sqrt(squared, out=squared)
                squared *= scale / 2
                np.minimum(squared, 1.0, out=squared)
                np.arcsin(squared, out=squared)
                squared *= 2 / np.pi
            if not (left.all() and right.all()):
                unlike = 1.0 if self.metric == "cosine" else 0.5
                squared[(left == 0) != (right == 0)] = unlike
            return squared
        if self.metric == "sqeuclidean":
            squared *= scale
            squared *= scale
            return squared
        np.sqrt(squared, out=squared)
        if self.metric == "normalized-euclidean":
            squared /= np.sqrt(left / scale) * np.sqrt(right / scale)
        else:
            squared *= scale
        return squared

    def _elementwise(self, left: AnyArray, right: AnyArray) -> Floats:
        try:
            if self.metric in BY_SKLEARN:
                from sklearn.metrics import pairwise_distances as compute
            else:
                from scipy.spatial.distance import cdist as compute
            values = compute(left, right, metric=self.metric, **self._params)
        except (TypeError, ValueError) as error:
            reason = str(error).split(". ")[0].split("\n")[0]  # scipy goes on for many lines
            raise InputError(f"metric {self.name!r}: {reason}") from error
        distances = np.asarray(values, dtype=np.float64)
        distances[(distances < 0) & (distances > -1e-12)] = 0.0  # correlation of equal rows
        return distances


class FeatureSource(Source):
    """Distances between the rows of a feature table, computed on demand.

    The values are those of :func:`metricmix.dissimilarity.features`; memory is that of the table.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or table; or FeatureRows
    metric : str
        As in :func:`~metricmix.dissimilarity.features`.
    name : str, optional
        Default: that of the metric.
    """

    def __init__(self, X: Any, metric: str = "euclidean", *, name: str | None = None) -> None:
        self.compute = X if isinstance(X, FeatureRows) else feature_rows(X, metric)
        self.n, self.name = self.compute.n, name or metric
        self.facts = replace(self.compute.facts, new_items=False)

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return self.compute.rows(indices)

    def columns(self, indices: Indices) -> Floats:
        """Return the same: distances are symmetric."""
        return self.rows(indices)

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return self.compute.between(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise, O(d) each."""
        return self.compute.pairs(i, j)
