"""Items that explain violated triangles: those that were corrupted, whatever was done to them."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.exceptions import InputError
from metricmix.nearness import (
    ViolationCount,
    items_explaining_violations,
    violation_counts,
    worst_triangles,
)
from reference.triangles import broken_triangles, excesses, greedy_cover


def points(n, rng):
    place = rng.normal(size=(n, 3))
    return np.sqrt(((place[:, None] - place) ** 2).sum(-1))


def shuffled(row, rng):
    return row[rng.permutation(len(row))]


def noisy(row, rng):
    return abs(row + rng.normal(size=len(row)) * 0.3 * row.mean())


CORRUPTIONS = {
    "too long": lambda row, rng: 3 * row,
    "a little too long": lambda row, rng: 1.5 * row,
    "too short": lambda row, rng: 0.3 * row,
    "shuffled": shuffled,
    "noisy": noisy,
}


def random_matrix(seed, n):
    d = np.random.default_rng(seed).random((n, n))
    d = d + d.T
    np.fill_diagonal(d, 0)
    return d


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize(("n", "count"), [(60, 1), (60, 3), (60, 5), (300, 1), (300, 5)])
def test_corrupt_rows_come_first(corruption, n, count):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        d = points(n, rng)
        corrupt = rng.choice(n, count, replace=False)
        for r in corrupt:
            others = np.delete(np.arange(n), r)
            d[r, others] = d[others, r] = CORRUPTIONS[corruption](d[r, others], rng)
        found = violation_counts(d, top=10)
        assert {one.item for one in found[:count]} == set(corrupt.tolist())
        assert found[count - 1].remaining == 0
        assert len(found) == count
        assert items_explaining_violations(found, n) in range(1, count + 1)
        assert all(one.partner is None for one in found)


@pytest.mark.parametrize("factor", [5.0, 0.1])
@pytest.mark.parametrize("count", [1, 3])
def test_corrupt_entries_are_named_by_both_ends(factor, count):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        d = points(80, rng)
        pairs = rng.choice(80, (count, 2), replace=False)
        for i, j in pairs:
            d[i, j] *= factor
            d[j, i] = d[i, j]
        found = violation_counts(d, top=count)
        named = {frozenset((one.item, one.partner)) for one in found}
        assert named == {frozenset(pair) for pair in pairs.tolist()}


@pytest.mark.parametrize("n", [60, 200])
def test_where_all_are_violated_no_item_explains_it(n):
    found = violation_counts(random_matrix(0, n), top=10)
    assert len(found) == 10
    assert items_explaining_violations(found, n) is None
    assert found[-1].remaining > 0.4 * (found[0].triangles + found[0].remaining)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_cover(seed):
    d = random_matrix(seed, 17)
    found = [(one.item, one.triangles, one.remaining) for one in violation_counts(d, top=17)]
    assert found == greedy_cover(broken_triangles(d), 17, [item for item, *_ in found])
    assert found[-1][2] == 0


def test_unknown_entries_violate_nothing():
    d = random_matrix(3, 15)
    d[2, 5] = d[5, 2] = d[7, 8] = d[8, 7] = np.nan
    found = [(one.item, one.triangles, one.remaining) for one in violation_counts(d, top=15)]
    assert found == greedy_cover(broken_triangles(d), 15, [item for item, *_ in found])


def test_a_metric_has_no_violations_and_threads_change_nothing():
    d = points(300, np.random.default_rng(0))
    assert violation_counts(d) == []
    assert worst_triangles(d) == []
    assert items_explaining_violations([], 300) is None
    d = random_matrix(1, 300)
    assert violation_counts(d, n_jobs=1) == violation_counts(d, n_jobs=3)
    assert worst_triangles(d, n_jobs=1) == worst_triangles(d, n_jobs=3)


def test_few():
    assert (
        items_explaining_violations([ViolationCount(0, 80, 20), ViolationCount(1, 15, 5)], 3) == 2
    )
    many = [ViolationCount(k, 10, 90 - 10 * k) for k in range(10)]
    assert items_explaining_violations(many, 40) is None
    assert items_explaining_violations(many, 50) == 9


@pytest.mark.parametrize("n", [3, 16, 70])
@pytest.mark.parametrize("holes", [False, True])
def test_worst_triangles(n, holes):
    d = random_matrix(n, n)
    d[0, 1] = d[1, 0] = 7.0
    if holes and n > 3:
        rng = np.random.default_rng(0)
        unknown = np.triu(rng.random((n, n)) < 0.3, 2)
        d[unknown | unknown.T] = np.nan
    before = d.copy()
    found = worst_triangles(d, top=5)
    expected = excesses(d)[:5]
    assert [(one.i, one.j) for one in found] == [(i, j) for _, i, j in expected]
    for one, (excess, i, j) in zip(found, expected, strict=True):
        assert one.excess == pytest.approx(excess)
        assert (one.direct, one.first, one.second) == (d[i, j], d[i, one.k], d[one.k, j])
    np.testing.assert_array_equal(d, before)
    assert worst_triangles(d, top=0) == []


def test_more_rows_than_are_looked_at_together():
    d = points(700, np.random.default_rng(0))
    d[3, 690] = d[690, 3] = 50.0
    d[5, 10] = d[10, 5] = 40.0
    d[600, 650] = d[650, 600] = 30.0
    found = [(one.i, one.j) for one in worst_triangles(d, top=3)]
    assert found == [(3, 690), (5, 10), (600, 650)]


def test_rounding_does_not_count():
    place = np.arange(40.0) / 3
    assert violation_counts(abs(place[:, None] - place)) == []
    assert worst_triangles(abs(place[:, None] - place)) == []


@pytest.mark.parametrize("function", [violation_counts, worst_triangles])
def test_refused(function):
    with pytest.raises(InputError, match="symmetric"):
        function([[0, 1, 2], [5, 0, 1], [2, 1, 0]])
    with pytest.raises(InputError, match="square"):
        function([[0, 1, 2]])
    with pytest.raises(InputError, match="top"):
        function([[0, 1], [1, 0]], top=-1)
    with pytest.raises(InputError, match="tol"):
        function([[0, 1], [1, 0]], tol=-1)


@pytest.mark.parametrize(
    ("D", "message"),
    [
        ("x", "D: expected real numbers"),
        (np.ones((2, 3)), "D: expected a square matrix"),
        ([[0, 1], [2, 0]], r"D: expected symmetric, .*; symmetrise it, e\.g\."),
    ],
)
def test_what_is_no_matrix(D, message):
    with pytest.raises(InputError, match=message):
        violation_counts(D)


@pytest.mark.parametrize("factor", [1.6, 3.0, 0.4])
@pytest.mark.parametrize("seed", range(20))
def test_a_wrong_row_comes_before_innocent_items(seed: int, factor: float) -> None:
    """Also if an item of lower number is in as many violated triangles."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(9, 3))
    D = np.linalg.norm(P[:, None] - P, axis=-1)
    D[8] *= factor
    D[:, 8] *= factor
    counts = violation_counts(D)
    if counts and counts[0].triangles > 1:
        assert counts[0].item == 8


def test_the_ends_of_a_long_side_come_before_the_item_opposite() -> None:
    D = np.array([[0, 2, 2, 3], [2, 0, 5, 3], [2, 5, 0, 3], [3, 3, 3, 0.0]])
    (only,) = violation_counts(D)
    assert only.item in (1, 2)
    assert only.remaining == 0
