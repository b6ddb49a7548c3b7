"""Entries of very different size: a small one is judged by its own size, not by the largest."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

import metricmix as mm

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def beside(huge):
    """A violated triangle, 2 > 0.5 + 0.5, beside a far item."""
    b = huge
    return np.array([[0, 2, 0.5, b], [2, 0, 0.5, b], [0.5, 0.5, 0, b], [b, b, b, 0]])


def mask(n, *pairs):
    chosen = np.zeros((n, n), bool)
    for i, j in pairs:
        chosen[i, j] = chosen[j, i] = True
    return chosen


def exact_closure(lengths):
    """Shortest paths in rational arithmetic; None is no edge."""
    n = len(lengths)
    closed = [list(row) for row in lengths]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if closed[i][k] is not None and closed[k][j] is not None:
                    path = closed[i][k] + closed[k][j]
                    if closed[i][j] is None or path < closed[i][j]:
                        closed[i][j] = path
    return closed


def is_feasible(D, norm, fixed):
    """Whether some metric keeps the fixed entries exactly."""
    n = len(D)
    capped = fixed | (norm == "decrease") | np.eye(n, dtype=bool)
    upper = [[Fraction(D[i, j]) if capped[i, j] else None for j in range(n)] for i in range(n)]
    closed = exact_closure(upper)
    raised = fixed | (norm == "increase")
    return all(
        closed[i][j] is None or closed[i][j] >= Fraction(D[i, j])
        for i in range(n)
        for j in range(n)
        if raised[i, j]
    )


def relative_violation(M):
    """The largest violation of a triangle inequality, as a share of the longest side."""
    exact = [[Fraction(x) for x in row] for row in M.tolist()]
    worst = Fraction(0)
    for i, j, k in permutations(range(len(M)), 3):
        if exact[i][j] > 0:
            worst = max(worst, (exact[i][j] - exact[i][k] - exact[k][j]) / exact[i][j])
    return float(worst)


def nearest(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        return mm.nearest_metric(*args, **options)


@pytest.mark.parametrize("huge", [1e3, 1e6, 1e9, 1e12, 1e16, 1e100])
def test_fixed_entries_that_no_metric_keeps(huge):
    with pytest.raises(mm.InputError, match=r"allow at most 1 between \(0, 1\), less .* bound 2"):
        mm.nearest_metric(beside(huge), "decrease", fixed=mask(4, (0, 1)))
    together = mask(4, (0, 1), (0, 2), (1, 2))
    for norm in NORMS:
        with pytest.raises(mm.InputError, match="some metric satisfies"):
            mm.nearest_metric(beside(huge), norm, fixed=together)


@pytest.mark.parametrize("huge", [1e3, 1e9, 1e16, 1e100])
@pytest.mark.parametrize("norm", NORMS)
def test_bounds_that_no_metric_keeps(norm, huge):
    D = np.where(np.eye(4) > 0, 0.0, huge)
    upper = np.full((4, 4), np.nan)
    upper[0, 2] = upper[2, 0] = upper[1, 2] = upper[2, 1] = 0.5
    lower = np.zeros((4, 4))
    lower[0, 1] = lower[1, 0] = 1.0 + 1e-6
    D = np.fmin(D, upper) if norm == "increase" else D
    with pytest.raises(mm.InputError, match=r"some metric satisfies.*\(0, 1\)"):
        mm.nearest_metric(D, norm, lower=lower, upper=upper)


@pytest.mark.parametrize("huge", [1e3, 1e9, 1e16, 1e100])
@pytest.mark.parametrize(
    ("norm", "best"),
    [("l2", 1 / 3), ("l1", 1), ("linf", 1 / 3), ("decrease", 1), ("increase", 0.5)],
)
def test_small_triangles_are_repaired(norm, best, huge):
    """Before, a violation below the rounding of the largest entry passed for a metric."""
    result = nearest(beside(huge), norm)
    assert result.lower_bound == pytest.approx(best, rel=1e-6)
    assert relative_violation(result.metric) <= 1e-14
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.converged


def test_the_largest_change_ends_where_the_arithmetic_does():
    """Lengths around 1e8, and changes that only their last digits decide."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        X = rng.normal(size=(4, 2)) * 10.0 ** rng.uniform(-8, 8, (4, 1))
        D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1))
        D[0, 1] *= 3.0
        D[1, 0] = D[0, 1]
        W = np.tril(10.0 ** rng.uniform(-3, 3, (4, 4)), -1)
        result = nearest(D, "linf", W + W.T)
        assert result.n_iter < 100
        assert result.status in (mm.Status.CONVERGED, mm.Status.STALLED)


