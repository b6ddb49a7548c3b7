"""Trees on bootstrap samples, beside those of scikit-learn and exhaustive searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from metricmix.dissimilarity.forests import BaggedTrees, grown_trees
from tests.reference.trees import best_score, score_of


def one_tree(trees: BaggedTrees, t: int) -> BaggedTrees:
    """Return one of the trees."""
    return trees._replace(roots=trees.roots[t : t + 1], left_out=trees.left_out[t : t + 1])


def drawn_counts(L: int, n_trees: int) -> Any:
    """Return the bootstrap samples of trees without weights."""
    return np.random.default_rng(0).multinomial(L, np.full(L, 1.0 / L), size=n_trees)


@pytest.mark.parametrize("numbers", [False, True])
def test_a_tree_of_one_column_is_that_of_scikit_learn(numbers: bool) -> None:
    # With one column no two splits are equally good, so that there is one tree.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 1)).astype(np.float32)
    X[::4] = X[1::4]  # some values twice
    y = rng.normal(size=80) if numbers else rng.integers(0, 3, 80)
    trees = grown_trees(X, y, 1, n_trees=5, n_classes=0 if numbers else 3)
    for t, counts in enumerate(drawn_counts(80, 5)):
        tree = DecisionTreeRegressor() if numbers else DecisionTreeClassifier()
        tree.fit(X, y, counts.astype(float))
        expected = tree.predict(X)[:, None] if numbers else tree.predict_proba(X)
        assert one_tree(trees, t).mean(X) == pytest.approx(expected, abs=1e-12)
        assert np.array_equal(trees.left_out[t], counts == 0)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("n", [12, 90, 400])
def test_each_split_is_the_best_of_all(numbers: bool, n: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    X[:, 1] = X[:, 1].round()  # ties
    y = rng.normal(size=n) if numbers else rng.integers(0, 4, n)
    targets = (y - y.mean())[:, None] if numbers else np.eye(4)[y]
    trees = grown_trees(X, y, 3, n_trees=2, n_classes=0 if numbers else 4)
    for root, counts in zip(trees.roots, drawn_counts(n, 2), strict=True):
        waiting = [(int(root), np.flatnonzero(counts))]
        while waiting:
            node, rows = waiting.pop()
            values, weights = targets[rows], counts[rows].astype(float)
            if trees.column[node] < 0:
                leaf = trees.leaves[trees.other[node]] - (y.mean() if numbers else 0.0)
                assert leaf == pytest.approx(weights @ values / weights.sum())
                assert np.ptp(values, axis=0).max() == 0 or np.ptp(X[rows], axis=0).max() == 0
                continue
            left = X[rows, trees.column[node]] <= trees.threshold[node]
            assert 0 < left.sum() < len(rows)
            found = score_of(values, weights, left)
            assert found == pytest.approx(best_score(X[rows], values, weights), rel=1e-9)
            waiting += [(node + 1, rows[left]), (int(trees.other[node]), rows[~left])]


def tables() -> dict[str, Any]:
    """Return ten tables with classes."""
    found = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "wine", "breast_cancer", "digits")
    }
    made = datasets.make_classification
    found["moons"] = datasets.make_moons(400, noise=0.3, random_state=0)
    found["circles"] = datasets.make_circles(400, noise=0.2, factor=0.5, random_state=0)
    found["blobs"] = datasets.make_blobs(400, 5, centers=6, cluster_std=4.0, random_state=0)
    found["quantiles"] = datasets.make_gaussian_quantiles(n_samples=400, random_state=0)
    found["wide"] = made(400, 60, n_informative=8, n_classes=3, random_state=0)
    found["unbalanced"] = made(400, 10, weights=[0.85], flip_y=0.05, random_state=0)
    return found


def test_forests_are_as_good_as_those_of_scikit_learn() -> None:
    gaps = []
    for X, y in tables().values():
        n_classes, right = int(y.max()) + 1, []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[:100], order[100:500]
            forest = RandomForestClassifier(
                100, class_weight="balanced_subsample", oob_score=True, random_state=seed
            ).fit(X[train], y[train])
            tried = int(np.sqrt(X.shape[1]))
            trees = grown_trees(
                X[train], y[train], tried, n_trees=100, n_classes=n_classes, balanced=True
            )
            judged = trees.out_of_bag(X[train]).argmax(axis=1)
            ours = trees.mean(X[test]).argmax(axis=1) == y[test]
            theirs = forest.predict(X[test]) == y[test]
            right.append(
                [
                    ours.mean() - theirs.mean(),
                    (judged == y[train]).mean() - forest.oob_score_,
                ]
            )
        gaps.append(np.mean(right, axis=0))
    assert np.abs(gaps).max() < 0.04
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.01


def test_forests_of_numbers_are_as_good_as_those_of_scikit_learn() -> None:
    X, y = datasets.load_diabetes(return_X_y=True)
    trees = grown_trees(X, y, 5, n_trees=100)
    forest = RandomForestRegressor(100, max_features=5, oob_score=True, random_state=0).fit(X, y)
    unexplained = np.mean((trees.out_of_bag(X)[:, 0] - y) ** 2) / y.var()
    assert unexplained == pytest.approx(1.0 - forest.oob_score_, abs=0.03)
    assert np.corrcoef(trees.mean(X)[:, 0], forest.predict(X))[0, 1] > 0.99


def test_trees_do_not_depend_on_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = datasets.load_wine(return_X_y=True)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        trees = grown_trees(X, y, 3, n_trees=40, n_classes=3, balanced=True)
        found.append((*trees, trees.mean(np.tile(X, (40, 1)))))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_rows_that_count_are_drawn() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    weights = np.where(np.arange(50) < 5, 0.0, 1.0)
    trees = grown_trees(X, y, 1, weights, n_trees=30, n_classes=2)
    assert trees.left_out[:, :5].all()
    assert trees.left_out[:, 5:].mean() == pytest.approx(np.exp(-50 / 45), abs=0.05)
    weights[:] = 1.0
    weights[7] = 1e9
    seen = grown_trees(X, y, 1, weights, n_trees=30, n_classes=2).out_of_bag(X)
    assert np.isnan(seen[7]).all()
    assert np.isfinite(np.delete(seen, 7, axis=0)).all()


def test_rows_that_do_not_differ_are_a_leaf() -> None:
    y = np.array([0, 0, 0, 1])
    trees = grown_trees(np.ones((4, 3)), y, 1, n_trees=200, n_classes=2)
    assert np.all(trees.column == -1)
    assert trees.mean(np.zeros((1, 3)))[0] == pytest.approx([0.75, 0.25], abs=0.08)
    none = grown_trees(np.ones((4, 0)), y, 1, n_trees=3, n_classes=2)
    assert np.all(none.column == -1)
