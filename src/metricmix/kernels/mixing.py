r"""Edge lengths of sources in memory, one row at a time, for searches that mix rows on demand.

.. math:: m_{uv} = \sum_r \alpha_r M_r[u, v], \qquad w_{uv} = \mathrm{link}_\beta(m_{uv})
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "DenseLengths",
    "dense_edge_gradient",
    "floor_of",
    "form_lengths",
    "length_of",
    "link_in_place",
    "mix_row",
    "mix_rows",
    "tangent_of",
]


TINY = float(np.finfo(np.float64).tiny)
LOG_2 = float(np.log(2.0))


class DenseLengths(NamedTuple):
    """What a kernel needs to compute edge lengths by rows.

    Attributes
    ----------
    block : (R, n, n) array
        The raw sources.
    weights : (R,) array
        Their weights.
    beta : float
    link : int
        0: identity, 1: softplus.
    """

    block: AnyArray
    weights: Floats
    beta: float
    link: int


@kernel
def mix_row(block: AnyArray, weights: Floats, u: int, reverse: bool, m: Floats) -> None:
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
def mix_rows(block: AnyArray, weights: Floats, start: int, m: Floats) -> None:
    """Fill m with the rows start, start + 1, … of the mixture."""
    for k in range(m.shape[0]):
        mix_row(block, weights, start + k, False, m[k])


@kernel
def length_of(m: float, beta: float, link: int) -> float:
    """Return the edge length of one mixture value (link 0: identity, 1: softplus)."""
    if link == 0:
        return max(m, 0.0)
    saturated = 38.0  # from here on, softplus(m) - m is less than half of the last digit of m
    if beta * m > saturated:
        return m
    w: float = max(m, 0.0) + np.log1p(np.exp(-beta * abs(m))) / beta
    return max(w, TINY)


@kernel
def tangent_of(beta: float, link: int) -> tuple[float, float]:
    """Return (shift, slope) of a line below the link: the tangent at 0 of the convex softplus."""
    if link == 0:
        return 0.0, 0.0
    rounded_down = 1.0 - 1e-14  # keeps bounds below what they bound in spite of rounding
    return rounded_down * LOG_2 / beta, 0.5


@kernel
def floor_of(m: float, shift: float, slope: float) -> float:
    """Return a lower bound of the edge length that needs no exponential: max(0, m, tangent)."""
    floor = shift + slope * m
    floor = m if m > floor else floor
    return floor if floor > 0.0 else 0.0


@kernel
def link_in_place(m: Floats, beta: float, link: int) -> None:
    """Replace mixture values, of any shape, by edge lengths."""
    flat = m.reshape(m.size)
    for e in range(flat.size):
        flat[e] = length_of(flat[e], beta, link)


@kernel
def form_lengths(
    block: AnyArray,
    weights: Floats,
    beta: float,
    link: int,
    start: int,
    w: Floats,
) -> None:
    """Fill w with the rows start, start + 1, … of the edge lengths; 0 on the diagonal."""
    for k in range(w.shape[0]):
        mix_row(block, weights, start + k, False, w[k])
        for v in range(w.shape[1]):
            w[k, v] = length_of(w[k, v], beta, link)
        w[k, start + k] = 0.0


@kernel
def dense_edge_gradient(
    block: AnyArray,
    weights: Floats,
    beta: float,
    link: int,
    rows: Indices,
    flow: Floats,
    gradient: Floats,
) -> None:
    """Fill ``gradient[u, r] = sum over v of flow[u, v] link'(m[u, v]) M_r[u, v]`` for `rows`."""
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
