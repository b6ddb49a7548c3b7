"""Nearness problems and their duals in rational arithmetic, for a handful of items."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np


def fractions(values):
    """A list of exact values; None is infinite."""
    return [Fraction(float(v)) if np.isfinite(v) else None for v in values]


def pair(i, j):
    i, j = max(i, j), min(i, j)
    return i * (i - 1) // 2 + j


def rows(n):
    """All triangle constraints as (ij, ik, kj): x[ij] - x[ik] - x[kj] <= 0."""
    triples = ((i, j, k) for i, j, k in permutations(range(n), 3) if i > j)
    return [(pair(i, j), pair(i, k), pair(k, j)) for i, j, k in triples]


def pull(n, triangles, multipliers):
    """A^T z."""
    u = [Fraction(0)] * (n * (n - 1) // 2)
    for (i, j, k), z in zip(triangles.tolist(), multipliers.tolist(), strict=True):
        u[pair(i, j)] += Fraction(z)
        u[pair(i, k)] -= Fraction(z)
        u[pair(k, j)] -= Fraction(z)
    return u


def objective(norm, x, d, w):
    changes = [c * abs(a - b) for a, b, c in zip(x, d, w, strict=True)]
    if norm == "linf":
        return max(changes)
    if norm == "l1":
        return sum(changes)
    return sum(c * (a - b) ** 2 for a, b, c in zip(x, d, w, strict=True))


def dual_value(norm, d, w, u, low, high):
    """The minimum of f(x) + u^T x over low <= x <= high; None is no bound."""

    def clip(x, a, b):
        x = x if a is None else max(x, a)
        return x if b is None else min(x, b)

    terms = list(zip(d, w, u, low, high, strict=True))
    if norm == "linf":

        def value(s):
            total = s
            for b, c, pulled, lo, hi in terms:
                reach = s / c if c > 0 else None
                if reach is None:
                    x = lo if pulled > 0 else hi
                else:
                    x = clip(b - reach if pulled > 0 else b + reach, lo, hi)
                total += pulled * x
            return total

        # Convex and piecewise linear in s: the minimum is at a breakpoint.
        places = [c * abs(e - b) for b, c, _, lo, hi in terms for e in (lo, hi)]
        first = max(c * abs(clip(b, lo, hi) - b) for b, c, _, lo, hi in terms)
        return min(value(s) for s in [first, *(s for s in places if s > first)])
    total = Fraction(0)
    for b, c, pulled, lo, hi in terms:
        if norm == "l1":
            total += min(c * abs(x - b) + pulled * x for x in (clip(b, lo, hi), lo, hi))
        elif c == 0:
            total += min(pulled * lo, pulled * hi)
        else:
            x = clip(b - pulled / (2 * c), lo, hi)
            total += c * (x - b) ** 2 + pulled * x
    return total


def l1_optimum(n, d, w):
    """Maximise z^T A d over z >= 0, -w <= A^T z <= w, by the simplex method with Bland's rule."""
    triangles, pairs = rows(n), len(d)
    columns = len(triangles)
    table = []
    for sign in (1, -1):
        for e in range(pairs):
            row = [Fraction(sign * ((e == ij) - (e in (ik, kj)))) for ij, ik, kj in triangles]
            slack = [Fraction(int(s == len(table))) for s in range(2 * pairs)]
            table.append([*row, *slack, w[e]])
    cost = [d[ij] - d[ik] - d[kj] for ij, ik, kj in triangles] + [Fraction(0)] * (2 * pairs + 1)
    basis = list(range(columns, columns + 2 * pairs))
    while True:
        enter = next((c for c, value in enumerate(cost[:-1]) if value > 0), None)
        if enter is None:
            return -cost[-1]
        ratios = [
            (row[-1] / row[enter], basis[r], r) for r, row in enumerate(table) if row[enter] > 0
        ]
        leave = min(ratios)[2]
        pivot = table[leave][enter]
        table[leave] = [value / pivot for value in table[leave]]
        for row in [*(table[r] for r in range(2 * pairs) if r != leave), cost]:
            factor = row[enter]
            if factor:
                for c, value in enumerate(table[leave]):
                    row[c] -= factor * value
        basis[leave] = enter


def linf_optimum(n, d, w):
    """The largest violation of a path inequality, per unit of change of all its entries."""
    best = Fraction(0)
    for size in range(3, n + 1):
        for nodes in permutations(range(n), size):
            first = pair(nodes[0], nodes[-1])
            path = [pair(a, b) for a, b in pairwise(nodes)]
            lacking = d[first] - sum(d[e] for e in path)
            best = max(best, lacking / sum(1 / w[e] for e in [first, *path]))
    return best


def solve(matrix, right):
    """Solve a square system; None if it is singular."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for c in range(len(rows)):
        pivot = next((r for r in range(c, len(rows)) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [value / rows[c][c] for value in rows[c]]
        for r, row in enumerate(rows):
            if r != c and row[c] != 0:
                rows[r] = [a - row[c] * b for a, b in zip(row, rows[c], strict=True)]
    return [row[-1] for row in rows]


def squares_on(active, d, w):
    """The minimum of squares where these rows (dicts, with right-hand sides) hold with equality.

    Returns x and the multipliers of the rows, or None if they depend on each other.
    """
    inverse = [1 / (2 * c) for c in w]
    gram = [
        [sum(v * b.get(e, 0) * inverse[e] for e, v in a.items()) for b, _ in active]
        for a, _ in active
    ]
    right = [sum(v * d[e] for e, v in a.items()) - b for a, b in active]
    z = solve(gram, right)
    if z is None:
        return None
    x = list(d)
    for (a, _), dual in zip(active, z, strict=True):
        for e, v in a.items():
            x[e] -= v * dual * inverse[e]
    return x, z
