"""Squared distances of given pairs of rows, without a table of all pairs.

``|x_i - x_j|^2`` from the differences of two rows, so that nothing cancels. A pair costs O(d), or
the numbers stored in two sparse rows; no row is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["PAIRS_AT_ONCE", "squared_distances"]

PAIRS_AT_ONCE = 1 << 18


def squared_distances(X: Any, i: Indices, j: Indices) -> Floats:
    """Return ``|x_i[k] - x_j[k]|^2`` for the rows of a dense or CSR table, (len(i),).

    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 1]), np.array([1, 1]))
    array([25.,  0.])
    """
    first, second = np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
    values = np.empty(len(first))
    dense = isinstance(X, np.ndarray)
    if not dense and not X.has_sorted_indices:
        X = X.sorted_indices()

    def fill(start: int) -> None:
        part = slice(start, start + PAIRS_AT_ONCE)
        if dense:
            dense_squares(X, first[part], second[part], values[part])
        else:
            rows = X.indptr, X.indices, X.data
            sparse_squares(*rows, first[part], second[part], values[part])

    in_threads(fill, range(0, len(first), PAIRS_AT_ONCE), threads_for(len(first)))
    return values


@kernel
def dense_squares(X: AnyArray, i: Indices, j: Indices, values: Floats) -> None:
    """Fill `values`; eight sums, so that the loop is vectorised without reordering by flags."""
    d = X.shape[1]
    whole = d - d % 8
    for k in range(i.size):
        x, y = X[i[k]], X[j[k]]
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
        values[k] = total


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
