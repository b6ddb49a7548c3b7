r"""Cycles that a fractional cut breaks, by shortest paths in the doubled graph.

A cut crosses every cycle an even number of times: for a cycle C and an odd number of its edges F,

.. math:: \sum_{e \in C \setminus F} x_e + \sum_{e \in F} (1 - x_e) \ge 1

Every item stands twice in the doubled graph, once for each side. An edge of length :math:`x_e`
joins items on the same side, and one of length :math:`1 - x_e` items on different ones. A path from
an item to itself on the other side crosses an odd number of times, so that none may be shorter
than 1; with the edge e = (i, j) as its last one, a path from i to j on the same side may not be
shorter than :math:`x_e`, and one to j on the other side not shorter than :math:`1 - x_e`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.relaxations.short_paths import mixed
from metricmix.typing import Floats, Indices, Ints, Keys

__all__ = ["find_odd_cycles"]


@kernel
def find_odd_cycles(
    low: int,
    high: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    hop: float,
    tolerance: float,
) -> tuple[Ints, Ints, Keys, float]:
    """Return broken cycles through the edges (i, j), low <= i < high and j < i.

    Every edge looks longer by `hop`, so that of cycles about as short those of few edges are found.

    Returns
    -------
    counts, terms : (T,) and (sum of counts,) arrays
        The edges of every cycle that is too short by more than the tolerance: e for a term
        :math:`x_e`, ``~e`` for :math:`1 - x_e`.
    keys : (T,) array
        A number that tells cycles apart.
    worst : float
        The most by which a cycle is too short; of those found, if there is a `hop`.
    """
    n = starts.shape[0] - 1
    dist, place = np.full(2 * n, np.inf), np.full(2 * n, -1, np.int32)
    length = np.empty(2 * n)
    heap, touched = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
    before, by = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
    position, walk = np.full(n, -1, np.int32), np.empty(2 * n + 1, np.int32)
    counts, keys, terms = (
        np.empty(256, np.int32),
        np.empty(256, np.uint64),
        np.empty(1024, np.int32),
    )
    found, used, worst = 0, 0, 0.0
    for i in range(low, high):
        radius = 0.0
        for t in range(starts[i], starts[i + 1]):
            if ends[t] < i:
                radius = max(radius, x[edges[t]], 1.0 - x[edges[t]])
        seen = _search(
            *(i, starts, ends, edges, x, hop, radius),
            *(dist, length, heap, place, before, by, touched),
        )
        for t in range(starts[i], starts[i + 1]):
            j, e = ends[t], edges[t]
            if j > i:
                continue
            for side in range(2):
                last = e if side == 1 else ~e  # the path ends on the same side, or the other one
                if dist[2 * j + side] == np.inf:
                    continue
                excess = (1.0 - x[e] if side == 1 else x[e]) - length[2 * j + side]
                worst = max(worst, excess)
                if excess <= tolerance:
                    continue
                size = _cycle(i, 2 * j + side, last, before, by, position, walk)
                if found == counts.shape[0]:
                    counts, keys = _larger(counts), _larger(keys)
                while used + size > terms.shape[0]:
                    terms = _larger(terms)
                key = np.uint64(0)
                for k in range(size):
                    terms[used] = walk[k]
                    key += mixed(walk[k])
                    used += 1
                counts[found], keys[found] = size, key
                found += 1
        for t in range(seen):
            dist[touched[t]] = np.inf
    return counts[:found], terms[:used], keys[:found], worst


@kernel
def _search(
    i: int,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    hop: float,
    radius: float,
    dist: Floats,
    length: Floats,
    heap: Ints,
    place: Ints,
    before: Ints,
    by: Ints,
    touched: Ints,
) -> int:
    """Search the doubled graph from i on side 0, no farther than the radius.

    Item v on side s is 2 v + s; `by` gets e for a step of length x, ``~e`` for one of 1 - x, and
    `length` what `dist` is without hops. Return how many were `touched`, for which `dist` must be
    cleaned up.
    """
    dist[2 * i], length[2 * i], touched[0] = 0.0, 0.0, 2 * i
    size, seen = lift(2 * i, 0, heap, place, dist), 1
    while size > 0:
        u: int = take_first(size, heap, place, dist)
        size -= 1
        for t in range(starts[u // 2], starts[u // 2 + 1]):
            e = edges[t]
            for across in range(2):
                v = 2 * ends[t] + (u % 2 ^ across)
                further = 1.0 - x[e] if across == 1 else x[e]
                reached = dist[u] + further + hop
                if reached < dist[v] and reached < radius:
                    if dist[v] == np.inf:
                        touched[seen] = v
                        seen += 1
                    dist[v], length[v] = reached, length[u] + further
                    before[v], by[v] = u, ~e if across == 1 else e
                    size = lift(v, size, heap, place, dist)
    return seen


@kernel
def _cycle(i: int, end: int, last: int, before: Ints, by: Ints, position: Ints, walk: Ints) -> int:
    """Write the cycle of a path from i and a last edge; return how many edges it has.

    Where the path meets an item twice, on both sides, what lies between is a cycle that is shorter
    still; that of the first such item is taken.
    """
    size, u = 0, end
    while True:
        item = u // 2
        if position[item] >= 0:
            first = position[item]
            for k in range(first, size):
                walk[k - first] = walk[k]
            size -= first
            break
        position[item] = size
        if u == 2 * i:
            walk[size] = last
            size += 1
            break
        walk[size] = by[u]
        size += 1
        u = before[u]
    v = end
    while v != 2 * i:
        position[v // 2] = -1
        v = before[v]
    position[i] = -1
    return size


@kernel
def _larger(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy with room for twice as much."""
    more = np.empty(2 * array.shape[0], array.dtype)
    more[: array.shape[0]] = array
    return more
