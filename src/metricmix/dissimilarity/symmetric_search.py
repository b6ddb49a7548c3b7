r"""The k nearest rows of all rows of a table in memory, each product used for both of its rows.

.. math:: N(i) = \operatorname{arg\,min}^{(k)}_{j \ne i} \;
          \tfrac12 \lVert x_j \rVert^2 - x_i \cdot x_j

Blocks of rows are multiplied with the rows from the block on. A product :math:`x_i \cdot x_j` is
compared with what is known of row i and of row j, so that n² / 2 of them are computed. Every thread
has lists of its own, which are merged at the end: of equal values the smaller number comes first,
so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from metricmix.dissimilarity.nearest_blocks import TILE, TILE_ROWS, empty_places, keep_nearest
from metricmix.dissimilarity.squared_distances import Products, half_squares
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import in_threads
from metricmix.typing import AnyArray, Ints

__all__ = ["symmetric_search"]

SPARSE_ROWS = 128
"""Rows of a sparse table that are multiplied together."""


def symmetric_search(Z: Any, k: int, threads: int) -> Ints:
    """Return the k nearest rows of all rows of a dense or CSR table, (n, k), by all products.

    >>> symmetric_search(np.array([[0.0], [1.0], [3.0]]), 1, threads=1)
    array([[1],
           [0],
           [1]], dtype=int32)
    """
    n = int(Z.shape[0])
    dense = isinstance(Z, np.ndarray)
    step = TILE_ROWS if dense else SPARSE_ROWS
    width = max(1, TILE // step) if dense else n
    halves, everyone = half_squares(Z), np.arange(n, dtype=np.int32)
    multiply, left = Products(Z), deque(range(0, n, step))

    def search(_: int) -> tuple[Ints, AnyArray]:
        found, best = empty_places(n, k, Z.dtype)
        while left:
            check_time()
            try:
                first = left.popleft()
            except IndexError:  # another thread took the last one
                break
            own = slice(first, min(first + step, n))
            rows = everyone[own]
            for start in range(first, n, width):
                some = slice(start, min(start + width, n))
                values = multiply(rows, some.start, some.stop)
                within = min(max(own.stop - some.start, 0), values.shape[1])  # columns of the block
                part = slice(some.start, some.start + within)
                keep_nearest(
                    values[:, :within], halves[part], rows, everyone[part], found[own], best[own]
                )
                rest = slice(part.stop, some.stop)
                keep_for_both(values[:, within:], halves, first, rest.start, found, best)
        return found, best

    parts = in_threads(search, range(threads), threads)
    found, best = parts[0]
    for more in parts[1:]:
        merge_nearest(found, best, *more)
    return found


@kernel
def keep_for_both(
    values: AnyArray,
    halves: AnyArray,
    first_row: int,
    first_column: int,
    found: Ints,
    best: AnyArray,
) -> None:
    """Put rows and columns among the nearest of each other.

    ``values[a, b]`` is the product of row ``first_row + a`` and row ``first_column + b``, none of
    which is both. Otherwise as :func:`~metricmix.dissimilarity.nearest_blocks.keep_nearest`.
    """
    k, chunk = found.shape[1], 64  # products that are compared without branches
    others = halves[first_column : first_column + values.shape[1]]
    limits = best[first_column : first_column + values.shape[1], k - 1].copy()
    for a in range(values.shape[0]):
        i = first_row + a
        own, last = halves[i], best[i, k - 1]
        for begin in range(0, values.shape[1], chunk):
            end = min(begin + chunk, values.shape[1])
            products = values[a, begin:end]
            if not any_below(others[begin:end], products, last, own, limits[begin:end]):
                continue
            for b in range(products.size):
                j = first_column + begin + b
                if others[begin + b] - products[b] < last:
                    insert(others[begin + b] - products[b], j, best[i], found[i])
                    last = best[i, k - 1]
                if own - products[b] < limits[begin + b]:
                    insert(own - products[b], i, best[j], found[j])
                    limits[begin + b] = best[j, k - 1]


@kernel_step
def any_below(
    others: AnyArray, products: AnyArray, last: float, own: float, limits: AnyArray
) -> bool:
    """Return whether any value is below the limit of its row or its column; branch-free."""
    below = np.int32(0)
    for b in range(products.size):
        below |= np.int32(others[b] - products[b] < last)
        below |= np.int32(own - products[b] < limits[b])
    return bool(below)


@kernel_step
def insert(value: float, number: int, smallest: AnyArray, nearest: Ints) -> None:
    """Put a number in the place of the last one, in the order of values, then of numbers."""
    place = smallest.size - 1
    while place > 0 and (
        smallest[place - 1] > value
        or (smallest[place - 1] == value and nearest[place - 1] > number)
    ):
        smallest[place] = smallest[place - 1]
        nearest[place] = nearest[place - 1]
        place -= 1
    smallest[place] = value
    nearest[place] = number


@kernel
def merge_nearest(found: Ints, best: AnyArray, more_found: Ints, more_best: AnyArray) -> None:
    """Put what another thread has found among the nearest rows of each row."""
    k = found.shape[1]
    for i in range(found.shape[0]):
        smallest, nearest = best[i], found[i]
        for place in range(k):
            value, number, last = more_best[i, place], more_found[i, place], smallest[k - 1]
            if value > last or (value == last and number > nearest[k - 1]) or number < 0:
                break
            insert(value, number, smallest, nearest)
