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
    w = np.asarray(w, dtype=np.float64)
    distance = np.full(len(w), np.inf)
    distance[i] = 0.0
    visited = np.zeros(len(w), dtype=bool)
    while not visited.all():
        u = np.argmin(np.where(visited, np.inf, distance))
        if visited[u]:
            break  # the rest cannot be reached
        visited[u] = True
        distance = np.minimum(distance, distance[u] + w[u])
    return distance


def all_distances(w):
    """Return all shortest-path lengths, one textbook search per item."""
    return np.array([dijkstra(w, i) for i in range(len(w))])
