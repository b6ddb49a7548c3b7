"""Supervised sources: cross-fitted probabilities, and labels that never leak."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC

import metricmix as mm
from metricmix.dissimilarity.diffusion import smoothing_operator
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.hellinger import hellinger
from metricmix.dissimilarity.supervised import (
    CrossFittedClassifier,
    KernelLogisticRegression,
    LabelPropagation,
    SupervisedSource,
    deal_folds,
)

RNG = np.random.default_rng(0)
N = 60
Y = np.arange(N) % 3
X = RNG.normal(size=(N, 5)) + Y[:, None]
KNOWN = np.where(np.arange(N) < 30, Y, -1)


def test_labelled_items_are_judged_by_models_that_did_not_see_their_label():
    model = LogisticRegression(C=10.0)
    p = CrossFittedClassifier(X, model, n_folds=5).probabilities(KNOWN, 3)
    labelled = np.flatnonzero(KNOWN >= 0)
    folds = deal_folds(KNOWN[labelled], 5)
    for fold in range(5):
        train, test = labelled[folds != fold], labelled[folds == fold]
        expected = LogisticRegression(C=10.0).fit(X[train], KNOWN[train]).predict_proba(X[test])
        assert p[test] == pytest.approx(expected, abs=1e-12)
    everyone = LogisticRegression(C=10.0).fit(X[labelled], KNOWN[labelled])
    assert p[30:] == pytest.approx(everyone.predict_proba(X[30:]), abs=1e-12)


def test_of_several_classifiers_the_most_accurate_is_taken():
    noise = RNG.normal(size=(N, 5))

    class OnNoise(LogisticRegression):
        def fit(self, X, y):
            return super().fit(noise[: len(y)], y)

    candidates = [OnNoise(), LogisticRegression()]
    predictor = CrossFittedClassifier(X, candidates)
    alone = CrossFittedClassifier(X, LogisticRegression())
    assert np.array_equal(predictor.probabilities(KNOWN, 3), alone.probabilities(KNOWN, 3))
    assert predictor.narrowed().classifiers == [candidates[1]]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_kernel_logistic_regression(kernel):
    model = KernelLogisticRegression(kernel, C=3.0).fit(X, Y)
    p = model.predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(model.predict(X), p.argmax(axis=1))
    if kernel == "linear":
        plain = LogisticRegression(C=3.0, tol=1e-8, max_iter=1000).fit(X, Y).predict_proba(X)
        assert p == pytest.approx(plain, abs=0.02)  # the tolerance of the regression is coarse
    wide = np.hstack([X, RNG.normal(size=(N, 200))])
    direct = CrossFittedClassifier(wide, KernelLogisticRegression(kernel)).probabilities(KNOWN, 3)
    assert direct.shape == (N, 3)


def test_label_propagation_leaves_out_the_own_label():
    graph = as_graph([(0, 1), (1, 2), (3, 4)], nodes=6)
    p = LabelPropagation(smoothing_operator(graph)).probabilities(
        np.array([0, 0, -1, 1, -1, -1]), 2
    )
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert p[2].argmax() == 0
    assert p[4].argmax() == 1
    assert p[3] == pytest.approx(0.5)  # nothing but its own label reaches it
    assert p[5] == pytest.approx(0.5)


def test_rows_pairs_and_the_definition_agree():
    source = SupervisedSource(CrossFittedClassifier(X), "words", KNOWN, 3)
    root = np.sqrt(source.probabilities)
    expected = np.sqrt(np.maximum(1 - root @ root.T, 0))
    every = np.arange(N)
    rows = source.rows(every)
    assert rows == pytest.approx(expected, abs=1e-7)
    assert np.array_equal(rows, source.columns(every))
    i, j = RNG.integers(0, N, (2, 50))
    assert source.pairs(i, j) == pytest.approx(rows[i, j], abs=1e-12)
    assert hellinger(source.probabilities[:1], source.probabilities[:1]) == 0
    assert mm.is_metric(rows)
    assert rows.max() <= 1


def test_other_labels_give_another_source():
    stack = mm.sources_for(X, labels=KNOWN)
    assert stack.relabelled(KNOWN, 3) is not None
    again = stack.relabelled(KNOWN, 3)
    assert again.source("learned_columns") == pytest.approx(stack.source("learned_columns"))
    other = np.where(KNOWN >= 0, (KNOWN + np.arange(N)) % 3, -1)
    changed = stack.relabelled(other, 3)
    fresh = mm.sources_for(X, labels=other)
    assert np.asarray(changed) == pytest.approx(np.asarray(fresh))
    for name in stack.names:
        same = np.array_equal(stack.source(name), changed.source(name))
        assert same == (name not in stack.supervised), name


def test_the_labels_of_the_fit_win():
    shuffled = np.where(KNOWN >= 0, RNG.permutation(KNOWN[:30])[np.arange(N) % 30], -1)
    right, wrong = (mm.sources_for(X, labels=labels) for labels in (KNOWN, shuffled))
    fits = [mm.MetricMixtureClassifier(stack).fit(np.arange(N), KNOWN) for stack in (right, wrong)]
    assert np.array_equal(fits[0].weights_, fits[1].weights_)
    assert np.array_equal(*(model.predict_proba(np.arange(N)) for model in fits))


def test_with_shuffled_labels_accuracy_is_at_chance():
    """Were a label seen by what judges it, the classifiers of 40 noisy columns would find it."""
    rng = np.random.default_rng(1)
    n = 80
    noise, y = rng.normal(size=(n, 40)), rng.integers(0, 2, n)
    stack = mm.sources_for(noise, labels=y)
    fixed = {"constraint": "nonnegative", "rho": 1e-4, "rule": "class-mean"}
    model = mm.MetricMixtureClassifier(stack, **fixed)
    error = 3 * 0.5 / np.sqrt(n)  # three standard errors
    cv = mm.estimators.LabelledKFold(3, random_state=0)
    scores = cross_val_score(model, np.arange(n), y, cv=cv)
    assert abs(scores.mean() - 0.5) < error
    search = mm.MetricMixtureClassifierCV(
        stack, constraint="nonnegative", rhos=(1e-3,), rules=("class-mean",), cv=cv
    ).fit(np.arange(n), y)
    assert abs(search.best_score_ - 0.5) < error
    found = model.fit(np.arange(n), y).compare(n_splits=3, random_state=0)
    assert abs(found["learned"].mean - 0.5) < error
    assert all(abs(source.mean - 0.5) < 0.2 for source in found.sources)


def test_any_classifier_with_probabilities():
    forest = RandomForestClassifier(10, random_state=0)
    p = CrossFittedClassifier(X, forest, n_folds=3).probabilities(KNOWN, 3)
    assert p.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(mm.InputError, match="predict_proba, got LinearSVC"):
        CrossFittedClassifier(X, LinearSVC())


def test_few_labels():
    single = np.where(np.arange(N) < 4, [0, 0, 0, 1][0], -1)
    single[3] = 1  # a class with one label: nothing is known of it without that
    p = CrossFittedClassifier(X).probabilities(single, 2)
    assert p[3].tolist() == [0.5, 0.5]
    assert np.isfinite(p).all()


def test_bad_input():
    with pytest.raises(mm.InputError, match="labels: expected 60 labels"):
        mm.sources_for(X, labels=KNOWN[:-1])
    with pytest.raises(mm.InputError, match="labels"):
        mm.sources_for(X, labels=np.full(N, -1))
    with pytest.raises(mm.InputError, match="'learned_columns' is computed from labels"):
        mm.MetricMixtureClassifier().fit(mm.sources_for(X, labels=KNOWN), KNOWN)
