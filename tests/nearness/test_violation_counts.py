"""Counts of violated triangles, against one by one."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.nearness.violations import ROWS_AT_ONCE, count_violations, count_violations_of_item
from reference.triangles import broken_triangles


def matrix(seed, n, unknown=0.0):
    rng = np.random.default_rng(seed)
    d = rng.random((n, n))
    d = d + d.T
    holes = np.triu(rng.random((n, n)) < unknown, 1)
    d[holes | holes.T] = np.nan
    np.fill_diagonal(d, 0)
    return d


@pytest.mark.parametrize("n", [1, 2, 3, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 21])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_counts_by_item(n, unknown, tolerance):
    d = matrix(n, n, unknown)
    expected = np.zeros(n, int)
    for triangle in broken_triangles(d, tolerance):
        expected[list(triangle)] += 1
    counts = np.zeros(n, np.int64)
    count_violations(d, 0, n, tolerance, counts)
    assert counts.tolist() == expected.tolist()
    in_parts = np.zeros(n, np.int64)
    for low, high in ((0, n // 3), (n // 3, n // 2), (n // 2, n)):
        count_violations(d, low, high, tolerance, in_parts)
    assert in_parts.tolist() == expected.tolist()


@pytest.mark.parametrize("r", [0, 4, 13])
def test_counts_with_one_item(r):
    n = 14
    d = matrix(5, n, 0.1)
    left = np.random.default_rng(1).random(n) < 0.7
    expected = np.zeros(n, int)
    for triangle in broken_triangles(d, 0.01):
        others = triangle - {r}
        if len(others) == 2 and left[list(others)].all():
            expected[list(others)] += 1
    counts = count_violations_of_item(d, r, left, 0.01, 0, n)
    assert counts.tolist() == expected.tolist()
    parts = [count_violations_of_item(d, r, left, 0.01, *part) for part in ((0, 5), (5, n))]
    assert sum(parts).tolist() == expected.tolist()
    assert expected.any()
