"""Checks of all pairs and triangles of a matrix, by blocks of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.kernels.blocks import BlockJob, Cost, Found, release, run_blocks
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.minplus import (
    Packed,
    pack_columns,
    pack_rows,
    panel_width,
    tile_maxima,
    update_rows,
)
from metricmix.kernels.minplus_tile import STRIP
from metricmix.typing import AnyArray

__all__ = [
    "ROW_BLOCK",
    "PairSurvey",
    "TriangleScan",
    "collected",
    "largest_excess",
    "lower_by_detours",
    "survey_pairs",
    "worst_of_rows",
    "worst_triangles",
]

ROW_BLOCK = 32 * STRIP
"""Rows that are checked together: their part of the product is all that is kept of it."""
DEPTH, AT_ONCE = 128, 4
"""Intermediate items per round of the product, and rounds per call of a kernel."""


def collected(job: RowBlocks, n_jobs: int | None) -> list[list[float]]:
    """Return what was found for every block of rows, the first rows first."""
    found: list[list[float]] = [[]] * job.cost.units

    def put(start: int, stop: int, arrays: Found) -> None:
        found[start:stop] = arrays[0].tolist()

    run_blocks(job, put, n_jobs=n_jobs)
    return found[::-1]


@dataclass(frozen=True, eq=False)
class RowBlocks(BlockJob):
    """Checks of the pairs of a matrix; a unit is `ROW_BLOCK` rows, the last ones first."""

    matrix: AnyArray
    streams = True

    @property
    def cost(self) -> Cost:
        """Memory for the rows of a block and their product, and a piece of the matrix."""
        n = len(self.matrix)
        held = float((3 * ROW_BLOCK + (1 + AT_ONCE) * DEPTH) * n * self.matrix.itemsize)
        return Cost(-(-n // ROW_BLOCK), ROW_BLOCK * self.row_seconds(n), 72.0, held)

    def block(self, start: int, stop: int) -> Found:
        """Return what is found for each of some blocks of rows."""
        n, found = len(self.matrix), []
        for unit in range(start, stop):
            low = (self.cost.units - 1 - unit) * ROW_BLOCK
            found.append(self.rows(low, min(low + ROW_BLOCK, n)))
            release(self.matrix)
        return (np.array(found, dtype=np.float64),)

    @abstractmethod
    def row_seconds(self, n: int) -> float:
        """Return the time of a row of n entries."""

    @abstractmethod
    def rows(self, low: int, high: int) -> tuple[float, ...]:
        """Return what is found for the rows low <= i < high."""


class PairSurvey(RowBlocks):
    """What :func:`survey_pairs` finds."""

    what = "metric check: pairs"

    def row_seconds(self, n: int) -> float:
        """Return the time of a row of n entries."""
        return 2e-9 * n

    def rows(self, low: int, high: int) -> tuple[float, ...]:
        """Return what is found for the rows low <= i < high."""
        return survey_pairs(self.matrix, low, high)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class TriangleScan(RowBlocks):
    """What :func:`worst_triangles` finds."""

    lower: bool
    tolerance: float
    what = "metric check: triangles"

    def row_seconds(self, n: int) -> float:
        """Return the time of a row of n entries."""
        return 1e-10 * float(n) ** 2

    def rows(self, low: int, high: int) -> tuple[float, ...]:
        """Return what is found for the rows low <= i < high."""
        return worst_triangles(self.matrix, low, high, self.lower, self.tolerance)


def worst_triangles(
    matrix: AnyArray, low: int, high: int, lower: bool, tolerance: float
) -> tuple[float, int, int, int]:
    """Return the largest violation by a pair (i, j), low <= i < high, i, j, and how many there are.

    Only pairs j < i if `lower`; violations up to the tolerance are not counted.
    """
    shortest = matrix[low:high, : high if lower else len(matrix)].copy()
    lower_by_detours(shortest, matrix, low, lower)
    found: tuple[float, int, int, int] = largest_excess(matrix, shortest, low, lower, tolerance)
    return found


def lower_by_detours(shortest: AnyArray, matrix: AnyArray, low: int, lower: bool) -> None:
    """Replace `shortest`, rows of lengths from item `low` on, by the minimum over detours.

    ``shortest[r, j] = min(shortest[r, j], min over k of matrix[low + r, k] + matrix[k, j])``. Its
    columns are all items, or only those up to the last row if `lower`: then entries right of the
    diagonal are left undefined. Entries may be negative, and inf where there is no edge.
    """
    (count, columns), dtype = shortest.shape, matrix.dtype
    n, width = len(matrix), panel_width(dtype)
    highs = np.empty((-(-count // STRIP), -(-columns // width)), dtype)
    tile_maxima(shortest, 0, count, highs)
    limit = low if lower else columns
    whole = n - n % DEPTH
    for begin, end, depth in ((0, whole, DEPTH), (whole, n, n - whole)):
        if begin == end:
            continue
        left = Packed.empty(count, depth, STRIP, dtype)
        right = Packed.empty(columns, depth, width, dtype)
        for first in range(begin, end, AT_ONCE * depth):
            check_time()
            last = min(first + AT_ONCE * depth, end)
            arrays = (left, right, highs, dtype.type(1))
            lower_by_rounds(shortest, matrix, low, limit, first, last, *arrays)
            release(matrix)


@kernel
def lower_by_rounds(
    shortest: AnyArray,
    matrix: AnyArray,
    low: int,
    limit: int,
    first: int,
    last: int,
    left: Packed,
    right: Packed,
    highs: AnyArray,
    one: Any,
) -> None:
    """Lower `shortest` by the detours over items first .. last - 1, as many at once as `left` has.

    `limit` and `one` are as in :func:`~metricmix.kernels.minplus.update_rows`.
    """
    (count, columns), depth = shortest.shape, left.parts.shape[1]
    for k in range(first, last, depth):
        pack_rows(matrix[low : low + count, k : k + depth], 0, count, left)
        pack_columns(matrix[k : k + depth], 0, columns, right)
        update_rows(shortest, 0, count, limit, left, right, highs, one)


@kernel
def largest_excess(
    matrix: AnyArray, shortest: AnyArray, low: int, lower: bool, tolerance: float
) -> tuple[float, int, int, int]:
    """Return the largest excess over the shortest detour, its place (i, j), and their number."""
    worst, worst_i, worst_j, count = 0.0, 0, 0, 0
    rows, columns = shortest.shape
    for r in range(rows):
        i = low + r
        row, reached = matrix[i], shortest[r]
        for j in range(i if lower else columns):
            excess = float(row[j] - reached[j])
            if excess > 0 and i != j:
                if excess > tolerance:
                    count += 1
                if excess > worst:
                    worst, worst_i, worst_j = excess, i, j
    return worst, worst_i, worst_j, count


@kernel
def worst_of_rows(
    matrix: AnyArray,
    shortest: AnyArray,
    low: int,
    lower: bool,
    slack: float,
    excess: AnyArray,
    partner: AnyArray,
) -> None:
    """For each item i from `low` on, find the j with the largest excess of length plus slack."""
    rows, columns = shortest.shape
    for r in range(rows):
        i = low + r
        row, reached = matrix[i], shortest[r]
        worst, where = 0.0, i
        for j in range(i if lower else columns):
            over = row[j] + slack - reached[j]
            if over > worst and i != j:
                worst, where = over, j
        excess[r], partner[r] = worst, where


@kernel
def survey_pairs(
    matrix: AnyArray, low: int, high: int
) -> tuple[float, float, int, int, float, int, int, int, int]:
    """Return scale, asymmetry, negativity, zeros (any, both) over pairs j < i, low <= i < high."""
    scale, asymmetry, a_i, a_j = 0.0, 0.0, 0, 0
    negativity, n_i, n_j, either, both = 0.0, 0, 0, 0, 0
    for first in range(low, high, 64):  # squares of 64 keep both mirrored parts in the cache
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    there, back = float(matrix[i, j]), float(row[i])
                    if abs(there - back) > asymmetry:
                        asymmetry, a_i, a_j = abs(there - back), i, j
                    if there < 0 and -there > negativity:
                        negativity, n_i, n_j = -there, i, j
                    if back < 0 and -back > negativity:
                        negativity, n_i, n_j = -back, j, i
                    scale = max(scale, max(abs(there), abs(back)))
                    if there == 0 or back == 0:
                        either += 1
                        if there == back:
                            both += 1
    return scale, asymmetry, a_i, a_j, negativity, n_i, n_j, either, both
