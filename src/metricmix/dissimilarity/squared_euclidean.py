"""Squared Euclidean distances at the speed of a matrix product, without its cancellation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SquaredDistances"]

CANCELLATION = 1e-3
"""Below this share of ||x||^2 + ||y||^2 a squared distance has lost three digits or more."""

CHUNK = 1 << 22
"""Numbers held at once while differences are taken: 32 MiB."""


class SquaredDistances:
    """``||x - y||^2 = ||x||^2 + ||y||^2 - 2 x.y``, and ``sum_k (x_k - y_k)^2`` where that cancels.

    The expanded form runs at the speed of BLAS, but its error is relative to the norms, not to the
    distance: equal rows come out as 1e-16 or as a negative number. So the entries that are small
    against the norms are computed again from differences. Equal rows are then at exactly 0,
    nothing is negative, and every entry is right to about twelve digits. Dense rows are shifted to
    the middle of the data first, so that few entries need it.

    Parameters
    ----------
    X : array or CSR array (n, d), float64
        Finite rows.

    Attributes
    ----------
    scale : float
        A power of two; distances are those of the rows divided by it, so that squares of very
        large or very small numbers stay in range.

    >>> SquaredDistances(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])).block(np.array([1])) * 16
    array([[6.25, 0.  , 0.  ]])
    """

    def __init__(self, X: Any) -> None:
        self.sparse = not isinstance(X, np.ndarray)
        values = X.data if self.sparse else X
        largest = float(np.max(np.abs(values), initial=0.0))
        self.scale = float(np.ldexp(1.0, int(np.frexp(largest)[1]))) if largest > 0 else 1.0
        self.X = X / self.scale
        # Shifting rounds: products are taken of the shifted rows, differences of the others.
        self.middle = np.zeros(0) if self.sparse else _middle(self.X)
        self.shifted = self.X if self.sparse else self.X - self.middle
        self.norms = _squares(self.shifted)

    def block(self, rows: NDArray[np.integer], first: int = 0) -> NDArray[np.float64]:
        """Return the squared distances from `rows` to the items first, first + 1, ..."""
        product = self.shifted[rows] @ self.shifted[first:].T
        values: NDArray[np.float64] = product.toarray() if self.sparse else product
        sums = self.norms[rows, None] + self.norms[None, first:]
        values *= -2.0
        values += sums
        sums *= CANCELLATION
        again_row, again_column = np.nonzero(values <= sums)
        if not self.sparse and 4 * len(again_row) > values.size:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(self.X[rows], self.X[first:], "sqeuclidean"))
        step = max(1, CHUNK // max(1, self.X.shape[1]))
        for start in range(0, len(again_row), step):
            i, j = again_row[start : start + step], again_column[start : start + step]
            values[i, j] = _squares(self.X[rows[i]] - self.X[first + j])
        return values

    def cross(self, Y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the squared distances from new rows to these rows, and the scales of the new rows.

        The entries of row i are divided by ``scales[i]^2``, a power of two that suits both that row
        and these: a new row may be larger than any of these by many orders of magnitude. No row
        affects another but through the rounding of the matrix product.

        Parameters
        ----------
        Y : array (m, d) if X is one, else CSR array (m, d), float64
            Finite rows.

        Returns
        -------
        values : array (m, n)
        scales : array (m, 1)

        >>> rows = SquaredDistances(np.array([[0.0, 0.0], [3.0, 4.0]]))
        >>> values, scales = rows.cross(np.array([[3.0, 4.0], [0.0, 1e200]]))
        >>> np.sqrt(values) * scales
        array([[5.e+000, 0.e+000],
               [1.e+200, 1.e+200]])
        """
        largest = np.abs(Y).max(axis=1)
        largest = np.asarray(largest.todense()).ravel() if self.sparse else largest
        scales = np.maximum(np.ldexp(1.0, np.frexp(largest)[1]), self.scale)[:, None]
        ratios = self.scale / scales
        scaled = Y.multiply(1 / scales).tocsr() if self.sparse else Y / scales
        shifted = scaled if self.sparse else scaled - ratios * self.middle
        product = shifted @ self.shifted.T
        values: NDArray[np.float64] = product.toarray() if self.sparse else product
        sums = _squares(shifted)[:, None] + ratios * ratios * self.norms
        values *= -2.0 * ratios
        values += sums
        sums *= CANCELLATION
        again = values <= sums
        # Rows this close are of like size: in the units of X nothing overflows below.
        many = np.flatnonzero(4 * again.sum(axis=1) > again.shape[1])
        if not self.sparse and len(many):
            from scipy.spatial.distance import cdist

            values[many] = cdist(Y[many] / self.scale, self.X, "sqeuclidean") * ratios[many] ** 2
            again[many] = False
        again_row, again_column = np.nonzero(again)
        step = max(1, CHUNK // max(1, self.X.shape[1]))
        for start in range(0, len(again_row), step):
            i, j = again_row[start : start + step], again_column[start : start + step]
            values[i, j] = _squares(Y[i] / self.scale - self.X[j]) * ratios[i, 0] ** 2
        return values, scales


def _squares(X: Any) -> NDArray[np.float64]:
    """Return the squared length of each row."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X))
    return np.asarray(X.multiply(X).sum(axis=1)).ravel()


def _middle(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the column means, rounded to a power of two near the column's spread.

    Rounded, the shift has few digits: whole numbers stay whole and their distances exact.
    """
    spread = X.std(axis=0)
    step = np.ldexp(1.0, np.frexp(np.where(spread > 0, spread, 1.0))[1] - 1)
    middle: NDArray[np.float64] = np.round(X.mean(axis=0) / step) * step
    return np.where(spread > 0, middle, X[0])
