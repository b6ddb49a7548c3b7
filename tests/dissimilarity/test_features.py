import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from metricmix.dissimilarity.feature_metrics import (
    ALIASES,
    BY_PRODUCT,
    BY_SKLEARN,
    FACTS,
    ON_SETS,
)
from metricmix.dissimilarity.feature_rows import feature_rows
from metricmix.dissimilarity.features import features
from metricmix.exceptions import InputError

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(30, 4))) + 0.1


def normalized(X):
    norms = np.linalg.norm(X, axis=1)
    return cdist(X, X) / np.sqrt(np.outer(norms, norms))


def assert_is_dissimilarity(M, n):
    assert M.shape == (n, n)
    assert M.dtype == np.float64
    np.testing.assert_array_equal(M, M.T)
    assert not np.diagonal(M).any()
    assert (M >= 0).all()


@pytest.mark.parametrize("metric", [*(name for name in FACTS if name not in BY_SKLEARN), *ALIASES])
def test_every_scipy_metric(metric):
    table = X
    if metric in ON_SETS:  # no row without a member, for which some are not defined
        some = RNG.random((30, 3)) < 0.6
        table = np.hstack([some, ~some])
    M = features(table, metric)
    assert_is_dissimilarity(M, 30)
    name = ALIASES.get(metric, metric)
    assert M.source_name == name
    params = {}
    if name == "seuclidean":
        params = {"V": X.var(axis=0, ddof=1)}
    if name == "mahalanobis":
        params = {"VI": np.linalg.inv(np.cov(X, rowvar=False))}
    expected = normalized(X)
    if name == "angular":
        expected = np.arccos(np.clip(1 - cdist(X, X, "cosine"), -1, 1)) / np.pi
    elif name != "normalized-euclidean":
        expected = cdist(table, table, name, **params)
    expected[(table[:, None] == table).all(-1)] = 0  # "russellrao" is not 0 there
    np.testing.assert_allclose(M, expected, atol=1e-7 if name == "angular" else 1e-12)
    np.testing.assert_allclose(
        feature_rows(table, metric).rows(np.array([3, 29, 3])), M[[3, 29, 3]]
    )


@pytest.mark.parametrize("metric", BY_SKLEARN)
def test_sklearn_metrics(metric):
    table = X[:, :2].copy()
    if metric == "nan_euclidean":
        table[3, 1] = np.nan
    M = features(table, metric)
    assert_is_dissimilarity(M, 30)
    np.testing.assert_allclose(M, pairwise_distances(table, metric=metric), atol=1e-7)


def test_metric_parameters():
    np.testing.assert_allclose(features(X, "minkowski", p=3), cdist(X, X, "minkowski", p=3))
    w = np.arange(1.0, 5.0)
    np.testing.assert_allclose(features(X, "euclidean", w=w), cdist(X, X, "euclidean", w=w))
    with pytest.raises(InputError, match="minkowski"):
        features(X, "minkowski", q=3)


def test_a_function_is_called_once_per_pair():
    calls = []

    def longest(x, y):
        calls.append(1)
        return np.abs(x - y).max()

    M = features(X, longest)
    np.testing.assert_allclose(M, cdist(X, X, "chebyshev"))
    assert M.source_name == "longest"
    assert len(calls) == 30 * 31 // 2 + 10  # five pairs both ways, to see that it is symmetric


def test_a_function_that_differs_there_and_back_is_refused():
    def ahead(x, y):
        return max(x[0] - y[0], 0.0)

    with pytest.raises(InputError, match="metric 'ahead': expected the same distance both ways"):
        features(X, ahead)


def test_a_function_that_is_negative_is_refused():
    with pytest.raises(InputError, match=r"between rows 0 and 1, got -1"):
        features(X, lambda x, y: -1.0)


@pytest.mark.parametrize("metric", [*BY_PRODUCT, "cityblock"])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array, pd.DataFrame, list])
def test_all_formats_agree(metric, form):
    table = X * (X > 0.3)
    table[:, 0] = 1
    np.testing.assert_allclose(features(form(table), metric), features(table, metric), atol=1e-14)


