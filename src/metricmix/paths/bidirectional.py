r"""Dijkstra's algorithm from both ends of a pair, on a complete graph with rows mixed on demand.

.. math:: d_{ij} = \min_{\gamma : i \to j} \sum_{(u,v) \in \gamma} w_{uv}

Let :math:`\mu` be
the length of the best path found so far, at first the edge itself; let :math:`\rho_F, \rho_B` be
the distances of the nearest open items of the two sides, and :math:`\phi_v` a lower bound of the
edges at v. A better path has an edge (x, y) of which neither end is settled, so it is at least
:math:`\rho_F + \phi + \rho_B` long: the search ends as soon as that reaches :math:`\mu`. Likewise
an item v reached from one side at distance x is worth opening only if
:math:`x + \min(d_{\text{other}}(v), \phi_v + \rho_{\text{other}}) < \mu`.

A row of the sources is mixed only when its item is settled: usually little more than the two ends,
so that a pair costs O(R n), not O(R n²).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, mix_row, tangent_of
from metricmix.paths.dijkstra import CHUNK, open_item, pop_nearest, reset
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "BidirectionalState",
    "expand",
    "find_paths",
    "next_item",
    "radius_of",
    "start_pair",
    "trace_path",
]


class BidirectionalState(NamedTuple):
    """The arrays of a search from both ends: row 0 from the start, row 1 from the end.

    Attributes
    ----------
    dist, key, chunk_min, pred : arrays with two rows
        As in :class:`~metricmix.paths.dijkstra.SearchState`.
    best : (2,) array
        Length of the best path so far, and the item where its halves meet (-1: it is the edge).
    path : (n + 1,) array
        Items of the path found.
    """

    dist: Floats
    key: Floats
    chunk_min: Floats
    pred: Ints
    best: Floats
    path: Ints

    @classmethod
    def empty(cls, n: int) -> BidirectionalState:
        """Return uninitialised arrays for n items."""
        return cls(
            np.empty((2, n)),
            np.empty((2, n)),
            np.empty((2, -(-n // CHUNK))),
            np.empty((2, n), np.int32),
            np.empty(2),
            np.empty(n + 1, np.int32),
        )


@kernel_step
def start_pair(i: int, j: int, edge: float, state: BidirectionalState) -> None:
    """Open i on side 0 and j on side 1; the best path so far is their edge."""
    dist, key, chunk_min, pred = state.dist, state.key, state.chunk_min, state.pred
    for side in range(2):
        reset(dist[side], key[side], chunk_min[side], pred[side])
    open_item(i, 0.0, dist[0], key[0], chunk_min[0])
    open_item(j, 0.0, dist[1], key[1], chunk_min[1])
    state.best[0] = edge
    state.best[1] = -1.0


@kernel_step
def radius_of(chunk_min: Floats) -> float:
    """Return the distance of the nearest open item of one side."""
    smallest = np.inf
    for c in range(chunk_min.shape[0]):
        smallest = min(smallest, chunk_min[c])
    return smallest


@kernel_step
def next_item(floors: Floats, state: BidirectionalState) -> tuple[int, int]:
    """Close the nearest open item on a possibly shorter path; return (side, item), or (-1, -1)."""
    key, chunk_min = state.key, state.chunk_min
    while True:
        forward, backward = radius_of(chunk_min[0]), radius_of(chunk_min[1])
        if forward + backward >= state.best[0]:
            return -1, -1
        side = 0 if forward <= backward else 1
        u = pop_nearest(key[side], chunk_min[side])
        if forward + floors[side, u] + backward < state.best[0]:
            return side, u


@kernel_step
def expand(
    side: int,
    u: int,
    m: Floats,
    beta: float,
    link: int,
    floors: Floats,
    state: BidirectionalState,
) -> None:
    """Relax the edges of u, just settled on `side`; m is its row (side 0) or column (side 1)."""
    dist, key, chunk_min, best = state.dist, state.key, state.chunk_min, state.best
    n = dist.shape[1]
    mine, other = dist[side], dist[1 - side]
    du = mine[u]
    radius = radius_of(chunk_min[1 - side])
    shift, slope = tangent_of(beta, link)
    for c in range(chunk_min.shape[1]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        part, bound, beyond = m[low:high], mine[low:high], other[low:high]
        floor = floors[side, low:high]
        limit = best[0]
        promising = 0
        for k in range(high - low):
            reached = du + floor_of(part[k], shift, slope)
            rest = radius + floor[k]
            rest = beyond[k] if beyond[k] < rest else rest
            promising += 1 if (reached < bound[k]) & (reached + rest < limit) else 0
        if promising == 0:
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
                state.pred[side, v] = u
                open_item(v, reached, mine, key[side], chunk_min[side])
                if reached + other[v] < best[0]:
                    best[0] = reached + other[v]
                    best[1] = v


@kernel_step
def trace_path(i: int, j: int, state: BidirectionalState) -> int:
    """Write the items on the path from i to j into `state.path`; return how many."""
    pred, best, path = state.pred, state.best, state.path
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
    sources: DenseLengths,
    directed: bool,
    floors: Floats,
    i: Indices,
    j: Indices,
    state: BidirectionalState,
    lengths: Floats,
    indptr: Indices,
    touched: Ints,
) -> Ints:
    """Find the shortest path of every pair (i[p], j[p]); return all their items in one array.

    Path p is ``nodes[indptr[p]:indptr[p + 1]]``, of length ``lengths[p]``; `touched` counts the
    rows mixed for it.
    """
    block, weights, beta, link = sources.block, sources.weights, sources.beta, sources.link
    path = state.path
    m = np.empty(path.shape[0] - 1)
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
            start_pair(i[p], j[p], edge, state)
            while True:
                side, u = next_item(floors, state)
                if side < 0:
                    break
                mix_row(block, weights, u, directed and side == 1, m)
                expand(side, u, m, beta, link, floors, state)
                touched[p] += 1
            lengths[p] = state.best[0]
            count = trace_path(i[p], j[p], state)
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
