r"""The two expensive parts of the nearest metric on CUDA tensors, written in Triton.

The oracle: for every pair i, j the item k of the shortest detour through some of the items,

.. math:: \operatorname{argmin}_{k \ne i, j}\; x_{ik} + x_{kj},

n³ / 2 additions and comparisons over all of them. And the sweeps over triangle constraints, class
by class: the constraints of a class share no pair, and are updated together. A sweep has up to 3 n
classes of a few microseconds each, too short for a launch of their own: one launch does them all,
and its programs wait for one another between classes, while the constraints of the next are on
their way.

Functions here take contiguous float32 or float64 tensors and check nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["Sweeps", "detours"]

TILE: Any = tl.constexpr(64)
"""Rows, and columns, of one program of the oracle."""
UNROLL: Any = tl.constexpr(4)
"""Values of k per turn of its inner loop."""
CONSTRAINTS: Any = tl.constexpr(256)
"""Constraints that one program of a sweep updates together."""


@triton.jit(do_not_specialize=["low", "high", "first", "last"])
def find_detours(x, lengths, items, low, high, first, last, n):
    """Store the shortest detours, and their items, for rows low .. high - 1 and columns below.

    `x` is symmetric with inf on its diagonal; detours pass through the items first .. last - 1, a
    multiple of `UNROLL`. `n` is one too (padded by inf).
    """
    i0, j0 = low + tl.program_id(0) * TILE, tl.program_id(1) * TILE
    if j0 < i0 + TILE:
        span = tl.arange(0, TILE)
        i, j = i0 + span, j0 + span
        before = first.to(tl.int64) * n
        a = x + before + tl.minimum(i, n - 1)
        b = x + before + tl.minimum(j, n - 1)
        shortest = tl.full((TILE, TILE), float("inf"), x.dtype.element_ty)
        item = tl.zeros((TILE, TILE), tl.int32)
        for start in range(first, last, UNROLL):
            for k in tl.static_range(UNROLL):
                detour = tl.load(a)[:, None] + tl.load(b)[None, :]
                shorter = detour < shortest
                shortest = tl.where(shorter, detour, shortest)
                item = tl.where(shorter, start + k, item)
                a += n
                b += n
        at = (i - low).to(tl.int64)[:, None] * n + j[None, :]
        inside = (i < high)[:, None] & (j < n)[None, :]
        tl.store(lengths + at, shortest, mask=inside)
        tl.store(items + at, item, mask=inside)


def detours(
    x: torch.Tensor, low: int, high: int, part: int = 0, parts: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the shortest detours for rows low .. high - 1, and their items; columns j < i only.

    `x` is (n, n), symmetric, with inf on its diagonal. Detours pass through one of `parts` parts
    of the items. Two (high - low, n) tensors, whose other columns are inf and 0.
    """
    n = len(x)
    unroll = UNROLL.value
    padded = -(-n // unroll) * unroll
    if padded > n:
        x = torch.nn.functional.pad(x, (0, padded - n, 0, padded - n), value=torch.inf)
    lengths = x.new_full((high - low, padded), torch.inf)
    items = torch.zeros((high - low, padded), dtype=torch.int32, device=x.device)
    first, last = (unroll * (padded // unroll * p // parts) for p in (part, part + 1))
    with torch.cuda.device_of(x):
        grid = triton.cdiv(high - low, TILE.value), triton.cdiv(padded, TILE.value)
        find_detours[grid](x, lengths, items, low, high, first, last, padded)
    return lengths[:, :n], items[:, :n]


@triton.jit
def update(
    x, dual, previous, inverse, t, inside, p, q, r, z, z_before, beta, WEIGHTED: tl.constexpr
):
    """Maximise the duals of the constraints t; their pairs p, q, r are all different.

    Entries of x are read from the second cache, where the other programs write them.
    """
    ahead = z + beta * (z - z_before)
    x_p = tl.load(x + p, mask=inside, other=0.0, cache_modifier=".cg")
    x_q = tl.load(x + q, mask=inside, other=0.0, cache_modifier=".cg")
    x_r = tl.load(x + r, mask=inside, other=0.0, cache_modifier=".cg")
    violation = x_p - x_q - x_r
    if WEIGHTED:
        v_p = tl.load(inverse + p, mask=inside, other=1.0)
        v_q = tl.load(inverse + q, mask=inside, other=1.0)
        v_r = tl.load(inverse + r, mask=inside, other=1.0)
        change = tl.maximum(violation / (v_p + v_q + v_r), -ahead)
        tl.store(x + p, x_p - change * v_p, mask=inside)
        tl.store(x + q, x_q + change * v_q, mask=inside)
        tl.store(x + r, x_r + change * v_r, mask=inside)
    else:
        change = tl.maximum(violation / 3.0, -ahead)
        tl.store(x + p, x_p - change, mask=inside)
        tl.store(x + q, x_q + change, mask=inside)
        tl.store(x + r, x_r + change, mask=inside)
    tl.store(previous + t, z, mask=inside)
    tl.store(dual + t, ahead + change, mask=inside)


@triton.jit
def read(ij, ik, kj, dual, previous, t, inside):
    """Return the three pairs of each constraint, its dual, and its dual one sweep before."""
    p = tl.load(ij + t, mask=inside, other=0)
    q = tl.load(ik + t, mask=inside, other=0)
    r = tl.load(kj + t, mask=inside, other=0)
    z = tl.load(dual + t, mask=inside, other=0.0)
    z_before = tl.load(previous + t, mask=inside, other=0.0)
    return p, q, r, z, z_before


@triton.jit
def sweep_classes(
    x,
    ij,
    ik,
    kj,
    dual,
    previous,
    inverse,
    starts,
    classes,
    arrived,
    beta,
    WEIGHTED: tl.constexpr,
):
    """Maximise each dual in turn, class by class; the constraints of a class share no pair.

    All programs run at once, and wait for one another after every class: `arrived` counts them.
    `starts` has the end of the last class twice: constraints are read one class ahead.
    """
    step = tl.num_programs(0) * CONSTRAINTS
    span = tl.program_id(0) * CONSTRAINTS + tl.arange(0, CONSTRAINTS)
    momentum = tl.load(beta)
    awaited = 0
    start = tl.load(starts)
    stop = tl.load(starts + 1)
    t = start + span
    inside = t < stop
    p, q, r, z, z_before = read(ij, ik, kj, dual, previous, t, inside)
    for c in range(classes):
        update(x, dual, previous, inverse, t, inside, p, q, r, z, z_before, momentum, WEIGHTED)
        for first in range(start + step, stop, step):
            t = first + span
            inside = t < stop
            p, q, r, z, z_before = read(ij, ik, kj, dual, previous, t, inside)
            update(x, dual, previous, inverse, t, inside, p, q, r, z, z_before, momentum, WEIGHTED)
        start = stop
        stop = tl.load(starts + c + 2)
        t = start + span
        inside = t < stop
        p, q, r, z, z_before = read(ij, ik, kj, dual, previous, t, inside)
        tl.debug_barrier()
        awaited += tl.num_programs(0)
        tl.atomic_add(arrived, 1, sem="release")
        while tl.atomic_add(arrived, 0, sem="acquire") < awaited:
            pass
        tl.debug_barrier()


class Sweeps:
    """Sweeps over the same constraints; each is one launch.

    Parameters
    ----------
    x : (n²,) tensor
        The primal point, updated in place, as are the duals.
    constraints : Constraints
        Of :mod:`metricmix.torch.nearest_metric`, sorted by class.
    inverse : (n²,) tensor or None
        1 / w; None if all weights are 1.
    """

    def __init__(self, x: torch.Tensor, constraints: Any, inverse: torch.Tensor | None) -> None:
        starts = torch.tensor([*constraints.starts, constraints.starts[-1]], dtype=torch.int32)
        largest = int(torch.diff(starts).max())
        # No more programs than processors: those that wait must not keep others from running.
        processors = torch.cuda.get_device_properties(x.device).multi_processor_count
        self.programs = max(1, min(processors, triton.cdiv(largest, CONSTRAINTS.value)))
        self.arguments = (
            x,
            constraints.ij,
            constraints.ik,
            constraints.kj,
            constraints.dual,
            constraints.previous,
            x if inverse is None else inverse,
            starts.to(x.device),
            len(starts) - 2,
        )
        self.arrived = torch.zeros(1, dtype=torch.int32, device=x.device)
        self.beta = x.new_zeros(1)  # a tensor: a number would be passed in single precision
        self.weighted = inverse is not None

    def __call__(self, beta: float) -> None:
        """Sweep once, with the momentum `beta` of the duals."""
        self.arrived.zero_()
        self.beta.fill_(beta)
        with torch.cuda.device_of(self.arrived):
            sweep_classes[(self.programs,)](
                *self.arguments, self.arrived, self.beta, self.weighted, num_warps=8
            )
