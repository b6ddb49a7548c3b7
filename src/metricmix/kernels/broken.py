"""Finding rows of broken triangles, and moving between a matrix and the list of its pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.frontier import CHUNK
from metricmix.kernels.triples import key_of

__all__ = [
    "count_broken",
    "find_broken",
    "list_pairs",
    "spread_pairs",
    "sum_absolutes",
    "sum_squares",
]

Floats = NDArray[np.float64]


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
