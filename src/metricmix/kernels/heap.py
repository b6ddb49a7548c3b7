r"""Dijkstra's algorithm with a heap, over graphs of any kind, in the part of the graph it reaches.

.. math:: d(v) = \min_u \; d(u) + w_{uv}

A search holds its open items in a heap, each at most once, and settles the nearest: its distance is
final, and its arcs are read. What an arc is, and how long, depends on the graph: `search` takes the
kernel that reads the arcs of an item. The arrays of a search are reset where it has been, so that
it costs what it explores, whatever the number of items.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step, kernel_template
from metricmix.typing import AnyArray, Indices, Ints

__all__ = [
    "Ball",
    "clear",
    "empty_ball",
    "lift",
    "reach",
    "read_arcs",
    "search",
    "settle",
    "take_first",
]


class Ball(NamedTuple):
    """The arrays of a search; between searches ``dist`` is inf and ``place`` -1 everywhere.

    Attributes
    ----------
    dist : (n,) array
        Distances, tentative for open items; inf for items not reached.
    heap, place : (n,) arrays
        The open items as a heap, and the place of each item in it (-1 if it is not open).
    pred : (n,) array
        Predecessors of the items reached.
    order : (n,) array
        The settled items, nearest first.
    counts : (2,) array
        How many items are open, and settled.
    """

    dist: AnyArray
    heap: Ints
    place: Ints
    pred: Ints
    order: Ints
    counts: Indices


# -- the heap ------------------------------------------------------------------------------------


@kernel_step
def lift(v: int, size: int, heap: Ints, place: Ints, dist: AnyArray) -> int:
    """Put item v into the heap, or move it up after its distance fell; return the new size."""
    at = place[v]
    if at < 0:
        at = size
        size += 1
    key = dist[v]
    while at > 0:
        above = (at - 1) // 2
        u = heap[above]
        if dist[u] <= key:
            break
        heap[at] = u
        place[u] = at
        at = above
    heap[at] = v
    place[v] = at
    return size


@kernel_step
def take_first(size: int, heap: Ints, place: Ints, dist: AnyArray) -> int:
    """Take the nearest item out of a heap that is not empty; its size is then one less."""
    first: int = heap[0]
    place[first] = -1
    last = size - 1
    if last == 0:
        return first
    v = heap[last]
    key = dist[v]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and dist[heap[below + 1]] < dist[heap[below]]:
            below += 1
        u = heap[below]
        if dist[u] >= key:
            break
        heap[at] = u
        place[u] = at
        at = below
    heap[at] = v
    place[v] = at
    return first


# -- steps of a search ---------------------------------------------------------------------------


@kernel
def empty_ball(n: int) -> Ball:
    """Return the arrays of searches over n items; most are not touched before they are reached."""
    return Ball(
        np.full(n, np.inf),
        np.empty(n, np.int32),
        np.full(n, np.int32(-1)),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.zeros(2, np.int64),
    )


@kernel_step
def reach(v: int, distance: float, u: int, ball: Ball) -> None:
    """Open item v, or lower its distance, on a path through u; u is -1 for a root."""
    ball.dist[v] = distance
    ball.pred[v] = u
    ball.counts[0] = lift(v, ball.counts[0], ball.heap, ball.place, ball.dist)


@kernel_step
def settle(ball: Ball) -> int:
    """Settle the nearest open item and return it; -1 if no item is open."""
    counts = ball.counts
    if counts[0] == 0:
        return -1
    u: int = take_first(counts[0], ball.heap, ball.place, ball.dist)
    counts[0] -= 1
    ball.order[counts[1]] = u
    counts[1] += 1
    return u


@kernel_step
def clear(ball: Ball) -> None:
    """Make the arrays ready for another search; O(items reached)."""
    counts = ball.counts
    for k in range(counts[1]):
        ball.dist[ball.order[k]] = np.inf
    for k in range(counts[0]):
        ball.dist[ball.heap[k]] = np.inf
        ball.place[ball.heap[k]] = -1
    counts[0] = 0
    counts[1] = 0


@kernel_step
def read_arcs(arcs: Any, u: int, radius: float, ball: Ball) -> None:
    """Reach items over the arcs of u, just settled, whose `lengths` are known.

    Arcs ``indptr[u] .. indptr[u + 1] - 1`` lead to `ends`.
    """
    dist, du = ball.dist, ball.dist[u]
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        v = arcs.ends[a]
        reached = du + arcs.lengths[a]
        if reached < dist[v] and reached < radius:
            reach(v, reached, u, ball)


@kernel_template
def search(read: Any, graph: Any, limit: int, radius: float, ball: Ball) -> None:
    """Settle the `limit` nearest items and all as near as the last, within the radius.

    The roots are open. ``read(graph, u, radius, ball)`` reaches items over the arcs of u that are
    nearer than the radius. Called again with a larger limit, the search goes on.
    """
    dist, order, counts = ball.dist, ball.order, ball.counts
    while counts[0] > 0:
        if counts[1] >= limit and dist[ball.heap[0]] > dist[order[limit - 1]]:
            break
        read(graph, settle(ball), radius, ball)
