"""Logistic regression with a kernel, whose cost does not depend on the number of columns."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.logistic_path import class_probabilities, logistic_path, softmax
from metricmix.dissimilarity.predictors import N_FOLDS, CrossFitted, Training
from metricmix.dissimilarity.squared_distances import row_squares
from metricmix.state import checked_state, require, stored
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "KernelClassifier",
    "KernelLogisticRegression",
    "gram_basis",
    "row_products",
]

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Inverse strengths C that a default classifier is chosen from."""
VALUES_KEPT = 1 << 23
"""Products of rows that a classifier keeps: 64 MiB."""
SPAN_KEPT = 1 << 20
"""Kernel values up to which the rows that they span are kept: 16 MiB."""


@stored("KernelLogisticRegression")
class KernelLogisticRegression:
    r"""Multinomial logistic regression in the feature space of a kernel.

    .. math:: \min_W \; C \sum_i -\log p_{y_i}(x_i) + \tfrac12 \lVert W \rVert^2, \qquad
              p_c(x) \propto e^{w_c \cdot \phi(x) + b_c}

    The solution lies in the span of the L labelled rows, so with the L × L matrix of their kernel
    values it costs the same however many columns the table has. With the linear kernel this is
    :class:`~sklearn.linear_model.LogisticRegression`.

    Parameters
    ----------
    kernel : {"linear", "rbf"}
    C : float
        Inverse strength of the penalty.
    gamma : float, optional
        Of ``exp(-gamma ||x - y||^2)``; default 1 / (d var(X)) over the rows of the fit.
    """

    def __init__(self, kernel: str = "linear", C: float = 1.0, gamma: float | None = None) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        return {"kernel": self.kernel, "C": self.C, "gamma": self.gamma}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> KernelLogisticRegression:
        """Return a regression with stored settings."""
        table = {"kernel": str, "C": float, "gamma": float | None}
        kernel, C, gamma = checked_state(state, table, cls.__name__).values()
        sound = kernel in ("linear", "rbf") and 0 < C < np.inf
        sound = sound and (gamma is None or 0 < gamma < np.inf)
        require(sound, "expected a kernel 'linear' or 'rbf', C > 0 and gamma > 0")
        return cls(kernel, C, gamma)

    def __repr__(self) -> str:
        return f"KernelLogisticRegression({self.kernel!r}, C={self.C!r}, gamma={self.gamma!r})"

    def fit(self, X: Any, y: Any, sample_weight: Floats | None = None) -> KernelLogisticRegression:
        """Fit to the rows X (n, d) with classes y."""
        self.rows_, self.gamma_ = X, self.gamma_of(X)
        gram = self.kernel_rows(X, X, self.gamma_)
        basis = gram_basis(gram)
        return self.fit_rows(gram @ basis, basis, y, sample_weight)

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities (n, C) of the rows X."""
        if self.kernel == "linear":
            return self.row_probabilities(X, self.rows_)
        return self.gram_probabilities(self.kernel_rows(X, self.rows_, self.gamma_))

    def predict(self, X: Any) -> AnyArray:
        """Return the classes of the rows X."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def gamma_of(self, X: Any) -> float:
        """Return gamma for the rows X of a fit."""
        if self.gamma is not None or self.kernel == "linear":
            return self.gamma or 1.0
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        spread = float(dense.var())
        return 1.0 / (dense.shape[1] * spread) if spread > 0 else 1.0

    def kernel_rows(self, X: Any, anchors: Any, gamma: float) -> Floats:
        """Return the kernel values of the rows X with the rows `anchors`, (n, L)."""
        return self.kernel_of(
            row_products(X, anchors),
            row_squares(X, np.float64),
            row_squares(anchors, np.float64),
            gamma,
        )

    def kernel_of(self, products: Floats, left: Floats, right: Floats, gamma: float) -> Floats:
        """Return kernel values, from the products of rows and their squared lengths."""
        if self.kernel == "linear":
            return products
        return np.exp(-gamma * np.maximum(left[:, None] + right - 2.0 * products, 0.0))

    def fit_rows(
        self, rows: Floats, basis: Floats, y: Indices, sample_weight: Floats | None = None
    ) -> KernelLogisticRegression:
        """Fit to classes y, given rows (L, k) with the products of the kernel.

        They are ``gram @ basis``, of the kernel values (L, L) and their :func:`gram_basis`.
        """
        self.classes_, codes = np.unique(y, return_inverse=True)
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight)
        path = logistic_path(rows, codes, weights[None], [self.C], len(self.classes_))
        self.coefficients_, self.intercepts_ = basis @ path[0, 0, :, :-1].T, path[0, 0, :, -1]
        return self

    def gram_probabilities(self, gram: Floats) -> Floats:
        """Return class probabilities, given the kernel values with the rows of the fit, (n, L)."""
        return softmax(gram @ self.coefficients_ + self.intercepts_)

    def row_probabilities(self, X: Any, anchors: Any) -> Floats:
        """Return class probabilities (n, C) by the linear kernel, with the rows of the fit.

        By a weight for each column and class, so that the cost does not depend on L.
        """
        weights = anchors.astype(np.float64).T @ self.coefficients_
        return softmax(row_products(X, weights.T) + self.intercepts_)


