"""The kernels for CPU tensors: the compiled loops of metricmix, on the memory of the tensor.

This is the interface that every device has. Arguments are contiguous tensors of one type (float32
or float64) on the device, and valid; nothing is checked.

- ``close_in_place(D, symmetric)``: D (n, n) becomes its shortest-path closure;
- ``min_plus(A, B)``: the (M, T) product of A (M, n) and B (n, T);
- ``lower_rows(d, w)``: one round of Bellman and Ford, d (S, n) becomes min(d, d ⊗ w);
- ``violations(D, directed, tolerance)``: the largest excess of D (n, n) over a detour, the pair
  i, j (-1 if there is none), and the number of pairs beyond the tolerance. Pairs i > j only unless
  `directed`; the diagonal of D is 0;
- ``predecessors(d, w, roots)``: the (S, n) int32 items before each on the shortest paths from
  `roots`, for distances d (S, n) and lengths w (n, n); -1 at roots and where there is no path. The
  predecessor is strictly nearer to the root; the edge from the root wins ties. The second result is
  the (S,) bool tensor of the roots whose tree zero-length edges leave undefined;
- ``tree_gradient(grad, pred, roots)``: the (n, n) sum over trees of the flow on each edge that
  carries `grad` (S, n) from the roots to the items, added up in a fixed order;
- ``detours(x, low, high)``: for the pairs of the rows low .. high - 1 the shortest detours over a
  third item, and these items, two (high - low, n) tensors; x is symmetric with inf on its diagonal,
  and only columns j < i count;
- ``sweeps(x, constraints, inverse)``: a function of the momentum beta that sweeps once over the
  triangle constraints of :mod:`metricmix.torch.nearest_metric`, updating x and the duals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.minplus import lower_by_product, pack_panels
from metricmix.kernels.minplus import min_plus as product_of
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.kernels.triangles import ROW_BLOCK, worst_triangles
from metricmix.paths import floyd_warshall
from metricmix.paths.trees import find_predecessors, push_flow
from metricmix.typing import AnyArray, Indices, Ints

__all__ = [
    "add_flow",
    "close_in_place",
    "count_tight",
    "detours",
    "fill_tight",
    "grow_by_tight",
    "lower_rows",
    "min_plus",
    "predecessors",
    "sweeps",
    "tree_gradient",
    "violations",
]

SHARES = 16
"""Parts of the roots, one per task of a thread."""


def close_in_place(D: torch.Tensor, symmetric: bool) -> None:
    """Replace lengths by their shortest-path closure; only entries i >= j are read if symmetric."""
    floyd_warshall.close_in_place(D.numpy(), symmetric=symmetric)


def min_plus(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Return the min-plus product."""
    return torch.from_numpy(product_of(A.numpy(), B.numpy()))


def lower_rows(d: torch.Tensor, w: torch.Tensor) -> None:
    """Replace d by the minimum of d and its min-plus product with w."""
    lower_by_product(d.numpy(), d.numpy().copy(), pack_panels(w.numpy()), None)


def violations(D: torch.Tensor, directed: bool, tolerance: float) -> tuple[float, int, int, int]:
    """Return the largest violation of a triangle inequality, its pair, and how many there are."""
    matrix, n = D.numpy(), len(D)
    rows = [(low, min(low + ROW_BLOCK, n)) for low in range(0, n, ROW_BLOCK)][::-1]
    found = in_threads(lambda r: worst_triangles(matrix, *r, not directed, tolerance), rows, None)
    worst, i, j, _ = max(found[::-1], key=lambda part: part[0])  # of equal ones the first
    count = sum(part[3] for part in found)
    return (worst, i, j, count) if worst > 0 else (0.0, -1, -1, count)


