"""Distances between the rows of a feature table: as a matrix, a recipe, and a source of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from numpy.typing import ArrayLike

from metricmix.dissimilarity.feature_rows import (
    FACTS,
    FeatureRows,
    Metric,
    check_metric_name,
    feature_rows,
    metric_name,
)
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.matrix import DissimilarityMatrix, states
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe
from metricmix.dissimilarity.sources import ComputedSource
from metricmix.state import stored
from metricmix.typing import Floats, Indices

__all__ = [
    "AppliedFeatures",
    "FeatureRecipe",
    "FeatureSource",
    "features",
]


@overload
def features(
    X: None = None, metric: Metric = "euclidean", **metric_params: Any
) -> FeatureRecipe: ...
@overload
def features(
    X: ArrayLike | Any, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix: ...
@states(FACTS)
def features(
    X: ArrayLike | Any | None = None, metric: Metric = "euclidean", **metric_params: Any
) -> DissimilarityMatrix | FeatureRecipe:
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
        :class:`~metricmix.dissimilarity.recipes.Recipe`, to be applied to a table later.
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
        return FeatureRecipe(metric, metric_params)
    matrix = feature_rows(X, metric, **metric_params).matrix()
    matrix.items = table_items(X)
    return matrix


@stored("features")
class FeatureRecipe(Recipe):
    """``M[i, j] = metric(x_i, x_j)``: :func:`~metricmix.dissimilarity.features` of a later table.

    >>> from metricmix.dissimilarity import features
    >>> FeatureRecipe("minkowski", {"p": 3}) == features(metric="minkowski", p=3)
    True
    """

    kind = "features"

    def __init__(
        self, metric: Metric = "euclidean", params: Mapping[str, Any] | None = None
    ) -> None:
        check_metric_name(metric)
        self.metric = metric
        super().__init__({"metric": metric, **(params or {})})

    @property
    def name(self) -> str:
        """The metric's name."""
        return metric_name(self.metric)

    def apply(self, X: ArrayLike | Any) -> AppliedFeatures:
        """Return the metric among the rows of X, and from new rows to them."""
        return AppliedFeatures(self, X)


class AppliedFeatures(AppliedRecipe):
    """Distances among n rows, and from new rows to them."""

    def __init__(self, recipe: FeatureRecipe, X: ArrayLike | Any) -> None:
        super().__init__(recipe, X)
        self._rows = feature_rows(self._table, **recipe.arguments)

    @property
    def matrix(self) -> DissimilarityMatrix:
        """The distances among the rows."""
        return self._rows.matrix()

    def compute_cross(self, Y: Any) -> Floats:
        """Return the distances from the rows of Y."""
        return self._rows.cross(Y)


class FeatureSource(ComputedSource):
    """Distances between the rows of a feature table, computed on demand.

    The values are those of :func:`metricmix.dissimilarity.features`; memory is that of the table.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or table
    metric : str
        As in :func:`~metricmix.dissimilarity.features`.
    name : str, optional
        Default: that of the metric.
    """

    def __init__(self, X: ArrayLike, metric: str = "euclidean", *, name: str | None = None) -> None:
        self._use(feature_rows(X, metric), name or metric)

    @classmethod
    def of(cls, compute: FeatureRows, name: str) -> FeatureSource:
        """Return the source of a validated table, in its own precision."""
        source = cls.__new__(cls)
        source._use(compute, name)
        return source

    def _use(self, compute: FeatureRows, name: str) -> None:
        rows, known = compute.rows, replace(compute.facts, new_items=False)
        super().__init__(compute.n, rows, columns=rows, name=name, facts=known)
        self.compute = compute

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return self.compute.between(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise, O(d) each."""
        return self.compute.pairs(i, j)
