"""Trees on bootstrap samples, beside those of scikit-learn and exhaustive searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from metricmix.dissimilarity.forests import (
    INSERTED,
    BaggedTrees,
    add_leaves,
    best_split,
    grown_tree,
    grown_trees,
    next_random,
    sort_ranks,
)
from tests.reference.trees import best_score, score_of, tree_of


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


def sorted_columns(X: Any) -> tuple[Any, Any, Any]:
    """Return the rows by each column, the place of each row among them, and the sorted values."""
    order = np.ascontiguousarray(np.argsort(X, axis=0, kind="stable").T)
    return order, np.argsort(order, axis=1), np.sort(X.T, axis=1)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("tried", [1, 5])
def test_the_kernel_grows_the_tree_of_a_recursive_search(numbers: bool, tried: int) -> None:
    rng = np.random.default_rng(tried)
    X = rng.normal(size=(60, 5))
    counts = rng.integers(0, 4, 60) * rng.random(60)  # no two splits are equally good
    X[:, 3] = 1.0
    y = np.where(X[:, 0] > 0.2, X[:, 1] > 0.0, 2 + (X[:, 2] > -0.1))
    if tried == 1:  # only one column can be drawn that splits
        X[:, 1:] = 1.0
        y = rng.integers(0, 4, 60)
    code, number = (np.zeros(60, np.int64), np.array([-3.0, -1.0, 2.0, 5.0])[y])
    if not numbers:
        code, number = y.astype(np.int64), np.ones(60)
    targets = number[:, None] if numbers else np.eye(4)[y]
    drawn = counts > 0
    n_classes, seed = 0 if numbers else 4, np.uint64(9)
    column, threshold, other, leaves = grown_tree(
        *sorted_columns(X), code, number, counts, n_classes, tried, seed
    )
    expected = tree_of(X[drawn], targets[drawn], counts[drawn])
    assert column.tolist() == [node[0] for node in expected]
    assert threshold == pytest.approx([node[1] for node in expected])
    inner, means = column >= 0, [node[3] for node in expected if node[0] < 0]
    assert other[inner].tolist() == [node[2] for node in expected if node[0] >= 0]
    assert other[~inner].tolist() == list(range(len(leaves)))
    assert leaves == pytest.approx(np.array(means))


def test_a_node_is_split_by_the_best_of_the_drawn_columns() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    given = np.zeros(40, np.int64), y, np.ones(40)
    for seed in rng.integers(2**63, size=10, dtype=np.uint64):
        features, state = list(range(5)), seed
        for f in range(2):  # a shuffle from the front
            state, number = map(np.uint64, next_random(state))
            g = f + int(number % np.uint64(5 - f))
            features[f], features[g] = features[g], features[f]
        for tried in (1, 2):
            scores = [best_score(X[:, [f]], y[:, None], given[2]) for f in features[:tried]]
            column = grown_tree(*sorted_columns(X), *given, 0, tried, seed)[0]
            assert column[0] == features[int(np.argmax(scores))]


@pytest.mark.parametrize("size", [1, 7, INSERTED, INSERTED + 1, 60, 400, 1000])
def test_ranks_of_a_node_are_sorted(size: int) -> None:
    rng = np.random.default_rng(size)
    order = rng.permutation(1000)
    ranks, rows = np.argsort(order), rng.permutation(1000)[:size]
    node_of, found = np.full(1000, 3), np.empty(size, np.int64)
    node_of[rows] = 5
    sort_ranks(order, ranks, rows, node_of, 5, found)
    assert found.tolist() == sorted(ranks[rows].tolist())


@pytest.mark.parametrize("numbers", [False, True])
def test_the_best_split_of_a_column_is_that_of_all_splits(numbers: bool) -> None:
    rng = np.random.default_rng(3)
    x, counts = rng.normal(size=80).round(), rng.integers(1, 4, 80).astype(float)  # many ties
    y, amounts = rng.integers(0, 3, 80), rng.normal(size=80)
    code, number = (np.zeros(80, np.int64), amounts) if numbers else (y, np.ones(80))
    targets = amounts[:, None] if numbers else np.eye(3)[y]
    order = np.argsort(x, kind="stable")
    ordered = np.sort(rng.permutation(80)[:50])  # ranks of the rows of a node
    rows = order[ordered]
    whole = counts[rows] @ targets[rows]
    score, place = best_split(
        order, x[order], ordered, code, number, counts, whole, np.empty_like(whole)
    )
    assert score == pytest.approx(best_score(x[rows, None], targets[rows], counts[rows]))
    left = x[rows] <= x[rows[place]]
    assert left.sum() == place + 1
    assert score == pytest.approx(score_of(targets[rows], counts[rows], left))


def test_random_numbers_are_those_of_splitmix64() -> None:
    assert next_random(np.uint64(0))[1] == 0xE220A8397B1DCDAF  # as published
    whole, state = 2**64, 2**63 + 12345
    for _ in range(20):
        following, drawn = next_random(np.uint64(state))
        state = (state + 0x9E3779B97F4A7C15) % whole
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % whole
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % whole
        assert (following, drawn) == (state, z ^ (z >> 31))


def test_leaves_are_added_for_the_trees_that_judge_a_row() -> None:
    X, y = datasets.load_wine(return_X_y=True)
    trees = grown_trees(X, y, 3, n_trees=6, n_classes=3)
    judges, total = np.ascontiguousarray(trees.left_out.T), np.ones((len(X), 3))
    expected = total.copy()
    for i, t in np.argwhere(judges):
        node = trees.roots[t]
        while trees.column[node] >= 0:
            near = X[i, trees.column[node]] <= trees.threshold[node]
            node = node + 1 if near else trees.other[node]
        expected[i] += trees.leaves[trees.other[node]]
    add_leaves(X, judges, *trees[:5], total)
    np.testing.assert_allclose(total, expected, rtol=1e-14)
