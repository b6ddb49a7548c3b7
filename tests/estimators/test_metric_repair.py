"""MetricRepair: a dissimilarity in, a metric out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import metricmix as mm
from reference.closure import closure

NORMS = ("decrease", "l2", "l1", "linf", "increase")


@parametrize_with_checks(
    [
        mm.MetricRepair(),
        mm.MetricRepair(directed=True),
        mm.MetricRepair("l2"),
        mm.MetricRepair("l1"),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def make_broken(n: int = 40, seed: int = 0, directed: bool = False) -> np.ndarray:
    X = np.random.default_rng(seed).exponential(size=(n, n)) + 0.01
    np.fill_diagonal(X, 0)
    return X if directed else np.minimum(X, X.T)


@pytest.mark.parametrize("directed", [False, True])
def test_the_fit_is_the_largest_metric_below(directed: bool) -> None:
    X = make_broken(directed=directed)
    repair = mm.MetricRepair(directed=directed)
    d = repair.fit_transform(X)
    np.testing.assert_allclose(d, closure(X))
    assert mm.is_metric(d, directed=directed)
    assert (d <= X).all()
    np.testing.assert_array_equal(repair.transform(X), d)
    np.testing.assert_array_equal(repair.transform(X[3:7]), d[3:7])
    assert repair.metric_ is not d


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "increase"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_in_other_norms(norm: str, dtype: Any) -> None:
    X = make_broken(25).astype(dtype)
    X[3, 7] = X[7, 3] = np.inf
    repair = mm.MetricRepair(norm, tol=1e-7)
    d = repair.fit_transform(X)
    expected = mm.nearest_metric(np.where(np.isinf(X), np.nan, X), norm, tol=1e-7)
    known = np.isfinite(X)
    np.testing.assert_allclose(d[known], expected.metric[known], rtol=1e-6)
    assert d[3, 7] == pytest.approx(min(d[3, k] + d[k, 7] for k in range(25) if k not in (3, 7)))
    assert mm.is_metric(d)
    assert repair.gap_ == expected.gap <= 1e-7
    assert repair.largest_change_ == pytest.approx(abs(X - d)[known].max(), rel=1e-5)
    assert repair.n_filled_ == 1
    np.testing.assert_array_equal(repair.transform(X), d)
    np.testing.assert_array_equal(repair.transform(X[[9, 3]]), d[[9, 3]])
    new = np.full((1, 25), np.inf, dtype)
    new[0, 4] = 0.5
    np.testing.assert_allclose(repair.transform(new)[0], 0.5 + d[4], rtol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_a_metric_stays_as_it_is(norm: str) -> None:
    x = np.arange(6.0)
    X = abs(x[:, None] - x)
    repair = mm.MetricRepair(norm)
    np.testing.assert_array_equal(repair.fit_transform(X), X)
    assert repair.violations_.is_metric()
    assert (repair.n_changed_, repair.n_filled_, repair.largest_change_) == (0, 0, 0.0)


@pytest.mark.parametrize("directed", [False, True])
def test_report_says_what_was_broken_and_changed(directed: bool) -> None:
    X = make_broken(directed=directed)
    repair = mm.MetricRepair(directed=directed).fit(X)
    change = X - repair.metric_
    lowered = int((change > 1e-9 * X.max()).sum())
    assert repair.n_changed_ == (lowered if directed else lowered // 2) > 0
    assert repair.largest_change_ == change.max()
    assert repair.violations_ == mm.metric_violations(X, directed)


@pytest.mark.parametrize("directed", [False, True])
def test_new_items_come_in_by_items_of_the_fit(directed: bool) -> None:
    X = make_broken(directed=directed)
    new = np.random.default_rng(1).exponential(size=(9, 40))
    repair = mm.MetricRepair(directed=directed).fit(X)
    d = repair.transform(new)
    expected = (new[:, :, None] + repair.metric_[None]).min(axis=1)
    np.testing.assert_allclose(d, expected)
    one_by_one = np.vstack([repair.transform(row[None]) for row in new])
    np.testing.assert_array_equal(d, one_by_one)


def test_new_item_at_zero_but_nearer_to_others_is_not_taken_for_an_item_of_the_fit() -> None:
    repair = mm.MetricRepair().fit([[0, 4, 4], [4, 0, 4], [4, 4, 0]])
    np.testing.assert_array_equal(repair.transform([[0, 1, 9]]), [[0, 1, 4]])
    np.testing.assert_array_equal(repair.transform([[0, 9, 9]]), [[0, 4, 4]])


def test_a_square_of_new_items_is_not_taken_for_the_matrix_of_the_fit() -> None:
    repair = mm.MetricRepair().fit([[0, 4], [4, 0]])
    np.testing.assert_array_equal(repair.transform([[1, 9], [2, 3]]), [[1, 5], [2, 3]])


def test_equal_items_of_the_fit_are_each_itself() -> None:
    D = np.array([[0, 3, 3, 0], [3, 0, 0, 1], [3, 0, 0, 1], [0, 1, 1, 0]], float)
    repair = mm.MetricRepair("linf").fit(D)
    assert repair.metric_[1, 2] > 0  # equal rows, set apart
    assert np.array_equal(repair.transform(D), repair.metric_)


def test_missing_entries_are_filled_along_paths() -> None:
    inf = np.inf
    X = np.array([[0, 1, inf, inf], [1, 0, 2, 9], [inf, 2, 0, 3], [inf, 9, 3, 0]])
    repair = mm.MetricRepair()
    expected = [[0, 1, 3, 6], [1, 0, 2, 5], [3, 2, 0, 3], [6, 5, 3, 0]]
    np.testing.assert_array_equal(repair.fit_transform(X), expected)
    np.testing.assert_array_equal(repair.transform(X), expected)
    assert (repair.n_filled_, repair.n_changed_, repair.largest_change_) == (2, 1, 4.0)
    assert repair.violations_.triangle == 4.0
    np.testing.assert_array_equal(repair.transform([[inf, 1, inf, 1]]), [[2, 1, 3, 1]])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unknown_entries_are_filled_as_by_nearest_metric(norm: str, dtype: Any) -> None:
    X = make_broken(25).astype(dtype)
    X[3, 7] = X[7, 3] = X[4, 9] = X[9, 4] = np.nan
    repair = mm.MetricRepair(norm)
    d = repair.fit_transform(X)
    expected = mm.nearest_metric(X, norm)
    np.testing.assert_allclose(d, expected.metric, rtol=1e-6)
    assert d.dtype == dtype
    assert repair.filled_.tolist() == expected.filled.tolist() == [[3, 7], [4, 9]]
    np.testing.assert_allclose(repair.allowed_, expected.allowed, rtol=1e-5, atol=1e-5)
    assert repair.n_filled_ == 2
    assert mm.is_metric(d)
    np.testing.assert_array_equal(repair.transform(X), d)
    np.testing.assert_array_equal(repair.transform(X[[9, 3]]), d[[9, 3]])
    masked = mm.MetricRepair(norm).fit(np.ma.masked_invalid(X))
    np.testing.assert_array_equal(masked.metric_, d)


@pytest.mark.parametrize("norm", NORMS)
def test_no_edge_is_a_path_and_unknown_is_in_between(norm: str) -> None:
    nan, inf = np.nan, np.inf
    X = np.array([[0, 2, nan, inf], [2, 0, 3, 9], [nan, 3, 0, 9], [inf, 9, 9, 0]])
    repair = mm.MetricRepair(norm).fit(X)
    expected = [[0, 2, 3, 11], [2, 0, 3, 9], [3, 3, 0, 9], [11, 9, 9, 0]]
    np.testing.assert_array_equal(repair.metric_, expected)
    assert repair.n_filled_ == 2
    assert repair.filled_.tolist() == [[0, 2]]
    assert repair.allowed_.tolist() == [[1.0, 5.0]]


def test_an_entry_known_in_one_direction_counts_for_both() -> None:
    X = np.array([[np.nan, 2.0, np.nan], [2.0, 0.0, 3.0], [4.0, 3.0, 0.0]])
    assert mm.MetricRepair().fit_transform(X)[0].tolist() == [0, 2, 4]
    directed = mm.MetricRepair(directed=True).fit(X)
    assert directed.filled_.tolist() == [[0, 2]]
    assert directed.allowed_.tolist() == [[1.0, 5.0]]  # 3 <= 2 + d(0, 2), d(0, 2) <= 2 + 3
    assert directed.metric_[0].tolist() == [0, 2, 3]


@pytest.mark.parametrize("directed", [False, True])
def test_unknown_distances_of_new_items(directed: bool) -> None:
    """The same as in a fit with the new item, where that shortens no other distance."""
    place = np.random.default_rng(0).normal(size=(12, 2))
    X = np.sqrt(np.square(place[:, None] - place).sum(axis=-1))
    new = X[11:, :11].copy()
    new[0, [1, 4, 5]] = np.nan
    repair = mm.MetricRepair(directed=directed).fit(X[:11, :11])
    d = repair.transform(new)[0]
    whole = X.copy()
    whole[11, [1, 4, 5]] = whole[[1, 4, 5], 11] = np.nan
    if directed:
        whole[:11, 11] = np.inf  # distances to the new item are not used
        whole[0, 11] = 1e6
    together = mm.MetricRepair(directed=directed).fit(whole)
    np.testing.assert_allclose(d, together.metric_[11, :11])
    if not directed:
        assert mm.is_metric(np.block([[X[:11, :11], d[:, None]], [d, 0.0]]))


def test_items_without_a_path() -> None:
    X = np.array([[0, 1, np.inf], [1, 0, np.nan], [np.inf, np.nan, 0]])
    repair = mm.MetricRepair()
    with pytest.raises(mm.InputError, match=r"found none from item 0 to item 2; give a value"):
        repair.fit(X)
    assert not hasattr(repair, "metric_")
    repair.fit(np.ones((3, 3)) - np.eye(3))
    with pytest.raises(mm.InputError, match=r"only NaN and inf in row 1"):
        repair.transform([[1, 1, 1], [np.inf, np.nan, np.nan]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 1, 2], [1, 0, 1]], r"expected a square matrix .* got shape \(2, 3\)"),
        ([[0, np.nan], [np.nan, 0]], r"found none from item 0 to item 1; give a value"),
        ([[0, -1], [-1, 0]], r"Negative values in data"),
        ([[0, 1], [2, 0]], r"X: expected symmetric, .* pass directed=True"),
        ([[1, 1], [1, 1]], r"X: expected a zero diagonal"),
        ([[np.inf, 1], [1, 0]], r"X: expected a zero diagonal, found inf"),
    ],
)
def test_refused_matrices(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mm.MetricRepair().fit(np.array(X, dtype=float))


def test_unknown_norm_and_sparse_input() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(mm.InputError, match=r"norm: expected one of 'l2', .*, got 'l3'"):
        mm.MetricRepair("l3").fit(make_broken())
    with pytest.raises(mm.InputError, match=r"directed: expected False with norm='l2'"):
        mm.MetricRepair("l2", directed=True).fit(make_broken())
    with pytest.raises(TypeError, match="does not distinguish distances of 0"):
        mm.MetricRepair().fit(csr_array(make_broken()))


def test_float32_stays() -> None:
    X = make_broken().astype(np.float32)
    repair = mm.MetricRepair()
    assert repair.fit_transform(X).dtype == np.float32
    assert repair.transform(X[:2] + np.float32(1)).dtype == np.float32


def test_names_of_the_items_and_threads() -> None:
    X = make_broken(5)
    frame = pd.DataFrame(X, index=list("abcde"), columns=list("abcde"))
    repair = mm.MetricRepair(n_jobs=2).fit(frame)
    assert repair.feature_names_in_.tolist() == list("abcde")
    assert repair.get_feature_names_out()[-1] == "metricrepair4"
    out = repair.set_output(transform="pandas").transform(frame)
    assert out.index.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        repair.transform(frame[list("edcba")])
    again = pickle.loads(pickle.dumps(repair))
    np.testing.assert_array_equal(again.metric_, mm.MetricRepair(n_jobs=1).fit(X).metric_)
    assert not hasattr(clone(repair), "metric_")


def test_cross_validation_slices_both_sides() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    x = rng.normal(size=60) + 6 * y
    D = abs(x[:, None] - x)
    noise = rng.uniform(1, 3, size=D.shape)
    D *= np.maximum(noise, noise.T)
    pipeline = make_pipeline(mm.MetricRepair(), KNeighborsClassifier(3, metric="precomputed"))
    assert cross_val_score(pipeline, D, y, cv=3).mean() > 0.9
