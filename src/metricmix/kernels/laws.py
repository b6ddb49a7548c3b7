"""The laws of a metric, pair by pair."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["compare", "survey_pairs", "worst_of_rows"]


@kernel
def compare(
    matrix: NDArray[Any], shortest: NDArray[Any], low: int, lower: bool, tolerance: float
) -> tuple[float, int, int, int]:
    """Return the largest excess of a length over the shortest detour, where, and how many."""
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
    matrix: NDArray[Any],
    shortest: NDArray[Any],
    low: int,
    lower: bool,
    slack: float,
    excess: NDArray[Any],
    partner: NDArray[Any],
) -> None:
    """Per item i from `low` on, find the j by which length plus slack exceeds the shortest most."""
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
    matrix: NDArray[Any], low: int, high: int
) -> tuple[float, float, int, int, float, int, int, int, int]:
    """Look at all pairs j < i, low <= i < high: scale, asymmetry, negativity, zeros (any, both)."""
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
