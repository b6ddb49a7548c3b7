"""Relaxations over metrics as textbooks write them: all pairs, all triangles, a general solver."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array


def pair_numbers(n):
    """The number of every pair, as a symmetric matrix."""
    numbers = np.zeros((n, n), int)
    for e, (i, j) in enumerate(combinations(range(n), 2)):
        numbers[i, j] = numbers[j, i] = e
    return numbers


def triangle_rows(n, *, perimeters=False):
    """A and b of all triangle inequalities A x <= b, and x_ij + x_jk + x_ik <= 2 if asked for."""
    number = pair_numbers(n)
    rows, b = [], []
    for i, j, k in combinations(range(n), 3):
        sides = [number[i, j], number[j, k], number[i, k]]
        for side in range(3):
            rows.append([(e, 1.0 if s == side else -1.0) for s, e in enumerate(sides)])
            b.append(0.0)
        if perimeters:
            rows.append([(e, 1.0) for e in sides])
            b.append(2.0)
    r = np.repeat(np.arange(len(rows)), 3)
    c = np.array([e for row in rows for e, _ in row], int)
    v = np.array([value for row in rows for _, value in row])
    return csr_array((v, (r, c)), shape=(len(rows), n * (n - 1) // 2)), np.array(b)


def clustering_optimum(W):
    """The least cost of the linear relaxation of correlation clustering."""
    w = W[np.triu_indices(len(W), 1)]
    repulsion = -w[w < 0].sum()
    if len(W) < 3:
        return float(np.minimum(w, 0).sum() + repulsion)
    A, b = triangle_rows(len(W))
    unit = max(np.abs(w).max(), 1e-300)  # the solver's tolerances are absolute
    found = linprog(w / unit, A_ub=A, b_ub=b, bounds=(0, 1), method="highs")
    return float(unit * found.fun + repulsion)


def clustering_cost(W, labels):
    """What clusters cost, pair by pair."""
    total = 0.0
    for i, j in combinations(range(len(W)), 2):
        together = labels[i] == labels[j]
        total += max(0.0, -W[i, j]) if together else max(0.0, W[i, j])
    return total


def sparsest_cut_optimum(C, demand):
    """The least cost of the linear relaxation of the sparsest cut."""
    i, j = np.triu_indices(len(C), 1)
    c, D = C[i, j], demand[i] * demand[j]
    if len(C) < 3:
        return float(c[0] / D[0])
    A, b = triangle_rows(len(C))
    unit = max(c.max(), 1e-300)  # the solver's tolerances are absolute
    found = linprog(c / unit, A_ub=A, b_ub=b, A_eq=(D / D.mean())[None], b_eq=[1.0], method="highs")
    return float(unit * found.fun / D.mean())


def max_cut_optimum(W):
    """The largest value of the linear relaxation of the maximum cut, over the metric polytope."""
    w = W[np.triu_indices(len(W), 1)]
    if len(W) < 3:
        return float(np.maximum(w, 0.0).sum())
    A, b = triangle_rows(len(W), perimeters=True)
    unit = max(np.abs(w).max(), 1e-300)
    return float(-unit * linprog(-w / unit, A_ub=A, b_ub=b, bounds=(0, 1), method="highs").fun)


def all_cuts(n):
    """All ways to put n items on two sides, the first one on side 0, as an array of labels."""
    numbers = np.arange(2 ** (n - 1))
    return np.array([np.zeros(len(numbers), int), *((numbers >> k) & 1 for k in range(n - 1))]).T


def weight_cut(W, labels):
    """The weight between the sides."""
    return sum(W[i, j] for i, j in combinations(range(len(W)), 2) if labels[i] != labels[j])


def partitions(n):
    """All ways to cluster n items, as labels."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]
