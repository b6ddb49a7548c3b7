"""Moving single entries of a matrix of edge lengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import length_of

__all__ = ["move_edges"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@kernel
def move_edges(
    X: Floats,
    w: Floats,
    u: Indices,
    v: Indices,
    move: Floats,
    beta: float,
    link: int,
    symmetric: bool,
) -> None:
    """Add move[e] to X[u[e], v[e]] (and to its mirror image), then renew the lengths there.

    With the identity link entries stay at 0 or above, where lengths are.
    """
    for e in range(u.shape[0]):
        X[u[e], v[e]] += move[e]
        if link == 0 and X[u[e], v[e]] < 0.0:
            X[u[e], v[e]] = 0.0
        if symmetric:
            X[v[e], u[e]] = X[u[e], v[e]]
    for e in range(u.shape[0]):
        w[u[e], v[e]] = length_of(X[u[e], v[e]], beta, link)
        if symmetric:
            w[v[e], u[e]] = w[u[e], v[e]]
