"""Random forests whose labelled rows are judged by the trees not grown on them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from metricmix.dissimilarity.forests import Forest, add_left_out, out_of_bag_means
from metricmix.dissimilarity.known import Known


def rows_and_classes(n=60, d=5):
    rng = np.random.default_rng(n)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    X[:, 1] = X[:, 1].round()  # ties
    return X, y


def test_a_forest_has_the_trees_of_scikit_learn():
    X, y = rows_and_classes()
    known = Known(np.where(np.arange(60) < 40, y, -1), 4)
    grown = Forest(X, 12)
    p, items, order = grown.predict(known).values, known.canonical, known.class_order
    forest = RandomForestClassifier(
        12, oob_score=True, class_weight="balanced_subsample", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that all trees have seen
        forest.fit(X[items], np.argsort(order)[y[items]])  # in the order of the keys
    assert np.array_equal(p[40:, order], forest.predict_proba(X[40:]))
    unseen = np.nan_to_num(forest.oob_decision_function_).sum(axis=1) > 0
    assert np.array_equal(p[items][:, order][unseen], forest.oob_decision_function_[unseen])
    assert np.array_equal(grown.model(known).predict(X[40:]), p[40:])
    assert np.all(p[:, 3] == 0)


def test_a_forest_of_numbers_has_the_trees_of_scikit_learn():
    X, _ = rows_and_classes()
    target = X[:, 0] ** 2
    known = Known(np.where(np.arange(60) < 40, target, np.nan))
    grown, items = Forest(X, 40), known.canonical
    values = grown.predict(known).values
    forest = RandomForestRegressor(40, oob_score=True, max_features=0.5, random_state=0)
    forest.fit(X[items], target[items])
    assert np.array_equal(values[40:], forest.predict(X[40:]))
    assert np.array_equal(values[items], forest.oob_prediction_)
    assert np.array_equal(grown.model(known).predict(X[40:]), values[40:])


@pytest.mark.parametrize("numbers", [False, True])
def test_rows_left_out_follow_the_splits_of_a_tree(numbers):
    # With one column no two splits are equally good, so that there is one tree.
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 1)).astype(np.float32), rng.integers(0, 3, 80)
    counts = rng.integers(0, 3, 80) * rng.uniform(0.5, 2.0, 80)
    out = counts == 0
    targets = rng.normal(size=(80, 1)) if numbers else np.eye(3)[y]
    found = np.zeros(targets.shape)
    add_left_out(X.astype(np.float64), targets, counts, 1, rng, found)
    tree = DecisionTreeRegressor() if numbers else DecisionTreeClassifier()
    tree.fit(X[~out], targets[~out, 0] if numbers else y[~out], counts[~out])
    expected = tree.predict(X)[:, None] if numbers else tree.predict_proba(X)
    assert found[out] == pytest.approx(expected[out], abs=1e-12)
    assert np.all(found[~out] == 0)


def test_a_resample_is_judged_as_well_as_by_the_whole_forest():
    rng = np.random.default_rng(0)
    right = []
    for seed in range(8):
        X, y = rows_and_classes(60 + seed)
        weights = rng.exponential(size=len(y))
        both = Forest(X, 60), Forest(X, 60).part(np.arange(len(y)), 3)
        assert both[1].is_resampled
        p = [forest.predict(Known(y, 3), weights).values for forest in both]
        assert p[1].sum(axis=1) == pytest.approx(1.0)
        right.append([of_one[np.arange(len(y)), y].mean() for of_one in p])
    gap = np.subtract(*np.transpose(right))
    assert abs(gap.mean()) < 0.03


def test_rows_that_no_tree_leaves_out_are_unknown():
    X, y = rows_and_classes(12)
    assert np.isnan(
        out_of_bag_means(X, np.eye(3)[y], np.full(12, 1e-9) + (y == 0) * 1e9, 1, 2)
    ).any()
    single = np.where(np.arange(12) == 3, 1, 0)
    p = Forest(X, 20, is_resampled=True).predict(Known(single, 2)).values
    assert p[3].tolist() == [0.5, 0.5]
    unlabelled = np.where(np.arange(12) < 8, y, -1)
    p = Forest(X, 20, is_resampled=True).predict(Known(unlabelled, 3)).values
    assert p.sum(axis=1) == pytest.approx(1.0)
