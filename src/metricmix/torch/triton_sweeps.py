r"""The two expensive parts of the nearest metric on CUDA tensors, written in Triton.

The oracle: for every pair i, j the item k of the shortest detour,

.. math:: \operatorname{argmin}_{k \ne i, j}\; x_{ik} + x_{kj},

n³ / 2 additions and comparisons. And the sweeps over triangle constraints, class by class: the
constraints of a class share no pair, so that one launch updates them together. A sweep has up to
3 n launches of a few microseconds each; they are recorded once as a CUDA graph, and replayed.

Functions here take contiguous float32 or float64 tensors and check nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["RecordedSweeps", "detours"]

TILE: Any = tl.constexpr(64)
"""Rows, and columns, of one program of the oracle."""
UNROLL: Any = tl.constexpr(4)
"""Values of k per turn of its inner loop."""
CONSTRAINTS: Any = tl.constexpr(128)
"""Constraints of one program of a sweep."""


@triton.jit(do_not_specialize=["low", "high"])
def find_detours(x, lengths, items, low, high, n):
    """Store the shortest detours, and their items, for rows low .. high - 1 and columns below.

    `x` is symmetric with inf on its diagonal, and `n` a multiple of `UNROLL` (padded by inf).
    """
    i0, j0 = low + tl.program_id(0) * TILE, tl.program_id(1) * TILE
    if j0 < i0 + TILE:
        span = tl.arange(0, TILE)
        i, j = i0 + span, j0 + span
        a = x + tl.minimum(i, n - 1)
        b = x + tl.minimum(j, n - 1)
        shortest = tl.full((TILE, TILE), float("inf"), x.dtype.element_ty)
        item = tl.zeros((TILE, TILE), tl.int32)
        for start in range(0, n, UNROLL):
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


def detours(x: torch.Tensor, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the shortest detours for rows low .. high - 1, and their items; columns j < i only.

    `x` is (n, n), symmetric, with inf on its diagonal. Two (high - low, n) tensors, whose other
    columns are inf and 0.
    """
    n = len(x)
    padded = -(-n // UNROLL.value) * UNROLL.value
    if padded > n:
        x = torch.nn.functional.pad(x, (0, padded - n, 0, padded - n), value=torch.inf)
    lengths = x.new_full((high - low, padded), torch.inf)
    items = torch.zeros((high - low, padded), dtype=torch.int32, device=x.device)
    with torch.cuda.device_of(x):
        grid = triton.cdiv(high - low, TILE.value), triton.cdiv(padded, TILE.value)
        find_detours[grid](x, lengths, items, low, high, padded)
    return lengths[:, :n], items[:, :n]


@triton.jit(do_not_specialize=["start", "stop"])
def update_class(x, ij, ik, kj, dual, previous, inverse, beta, start, stop, WEIGHTED: tl.constexpr):
    """Maximise each dual of a class in turn; the class shares no pair."""
    t = start + tl.program_id(0).to(tl.int64) * CONSTRAINTS + tl.arange(0, CONSTRAINTS)
    inside = t < stop
    p = tl.load(ij + t, mask=inside, other=0)
    q = tl.load(ik + t, mask=inside, other=0)
    r = tl.load(kj + t, mask=inside, other=0)
    z = tl.load(dual + t, mask=inside, other=0.0)
    ahead = z + tl.load(beta) * (z - tl.load(previous + t, mask=inside, other=0.0))
    x_p = tl.load(x + p, mask=inside, other=0.0)
    x_q = tl.load(x + q, mask=inside, other=0.0)
    x_r = tl.load(x + r, mask=inside, other=0.0)
    violation = x_p - x_q - x_r
    if WEIGHTED:
        v_p = tl.load(inverse + p, mask=inside, other=1.0)
        v_q = tl.load(inverse + q, mask=inside, other=1.0)
        v_r = tl.load(inverse + r, mask=inside, other=1.0)
        c = tl.maximum(violation / (v_p + v_q + v_r), -ahead)
        tl.store(x + p, x_p - c * v_p, mask=inside)
        tl.store(x + q, x_q + c * v_q, mask=inside)
        tl.store(x + r, x_r + c * v_r, mask=inside)
    else:
        c = tl.maximum(violation / 3.0, -ahead)
        tl.store(x + p, x_p - c, mask=inside)
        tl.store(x + q, x_q + c, mask=inside)
        tl.store(x + r, x_r + c, mask=inside)
    tl.store(previous + t, z, mask=inside)
    tl.store(dual + t, ahead + c, mask=inside)


class RecordedSweeps:
    """Sweeps over the same constraints, recorded at first use.

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
        self.beta = x.new_zeros(1)
        arguments = (
            x,
            constraints.ij,
            constraints.ik,
            constraints.kj,
            constraints.dual,
            constraints.previous,
            x if inverse is None else inverse,
            self.beta,
        )
        self.held = arguments  # the graph reads and writes this memory
        with torch.cuda.device_of(x):
            # Compile before recording: a class without constraints changes nothing.
            update_class[(1,)](*arguments, 0, 0, inverse is not None)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for start, stop in constraints.classes:
                    grid = (triton.cdiv(stop - start, CONSTRAINTS.value),)
                    update_class[grid](*arguments, start, stop, inverse is not None)

    def __call__(self, beta: float) -> None:
        """Sweep once, with the momentum `beta` of the duals."""
        self.beta.fill_(beta)
        self.graph.replay()
