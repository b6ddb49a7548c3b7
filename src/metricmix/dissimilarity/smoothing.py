r"""Tables smoothed over a graph: by PageRank, by steps of walks, and wide ones by few directions.

With the operator :math:`B = D^{-1/2} (A + I) D^{-1/2}` of a graph and a table X,

.. math:: Z = r\,(I - (1 - r) B)^{-1} X \qquad\text{or}\qquad Z = \sum_t w_t B^t X .

Smoothing acts on the rows: columns are independent of each other. So a few columns at a time go
through all iterations while they are in the cache, on as many threads as there are cores. And
since :math:`(S X) V = S (X V)`, a wide table is smoothed by its leading right singular vectors V,
which are found once, before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "LARGE",
    "leading_directions",
    "narrow",
    "pagerank_matrix",
    "pagerank_smoothed",
    "walked",
]

SPARSE_COST = 4
"""Operations of a dense factorisation that take the time of one of a sparse product (measured)."""
COLUMNS = 32
"""Columns that are smoothed together: few, so that three tables of them stay in the cache."""
LARGE, DIRECTIONS = 1 << 21, 256
"""Entries from which on a table is smoothed in single precision, and by so many leading singular
vectors if it is wider. On four splits with 20 labels a class, the accuracy of a
MetricMixtureClassifier on sources_for rose by 0.1 (Cora), 0.1 (Citeseer) and 1.0 percentage points
(UAI2010)."""
EXACT_UP_TO = 1024
"""Columns up to which singular vectors are those of a dense decomposition."""
BEYOND, ROUNDS = 16, 2
"""Directions beyond those asked for, and rounds, in which wide tables are searched for them."""


# -- smoothing -------------------------------------------------------------------------------------


def pagerank_smoothed(
    operator: Any, table: Any, restart: float, precision: float = 1e-14
) -> Floats:
    """Return Z with ``(I - (1 - restart) B) Z = restart X``: X smoothed by PageRank.

    The matrix is symmetric with eigenvalues in [restart, 2 - restart], so the Chebyshev iteration
    (Saad, Iterative Methods for Sparse Linear Systems, algorithm 12.1) needs a number of steps
    known beforehand, about the square root of what the power iteration needs. A dense solution is
    taken where that is cheaper: small graphs with many features, and dense graphs. Where B is not
    symmetric, as of directed edges, its rows sum to 1 and the power iteration is taken.
    """
    n = operator.shape[0]
    right = restart * (table if isinstance(table, np.ndarray) else table.toarray())
    operator = operator.astype(right.dtype, copy=False)
    damped = (1 - restart) * operator
    if abs(operator - operator.T).max() > 1e-9:  # not by rounding
        smoothed = right
        for _ in range(int(np.ceil(np.log(precision) / np.log(1 - restart)))):
            smoothed = right + damped @ smoothed
        return np.asarray(smoothed)
    spread = 1 - restart  # the eigenvalues are those in 1 +- spread
    rate = spread / (1 + np.sqrt(1 - spread**2))
    n_iter = int(np.ceil(np.log(precision / 2) / np.log(rate))) if rate > 0 else 0
    d = right.shape[1]
    if n**3 / 3 + 2 * n**2 * d < SPARSE_COST * n_iter * operator.nnz * d:
        from scipy.linalg import solve

        dense = np.eye(n, dtype=right.dtype) - damped.toarray()
        return np.asarray(solve(dense, right, assume_a="pos", overwrite_a=True, overwrite_b=True))
    steps, rho = np.empty((n_iter, 2), right.dtype), spread
    for k in range(n_iter):
        following = 1.0 / (2.0 / spread - rho)
        steps[k] = following * rho, 2.0 * following / spread
        rho = following
    edges = CompressedRows.of(damped)
    return by_columns(lambda part: chebyshev_iteration(edges, part, steps), right)


def pagerank_matrix(operator: Any, restart: float) -> Floats:
    """Return ``restart (I - (1 - restart) B)^(-1)``, (n, n), for a symmetric B.

    By a Cholesky factorisation, which takes n^3 operations: up to 5000 rows no more time than
    :func:`pagerank_smoothed` takes for as many columns.
    """
    from scipy.linalg.lapack import dpotrf, dpotri

    n = operator.shape[0]
    system = ((restart - 1.0) / restart) * operator.toarray(order="F")
    system[np.diag_indices(n)] += 1.0 / restart
    factor, _ = dpotrf(system, lower=True, overwrite_a=True)
    inverse, _ = dpotri(factor, lower=True, overwrite_c=True)
    # Only the lower triangle is filled. In the order of rows it is the upper one.
    upper = np.triu(inverse.T)
    return np.asarray(upper + np.triu(upper, 1).T)


def walked(operator: Any, table: Floats, weights: Sequence[float]) -> Floats:
    """Return the sum of ``weights[t] B^t X`` over t = 0, 1, ..., in the precision of X.

    >>> from scipy.sparse import csr_array
    >>> swap = csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> walked(swap, np.array([[1.0], [0.0]]), [0.5, 0.0, 0.25])
    array([[0.75],
           [0.  ]])
    """
    edges = CompressedRows.of(operator.astype(table.dtype, copy=False))
    shares = np.asarray(weights, table.dtype)
    return by_columns(lambda part: sum_of_steps(edges, part, shares), table)


def by_columns(smooth: Callable[[Floats], Floats], table: Floats) -> Floats:
    """Return a table (n, d) with few columns at a time smoothed by a function."""
    found = np.empty_like(table)

    def of_columns(start: int) -> None:
        some = slice(start, start + COLUMNS)
        found[:, some] = smooth(np.ascontiguousarray(table[:, some]))

    in_threads(of_columns, range(0, table.shape[1], COLUMNS), threads_for(len(table)))
    return found


class CompressedRows(NamedTuple):
    """The rows of a sparse matrix, in the order of scipy's CSR format."""

    indptr: Indices
    indices: Indices
    data: Floats

    @classmethod
    def of(cls, matrix: Any) -> CompressedRows:
        """Return the rows of a CSR array."""
        return cls(matrix.indptr, matrix.indices, matrix.data)


