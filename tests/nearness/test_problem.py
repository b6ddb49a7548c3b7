"""Vectors over pairs, against numpy's triangles."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.nearness.norms.l1 import sum_absolutes
from metricmix.nearness.norms.l2 import sum_squares
from metricmix.nearness.problem import (
    items_of,
    matrix_of,
    pairs_of,
    read_lower_triangle,
    write_lower_triangle,
)
from reference.nearness import objective_of, pairs


def symmetric(n, seed=0):
    D = np.tril(np.random.default_rng(seed).random((n, n)), -1)
    return D + D.T


@pytest.mark.parametrize("n", [1, 2, 3, 17])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pairs_and_matrices(n, dtype):
    D = symmetric(n).astype(dtype)
    x = pairs_of(D)
    np.testing.assert_array_equal(x, pairs(D))
    np.testing.assert_array_equal(matrix_of(x, n), D)
    assert [items_of(e) for e in range(len(x))] == [(i, j) for i in range(n) for j in range(i)]


def test_some_rows():
    D = symmetric(9)
    x, M = np.zeros(36), np.full((9, 9), -1.0)
    for low, high in ((0, 4), (4, 9)):
        read_lower_triangle(D, low, high, x)
        write_lower_triangle(x, low, high, M)
    np.testing.assert_array_equal(x, pairs(D))
    np.testing.assert_array_equal(np.tril(M), np.tril(D))
    assert (M[np.triu_indices(9, 1)] == -1.0).all()


def test_sums_over_rows():
    X, D, W = (symmetric(9, seed) for seed in range(3))
    d, w = pairs(D), pairs(W)
    for kernel, norm in ((sum_squares, "l2"), (sum_absolutes, "l1")):
        parts = [kernel(np.ascontiguousarray(X[a:b]), a, d, w) for a, b in ((0, 4), (4, 9))]
        assert sum(parts) == pytest.approx(objective_of(norm, pairs(X), d, w))
