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
from metricmix.dissimilarity.ridge import RidgeFit, ridge_path
from metricmix.dissimilarity.squared_distances import row_squares
from metricmix.typing import Floats, Indices

__all__ = ["KernelPredictor", "KernelRegressor"]

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

    Leave-one-out errors choose penalty and width; held-out numbers are those of ten folds. Both are
    exact, without refits: :func:`~metricmix.dissimilarity.ridge.ridge_path`. The feature space is
    spanned by at most 1000 rows.

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
            fit = ridge_path(features.of(rows), y, weights=own, folds=training.folds)
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
