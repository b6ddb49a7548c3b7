"""What is in a matrix file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import MatrixFileError
from metricmix.memory import check_fits

__all__ = ["MatrixFile", "check_names", "check_size"]

ENTRY = 24
"""Bytes of memory per entry that reading takes: the rows, the matrix, and a copy of it."""


@dataclass(frozen=True)
class MatrixFile:
    """A square matrix, NaN where it is unknown, and the names of its items if the file has them.

    `rounding` is what the file's own numbers are rounded by, a few times over, relative to their
    size: more than float64 has if it holds float32.
    """

    values: NDArray[np.float64]
    items: tuple[str, ...] | None = None
    rounding: float = 0.0

    def name(self, i: int) -> str:
        """Return what item i is called: by its name, else by its number, from 0 on."""
        return str(i) if self.items is None else self.items[i]

    def key(self, i: int) -> str | int:
        """Return the same for programs: a number is a number."""
        return i if self.items is None else self.items[i]


def check_names(
    source: Path, items: Sequence[str], n: int, lines: Sequence[int] | None = None
) -> None:
    """Raise MatrixFileError unless every item has a name of its own."""
    if len(items) != n:
        raise MatrixFileError(f"{source}: expected {n} names, one per row, found {len(items)}")
    seen: dict[str, int] = {}
    for k, item in enumerate(items):
        if item in seen:
            where = (
                f"lines {lines[seen[item]]} and {lines[k]}"
                if lines is not None
                else f"items {seen[item]} and {k}, counted from 0"
            )
            raise MatrixFileError(f"{source}: expected every name once, found {item!r} at {where}")
        seen[item] = k


def check_size(source: Path, n: int) -> None:
    """Raise TooLargeError if a matrix of n items does not fit into memory."""
    check_fits(
        lambda items: ENTRY * items * items,
        n,
        what="reading the matrix",
        instead="take fewer items",
        argument=str(source),
    )
