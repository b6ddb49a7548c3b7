"""Slow versions of the kernels of dual ascent: dense matrices, dictionaries, bisection."""

from __future__ import annotations

import numpy as np


def constraint_matrix(ij, ik, kj, pairs):
    """The rows x[ij] - x[ik] - x[kj] <= 0 as a dense matrix."""
    A = np.zeros((len(ij), pairs))
    for t, (p, q, r) in enumerate(zip(ij, ik, kj, strict=True)):
        A[t, p] += 1
        A[t, q] -= 1
        A[t, r] -= 1
    return A


def merged(keys, dual, previous, fresh, forget):
    """Keys with their duals, fresh ones with 0; old ones without a dual are dropped."""
    kept = dict.fromkeys(fresh, (0.0, 0.0))
    for key, z, before in zip(keys, dual, previous, strict=True):
        if key in kept or not forget or z != 0 or before != 0:
            kept[key] = (z, before)
    return [(key, *kept[key]) for key in sorted(kept)]


def prox(y, d, tau, low, high):
    """argmin 1/2 (x - y)^2 + tau |x - d| within bounds, by golden section on a convex function."""
    a, b = low, high
    for _ in range(200):
        first, second = a + (b - a) / 3, b - (b - a) / 3
        values = [0.5 * (x - y) ** 2 + tau * abs(x - d) for x in (first, second)]
        a, b = (a, second) if values[0] <= values[1] else (first, b)
    return 0.5 * (a + b)


def coordinate_step(y, inverse, point, least):
    """The change of a dual, >= least, that makes the violation 0, by bisection.

    `y` and `inverse` have three entries, those of ij, ik, kj; `point(k, y)` is x of the k-th pair.
    """

    def violation(change):
        moved = [y[0] - change * inverse[0], y[1] + change * inverse[1], y[2] + change * inverse[2]]
        return point(0, moved[0]) - point(1, moved[1]) - point(2, moved[2])

    if violation(least) <= 0:
        return least
    low, high = least, least + 1.0
    while violation(high) > 0 and high < 1e6:
        low, high = high, least + 2 * (high - least)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if violation(middle) > 0 else (low, middle)
    return high


def sweep(x, inverse, constraints, beta, backward=False):
    """One sweep of Hildreth's method with momentum; returns new x, duals, previous duals."""
    ij, ik, kj, z, previous = constraints
    x, z, previous = x.copy(), z.copy(), previous.copy()
    order = range(len(z))
    for t in reversed(order) if backward else order:
        p, q, r = ij[t], ik[t], kj[t]
        ahead = z[t] if backward else z[t] + beta * (z[t] - previous[t])
        if not backward:
            previous[t] = z[t]
        change = max((x[p] - x[q] - x[r]) / (inverse[p] + inverse[q] + inverse[r]), -ahead)
        x[p] -= change * inverse[p]
        x[q] += change * inverse[q]
        x[r] += change * inverse[r]
        z[t] = ahead + change
    return x, z, previous
