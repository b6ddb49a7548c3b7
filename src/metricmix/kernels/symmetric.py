"""Symmetric matrices of which algorithms update only the lower triangle."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["fold", "mirror"]


@kernel
def fold(matrix: NDArray[Any], low: int, high: int) -> None:
    """Store the smaller of two mirrored entries in the lower triangle, in rows low .. high - 1."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    matrix[i, j] = min(matrix[i, j], row[i])


@kernel
def mirror(matrix: NDArray[Any], low: int, high: int) -> None:
    """Copy rows low .. high - 1 of the lower triangle to the upper one, in cached squares."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    row[i] = matrix[i, j]
