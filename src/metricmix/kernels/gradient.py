r"""From flows on edges to derivatives: :math:`\sum_e f_e \, \sigma(\beta m_e) M_r[e]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import mix_row

__all__ = ["dense_edge_gradient"]

Floats = NDArray[np.float64]


@kernel
def dense_edge_gradient(
    block: NDArray[Any],
    weights: Floats,
    beta: float,
    link: int,
    rows: NDArray[np.int64],
    flow: Floats,
    gradient: Floats,
) -> None:
    """Fill gradient[u, r] for the rows u, with flow the (n, n) flows on all edges."""
    n = flow.shape[1]
    m = np.empty(n)
    for u in rows:
        mix_row(block, weights, u, False, m)
        for v in range(n):
            if flow[u, v] == 0.0:
                m[v] = 0.0
            elif link == 0:
                m[v] = flow[u, v] if m[v] >= 0.0 else 0.0
            else:
                small = np.exp(-beta * abs(m[v]))
                m[v] = flow[u, v] * (1.0 if m[v] >= 0.0 else small) / (1.0 + small)
        for r in range(block.shape[0]):
            row = block[r, u]
            total = 0.0
            for v in range(n):
                total += m[v] * row[v]
            gradient[u, r] = total
