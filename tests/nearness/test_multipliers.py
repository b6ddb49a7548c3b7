"""Multipliers prove the lower bound: checked in rational arithmetic, without rounding."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import metricmix as mm
from reference.exact_nearness import (
    dual_value,
    fractions,
    l1_optimum,
    linf_optimum,
    objective,
    pair,
    pull,
    rows,
    squares_on,
)
from reference.nearness import pairs

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def integers(n, rng, top=9):
    D = np.tril(rng.integers(1, top + 1, (n, n)).astype(float), -1)
    return D + D.T


def nearest(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        return mm.nearest_metric(*args, **options)


def box(D, norm, w, lower=None, upper=None):
    """The bounds L and U of the documentation."""
    d = pairs(D)
    known = (pairs(np.ones_like(D)) if w is None else w) > 0
    known &= ~np.isnan(d)
    low = np.zeros(len(d)) if lower is None else np.maximum(0, pairs(lower))
    high = np.full(D.shape, np.inf) if upper is None else np.array(upper, float)
    if norm == "increase":
        low = np.where(known, np.maximum(low, d), low)
    if norm == "decrease":
        high = np.fmin(high, D)
    np.fill_diagonal(high, 0)
    ceiling = max(d[known].max(), low.max())
    return fractions(low), fractions(np.minimum(pairs(mm.project(high)), ceiling))


def proved(result, D, norm, weights=None, **bounds):
    """The exact dual value of the multipliers, over the box of the documentation."""
    w = pairs(np.ones_like(D) if weights is None else weights)
    w = np.where(np.isnan(pairs(D)), 0.0, w)
    low, high = box(D, norm, w, **bounds)
    u = pull(len(D), result.triangles, result.multipliers)
    assert (result.multipliers > 0).all()
    return dual_value(norm, fractions(np.nan_to_num(pairs(D))), fractions(w), u, low, high)


@pytest.mark.parametrize("norm", NORMS)
def test_one_triangle(norm):
    """The exact multiplier of every violated triangle, with and without weights."""
    rng = np.random.default_rng(0)
    violated = 0
    for trial in range(120):
        D = integers(3, rng)
        W = integers(3, rng, 4) if trial % 2 else np.ones((3, 3))
        result = mm.nearest_metric(D, norm, W)
        long = int(pairs(D).argmax())
        i, j = ((1, 0), (2, 0), (2, 1))[long]
        k = 3 - i - j
        v = Fraction(D[i, j] - D[i, k] - D[k, j])
        if v <= 0 or norm == "decrease":  # then the shortest paths of the upper bounds decide
            assert len(result.multipliers) == 0
            continue
        violated += 1
        w, inverse = fractions(pairs(W)), [1 / c for c in fractions(pairs(W))]
        expected = {
            "l1": min(w),
            "linf": 1 / sum(inverse),
            "l2": 2 * v / sum(inverse),
            "increase": 2 * v / (sum(inverse) - inverse[long]),
        }[norm]
        assert sorted(result.triangles[0, :2].tolist()) == [j, i]
        assert result.triangles[0, 2] == k
        assert result.multipliers == pytest.approx([float(expected)], rel=1e-12)
    assert violated > 20 or norm == "decrease"


def test_the_example_of_absolute_changes():
    D = np.array([[0.0, 1, 7], [1, 0, 3], [7, 3, 0]])
    assert mm.nearest_metric(D, "l1").multipliers == pytest.approx([1.0], rel=1e-14)


@pytest.mark.parametrize("n", [4, 5])
def test_absolute_changes_against_an_exact_linear_program(n):
    rng = np.random.default_rng(n)
    for trial in range(25 if n == 4 else 8):
        D = integers(n, rng)
        W = integers(n, rng, 4) if trial % 2 else np.ones((n, n))
        result = nearest(D, "l1", W, tol=1e-9)
        best = l1_optimum(n, fractions(pairs(D)), fractions(pairs(W)))
        value = proved(result, D, "l1", W)
        assert value <= best
        assert float(value) == pytest.approx(result.lower_bound, rel=1e-12, abs=1e-12)
        assert float(value) == pytest.approx(float(best), rel=2e-9)
        assert result.objective == pytest.approx(float(best), rel=2e-9)


@pytest.mark.parametrize("n", [4, 5])
def test_largest_change_against_all_paths(n):
    rng = np.random.default_rng(n)
    for trial in range(25 if n == 4 else 8):
        D = integers(n, rng)
        W = integers(n, rng, 4) if trial % 2 else np.ones((n, n))
        result = mm.nearest_metric(D, "linf", W)
        best = linf_optimum(n, fractions(pairs(D)), fractions(pairs(W)))
        value = proved(result, D, "linf", W)
        assert value <= best
        assert float(value) == pytest.approx(float(best), rel=1e-12)
        assert result.lower_bound == pytest.approx(float(best), rel=1e-12)
        # The pull of a path inequality: the changes that it forces add up to 1.
        u = pull(n, result.triangles, result.multipliers)
        loads = [abs(a) / b for a, b in zip(u, fractions(pairs(W)), strict=True)]
        assert float(sum(loads)) == pytest.approx(float(best > 0), rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "increase"])
@pytest.mark.parametrize("n", [4, 5])
def test_squares_against_exact_conditions(norm, n):
    """The active set found is solved exactly; where it is regular, so are the multipliers."""
    rng = np.random.default_rng(n)
    compared = 0
    for trial in range(25 if n == 4 else 10):
        D = integers(n, rng)
        W = integers(n, rng, 4) if trial % 2 else np.ones((n, n))
        result = nearest(D, norm, W, tol=1e-14)
        value = proved(result, D, norm, W)
        d, w = fractions(pairs(D)), fractions(pairs(W))
        assert float(value) == pytest.approx(result.lower_bound, rel=1e-9, abs=1e-12)
        matter = result.multipliers > 1e-6
        found = zip(result.triangles[matter].tolist(), result.multipliers[matter], strict=True)
        active, floats = [], []
        for (i, j, k), z in found:
            active.append(({pair(i, j): 1, pair(i, k): -1, pair(k, j): -1}, 0))
            floats.append(z)
        if norm == "increase":
            u = pull(n, result.triangles, result.multipliers)
            for e, (x, b) in enumerate(zip(pairs(result.metric), d, strict=True)):
                if x - b < 1e-6 and u[e] > 1e-6:
                    active.append(({e: 1}, b))
        exact = squares_on(active, d, w)
        if exact is None:  # multipliers are not unique
            continue
        x, z = exact
        # A proof without rounding that x is optimal: feasible, stationary, signs of multipliers.
        assert all(x[ij] <= x[ik] + x[kj] for ij, ik, kj in rows(n))
        assert norm == "l2" or all(a >= b for a, b in zip(x, d, strict=True))
        assert all(v >= 0 for v in z[: len(floats)])
        assert all(v <= 0 for v in z[len(floats) :])
        best = objective(norm, x, d, w)
        assert value <= best
        assert float(value) == pytest.approx(float(best), rel=1e-9)
        np.testing.assert_allclose(pairs(result.metric), [float(v) for v in x], atol=1e-5)
        np.testing.assert_allclose(floats, [float(v) for v in z[: len(floats)]], atol=1e-4)
        compared += 1
    assert compared > 5


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("max_iter", [0, 1, 3, 200])
def test_multipliers_prove_the_bound_whenever_the_run_ends(norm, max_iter):
    """With weights, missing entries and bounds; q(z) is at least the bound that is reported."""
    rng = np.random.default_rng(7)
    for trial in range(6):
        n = 6
        D = np.tril(rng.exponential(1.0, (n, n)), -1)
        D += D.T
        W = integers(n, rng, 4)
        bounds = {}
        if trial % 3 == 1:
            middle = mm.project(D) if norm != "increase" else D + D.max()
            bounds = {"lower": 0.9 * middle, "upper": 1.3 * middle}
        if trial % 3 == 2:
            D[0, 3] = D[3, 0] = D[1, 5] = D[5, 1] = np.nan
        result = nearest(D, norm, W, max_iter=max_iter, tol=1e-9, **bounds)
        value = float(proved(result, D, norm, W, **bounds))
        assert value >= result.lower_bound * (1 - 1e-9) - 1e-12
        assert value <= result.objective * (1 + 1e-12)
        if norm == "l1":
            assert value == pytest.approx(result.lower_bound, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_units_of_multipliers(norm):
    """f has the unit of w d or w d^2, a constraint that of d."""
    D, W = integers(6, np.random.default_rng(3)), integers(6, np.random.default_rng(4))
    result = nearest(D, norm, W, tol=1e-9)
    other = nearest(1024 * D, norm, 4 * W, tol=1e-9)
    np.testing.assert_array_equal(other.triangles, result.triangles)
    factor = 4 * (1 if norm in ("l1", "linf") else 1024)
    np.testing.assert_array_equal(other.multipliers, factor * result.multipliers)
