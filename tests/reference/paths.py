"""Shortest paths, slow and obviously right: by looking at every path, and by the textbook."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np


def simple_paths(n, i, j):
    """Yield every simple path from i to j on the complete graph over n items."""
    if i == j:
        yield (i,)
        return
    others = [v for v in range(n) if v not in (i, j)]
    for count in range(len(others) + 1):
        for inner in permutations(others, count):
            yield (i, *inner, j)


def path_length(w, nodes):
    """Return the length of a path: the sum of its edges."""
    return float(sum(w[u, v] for u, v in pairwise(nodes)))


def by_enumeration(w, i, j, rounding=1e-12):
    """Return the shortest length from i to j and the set of all paths that have it (n <= 6)."""
    w = np.asarray(w)
    assert len(w) <= 6, "there are too many paths to look at"
    lengths = {nodes: path_length(w, nodes) for nodes in simple_paths(len(w), i, j)}
    shortest = min(lengths.values())
    return shortest, {p for p, x in lengths.items() if x <= shortest * (1 + rounding)}


def dijkstra(w, i):
    """Return the distances from i to everything, by the textbook's algorithm."""
    n = len(w)
    distance = [np.inf] * n
    distance[i] = 0.0
    unvisited = set(range(n))
    while unvisited:
        u = min(unvisited, key=lambda v: distance[v])
        unvisited.remove(u)
        for v in range(n):
            if v != u and distance[u] + w[u][v] < distance[v]:
                distance[v] = float(distance[u] + w[u][v])
    return np.array(distance)


def all_distances(w):
    """Return all shortest-path lengths, one textbook search per item."""
    lengths = np.asarray(w, dtype=np.float64).tolist()
    return np.array([dijkstra(lengths, i) for i in range(len(lengths))])
