"""Obviously right versions: the closure and the laws of a metric, by three nested loops."""

from __future__ import annotations

import numpy as np


def closure(W):
    """Floyd and Warshall, as in the textbook, in float64."""
    d = np.array(W, dtype=float)
    n = len(d)
    for i in range(n):
        d[i, i] = 0.0
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


def closure_by_rows(W):
    """The same with the two inner loops written as an outer sum, for larger n."""
    d = np.array(W, dtype=float)
    np.fill_diagonal(d, 0.0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[k])
    return d


def minplus(A, B, C):
    """min(C, A (x) B), one sum at a time."""
    out = np.array(C)
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                out[i, j] = min(out[i, j], A[i, k] + B[k, j])
    return out


def broken_triangles(D, tolerance, directed=False):
    """Return the largest excess over all triangles of three different items, and the pairs."""
    n = len(D)
    worst, pairs = 0.0, set()
    for i in range(n):
        for j in range(n):
            if i == j or (j < i and not directed):
                continue
            for k in range(n):
                if k in (i, j):
                    continue
                excess = float(D[i, j]) - (float(D[i, k]) + float(D[k, j]))
                worst = max(worst, excess)
                if excess > tolerance:
                    pairs.add((i, j))
    return worst, pairs
