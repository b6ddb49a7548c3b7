"""The search that uses each product for both rows, beside a sort of all distances."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from metricmix.dissimilarity import symmetric_search as module
from metricmix.dissimilarity.nearest_blocks import empty_places
from metricmix.dissimilarity.symmetric_search import (
    keep_for_both,
    merge_nearest,
    symmetric_search,
)


def nearest(X: np.ndarray, k: int) -> np.ndarray:
    """Return the nearest rows, of equal ones the first."""
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    return np.argsort(D, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_are_those_of_a_sort(
    form: type, threads: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TILE", 160)
    monkeypatch.setattr(module, "TILE_ROWS", 8)
    monkeypatch.setattr(module, "SPARSE_ROWS", 8)
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 4, (75, 5)).astype(dtype)  # many ties, and exact products
    whole[::7] = whole[0]
    for X in (whole, rng.normal(size=(75, 5)).astype(dtype)):
        for k in (1, 6, 74):
            found = symmetric_search(form(X), k, threads)
            np.testing.assert_array_equal(found, nearest(X, k))


def test_merging_keeps_the_smallest_values_and_of_equal_ones_the_first() -> None:
    found, best = np.array([[4, 1, 7]], np.int32), np.array([[0.5, 1.0, 2.0]])
    more, values = np.array([[0, 6, 9]], np.int32), np.array([[1.0, 2.0, 2.0]])
    merge_nearest(found, best, more, values)
    assert found.tolist() == [[4, 0, 1]]
    assert best.tolist() == [[0.5, 1.0, 1.0]]
    merge_nearest(found, best, np.full((1, 3), -1, np.int32), np.full((1, 3), np.inf))
    assert found.tolist() == [[4, 0, 1]]


@pytest.mark.parametrize("k", [1, 5])
def test_products_are_kept_for_their_row_and_their_column(k: int) -> None:
    Z = np.random.default_rng(k).integers(-3, 4, (150, 4)).astype(float)  # many ties
    halves, products = (Z * Z).sum(axis=1) / 2, Z @ Z.T
    found, best = empty_places(150, k, Z.dtype)
    seen: list[list[tuple[float, int]]] = [[] for _ in Z]
    for first, last in ((0, 40), (40, 90)):  # the second block extends lists of the first
        keep_for_both(products[first:last, last:], halves, first, last, found, best)
        for i in range(first, last):
            for j in range(last, 150):
                seen[i].append((halves[j] - products[i, j], j))
                seen[j].append((halves[i] - products[i, j], i))
    for pairs, numbers, values in zip(seen, found.tolist(), best.tolist(), strict=True):
        assert list(zip(values, numbers, strict=True)) == sorted(pairs)[:k]