class KernelClassifier(CrossFitted):
    """Kernel logistic regressions of several penalties on a table, cross-fitted.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    kernel : {"linear", "rbf"}
    n_folds : int

    Notes
    -----
    The Gaussian kernel needs the products of rows with labelled rows. They are kept for folds,
    whose labelled items are some of them, where they are at most 8 million.
    """

    def __init__(self, X: Any, kernel: str = "linear", n_folds: int = N_FOLDS) -> None:
        super().__init__(X, regularisation_path(kernel), n_folds)
        self.kernel = kernel
        self._kept: tuple[Indices, Floats] | None = None  # products with some items, (n, L)
        self._span: tuple[Indices, Floats, Floats] | None = None  # what `span` found last

    def part(self, items: Indices, n_folds: int) -> KernelClassifier:
        """Return the predictor for some rows of the table."""
        return KernelClassifier(self.X[items], self.kernel, min(n_folds, self.n_folds))

    def held_out(self, training: Training, tried: list[int]) -> Floats:
        """Return what each regression says of the items without their fold, (K, L, c)."""
        found = np.zeros((len(tried), *training.shape(len(training.y))))
        rows, tests = self.span(training.items)[0], list(training.tests())
        own = training.everyone if training.weights is None else training.weights
        path = logistic_path(
            rows,
            training.y,
            np.where(tests, 0.0, own),
            [self.estimators[k].C for k in tried],
            len(training.classes),
        )
        for test, of_fold in zip(tests, path, strict=True):
            for p, coefficients in zip(found, of_fold, strict=True):
                p[test] = class_probabilities(rows[test], coefficients)
        return found

    def of_all(self, training: Training, choice: int) -> Floats:
        """Return what the regression of all labels says of all rows, (n, c)."""
        items, step = training.items, max(1, VALUES_KEPT // len(training.items))
        p = np.zeros(training.shape(self.n))
        model = copy(self.estimators[choice]).fit_rows(
            *self.span(items), training.y, training.weights
        )
        if self.kernel == "linear":
            p[:, model.classes_] = model.row_probabilities(self.X, self.X[items])
            return p
        for start in range(0, self.n, step):
            part = np.arange(start, min(start + step, self.n))
            p[part[:, None], model.classes_] = model.gram_probabilities(
                self.kernel_values(part, items)
            )
        return p

    def span(self, items: Indices) -> tuple[Floats, Floats]:
        """Return rows (L, k) of labelled items with the products of the kernel, and their basis.

        From the rows of the table of these items alone: solvers that stop early amplify the
        rounding of products, which depends on the place of a row in its table. Kept for the next
        call, as resamples differ only in how much each label counts.
        """
        last = self._span
        if last is not None and np.array_equal(last[0], items):
            return last[1:]
        first, table = self.estimators[0], self.X[items]
        gram = np.asarray(first.kernel_rows(table, table, first.gamma_of(table)))
        basis = gram_basis(gram)
        rows = gram @ basis
        self._span = (items, rows, basis) if gram.size <= SPAN_KEPT else None
        return rows, basis

    def kernel_values(self, rows: Indices, items: Indices) -> Floats:
        """Return the kernel values of some rows with labelled items, (len(rows), L)."""
        first = self.estimators[0]
        squares, gamma = self._squares, first.gamma_of(self.X[items])
        products = self.products(rows, items)
        return np.asarray(first.kernel_of(products, squares[rows], squares[items], gamma))

    def products(self, rows: Indices, items: Indices) -> Floats:
        """Return the products of some rows with those of labelled items."""
        if self.n * len(items) > VALUES_KEPT:
            return row_products(self.X[rows], self.X[items])
        known, values = self._kept or (items[:0], np.empty((self.n, 0)))
        if not np.isin(items, known).all():
            known, values = np.sort(items), row_products(self.X, self.X[np.sort(items)])
            self._kept = known, values
        return np.asarray(values[np.ix_(rows, np.searchsorted(known, items))])

    @cached_property
    def _squares(self) -> Floats:
        return row_squares(self.X, np.float64)


def gram_basis(gram: Floats) -> Floats:
    """Return B (L, k) such that the rows of ``gram @ B`` have the products that gram (L, L) holds.

    >>> gram = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> rows = gram @ gram_basis(gram)
    >>> bool(np.allclose(rows @ rows.T, gram))
    True
    """
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    kept[-1] = True  # rows of zeros have no direction, but the classes have shares
    lengths = np.sqrt(np.where(values > 0, values, 1.0)[kept])
    return np.ascontiguousarray(vectors[:, kept] / lengths)


def regularisation_path(kernel: str = "linear") -> list[KernelLogisticRegression]:
    """Return logistic regressions to choose from, the strongest penalty first."""
    return [KernelLogisticRegression(kernel, C) for C in PENALTIES]


def row_products(X: Any, anchors: Any) -> Floats:
    """Return the products of the rows of two tables, in double precision."""
    right = anchors.astype(np.float64).T
    products = np.empty((X.shape[0], anchors.shape[0]))
    for start in range(0, len(products), 1024):
        product = X[start : start + 1024].astype(np.float64, copy=False) @ right
        dense = product.toarray() if hasattr(product, "toarray") else product
        products[start : start + 1024] = dense
    return products
