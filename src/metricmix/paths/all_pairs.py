r"""Shortest paths between all pairs: the largest metric below given lengths.

.. math:: d_{ij} = \min_{i = v_0, v_1, \dots, v_m = j} \; \sum_{l=1}^{m} w_{v_{l-1} v_l}

is the shortest-path closure P(w), the largest matrix below `w` that satisfies every triangle
inequality. Floyd and Warshall's recursion computes it, block by block: for each block K of items
(the pivots), with D the closure of the block itself,

.. math:: P = w_{:K} \otimes D, \quad Q = D \otimes w_{K:}, \quad w \leftarrow \min(w, P \otimes Q)

where :math:`\otimes` is the min-plus product of :mod:`metricmix.kernels.minplus`. Symmetric lengths
have :math:`Q = P^T` and need the lower triangle only: half of the work.

The product skips tiles that cannot change, and skips more of them when near items have near
numbers. So the items are first sorted along a nearest-neighbour tour, if a sample of tiles shows
that this saves more than moving the matrix costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.devices import in_torch, resolve_device
from metricmix.exceptions import TooLargeError
from metricmix.kernels.compile import kernel
from metricmix.kernels.locality import reorder, tour_order
from metricmix.kernels.minplus import (
    Packed,
    fold,
    mirror,
    pack_columns,
    pack_rows,
    panel_width,
    tile_maxima,
    update,
)
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.threads import ThreadPool, effective_threads, in_threads, row_ranges
from metricmix.mixture.edge_lengths import FORMED_UP_TO, EdgeLengths, edge_lengths
from metricmix.paths.sparse_rows import distances_in_blocks
from metricmix.typing import AnyArray, Floats
from metricmix.validation import (
    as_float_array,
    check_copies_fit,
    check_square,
    check_square_fits,
)

__all__ = [
    "close_block",
    "close_in_place",
    "closed_copy",
    "impute_missing",
    "path_metric",
    "project",
    "searches_pay",
]

BLOCK = 64
"""Pivots per block: a panel (16 KiB) and a strip of the product stay in the first cache."""

PER_ARC = 100
"""Entries that the closure updates while a search reads an edge for one root."""


def project(
    W: ArrayLike, directed: bool = False, *, n_jobs: int | None = None, device: str = "cpu"
) -> AnyArray:
    r"""Return the largest metric below the lengths `W`: all shortest-path lengths.

    .. math:: P(W) = \max \{ d : d_{ij} \le W_{ij},\; d_{ij} \le d_{ik} + d_{kj} \}

    Idempotent, never above its input, and the input itself where that is a metric already.

    Parameters
    ----------
    W : array of shape (n, n)
        Non-negative lengths with a zero diagonal, symmetric unless `directed`. 0 is an edge of
        length 0 (not a missing one); inf is no edge, and stays inf where there is no path.
    directed : bool
        Whether ``W[i, j]`` and ``W[j, i]`` may differ.
    n_jobs : int or None
        Threads; None means all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" computes on a GPU, through PyTorch; "auto" does so if there is one. The results of
        both agree to a few roundings of the longest path.

    Returns
    -------
    array of shape (n, n)
        A new array of the same dtype (float32 or float64; other input becomes float64), with a
        zero diagonal, exactly symmetric unless `directed`.

    Raises
    ------
    InputError
        If `W` is not such a matrix.

    Notes
    -----
    At most n^3 / 2 pairs of additions and minima (n^3 if directed), and up to one more n x n array.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.all_pairs import project
    >>> project(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]))
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """
    check_copies_fit(W, 1, what="the metric", argument="W")
    where = resolve_device(device)
    if where != "cpu":
        return np.asarray(
            in_torch("shortest_paths", "closure", where, W, name="W", directed=directed)
        )
    lengths = check_square(W, name="W", directed=directed, allow_infinite=True)
    return closed_copy(lengths, directed=directed, n_jobs=n_jobs)


def closed_copy(lengths: AnyArray, *, directed: bool, n_jobs: int | None = None) -> AnyArray:
    """Return the closure of valid lengths as a new array."""
    d = np.array(lengths, order="C", copy=True, subok=False)
    if not directed:  # entries that differ by rounding: the smaller one counts
        in_threads(lambda r: fold(d, *r), row_ranges(len(d), STRIP, 8, triangle=True), n_jobs)
    return close_in_place(d, symmetric=not directed, n_jobs=n_jobs)


def path_metric(
    stack: Any,
    mixture: Any = None,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> AnyArray:
    r"""Return the metric of a mixture of sources, as an (n, n) array.

    .. math:: d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    Parameters
    ----------
    stack : DissimilarityStack
    mixture : Mixture or array of R weights
    directed : bool
        For a matrix of lengths in place of a stack only.
    n_jobs : int or None
        Threads; None means all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where the closure is computed, as in :func:`project`; lengths are mixed on the CPU.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.array([0.0, 1.0, 4.0])
    >>> stack = mm.DissimilarityStack([abs(x[:, None] - x), (x[:, None] - x) ** 2])
    >>> mm.path_metric(stack, [0.5, 0.1]).round(3)
    array([[0.   , 1.037, 3.524],
           [1.037, 0.   , 2.487],
           [3.524, 2.487, 0.   ]])
    """
    where = resolve_device(device)
    lengths = edge_lengths(stack, mixture, directed=directed)
    if searches_pay(lengths, lengths.n):
        check_square_fits(
            lengths.n, 8, what="the metric", argument="stack", instead="take fewer items"
        )
        d = np.empty((lengths.n, lengths.n))
        for some, found in distances_in_blocks(lengths, np.arange(lengths.n), n_jobs=n_jobs):
            d[some] = found
        return d if lengths.directed else np.minimum(d, d.T, out=d)
    w = lengths.matrix(n_jobs=n_jobs)
    if lengths.is_metric and (lengths.block is None or lengths.block.dtype == np.float64):
        return w  # nothing to project but the rounding of single precision
    if where != "cpu":
        options = {"directed": lengths.directed, "validate": False}
        return np.asarray(in_torch("shortest_paths", "closure", where, w, name="stack", **options))
    return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)


def searches_pay(lengths: EdgeLengths, roots: int) -> bool:
    """Return whether edges are sparse, and searches from so many roots cost less than the closure.

    The closure of n <= `FORMED_UP_TO` items updates n³ entries; searches read all arcs.
    """
    n, edges = lengths.n, lengths.edges
    if edges is None:
        return False
    arcs = len(edges) * (1 if lengths.directed else 2)
    return n > FORMED_UP_TO or n**3 >= PER_ARC * roots * arcs


def close_in_place(matrix: AnyArray, *, symmetric: bool, n_jobs: int | None = None) -> AnyArray:
    """Replace lengths by their shortest-path closure, without validation; return the same array.

    `matrix` is C-contiguous, float32 or float64, non-negative. Its diagonal becomes 0. If
    `symmetric`, only the entries below the diagonal are read.
    """
    n = len(matrix)
    np.fill_diagonal(matrix, 0)
    small = 512  # below this many items neither threads nor sorting pay
    threads = effective_threads(n_jobs) if n >= small else 1
    with ThreadPool(threads) as pool:
        order = tour_order(matrix) if n >= small else None
        try:
            check_copies_fit(matrix, 1, what="sorting", argument="matrix")
        except TooLargeError:
            order = None  # slower, but without another array
        if order is None:
            FloydWarshall(matrix, symmetric, pool).run()
            return matrix
        rows = row_ranges(n, 1, 4 * threads)
        ordered = np.empty_like(matrix)
        pool.run(lambda r: reorder(matrix, order, *r, ordered), rows)
        FloydWarshall(ordered, symmetric, pool).run()
        back = np.argsort(order)
        pool.run(lambda r: reorder(ordered, back, *r, matrix), rows)
    return matrix


def impute_missing(D: ArrayLike, directed: bool = False, *, n_jobs: int | None = None) -> Floats:
    """Return `D` with shortest-path lengths over its known entries in place of NaN.

    Pairs that no path joins get the largest of all path lengths, which violates no triangle
    inequality. Negative entries count as edges of length 0 and are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.all_pairs import impute_missing
    >>> impute_missing([[0, 1, np.nan], [1, 0, 4], [np.nan, 4, 0]])
    array([[0., 1., 5.],
           [1., 0., 4.],
           [5., 4., 0.]])
    """
    check_copies_fit(D, 4, what="imputing missing entries", argument="D")
    given = np.array(as_float_array(D, name="D"), np.float64)
    missing = np.isnan(given)
    lengths = np.where(missing, np.inf, np.maximum(given, 0.0))
    np.fill_diagonal(lengths, 0.0)
    paths = project(lengths, directed, n_jobs=n_jobs)
    longest = float(np.max(paths, where=np.isfinite(paths), initial=0.0))
    return np.where(missing, np.minimum(paths, longest), given)


# -- Floyd and Warshall's recursion by blocks -----------------------------------------------------

Range = tuple[int, int]


class FloydWarshall:
    """The recursion on one matrix, with its buffers; rows are split over the threads of a pool."""

    def __init__(self, matrix: AnyArray, symmetric: bool, pool: ThreadPool) -> None:
        n, dtype = len(matrix), matrix.dtype
        self.matrix, self.symmetric, self.pool = matrix, symmetric, pool
        self.width = panel_width(dtype)
        # A range's strips fit in the second cache; several ranges per thread balance the load.
        self.rows = row_ranges(n, STRIP, max(4 * pool.threads, n // 384), triangle=symmetric)
        unit = int(np.lcm(STRIP, self.width))
        self.pivot_rows = row_ranges(n, unit, max(pool.threads, n // 768))
        self.highs = np.empty((-(-n // STRIP), -(-n // self.width)), dtype)

    def run(self) -> None:
        """Close the matrix in place."""
        n = len(self.matrix)
        self.pool.run(lambda r: tile_maxima(self.matrix, *r, self.highs[strips(r)]), self.rows)
        for start in range(0, n, BLOCK):
            self.close_pivots(start, min(start + BLOCK, n))
            self.pool.run(self.update_pivot_columns, self.pivot_rows)
            self.pool.run(self.update_rest, self.rows)
        if self.symmetric:
            self.pool.run(lambda r: mirror(self.matrix, *r), self.rows)

    def close_pivots(self, start: int, stop: int) -> None:
        """Compute D, the closure of the block of pivots start .. stop - 1, and pack it."""
        n, depth, dtype = len(self.matrix), stop - start, self.matrix.dtype
        if start == 0 or depth < BLOCK:
            self.columns = np.empty((n, depth), dtype)
            self.left = Packed.empty(n, depth, STRIP, dtype)
            self.right = Packed.empty(n, depth, self.width, dtype)
            self.unbounded = np.full((-(-n // STRIP), -(-depth // self.width)), np.inf, dtype)
            self.inner = Packed.empty(depth, depth, self.width, dtype)
            self.inner_transposed = Packed.empty(depth, depth, self.width, dtype)
        self.start, self.stop = start, stop
        block = self.matrix[start:stop, start:stop].copy()
        if self.symmetric:
            block = np.tril(block)
            block = np.maximum(block, block.T)
        close_block(block)
        self.block = block
        pack_columns(block, 0, depth, self.inner)
        if not self.symmetric:
            pack_rows(block, 0, depth, self.inner_transposed)

    def update_pivot_columns(self, r: Range) -> None:
        """Pack the rows r of P as the left factor, and those of Q transposed as the right one."""
        low, high = r
        start, stop = self.start, self.stop
        if self.symmetric:
            copy_rows(self.matrix, start, low, min(high, start), self.columns)
            copy_columns(self.matrix, start, max(low, stop), high, self.columns)
            inside = slice(max(low, start), max(low, start, min(high, stop)))
            self.columns[inside] = self.block[inside.start - start : inside.stop - start]
        else:
            copy_rows(self.matrix, start, low, high, self.columns)
            self.multiply(r, self.inner_transposed)
            pack_rows(self.columns, low, high, self.right.between(low, high))
            copy_columns(self.matrix, start, low, high, self.columns)
        self.multiply(r, self.inner)
        pack_rows(self.columns, low, high, self.left.between(low, high))
        if self.symmetric:
            pack_rows(self.columns, low, high, self.right.between(low, high))

    def multiply(self, r: Range, inner: Packed) -> None:
        """Replace the rows r of `columns` by their min-plus product with D, packed as `inner`."""
        left = self.left.between(*r)
        pack_rows(self.columns, *r, left)
        update(self.columns, *r, left, inner, self.unbounded[: len(left.parts)].copy())

    def update_rest(self, r: Range) -> None:
        """Lower the rows r of the matrix by the product of P and Q."""
        diagonal = r[0] if self.symmetric else None
        left = self.left.between(*r)
        update(self.matrix, *r, left, self.right, self.highs[strips(r)], diagonal)


def strips(r: Range) -> slice:
    """Return the strips of a range of rows that begins with a strip."""
    return slice(r[0] // STRIP, -(-r[1] // STRIP))


@kernel
def close_block(block: AnyArray) -> None:
    """Replace a small block by its closure, with Floyd and Warshall's three loops."""
    n = block.shape[0]
    for k in range(n):
        # A copy: LLVM does not vectorise what might overlap.
        pivot = block[k].copy()
        for i in range(n):
            row = block[i]
            first = row[k]
            for j in range(n):
                row[j] = min(row[j], first + pivot[j])


@kernel
def copy_columns(matrix: AnyArray, start: int, low: int, high: int, out: AnyArray) -> None:
    """Copy columns start, start + 1, … of rows low .. high - 1 to `out`."""
    for i in range(low, high):
        row = matrix[i]
        target = out[i]
        for k in range(out.shape[1]):
            target[k] = row[start + k]


@kernel
def copy_rows(matrix: AnyArray, start: int, low: int, high: int, out: AnyArray) -> None:
    """Copy rows start, start + 1, … at columns low .. high - 1 to `out`, transposed."""
    for k in range(out.shape[1]):
        row = matrix[start + k]
        for i in range(low, high):
            out[i, k] = row[i]
