"""Coordinate ascent: every kernel against its slow version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metricmix.nearness.constraints import ConstraintArrays
from metricmix.nearness.coordinate_ascent import extrapolate, sweep_unweighted, sweep_weighted
from metricmix.nearness.proximal_ascent import (
    WIDTH,
    extrapolate_proximal,
    proximal_points,
    soft_threshold,
    solve_coordinate,
    sweep_proximal,
    thresholds,
)
from reference.coordinate_ascent import constraint_matrix, coordinate_step, prox, sweep


def instance(seed, n=9, count=60):
    """Random d, constraints with duals, and h."""
    rng = np.random.default_rng(seed)
    pairs = n * (n - 1) // 2
    chosen = np.stack([rng.choice(pairs, 3, replace=False) for _ in range(count)])
    ij, ik, kj = (np.ascontiguousarray(column, np.int32) for column in chosen.T)
    z = np.maximum(rng.normal(size=count), 0)
    constraints = ConstraintArrays(ij, ik, kj, z, z + 0.1 * rng.normal(size=count))
    return rng.random(pairs), constraints, rng.random(pairs) + 0.2


def copied(constraints):
    return constraints._replace(dual=constraints.dual.copy(), previous=constraints.previous.copy())


def check_same(x, constraints, expected):
    np.testing.assert_allclose(x, expected[0], atol=1e-12)
    np.testing.assert_allclose(constraints.dual, expected[1], atol=1e-12)
    np.testing.assert_allclose(constraints.previous, expected[2], atol=1e-14)
    assert (constraints.dual >= -1e-15).all()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_quadratic_sweeps(beta, backward):
    d, constraints, h = instance(0)
    every = (beta, backward, 0, len(constraints.dual))
    x, swept = d.copy(), copied(constraints)
    sweep_unweighted(x, swept, *every)
    check_same(x, swept, sweep(d, np.ones(len(d)), constraints, beta, backward))
    x, swept = d.copy(), copied(constraints)
    sweep_weighted(x, 1 / h, swept, *every)
    check_same(x, swept, sweep(d, 1 / h, constraints, beta, backward))


def test_parts_of_a_sweep_are_the_sweep():
    d, constraints, h = instance(1)
    x, swept = d.copy(), copied(constraints)
    for start, stop in ((0, 20), (20, 45), (45, 60)):
        sweep_weighted(x, 1 / h, swept, 0.5, False, start, stop)
    check_same(x, swept, sweep(d, 1 / h, constraints, 0.5))


@pytest.mark.parametrize("backward", [False, True])
def test_proximal_sweeps_without_thresholds_are_quadratic_ones(backward):
    d, constraints, h = instance(2)
    infinite, zero = np.full(len(d), np.inf), np.zeros(len(d))
    table = np.stack([d, 1 / h, d, zero, -infinite, infinite], axis=1)
    x, swept = d.copy(), copied(constraints)
    expected = d, constraints.dual, constraints.previous
    for _ in range(3):
        sweep_proximal(table.ravel(), swept, 0.5, backward, 0, len(swept.dual))
        before = constraints._replace(dual=expected[1], previous=expected[2])
        expected = sweep(expected[0], 1 / h, before, 0.5, backward)
    proximal_points(table.ravel(), 0, len(d), x)
    check_same(x, swept, expected)


def test_dual_values():
    """Extrapolation returns the dual value: the minimum over x, term by term."""
    d, constraints, h = instance(3)
    rng = np.random.default_rng(0)
    A = constraint_matrix(*constraints[:3], len(d))
    u = A.T @ constraints.dual
    x = d - u / h
    value = 0.5 * np.sum(h * (x - d) ** 2) + constraints.dual @ A @ x
    assert extrapolate(x.copy(), x.copy(), d, h, 0.0, 0, len(d)) == pytest.approx(value)
    centre, tau = d + 0.3 * rng.normal(size=len(d)), 0.4 * rng.random(len(d))
    low, high = np.maximum(d - 0.3, 0), d + 0.4
    table = np.stack([centre - u / h, 1 / h, d, tau, *thresholds(d, tau, low, high)], axis=1)
    points = np.empty(len(d))
    proximal_points(table.ravel(), 0, len(d), points)
    grid = low + (high - low) * np.linspace(0, 1, 4001)[:, None]
    terms = 0.5 * h * (grid - centre) ** 2 + h * tau * abs(grid - d) + u * grid
    np.testing.assert_allclose(points, grid[terms.argmin(axis=0), np.arange(len(d))], atol=5e-4)
    found = extrapolate_proximal(table.ravel(), points.copy(), centre, 0.0, 0, len(d))
    assert found == pytest.approx(terms.min(axis=0).sum(), abs=1e-3)


def test_extrapolation_adds_a_share_of_the_last_step():
    d, _, h = instance(4)
    x, previous = d + 0.5, d + 0.1
    for weights in (h, np.ones(1)):
        moved, earlier = x.copy(), previous.copy()
        extrapolate(moved, earlier, d, weights, 0.25, 0, len(d))
        np.testing.assert_allclose(moved, x + 0.25 * (x - previous))
        np.testing.assert_array_equal(earlier, x)
    table = np.stack([x, 1 / h, d, h, d, d + 9], axis=1)
    earlier = previous.copy()
    extrapolate_proximal(table.ravel(), earlier, d, 0.25, 0, len(d))
    np.testing.assert_allclose(table[:, 0], x + 0.25 * (x - previous))
    np.testing.assert_array_equal(earlier, x)


numbers = st.floats(-2, 2).map(lambda v: round(v, 2))


@given(y=numbers, d=numbers, tau=st.floats(0, 2), ends=st.tuples(numbers, numbers))
@settings(max_examples=200, deadline=None)
def test_soft_threshold(y, d, tau, ends):
    low, high = min(ends), max(ends)
    first, last = (float(v) for v in thresholds(*(np.array(v) for v in (d, tau, low, high))))
    assert soft_threshold(y, d, tau, first, last) == pytest.approx(
        prox(y, d, tau, low, high), abs=1e-6
    )


triples = st.lists(
    st.tuples(numbers, st.floats(0.1, 3), numbers, numbers, numbers), min_size=3, max_size=3
)


def table_of(pairs):
    """Return a table of three pairs, and its bounds."""
    y, inverse, d, tau, other = np.array(pairs).T
    low, high = np.minimum(d, other), np.maximum(d, other) + 0.5
    tau = abs(tau)
    return np.stack([y, inverse, d, tau, *thresholds(d, tau, low, high)], axis=1), low, high


def excess(table):
    x = np.empty(3)
    proximal_points(table.ravel(), 0, 3, x)
    return x[0] - x[1] - x[2]


@given(triples)
@settings(max_examples=200, deadline=None)
def test_the_step_of_a_coordinate(pairs):
    """The violation after the step is that of bisection: 0, unless the bounds forbid it."""
    table, low, high = table_of(pairs)
    y, inverse = table[:, 0].copy(), table[:, 1]
    change = solve_coordinate(table.ravel(), 0, WIDTH, 2 * WIDTH, 0.0, -0.3)
    assert change >= -0.3
    expected = coordinate_step(
        y, inverse, lambda k, value: soft_threshold(value, *table[k, 2:]), -0.3
    )
    sign = np.array([-1, 1, 1])
    table[:, 0] = y + sign * inverse * change
    found = excess(table)
    table[:, 0] = y + sign * inverse * expected
    size = 1 + abs(y).max()
    assert found == pytest.approx(excess(table), abs=1e-9 * size)
    if change > -0.3 and low[0] - high[1] - high[2] <= 0:
        assert abs(found) <= 1e-9 * size


@given(triples)
@example([(0.0, 2.0, 0.89, 0.5, 0.0), (0.0, 2.90234375, 1.5, 1.76, 0.0), (0.0, 1.0, 0.0, 0.0, 0.0)])
@settings(max_examples=200, deadline=None)
def test_a_proximal_sweep_solves_one_constraint(pairs):
    """After it the violation is 0, or the dual is 0 and the violation is not positive.

    Up to a thousandth of the violation before: the sweep takes a Newton step that is that good.
    """
    table, low, high = table_of(pairs)
    before = abs(excess(table))
    y, inverse = table[:, 0].copy(), table[:, 1].copy()
    ij, ik, kj = (np.array([e], np.int32) for e in range(3))
    constraint = ConstraintArrays(ij, ik, kj, np.array([0.3]), np.array([0.3]))
    sweep_proximal(table.ravel(), constraint, 0.0, False, 0, 1)
    z = constraint.dual[0]
    assert z >= 0
    moved = inverse * (z - 0.3) * np.array([-1, 1, 1])
    np.testing.assert_allclose(table[:, 0] - y, moved, atol=1e-14)
    if z == 0:
        assert excess(table) <= 1e-3 * before + 1e-9
    elif low[0] - high[1] - high[2] <= 0:
        assert abs(excess(table)) <= 2e-3 * (1 + abs(y).max())
