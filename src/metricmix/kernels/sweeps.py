r"""Coordinate ascent on the duals of triangle constraints (Hildreth, Dykstra), with momentum.

For :math:`\min_x \sum_e \phi_e(x_e)` over pairs e with rows :math:`v_t = x_{ij} - x_{ik} - x_{kj}
\le 0`, the point that belongs to duals z is :math:`x_e = \arg\min \phi_e(x) + (A^T z)_e\, x`. A
sweep goes from row to row and chooses the best dual of each, the others being what they are. For
:math:`\phi_e = \tfrac{h_e}{2} (x - d_e)^2` that is

.. math:: c = \max\Bigl(\frac{v_t}{1/h_{ij} + 1/h_{ik} + 1/h_{kj}},\; -z_t\Bigr), \qquad
          z_t \leftarrow z_t + c, \qquad
          x_{ij} \mathrel{-}= \frac{c}{h_{ij}}, \quad x_{ik} \mathrel{+}= \frac{c}{h_{ik}}, \quad
          x_{kj} \mathrel{+}= \frac{c}{h_{kj}}.

With momentum a sweep starts at :math:`z + \beta (z - z_{before})`. The point x is linear in z and
is moved beforehand, all at once (:func:`move_on`); the duals are moved when their row comes, which
also lifts those that would be negative. Rows start .. stop - 1 are done, in this order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = ["add_rows", "move_on", "row_product", "sweep_even", "sweep_weighted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@kernel
def sweep_even(
    x: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    start: int,
    stop: int,
) -> None:
    """Sweep where every h is 1."""
    third = 1.0 / 3.0
    for t in range(start, stop):
        p, q, r = side[t], leg[t], other[t]
        now = z[t]
        ahead = now + beta * (now - before[t])
        before[t] = now
        c = max((x[p] - x[q] - x[r]) * third, -ahead)
        x[p] -= c
        x[q] += c
        x[r] += c
        z[t] = ahead + c


@kernel
def sweep_weighted(
    x: Floats,
    inverse: Floats,
    side: Ints,
    leg: Ints,
    other: Ints,
    z: Floats,
    before: Floats,
    beta: float,
    start: int,
    stop: int,
) -> None:
    """Sweep with `inverse` = 1 / h."""
    for t in range(start, stop):
        p, q, r = side[t], leg[t], other[t]
        now = z[t]
        ahead = now + beta * (now - before[t])
        before[t] = now
        excess = x[p] - x[q] - x[r]
        c = max(excess / (inverse[p] + inverse[q] + inverse[r]), -ahead)
        x[p] -= c * inverse[p]
        x[q] += c * inverse[q]
        x[r] += c * inverse[r]
        z[t] = ahead + c


@kernel
def move_on(
    x: Floats, before: Floats, d: Floats, h: Floats, beta: float, start: int, stop: int
) -> float:
    r"""Move x by beta times its last step; return this part of the dual value at the old x.

    .. math:: \sum_e \tfrac{h_e}{2} (d_e - x_e)(d_e + x_e)

    is the dual value of z where x belongs to z. (Good enough to see whether it grows.) `h` may have
    the length 1 if all are the same.
    """
    total = 0.0
    if h.shape[0] == 1:
        for e in range(start, stop):
            now = x[e]
            total += (d[e] - now) * (d[e] + now)
            x[e] = now + beta * (now - before[e])
            before[e] = now
        return 0.5 * float(h[0]) * total
    for e in range(start, stop):
        now = x[e]
        total += h[e] * (d[e] - now) * (d[e] + now)
        x[e] = now + beta * (now - before[e])
        before[e] = now
    return 0.5 * total


@kernel
def row_product(
    x: Floats, side: Ints, leg: Ints, other: Ints, z: Floats, start: int, stop: int
) -> float:
    r"""Return this part of :math:`z^T A x`."""
    total = 0.0
    for t in range(start, stop):
        if z[t] != 0.0:
            total += z[t] * (x[side[t]] - x[leg[t]] - x[other[t]])
    return total


@kernel
def add_rows(
    u: Floats, side: Ints, leg: Ints, other: Ints, z: Floats, start: int, stop: int
) -> None:
    r"""Add this part of :math:`A^T z` to u."""
    for t in range(start, stop):
        u[side[t]] += z[t]
        u[leg[t]] -= z[t]
        u[other[t]] -= z[t]
