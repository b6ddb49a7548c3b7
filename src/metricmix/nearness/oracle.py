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

from metricmix.kernels.broken import count_broken, find_broken
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

__all__ = ["Broken", "broken_rows"]

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]

DEPTH = 128
"""Intermediate items per round of the product."""


class Broken(NamedTuple):
    """Sorted keys of broken rows, the number of broken pairs, the largest excess, and a value.

    The value is the objective where every pair is as long as its shortest way of two edges: about
    that of the closure, once few triangles are broken by much.
    """

    keys: Keys
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
