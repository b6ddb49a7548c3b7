"""Random forests whose labelled rows are judged by the trees not grown on them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from metricmix.dissimilarity.forests import (
    OutOfBagForest,
    ResampledForest,
    add_left_out,
    out_of_bag_means,
)
from metricmix.dissimilarity.regressors import TargetForest


def rows_and_classes(n=60, d=5):
    rng = np.random.default_rng(n)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    X[:, 1] = X[:, 1].round()  # ties
    return X, y


def test_a_forest_has_the_trees_of_scikit_learn():
    X, y = rows_and_classes()
    codes = np.where(np.arange(60) < 40, y, -1)
    p, kept = OutOfBagForest(X, 12, new_items=True).fit(codes, 4)
    forest = RandomForestClassifier(
        12, oob_score=True, class_weight="balanced_subsample", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that all trees have seen
        forest.fit(X[:40], y[:40])
    assert np.array_equal(p[40:, :3], forest.predict_proba(X[40:]))
    unseen = np.nan_to_num(forest.oob_decision_function_).sum(axis=1) > 0
    assert np.array_equal(p[:40, :3][unseen], forest.oob_decision_function_[unseen])
    assert kept is not None
    assert np.array_equal(kept.probabilities(X[40:]), p[40:])
    assert np.all(p[:, 3] == 0)


def test_a_forest_of_numbers_has_the_trees_of_scikit_learn():
    X, _ = rows_and_classes()
    target = X[:, 0] ** 2
    known = np.where(np.arange(60) < 40, target, np.nan)
    values, _ = TargetForest(X, 40).predict(known)
    forest = RandomForestRegressor(40, oob_score=True, max_features=0.5, random_state=0)
    forest.fit(X[:40], target[:40])
    assert np.array_equal(values[40:], forest.predict(X[40:]))
    assert np.array_equal(values[:40], forest.oob_prediction_)


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
        both = OutOfBagForest(X, 60), OutOfBagForest(X, 60).part(np.arange(len(y)), 3)
        assert isinstance(both[1], ResampledForest)
        p = [forest.probabilities(y, 3, weights) for forest in both]
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
    p = ResampledForest(X, 20).probabilities(single, 2)
    assert p[3].tolist() == [0.5, 0.5]
    unlabelled = np.where(np.arange(12) < 8, y, -1)
    p = ResampledForest(X, 20).probabilities(unlabelled, 3)
    assert p.sum(axis=1) == pytest.approx(1.0)
