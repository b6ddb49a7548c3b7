"""Symmetric matrices of which only the lower triangle is updated."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.minplus import fold, mirror


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 150])
def test_fold_and_mirror_by_parts(n, dtype):
    given = np.random.default_rng(n).random((n, n)).astype(dtype)
    matrix = given.copy()
    for low, high in ((n // 2, n), (0, n // 2)):
        fold(matrix, low, high)
    lower = np.tril_indices(n, -1)
    assert np.array_equal(matrix[lower], np.minimum(given, given.T)[lower])
    assert np.array_equal(np.triu(matrix), np.triu(given))
    for low, high in ((n // 2, n), (0, n // 2)):
        mirror(matrix, low, high)
    assert np.array_equal(matrix, matrix.T)
    assert np.array_equal(matrix[lower], np.minimum(given, given.T)[lower])
