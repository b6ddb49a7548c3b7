"""Squared distances and products between the rows of a dense or CSR table.

Of given pairs, ``|x_i - x_j|^2`` from the differences of two rows, so that nothing cancels: a pair
costs O(d), or the numbers stored in two sparse rows, and no row is copied
(:func:`squared_distances`). Of blocks of rows at the speed of a matrix product
(:class:`SquaredDistances`, :class:`Products`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "CHUNK",
    "FEW_OPERATIONS",
    "Products",
    "SquaredDistances",
    "half_squares",
    "row_squares",
    "sparse_operations",
    "squared_distances",
    "unit_rows",
]

CHUNK = 1 << 22
"""Numbers computed at once: 32 MiB."""
NARROW = 16
"""Columns up to which distances are computed from differences, without products."""
FREQUENT, FEW_OPERATIONS = 0.15, 1e8
"""Share of the rows from which on products of a column are dense (measured), and operations up to
which all are sparse, and in double precision."""


def squared_distances(X: Any, i: Indices, j: Indices) -> Floats:
    """Return ``|x_i[k] - x_j[k]|^2`` for the rows of a dense or CSR table, (len(i),).

    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 1]), np.array([1, 1]))
    array([25.,  0.])
    """
    first, second = np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
    values = np.empty(len(first))
    dense, at_once = isinstance(X, np.ndarray), 1 << 18
    if not dense and not X.has_sorted_indices:
        X = X.sorted_indices()

    def fill(start: int) -> None:
        part = slice(start, start + at_once)
        if dense:
            dense_squares(X, first[part], second[part], values[part])
        else:
            rows = X.indptr, X.indices, X.data
            sparse_squares(*rows, first[part], second[part], values[part])

    in_threads(fill, range(0, len(first), at_once), threads_for(len(first)))
    return values


@kernel
def dense_squares(X: AnyArray, i: Indices, j: Indices, values: Floats) -> None:
    """Fill `values`."""
    for k in range(i.size):
        values[k] = square_of_difference(X[i[k]], X[j[k]])


@kernel_step
def square_of_difference(x: AnyArray, y: AnyArray) -> float:
    """Return the squared distance of two rows.

    Eight sums, so that the loop is vectorised without reordering by flags.
    """
    d = x.size
    whole = d - d % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for c in range(0, whole, 8):
        s0 += (x[c] - y[c]) ** 2
        s1 += (x[c + 1] - y[c + 1]) ** 2
        s2 += (x[c + 2] - y[c + 2]) ** 2
        s3 += (x[c + 3] - y[c + 3]) ** 2
        s4 += (x[c + 4] - y[c + 4]) ** 2
        s5 += (x[c + 5] - y[c + 5]) ** 2
        s6 += (x[c + 6] - y[c + 6]) ** 2
        s7 += (x[c + 7] - y[c + 7]) ** 2
    total = (s0 + s1) + (s2 + s3) + ((s4 + s5) + (s6 + s7))
    for c in range(whole, d):
        total += (x[c] - y[c]) ** 2
    return total


@kernel
def sparse_squares(
    indptr: Ints, indices: Ints, data: AnyArray, i: Indices, j: Indices, values: Floats
) -> None:
    """Fill `values` by merging two rows whose columns are sorted."""
    for k in range(i.size):
        a, a_end = indptr[i[k]], indptr[i[k] + 1]
        b, b_end = indptr[j[k]], indptr[j[k] + 1]
        total = 0.0
        while a < a_end and b < b_end:
            if indices[a] == indices[b]:
                total += (data[a] - data[b]) ** 2
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                total += data[a] ** 2
                a += 1
            else:
                total += data[b] ** 2
                b += 1
        for rest in range(a, a_end):
            total += data[rest] ** 2
        for rest in range(b, b_end):
            total += data[rest] ** 2
        values[k] = total


def unit_rows(X: Any) -> tuple[Any, Floats]:
    """Return the rows of X at unit length (or zero), and their lengths."""
    sparse = not isinstance(X, np.ndarray)
    largest = np.abs(X).max(axis=1)
    largest = np.asarray(largest.todense()).ravel() if sparse else largest
    if not sparse and largest.max(initial=0.0) <= 1.0:
        squares = row_squares(X)
        unit = np.abs(squares - 1.0) <= 64 * np.finfo(X.dtype).eps
        if (unit | (squares == 0)).all():
            return X, np.asarray(unit, dtype=X.dtype)
    # Powers of two first, so that squares stay in range and no digit is lost.
    powers = np.ldexp(np.ones_like(largest), np.frexp(largest)[1])
    scaled = X.multiply(1 / powers[:, None]).tocsr() if sparse else X / powers[:, None]
    squares = scaled.multiply(scaled).sum(axis=1) if sparse else (scaled * scaled).sum(axis=1)
    lengths = np.sqrt(np.asarray(squares).ravel())
    inverse = 1 / np.where(lengths > 0, lengths, 1.0)
    directions = scaled.multiply(inverse[:, None]).tocsr() if sparse else scaled * inverse[:, None]
    return directions, np.asarray(lengths * powers)


class SquaredDistances:
    """``||x - y||^2 = ||x||^2 + ||y||^2 - 2 x.y``, and ``sum_k (x_k - y_k)^2`` where that cancels.

    The expanded form runs at the speed of BLAS, but its error is relative to the norms, not to the
    distance: equal rows come out as 1e-16 or as a negative number. So the entries that are small
    against the norms are computed again from differences. Equal rows are then at exactly 0,
    nothing is negative, and every entry is right to about twelve digits. Dense rows are shifted to
    the middle of the data first, so that few entries need it.

    Parameters
    ----------
    X : array or CSR array (n, d), float64 (or float32: half the bytes, seven digits)
        Finite rows.

    Attributes
    ----------
    scale : float
        A power of two; distances are those of the rows divided by it, so that squares of very
        large or very small numbers stay in range.

    >>> SquaredDistances(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])).block(np.array([1])) * 16
    array([[6.25, 0.  , 0.  ]])
    """

    cancellation = 1e-3
    """Below this share of ||x||^2 + ||y||^2 a squared distance has lost three digits or more."""

    def __init__(self, X: Any) -> None:
        self.sparse = not isinstance(X, np.ndarray)
        values = X.data if self.sparse else X
        largest = float(np.max(np.abs(values), initial=0.0))
        self.scale = float(np.ldexp(1.0, int(np.frexp(largest)[1]))) if largest > 0 else 1.0
        self.X = X / self.scale if self.scale != 1.0 else X

    @cached_property
    def middle(self) -> AnyArray:
        """What dense rows are shifted by: a mean per column.

        It is rounded to a power of two near the column's spread: whole numbers stay whole, and
        their distances exact.
        """
        if self.sparse:
            return np.zeros(0)
        mean = self.X.mean(axis=0)
        if self.X.dtype == np.float32:  # without another table: it need not be exact
            mean_square = np.einsum("ij,ij->j", self.X, self.X) / len(self.X)
            spread = np.sqrt(np.maximum(mean_square - mean * mean, 0.0))
        else:
            spread = self.X.std(axis=0)
        step = np.ldexp(np.ones_like(spread), np.frexp(np.where(spread > 0, spread, 1))[1] - 1)
        return np.asarray(np.where(spread > 0, np.round(mean / step) * step, self.X[0]))

    @cached_property
    def shifted(self) -> Any:
        """The rows that products are taken of; made for the first block, not for pairs.

        Shifting rounds: differences are taken of the others.
        """
        return self.X if self.sparse else self.X - self.middle

    @cached_property
    def norms(self) -> Floats:
        """The squared lengths of the shifted rows."""
        return row_squares(self.shifted)

    def block(self, rows: Indices, columns: slice | Indices = slice(None)) -> Floats:
        """Return the squared distances from `rows` to `columns`, all items by default."""
        if self.sparse:
            return self.sparse_block(rows, columns)
        X, others = self.X[rows], self.X[columns]
        if X.shape[1] <= NARROW:
            values = np.zeros((len(X), len(others)), X.dtype)
            narrow_squares(X, np.ascontiguousarray(others.T), values)
            return values
        values = np.asarray(self.shifted[rows] @ self.shifted[columns].T)
        share = X.dtype.type(self.cancellation)
        squares_from_products(values, self.norms[rows], self.norms[columns], X, others, share)
        return values

    def sparse_block(self, rows: Indices, columns: slice | Indices) -> Floats:
        """Return the same for a sparse table."""
        values: Floats = (self.X[rows] @ self.X[columns].T).toarray()
        sums = self.norms[rows, None] + self.norms[columns]
        values *= -2.0
        values += sums
        sums *= self.cancellation
        again_row, again_column = np.nonzero(values <= sums)
        items = np.arange(self.X.shape[0])[columns]
        step = max(1, CHUNK // max(1, self.X.shape[1]))
        for start in range(0, len(again_row), step):
            i, j = again_row[start : start + step], again_column[start : start + step]
            values[i, j] = row_squares(self.X[rows[i]] - self.X[items[j]])
        return values

    def cross(self, Y: Any) -> tuple[Floats, Floats]:
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
        values: Floats = product.toarray() if self.sparse else product
        sums = row_squares(shifted)[:, None] + ratios * ratios * self.norms
        values *= -2.0 * ratios
        values += sums
        sums *= self.cancellation
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
            values[i, j] = row_squares(Y[i] / self.scale - self.X[j]) * ratios[i, 0] ** 2
        return values, scales


@kernel
def narrow_squares(A: AnyArray, columns: AnyArray, values: AnyArray) -> None:
    """Add the squared distances of the rows of A from those of B, whose columns are given."""
    for i in range(A.shape[0]):
        out = values[i]
        for c in range(A.shape[1]):
            x, column = A[i, c], columns[c]
            for j in range(out.size):
                out[j] += (x - column[j]) * (x - column[j])


@kernel
def squares_from_products(
    values: AnyArray, left: AnyArray, right: AnyArray, A: AnyArray, B: AnyArray, share: float
) -> None:
    """Turn the products of the rows of A and B, shifted, into squared distances.

    `left` and `right` are the squared lengths of the shifted rows. Values up to the given share of
    their sum are computed from differences.
    """
    chunk = 256  # values that are compared without branches
    for i in range(values.shape[0]):
        own, x = left[i], A[i]
        for first in range(0, values.shape[1], chunk):
            out, norms = values[i, first : first + chunk], right[first : first + chunk]
            small = np.int32(0)
            for j in range(out.size):
                total = own + norms[j]
                square = total - (out[j] + out[j])
                small |= np.int32(square <= share * total)
                out[j] = square
            if small:
                for j in range(out.size):
                    if out[j] <= share * (own + norms[j]):
                        out[j] = square_of_difference(x, B[first + j])


def row_squares(X: Any, dtype: Any = None) -> Floats:
    """Return the squared length of each row, in the precision of X unless a type is given."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X), dtype)
    return np.asarray(X.multiply(X).sum(axis=1), dtype).ravel()


