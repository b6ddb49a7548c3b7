"""Counting broken triangles by item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["count_with", "count_within"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@kernel
def count_within(d: Floats, low: int, high: int, tolerance: float, counts: Counts) -> None:
    """Count the broken triangles {i, j, k}, low <= i < high, i < j < k, for each of their items."""
    n = d.shape[0]
    for i in range(low, high):
        di = d[i]
        own = 0
        for j in range(i + 1, n):
            dj = d[j]
            base = di[j]
            here = 0
            for k in range(j + 1, n):
                a, b = di[k], dj[k]
                # The largest side against the sum of the others: half the circumference is enough.
                if 2.0 * max(base, max(a, b)) > base + a + b + tolerance:
                    here += 1
                    counts[k] += 1
            counts[j] += here
            own += here
        counts[i] += own


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
        base = dr[j]
        for k in range(j + 1, n):
            if left[k] and k != r:
                a, b = dr[k], dj[k]
                if 2.0 * max(base, max(a, b)) > base + a + b + tolerance:
                    counts[j] += 1
                    counts[k] += 1
