import importlib
import sys
import types
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.metrics import pairwise_distances

import metricmix as mm
from metricmix.dissimilarity.nearest_items import joined, nearest_items, recall_of

MODULE = importlib.import_module("metricmix.dissimilarity.nearest_items")


def clusters(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((12, d))
    return centres[rng.integers(12, size=n)] + 0.3 * rng.standard_normal((n, d))


def true_distances(X: Any, k: int, metric: str) -> np.ndarray:
    dense = X.toarray() if hasattr(X, "toarray") else X
    D = pairwise_distances(dense, metric=metric)
    if metric == "cosine":
        zero = ~dense.any(axis=1)
        D[zero] = D[:, zero] = 1.0
    np.fill_diagonal(D, np.inf)
    return np.sort(D, axis=1)[:, :k]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", ["dense", "single", "sparse"])
def test_blocks_are_exact(metric: str, kind: str) -> None:
    X: Any = clusters(150, 6)
    if kind == "single":
        X = X.astype(np.float32)
    if kind == "sparse":
        X = csr_array(np.where(X > 0.3, X, 0.0))
    found = nearest_items(X, 7, metric)
    assert (found.method, found.recall) == ("blocks", 1.0)
    assert not (found.items == np.arange(150)[:, None]).any()
    assert (np.diff(found.distances, axis=1) >= 0).all()
    tolerance = 1e-5 if kind == "single" else 1e-12
    np.testing.assert_allclose(
        found.distances, true_distances(X, 7, metric), rtol=tolerance, atol=tolerance
    )


def test_a_far_centre_loses_no_digits() -> None:
    X = clusters(100, 3)
    near, far = nearest_items(X, 5), nearest_items(X + 1e6, 5)
    assert (near.items == far.items).mean() > 0.99


def test_equal_rows_and_rows_of_zeros() -> None:
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    found = nearest_items(X, 3, "cosine")
    np.testing.assert_array_equal(found.distances, [[0, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]])
    assert sorted(nearest_items(np.ones((5, 2)), 4).items[2].tolist()) == [0, 1, 3, 4]


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_rows_of_zeros_are_not_nearer_than_rows_at_a_wide_angle(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 40)) * (
        rng.random((60, 40)) < 0.15
    )  # most angles are wider than 60 degrees
    X[::4] = 0.0
    found = nearest_items(kind(X), 5, "cosine")
    np.testing.assert_allclose(found.distances, true_distances(X, 5, "cosine"), atol=1e-12)


def test_more_neighbours_than_items_are_reduced() -> None:
    assert nearest_items(np.eye(3), 10).items.shape == (3, 2)
    assert nearest_items(np.eye(1), 10).items.shape == (1, 0)


@pytest.mark.parametrize("method", ["cells", "kd-tree"])
def test_other_methods_find_the_nearest(method: str) -> None:
    X = clusters(1500, 5)
    found = nearest_items(X, 6, method=method)
    exact = true_distances(X, 6, "euclidean")
    share = (found.distances <= exact[:, -1:] * (1 + 1e-9)).mean()
    assert found.method == method
    assert share > 0.9
    assert abs(share - found.recall) < 0.05
    assert found.recall == 1.0 or method == "cells"


def test_recall_is_low_where_little_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST_CELLS", 1)
    X = np.random.default_rng(0).standard_normal((1000, 20))
    found = nearest_items(X, 10, method="cells")
    assert found.recall < 0.6
    assert abs(found.recall - recall_of(X, found.items)) < 0.1


def test_wide_sparse_tables_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "SPARSE_OPERATIONS", 0)
    rng = np.random.default_rng(0)
    topics = random_array((40, 3000), density=0.01, rng=rng, format="csr")
    X = topics[rng.integers(40, size=400)] + 0.5 * random_array((400, 3000), density=0.002, rng=rng)
    found = nearest_items(X, 5, "cosine")
    exact = true_distances(X, 5, "cosine")
    assert 0.5 < found.recall < 1.0
    share = (found.distances <= exact[:, -1:] * (1 + 1e-9)).mean()
    assert abs(share - found.recall) < 0.1


def test_automatic_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "EXACT_UP_TO", 100)
    monkeypatch.setattr(MODULE, "find_spec", lambda name: None)
    assert nearest_items(clusters(90, 20), 3).method == "blocks"
    assert nearest_items(clusters(200, 3), 3).method == "kd-tree"
    assert nearest_items(clusters(200, 3), 3, "cosine").method == "cells"
    assert nearest_items(clusters(200, 20), 3).method == "cells"
    with pytest.raises(mm.MissingPackageError, match=r"metricmix\[scale\]"):
        nearest_items(clusters(200, 20), 3, method="descent")


