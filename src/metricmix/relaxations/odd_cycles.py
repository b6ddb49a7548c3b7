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

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.relaxations.graph_search import Adjacency, doubled, hash_integer
from metricmix.typing import Floats, Ints, Keys

__all__ = ["DoubledTree", "find_odd_cycles", "search_doubled_graph", "write_cycle"]


class DoubledTree(NamedTuple):
    """Work arrays of :func:`search_doubled_graph`, for two copies of every node.

    Before a search `dist` is inf and `place` -1 throughout. `length` receives the distances without
    `hop`, `parent` and `term` the copy before each copy and the edge between them: e at the length
    x, ``~e`` at 1 - x. `touched` receives the copies that were reached.
    """

    dist: Floats
    length: Floats
    heap: Ints
    place: Ints
    parent: Ints
    term: Ints
    touched: Ints


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
    tree = DoubledTree(
        np.full(2 * n, np.inf),
        np.empty(2 * n),
        np.empty(2 * n, np.int32),
        np.full(2 * n, -1, np.int32),
        np.empty(2 * n, np.int32),
        np.empty(2 * n, np.int32),
        np.empty(2 * n, np.int32),
    )
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
        seen = search_doubled_graph(i, graph, x, hop, radius, tree)
        reached += seen
        for t in range(starts[i], starts[i + 1]):
            j, e = ends[t], edges[t]
            if j > i:
                continue
            for side in range(2):
                last = e if side == 1 else ~e  # closes the cycle to the other copy of i
                if tree.dist[2 * j + side] == np.inf:
                    continue
                violation = (1.0 - x[e] if side == 1 else x[e]) - tree.length[2 * j + side]
                worst = max(worst, violation)
                if violation <= tolerance:
                    continue
                size = write_cycle(i, 2 * j + side, last, tree, position, walk)
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
        for t in range(seen):
            tree.dist[tree.touched[t]] = np.inf
    return counts[:found], terms[:used], keys[:found], worst, stop


@kernel
def search_doubled_graph(
    i: int, graph: Adjacency, x: Floats, hop: float, radius: float, tree: DoubledTree
) -> int:
    """Find the shortest paths from i on side 0 to all copies nearer than the radius.

    Node v on side s is 2 v + s. Return the number of copies in `tree.touched`; the caller resets
    `tree.dist` to inf for these.
    """
    starts, ends, edges = graph
    dist, length, heap, place, touched = tree.dist, tree.length, tree.heap, tree.place, tree.touched
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
                    tree.parent[v], tree.term[v] = u, ~e if across == 1 else e
                    size = lift(v, size, heap, place, dist)
    return seen


@kernel
def write_cycle(i: int, end: int, last: int, tree: DoubledTree, position: Ints, walk: Ints) -> int:
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
        walk[size] = tree.term[u]
        size += 1
        u = tree.parent[u]
    v = end
    while v != 2 * i:
        position[v // 2] = -1
        v = tree.parent[v]
    position[i] = -1
    return size
