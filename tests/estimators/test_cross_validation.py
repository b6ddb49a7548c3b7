"""Splits of the labelled items, and settings chosen by them, against plain loops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.estimators import (
    LabelledKFold,
    MetricMixtureClassifier,
    MetricMixtureClassifierCV,
)
from metricmix.learning.rules import CLASS_RULES, KNearest, Spreading
from reference.instances import random_sources

N = 45
X, Y = make_blobs(N, 3, centers=3, cluster_std=5.0, random_state=4)
KNOWN = np.where(np.arange(N) < 24, Y, -1)
SOURCES = ["euclidean", "angular"]
STACK = mm.DissimilarityStack({name: features(X, name) for name in SOURCES})


# -- LabelledKFold -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_splits", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_folds(n_splits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(-1, 4, 60)
    known = np.flatnonzero(y >= 0)
    tests = []
    for train, test in LabelledKFold(n_splits, random_state=seed).split(None, y):
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(60))
        assert (y[test] >= 0).all()
        tests.append(test)
    assert np.array_equal(np.sort(np.concatenate(tests)), known)
    for c in range(4):
        shares = [int((y[test] == c).sum()) for test in tests]
        assert max(shares) - min(shares) <= 1
    sizes = [len(test) for test in tests]
    assert max(sizes) - min(sizes) <= 1


def test_repeats_and_seeds() -> None:
    def tests(**options: Any) -> list[list[int]]:
        return [test.tolist() for _, test in LabelledKFold(3, **options).split(X, KNOWN)]

    twice = tests(n_repeats=2, random_state=0)
    assert len(twice) == LabelledKFold(3, n_repeats=2).get_n_splits() == 6
    for part in (twice[:3], twice[3:]):
        assert sorted(k for test in part for k in test) == list(range(24))
    assert twice[:3] != twice[3:]
    assert tests(n_repeats=2, random_state=0) == twice
    assert tests(random_state=1) != tests(random_state=2)
    assert tests(random_state=np.random.RandomState(3)) == tests(random_state=3)
    splitter = LabelledKFold(3, random_state=5)
    first, second = ([t.tolist() for _, t in splitter.split(X, KNOWN)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b", "", "a", "b", "-1"],
        np.array(["a", "b", "", "a", "b", "-1"], dtype=object),
        [0.0, 1.0, -1.0, 0.0, 1.0, -1.0],
    ],
    ids=["texts", "objects", "floats"],
)
def test_labels_of_any_kind(y: Any) -> None:
    for train, test in LabelledKFold(2, random_state=0).split(None, y):
        assert {2, 5} <= set(train.tolist())
        assert sorted(np.asarray(y)[test]) == sorted(np.asarray(y)[[0, 1]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LabelledKFold(1), "n_splits: expected a whole number >= 2, got 1"),
        (lambda: LabelledKFold(2.5), "n_splits: expected a whole number"),
        (lambda: LabelledKFold(3, n_repeats=0), "n_repeats: expected a whole number >= 1"),
        (lambda: list(LabelledKFold(3).split(X)), "y: expected labels"),
        (
            lambda: list(LabelledKFold(3).split(X[:4], [0, 1, -1, -1])),
            "n_splits: expected at most 2, the number of labelled items, got 3",
        ),
    ],
)
def test_impossible_folds_are_refused(make: Any, message: str) -> None:
    with pytest.raises(mm.InputError, match=message):
        make()


def test_folds_serve_scikit_learn() -> None:
    model = MetricMixtureClassifier(SOURCES, constraint="nonnegative", rho=1e-3, rule="nearest")
    scores = cross_val_score(model, X, KNOWN, cv=LabelledKFold(4, random_state=0))
    assert len(scores) == 4
    assert "n_splits=4" in repr(LabelledKFold(4, random_state=0))


# -- MetricMixtureClassifierCV -------------------------------------------------------------------

GRID: dict[str, Any] = {"rhos": (1e-2, 1e-1), "betas": (1.0, 5.0)}
QUICK: dict[str, Any] = {"rhos": (1e-2,), "constraint": "nonnegative"}
"""Where the metric of a fit is the mixture itself: for tests of what surrounds the fits."""


def folds_of(model: MetricMixtureClassifierCV) -> list[Any]:
    """Training and test items of each fold, where `cv` is a number."""
    known, folds = model.learned_.known, []
    for seed in LabelledKFold(model.cv, n_repeats=2, random_state=model.random_state).seeds():
        dealt = known.folds(model.cv, seed)
        tests = [known.items[dealt == number] for number in range(model.cv)]
        folds += [(np.setdiff1d(np.arange(known.n), test), test) for test in tests]
    return folds


def loop(
    folds: Any, y: Any, settings: Any, *, stack: Any = STACK, **options: Any
) -> tuple[Any, Any]:
    """Accuracy and log loss of every setting and fold, held-out items being unlabelled ones."""
    ids, classes = np.arange(len(y)), np.unique(y[y >= 0])
    accuracy, loss = [], []
    for train, test in folds:
        fits = [
            MetricMixtureClassifier(stack, **options, **setting).fit(ids[train], y[train])
            for setting in settings
        ]
        accuracy.append([model.score(ids[test], y[test]) for model in fits])
        p = [np.maximum(model.predict_proba(ids[test]), 1e-15) for model in fits]
        loss.append(
            [log_loss(y[test], q / q.sum(axis=1, keepdims=True), labels=classes) for q in p]
        )
    return np.array(accuracy), np.array(loss)


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ProjectionWarning")
@pytest.mark.parametrize(
    ("objective", "weights"), [("class-means", "uniform"), ("neighbourhood", "distance")]
)
def test_scores_are_those_of_a_loop(objective: str, weights: str) -> None:
    options = {"objective": objective, "constraint": "nonnegative", "projection": False}
    votes = (KNearest(2, weights), KNearest(5, weights))
    rules = ("class-mean", "nearest", *votes, Spreading(2), Spreading(5, alpha=0.6))
    model = MetricMixtureClassifierCV(
        STACK, rules=rules, cv=3, random_state=0, **GRID, **options
    ).fit(np.arange(N), KNOWN)
    results = model.cv_results_
    accuracy, loss = loop(folds_of(model), KNOWN, results["params"], **options)
    assert len(results["params"]) == 2 * 2 * (1 + 1 + 2 + 2)
    found = np.array([results[f"split{k}_test_score"] for k in range(6)])
    # Weights differ in the last digits, since each is learned from another start.
    assert np.abs(found - accuracy).max() <= 1 / 8
    assert np.mean(abs(found - accuracy) > 1e-12) < 0.02
    assert results["mean_test_score"] == pytest.approx(found.mean(axis=0))
    assert results["std_test_score"] == pytest.approx(found.std(axis=0))
    assert results["mean_log_loss"] == pytest.approx(loss.mean(axis=0), rel=0.05)


def test_a_directed_stack() -> None:
    sources = random_sources(np.random.default_rng(0), N, 2, directed=True)
    stack = mm.DissimilarityStack(sources, directed=True)
    model = MetricMixtureClassifierCV(
        stack, rhos=(1.0,), rules=CLASS_RULES.names(), cv=2, random_state=0, constraint="simplex"
    ).fit(np.arange(N), KNOWN)
    accuracy, _ = loop(
        folds_of(model), KNOWN, model.cv_results_["params"], stack=stack, constraint="simplex"
    )
    assert model.cv_results_["mean_test_score"] == pytest.approx(accuracy.mean(axis=0), abs=0.05)


@pytest.mark.parametrize("metric", ["angular", "cosine"])
def test_the_best_setting(metric: str) -> None:
    sources = ["euclidean", metric]  # the second one is none, and learned from through paths
    model = MetricMixtureClassifierCV(sources, cv=3, random_state=0, **GRID).fit(X, KNOWN)
    results = model.cv_results_
    rank = results["rank_test_score"]
    assert sorted(rank) == list(range(1, len(rank) + 1))
    in_order = np.argsort(rank)
    pairs = list(
        zip(results["mean_test_score"][in_order], results["mean_log_loss"][in_order], strict=True)
    )
    for (score, loss), (next_score, next_loss) in pairwise(pairs):
        assert score >= next_score - 1e-12
        if abs(score - next_score) < 1e-12:
            assert loss <= next_loss
    best = model.best_index_
    assert rank[best] == 1
    assert model.best_params_ == results["params"][best]
    assert model.best_score_ == results["mean_test_score"].max() == results["mean_test_score"][best]


def test_among_equal_scores_the_smaller_log_loss_wins() -> None:
    far = X + 100 * Y[:, None]
    model = MetricMixtureClassifierCV(
        ["euclidean"], rhos=(1e-4, 1e-2, 1.0, 100.0), rules=("class-mean",), cv=3, random_state=0
    ).fit(far, Y)
    results = model.cv_results_
    assert (results["mean_test_score"] == 1.0).sum() > 1
    best = results["mean_test_score"] == 1.0
    assert results["mean_log_loss"][model.best_index_] == results["mean_log_loss"][best].min()


def test_layout_of_the_results() -> None:
    model = MetricMixtureClassifierCV(
        SOURCES,
        rhos=(1e-3, 1e-1),
        rules=("nearest", KNearest(1), KNearest(3), "k-nearest"),
        cv=2,
    ).fit(X, KNOWN)
    results = model.cv_results_
    assert len(results["params"]) == 2 * (1 + 3)
    for name in ("rho", "beta", "rule"):
        assert results[f"param_{name}"].tolist() == [p[name] for p in results["params"]]
    for name in (
        *(f"split{k}_test_score" for k in range(4)),
        *("mean_test_score", "std_test_score", "mean_log_loss", "rank_test_score"),
    ):
        assert results[name].shape == (8,)
    assert "split4_test_score" not in results
    assert len({tuple(sorted(p.items())) for p in results["params"]}) == 8


def test_it_answers_as_its_best_estimator(of_recipes: MetricMixtureClassifierCV) -> None:
    model, best = of_recipes, of_recipes.best_estimator_
    assert isinstance(best, MetricMixtureClassifier)
    assert {name: best.get_params()[name] for name in model.best_params_} == model.best_params_
    new = X[:5] + 0.1
    assert np.array_equal(model.predict_proba(new), best.predict_proba(new))
    assert np.array_equal(model.predict(new), best.predict(new))
    for name in ("classes_", "transduction_", "weights_", "n_iter_", "n_features_in_"):
        assert np.array_equal(getattr(model, name), getattr(best, name))
    alone = MetricMixtureClassifier(SOURCES, **model.best_params_).fit(X, KNOWN)
    assert np.array_equal(alone.weights_, best.weights_)
    assert np.array_equal(alone.transduction_, model.transduction_)


BY_NUMBER = LabelledKFold(2, n_repeats=2, random_state=0)
"""Folds that are the same however the items are given; those of ``cv=2`` depend on ids or rows."""


@pytest.fixture(scope="module")
def of_recipes() -> MetricMixtureClassifierCV:
    return MetricMixtureClassifierCV(SOURCES, cv=BY_NUMBER, **GRID).fit(X, KNOWN)


@pytest.mark.parametrize("name", ["precomputed", "recipes", "ids"])
def test_all_ways_in(name: str, of_recipes: MetricMixtureClassifierCV) -> None:
    sources, table = {
        "precomputed": ("precomputed", STACK),
        "recipes": (SOURCES, X),
        "ids": (STACK, np.arange(N)),
    }[name]
    model = MetricMixtureClassifierCV(sources, cv=BY_NUMBER, **GRID).fit(table, KNOWN)
    assert model.best_params_ == of_recipes.best_params_
    assert model.best_score_ == pytest.approx(of_recipes.best_score_)
    quick = clone(model).set_params(**QUICK, betas=(1.0,))
    outer = cross_val_score(quick, table, KNOWN, cv=LabelledKFold(2, random_state=3))
    assert len(outer) == 2


def test_some_ids_only() -> None:
    order = np.random.default_rng(0).permutation(24)
    model = MetricMixtureClassifierCV(STACK, cv=KFold(3), **GRID).fit(order, Y[order])
    accuracy = []
    for train, test in KFold(3).split(order):
        part = MetricMixtureClassifier(STACK, **model.best_params_)
        part.fit(order[train], Y[order][train])
        accuracy.append(part.score(order[test], Y[order][test]))
    assert model.best_score_ == pytest.approx(np.mean(accuracy), abs=0.05)
    assert len(model.transduction_) == N


def test_a_splitter_of_ones_own() -> None:
    for cv in (KFold(3), StratifiedKFold(3), ShuffleSplit(4, test_size=0.3, random_state=0)):
        model = MetricMixtureClassifierCV(STACK, cv=cv, **QUICK).fit(np.arange(N), Y)
        folds = cv.split(np.arange(N), Y)
        accuracy, _ = loop(folds, Y, model.cv_results_["params"], constraint="nonnegative")
        assert model.cv_results_["mean_test_score"] == pytest.approx(
            accuracy.mean(axis=0), abs=0.02
        )


def test_in_a_pipeline() -> None:
    model = make_pipeline(
        StandardScaler(), MetricMixtureClassifierCV(SOURCES, cv=2, rhos=(1e-2,), random_state=0)
    )
    assert cross_val_score(model, X, Y, cv=2).mean() > 0.5


def test_the_same_seed_is_the_same_result() -> None:
    one, two = (
        MetricMixtureClassifierCV(SOURCES, cv=2, random_state=7, n_jobs=k, **GRID).fit(X, KNOWN)
        for k in (1, 2)
    )
    assert np.array_equal(one.cv_results_["mean_log_loss"], two.cv_results_["mean_log_loss"])
    assert one.best_params_ == two.best_params_


@pytest.mark.parametrize(
    "rule",
    [
        "class-mean",
        "nearest",
        "k-nearest",
        "spreading",
    ],
)
def test_a_class_that_is_missing_in_a_fold(rule: str) -> None:
    y = np.full(N, -1)
    y[:9] = [0, 0, 0, 0, 1, 1, 1, 1, 2]
    model = MetricMixtureClassifierCV(SOURCES, rules=(rule,), cv=2, random_state=0, **QUICK)
    model.fit(X, y)
    assert model.predict_proba(X).shape == (N, 3)


def test_unlabelled_items_in_a_test_set_do_not_count() -> None:
    order = np.random.default_rng(0).permutation(N)
    y, cv = KNOWN[order], KFold(3)
    table = X[order]
    model = MetricMixtureClassifierCV(SOURCES, rhos=(1e-2,), cv=cv).fit(table, y)
    only = [(train, test[y[test] >= 0]) for train, test in cv.split(table)]
    accuracy = []
    for train, test in only:
        held = np.where(np.isin(np.arange(N), train), y, -1)
        part = MetricMixtureClassifier(SOURCES, **model.best_params_).fit(table, held)
        accuracy.append(np.mean(part.transduction_[test] == y[test]))
    assert model.best_score_ == pytest.approx(np.mean(accuracy), abs=0.02)


def test_a_list_of_splits() -> None:
    splits = list(KFold(3).split(X))
    one, two = (
        MetricMixtureClassifierCV(SOURCES, cv=cv, **QUICK).fit(X, Y) for cv in (splits, KFold(3))
    )
    assert one.best_score_ == two.best_score_
