r"""Rows of a mixture of sources in memory: :math:`m_{uv} = \sum_r \alpha_r M_r[u, v]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.typing import Floats

__all__ = [
    "dense_edge_gradient",
    "floor_in_place",
    "floor_of",
    "form_lengths",
    "length_of",
    "link_in_place",
    "mix_row",
    "mix_rows",
    "row_range",
    "tangent_of",
]


TINY = float(np.finfo(np.float64).tiny)
LOG_2 = float(np.log(2.0))
SATURATED = 38.0
"""From here on, softplus(m) - m is less than half of the last digit of m."""
ROUNDED_DOWN = 1.0 - 1e-14
"""Keeps bounds below what they bound in spite of rounding."""


@kernel
def mix_row(
    block: NDArray[Any], weights: NDArray[np.float64], u: int, reverse: bool, m: NDArray[np.float64]
) -> None:
    """Fill m with row u of the mixture, or with column u when `reverse`."""
    n = m.shape[0]
    for v in range(n):
        m[v] = 0.0
    for r in range(block.shape[0]):
        alpha = weights[r]
        if reverse:
            column = block[r, :, u]
            for v in range(n):
                m[v] += alpha * column[v]
        else:
            row = block[r, u]
            for v in range(n):
                m[v] += alpha * row[v]


@kernel
def mix_rows(
    block: NDArray[Any], weights: NDArray[np.float64], start: int, m: NDArray[np.float64]
) -> None:
    """Fill m with the rows start, start + 1, … of the mixture."""
    for k in range(m.shape[0]):
        mix_row(block, weights, start + k, False, m[k])


@kernel
def length_of(m: float, beta: float, link: int) -> float:
    """Return the edge length of one mixture value (link 0: identity, 1: softplus)."""
    if link == 0:
        return max(m, 0.0)
    if beta * m > SATURATED:
        return m
    w: float = max(m, 0.0) + np.log1p(np.exp(-beta * abs(m))) / beta
    return max(w, TINY)


@kernel
def tangent_of(beta: float, link: int) -> tuple[float, float]:
    """Return (shift, slope) of a line below the link: the tangent at 0 of the convex softplus."""
    if link == 0:
        return 0.0, 0.0
    return ROUNDED_DOWN * LOG_2 / beta, 0.5


@kernel
def floor_of(m: float, shift: float, slope: float) -> float:
    """Return a lower bound of the edge length that needs no exponential: max(0, m, tangent)."""
    floor = shift + slope * m
    floor = m if m > floor else floor
    return floor if floor > 0.0 else 0.0


@kernel
def floor_in_place(m: NDArray[np.float64], beta: float, link: int) -> None:
    """Replace mixture values by lower bounds of their edge lengths."""
    shift, slope = tangent_of(beta, link)
    for e in range(m.size):
        m[e] = floor_of(m[e], shift, slope)


@kernel
def row_range(layer: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> None:
    """Fill the smallest and the largest entry of every row, the diagonal left out."""
    for u in range(layer.shape[0]):
        row = layer[u]
        smallest, largest = np.inf, 0.0
        for v in range(row.shape[0]):
            if v != u:
                smallest = min(smallest, row[v])
                largest = max(largest, row[v])
        low[u], high[u] = smallest, largest


@kernel
def link_in_place(m: NDArray[np.float64], beta: float, link: int) -> None:
    """Replace mixture values, of any shape, by edge lengths."""
    flat = m.reshape(m.size)
    for e in range(flat.size):
        flat[e] = length_of(flat[e], beta, link)


@kernel
def form_lengths(
    block: NDArray[Any],
    weights: NDArray[np.float64],
    beta: float,
    link: int,
    start: int,
    w: NDArray[np.float64],
) -> None:
    """Fill w with the rows start, start + 1, … of the edge lengths; 0 on the diagonal."""
    for k in range(w.shape[0]):
        mix_row(block, weights, start + k, False, w[k])
        for v in range(w.shape[1]):
            w[k, v] = length_of(w[k, v], beta, link)
        w[k, start + k] = 0.0


# -- from flows on edges to derivatives: :math:`\sum_e f_e \, \sigma(\beta m_e) M_r[e]` ---------


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
