"""Feature tables as dissimilarities."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.items import table_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.squared_euclidean import SquaredDistances
from metricmix.exceptions import InputError
from metricmix.validation import as_float_array

if TYPE_CHECKING:
    from metricmix.dissimilarity.recipes import FeatureRecipe

__all__ = [
    "FeatureRows",
    "check_metric_name",
    "check_table",
    "feature_rows",
    "features",
    "metric_name",
]


BY_PRODUCT = ("euclidean", "l2", "sqeuclidean", "cosine", "normalized-euclidean")
BY_SKLEARN = ("haversine", "nan_euclidean")
ON_SETS = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
BY_SCIPY = (
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "hamming"),
    *("jensenshannon", "mahalanobis", "minkowski", "seuclidean", *ON_SETS),
)
ROUNDING = 1e-12
ONE_WAY = 1e-9
"""Relative difference of the two ways that is taken for rounding."""
TRIED = 5
"""Pairs of rows for which a function is called both ways."""
CHUNK = 1 << 22
"""Distances computed at once: 32 MiB."""
ALIASES = {"l2": "euclidean", "l1": "cityblock", "manhattan": "cityblock"}

Metric = str | Callable[..., float]


@overload
def features(
    X: None = None, metric: Metric = "euclidean", **metric_params: Any
) -> FeatureRecipe: ...
@overload
def features(
    X: ArrayLike | Any, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix: ...
def features(
    X: ArrayLike | Any | None = None, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix | FeatureRecipe:
    """Distances between the rows of a feature table: ``M[i, j] = metric(x_i, x_j)``.

    ===========================  ==================================================================
    ``"euclidean"``              ``||x - y||``; also ``"sqeuclidean"``, its square
    ``"cosine"``                 ``1 - x.y / (||x|| ||y||)``; a row of zeros, which has no
                                 direction, is at 1 from every other row, and at 0 from another
                                 row of zeros, since equal rows are at 0
    ``"normalized-euclidean"``   ``||x - y|| / sqrt(||x|| ||y||)``, the paper's; not a metric in
                                 general, and not defined for a row of zeros
    other names                  those of :func:`scipy.spatial.distance.cdist` and of
                                 :func:`sklearn.metrics.pairwise_distances`; those that compare
                                 sets (``"jaccard"``, ``"dice"``, ...) read X as ``X != 0``
    a function                   called as ``metric(x, y, **metric_params)`` once per pair i < j
    ===========================  ==================================================================

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Sparse tables stay sparse for the first three lines above and are made
        dense for the other metrics. Without X the answer is a
        :class:`~metricmix.dissimilarity.recipes.Recipe`, to be applied to a table later.
    metric : str or callable
    **metric_params
        Passed on, as ``p=3`` for ``"minkowski"``. The variances of ``"seuclidean"`` and the inverse
        covariance of ``"mahalanobis"`` are those of X unless given.

    Returns
    -------
    DissimilarityMatrix (n, n)
        float64, exactly symmetric with zero diagonal, named after the metric. Takes n^2 d / 2
        operations, at the speed of a matrix product for the first three lines, which are accurate
        nevertheless: equal rows are at exactly 0
        (:mod:`~metricmix.dissimilarity.squared_euclidean`).

    Raises
    ------
    InputError
        If X holds NaN or inf (NaN is welcome with ``"nan_euclidean"``), if the metric is unknown,
        or if it is not defined for some pair, as the correlation with a constant row.

    >>> features([[0, 0], [3, 4], [3, 4]])
    DissimilarityMatrix([[0., 5., 5.],
                         [5., 0., 0.],
                         [5., 0., 0.]])
    >>> features(metric="minkowski", p=3)
    features(metric='minkowski', p=3)
    """
    if X is None:
        from metricmix.dissimilarity.recipes import FeatureRecipe

        return FeatureRecipe(metric, metric_params)
    matrix = feature_rows(X, metric, **metric_params).matrix()
    matrix.items = table_items(X)
    return matrix


def feature_rows(
    X: ArrayLike | Any, metric: Metric = "euclidean", **metric_params: Any
) -> FeatureRows:
    """Return an object that computes rows of ``features(X, metric)`` when asked for them."""
    check_metric_name(metric)
    table = check_table(X, allow_nan=metric == "nan_euclidean")
    return FeatureRows(table, metric, metric_params)


def check_metric_name(metric: Metric) -> None:
    """Raise unless `metric` is a function or a name that :func:`features` knows."""
    known = {*BY_PRODUCT, *BY_SKLEARN, *BY_SCIPY, *ALIASES}
    if not callable(metric) and not (isinstance(metric, str) and metric in known):
        close = difflib.get_close_matches(str(metric), sorted(known), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}" if close else "see the documentation"
        raise InputError(
            argument="metric",
            expected="a known name or a function",
            found=f"{metric!r}",
            remedy=f"{hint}?",
        )


def metric_name(metric: Metric) -> str:
    """Return the name of what :func:`features` computes with this metric."""
    if callable(metric):
        return str(getattr(metric, "__name__", "features"))
    return ALIASES.get(metric, metric)


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
        if self._by_product:
            self._prepare_product(X)
            return
        if self.metric == "normalized-euclidean":
            raise InputError(
                f"got parameters {sorted(params)}", argument="metric 'normalized-euclidean'"
            )
        self._X = X if isinstance(X, np.ndarray) else X.toarray()
        self._X = self._as_sets(self._X)
        if callable(metric):
            self._refuse_one_way()
        if self.metric == "seuclidean" and "V" not in params:
            self._params["V"] = self._X.var(axis=0, ddof=min(1, self.n - 1))
        if self.metric == "mahalanobis" and "VI" not in params:
            self._params["VI"] = _inverse_covariance(self._X)

    def _refuse_one_way(self) -> None:
        """Raise if a function gives another distance there than back, for a few pairs of rows."""
        function: Any = self.metric
        for i in range(min(TRIED, self.n - 1)):
            there = float(function(self._X[i], self._X[i + 1], **self._params))
            back = float(function(self._X[i + 1], self._X[i], **self._params))
            if abs(there - back) > ONE_WAY * max(abs(there), abs(back)):
                raise InputError(
                    argument=f"metric {self.name!r}",
                    expected="the same distance both ways",
                    found=f"{there:g} from row {i} to row {i + 1} and {back:g} back",
                    remedy="symmetrise the function",
                )

    def matrix(self) -> DissimilarityMatrix:
        """Return all rows, exactly symmetric: what :func:`features` returns."""
        n = self.n
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
        return as_dissimilarity(matrix, self.name)

    def rows(self, indices: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the distances from `indices` to all items, (len(indices), n)."""
        return self.block(np.asarray(indices), 0)

    def block(self, rows: NDArray[np.integer], first: int) -> NDArray[np.float64]:
        """Return the distances from `rows` to the items first, first + 1, ..., n - 1."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._by_product:
                squared, scale = self._squared.block(rows, first), self._squared.scale
                values = self._finished(squared, scale, self._norms[rows], self._norms[first:])
            else:
                values = self._elementwise(self._X[rows], self._X[first:])
        here = np.flatnonzero(rows >= first)
        values[here, rows[here] - first] = 0.0
        if not np.all(values >= 0) or np.isinf(values).any():
            k, j = np.argwhere(~(np.isfinite(values) & (values >= 0)))[0]
            raise InputError(
                argument=f"metric {self.name!r}",
                expected=f"a finite distance >= 0 between rows {rows[k]} and {first + j}",
                found=f"{values[k, j]:g}",
                remedy="leave these rows out or choose another metric",
            )
        return values

    def cross(self, Y: Any) -> NDArray[np.float64]:
        """Return ``metric(y_k, x_j)`` for the rows of a checked table as sparse as X, (m, n)."""
        rows, norms = self._ready(Y, name="Y") if self._by_product else (Y, np.empty(0))
        values = np.empty((Y.shape[0], self.n))
        # sklearn's nan_euclidean cancels: row by row the rounding of one is not that of its batch.
        step = 1 if self.metric == "nan_euclidean" else max(1, CHUNK // self.n)
        for start in range(0, len(values), step):
            some = rows[start : start + step]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                if self._by_product:
                    squared, scales = self._squared.cross(some)
                    left = norms[start : start + step]
                    block = self._finished(squared, scales, left, self._norms)
                else:
                    dense = some if isinstance(some, np.ndarray) else some.toarray()
                    block = self._elementwise(self._as_sets(dense), self._X)
            values[start : start + step] = block
        if not np.all(values >= 0) or np.isinf(values).any():
            k, j = np.argwhere(~(np.isfinite(values) & (values >= 0)))[0]
            raise InputError(
                argument=f"metric {self.name!r}",
                expected=f"a finite distance >= 0 from row {k} of Y to row {j} of X",
                found=f"{values[k, j]:g}",
                remedy="leave these rows out or choose another metric",
            )
        return values

    def _as_sets(self, X: NDArray[Any]) -> NDArray[Any]:
        # scipy computes nonsense, even negative, from other numbers
        return X != 0 if self.metric in ON_SETS else X

    def _prepare_product(self, X: Any) -> None:
        rows, self._norms = self._ready(X, name="X")
        self._squared = SquaredDistances(rows)

    def _ready(self, X: Any, *, name: str) -> tuple[Any, NDArray[np.float64]]:
        """Return the rows whose squared distances are needed, and their norms if those are."""
        if self.metric not in ("cosine", "normalized-euclidean"):
            return X, np.zeros(X.shape[0])
        directions, norms = _split(X)
        if self.metric == "cosine":
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
        squared: NDArray[np.float64],
        scale: float | NDArray[np.float64],
        left: NDArray[np.float64],
        right: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Turn squared distances, divided by scale^2, between rows of these norms into the metric.

        `scale` is one number, or one per row of `squared`, as a column.
        """
        if self.metric == "cosine":  # of unit vectors: ||u - v||^2 / 2 = 1 - u.v
            squared *= scale * scale / 2
            np.minimum(squared, 2.0, out=squared)
            squared[(left == 0)[:, None] != (right == 0)] = 1.0
            return squared
        if self.metric == "sqeuclidean":
            squared *= scale
            squared *= scale
            return squared
        np.sqrt(squared, out=squared)
        if self.metric == "normalized-euclidean":
            squared /= np.sqrt(left[:, None] / scale) * np.sqrt(right / scale)
        else:
            squared *= scale
        return squared

    def _elementwise(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        try:
            if self.metric in BY_SKLEARN:
                from sklearn.metrics import pairwise_distances as compute
            else:
                from scipy.spatial.distance import cdist as compute
            values = compute(left, right, metric=self.metric, **self._params)
        except (TypeError, ValueError) as error:
            raise InputError(f"metric {self.name!r}: {error}") from error
        distances = np.asarray(values, dtype=np.float64)
        distances[(distances < 0) & (distances > -ROUNDING)] = 0.0  # correlation of equal rows
        return distances


def _split(X: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return the rows of X at unit length (or zero), and their lengths."""
    sparse = not isinstance(X, np.ndarray)
    largest = np.abs(X).max(axis=1)
    largest = np.asarray(largest.todense()).ravel() if sparse else largest
    # Powers of two first, so that squares stay in range and no digit is lost.
    powers = np.ldexp(1.0, np.frexp(largest)[1])
    scaled = X.multiply(1 / powers[:, None]).tocsr() if sparse else X / powers[:, None]
    squares = scaled.multiply(scaled).sum(axis=1) if sparse else (scaled * scaled).sum(axis=1)
    lengths = np.sqrt(np.asarray(squares).ravel())
    inverse = 1 / np.where(lengths > 0, lengths, 1.0)
    directions = scaled.multiply(inverse[:, None]).tocsr() if sparse else scaled * inverse[:, None]
    return directions, cast(NDArray[np.float64], lengths * powers)


def _inverse_covariance(X: NDArray[np.float64]) -> NDArray[np.float64]:
    covariance = np.atleast_2d(np.cov(X, rowvar=False)) if len(X) > 1 else np.zeros((1, 1))
    if np.linalg.matrix_rank(covariance, hermitian=True) < X.shape[1]:
        raise InputError(
            f"the covariance of X, shape {X.shape}, has no inverse",
            argument="metric 'mahalanobis'",
            remedy=(
                "pass VI=, or use metricmix.dissimilarity.mahalanobis with a matrix of your own"
            ),
        )
    inverse: NDArray[np.float64] = np.linalg.inv(covariance).astype(np.float64)
    return inverse


# -- what a feature table is --------------------------------------------------------------------


def check_table(X: ArrayLike | Any, *, allow_nan: bool = False, name: str = "X") -> Any:
    """Return a feature table as a float64 array, or CSR array, of finite numbers.

    numpy arrays, lists, pandas tables and every scipy sparse format come in; an
    :class:`~metricmix.exceptions.InputError` names the first row and column that holds NaN or inf
    (inf only, when `allow_nan`).

    >>> check_table([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    labels = [str(label) for label in getattr(X, "columns", ())]
    if hasattr(X, "tocsr"):
        table = X.tocsr().astype(np.float64)
        table.sum_duplicates()
        values = table.data
    else:
        if hasattr(X, "to_numpy") and labels:
            try:  # pandas: its own missing value becomes NaN
                X = X.to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise InputError(argument=name, expected=f"real numbers, {error}") from None
        table = values = np.ascontiguousarray(as_float_array(X, name=name), dtype=np.float64)
    if table.ndim != 2:
        hint = "; one feature is a column: X.reshape(-1, 1)" if table.ndim == 1 else ""
        raise InputError(
            argument=name, expected="a table (n, d)", found=f"shape {table.shape}{hint}"
        )
    if 0 in table.shape:
        raise InputError(
            argument=name, expected="at least one row and column", found=f"shape {table.shape}"
        )
    bad = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if bad.any():
        if hasattr(table, "tocsr"):
            place = int(np.argmax(bad))
            row = int(np.searchsorted(table.indptr, place, side="right")) - 1
            column, found = int(table.indices[place]), values[place]
        else:
            row, column = (int(k) for k in np.argwhere(bad)[0])
            found = values[row, column]
        label = f" ({labels[column]!r})" if labels else ""
        raise InputError(
            argument=name,
            expected=f"finite numbers, found {found} in row {row}, column {column}{label}",
            remedy="fill it in, or use metric='nan_euclidean' for missing values",
        )
    return table
