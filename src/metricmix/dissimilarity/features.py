"""Distances between the rows of a feature table, also after a linear map: matrices and sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_metrics import (
    FACTS,
    Metric,
    check_metric_name,
    metric_name,
)
from metricmix.dissimilarity.feature_rows import FeatureRows, feature_rows
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.item_sources import TableSource
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.specs import TableSpec
from metricmix.exceptions import InputError
from metricmix.typing import Floats
from metricmix.validation import as_float_array, check_choice, check_table

__all__ = ["FeatureDistances", "GivenTable", "MappedDistances", "features", "mahalanobis"]


class GivenTable(TableSource):
    """The rows of a feature table, which must not be changed afterwards.

    Attributes
    ----------
    function : str
        The function of :mod:`metricmix.dissimilarity` that makes its specification.
    usual : dict
        Its usual arguments.
    """

    function: ClassVar[str]
    usual: ClassVar[Mapping[str, Any]] = {}
    metric = "euclidean"
    table: Any = None
    spec: TableSpec  # type: ignore[assignment]

    def __init__(self, spec: TableSpec, X: Any) -> None:
        self.spec = spec
        self.allow_nan = spec.arguments.get("metric") == "nan_euclidean"
        self.table = check_table(X, allow_nan=self.allow_nan)
        self.n = self.table.shape[0]

    def new_rows(self, new: Any) -> Any:
        """Return a table with the features of the n rows, as sparse as these."""
        table = check_table(new, allow_nan=self.allow_nan, name="Y")
        if table.shape[1] != self.table.shape[1]:
            raise InputError(
                argument="Y",
                expected=f"{self.table.shape[1]} features, as in the rows that {self.spec!r} has",
                found=table.shape[1],
            )
        if not isinstance(self.table, np.ndarray):
            return type(self.table)(table)
        return table if isinstance(table, np.ndarray) else table.toarray()


@overload
def features(X: None = None, metric: Metric = "euclidean", **metric_params: Any) -> TableSpec: ...
@overload
def features(
    X: ArrayLike | Any, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix: ...
@states(FACTS)
def features(
    X: ArrayLike | Any | None = None, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix | TableSpec:
    """Distances between the rows of a feature table: ``M[i, j] = metric(x_i, x_j)``.

    ===========================  ==================================================================
    ``"euclidean"``              ``||x - y||``; also ``"sqeuclidean"``, its square
    ``"cosine"``                 ``1 - x.y / (||x|| ||y||)``; a row of zeros, which has no
                                 direction, is at 1 from every other row, and at 0 from another
                                 row of zeros, since equal rows are at 0
    ``"angular"``                the angle between x and y, divided by pi: a metric between
                                 directions; a row of zeros is at 1/2 from every other row
    ``"normalized-euclidean"``   ``||x - y|| / sqrt(||x|| ||y||)``, the paper's; not a metric in
                                 general, and not defined for a row of zeros
    other names                  those of :func:`scipy.spatial.distance.cdist` and of
                                 :func:`sklearn.metrics.pairwise_distances`; those that compare
                                 sets (``"jaccard"``, ``"dice"``, ...) read X as ``X != 0``
    a function                   called as ``metric(x, y, **metric_params)`` once per pair i < j
    ===========================  ==================================================================

    Equal rows are at 0 from each other, as an item is from itself, whatever the formula says:
    Russell-Rao, ``1 - |x and y| / d``, is positive unless all features are present.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Sparse tables stay sparse for the first four lines above and are made
        dense for the other metrics. Without X the function returns a
        :class:`~metricmix.dissimilarity.specs.TableSpec`, for a table that is given later.
    metric : str or callable
    **metric_params
        Passed on, as ``p=3`` for ``"minkowski"``. The variances of ``"seuclidean"`` and the inverse
        covariance of ``"mahalanobis"`` are those of X unless given.

    Returns
    -------
    DissimilarityMatrix (n, n)
        float64, exactly symmetric with zero diagonal, named after the metric. Takes n^2 d / 2
        operations, at the speed of a matrix product for the first four lines, which are accurate
        nevertheless: equal rows are at exactly 0
        (:class:`~metricmix.dissimilarity.squared_distances.SquaredDistances`).

    Raises
    ------
    InputError
        If X holds NaN or inf (NaN is allowed with ``"nan_euclidean"``), if the metric is unknown,
        or if it is not defined for some pair, as the correlation with a constant row.

    >>> features([[0, 0], [3, 4], [3, 4]])
    DissimilarityMatrix([[0., 5., 5.],
                         [5., 0., 0.],
                         [5., 0., 0.]])
    >>> features(metric="minkowski", p=3)
    features(metric='minkowski', p=3)
    """
    if X is None:
        check_metric_name(metric)
        return TableSpec(FeatureDistances, metric_name(metric), {"metric": metric, **metric_params})
    matrix = feature_rows(X, metric, **metric_params).matrix()
    matrix.items = table_items(X)
    return matrix


class FeatureDistances(GivenTable):
    """``M[i, j] = metric(x_i, x_j)``, and the same from new rows."""

    function = "features"
    own: ClassVar[tuple[str, ...]] = ()
    """Arguments that are not passed to the metric."""

    def __init__(self, spec: TableSpec, X: ArrayLike | Any) -> None:
        super().__init__(spec, X)
        given = {name: spec.arguments[name] for name in spec.arguments if name not in self.own}
        self.metric = given.pop("metric")
        self.distances = FeatureRows(self.table, self.metric, given)


# -- after a linear map ----------------------------------------------------------------------------


@overload
def mahalanobis(
    X: None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> TableSpec: ...
@overload
def mahalanobis(
    X: ArrayLike | Any, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix: ...
@states(SourceFacts("pseudo-metric", new_items=True, row_cost="O(n k), k the rank of M"))
def mahalanobis(
    X: ArrayLike | Any | None = None, matrix: ArrayLike | None = None, *, kind: str = "auto"
) -> DissimilarityMatrix | TableSpec:
    """Mahalanobis distance: ``sqrt((x - y)^T M (x - y))``, or ``||L x - L y||`` with ``M = L^T L``.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        One row per item. Without X the function returns a
        :class:`~metricmix.dissimilarity.specs.TableSpec`, for a table that is given later.
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
        given = as_float_array(matrix, name="matrix").astype(np.float64)
        return TableSpec(MappedDistances, "mahalanobis", {"matrix": given, "kind": kind})
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


