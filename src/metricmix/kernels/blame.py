r"""Counting broken triangles by item.

A triangle with sides a, b, c is broken if one side is longer than the others together:
:math:`|a - b| > c` or :math:`a + b < c`. Written like this there is nothing to branch on, so the
compiler works on several triangles at once; and a side that is NaN breaks nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["count_with", "count_within"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

ROWS = 8
"""Rows that are worked on together: with one more, they stay in the cache."""


@kernel
def count_within(d: Floats, low: int, high: int, tolerance: float, counts: Counts) -> None:
    """Count the broken triangles {i, j, k}, low <= i < high, i < j < k, for each of their items."""
    n = d.shape[0]
    # Some rows i together, so that a row j is fetched once for all of them.
    for first in range(low, high, ROWS):
        last = min(first + ROWS, high)
        for j in range(first + 1, n):
            dj, others = d[j, j + 1 :], counts[j + 1 :]
            for i in range(first, min(last, j)):
                di = d[i, j + 1 :]
                above, below = d[i, j] + tolerance, d[i, j] - tolerance
                here = np.int64(0)
                for k in range(len(others)):
                    a, b = di[k], dj[k]
                    broken = np.int64((abs(a - b) > above) | (a + b < below))
                    here += broken
                    others[k] += broken
                counts[j] += here
                counts[i] += here


@kernel
def count_with(
    d: Floats, r: int, left: NDArray[np.bool_], tolerance: float, counts: Counts
) -> None:
    """Count the broken triangles of item r with two items that are left, for each of these."""
    n = d.shape[0]
    dr = d[r]
    for j in range(n):
        if not left[j] or j == r:
            continue
        dj = d[j]
        above, below = dr[j] + tolerance, dr[j] - tolerance
        here = np.int64(0)
        for k in range(j + 1, n):
            a, b = dr[k], dj[k]
            broken = np.int64((left[k] & (k != r)) & ((abs(a - b) > above) | (a + b < below)))
            here += broken
            counts[k] += broken
        counts[j] += here