class Products:
    """``x_i . x_j`` for some rows i and consecutive rows j of a dense or CSR table, as an array.

    Columns that many rows of a large sparse table have are multiplied as dense ones: there a
    product of matrices takes less time than adding what is stored.
    """

    def __init__(self, Z: Any) -> None:
        self.Z, self.frequent, self.columns = Z, Z, None
        if isinstance(Z, np.ndarray):
            return
        many = np.bincount(Z.indices, minlength=Z.shape[1]) > FREQUENT * Z.shape[0]
        self.frequent = np.zeros((Z.shape[0], 0), Z.dtype)
        if many.any() and sparse_operations(Z) > FEW_OPERATIONS:
            self.frequent = Z[:, np.flatnonzero(many)].toarray()
            self.Z = Z[:, np.flatnonzero(~many)]
        self.columns = self.Z.tocsc()

    def __call__(self, rows: AnyArray, start: int = 0, stop: int | None = None) -> AnyArray:
        """Return the products of `rows` with the rows start .. stop - 1, by default with all."""
        values = np.asarray(self.frequent[rows] @ self.frequent[start:stop].T)
        Z, C = self.Z, self.columns
        if C is not None:
            by_row, by_column = (Z.indptr, Z.indices, Z.data), (C.indptr, C.indices, C.data)
            sparse_products(*by_row, *by_column, rows.astype(np.int64), start, values)
        return values