class MappedDistances(GivenTable):
    """``||L x - L y||`` of the rows, and from new rows.

    >>> mahalanobis(matrix=[[2, 0]]).bind([[0, 0], [1, 1]]).cross([[3, 7]])
    array([[6., 4.]])
    """

    function = "mahalanobis"
    usual: ClassVar[Mapping[str, Any]] = {"kind": "auto"}

    def __init__(self, spec: TableSpec, X: ArrayLike | Any) -> None:
        super().__init__(spec, X)
        matrix, kind = spec.arguments["matrix"], spec.arguments["kind"]
        self.map = as_linear_map(matrix, self.table.shape[1], kind)

    def matrix(self) -> DissimilarityMatrix:
        """Return the distances among the mapped rows."""
        matrix: DissimilarityMatrix = mahalanobis(self.table, **self.spec.arguments)
        return matrix

    @cached_property
    def distances(self) -> FeatureRows:
        """The distances of the mapped rows, for new ones."""
        return feature_rows(self.mapped(self.table))

    def new_rows(self, new: Any) -> Floats:
        """Return the mapped rows of a new table."""
        return self.mapped(super().new_rows(new))

    def mapped(self, X: Any) -> Floats:
        """Return ``L x`` row by row: a matrix product may round equal rows differently."""
        if isinstance(X, np.ndarray):
            return np.array([self.map @ row for row in X])
        return np.asarray(X @ self.map.T)
