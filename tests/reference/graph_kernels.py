"""Graph algorithms of the relaxations, slowly: dense matrices, one loop after another."""

from __future__ import annotations

import heapq

import numpy as np

MASK = 2**64 - 1


def splitmix64(number):
    """The hash of an integer, in Python's integers."""
    z = (int(number) + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def distances(n, ends, x):
    """All shortest paths over edges with lengths x, by Floyd and Warshall."""
    d = np.full((n, n), np.inf)
    np.fill_diagonal(d, 0.0)
    for (i, j), length in zip(ends, x, strict=True):
        d[i, j] = d[j, i] = min(d[i, j], length)
    for k in range(n):
        d = np.minimum(d, d[:, k, None] + d[k])
    return d


def doubled_distances(n, ends, x):
    """Shortest paths between two copies of every node: v on side s is 2 v + s."""
    edges, lengths = [], []
    for (i, j), length in zip(ends, x, strict=True):
        for side in (0, 1):
            edges += [(2 * i + side, 2 * j + side), (2 * i + side, 2 * j + 1 - side)]
            lengths += [length, 1.0 - length]
    return distances(2 * n, edges, lengths)


def walk(ends, path, start):
    """The node at the end of a walk over edges; raises if they do not follow one another."""
    for e in path:
        i, j = ends[e]
        assert start in (i, j)
        start = j if start == i else i
    return start


def violated_paths(n, ends, x, extra, W, slack, *, tolerance, capacity, penalty, repeats):
    """Violated path constraints (i, u, edges), in the order of the searches, and the worst one.

    W are the weights and `slack` the slacks of all pairs. `extra` grows along the paths found.
    """
    neighbours = [[] for _ in range(n)]
    for e, (i, j) in enumerate(ends):
        neighbours[i].append((j, e))
        neighbours[j].append((i, e))
    found, worst = [], 0.0
    for i in range(n):
        for _ in range(repeats):
            dist, length, last, heap = {i: 0.0}, {i: 0.0}, {}, [(0.0, i)]
            while heap:
                reached, u = heapq.heappop(heap)
                if reached > dist[u]:
                    continue
                violation = 1.0 - length[u] - slack[i, u]
                if u != i and W[i, u] < 0:
                    worst = max(worst, violation)
                    if violation > tolerance:
                        if u < i:
                            path, v = [], u
                            while v != i:
                                v, e = last[v]
                                path.append(e)
                                extra[e] += penalty * min(1.0, -W[i, u] / capacity[e])
                            found.append((i, u, path))
                        continue
                for v, e in neighbours[u]:
                    reached = dist[u] + x[e] + extra[e]
                    if reached < min(dist.get(v, np.inf), 1.0):
                        dist[v], length[v], last[v] = reached, length[u] + x[e], (u, e)
                        heapq.heappush(heap, (reached, v))
    return found, worst


def pivot_clusters(order, seed, radius, d, joined):
    """Clusters around pivots, from the distances d; `joined` says which pairs attract."""
    n = len(order)
    labels, clusters = np.full(n, -1), 0
    for pivot in order:
        if labels[pivot] >= 0:
            continue
        for j in range(n):
            if labels[j] >= 0 or d[pivot, j] >= (radius or 1.0):
                continue
            if not radius and j != pivot:
                chance = d[pivot, j]
                if joined[pivot, j]:
                    chance = np.clip((chance - 0.19) / (0.5095 - 0.19), 0.0, 1.0) ** 2
                if (splitmix64(seed + pivot * n + j) >> 11) * 2.0**-53 < chance:
                    continue
            labels[j] = clusters
        clusters += 1
    return labels


def move_nodes(order, W, labels):
    """Move each node once to the cluster with the largest sum of weights, or to a new one."""
    labels, moved = np.array(labels), 0
    for i in order:
        others = np.arange(len(labels)) != i
        sums = {label: W[i, others & (labels == label)].sum() for label in set(labels.tolist())}
        new = max(labels) + 1
        sums[new] = 0.0
        best = max(sums, key=lambda label: (sums[label], label == labels[i]))
        alone = (labels == labels[i]).sum() == 1
        if sums[best] > sums[labels[i]] and not (alone and best == new):
            labels[i] = best
            moved += 1
    return labels, moved


def flip_nodes(order, labels, value):
    """Move each node once to the other side if that lowers `value`, a function of the labels."""
    labels, moved = np.array(labels), 0
    for i in order:
        flipped = labels.copy()
        flipped[i] = 1 - flipped[i]
        if len(set(flipped.tolist())) == 2 and value(flipped) < value(labels) - 1e-12:
            labels, moved = flipped, moved + 1
    return labels, moved


def constraint_matrix(starts, terms, columns):
    """K and b of rows K v >= b, where ``~j`` stands for 1 - v_j."""
    K, b = np.zeros((len(starts) - 1, columns)), np.ones(len(starts) - 1)
    for r in range(len(b)):
        for j in terms[starts[r] : starts[r + 1]]:
            K[r, j if j >= 0 else ~j] += 1 if j >= 0 else -1
            b[r] -= j < 0
    return K, b


def primal_dual_step(c, K, b, v, z, omega):
    """A step of Chambolle and Pock's method, with step sizes from the entries of K."""
    columns, rows = np.maximum(1, np.abs(K).sum(0)), np.abs(K).sum(1)
    new_v = np.clip(v - (c - K.T @ z) / (omega * columns), 0.0, 1.0)
    new_z = np.maximum(0.0, z + omega / rows * (b - K @ (2 * new_v - v)))
    return new_v, new_z, columns @ (new_v - v) ** 2, rows @ (new_z - z) ** 2


def weighted_simplex(y, c, weights, total):
    """The x >= 0 with c x = total that minimises the weighted squares of x - y, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(200):
        level = (low + high) / 2
        x = np.maximum(0.0, y - level * c / weights)
        low, high = (level, high) if c @ x > total else (low, level)
    return x
