"""One sweep, row by row, against the obvious version of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricmix.nearness.coordinate_ascent import (
    add_rows,
    bend,
    bends,
    move_on,
    move_on_bent,
    points_of,
    row_product,
    sweep_bent,
    sweep_even,
    sweep_weighted,
)


def instance(seed, n=9, count=60):
    rng = np.random.default_rng(seed)
    pairs = n * (n - 1) // 2
    sides = [np.empty(count, np.int32) for _ in range(3)]
    for t in range(count):
        for column, pair in zip(sides, rng.choice(pairs, 3, replace=False), strict=True):
            column[t] = pair
    return rng.random(pairs), sides, np.maximum(rng.normal(size=count), 0), rng.random(pairs) + 0.2


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_plain_sweeps(beta):
    d, sides, z, h = instance(0)
    rng = np.random.default_rng(1)
    for weighted in (False, True):
        inverse = 1 / h if weighted else np.ones(len(d))
        x, new, before = d.copy(), z.copy(), z + 0.1 * rng.normal(size=len(z))
        expected, duals = d.copy(), z.copy()
        for t, (p, q, r) in enumerate(zip(*sides, strict=True)):
            ahead = duals[t] + beta * (duals[t] - before[t])
            excess = expected[p] - expected[q] - expected[r]
            change = max(excess / (inverse[p] + inverse[q] + inverse[r]), -ahead)
            expected[p] -= change * inverse[p]
            expected[q] += change * inverse[q]
            expected[r] += change * inverse[r]
            duals[t] = ahead + change
        if weighted:
            sweep_weighted(x, inverse, *sides, new, before, beta, False, 0, len(z))
        else:
            sweep_even(x, *sides, new, before, beta, False, 0, len(z))
        np.testing.assert_allclose(x, expected, atol=1e-13)
        np.testing.assert_allclose(new, duals, atol=1e-13)
        np.testing.assert_array_equal(before, z)
        assert (new >= -1e-15).all()


def test_bent_sweeps_without_bends_are_plain_ones():
    d, sides, z, h = instance(2)
    inf, zero = np.full(len(d), np.inf), np.zeros(len(d))
    table = np.stack([d, 1 / h, d, zero, -inf, inf], axis=1)
    x, new, before = d.copy(), z.copy(), z.copy()
    duals, earlier = z.copy(), z.copy()
    for _ in range(3):
        sweep_weighted(x, 1 / h, *sides, new, before, 0.5, False, 0, len(z))
        sweep_bent(table.ravel(), *sides, duals, earlier, 0.5, False, 0, len(z))
    np.testing.assert_allclose(table[:, 0], x, atol=1e-12)
    np.testing.assert_allclose(duals, new, atol=1e-12)


def test_dual_values():
    """What the moves return is the dual value: the minimum over x, term by term."""
    d, sides, z, h = instance(3)
    rng = np.random.default_rng(0)
    u = np.zeros(len(d))
    add_rows(u, *sides, z, 0, len(z))
    x = d - u / h
    value = 0.5 * np.sum(h * (x - d) ** 2) + row_product(x, *sides, z, 0, len(z))
    assert move_on(x.copy(), x.copy(), d, h, 0.0, 0, len(d)) == pytest.approx(value)
    centre, tau = d + 0.3 * rng.normal(size=len(d)), 0.4 * rng.random(len(d))
    low, high = np.maximum(d - 0.3, 0), d + 0.4
    table = np.stack([centre - u / h, 1 / h, d, tau, *bends(d, tau, low, high)], axis=1)
    points = np.empty(len(d))
    points_of(table.ravel(), 0, len(d), points)
    grid = low + (high - low) * np.linspace(0, 1, 4001)[:, None]
    terms = 0.5 * h * (grid - centre) ** 2 + h * tau * abs(grid - d) + u * grid
    np.testing.assert_allclose(points, grid[terms.argmin(axis=0), np.arange(len(d))], atol=5e-4)
    told = move_on_bent(table.ravel(), points.copy(), centre, 0.0, 0, len(d))
    assert told == pytest.approx(terms.min(axis=0).sum(), abs=1e-3)


def test_moves_add_a_share_of_the_last_step():
    d, _, _, h = instance(4)
    x, before = d + 0.5, d + 0.1
    for weights in (h, np.ones(1)):
        moved, earlier = x.copy(), before.copy()
        move_on(moved, earlier, d, weights, 0.25, 0, len(d))
        np.testing.assert_allclose(moved, x + 0.25 * (x - before))
        np.testing.assert_array_equal(earlier, x)


numbers = st.floats(-2, 2).map(lambda v: round(v, 2))


@given(st.lists(st.tuples(numbers, st.floats(0.1, 3), numbers, numbers, numbers), min_size=3))
@settings(max_examples=200, deadline=None)
def test_a_bent_row_is_solved(pairs):
    """After a step on one row its excess is 0, or its dual is 0 and the excess is not positive."""
    columns = np.array(pairs[:3]).T
    y, inverse, d = columns[0], columns[1], columns[2]
    tau = abs(columns[3])
    low, high = np.minimum(d, columns[4]), np.maximum(d, columns[4]) + 0.5
    table = np.stack([y, inverse, d, tau, *bends(d, tau, low, high)], axis=1)
    sides = [np.array([e], np.int32) for e in range(3)]
    z, before = np.array([0.3]), np.array([0.3])
    sweep_bent(table.ravel(), *sides, z, before, 0.0, False, 0, 1)
    x = [bend(*(float(v) for v in table[e, [0, 2, 3, 4, 5]])) for e in range(3)]
    excess = x[0] - x[1] - x[2]
    assert z[0] >= 0
    moved = inverse * (z[0] - 0.3) * np.array([-1, 1, 1])
    np.testing.assert_allclose(table[:, 0] - y, moved, atol=1e-14)
    possible = low[0] - high[1] - high[2] <= 0
    if z[0] == 0:
        assert excess <= 1e-9
    elif possible:
        assert abs(excess) <= 2e-3 * (1 + abs(y).max())