@kernel
def chebyshev_iteration(edges: CompressedRows, right: Floats, steps: Floats) -> Floats:
    """Return x with ``(I - damped) x = right`` after as many iterations as `steps` has rows.

    `edges` are the rows of damped, (n, n); `right` has shape (n, columns); a row of `steps` has the
    shares of the last step and of the residual in the next one. All of the same precision.
    """
    n, width = right.shape
    x = np.zeros_like(right)
    residual = right.copy()
    step = right.copy()
    moved = np.empty_like(right[0])
    for k in range(len(steps)):
        for i in range(n):
            for c in range(width):
                moved[c] = -step[i, c]
            for e in range(edges.indptr[i], edges.indptr[i + 1]):
                weight, before = edges.data[e], step[edges.indices[e]]
                for c in range(width):
                    moved[c] += weight * before[c]
            for c in range(width):
                residual[i, c] += moved[c]
        a, b = steps[k]
        for i in range(n):
            for c in range(width):
                x[i, c] += step[i, c]
                step[i, c] = a * step[i, c] + b * residual[i, c]
    for i in range(n):
        for c in range(width):
            x[i, c] += step[i, c]
    return x


@kernel
def sum_of_steps(edges: CompressedRows, start: Floats, weights: Floats) -> Floats:
    """Return the sum of ``weights[t] B^t start``; `edges` are the rows of B, (n, n)."""
    n, width = start.shape
    before, after, total = start.copy(), np.empty_like(start), np.empty_like(start)
    total[:] = weights[0] * start
    moved = np.empty_like(start[0])
    for t in range(1, len(weights)):
        for i in range(n):
            moved[:] = 0.0
            for e in range(edges.indptr[i], edges.indptr[i + 1]):
                weight, row = edges.data[e], before[edges.indices[e]]
                for c in range(width):
                    moved[c] += weight * row[c]
            for c in range(width):
                after[i, c] = moved[c]
        for i in range(n):
            for c in range(width):
                total[i, c] += weights[t] * after[i, c]
        before, after = after, before
    return total


# -- wide tables -----------------------------------------------------------------------------------


def narrow(rows: Any) -> tuple[Floats, Any]:
    """Return a table (n, d) as a dense one, and the directions that are kept of a wide one.

    These are None, or (d, k) with orthonormal columns. Distances become smaller by what the others
    hold; smoothing, which is linear, keeps to them.
    """
    directions, large = None, float(np.prod(rows.shape)) > LARGE
    if large and rows.shape[1] > DIRECTIONS:
        directions = leading_directions(rows, DIRECTIONS)
        rows = rows @ directions
    table = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())
    return (table.astype(np.float32) if large else table), directions


def leading_directions(rows: Any, k: int) -> Floats:
    """Return the k leading right singular vectors of a dense or sparse table (n, d), as (d, k).

    From the products of the columns; those of a wide table by subspace iteration (Halko,
    Martinsson and Tropp 2011), which starts from random combinations of the columns, so that the
    order of the rows does not matter.
    """
    d = rows.shape[1]
    with blas_threads(1):
        if d <= max(EXACT_UP_TO, k + BEYOND):
            return largest_eigenvectors(column_products(rows), k)
        basis = np.random.default_rng(0).standard_normal((d, k + BEYOND), np.float32)
        single = rows.astype(np.float32)
        for _ in range(ROUNDS):
            basis, _ = np.linalg.qr(single.T @ (single @ basis))
        return np.asarray(basis @ largest_eigenvectors(column_products(single @ basis), k))


def column_products(rows: Any) -> Floats:
    """Return the products of all columns, (d, d), from few dense rows at a time."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, rows.shape[0], 4096):
        part = rows[start : start + 4096]
        dense: AnyArray = part if isinstance(part, np.ndarray) else part.toarray()
        dense = dense.astype(np.float64, copy=False)
        total += dense.T @ dense
    return total


def largest_eigenvectors(products: Floats, k: int) -> Floats:
    """Return the eigenvectors of the k largest eigenvalues of a symmetric matrix."""
    from scipy.linalg import eigh

    size = len(products)
    return np.asarray(eigh(products, subset_by_index=[max(0, size - k), size - 1])[1])
