"""Broken triangles, one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def broken_triangles(d, tolerance=0.0):
    """Return the sets {i, j, k} with a side that is longer than the others together."""
    found = []
    for i, j, k in combinations(range(len(d)), 3):
        a, b, c = sorted((d[i, j], d[j, k], d[i, k]))
        if not np.isnan([a, b, c]).any() and c > a + b + tolerance:
            found.append({i, j, k})
    return found


def greedy_cover(triangles, n, order):
    """Return (item, its triangles, those left), the item with the most first.

    Of items with equally many, the next one of `order` comes first if it is among them.
    """
    ranked = []
    while triangles:
        counts = [sum(item in t for t in triangles) for item in range(n)]
        item = order[len(ranked)] if len(ranked) < len(order) else 0
        item = item if counts[item] == max(counts) else counts.index(max(counts))
        triangles = [t for t in triangles if item not in t]
        ranked.append((item, max(counts), len(triangles)))
    return ranked


def excesses(d):
    """Return (excess, i, j) for all pairs i < j that a third item breaks, the largest first."""
    n, found = len(d), []
    for i, j in combinations(range(n), 2):
        ways = [d[i, k] + d[k, j] for k in range(n) if k not in (i, j)]
        ways = [way for way in ways if not np.isnan(way)]
        if ways and not np.isnan(d[i, j]) and d[i, j] > min(ways):
            found.append((float(d[i, j] - min(ways)), i, j))
    return sorted(found, key=lambda one: (-one[0], one[1], one[2]))