def test_descent_calls_pynndescent(monkeypatch: pytest.MonkeyPatch) -> None:
    class NNDescent:
        """A stand-in that answers as pynndescent does: itself among the neighbours."""

        def __init__(self, X: np.ndarray, n_neighbors: int, **options: Any) -> None:
            D = pairwise_distances(X)
            self.neighbor_graph = (np.argsort(D, axis=1)[:, :n_neighbors], None)

    fake = types.ModuleType("pynndescent")
    fake.NNDescent = NNDescent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynndescent", fake)
    monkeypatch.setattr(MODULE, "find_spec", lambda name: object())
    monkeypatch.setattr(MODULE, "EXACT_UP_TO", 100)
    monkeypatch.setattr(MODULE, "CELLS_UP_TO", 150)
    X = clusters(200, 20)
    found = nearest_items(X, 3)
    assert (found.method, found.recall) == ("descent", 1.0)
    np.testing.assert_allclose(found.distances, true_distances(X, 3, "euclidean"), rtol=1e-5)


def test_the_number_of_threads_changes_nothing() -> None:
    X = clusters(1200, 4)
    for method in ("blocks", "cells"):
        one, two = (nearest_items(X, 5, method=method, n_jobs=jobs) for jobs in (1, 2))
        np.testing.assert_array_equal(one.items, two.items)


def test_joined_is_symmetric() -> None:
    found = nearest_items(np.array([[0.0], [1.0], [5.0]]), 2)
    np.testing.assert_array_equal(joined(found, 1).toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert joined(found).nnz == 6


def test_rows_without_anything_in_common_are_not_joined() -> None:
    X = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    assert joined(nearest_items(X, 4, "cosine")).nnz == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [({"k": 0}, "k"), ({"metric": "cityblock"}, "metric"), ({"method": "magic"}, "method")],
)
def test_refusals(options: dict[str, Any], named: str) -> None:
    with pytest.raises(mm.InputError) as refusal:
        nearest_items(np.eye(3), **{"k": 1, **options})
    assert refusal.value.argument == named


# -- the compiled loops themselves ---------------------------------------------------------------


def test_products_of_sparse_rows() -> None:
    from metricmix.dissimilarity.squared_distances import sparse_products

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 30)) * (rng.random((20, 30)) < 0.2)
    rows, columns = csr_array(X), csr_array(X.T)
    some = np.array([3, 0, 19])
    values = np.zeros((3, 20))
    by_row = (rows.indptr, rows.indices, rows.data)
    by_column = (columns.indptr, columns.indices, columns.data)
    sparse_products(*by_row, *by_column, some, 0, values)
    np.testing.assert_allclose(values, X[some] @ X.T, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])  # all columns are dense, some, none
def test_frequent_columns_are_multiplied_as_dense_ones(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from metricmix.dissimilarity import squared_distances

    monkeypatch.setattr(squared_distances, "FEW_OPERATIONS", 0.0)
    monkeypatch.setattr(squared_distances, "FREQUENT", share)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < np.linspace(0.02, 0.9, 30))
    products = squared_distances.Products(csr_array(X))
    n_frequent = int((np.count_nonzero(X, axis=0) > 40 * share).sum())
    assert products.frequent.shape == (40, n_frequent)
    some = np.array([3, 0, 19])
    np.testing.assert_allclose(products(some), X[some] @ X.T, atol=1e-12)


def test_the_nearest_are_kept() -> None:
    from metricmix.dissimilarity.nearest_blocks import empty_places, keep_nearest, search_tiles
    from metricmix.dissimilarity.squared_distances import half_squares

    rng = np.random.default_rng(1)
    n = 200  # more than are scanned at once
    X = rng.normal(size=(n, 3))
    far = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(far, np.inf)
    expected = np.argsort(far, axis=1)[:, :5]
    found, best = empty_places(n, 5, np.float64)
    halves = half_squares(X)
    everyone = np.arange(n, dtype=np.int32)
    for columns in np.array_split(everyone, 3):  # a part of the columns at a time
        keep_nearest(X @ X[columns].T, halves[columns], everyone, columns, found, best)
    np.testing.assert_array_equal(found, expected)
    for places in (1, 1000, n * n):  # of products at a time
        found, best = empty_places(n, 5, np.float64)
        search_tiles(
            X[:150],
            everyone[:150],
            X,
            halves,
            everyone,
            found[:150],
            best[:150],
            np.empty(max(150, places)),
        )
        np.testing.assert_array_equal(found[:150], expected[:150])
