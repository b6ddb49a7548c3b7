r"""Shortest-path trees read off a closure.

Once all distances d are known, the last edge (k, j) of a shortest path from i to j is one with
:math:`d_{ik} + w_{kj} = d_{ij}`. On learned metrics the edge (i, j) itself is that for all but a
few per cent of the pairs, so only these few are searched: the trees cost little more than the
closure.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.frontier import CHUNK

__all__ = ["any_tight", "push_flow", "tight_tree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@kernel
def tight_tree(i: int, d: Floats, w_into: Floats, tol: float, pred: Ints) -> bool:
    """Fill pred with the tree of root i; return False if zero-length edges leave it in doubt.

    d is row i of the distances; w_into[j] is the row of edge lengths *into* j (w itself when
    symmetric, its transpose otherwise). The predecessor must be strictly nearer than j, so that
    following predecessors always ends at i; the edge (i, j) wins ties, then the lowest number.
    Lengths that differ by the share `tol` count as equal.
    """
    n = d.shape[0]
    sound = True
    for j in range(n):
        pred[j] = i
        if w_into[j, i] <= d[j]:
            continue
        row = w_into[j]
        before = -1
        for low in range(0, n, CHUNK):
            high = min(low + CHUNK, n)
            if any_tight(d[low:high], row[low:high], d[j], tol):
                before = low
                while not (d[before] < d[j] and d[before] + row[before] <= d[j] * (1.0 + tol)):
                    before += 1
                break
        pred[j] = before
        if before < 0:
            sound = False
    pred[i] = -1
    return sound


@kernel
def any_tight(d: Floats, row: Floats, length: float, tol: float) -> bool:
    """Return whether any item of a chunk is on a way of that length; vectorised."""
    found = 0
    bound = length * (1.0 + tol)
    for k in range(d.shape[0]):
        found += 1 if (d[k] < length) & (d[k] + row[k] <= bound) else 0
    return found > 0


@kernel
def push_flow(root: int, pred: Ints, flow: Floats) -> None:
    """Turn demands at the items into flow on the edges (pred[j], j) of the tree of `root`.

    The flow of an item is added to that of its predecessor once all flows behind it are in. (The
    order of distances would not do: with edges of length 0, a predecessor is no nearer.)
    """
    n = pred.shape[0]
    waiting = np.zeros(n, np.int32)
    for j in range(n):
        if pred[j] >= 0:
            waiting[pred[j]] += 1
    for leaf in range(n):
        j = leaf
        while waiting[j] == 0 and pred[j] >= 0:
            waiting[j] = -1  # done
            before = pred[j]
            waiting[before] -= 1
            if before == root:
                break
            flow[before] += flow[j]
            j = before
    flow[root] = 0.0
