r"""The laws of a metric as rows of a matrix, all of them: what the direct solvers hand over.

With one variable per pair of items, :math:`m` is a metric when :math:`A m \ge 0`, where A has a row
with one 1 for every pair (:math:`m_{ij} \ge 0`) and a row with two 1 and one -1 for every triangle
(:math:`m_{ik} + m_{kj} - m_{ij} \ge 0`): of order :math:`n^2` columns and :math:`n^3` rows. That is
what the paper's baseline does, and why it ends at a few hundred items.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = [
    "constraint_matrix",
    "dense_bytes",
    "n_constraints",
    "pair_positions",
    "reduced_rows",
    "sparse_bytes",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
EPS = float(np.finfo(np.float64).eps)


def n_constraints(n: int, *, directed: bool = False) -> int:
    """Return the number of rows: one per pair, and one per pair and third item."""
    pairs = n * (n - 1) // (1 if directed else 2)
    return int(pairs * (1 + max(0, n - 2)))


def dense_bytes(n: int) -> int:
    """Return the bytes of the paper's matrix of n³ triangles by n² pairs, dense, in float64.

    >>> f"{dense_bytes(100) / 2**30:.1f} GiB"
    '74.5 GiB'
    """
    return 8 * n**5


def sparse_bytes(n: int, *, directed: bool = False) -> int:
    """Return the bytes of what :func:`constraint_matrix` returns: at most 3 entries in a row."""
    return 20 * 3 * n_constraints(n, directed=directed)


def pair_positions(n: int, *, directed: bool = False) -> tuple[Indices, Indices, Indices]:
    """Return the pairs (i, j) behind the columns, and the (n, n) columns of pairs; -1 for i = j."""
    i, j = np.nonzero(~np.eye(n, dtype=bool)) if directed else np.triu_indices(n, 1)
    column = np.full((n, n), -1)
    column[i, j] = np.arange(len(i))
    if not directed:
        column[j, i] = column[i, j]
    return i, j, column


def constraint_matrix(n: int, *, directed: bool = False) -> sparse.csr_array[Any]:
    r"""Return the sparse A, entries in {-1, 0, 1}, such that m is a metric when A m >= 0.

    Columns are pairs i < j (all ordered pairs, if `directed`) in the order of
    :func:`pair_positions`; first come the n (n - 1) / 2 rows of :math:`m_{ij} \ge 0`, then the
    n (n - 1) (n - 2) / 2 rows of :math:`m_{ik} + m_{kj} \ge m_{ij}`, pair by pair (twice as many of
    either, if `directed`).

    Examples
    --------
    >>> constraint_matrix(3).toarray().astype(int)
    array([[ 1,  0,  0],
           [ 0,  1,  0],
           [ 0,  0,  1],
           [-1,  1,  1],
           [ 1, -1,  1],
           [ 1,  1, -1]])
    """
    i, j, column = pair_positions(n, directed=directed)
    count = len(i)
    everyone = np.arange(n)
    apart = (everyone != i[:, None]) & (everyone != j[:, None])
    pair, k = np.nonzero(apart)
    legs = np.stack([pair, column[i[pair], k], column[k, j[pair]]], axis=1)
    indices = np.concatenate([np.arange(count), legs.ravel()])
    signs = np.tile([-1.0, 1.0, 1.0], len(pair))
    data = np.concatenate([np.ones(count), signs])
    starts = np.concatenate([np.arange(count), count + 3 * np.arange(len(pair) + 1)])
    return sparse.csr_array((data, indices, starts), shape=(count + len(pair), count))


def reduced_rows(n: int, S: Floats, *, directed: bool = False, rounding: float = EPS) -> Floats:
    """Return A S, dense: the rows over R weights where ``m = S @ weights``; without rows of zeros.

    What only rounding keeps from 0 is 0: a solver that scales its rows would take it at its word.
    """
    A = constraint_matrix(n, directed=directed)
    rows: Floats = np.asarray(A @ S)
    rows[np.abs(rows) <= 4.0 * rounding * (abs(A) @ np.abs(S))] = 0.0
    return rows[rows.any(axis=1)]
