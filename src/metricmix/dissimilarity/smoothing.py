r"""Tables smoothed over a graph: by PageRank, by steps of walks, and wide ones by few directions.

With the operator :math:`B = D^{-1/2} (A + I) D^{-1/2}` of a graph and a table X,

.. math:: Z = r\,(I - (1 - r) B)^{-1} X \qquad\text{or}\qquad Z = \sum_t w_t B^t X .

Smoothing acts on the rows: columns are independent of each other. So a few columns at a time go
through all iterations while they are in the cache: on a thread each where there are as many such
blocks as threads, else one block after the other, its rows on all threads. And since
:math:`(S X) V = S (X V)`, a wide table is smoothed by its leading right singular vectors V, which
are found once, before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.phases import (
    BUSY,
    CALL_SECONDS,
    TaskQueue,
    next_task,
    run_phases,
    task_done,
)
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import ThreadPool, in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "LARGE",
    "largest_eigenpairs",
    "leading_directions",
    "narrow",
    "pagerank_matrix",
    "pagerank_smoothed",
    "walked",
]

SPARSE_COST = 4
"""Operations of a dense factorisation that take the time of one of a sparse product (measured)."""
COLUMNS = 64
"""Columns that are smoothed together: few, so that three tables of them stay in the cache, and not
fewer, since fetching an edge takes as long as its products with all of them."""
RANGES = 4
"""Ranges of rows per thread, which wait for the last one in each step."""
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
    r"""Return Z with ``(I - (1 - restart) B) Z = restart X``: X smoothed by PageRank.

    For a symmetric B, whose eigenvalues are in [-1, 1], by the Chebyshev series

    .. math:: \frac{r}{1 - s x} = \frac{r}{\sqrt{1 - s^2}}
              \Bigl(1 + 2 \sum_{k \ge 1} \rho^k\, T_k(x)\Bigr), \qquad
              s = 1 - r, \quad \rho = \frac{1 - \sqrt{1 - s^2}}{s},

    cut off where the rest is below `precision`. It needs about the square root of the steps of the
    power iteration. A dense solution is taken where that is cheaper: small graphs with many
    features, and dense graphs. Where B is not symmetric, as of directed edges, its rows sum to 1
    and the power iteration is taken.
    """
    n = operator.shape[0]
    start = table if isinstance(table, np.ndarray) else table.toarray()
    operator = operator.astype(start.dtype, copy=False)
    spread = 1.0 - restart
    if abs(operator - operator.T).max() > 1e-9:  # not by rounding
        right = restart * start
        smoothed, damped = right, spread * operator
        for _ in range(int(np.ceil(np.log(precision) / np.log(spread)))):
            smoothed = right + damped @ smoothed
        return np.asarray(smoothed)
    series = pagerank_series(restart, precision)
    d = start.shape[1]
    if n**3 / 3 + 2 * n**2 * d < SPARSE_COST * len(series) * operator.nnz * d:
        from scipy.linalg import solve

        dense = np.eye(n, dtype=start.dtype) - spread * operator.toarray()
        right = restart * start
        return np.asarray(solve(dense, right, assume_a="pos", overwrite_a=True, overwrite_b=True))
    return by_columns(operator, start, series, chebyshev=True)


def pagerank_series(restart: float, precision: float) -> Floats:
    """Return the coefficients of ``restart / (1 - (1 - restart) x)`` by Chebyshev polynomials.

    >>> series = pagerank_series(0.2, 1e-6)
    >>> x = np.array([-1.0, 0.3, 1.0])
    >>> error = np.polynomial.chebyshev.chebval(x, series) - 0.2 / (1 - 0.8 * x)
    >>> bool(np.abs(error).max() < 1e-6)
    True
    """
    spread = 1.0 - restart
    if spread == 0.0:
        return np.ones(1)
    root = np.sqrt(1.0 - spread**2)
    rate, share = (1.0 - root) / spread, restart / root
    n_terms = 1 + int(np.ceil(np.log(precision * (1.0 - rate) / (2.0 * share)) / np.log(rate)))
    series = 2.0 * share * rate ** np.arange(max(1, n_terms))
    series[0] = share
    return np.asarray(series)


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
    operator = operator.astype(table.dtype, copy=False)
    return by_columns(operator, table, np.asarray(weights), chebyshev=False)


def by_columns(operator: Any, table: Floats, weights: Floats, *, chebyshev: bool) -> Floats:
    """Return the weighted sum of the terms of a recurrence, few columns at a time.

    The terms are those of :func:`do_steps`.
    """
    (n, d), found = table.shape, np.empty_like(table)
    edges, weights = CompressedRows.of(operator), weights.astype(table.dtype)
    threads = threads_for(n)
    starts = range(0, d, COLUMNS)

    def smooth(start: int, pool: ThreadPool) -> None:
        some = slice(start, start + COLUMNS)
        part = np.ascontiguousarray(table[:, some])
        # Ranges of rows with equally many edges.
        shares = np.linspace(0, edges.indptr[-1], RANGES * pool.threads + 1)[1:-1]
        cuts = np.searchsorted(edges.indptr, shares if pool.threads > 1 else shares[:0])
        bounds = np.unique([0, *cuts, n])
        terms, total = np.zeros((2, *part.shape), part.dtype), np.empty_like(part)
        steps = Steps(edges, part, weights, chebyshev, bounds, terms, total)
        per_task = 1 + edges.indptr[-1] * part.shape[1] // len(bounds)
        at_once = max(1, int(CALL_SECONDS * 1e9 / per_task))
        sizes = [len(bounds) - 1] * len(weights)
        run_phases(pool, sizes, lambda queue, seat: do_steps(queue, seat, steps, at_once))
        found[:, some] = total

    if len(starts) >= threads:
        in_threads(lambda start: smooth(start, ThreadPool(1)), starts, threads)
    else:
        with ThreadPool(threads) as pool:
            for start in starts:
                smooth(start, pool)
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


@kernel_step
def add_neighbours(edges: CompressedRows, i: int, table: Floats, total: Floats) -> None:
    """Fill `total` with row i of the product of a sparse matrix and a table, four edges a time."""
    width = total.size
    e, last = edges.indptr[i], edges.indptr[i + 1]
    for c in range(width):
        total[c] = 0.0
    while e + 4 <= last:
        p, q, r, s = edges.data[e], edges.data[e + 1], edges.data[e + 2], edges.data[e + 3]
        w, x = table[edges.indices[e]], table[edges.indices[e + 1]]
        y, z = table[edges.indices[e + 2]], table[edges.indices[e + 3]]
        for c in range(width):
            total[c] += (p * w[c] + q * x[c]) + (r * y[c] + s * z[c])
        e += 4
    while e < last:
        p, w = edges.data[e], table[edges.indices[e]]
        for c in range(width):
            total[c] += p * w[c]
        e += 1


class Steps(NamedTuple):
    """The steps of a recurrence.

    Attributes
    ----------
    edges : CompressedRows
        Those of B, (n, n).
    start : (n, width) array
    weights : (steps,) array
        Of the same precision as B and the start.
    chebyshev : bool
        Whether the terms are Chebyshev polynomials of B, or powers.
    bounds : (ranges + 1,) array
        Ranges of rows that threads take.
    terms : (2, n, width) array
        The last two terms.
    total : (n, width) array
        The sum.
    """

    edges: CompressedRows
    start: Floats
    weights: Floats
    chebyshev: bool
    bounds: Indices
    terms: Floats
    total: Floats


@kernel
def do_steps(queue: TaskQueue, seat: Indices, steps: Steps, at_once: int) -> int:
    r"""Do some tasks; task t is a range of rows of step t // ranges.

    Of the sum over k of ``weights[k] T_k start``, with :math:`T_0 = I`, :math:`T_1 = B` and
    :math:`T_{k + 1} = 2 B T_k - T_{k - 1}`, or of powers of B, with :math:`T_{k + 1} = B T_k`.
    """
    start, ranges = steps.start, len(steps.bounds) - 1
    moved = np.empty(start.shape[1], start.dtype)
    for _ in range(at_once):
        task = int(next_task(queue, seat))
        if task < 0:
            return task
        k, low, high = (
            task // ranges,
            steps.bounds[task % ranges],
            steps.bounds[task % ranges + 1],
        )
        weight, now, after = steps.weights[k], steps.terms[1 - k % 2], steps.terms[k % 2]
        if k == 0:
            after[low:high] = start[low:high]
            steps.total[low:high] = weight * start[low:high]
        else:
            two = steps.chebyshev and k > 1
            add_terms(steps.edges, low, high, two, weight, now, after, steps.total, moved)
        task_done(queue, seat)
    return BUSY


@kernel_step
def add_terms(
    edges: CompressedRows,
    low: int,
    high: int,
    two: bool,
    weight: Any,
    now: Floats,
    after: Floats,
    total: Floats,
    moved: Floats,
) -> None:
    """Replace rows of a term by those of the term after next, and add them to the sum.

    The next one is B `now` or, with `two`, 2 B `now` minus the one before.
    """
    width = len(moved)
    for i in range(low, high):
        add_neighbours(edges, i, now, moved)
        term, of_item = after[i], total[i]
        if two:
            for c in range(width):
                value = moved[c] + moved[c] - term[c]
                term[c] = value
                of_item[c] += weight * value
        else:
            for c in range(width):
                term[c] = moved[c]
                of_item[c] += weight * moved[c]


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
            return largest_eigenpairs(column_products(rows), k)[1]
        basis = np.random.default_rng(0).standard_normal((d, k + BEYOND), np.float32)
        single = rows.astype(np.float32)
        for _ in range(ROUNDS):
            basis, _ = np.linalg.qr(single.T @ (single @ basis))
        return np.asarray(basis @ largest_eigenpairs(column_products(single @ basis), k)[1])


def column_products(rows: Any) -> Floats:
    """Return the products of all columns, (d, d), from few dense rows at a time."""

    def of_some(start: int) -> Floats:
        part = rows[start : start + 4096]
        dense: AnyArray = part if isinstance(part, np.ndarray) else part.toarray()
        dense = dense.astype(np.float64, copy=False)
        return np.asarray(dense.T @ dense)

    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, rows.shape[0], 16 * 4096):
        stop = min(start + 16 * 4096, rows.shape[0])
        total += sum(in_threads(of_some, range(start, stop, 4096)))
    return total


def largest_eigenpairs(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix, increasing, and their eigenvectors.

    Where many eigenvalues are equal, LAPACK may find fewer than k of a subset, even none, without
    an error. All are computed then.
    """
    from scipy.linalg import LinAlgError, eigh

    first = max(0, len(matrix) - k)
    try:
        values, vectors = eigh(matrix, subset_by_index=[first, len(matrix) - 1])
        is_complete = len(values) == len(matrix) - first
    except LinAlgError:
        is_complete = False
    if not is_complete:
        values, vectors = (part[..., first:] for part in eigh(matrix, driver="evd"))
    return values, vectors
