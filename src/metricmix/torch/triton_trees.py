r"""Shortest-path trees of CUDA tensors, and gradients along them, written in Triton.

With :math:`d` the closure of the lengths :math:`w`, the item before v on the path from s is

.. math:: p_s(v) = \operatorname{argmin}_u \{ d_{su} : u \ne v,\; d_{su} + w_{uv} \le d_{sv} \},

up to rounding: the root where its edge is a shortest path, and an item as far away as v (behind an
edge of length 0) only where no other precedes v. Of equally near ones the lowest number counts.
The derivative of :math:`\sum_{sv} g_{sv} d_{sv}` by the length :math:`w_{uv}` is the flow that the
trees send over the edge (u, v), if every root s sends :math:`g_{sv}` to every item v.

No result depends on the order in which threads run: every tree is one thread's, and so is every
column of the gradient.

Functions here take contiguous float32 or float64 tensors and check nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["predecessors", "tree_gradient"]

TILE: Any = tl.constexpr(64)
"""Roots, and items, of one program."""
THREADS: Any = tl.constexpr(32)
"""Trees, or columns, of one program: few, so that programs spread over the card."""


@triton.jit
def find_predecessors(from_root, w, d_lows, w_lows, roots, out, S, n, rounding):
    """Store the predecessor of every item in the tree of every root.

    `from_root` is (n, S), the distances; `w` has inf on its diagonal. `d_lows` and `w_lows` hold
    the smallest entry of every row of these over each tile, (tiles, n): an item u whose two do not
    add up to less than the largest distance of a tile precedes nothing in it.
    """
    span = tl.arange(0, TILE)
    s, v = tl.program_id(0) * TILE + span, tl.program_id(1) * TILE + span
    some_s, some_v = tl.minimum(s, S - 1), tl.minimum(v, n - 1)  # loads without masks
    bound = tl.load(from_root + some_v.to(tl.int64)[None, :] * S + some_s[:, None])
    bound = tl.where(bound < float("inf"), bound + bound * rounding, -1.0)  # -1: no path
    highest = tl.max(tl.max(bound, 1), 0)
    nearest = tl.full((TILE, TILE), float("inf"), w.dtype.element_ty)
    before = tl.full((TILE, TILE), -1, tl.int32)
    d_lows += tl.program_id(0).to(tl.int64) * n
    w_lows += tl.program_id(1).to(tl.int64) * n
    d_at, w_at = from_root + some_s, w + some_v
    for u in range(n):
        if tl.load(d_lows + u) + tl.load(w_lows + u) <= highest:
            d = tl.load(d_at)[:, None]
            better = (d + tl.load(w_at)[None, :] <= bound) & (d < nearest)
            nearest = tl.where(better, d, nearest)
            before = tl.where(better, u, before)
        d_at += S
        w_at += n
    before = tl.where(tl.load(roots + some_s)[:, None] == v[None, :], -1, before)
    inside = (s < S)[:, None] & (v < n)[None, :]
    tl.store(out + s.to(tl.int64)[:, None] * n + v[None, :], before, mask=inside)


def predecessors(
    d: torch.Tensor, w: torch.Tensor, roots: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the trees of the roots, (S, n) int32, and which of them are undefined, (S,) bool.

    -1 at the root itself and where there is no path. Undefined is a tree in which several edges of
    length 0 meet, so that the distances leave a cycle.
    """
    S, n = d.shape
    before = torch.empty((S, n), dtype=torch.int32, device=d.device)
    from_root = d.T.contiguous()
    without_loops = w.clone().fill_diagonal_(torch.inf)
    with torch.cuda.device_of(d):
        grid = triton.cdiv(S, TILE.value), triton.cdiv(n, TILE.value)
        # Units in the last place by which the sums along two ways of the same length may differ.
        units = 16
        find_predecessors[grid](
            from_root,
            without_loops,
            row_minima(from_root),
            row_minima(without_loops),
            roots.int(),
            before,
            S,
            n,
            units * torch.finfo(d.dtype).eps,
        )
    return before, (count_hops(before) < 0).any(dim=1)


def row_minima(matrix: torch.Tensor) -> torch.Tensor:
    """Return the smallest entry of every row over each `TILE` columns, (tiles, rows)."""
    parts = [part.amin(dim=1) for part in matrix.split(TILE.value, dim=1)]
    return torch.stack(parts)


def count_hops(before: torch.Tensor) -> torch.Tensor:
    """Return the number of edges from every item to its root, by doubling; -1 in a cycle."""
    S, n = before.shape
    counts = (before >= 0).int()
    itself = torch.arange(n, device=before.device)
    for some in torch.arange(S, device=before.device).split(max(1, 2**27 // n)):
        ancestor = torch.where(before[some] < 0, itself, before[some].long())
        count = counts[some]
        for _ in range(n.bit_length() + 1):
            further = count.gather(1, ancestor)
            if not bool(further.any()):
                break
            count += further
            ancestor = ancestor.gather(1, ancestor)
        counts[some] = torch.where(count.gather(1, ancestor) > 0, -1, count)
    return counts


@triton.jit
def push_flow(flow, before, order, S, n):
    """Add the flow of every item to that of its predecessor, in the given order of items.

    All are (n, S): the threads of a program, one a root, read neighbouring numbers.
    """
    s = tl.program_id(0) * THREADS + tl.arange(0, THREADS)
    inside = s < S
    order += s
    for _ in range(n):
        v = tl.load(order, mask=inside, other=0).to(tl.int64)
        order += S
        u = tl.load(before + v * S + s, mask=inside, other=-1).to(tl.int64)
        carried = tl.load(flow + v * S + s, mask=inside, other=0.0)
        further = inside & (u >= 0)
        at = flow + u * S + s
        tl.store(at, tl.load(at, mask=further, other=0.0) + carried, mask=further)


@triton.jit
def gather_flow(flow, before, out, S, n):
    """Add up the flow of all trees on every edge; `flow` and `before` are (S, n)."""
    v = tl.program_id(0) * THREADS + tl.arange(0, THREADS)
    inside = v < n
    before += v
    flow += v
    for _ in range(S):
        u = tl.load(before, mask=inside, other=-1).to(tl.int64)
        carried = tl.load(flow, mask=inside, other=0.0)
        before += n
        flow += n
        on_edge = inside & (u >= 0)
        at = out + u * n + v
        tl.store(at, tl.load(at, mask=on_edge, other=0.0) + carried, mask=on_edge)


def tree_gradient(grad: torch.Tensor, pred: torch.Tensor, roots: torch.Tensor) -> torch.Tensor:
    """Return the gradient by the (n, n) lengths: the flow of all trees on each edge.

    `grad` (S, n) is the gradient by the distances. Cost O(S n log n), memory O(n² + S n).
    """
    S, n = grad.shape
    order = torch.argsort(count_hops(pred), dim=1, descending=True).int().T.contiguous()
    flow = grad.T.contiguous()
    out = grad.new_zeros((n, n))
    with torch.cuda.device_of(grad):
        push_flow[(triton.cdiv(S, THREADS.value),)](
            flow, pred.T.contiguous(), order, S, n, num_warps=1
        )
        gather_flow[(triton.cdiv(n, THREADS.value),)](
            flow.T.contiguous(), pred, out, S, n, num_warps=1
        )
    return out
