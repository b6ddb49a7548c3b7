"""Moving parts of a matrix whose lower triangle counts for both."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["close_block", "fold", "mirror", "take_columns", "take_rows"]


@kernel
def close_block(block: NDArray[Any]) -> None:
    """Close a small block by Floyd and Warshall's loops."""
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
def take_columns(matrix: NDArray[Any], start: int, low: int, high: int, legs: NDArray[Any]) -> None:
    """Copy columns start, start + 1, … of rows low .. high - 1 into legs."""
    for i in range(low, high):
        row = matrix[i]
        leg = legs[i]
        for k in range(legs.shape[1]):
            leg[k] = row[start + k]


@kernel
def take_rows(matrix: NDArray[Any], start: int, low: int, high: int, legs: NDArray[Any]) -> None:
    """Copy rows start, start + 1, … at columns low .. high - 1 into legs, transposed."""
    for k in range(legs.shape[1]):
        row = matrix[start + k]
        for i in range(low, high):
            legs[i, k] = row[i]


@kernel
def fold(matrix: NDArray[Any], low: int, high: int) -> None:
    """Take the smaller of two mirrored entries into the lower triangle, in cached squares."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    matrix[i, j] = min(matrix[i, j], row[i])


@kernel
def mirror(matrix: NDArray[Any], low: int, high: int) -> None:
    """Copy the lower triangle to the upper one, in squares that stay in the cache."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    row[i] = matrix[i, j]
