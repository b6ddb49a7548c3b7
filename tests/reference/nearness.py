"""Nearest metrics by a general solver, with every triangle written down."""

from __future__ import annotations

import numpy as np

ORDER = ("l2", "l1", "linf", "decrease", "increase")


def all_triangles(n):
    """Rows x_ij - x_ik - x_kj <= 0 over the pairs i > j, as a dense matrix."""
    pairs = {(i, j): p for p, (i, j) in enumerate((i, j) for i in range(n) for j in range(i))}
    rows = []
    for i in range(n):
        for j in range(i):
            for k in range(n):
                if k not in (i, j):
                    row = np.zeros(len(pairs))
                    row[pairs[i, j]] = 1
                    row[pairs[max(i, k), min(i, k)]] = -1
                    row[pairs[max(j, k), min(j, k)]] = -1
                    rows.append(row)
    return np.array(rows)


def pairs(matrix):
    """The entries i > j, row by row."""
    return np.asarray(matrix, dtype=float)[np.tril_indices(len(matrix), -1)]


def objective_of(norm, x, d, w):
    """The objective of a list of entries."""
    if norm == "l1":
        return float(np.sum(w * abs(x - d)))
    if norm == "linf":
        return float(np.max(w * abs(x - d)))
    return float(np.sum(w * (x - d) ** 2))


def optimum(D, norm, weights=None, lower=None, upper=None, fixed=None):
    """The optimal value, by cvxpy."""
    import cvxpy as cp

    n = len(D)
    w = np.ones(n * (n - 1) // 2) if weights is None else pairs(weights)
    w = np.where(np.isnan(pairs(D)), 0.0, w)
    d = np.nan_to_num(pairs(D))
    low, high = np.zeros(len(d)), np.full(len(d), np.inf)
    if lower is not None:
        low = np.maximum(low, np.nan_to_num(pairs(np.broadcast_to(lower, D.shape))))
    if upper is not None:
        high = np.nan_to_num(pairs(np.broadcast_to(upper, D.shape)), nan=np.inf)
    if norm == "increase":
        low = np.where(w > 0, np.maximum(low, d), low)
    if norm == "decrease":
        high = np.where(w > 0, np.minimum(high, d), high)
    if fixed is not None:
        low, high = np.where(pairs(fixed), d, low), np.where(pairs(fixed), d, high)
    x = cp.Variable(len(d))
    constraints = [all_triangles(n) @ x <= 0, x >= low]
    bounded = np.flatnonzero(np.isfinite(high))
    if len(bounded):
        constraints.append(x[bounded] <= high[bounded])
    if norm == "l1":
        objective = w @ cp.abs(x - d)
    elif norm == "linf":
        objective = cp.max(cp.multiply(w, cp.abs(x - d)))
    else:
        objective = w @ cp.square(x - d)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=200
    )
    return float(problem.value)
