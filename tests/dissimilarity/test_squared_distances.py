"""Kernels of squared distances, beside sums of squared differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from metricmix.dissimilarity.squared_distances import (
    narrow_squares,
    square_of_difference,
    squares_from_products,
)


@pytest.mark.parametrize("d", [0, 1, 7, 8, 9, 16, 29])
def test_the_square_of_a_difference_of_any_length(d: int) -> None:
    x, y = np.random.default_rng(d).normal(size=(2, d))
    assert square_of_difference(x, y) == pytest.approx(((x - y) ** 2).sum(), rel=1e-13)
    assert square_of_difference(x, x) == 0.0


@pytest.mark.parametrize("d", [1, 3, 16])
def test_squares_of_narrow_tables_are_added(d: int) -> None:
    rng = np.random.default_rng(d)
    A, B, values = rng.normal(size=(6, d)), rng.normal(size=(9, d)), rng.random((6, 9))
    expected = values + cdist(A, B, "sqeuclidean")
    narrow_squares(A, np.ascontiguousarray(B.T), values)
    np.testing.assert_allclose(values, expected, rtol=1e-13)


def test_products_become_squared_distances_also_of_rows_that_are_close() -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(600, 20))  # more columns than are compared together
    B[7] = B[300] = B[3]
    B[580] = B[3] + 1e-7 * rng.normal(size=20)
    A, shifted = B[:10], B - 0.5
    squares = (shifted * shifted).sum(axis=1)
    values, expected = shifted[:10] @ shifted.T, cdist(A, B, "sqeuclidean")
    squares_from_products(values, squares[:10], squares, A, B, 1e-3)
    np.testing.assert_allclose(values, expected, rtol=1e-11)
    np.testing.assert_array_equal(values == 0.0, expected == 0.0)
