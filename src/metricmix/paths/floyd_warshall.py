r"""Floyd and Warshall's recursion by blocks, on all threads.

For each block K of items (the pivots), with D the closure of the block itself,

.. math:: P = w_{:K} \otimes D, \quad Q = D \otimes w_{K:}, \quad w \leftarrow \min(w, P \otimes Q)

where :math:`\otimes` is the min-plus product of :mod:`metricmix.kernels.minplus`. Symmetric lengths
have :math:`Q = P^T` and need the lower triangle only: half of the work.

A round has three phases: D, then P and Q by ranges of rows, then the matrix by ranges of rows. With
16 threads and 8000 items the phases take 0.1, 0.4 and 6 ms, so that threads take their tasks, and
wait for each other, in compiled code (:mod:`metricmix.kernels.phases`).

The product skips tiles that cannot change, and skips more of them when near items have near
numbers. So the items are first sorted along a nearest-neighbour tour, if a sample of tiles shows
that this saves more than moving the matrix costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricmix.exceptions import TooLargeError
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.locality import reorder, tour_order
from metricmix.kernels.minplus import (
    Packed,
    mirror,
    pack_columns,
    pack_rows,
    packed_part,
    panel_width,
    tile_maxima,
    update_rows,
)
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.phases import (
    BUSY,
    CALL_SECONDS,
    TaskQueue,
    next_task,
    run_phases,
    task_done,
)
from metricmix.kernels.threads import ThreadPool, effective_threads, row_ranges
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_copies_fit

__all__ = ["BLOCK", "close_block", "close_in_place"]

BLOCK = 64
"""Pivots per block: a panel (16 KiB) and a strip of the product stay in the first cache."""
AT_ONCE = 200
"""Items up to which the whole matrix is one block: its loops compile in a twentieth of the time."""
RANGES_PER_THREAD = 8
"""Ranges of rows of the third phase, in which threads wait for the last one."""


def close_in_place(matrix: AnyArray, *, symmetric: bool, n_jobs: int | None = None) -> AnyArray:
    """Replace lengths by their shortest-path closure, without validation; return the same array.

    `matrix` is C-contiguous, float32 or float64, non-negative. Its diagonal becomes 0. If
    `symmetric`, only the entries below the diagonal are read.
    """
    n = len(matrix)
    np.fill_diagonal(matrix, 0)
    if n <= AT_ONCE:
        if symmetric:
            matrix[:] = np.maximum(np.tril(matrix), np.tril(matrix).T)
        check_time()
        close_block(matrix)
        return matrix
    small = 512  # below this many items neither threads nor sorting pay
    threads = effective_threads(n_jobs) if n >= small else 1
    with ThreadPool(threads) as pool:
        order = tour_order(matrix) if n >= small else None
        try:
            check_copies_fit(matrix, 1, what="sorting", argument="matrix")
        except TooLargeError:
            order = None  # slower, but without another array
        if order is None:
            close_all_pairs(matrix, symmetric, pool)
            return matrix
        rows = row_ranges(n, 1, 4 * threads)
        ordered = np.empty_like(matrix)
        pool.run(lambda r: reorder(matrix, order, *r, ordered), rows)
        close_all_pairs(ordered, symmetric, pool)
        back = np.argsort(order)
        pool.run(lambda r: reorder(ordered, back, *r, matrix), rows)
    return matrix


class Rounds(NamedTuple):
    """Rounds of the recursion, for blocks of equal depth: the matrix, and their buffers.

    Attributes
    ----------
    matrix : (n, n) array
    highs : (strips, panels) array
        Bounds of its tiles from above.
    symmetric : bool
    first : int
        The first pivot.
    panel_ranges, ranges : (tasks, 2) arrays
        Rows of the tasks of the second and of the third phase.
    columns : (n, depth) array
        The rows of P, or those of Q transposed.
    block : (depth, depth) array
        D; packed as right factor in `inner`, its transpose in `inner_transposed`.
    left, right : Packed
        P and Q.
    """

    matrix: AnyArray
    highs: AnyArray
    symmetric: bool
    first: int
    panel_ranges: Indices
    ranges: Indices
    columns: AnyArray
    block: AnyArray
    inner: Packed
    inner_transposed: Packed
    left: Packed
    right: Packed


def close_all_pairs(matrix: AnyArray, symmetric: bool, pool: ThreadPool) -> None:
    """Close lengths with a zero diagonal in place; only the lower triangle is read if symmetric."""
    n, dtype, width = len(matrix), matrix.dtype, panel_width(matrix.dtype)
    # Several ranges per thread balance the load; long ranges would not fit in the second cache.
    ranges = row_ranges(
        n, STRIP, max(RANGES_PER_THREAD * pool.threads, n // 384), triangle=symmetric
    )
    unit = int(np.lcm(STRIP, width))
    panel_ranges = row_ranges(n, unit, max(4 * pool.threads, n // 768))
    highs = np.empty((-(-n // STRIP), -(-n // width)), dtype)
    pool.run(lambda r: tile_maxima(matrix, *r, highs[r[0] // STRIP : -(-r[1] // STRIP)]), ranges)
    whole = n - n % BLOCK
    for first, last, depth in ((0, whole, BLOCK), (whole, n, n - whole)):
        if first == last:
            continue
        rounds = Rounds(
            matrix,
            highs,
            symmetric,
            first,
            np.array(panel_ranges),
            np.array(ranges),
            columns=np.empty((n, depth), dtype),
            block=np.empty((depth, depth), dtype),
            inner=Packed.empty(depth, depth, width, dtype),
            inner_transposed=Packed.empty(depth, depth, width, dtype),
            left=Packed.empty(n, depth, STRIP, dtype),
            right=Packed.empty(n, depth, width, dtype),
        )
        sizes = [1, len(panel_ranges), len(ranges)] * ((last - first) // depth)
        # A task of the last phase is the longest: 10 G pairs/s, an old processor's rate.
        at_once = max(1, int(CALL_SECONDS * 1e10 * len(ranges) / (n * n * depth)))
        arguments = (rounds, dtype.type(1), at_once)
        run_phases(pool, sizes, lambda queue, seat: do_tasks(queue, seat, *arguments))  # noqa: B023
    if symmetric:
        pool.run(lambda r: mirror(matrix, *r), ranges)


@kernel
def do_tasks(queue: TaskQueue, seat: Indices, rounds: Rounds, one: Any, at_once: int) -> int:
    """Do some tasks; `one` is as in :func:`~metricmix.kernels.minplus.update_rows`."""
    panels, per_round = len(rounds.panel_ranges), 1 + len(rounds.panel_ranges) + len(rounds.ranges)
    for _ in range(at_once):
        task = int(next_task(queue, seat))
        if task < 0:
            return task
        start = rounds.first + task // per_round * rounds.block.shape[0]
        task %= per_round
        if task == 0:
            close_pivots(rounds, start)
        elif task <= panels:
            low, high = rounds.panel_ranges[task - 1]
            update_pivot_columns(rounds, start, low, high, one)
        else:
            low, high = rounds.ranges[task - 1 - panels]
            left, right = packed_part(rounds.left, low, high), rounds.right
            highs = rounds.highs[low // STRIP : -(-high // STRIP)]
            limit = low if rounds.symmetric else len(rounds.matrix)
            update_rows(rounds.matrix, low, high, limit, left, right, highs, one)
        task_done(queue, seat)
    return BUSY


@kernel
def close_pivots(rounds: Rounds, start: int) -> None:
    """Compute D, the closure of the block of pivots from `start` on, and pack it."""
    matrix, block = rounds.matrix, rounds.block
    depth = block.shape[0]
    for k in range(depth):
        for j in range(depth):
            block[k, j] = matrix[start + k, start + j]
    if rounds.symmetric:
        for k in range(depth):
            for j in range(k):
                block[j, k] = block[k, j]
    close_block(block)
    pack_columns(block, 0, depth, rounds.inner)
    if not rounds.symmetric:
        pack_rows(block, 0, depth, rounds.inner_transposed)


@kernel
def update_pivot_columns(rounds: Rounds, start: int, low: int, high: int, one: Any) -> None:
    """Pack rows low .. high - 1 of P as the left factor, and those of Q transposed as the right."""
    matrix, columns = rounds.matrix, rounds.columns
    stop = start + rounds.block.shape[0]
    left, right = packed_part(rounds.left, low, high), packed_part(rounds.right, low, high)
    if rounds.symmetric:
        copy_rows(matrix, start, low, min(high, start), columns)
        copy_columns(matrix, start, max(low, stop), high, columns)
        for i in range(max(low, start), min(high, stop)):
            columns[i] = rounds.block[i - start]
    else:
        copy_rows(matrix, start, low, high, columns)
        multiply(columns, low, high, left, rounds.inner_transposed, one)
        pack_rows(columns, low, high, right)
        copy_columns(matrix, start, low, high, columns)
    multiply(columns, low, high, left, rounds.inner, one)
    pack_rows(columns, low, high, left)
    if rounds.symmetric:
        pack_rows(columns, low, high, right)


@kernel
def multiply(columns: AnyArray, low: int, high: int, left: Packed, inner: Packed, one: Any) -> None:
    """Replace rows low .. high - 1 of `columns` by their min-plus product with `inner`."""
    pack_rows(columns, low, high, left)
    highs = np.empty((len(left.parts), len(inner.parts)), columns.dtype)
    highs[:] = np.inf
    update_rows(columns, low, high, columns.shape[1], left, inner, highs, one)


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
