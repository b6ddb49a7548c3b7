r"""Odd-cycle inequalities of the cut polytope, separated by shortest paths (Barahona and Mahjoub).

A cut contains an even number of edges of every cycle: for a cycle C and an odd subset F of it,

.. math:: \sum_{e \in C \setminus F} x_e + \sum_{e \in F} (1 - x_e) \ge 1

The doubled graph has two copies of every node, one for each side. An edge e joins the copies on the
same side at the length :math:`x_e`, and those on different sides at :math:`1 - x_e`. A path from a
node to its other copy crosses an odd number of times: the inequalities say that none is shorter
than 1. If the edge e = (i, j) is the last one, the rest of the path, from i to j, is at least
:math:`x_e` long if it stays on the same side, and :math:`1 - x_e` if not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.heap import Ball, clear, empty_ball, reach, search
from metricmix.relaxations.graph_search import Adjacency, doubled, hash_integer
from metricmix.typing import Floats, Ints, Keys

__all__ = [
    "DoubledGraph",
    "find_odd_cycles",
    "read_copies",
    "search_doubled_graph",
    "write_cycle",
]


class DoubledGraph(NamedTuple):
    """Two copies of every node, on the sides 0 and 1: node v on side s is 2 v + s.

    Every edge is `hop` longer. `length` receives the distances without `hop`, and `term` the edge
    by which each copy is reached: e at the length x, ``~e`` at 1 - x.
    """

    graph: Adjacency
    x: Floats
    hop: float
    length: Floats
    term: Ints


@kernel
def find_odd_cycles(
    low: int,
    high: int,
    graph: Adjacency,
    x: Floats,
    hop: float,
    tolerance: float,
    budget: int,
) -> tuple[Ints, Ints, Keys, float, int]:
    """Return violated odd cycles through the edges (i, j), low <= i < high and j < i.

    The search adds `hop` to the length of every edge: among cycles of similar length it prefers
    those with few edges.

    Returns
    -------
    counts, terms : (T,) and (sum of counts,) arrays
        The cycles that are violated by more than the tolerance: e for a term :math:`x_e`, ``~e``
        for :math:`1 - x_e`.
    keys : (T,) array
        A hash of every cycle.
    worst : float
        The largest violation of the cycles found; of all cycles if `hop` is 0.
    stop : int
        The node to go on from: `high`, or an earlier one if the searches reached more than `budget`
        nodes.
    """
    starts, ends, edges = graph
    n = starts.shape[0] - 1
    ball = empty_ball(2 * n)
    copies = DoubledGraph(graph, x, hop, np.empty(2 * n), np.empty(2 * n, np.int32))
    position, walk = np.full(n, -1, np.int32), np.empty(2 * n + 1, np.int32)
    counts, keys, terms = (
        np.empty(256, np.int32),
        np.empty(256, np.uint64),
        np.empty(1024, np.int32),
    )
    found, used, worst, reached, stop = 0, 0, 0.0, 0, high
    for i in range(low, high):
        if reached > budget:
            stop = i
            break
        radius = 0.0
        for t in range(starts[i], starts[i + 1]):
            if ends[t] < i:
                radius = max(radius, x[edges[t]], 1.0 - x[edges[t]])
        reached += search_doubled_graph(i, copies, radius, ball)
        for t in range(starts[i], starts[i + 1]):
            j, e = ends[t], edges[t]
            if j > i:
                continue
            for side in range(2):
                last = e if side == 1 else ~e  # closes the cycle to the other copy of i
                if ball.dist[2 * j + side] == np.inf:
                    continue
                violation = (1.0 - x[e] if side == 1 else x[e]) - copies.length[2 * j + side]
                worst = max(worst, violation)
                if violation <= tolerance:
                    continue
                size = write_cycle(i, 2 * j + side, last, ball.pred, copies.term, position, walk)
                if found == counts.shape[0]:
                    counts, keys = doubled(counts), doubled(keys)
                while used + size > terms.shape[0]:
                    terms = doubled(terms)
                key = np.uint64(0)
                for k in range(size):
                    terms[used] = walk[k]
                    key += hash_integer(walk[k])
                    used += 1
                counts[found], keys[found] = size, key
                found += 1
        clear(ball)
    return counts[:found], terms[:used], keys[:found], worst, stop


@kernel_step
def read_copies(copies: DoubledGraph, u: int, radius: float, ball: Ball) -> None:
    """Reach copies on both sides over the edges of copy u, just settled."""
    (starts, ends, edges), x, length, dist = copies.graph, copies.x, copies.length, ball.dist
    for t in range(starts[u // 2], starts[u // 2 + 1]):
        e = edges[t]
        for across in range(2):
            v = 2 * ends[t] + (u % 2 ^ across)
            further = 1.0 - x[e] if across == 1 else x[e]
            reached = dist[u] + further + copies.hop
            if reached < dist[v] and reached < radius:
                length[v], copies.term[v] = length[u] + further, ~e if across == 1 else e
                reach(v, reached, u, ball)


@kernel
def search_doubled_graph(i: int, copies: DoubledGraph, radius: float, ball: Ball) -> int:
    """Find the shortest paths from i on side 0 to all copies nearer than the radius.

    Return the number of copies found. The caller clears the ball.
    """
    copies.length[2 * i] = 0.0
    reach(2 * i, 0.0, -1, ball)
    search(read_copies, copies, ball.order.shape[0], radius, ball)
    return int(ball.counts[1])


@kernel
def write_cycle(
    i: int, end: int, last: int, pred: Ints, term: Ints, position: Ints, walk: Ints
) -> int:
    """Write the cycle of the path from i to `end` and a last edge; return its number of edges.

    If the path visits both copies of a node, the part between them is a cycle with a violation at
    least as large; the first such cycle is written instead. `position` is -1 throughout, before
    and after.
    """
    size, u = 0, end
    while True:
        node = u // 2
        if position[node] >= 0:
            first = position[node]
            for k in range(first, size):
                walk[k - first] = walk[k]
            size -= first
            break
        position[node] = size
        if u == 2 * i:
            walk[size] = last
            size += 1
            break
        walk[size] = term[u]
        size += 1
        u = pred[u]
    v = end
    while v != 2 * i:
        position[v // 2] = -1
        v = pred[v]
    position[i] = -1
    return size
