"""What nearest_metric refuses, and how it says so."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix import memory

GOOD = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])


def changed(**entries):
    D = GOOD.copy()
    for (i, j), value in entries["at"].items():
        D[i, j] = value
    return D


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.ones((2, 3)), r"D: expected a square matrix \(n, n\), got shape \(2, 3\)"),
        (np.ones(3), r"D: expected a square matrix"),
        (np.empty((0, 0)), r"D: expected at least one item"),
        (changed(at={(0, 1): -1, (1, 0): -1}), r"D: expected non-negative .* -1 at \(0, 1\)"),
        (changed(at={(0, 1): np.inf, (1, 0): np.inf}), r"found inf at \(0, 1\); mark missing"),
        (changed(at={(0, 1): -np.inf}), r"found -inf"),
        (changed(at={(0, 1): 3}), r"D: expected symmetric, largest asymmetry 2"),
        (changed(at={(1, 1): 3}), r"D: expected a zero diagonal, found 3"),
        (1e160 * GOOD, r"D: expected entries up to 1e\+150, found .*; take another unit"),
        (np.full((3, 3), np.nan), r"D: expected at least one known entry"),
        ([[0, "a"], ["a", 0]], r"D: expected real numbers"),
        ([[0, 1], [1]], r"D: expected rows of equal length"),
    ],
)
def test_matrices(D, message):
    with pytest.raises(mm.InputError, match=message):
        mm.nearest_metric(D)


def test_an_entry_that_is_known_on_one_side_is_known():
    one_sided = np.where(np.triu(np.ones((3, 3)), 1) > 0, np.nan, GOOD)
    found = mm.nearest_metric(one_sided)
    assert (found.metric == mm.nearest_metric(GOOD).metric).all()
    assert len(found.filled) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l3"}, r"norm: expected one of 'l2', .*got 'l3'"),
        ({"tol": -1}, r"tol: expected a number >= 0"),
        ({"tol": "small"}, r"tol: expected a number"),
        ({"max_iter": -1}, r"max_iter: expected a whole number >= 0"),
        ({"max_iter": 1.5}, r"max_iter: expected a whole number"),
        ({"time_limit": -1}, r"time_limit: expected a number >= 0"),
        ({"n_jobs": 0}, r"n_jobs: expected None or a whole number other than 0"),
        ({"weights": np.ones((2, 2))}, r"weights: expected shape \(3, 3\), like D, got \(2, 2\)"),
        ({"weights": 2.0}, r"weights: expected shape"),
        ({"weights": -np.ones((3, 3))}, r"weights: expected non-negative entries"),
        ({"weights": np.full((3, 3), np.nan)}, r"weights: expected finite entries"),
        ({"weights": np.triu(np.ones((3, 3)))}, r"weights: expected symmetric"),
        ({"weights": np.zeros((3, 3))}, r"expected at least one known entry with a weight"),
        ({"lower": np.ones((2, 2))}, r"lower: expected a number or shape \(3, 3\)"),
        ({"lower": np.triu(np.ones((3, 3)))}, r"lower: expected symmetric bounds"),
        ({"lower": np.inf}, r"lower: expected finite bounds or -inf, found inf"),
        ({"upper": -np.inf}, r"upper: expected finite bounds or inf, found -inf"),
        ({"upper": -1.0}, r"upper: expected bounds >= 0, found -1 at \(0, 1\)"),
        ({"lower": 3.0, "upper": 2.0}, r"expected lower <= upper, found 3 > 2 at \(0, 1\)"),
        ({"fixed": np.ones((3, 3))}, r"fixed: expected a mask of True and False"),
        ({"fixed": np.ones((2, 2), bool)}, r"fixed: expected a mask .* shape \(2, 2\)"),
        ({"fixed": np.triu(np.ones((3, 3), bool))}, r"fixed: expected a symmetric mask"),
        ({"fixed": np.ones((3, 3), bool)}, r"allow at most 3 between \(0, 2\), less .* bound 5"),
        ({"start": np.ones((2, 3))}, r"start: expected a square matrix"),
        ({"start": np.zeros((2, 2))}, r"start: expected shape \(3, 3\), got \(2, 2\)"),
        ({"norm": "decrease", "lower": 4.0}, r"expected lower <= upper, found 4 > 1|bounds that"),
    ],
)
def test_options(options, message):
    with pytest.raises(mm.InputError, match=message):
        mm.nearest_metric(GOOD, **options)


def test_a_result_of_another_size_is_no_start():
    other = mm.nearest_metric(np.zeros((4, 4)))
    with pytest.raises(mm.InputError, match="start: expected a result for 3 items"):
        mm.nearest_metric(GOOD, start=other)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "decrease", "increase"])
def test_bounds_that_no_metric_keeps(norm):
    """Two short sides from above, a long third one from below."""
    upper = np.array([[0, 1, np.nan], [1, 0, 1], [np.nan, 1, 0]])
    lower = np.array([[0, 0, 3], [0, 0, 0], [3, 0, 0]])
    with pytest.raises(mm.InputError, match=r"some metric satisfies.*at most 2 between \(0, 2\)"):
        mm.nearest_metric(GOOD, norm, upper=upper, lower=lower)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "decrease", "increase"])
def test_items_without_a_path(norm):
    D = np.full((4, 4), np.nan)
    np.fill_diagonal(D, 0)
    D[0, 1] = D[1, 0] = D[2, 3] = D[3, 2] = 1.0
    with pytest.raises(mm.InputError, match=r"path of known .* none between \(0, 2\)"):
        mm.nearest_metric(D, norm)
    upper = np.full((4, 4), np.nan)
    upper[0, 2] = upper[2, 0] = 5.0
    assert mm.is_metric(mm.nearest_metric(D, norm, upper=upper).metric)


def test_fixed_entries_must_be_known():
    D = GOOD.copy()
    D[0, 1] = D[1, 0] = np.nan
    with pytest.raises(mm.InputError, match="fixed: expected entries that are known"):
        mm.nearest_metric(D, fixed=np.isnan(D))


def test_too_large_for_memory(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    D = np.broadcast_to(0.0, (100_000, 100_000))  # takes no memory itself
    with pytest.raises(mm.InputError, match=r"for 100000 items and 1 GiB .* for 1891 items"):
        mm.nearest_metric(D)
    with pytest.raises(mm.InputError, match="enough for 2991 items"):
        mm.nearest_metric(D, "linf")
    assert mm.nearest_metric(GOOD).converged
