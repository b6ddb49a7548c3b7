r"""The separation oracle of the metric cone: violated triangle inequalities of a point x.

.. math:: \min_k \; x_{ik} + x_{kj} < x_{ij}

One min-plus product of x with itself finds the violated pairs, for entries of any sign; the items k
are searched for these pairs only. Half of the product is enough, and chunks of it are skipped where
no detour can be short enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.minplus import mirror
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.threads import ThreadPool, row_ranges
from metricmix.kernels.triangles import lower_by_detours
from metricmix.nearness.constraints import blocks_for, key_of
from metricmix.nearness.problem import write_lower_triangle
from metricmix.paths.dijkstra import CHUNK
from metricmix.typing import Floats, Indices

__all__ = [
    "SelectedTriangles",
    "ViolatedTriangles",
    "count_violated",
    "find_violated",
    "select_violated",
]


class ViolatedTriangles(NamedTuple):
    """Sorted keys of violated triangles, the number of violated pairs, and the worst violation.

    `value` is the objective where every pair is as long as its shortest path of two edges: close
    to that of the closure, once few triangles are violated by much.
    """

    keys: Indices
    pairs: int
    worst: float
    value: float


class SelectedTriangles(NamedTuple):
    """Which violated triangles to return.

    Pairs count that are violated by more than `tolerance`, and by more than the share `rounding` of
    their own length. For each of them, up to `most` items k are returned whose violation is at
    least `share` < 1 of the pair's largest one.
    """

    tolerance: float
    share: float
    most: int
    rounding: float = 0.0


def find_violated(
    x: Floats,
    n: int,
    pool: ThreadPool,
    selection: SelectedTriangles,
    objective: Callable[[Floats, int], float],
) -> ViolatedTriangles:
    """Return violated triangles of x.

    Parameters
    ----------
    x : (pairs,) array
    n : int
    pool : ThreadPool
    selection : SelectedTriangles
    objective : callable
        Maps rows low, low + 1, ... of a matrix, and low, to their part of the objective.
    """
    matrix = np.empty((n, n))
    ranges = row_ranges(n, 64, 4 * pool.threads, triangle=True)
    pool.run(lambda rows: write_lower_triangle(x, *rows, matrix), ranges)
    pool.run(lambda rows: mirror(matrix, *rows), ranges)
    blocks = blocks_for(n)
    size = -(-n // blocks)

    def of_rows(rows: tuple[int, int]) -> ViolatedTriangles:
        low, high = rows
        shortest = matrix[low:high, :high].copy()
        lower_by_detours(shortest, matrix, low, True)
        check_time()
        pairs, worst = count_violated(matrix, shortest, low, selection)
        keys = np.empty(pairs * selection.most, np.int64)
        count = select_violated(matrix, shortest, low, selection, size, blocks, keys)
        return ViolatedTriangles(keys[:count].copy(), pairs, worst, objective(shortest, low))

    found = pool.run(of_rows, row_ranges(n, STRIP, max(16, n // 96), triangle=True))
    keys = np.concatenate([part.keys for part in found])
    keys.sort()
    return ViolatedTriangles(
        keys,
        sum(part.pairs for part in found),
        max(part.worst for part in found),
        sum(part.value for part in found),
    )


@kernel
def count_violated(
    matrix: Floats, shortest: Floats, low: int, selection: SelectedTriangles
) -> tuple[int, float]:
    """Return how many pairs (i, j < i) exceed their shortest detour, and by how much at most.

    `shortest` has the rows low, low + 1, ...
    """
    tolerance, rounding = selection.tolerance, selection.rounding
    count, worst = 0, 0.0
    for r in range(shortest.shape[0]):
        row, reached = matrix[low + r], shortest[r]
        for j in range(low + r):
            violation = row[j] - reached[j]
            count += 1 if violation > max(tolerance, rounding * abs(row[j])) else 0
            worst = violation if violation > worst else worst
    return count, worst


@kernel
def select_violated(
    matrix: Floats,
    shortest: Floats,
    low: int,
    selection: SelectedTriangles,
    size: int,
    blocks: int,
    keys: Indices,
) -> int:
    """Write the keys of selected triangles into `keys`; return their number.

    The search for k starts at a different place for every pair, to spread constraints over all k.
    """
    tolerance, rounding = selection.tolerance, selection.rounding
    share, most = selection.share, selection.most
    n = matrix.shape[0]
    chunks = -(-n // CHUNK)
    count = 0
    for r in range(shortest.shape[0]):
        i = low + r
        row = matrix[i]
        for j in range(i):
            violation = row[j] - shortest[r, j]
            if violation <= max(tolerance, rounding * abs(row[j])):
                continue
            column = matrix[j]
            limit = row[j] - share * violation
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
    """Return whether some detour of a chunk is as short as the limit; vectorised."""
    found = 0
    for k in range(row.shape[0]):
        found += 1 if row[k] + column[k] <= limit else 0
    return found > 0
