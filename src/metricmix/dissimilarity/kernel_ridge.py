r"""Ridge regression on a table, or in the feature space of a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.kernel_logistic import KernelClassifier, row_products
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import (
    N_FOLDS,
    FittedModel,
    Predicted,
    Predictor,
    Training,
)
from metricmix.dissimilarity.squared_distances import row_squares
from metricmix.typing import Floats, Indices

__all__ = [
    "KernelPredictor",
    "KernelRegressor",
    "RidgeFit",
    "ridge_path",
]

PENALTIES = np.logspace(-4, 3, 22)
"""Penalties to choose from, where features have a mean square length of about 1."""


@dataclass(frozen=True, eq=False)
class RidgeFit:
    r"""A ridge regression :math:`\hat y = a + \phi b`.

    Attributes
    ----------
    intercept : float
    coefficients : (p,) array
    penalty : float
        As given, or the one with the smallest leave-one-out error.
    held_out : (L,) array
        What is predicted for each item without its own target, or without those of its fold.
    """

    intercept: float
    coefficients: Floats
    penalty: float
    held_out: Floats


def ridge_path(
    features: Floats,
    y: Floats,
    penalty: float | None = None,
    weights: Floats | None = None,
    folds: Indices | None = None,
) -> RidgeFit:
    r"""Return ridge regression with the penalty that has the smallest leave-one-out error.

    .. math:: \min_{a, b} \sum_i v_i \big(y_i - a - \phi_i b\big)^2 + \lambda \lVert b \rVert^2,
              \qquad y_i - \hat y_i^{(-i)} = \frac{y_i - \hat y_i}{1 - H_{ii}}

    with the smoother :math:`\hat y = H y`. Without all targets of a fold f, the residuals are
    :math:`(I - H_{ff})^{-1} (y_f - \hat y_f)`. Neither takes a refit.

    Parameters
    ----------
    features : (L, p) array
    y : (L,) array
    penalty : float, optional
        If given, nothing is chosen.
    weights : (L,) array, optional
        The weights v, of mean 1.
    folds : (L,) array, optional
        The fold of each item, 0, 1, …; default: each item is one.

    Examples
    --------
    >>> x = np.arange(-3.0, 4.0)
    >>> fit = ridge_path(x[:, None], 2.0 * x + 1.0)
    >>> round(fit.intercept, 3), fit.coefficients.round(3)
    (1.0, array([2.]))
    >>> bool(np.abs(fit.held_out - 2.0 * x - 1.0).max() < 1e-3)
    True
    """
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    mean = float(np.average(y, weights=weights))
    middle = np.average(features, axis=0, weights=weights)
    weighted, centred = root[:, None] * (features - middle), root * (y - mean)
    # By eigenvectors of the product: a singular value decomposition takes much longer.
    squares, right = np.linalg.eigh(weighted.T @ weighted)
    kept = squares > 1e-14 * max(float(squares.max(initial=0.0)), 1e-300)
    squares, right = squares[kept], right[:, kept]
    left = weighted @ right / np.sqrt(squares)
    t, shares = left.T @ centred, left**2
    constant = root / np.sqrt(root @ root)  # the intercept's part of the smoother
    best: tuple[float, float, Floats] | None = None
    for one in PENALTIES if penalty is None else (penalty,):
        shrunk = squares / (squares + one)
        left_over = np.maximum(1.0 - constant**2 - shares @ shrunk, 1e-9)
        residual = (centred - left @ (shrunk * t)) / left_over
        error = float(residual @ residual)
        if best is None or error < best[0]:
            best = error, float(one), residual
    assert best is not None
    residual, shrunk = best[2], squares / (squares + best[1])
    if folds is not None:
        apart = centred - left @ (shrunk * t)
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            own, of_constant = left[test], constant[test]
            smoother = (own * shrunk) @ own.T + np.outer(of_constant, of_constant)
            residual[test] = np.linalg.solve(np.eye(len(own)) - smoother, apart[test])
    coefficients = right @ (np.sqrt(squares) / (squares + best[1]) * t)
    held_out = y - residual / np.maximum(root, 1e-150)
    return RidgeFit(mean - float(middle @ coefficients), coefficients, best[1], held_out)


WIDTHS = (0.3, 1.0, 3.0)
"""Widths of a Gaussian kernel to choose from, in typical distances of two rows."""


@dataclass(frozen=True, eq=False)
class CentredColumns:
    """The columns of a table, centred and at a mean square length of 1."""

    middle: Floats
    size: float

    def of(self, X: Any) -> Floats:
        """Return the features of rows."""
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return np.asarray((dense - self.middle) / self.size, dtype=np.float64)


class KernelFeatures:
    """Features whose products are kernel values, spanned by anchor rows.

    Parameters
    ----------
    anchors : (A, d) array or sparse matrix
    width : float or None
        Of the Gaussian kernel, in typical distances of two anchors; None for the linear kernel,
        centred.
    """

    def __init__(self, anchors: Any, width: float | None) -> None:
        self.anchors, self.width = anchors, width
        own = row_products(anchors, anchors)
        self.means = own.mean(axis=0)
        if width is not None:
            squares = row_squares(anchors, np.float64)
            D = np.maximum(squares[:, None] + squares - 2.0 * own, 0.0)
            self.spread = 2.0 * (float(np.median(D)) or 1.0) * width**2
        gram = self.kernel(anchors, own)
        self.scale = float(np.diag(gram).mean()) or 1.0
        values, vectors = np.linalg.eigh(gram / self.scale)
        kept = values > 1e-8 * max(float(values[-1]), 1e-300)
        self.basis = vectors[:, kept] / np.sqrt(values[kept])

    def of(self, X: Any) -> Floats:
        """Return the features of rows, (n, p)."""
        return np.asarray(self.kernel(X, row_products(X, self.anchors)) / self.scale @ self.basis)

    def kernel(self, X: Any, products: Floats) -> Floats:
        """Return the kernel values of rows with the anchors, from their products."""
        if self.width is None:
            means = self.means
            return np.asarray(
                products - products.mean(axis=1, keepdims=True) - means + means.mean()
            )
        squares = row_squares(X, np.float64)[:, None] + row_squares(self.anchors, np.float64)
        return np.exp(-np.maximum(squares - 2.0 * products, 0.0) / self.spread)


@dataclass(frozen=True, eq=False)
class RidgeModel:
    """A ridge regression on features."""

    features: CentredColumns | KernelFeatures
    fit: RidgeFit

    def predict(self, X: Any) -> Floats:
        """Return the numbers of rows."""
        return np.asarray(self.fit.intercept + self.features.of(X) @ self.fit.coefficients)


class KernelRegressor(Predictor):
    r"""Ridge regression on a table, or in the feature space of a Gaussian kernel.

    Leave-one-out errors choose the penalty, those of ten folds the width (both, where items have
    groups); held-out numbers are those of the folds. Both are exact, without refits:
    :func:`ridge_path`. The feature space is spanned by at most 1000 rows.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    kernel : {"linear", "rbf"}
    n_folds : int
    """

    is_numeric = True

    def __init__(self, X: Any, kernel: str = "linear", n_folds: int = N_FOLDS) -> None:
        self.X, self.kernel, self.n, self.n_folds = X, kernel, X.shape[0], n_folds

    def part(self, items: Indices, n_folds: int) -> KernelRegressor:
        """Return the predictor for some rows of the table."""
        return KernelRegressor(self.X[items], self.kernel, min(n_folds, self.n_folds))

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return the numbers of all items."""
        best = self.best(training)
        values = best.predict(self.X) if len(training.items) < self.n else np.empty(self.n)
        values[training.items] = training.judged(best.fit.held_out)
        return Predicted(values)

    def fitted_model(self, training: Training, choice: int | None) -> RidgeModel:
        """Return the regression on all targets."""
        return self.best(training)

    def best(self, training: Training) -> RidgeModel:
        """Return the regression of the width with the smallest held-out error."""
        rows, y, own = self.X[training.items], training.y, training.weights
        own = None if own is None else own / own.mean()
        found: list[tuple[float, RidgeModel]] = []
        for features in self.feature_maps(rows):
            for penalty in (None,) if training.groups is None else PENALTIES:
                fit = ridge_path(features.of(rows), y, penalty, own, training.folds)
                error = float(np.average(np.square(fit.held_out - y), weights=own))
                found.append((error, RidgeModel(features, fit)))
        return min(found, key=lambda one: one[0])[1]

    def feature_maps(self, rows: Any) -> list[CentredColumns | KernelFeatures]:
        """Return the features to choose from, given the rows of known target."""
        if self.kernel == "linear" and rows.shape[1] <= rows.shape[0]:
            dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
            middle = dense.mean(axis=0)
            size = float(np.sqrt(np.square(dense - middle).sum(axis=1).mean()))
            return [CentredColumns(middle, size or 1.0)]
        widths = (None,) if self.kernel == "linear" else WIDTHS
        most = 1000  # rows that span the feature space of a kernel
        return [KernelFeatures(rows[:most], width) for width in widths]


class KernelPredictor(Predictor):
    """Regressions on a table with a kernel: logistic ones of labels, ridge ones of targets.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    kernel : {"linear", "rbf"}
    n_folds : int
    """

    def __init__(self, X: Any, kernel: str = "linear", n_folds: int = N_FOLDS) -> None:
        self.X, self.kernel, self.n, self.n_folds = X, kernel, X.shape[0], n_folds
        self.classes = KernelClassifier(X, kernel, n_folds)
        self.numbers = KernelRegressor(X, kernel, n_folds)

    def part(self, items: Indices, n_folds: int) -> KernelPredictor:
        """Return the predictor for some rows of the table."""
        return KernelPredictor(self.X[items], self.kernel, min(n_folds, self.n_folds))

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all rows."""
        return self._of(training).predicted(training, known, choice)

    def fitted_model(self, training: Training, choice: int | None) -> FittedModel:
        """Return the regression on all labels or targets."""
        return self._of(training).fitted_model(training, choice)

    def _of(self, training: Training) -> Predictor:
        return self.numbers if training.is_numeric else self.classes
