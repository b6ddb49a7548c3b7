"""Random forests whose labelled rows are judged by the trees not grown on them."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.dissimilarity.forests import grown_trees
from metricmix.dissimilarity.kinds.forest import Forest
from metricmix.dissimilarity.known import Known


def rows_and_classes(n=60, d=5):
    rng = np.random.default_rng(n)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    X[:, 1] = X[:, 1].round()  # ties
    return X, y


def test_labelled_rows_are_judged_by_trees_that_left_them_out():
    X, y = rows_and_classes()
    known = Known(np.where(np.arange(60) < 40, y, -1), 4)
    forest = Forest(X, 12)
    p, items, order = forest.predict(known).values, known.canonical, known.class_order
    codes = np.argsort(order)[y[items]]  # in the order of the keys
    trees = grown_trees(X[items], codes, 2, n_trees=12, n_classes=len(order), balanced=True)
    assert np.array_equal(p[40:, order], trees.mean(X[40:]))
    judged = trees.out_of_bag(X[items])
    seen = np.isnan(judged[:, 0])
    assert np.array_equal(p[items][:, order][~seen], judged[~seen])
    assert np.all(p[items][seen] == 0.25)
    assert np.array_equal(forest.model(known).predict(X[40:]), p[40:])
    assert np.all(p[~np.isin(np.arange(60), items[seen]), 3] == 0)


def test_a_forest_of_numbers_tries_half_of_the_columns():
    X, _ = rows_and_classes()
    target = X[:, 0] ** 2
    known = Known(np.where(np.arange(60) < 40, target, np.nan))
    forest, items = Forest(X, 40), known.canonical
    values = forest.predict(known).values
    trees = grown_trees(X[items], target[items], 2, n_trees=40)
    assert np.array_equal(values[40:], trees.mean(X[40:])[:, 0])
    assert np.array_equal(values[items], trees.out_of_bag(X[items])[:, 0])
    assert np.array_equal(forest.model(known).predict(X[40:]), values[40:])


def test_random_labels_are_not_learned():
    X, _ = rows_and_classes(200)
    right = []
    for seed in range(10):
        y = np.random.default_rng(seed).integers(0, 2, 200)
        p = Forest(X, 50).predict(Known(y, 2)).values
        right.append((p.argmax(axis=1) == y).mean())
    assert abs(np.mean(right) - 0.5) < 0.03


def test_a_part_has_the_same_trees():
    X, y = rows_and_classes()
    weights = np.random.default_rng(0).exponential(size=60)
    some = np.arange(60) % 3 > 0
    known = Known(np.where(some, y, -1), 3, keys=np.arange(60, dtype=np.uint64))
    whole = Forest(X, 20).predict(known, weights).values
    part = (
        Forest(X, 20)
        .part(np.flatnonzero(some), 3)
        .predict(known.take(np.flatnonzero(some)), weights[some])
    )
    assert np.array_equal(part.values, whole[some])


def test_rows_that_no_tree_leaves_out_are_unknown():
    X, y = rows_and_classes(12)
    single = np.where(np.arange(12) == 3, 1, 0)
    p = Forest(X, 20).predict(Known(single, 2)).values
    assert p[3].tolist() == [0.5, 0.5]
    heavy = np.where(np.arange(12) == 5, 1e9, 1.0)
    p = Forest(X, 20).predict(Known(y, 3), heavy).values
    assert p[5] == pytest.approx([1 / 3] * 3)
    numbers = Forest(X, 20).predict(Known(X[:, 0]), heavy).values
    assert numbers[5] == pytest.approx(np.average(X[:, 0], weights=heavy))
    assert np.isfinite(numbers).all()
