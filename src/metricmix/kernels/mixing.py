r"""Rows of a mixture of sources in memory: :math:`m_{uv} = \sum_r \alpha_r M_r[u, v]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["form_lengths", "length_of", "link_in_place", "mix_row"]

TINY = float(np.finfo(np.float64).tiny)


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
def length_of(m: float, beta: float, link: int) -> float:
    """Return the edge length of one mixture value (link 0: identity, 1: softplus)."""
    if link == 0:
        return max(m, 0.0)
    w: float = max(m, 0.0) + np.log1p(np.exp(-beta * abs(m))) / beta
    return max(w, TINY)


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