def predecessors(
    d: torch.Tensor, w: torch.Tensor, roots: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the trees of the roots, and which of them zero-length edges leave undefined.

    With the distances of all pairs, only tight edges, as long as the distance of their ends, are
    looked at: no other one is on a shortest path.
    """
    distances, lengths, chosen = d.numpy(), w.numpy(), roots.numpy()
    n = len(lengths)
    symmetric = torch.equal(w, w.T)
    into = lengths if symmetric else np.ascontiguousarray(lengths.T)
    units = 4096  # units in the last place by which two path lengths that count as equal may differ
    tolerance = lengths.dtype.type(units * float(np.finfo(lengths.dtype).eps))
    pred = np.empty(distances.shape, np.int32)
    threads = threads_for(n)
    all_pairs_known = len(chosen) == n and np.array_equal(chosen, np.arange(n))
    if all_pairs_known:
        between = distances if symmetric else np.ascontiguousarray(distances.T)
        indptr = np.zeros(n + 1, np.int64)
        count_tight(into, between, tolerance, indptr)
        np.cumsum(indptr, out=indptr)
        starts, edges = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], lengths.dtype)
        fill_tight(into, between, tolerance, indptr, starts, edges)

    def grow(s: int) -> bool:
        i, row = int(chosen[s]), distances[s]
        if all_pairs_known and grow_by_tight(
            i, row, lengths[i], indptr, starts, edges, tolerance, pred[s]
        ):
            return True
        return bool(find_predecessors(i, row, into, tolerance, pred[s]))

    shares = np.array_split(np.arange(len(chosen)), SHARES)
    found = in_threads(lambda share: [grow(s) for s in share], shares, threads)
    complete = torch.tensor([one for share in found for one in share], dtype=torch.bool)
    return torch.from_numpy(pred), ~complete


def tree_gradient(grad: torch.Tensor, pred: torch.Tensor, roots: torch.Tensor) -> torch.Tensor:
    """Return the gradient by the lengths of the edges: the flow of all trees on each."""
    flow, trees, chosen = grad.numpy().copy(), pred.numpy(), roots.numpy()
    n = flow.shape[1]
    out = np.zeros((n, n), flow.dtype)
    threads = threads_for(n)

    def push(share: Indices) -> None:
        for s in share:
            push_flow(int(chosen[s]), trees[s], flow[s])

    in_threads(push, np.array_split(np.arange(len(chosen)), SHARES), threads)
    columns = 256  # columns of the gradient per task of a thread
    in_threads(
        lambda low: add_flow(trees, flow, low, min(low + columns, n), out),
        range(0, n, columns),
        threads,
    )
    return torch.from_numpy(out)


@kernel
def count_tight(into: AnyArray, between: AnyArray, tolerance: float, indptr: Indices) -> None:
    """Count, for every item j, the edges into it that are as short as the distance, at j + 1."""
    n = into.shape[0]
    for j in range(n):
        edges, shortest = into[j], between[j]
        count = 0
        for u in range(n):
            tight = edges[u] <= shortest[u] * (1 + tolerance)
            count += 1 if tight & (edges[u] < np.inf) else 0
        indptr[j + 1] = count


@kernel
def fill_tight(
    into: AnyArray,
    between: AnyArray,
    tolerance: float,
    indptr: Indices,
    starts: Ints,
    lengths: AnyArray,
) -> None:
    """Fill in where these edges start, and their lengths."""
    n = into.shape[0]
    for j in range(n):
        edges, shortest, at = into[j], between[j], indptr[j]
        for u in range(n):
            if edges[u] <= shortest[u] * (1 + tolerance) and edges[u] < np.inf:
                starts[at], lengths[at] = u, edges[u]
                at += 1


@kernel
def grow_by_tight(
    i: int,
    d: AnyArray,
    direct: AnyArray,
    indptr: Indices,
    starts: Ints,
    lengths: AnyArray,
    tolerance: float,
    pred: Ints,
) -> bool:
    """Fill pred with the tree of root i, as find_predecessors does; False if it is incomplete.

    `direct` are the lengths of the edges from i.
    """
    for j in range(d.shape[0]):
        pred[j] = i if d[j] < np.inf else -1
        if direct[j] <= d[j]:
            continue
        before, bound = -1, d[j] * (1 + tolerance)
        for e in range(indptr[j], indptr[j + 1]):
            if d[starts[e]] < d[j] and d[starts[e]] + lengths[e] <= bound:
                before = starts[e]
                break
        if before < 0 and d[j] < np.inf:
            return False
        pred[j] = before
    pred[i] = -1
    return True


@kernel
def add_flow(trees: Ints, flow: AnyArray, low: int, high: int, out: AnyArray) -> None:
    """Add the flow on the tree edges into the items low .. high - 1, one tree after the other."""
    for s in range(trees.shape[0]):
        pred, part = trees[s], flow[s]
        for j in range(low, high):
            if pred[j] >= 0:
                out[pred[j], j] += part[j]


def detours(
    x: torch.Tensor, low: int, high: int, part: int = 0, parts: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the shortest detours for the rows low .. high - 1, and their items.

    They pass through one of `parts` parts of the items.
    """
    n = len(x)
    first, last = n * part // parts, n * (part + 1) // parts
    lengths = torch.empty(high - low, n, dtype=x.dtype)
    items = torch.empty(high - low, n, dtype=torch.int64)
    through = x[:, first:last].contiguous()
    sums_at_once = 1 << 27  # path lengths that are compared together
    rows = max(1, sums_at_once // (n * (last - first)))
    for start in range(low, high, rows):
        stop = min(start + rows, high)
        at = slice(start - low, stop - low)
        sums = through[start:stop, None, :] + through  # over k in the last axis
        torch.min(sums, dim=2, out=(lengths[at], items[at]))
        check_time()
    return lengths, items.add_(first)


def sweeps(
    x: torch.Tensor, constraints: Any, inverse: torch.Tensor | None
) -> Callable[[float], None]:
    """Return the function that sweeps once over the constraints, class by class."""
    _, ij, ik, kj, dual, previous, _ = constraints

    def sweep(beta: float) -> None:
        for start, stop in constraints.classes:
            p, q, r = ij[start:stop], ik[start:stop], kj[start:stop]
            z = dual[start:stop]
            ahead = torch.lerp(previous[start:stop], z, 1.0 + beta)
            previous[start:stop] = z
            violation = x[p] - x[q] - x[r]
            if inverse is None:
                c = torch.maximum(violation / 3.0, -ahead)
                x[p] -= c
                x[q] += c
                x[r] += c
            else:
                a, b, d = inverse[p], inverse[q], inverse[r]
                c = torch.maximum(violation / (a + b + d), -ahead)
                x[p] -= c * a
                x[q] += c * b
                x[r] += c * d
            torch.add(ahead, c, out=z)

    return sweep
