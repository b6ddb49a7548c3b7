"""Logistic regression with a kernel, whose cost does not depend on the number of columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["KernelLogisticRegression", "gram_basis", "regularisation_path"]

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Inverse strengths C that a default classifier is chosen from."""


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

    def __repr__(self) -> str:
        return f"KernelLogisticRegression({self.kernel!r}, C={self.C!r}, gamma={self.gamma!r})"

    def fit(self, X: Any, y: Any) -> KernelLogisticRegression:
        """Fit to the rows X (n, d) with classes y."""
        self.keep_rows(X, self.gamma_of(X))
        return self.fit_gram(self.kernel_rows(X, X), y)

    def keep_rows(self, X: Any, gamma: float) -> None:
        """Keep the rows of the fit, for those to come."""
        self.rows_, self.gamma_ = X, gamma

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities (n, C) of the rows X."""
        return self.gram_probabilities(self.kernel_rows(X, self.rows_))

    def predict(self, X: Any) -> AnyArray:
        """Return the classes of the rows X."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def gamma_of(self, X: Any) -> float:
        """Return gamma for the rows X of a fit."""
        if self.gamma is not None:
            return self.gamma
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        spread = float(dense.var())
        return 1.0 / (dense.shape[1] * spread) if spread > 0 else 1.0

    def kernel_rows(self, X: Any, anchors: Any) -> Floats:
        """Return the kernel values of the rows X with the rows `anchors`, (n, L)."""
        product = X @ anchors.T
        values = np.asarray(product.toarray() if hasattr(product, "toarray") else product)
        if self.kernel == "linear":
            return values.astype(np.float64, copy=False)
        gamma = getattr(self, "gamma_", None) or self.gamma_of(anchors)
        left, right = row_squares(X), row_squares(anchors)
        return np.exp(-gamma * np.maximum(left[:, None] + right - 2.0 * values, 0.0))

    def fit_gram(
        self,
        gram: Floats,
        y: Indices,
        sample_weight: Floats | None = None,
        basis: Floats | None = None,
    ) -> KernelLogisticRegression:
        """Fit to classes y, given the kernel values of the rows with each other, (L, L).

        `basis` is their :func:`gram_basis`, if it is known.
        """
        from sklearn.linear_model import LogisticRegression

        self.basis_ = gram_basis(gram) if basis is None else basis
        model = LogisticRegression(C=self.C, max_iter=300, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(gram @ self.basis_, y, sample_weight)
        self.classes_, self.model_ = model.classes_, model
        return self

    def gram_probabilities(self, gram: Floats) -> Floats:
        """Return class probabilities, given the kernel values with the rows of the fit, (n, L)."""
        return np.asarray(self.model_.predict_proba(gram @ self.basis_))


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


def row_squares(X: Any) -> Floats:
    """Return the squared length of each row."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
