"""Unknown entries: their intervals, and the values they get."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import metricmix as mm
from metricmix.nearness.unknown import fill_unknown

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def distances(n, seed=0, dim=2):
    place = np.random.default_rng(seed).normal(size=(n, dim))
    return np.sqrt(np.square(place[:, None] - place).sum(axis=-1))


def some_pairs(n, share, seed=0):
    """A share of all pairs but those of a cycle through all items, so that paths join them."""
    chosen = np.triu(np.random.default_rng(seed).random((n, n)) < share, 2)
    chosen[0, n - 1] = False
    return chosen | chosen.T


def extremes(known, unknown, i, j):
    """The smallest and the largest entry (i, j) of all metrics with these entries, by linear
    programs."""
    n = len(known)
    number = {pair: k for k, pair in enumerate(zip(*np.triu_indices(n, 1), strict=True))}
    rows = []
    for a, b in number:
        for c in set(range(n)) - {a, b}:
            row = np.zeros(len(number))
            row[number[a, b]] = 1
            row[number[min(a, c), max(a, c)]] = row[number[min(b, c), max(b, c)]] = -1
            rows.append(row)
    bounds = [(0, None) if unknown[pair] else (known[pair] - 1e-9, known[pair]) for pair in number]
    goal = np.zeros(len(number))
    goal[number[i, j]] = 1
    ends = [linprog(s * goal, rows, np.zeros(len(rows)), bounds=bounds).fun for s in (1, -1)]
    return ends[0], -ends[1]


@pytest.mark.parametrize("norm", NORMS)
def test_two_items_that_nobody_compared_are_not_identical(norm):
    D = np.ones((20, 20)) - np.eye(20)
    D[3, 7] = D[7, 3] = np.nan
    result = mm.nearest_metric(D, norm)
    assert result.metric[3, 7] == result.metric[7, 3] == 1.0
    assert result.filled.tolist() == [[3, 7]]
    assert result.allowed.tolist() == [[0.0, 2.0]]
    assert result.objective == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_those_of_all_metrics(seed):
    d, unknown = distances(6, seed), some_pairs(6, 0.5, seed)
    found = fill_unknown(d, unknown)
    for (i, j), (low, high) in zip(found.filled, found.allowed, strict=True):
        assert (low, high) == pytest.approx(extremes(d, unknown, i, j), abs=1e-7)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("dim", [1, 2, 8])
def test_the_filled_matrix_is_a_metric_inside_the_intervals(dim, share):
    n = 60
    d, unknown = distances(n, 1, dim), some_pairs(n, share)
    metric, filled, allowed = fill_unknown(d, unknown)
    np.testing.assert_array_equal(metric[~unknown], d[~unknown])
    np.testing.assert_array_equal(metric, metric.T)
    assert mm.is_metric(metric, tol=1e-13)
    value, (low, high) = metric[tuple(filled.T)], allowed.T
    room = high > low
    assert (low[room] < value[room]).all()
    assert (value[room] < high[room]).all()
    np.testing.assert_allclose(value[~room], high[~room], rtol=1e-12)
    if room.any():
        assert 0.4 < np.median((value - low)[room] / (high - low)[room]) < 0.6


def test_midpoints_where_they_are_a_metric():
    d, unknown = distances(30, dim=8), some_pairs(30, 0.1)
    metric, filled, allowed = fill_unknown(d, unknown)
    np.testing.assert_allclose(metric[tuple(filled.T)], allowed.mean(axis=1), rtol=1e-12)


def test_entries_move_up_where_short_paths_would_lower_a_known_one():
    """A long known entry over a chain of short ones: half of each would be too short."""
    n = 40
    d = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)
    unknown = np.abs(d) > 1
    unknown[0, -1] = unknown[-1, 0] = False
    d[0, -1] = d[-1, 0] = n - 4.0
    metric, filled, allowed = fill_unknown(d, unknown)
    assert mm.is_metric(metric, tol=1e-13)
    assert metric[0, -1] == n - 4.0
    value, (low, high) = metric[tuple(filled.T)], allowed.T
    assert ((low < value) & (value < high)).all()
    assert (value > allowed.mean(axis=1) + 0.1).any()


@pytest.mark.parametrize("seed", range(3))
def test_directed(seed):
    rng = np.random.default_rng(seed)
    d = mm.project(rng.random((12, 12)) * (1 - np.eye(12)), directed=True)
    unknown = rng.random((12, 12)) < 0.4
    unknown[np.arange(12), (np.arange(12) + 1) % 12] = False
    np.fill_diagonal(unknown, False)
    metric, filled, allowed = fill_unknown(d, unknown, directed=True)
    assert mm.is_metric(metric, directed=True, tol=1e-13)
    np.testing.assert_array_equal(metric[~unknown], d[~unknown])
    assert len(filled) == unknown.sum()
    value, (low, high) = metric[tuple(filled.T)], allowed.T
    assert ((low <= value) & (value <= high)).all()
    one = np.zeros_like(unknown)
    one[2, 5] = True
    alone = fill_unknown(d, one, directed=True)
    low = max(d[u, v] - d[u, 2] - d[5, v] for u in range(12) for v in range(12) if (u, v) != (2, 5))
    high = min(d[2, k] + d[k, 5] for k in range(12) if k not in (2, 5))
    np.testing.assert_allclose(alone.allowed, [[max(low, 0.0), high]])
    assert alone.metric[2, 5] == pytest.approx((max(low, 0.0) + high) / 2)


@pytest.mark.parametrize("norm", NORMS)
def test_bounds_narrow_the_interval(norm):
    D = np.ones((5, 5)) - np.eye(5)
    D[0, 1] = D[1, 0] = np.nan
    lower, upper = np.zeros((5, 5)), np.full((5, 5), np.inf)
    lower[0, 1] = lower[1, 0] = 0.5
    upper[0, 1] = upper[1, 0] = 1.0
    result = mm.nearest_metric(D, norm, lower=lower, upper=upper)
    assert result.allowed.tolist() == [[0.5, 1.0]]
    assert result.metric[0, 1] == 0.75


@pytest.mark.parametrize("norm", NORMS)
def test_filling_leaves_objective_and_bound_alone(norm):
    rng = np.random.default_rng(0)
    D = distances(12) * np.exp(rng.normal(size=(12, 12)))
    D = np.minimum(D, D.T)
    unknown = some_pairs(12, 0.4)
    result = mm.nearest_metric(np.where(unknown, np.nan, D), norm)
    weights = np.where(unknown, 0.0, 1.0)
    change = np.triu(weights * np.abs(result.metric - D))
    told = {"l1": change.sum(), "linf": change.max()}.get(norm, np.square(change).sum())
    assert result.objective == pytest.approx(told, rel=1e-9)
    assert result.lower_bound <= result.objective
    assert result.gap <= 1e-6
    assert mm.is_metric(result.metric)
    by_weight = mm.nearest_metric(D, norm, weights=weights)
    np.testing.assert_array_equal(by_weight.metric, result.metric)
    np.testing.assert_array_equal(by_weight.filled, np.argwhere(np.triu(unknown)))
    if norm == "linf":
        refined = mm.nearness.refine_linf(np.where(unknown, np.nan, D), result)
        value = refined.metric[tuple(refined.filled.T)]
        assert (refined.allowed[:, 0] <= value).all()
        assert (value <= refined.allowed[:, 1]).all()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_do_not_matter(n_jobs):
    d, unknown = distances(300), some_pairs(300, 0.6)
    one, more = fill_unknown(d, unknown, n_jobs=1), fill_unknown(d, unknown, n_jobs=n_jobs)
    for first, second in zip(one, more, strict=True):
        np.testing.assert_array_equal(first, second)
