"""An order of the items in which a closure leaves out more of its work.

The min-plus product skips a chunk of detours that cannot shorten any length of a tile
(:mod:`metricmix.kernels.minplus`). That happens the more often the better near items stand side by
side, as they do along a walk that always goes on to the nearest item not yet seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import CHUNK, panel_width
from metricmix.kernels.tile import STRIP

__all__ = ["reorder", "saving_order"]

WORTHWHILE = 250
"""Items times the share of the work saved from which another order pays.

The saving grows with n^3, walking and moving with n^2; measured where the two meet.
"""


def saving_order(matrix: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return an order of the items in which the closure takes less time, if that pays."""
    n = len(matrix)
    as_given = _share_done(matrix, np.arange(n))
    if n * as_given < WORTHWHILE:
        return None
    order: NDArray[np.int64] = _walk(matrix)
    return order if n * (as_given - _share_done(matrix, order)) > WORTHWHILE else None


def _share_done(matrix: NDArray[Any], order: NDArray[np.int64]) -> float:
    """Estimate from a few tiles which share of the product cannot be left out in this order."""
    n, width = len(matrix), panel_width(matrix.dtype)
    strips = np.linspace(0, n - STRIP, 8).astype(int)[:, None] + np.arange(STRIP)
    panels = np.linspace(0, n - width, 2).astype(int)[:, None] + np.arange(width)
    chosen = order[np.concatenate([strips.ravel(), panels.ravel()])]
    rows = np.take(matrix[chosen], order, axis=1)
    lows = np.minimum.reduceat(rows, np.arange(0, n, CHUNK), axis=1)
    strip_lows = lows[: strips.size].reshape(*strips.shape, -1).min(axis=1)
    panel_lows = lows[strips.size :].reshape(*panels.shape, -1).min(axis=1)
    tiles = rows[: strips.size, panels.ravel()].reshape(*strips.shape, *panels.shape)
    highs = tiles.max(axis=(1, 3))
    return float(np.mean(strip_lows[:, None] + panel_lows[None] < highs[:, :, None]))


@kernel
def _walk(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """Return the items as met on a walk to the nearest item not yet seen."""
    n = matrix.shape[0]
    order = np.empty(n, np.int64)
    left = np.arange(n)
    current = 0
    for step in range(n):
        order[step] = left[current]
        row = matrix[left[current]]
        last = n - 1 - step
        left[current] = left[last]
        current, nearest = 0, np.inf
        for place in range(last):
            length = row[left[place]]
            if length < nearest:
                current, nearest = place, length
    return order


@kernel
def reorder(
    matrix: NDArray[Any], order: NDArray[np.int64], low: int, high: int, out: NDArray[Any]
) -> None:
    """Fill rows low .. high - 1 of out with the matrix in the given order of items."""
    for i in range(low, high):
        row = matrix[order[i]]
        target = out[i]
        for j in range(len(order)):
            target[j] = row[order[j]]
