r"""Which triangles are broken: the oracle of all cutting-plane methods over metrics.

.. math:: \min_k \; x_{ik} + x_{kj} < x_{ij}

One min-plus product of x with itself finds the pairs, for entries of any sign; only for these is k
looked for. Half of the product is enough, and a chunk of it is left out where no detour can be
short enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import (
    STRIP,
    Packed,
    pack_columns,
    pack_rows,
    panel_width,
    tile_maxima,
    update,
)
from metricmix.kernels.threads import Crew, row_ranges
from metricmix.nearness.constraints import key_of
from metricmix.paths.dijkstra import CHUNK
from metricmix.typing import Floats, Indices

__all__ = [
    "Broken",
    "broken_rows",
    "count_broken",
    "find_broken",
    "list_pairs",
    "spread_pairs",
    "sum_absolutes",
    "sum_squares",
]


DEPTH = 128
"""Intermediate items per round of the product."""


class Broken(NamedTuple):
    """Sorted keys of broken rows, the number of broken pairs, the largest excess, and a value.

    The value is the objective where every pair is as long as its shortest way of two edges: about
    that of the closure, once few triangles are broken by much.
    """

    keys: Indices
    pairs: int
    worst: float
    value: float


def broken_rows(
    matrix: Floats,
    crew: Crew,
    *,
    size: int,
    blocks: int,
    tolerance: float,
    share: float,
    most: int,
    objective: Callable[[Floats, int], float],
) -> Broken:
    """Return rows of broken triangles of a symmetric matrix with a zero diagonal.

    Parameters
    ----------
    matrix : (n, n) array
        Contiguous; both halves are filled.
    tolerance : float
        Excess that does not count.
    share, most : float, int
        For every broken pair, up to `most` items k whose detour saves at least `share` < 1 of what
        the best one saves.
    objective : callable
        From rows of a matrix and the number of the first one to a part of the objective.
    """

    def look(rows: tuple[int, int]) -> Broken:
        low, high = rows
        shortest = _detours(matrix, low, high)
        pairs, worst = count_broken(matrix, shortest, low, tolerance)
        keys = np.empty(pairs * most, np.int64)
        options = (tolerance, share, most, size, blocks, keys)
        count = find_broken(matrix, shortest, low, *options)
        return Broken(keys[:count].copy(), pairs, worst, objective(shortest, low))

    rows = row_ranges(len(matrix), STRIP, max(16, len(matrix) // 96), triangle=True)
    found = crew.run(look, rows)
    keys = np.concatenate([part.keys for part in found])
    keys.sort()
    return Broken(
        keys,
        sum(part.pairs for part in found),
        max(part.worst for part in found),
        sum(part.value for part in found),
    )


def _detours(matrix: Floats, low: int, high: int) -> Floats:
    """Return min(x_ij, min over k of x_ik + x_kj) for low <= i < high, j < high."""
    n, count, width = len(matrix), high - low, panel_width(matrix.dtype)
    shortest = matrix[low:high, :high].copy()
    highs = np.empty((-(-count // STRIP), -(-high // width)))
    tile_maxima(shortest, 0, count, highs)
    depth = 0
    for first in range(0, n, DEPTH):
        last = min(first + DEPTH, n)
        if last - first != depth:
            depth = last - first
            left = Packed.empty(count, depth, STRIP, matrix.dtype)
            right = Packed.empty(high, depth, width, matrix.dtype)
        pack_rows(np.ascontiguousarray(matrix[low:high, first:last]), 0, count, left)
        pack_columns(matrix[first:last], 0, high, right)
        update(shortest, 0, count, left, right, highs, low)
    return shortest


# -- finding rows of broken triangles, and moving between a matrix and the list of its pairs ----


@kernel
def spread_pairs(values: Floats, low: int, high: int, matrix: Floats) -> None:
    """Fill rows low .. high - 1 of a matrix left of its diagonal, with 0 on it."""
    for i in range(low, high):
        row = matrix[i]
        first = i * (i - 1) // 2
        for j in range(i):
            row[j] = values[first + j]
        row[i] = 0.0


@kernel
def list_pairs(matrix: NDArray[np.floating], low: int, high: int, values: Floats) -> None:
    """Take rows low .. high - 1 of a matrix left of its diagonal."""
    for i in range(low, high):
        row = matrix[i]
        first = i * (i - 1) // 2
        for j in range(i):
            values[first + j] = row[j]


@kernel
def count_broken(matrix: Floats, shortest: Floats, low: int, tolerance: float) -> tuple[int, float]:
    """Return how many pairs (i, j < i) exceed their shortest detour, and by how much at most.

    `shortest` has the rows low, low + 1, ...
    """
    count, worst = 0, 0.0
    for r in range(shortest.shape[0]):
        row, reached = matrix[low + r], shortest[r]
        for j in range(low + r):
            excess = row[j] - reached[j]
            count += 1 if excess > tolerance else 0
            worst = excess if excess > worst else worst
    return count, worst


@kernel
def find_broken(
    matrix: Floats,
    shortest: Floats,
    low: int,
    tolerance: float,
    share: float,
    most: int,
    size: int,
    blocks: int,
    keys: NDArray[np.int64],
) -> int:
    """Write the keys of broken triangles into `keys`; return their number.

    For every pair that exceeds its shortest detour by more than the tolerance, up to `most` items
    k, over which the way is shorter by at least `share` of that excess. The search for them begins
    elsewhere for every pair, so that rows spread over all k.
    """
    n = matrix.shape[0]
    chunks = -(-n // CHUNK)
    count = 0
    for r in range(shortest.shape[0]):
        i = low + r
        row = matrix[i]
        for j in range(i):
            excess = row[j] - shortest[r, j]
            if excess <= tolerance:
                continue
            column = matrix[j]
            limit = row[j] - share * excess
            found = 0
            c = (i * 31 + j * 17) % chunks
            for _ in range(chunks):
                first = c * CHUNK
                c = c + 1 if c + 1 < chunks else 0
                last = min(first + CHUNK, n)
                if not _any_shorter(row[first:last], column[first:last], limit):
                    continue
                for k in range(first, last):
                    if row[k] + column[k] <= limit:
                        keys[count] = key_of(i, j, k, size, blocks)
                        count += 1
                        found += 1
                        if found == most:
                            break
                if found == most:
                    break
    return count


@kernel
def _any_shorter(row: Floats, column: Floats, limit: float) -> bool:
    """Return whether any detour of a chunk is as short as the limit; vectorised."""
    found = 0
    for k in range(row.shape[0]):
        found += 1 if row[k] + column[k] <= limit else 0
    return found > 0


@kernel
def sum_squares(rows: Floats, low: int, d: Floats, w: Floats) -> float:
    """Return the sum of w (x - d)^2 over what rows low, low + 1, ... have left of the diagonal."""
    total = 0.0
    for r in range(rows.shape[0]):
        i = low + r
        x = rows[r]
        first = i * (i - 1) // 2
        for j in range(i):
            apart = x[j] - d[first + j]
            total += w[first + j] * apart * apart
    return total


@kernel
def sum_absolutes(rows: Floats, low: int, d: Floats, w: Floats) -> float:
    """Return the sum of w |x - d| over what rows low, low + 1, ... have left of the diagonal."""
    total = 0.0
    for r in range(rows.shape[0]):
        i = low + r
        x = rows[r]
        first = i * (i - 1) // 2
        for j in range(i):
            total += w[first + j] * abs(x[j] - d[first + j])
    return total
