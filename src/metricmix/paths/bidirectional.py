r"""One shortest path between two items, searched from both ends.

Let :math:`\mu` be the length of the best way found so far, at first the edge itself; let
:math:`\rho_F, \rho_B` be the distances of the nearest open items on either side, and
:math:`\phi_v` a lower bound of the edges at v. Rows are mixed only for items that get settled.
A better way has an edge (x, y) of which neither side has seen anything, so it is at least
:math:`\rho_F + \phi + \rho_B` long: the search ends as soon as that reaches :math:`\mu`. Likewise
an item v reached from one side at distance x is worth opening only if
:math:`x + \min(d_{\text{other}}(v), \phi_v + \rho_{\text{other}}) < \mu`. So mostly nothing but
the two ends is ever settled, at a cost of O(R n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import floor_of, length_of, mix_row, tangent_of
from metricmix.paths.forest import CHUNK, forget, open_item, take_nearest
from metricmix.typing import Floats, Ints

__all__ = ["expand", "find_paths", "next_item", "start_pair", "trace_path"]


@kernel
def start_pair(
    i: int, j: int, edge: float, dist: Floats, key: Floats, least: Floats, pred: Ints, best: Floats
) -> None:
    """Open i on side 0 and j on side 1. `best` is (length of the best way, where it meets)."""
    for side in range(2):
        forget(dist[side], key[side], least[side], pred[side])
    open_item(i, 0.0, dist[0], key[0], least[0])
    open_item(j, 0.0, dist[1], key[1], least[1])
    best[0] = edge
    best[1] = -1.0  # the edge itself: the two sides need not meet


@kernel
def radius_of(least: Floats) -> float:
    """Return the distance of the nearest open item of one side."""
    smallest = np.inf
    for c in range(least.shape[0]):
        smallest = min(smallest, least[c])
    return smallest


@kernel
def next_item(key: Floats, least: Floats, floors: Floats, best: Floats) -> tuple[int, int]:
    """Close the nearest open item that may still matter; return its side and it, or (-1, -1)."""
    while True:
        forward, backward = radius_of(least[0]), radius_of(least[1])
        if forward + backward >= best[0]:
            return -1, -1
        side = 0 if forward <= backward else 1
        u = take_nearest(key[side], least[side])
        if forward + floors[side, u] + backward < best[0]:
            return side, u


@kernel
def expand(
    side: int,
    u: int,
    m: Floats,
    beta: float,
    link: int,
    floors: Floats,
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    best: Floats,
) -> None:
    """Relax the edges of u, just settled on `side`; m is its row (side 0) or column (side 1)."""
    n = dist.shape[1]
    mine, other = dist[side], dist[1 - side]
    du = mine[u]
    radius = radius_of(least[1 - side])
    shift, slope = tangent_of(beta, link)
    for c in range(least.shape[1]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        part, bound, beyond = m[low:high], mine[low:high], other[low:high]
        floor = floors[side, low:high]
        limit = best[0]
        hopes = 0
        for k in range(high - low):
            reached = du + floor_of(part[k], shift, slope)
            rest = radius + floor[k]
            rest = beyond[k] if beyond[k] < rest else rest
            hopes += 1 if (reached < bound[k]) & (reached + rest < limit) else 0
        if hopes == 0:
            continue
        for v in range(low, high):
            if v == u:
                continue
            reached = du + floor_of(m[v], shift, slope)
            rest = min(other[v], radius + floors[side, v])
            if reached >= mine[v] or reached + rest >= best[0]:
                continue
            reached = du + length_of(m[v], beta, link)
            if reached < mine[v] and reached + rest < best[0]:
                pred[side, v] = u
                open_item(v, reached, mine, key[side], least[side])
                if reached + other[v] < best[0]:
                    best[0] = reached + other[v]
                    best[1] = v


@kernel
def trace_path(i: int, j: int, pred: Ints, best: Floats, path: Ints) -> int:
    """Write the items on the path from i to j into `path`; return how many."""
    if best[1] < 0:
        path[0] = i
        path[1] = j
        return 2
    meet = int(best[1])
    count = 1
    v = meet
    while v != i:
        v = pred[0, v]
        count += 1
    at = count
    v = meet
    while True:  # the first half was counted; now it is written from its end
        at -= 1
        path[at] = v
        if v == i:
            break
        v = pred[0, v]
    v = meet
    while v != j:
        v = pred[1, v]
        path[count] = v
        count += 1
    return count


@kernel
def find_paths(
    block: NDArray[Any],
    weights: Floats,
    beta: float,
    link: int,
    directed: bool,
    floors: Floats,
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    m: Floats,
    path: Ints,
    lengths: Floats,
    indptr: NDArray[np.int64],
    touched: Ints,
) -> Ints:
    """Find the shortest path of every pair (i[p], j[p]); return all their items in one array.

    Path p is ``nodes[indptr[p]:indptr[p + 1]]``; `touched` counts the rows mixed for it.
    """
    best = np.empty(2)
    nodes = np.empty(4 * i.shape[0] + path.shape[0], np.int32)
    indptr[0] = 0
    for p in range(i.shape[0]):
        touched[p] = 0
        if i[p] == j[p]:
            path[0] = i[p]
            lengths[p] = 0.0
            count = 1
        else:
            edge = 0.0
            for r in range(block.shape[0]):
                edge += weights[r] * block[r, i[p], j[p]]
            edge = length_of(edge, beta, link)
            start_pair(i[p], j[p], edge, dist, key, least, pred, best)
            while True:
                side, u = next_item(key, least, floors, best)
                if side < 0:
                    break
                mix_row(block, weights, u, directed and side == 1, m)
                expand(side, u, m, beta, link, floors, dist, key, least, pred, best)
                touched[p] += 1
            lengths[p] = best[0]
            count = trace_path(i[p], j[p], pred, best, path)
        start = indptr[p]
        if start + count > nodes.shape[0]:
            larger = np.empty(2 * nodes.shape[0] + count, np.int32)
            for at in range(start):  # loops compile ten times faster than assignments to slices
                larger[at] = nodes[at]
            nodes = larger
        for at in range(count):
            nodes[start + at] = path[at]
        indptr[p + 1] = start + count
    return nodes[: indptr[i.shape[0]]]
