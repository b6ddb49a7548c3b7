r"""Primal-dual steps of a linear program with entries ±1 on CUDA tensors, written in Triton.

One step goes over the columns, then over the rows, of a sparse matrix K
(:mod:`metricmix.relaxations.primal_dual`):

.. math:: v' = \mathrm{clip}\bigl(v - \tfrac{1}{\omega n_j} (c - K^T z)_j\bigr), \qquad
          z' = \max\bigl(0, z + \tfrac{\omega}{n_r} (b - K (2 v' - v))_r\bigr).

A program has several columns, or rows, and adds up their entries in a fixed order: the same bits
every time. A step reads the entries of K twice, 4 bytes each, and a number of 8 bytes for each.

Functions here take contiguous tensors, float64 and integers, and check nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["take_steps"]

COLUMNS: Any = tl.constexpr(8)
"""Columns of a program; they have many entries."""
ROWS: Any = tl.constexpr(32)
"""Rows of a program; they have few."""
WIDE: Any = tl.constexpr(32)
NARROW: Any = tl.constexpr(8)
"""Entries of a column, and of a row, that are added up together."""


@triton.jit(do_not_specialize=["k", "count"])
def step_columns(
    starts, entries, cost, z, current, anchor, image, extrapolated, moved, settings, k, count
):
    """Step of the columns, the k-th since the first; `moved` gets n_j (v' - v)^2."""
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = j < count
    start = tl.load(starts + j, mask=inside, other=0)
    stop = tl.load(starts + j + 1, mask=inside, other=0)
    total = tl.zeros((COLUMNS,), tl.float64)
    for offset in range(0, tl.max(stop - start), WIDE):
        t = start[:, None] + (offset + tl.arange(0, WIDE))[None, :]
        valid = t < stop[:, None]
        r = tl.load(entries + t, mask=valid, other=0)
        value = tl.load(z + tl.where(r >= 0, r, -1 - r), mask=valid, other=0.0)
        total += tl.sum(tl.where(r >= 0, value, -value), axis=1)
    omega, a = tl.load(settings), tl.load(settings + 1 + k)
    n = tl.maximum(stop - start, 1).to(tl.float64)
    before = tl.load(current + j, mask=inside, other=0.0)
    x = before - (tl.load(cost + j, mask=inside, other=0.0) - total) / (omega * n)
    x = tl.minimum(tl.maximum(x, 0.0), 1.0)
    ahead = 2.0 * x - before
    held = tl.load(anchor + j, mask=inside, other=0.0)
    tl.store(moved + j, n * (x - before) * (x - before), mask=inside)
    tl.store(image + j, x, mask=inside)
    tl.store(extrapolated + j, ahead, mask=inside)
    tl.store(current + j, a * ahead + (1.0 - a) * held, mask=inside)


@triton.jit(do_not_specialize=["k", "count"])
def step_rows(starts, entries, v, current, anchor, image, moved, settings, k, count):
    """Step of the rows, with the extrapolated v; `moved` gets n_r (z' - z)^2."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = r < count
    start = tl.load(starts + r, mask=inside, other=0)
    stop = tl.load(starts + r + 1, mask=inside, other=0)
    total = tl.zeros((ROWS,), tl.float64)
    for offset in range(0, tl.max(stop - start), NARROW):
        t = start[:, None] + (offset + tl.arange(0, NARROW))[None, :]
        valid = t < stop[:, None]
        j = tl.load(entries + t, mask=valid, other=0)
        value = tl.load(v + tl.where(j >= 0, j, -1 - j), mask=valid, other=0.0)
        total += tl.sum(tl.where(valid, tl.where(j >= 0, value, 1.0 - value), 0.0), axis=1)
    omega, a = tl.load(settings), tl.load(settings + 1 + k)
    n = tl.maximum(stop - start, 1).to(tl.float64)
    before = tl.load(current + r, mask=inside, other=0.0)
    y = tl.maximum(before + (1.0 - total) * omega / n, 0.0)
    held = tl.load(anchor + r, mask=inside, other=0.0)
    tl.store(moved + r, n * (y - before) * (y - before), mask=inside)
    tl.store(image + r, y, mask=inside)
    tl.store(current + r, a * (2.0 * y - before) + (1.0 - a) * held, mask=inside)


def take_steps(
    columns: Any, rows: Any, v: Any, z: Any, settings: torch.Tensor
) -> tuple[float, float]:
    """Take as many steps as `settings` has entries after the first; update v and z in place.

    `settings` is the primal weight, and the weight of the new point in every step. Return the sums
    of n_j (v' - v)^2 and n_r (z' - z)^2 of the last step.
    """
    primal, dual = torch.zeros_like(v.current), torch.zeros_like(z.current)
    count, many = len(v.current), len(z.current)
    across, down = triton.cdiv(count, COLUMNS.value), triton.cdiv(many, ROWS.value)
    with torch.cuda.device_of(settings):
        for k in range(len(settings) - 1):
            step_columns[(across,)](*columns, z.current, *v, primal, settings, k, count)
            step_rows[(down,)](*rows, v.extrapolated, *z, dual, settings, k, many)
    return float(primal.sum()), float(dual.sum())
