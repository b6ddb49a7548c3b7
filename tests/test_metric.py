"""What a metric is: every law broken on its own, and all of them against three loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from metricmix.exceptions import InputError, NotAMetricError
from metricmix.kernels.triangles import largest_excess, survey_pairs, worst_of_rows
from metricmix.metric import check_metric, is_metric, metric_violations
from reference.closure import broken_triangles, closure_by_rows

LINE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])


def changed(**entries):
    D = LINE.copy()
    for place, value in entries.items():
        D[int(place[1]), int(place[2])] = value
    return D


def euclidean(n, dtype=np.float64, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1)).astype(dtype)


def test_a_metric():
    report = metric_violations(LINE)
    amounts = (report.asymmetry, report.diagonal, report.negativity, report.triangle)
    assert amounts == (0, 0, 0, 0)
    assert report.worst_triangle is None
    assert report.n_triangle_violations == report.zero_pairs == 0
    assert (report.n, report.scale, report.tolerance) == (3, 2.0, 2e-9)
    assert is_metric(LINE)
    assert is_metric(LINE, strict=True)
    assert is_metric(LINE, directed=True)
    check_metric(LINE)


@pytest.mark.parametrize(
    ("D", "field", "amount", "message"),
    [
        (
            changed(a02=5, a20=5),
            "triangle",
            3.0,
            r"d\(0, 2\) = 5 > d\(0, 1\) \+ d\(1, 2\) = 1 \+ 1",
        ),
        (changed(a01=1.5), "asymmetry", 0.5, r"asymmetry 0.5 at \(1, 0\)"),
        (changed(a11=0.25), "diagonal", 0.25, r"0.25 on the diagonal, at item 1"),
        (changed(a11=-0.25), "negativity", 0.25, r"negative entry -0.25 at \(1, 1\)"),
        (
            changed(a01=-9, a10=-9),
            "triangle",
            10.0,
            r"d\(0, 2\) = 2 > d\(0, 1\) \+ d\(1, 2\) = -9 \+ 1",
        ),
    ],
)
def test_each_law_broken(D, field, amount, message):
    report = metric_violations(D)
    assert getattr(report, field) == pytest.approx(amount)
    assert not is_metric(D)
    with pytest.raises(NotAMetricError, match=message) as caught:
        check_metric(D)
    assert caught.value.violations == report
    assert isinstance(caught.value, ValueError)


def test_two_negative_items():
    report = metric_violations([[0.0, -1.0], [-1.0, 0.0]])
    assert report.negativity == 1.0
    assert report.worst_negative == (1, 0)
    with pytest.raises(NotAMetricError, match=r"negative entry -1 at \(1, 0\)"):
        check_metric([[0.0, -1.0], [-1.0, 0.0]])


def test_zero_distances_make_a_pseudo_metric():
    D = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert is_metric(D)
    assert not is_metric(D, strict=True)
    assert metric_violations(D).zero_pairs == 1
    assert metric_violations(D, directed=True).zero_pairs == 2
    check_metric(D)
    with pytest.raises(NotAMetricError, match="1 pairs of different items at distance 0"):
        check_metric(D, strict=True)
    assert "pseudo-metric" in str(metric_violations(D))


@pytest.mark.parametrize("n", [1, 2])
def test_few_items(n):
    D = np.ones((n, n)) - np.eye(n)
    assert is_metric(D, strict=True)
    assert metric_violations(D, directed=True).n == n


def test_all_zero():
    assert is_metric(np.zeros((4, 4)))
    assert metric_violations(np.zeros((4, 4))).zero_pairs == 6


def test_directed_leaves_symmetry_out():
    D = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [2.0, 3.0, 0.0]])
    assert is_metric(D, directed=True)
    assert not is_metric(D)
    assert metric_violations(D, directed=True).asymmetry == 0
    D[1, 0] = 5
    report = metric_violations(D, directed=True)
    assert (report.triangle, report.worst_triangle) == (2.0, (1, 2, 0))
    assert report.n_triangle_violations == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [3, 7, 40])
@pytest.mark.parametrize("shift", [0.0, -0.3])
def test_agrees_with_three_loops(n, directed, dtype, shift):
    """Also with negative entries (shift) and with a diagonal that is not 0, which is ignored."""
    D = np.random.default_rng(n).random((n, n)).astype(dtype) + dtype(shift)
    if not directed:
        D = np.maximum(D, D.T)
    np.fill_diagonal(D, 0.1)
    report = metric_violations(D, directed, tol=1e-3)
    worst, pairs = broken_triangles(D, report.tolerance, directed)
    assert report.triangle == pytest.approx(worst, rel=1e-5)
    assert report.n_triangle_violations == len(pairs)
    assert report.diagonal == pytest.approx(0.1)
    assert report.negativity == pytest.approx(max(0.0, -D.min()))
    if report.worst_triangle is None:
        assert worst <= 0
    else:
        i, k, j = report.worst_triangle
        assert len({i, k, j}) == 3
        assert float(D[i, j]) - float(D[i, k]) - float(D[k, j]) == pytest.approx(worst, rel=1e-5)
        assert report.triangle_lengths == (D[i, j], D[i, k], D[k, j])


@pytest.mark.parametrize("n", [383, 384, 385, 800])
def test_one_broken_triangle_is_found_anywhere(n):
    rng = np.random.default_rng(n)
    D = euclidean(n)
    for _ in range(3):
        i, j = sorted(rng.choice(n, 2, replace=False))
        broken = D.copy()
        broken[i, j] = broken[j, i] = 20.0
        report = metric_violations(broken)
        assert report.n_triangle_violations == 1
        assert (report.worst_triangle[0], report.worst_triangle[2]) == (i, j)
        assert metric_violations(broken, n_jobs=1) == report


def test_tolerance_is_relative_and_knows_the_precision():
    D = changed(a02=2 + 1e-6, a20=2 + 1e-6)
    assert not is_metric(D)
    assert is_metric(D, tol=1e-6)
    assert is_metric(1e6 * D, tol=1e-6)
    closed = closure_by_rows(15 * np.random.default_rng(0).random((200, 200)) + 1)
    closed = np.minimum(closed, closed.T)
    closed = closure_by_rows(closed)
    assert is_metric(closed.astype(np.float32))


def test_an_asymmetric_matrix_is_reported_in_both_directions():
    D = changed(a02=5)
    report = metric_violations(D)
    assert report.asymmetry == 3.0
    assert report.worst_asymmetry == (2, 0)
    assert report.worst_triangle == (0, 1, 2)
    assert report.n_triangle_violations == 1
    assert not report.is_metric()


def test_summary():
    text = str(metric_violations(changed(a02=5, a20=5)))
    assert text.startswith("not a metric: n = 3")
    assert "d(0, 2) = 5 > d(0, 1) + d(1, 2) = 1 + 1" in text
    assert str(metric_violations(LINE)).startswith("a metric: n = 3")
    assert metric_violations(LINE).describe() == str(metric_violations(LINE))
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric_violations(LINE).n = 4


def test_input_is_not_modified_and_may_be_any_layout():
    D = np.asfortranarray(np.triu(euclidean(50)) + np.eye(50))
    given = D.copy()
    assert metric_violations(D) == metric_violations(np.ascontiguousarray(D))
    np.testing.assert_array_equal(D, given)


@pytest.mark.parametrize("function", [is_metric, check_metric, metric_violations])
@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.zeros((2, 3)), "D: expected a square matrix"),
        (np.zeros(3), "D: expected a square matrix"),
        (np.zeros((0, 0)), "D: expected at least one item"),
        ([[0.0, np.nan], [np.nan, 0.0]], r"D: expected finite entries, found nan at \(0, 1\)"),
        ([[0.0, np.inf], [np.inf, 0.0]], r"D: expected finite entries, found inf at \(0, 1\)"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_an_error(function, D, message):
    with pytest.raises(InputError, match=message) as caught:
        function(D)
    assert not isinstance(caught.value, NotAMetricError)


def test_a_bad_tolerance():
    with pytest.raises(InputError, match="tol: expected a number >= 0"):
        is_metric(LINE, tol=-1)


@pytest.mark.parametrize("lower", [False, True])
def test_kernels_against_loops(lower):
    rng = np.random.default_rng(0)
    D, reached = rng.random((2, 12, 12))
    low, high = 4, 9
    columns = high if lower else 12
    pairs = [(i, j) for i in range(low, high) for j in range(i if lower else 12) if i != j]
    excess = {(i, j): D[i, j] - reached[i, j] for i, j in pairs}
    shortest = np.ascontiguousarray(reached[low:high, :columns])
    worst, i, j, count = largest_excess(D, shortest, low, lower, 0.2)
    assert worst == max(excess.values()) == excess[i, j]
    assert count == sum(over > 0.2 for over in excess.values())
    amount, partner = np.empty(high - low), np.empty(high - low, np.int64)
    worst_of_rows(D, shortest, low, lower, 0.1, amount, partner)
    for i in range(low, high):
        of_row = {j: over + 0.1 for (a, j), over in excess.items() if a == i}
        expected = max(of_row.values())
        assert amount[i - low] == pytest.approx(max(expected, 0.0))
        if expected > 0:
            assert of_row[partner[i - low]] == pytest.approx(expected)


def test_survey_of_pairs_against_loops():
    rng = np.random.default_rng(1)
    D = rng.normal(size=(80, 80)).round(1)
    low, high = 5, 70
    found = survey_pairs(D, low, high)
    pairs = [(i, j) for i in range(low, high) for j in range(i)]
    both = [(D[i, j], D[j, i]) for i, j in pairs]
    assert found[0] == max(max(abs(a), abs(b)) for a, b in both)
    assert found[1] == max(abs(a - b) for a, b in both)
    assert abs(D[found[2], found[3]] - D[found[3], found[2]]) == found[1]
    assert found[4] == -min(min(a, b) for a, b in both) == -D[found[5], found[6]]
    assert found[7] == sum(a == 0 or b == 0 for a, b in both)
    assert found[8] == sum(a == b == 0 for a, b in both)
