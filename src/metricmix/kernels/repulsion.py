r"""The forces between places in the plane that t-distributed neighbours ask for.

With :math:`q_{ij} = 1 / (1 + \lVert y_i - y_j \rVert^2)` and :math:`Z = \sum_{i \ne j} q_{ij}`, the
derivative of the divergence by :math:`y_i` is

.. math:: 4 \sum_j (e\,p_{ij} - q_{ij} / Z)\, q_{ij}\, (y_i - y_j)

where e exaggerates the attraction. The repulsion of all pairs is summed exactly: items are taken in
blocks, and the innermost loop goes over the items of a block, so that it needs no sum of its own
and runs on vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["descend"]

BLOCK = 256
LEAST_GAIN = 0.01


@kernel
def repel(x: NDArray[np.float32], y: NDArray[np.float32], force: NDArray[np.float32]) -> float:
    """Write the sums of q² (y_i - y_j) to `force`, (2, n), and return Z."""
    n = len(x)
    zero = np.float32(0.0)
    one = np.float32(1.0)
    total = 0.0
    sums = np.empty((3, BLOCK), np.float32)
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        sums[:] = zero
        own_x, own_y = x[start : start + count], y[start : start + count]
        along, up, near = sums[0, :count], sums[1, :count], sums[2, :count]
        for j in range(n):
            there_x, there_y = x[j], y[j]
            for i in range(count):
                dx, dy = own_x[i] - there_x, own_y[i] - there_y
                q = one / (one + dx * dx + dy * dy)
                square = q * q
                near[i] += q
                along[i] += square * dx
                up[i] += square * dy
        for i in range(count):
            force[0, start + i] = along[i]
            force[1, start + i] = up[i]
            total += near[i]
    return total - n


@kernel
def attract(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    p: NDArray[np.float32],
    force: NDArray[np.float32],
) -> None:
    """Write the sums of p q (y_i - y_j) to `force`, (2, n); p is sparse, by rows."""
    one = np.float32(1.0)
    for i in range(len(x)):
        along = up = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            dx, dy = x[i] - x[j], y[i] - y[j]
            pull = p[e] / (one + dx * dx + dy * dy)
            along += pull * dx
            up += pull * dy
        force[0, i] = along
        force[1, i] = up


@kernel
def descend(
    places: NDArray[np.float32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    p: NDArray[np.float32],
    rounds: int,
    exaggeration: float,
    momentum: float,
    rate: float,
) -> None:
    """Move `places`, (2, n), down the divergence for some rounds, with momentum and gains."""
    n = places.shape[1]
    x, y = places[0], places[1]
    pull, push = np.empty((2, n), np.float32), np.empty((2, n), np.float32)
    speed, gain = np.zeros((2, n), np.float32), np.ones((2, n), np.float32)
    for _ in range(rounds):
        attract(x, y, indptr, indices, p, pull)
        z = repel(x, y, push)
        for axis in range(2):
            for i in range(n):
                slope = 4.0 * (exaggeration * pull[axis, i] - push[axis, i] / z)
                if slope * speed[axis, i] < 0.0:
                    gain[axis, i] += 0.2
                else:
                    gain[axis, i] = max(0.8 * gain[axis, i], LEAST_GAIN)
                speed[axis, i] = momentum * speed[axis, i] - rate * gain[axis, i] * slope
                places[axis, i] += speed[axis, i]