def sparse_operations(Z: Any) -> float:
    """Return how many products all pairs of rows of a sparse table take, and as many sums as pairs.

    Two rows meet in each column that both have.
    """
    counts = np.bincount(Z.indices, minlength=Z.shape[1]).astype(np.float64)
    return float(counts @ counts) + float(Z.shape[0]) ** 2


@kernel
def sparse_products(
    indptr: Ints,
    indices: Ints,
    data: AnyArray,
    column_indptr: Ints,
    column_indices: Ints,
    column_data: AnyArray,
    rows: Indices,
    start: int,
    values: AnyArray,
) -> None:
    """Add ``x_i . x_j`` to `values` for the rows i and the rows j from `start` on.

    From the rows of a sparse table and its columns, whose row numbers are sorted.
    """
    stop = start + values.shape[1]
    for a in range(rows.size):
        out = values[a]
        for e in range(indptr[rows[a]], indptr[rows[a] + 1]):
            c, x = indices[e], data[e]
            f, last = column_indptr[c], column_indptr[c + 1]
            f += np.searchsorted(column_indices[f:last], start)
            while f < last and column_indices[f] < stop:
                out[column_indices[f] - start] += x * column_data[f]
                f += 1


def half_squares(Z: Any) -> AnyArray:
    """Return half the squared length of each row."""
    return row_squares(Z) / 2