def test_sparse_duplicates_are_summed_as_scipy_does():
    table = sp.coo_array(([1.0, 2.0, 1.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    np.testing.assert_allclose(features(table), features(table.toarray()))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 5),
    exponent=st.sampled_from([-150, -5, 0, 5, 150]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_distances_are_accurate_at_every_scale(n, d, exponent, offset, seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 1, (n, 1)) + offset
    base = base[rng.integers(0, n, n)]  # with repetitions
    expected = np.sqrt(((base[:, None] - base[None]) ** 2).sum(-1))
    for table in (base, sp.csr_array(base)):
        M = features(table * 10.0**exponent, "euclidean")
        assert_is_dissimilarity(M, n)
        equal = (table * 10.0**exponent).todense() if sp.issparse(table) else table
        same = (equal[:, None] == equal[None]).all(-1)
        np.testing.assert_array_equal(M == 0, same)
        np.testing.assert_allclose(M / 10.0**exponent, expected, rtol=1e-9, atol=1e-9 * offset)


def test_near_duplicates_keep_their_digits():
    base = RNG.normal(size=(20, 50)) + 3
    close = base + 1e-9 * RNG.normal(size=(20, 50))
    table = np.vstack([base, close])
    exact = np.linalg.norm(close - base, axis=1)
    for form in (np.asarray, sp.csr_array):
        M = features(form(table))
        np.testing.assert_allclose(np.diagonal(M[:20, 20:]), exact, rtol=1e-12)
    assert features([[1e-20], [2e-20], [1.0]])[0, 1] == 1e-20


def test_whole_numbers_give_exact_distances():
    table = RNG.integers(-50, 50, size=(40, 6)).astype(float)
    exact = ((table[:, None] - table[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(features(table, "sqeuclidean"), exact)
    np.testing.assert_array_equal(features(table), np.sqrt(exact))


def test_angles_are_accurate_where_the_cosine_is_not():
    for angle in (1e-9, 1e-5, 1.0, np.pi - 1e-5):
        table = np.array([[1.0, 0.0], [3 * np.cos(angle), 3 * np.sin(angle)], [0.0, 0.0]])
        for form in (np.asarray, sp.csr_array):
            M = features(form(table), "angular")
            assert M[0, 1] == pytest.approx(angle / np.pi, rel=1e-9)
            assert M[2].tolist() == [0.5, 0.5, 0.0]


def test_cosine_of_zero_and_equal_rows():
    table = np.array([[0, 0], [0, 0], [1, 2], [1, 2], [-1, -2], [2, -1]], dtype=float)
    for form in (np.asarray, sp.csr_array):
        M = features(form(table), "cosine")
        np.testing.assert_allclose(M[0], [0, 0, 1, 1, 1, 1])
        np.testing.assert_allclose(M[2], [1, 1, 0, 0, 2, 1])
        assert M[2, 3] == 0
        assert M.max() <= 2


def test_normalized_euclidean_refuses_a_row_of_zeros():
    with pytest.raises(InputError, match="row 7 is all zeros"):
        features(np.where(np.arange(30)[:, None] == 7, 0, X), "normalized-euclidean")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_values_are_located(value):
    table = X.copy()
    table[3, 2] = value
    with pytest.raises(InputError, match=r"row 3, column 2;"):
        features(table)
    with pytest.raises(InputError, match=r"row 3, column 2;"):
        features(sp.csr_array(table))
    with pytest.raises(InputError, match=r"row 3, column 2 \('age'\)"):
        features(pd.DataFrame(table, columns=["a", "b", "age", "c"]))
    if np.isinf(value):
        with pytest.raises(InputError, match="row 3, column 2"):
            features(table, "nan_euclidean")


def test_pandas_missing_value_and_text():
    with pytest.raises(InputError, match=r"found nan in row 1, column 0 \('x'\)"):
        features(pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}))
    with pytest.raises(InputError, match="expected real numbers"):
        features(pd.DataFrame({"x": ["a", "b"]}))


@pytest.mark.parametrize(
    ("table", "metric", "message"),
    [
        (X, "euclidian", "did you mean 'euclidean'"),
        (X, "precomputed", "expected a known name"),
        (X, 3, "expected a known name"),
        (X[:, 0], "euclidean", r"reshape\(-1, 1\)"),
        (X[None], "euclidean", r"got shape \(1, 30, 4\)"),
        (X[:0], "euclidean", "at least one row"),
        (np.outer([1, 2, 3], np.ones(4)), "correlation", "between rows 0 and 1, got nan"),
        (X[:3], "mahalanobis", "has no inverse"),
        ([["a", "b"]], "euclidean", "expected real numbers"),
        (np.array([[1e200], [-1e200]]), "sqeuclidean", "got inf"),
    ],
)
def test_bad_input(table, metric, message):
    with pytest.raises(InputError, match=message):
        features(table, metric)


def test_one_item():
    np.testing.assert_array_equal(features([[1.0, 2.0]]), [[0.0]])


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
@pytest.mark.parametrize("d", [4, 40])  # from differences, and from products
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_pieces_are_the_same(metric, d, dtype, monkeypatch):
    table = np.random.default_rng(0).normal(size=(50, d)).astype(dtype)
    table[7] = table[3] + dtype(1e-6)  # near enough to cancel
    table[9] = table[3]
    whole = feature_rows(table, metric).rows(np.arange(50))
    monkeypatch.setattr("metricmix.dissimilarity.feature_rows.TOGETHER", 160)
    pieces = feature_rows(table, metric).rows(np.arange(50))
    digits = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(pieces, whole, rtol=digits, atol=digits)
    unit = table.astype(np.float64)
    if metric == "angular":
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    exact = cdist(unit, unit)
    exact = 2 / np.pi * np.arcsin(np.minimum(exact / 2, 1)) if metric == "angular" else exact
    np.testing.assert_allclose(pieces, exact, atol=1e-12 if dtype is np.float64 else 2e-6)
    assert pieces[3, 9] == 0.0