@pytest.mark.parametrize("norm", NORMS)
def test_fixed_entries_are_kept_to_the_last_bit_or_refused(norm):
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(60):
        n = int(rng.integers(3, 6))
        spread = (0.5, 3.0, 9.0)[trial % 3]
        D = np.tril(10.0 ** rng.uniform(-spread, spread, (n, n)), -1)
        D += D.T
        fixed = np.tril(rng.random((n, n)) < 0.25, -1)
        fixed |= fixed.T
        feasible = is_feasible(D, norm, fixed)
        try:
            result = nearest(D, norm, fixed=fixed, max_iter=30)
        except mm.InputError:
            assert not feasible
            refused += 1
            continue
        assert feasible
        np.testing.assert_array_equal(result.metric[fixed], D[fixed])
        assert relative_violation(result.metric) <= 1e-13
    assert 0 < refused < 60


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("huge", [1.0, 1e9])
def test_fixed_entries_infeasible_by_rounding_are_kept(norm, huge):
    D = np.array([[0, 0.3 * (1 + 1e-11), 0.1, 1], [0, 0, 0.2, 1], [0, 0, 0, 1], [0, 0, 0, 0]])
    D[:3, 3] = huge
    D += D.T
    fixed = mask(4, (0, 1), (0, 2), (1, 2))
    result = mm.nearest_metric(D, norm, fixed=fixed)
    np.testing.assert_array_equal(result.metric[fixed], D[fixed])
    assert relative_violation(result.metric) <= 1e-10
    assert result.objective == 0.0


def test_fixed_entries_must_be_symmetric_to_the_last_bit():
    D = beside(1.0)
    D[0, 3] = 1.0 + 1e-15
    assert mm.nearest_metric(D).converged
    with pytest.raises(mm.InputError, match=r"fixed entries .* both sides.*\(0, 3\) and \(3, 0\)"):
        mm.nearest_metric(D, fixed=mask(4, (0, 3)))


@pytest.mark.parametrize("norm", NORMS)
def test_bounds_hold_exactly(norm):
    """Also for small entries beside large ones."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        D = np.tril(10.0 ** rng.uniform(-6, 6, (5, 5)), -1)
        D += D.T
        middle = mm.project(D) if norm != "increase" else D + D.max()
        lower, upper = 0.7 * middle, 1.2 * middle
        np.fill_diagonal(lower, 0.0)
        result = nearest(D, norm, lower=lower, upper=upper, max_iter=30)
        assert (result.metric >= lower).all()
        assert (result.metric <= upper).all()
        assert relative_violation(result.metric) <= 1e-13


def test_entries_that_would_vanish_are_refused():
    with pytest.raises(mm.InputError, match="300 orders of magnitude"):
        mm.nearest_metric(1e149 * beside(1e-315))


@pytest.mark.parametrize("norm", NORMS)
def test_advice_fits_the_norm(norm, monkeypatch):
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 100)
    with pytest.raises(mm.InputError) as caught:
        mm.nearest_metric(beside(1.0), norm)
    needs_more = norm not in ("decrease", "linf")
    assert ("norm='decrease'" in str(caught.value)) == needs_more
