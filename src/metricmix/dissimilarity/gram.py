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
        self.shifted = self.X if self.sparse else self.X - _middle(self.X)
        if self.sparse:
            self.norms = np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        else:
            self.norms = np.einsum("ij,ij->i", self.shifted, self.shifted)

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
            gap = self.X[rows[i]] - self.X[first + j]
            if self.sparse:
                values[i, j] = np.asarray(gap.multiply(gap).sum(axis=1)).ravel()
            else:
                values[i, j] = np.einsum("ij,ij->i", gap, gap)
        return values


def _middle(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the column means, rounded to a power of two near the column's spread.

    Rounded, the shift has few digits: whole numbers stay whole and their distances exact.
    """
    spread = X.std(axis=0)
    step = np.ldexp(1.0, np.frexp(np.where(spread > 0, spread, 1.0))[1] - 1)
    middle: NDArray[np.float64] = np.round(X.mean(axis=0) / step) * step
    return np.where(spread > 0, middle, X[0])
