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
from metricmix.dissimilarity.kernel_logistic import KernelClassifier, KernelLogisticRegression
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import hellinger
from metricmix.dissimilarity.predictors import CrossFitted
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.supervised import SupervisedSource

RNG = np.random.default_rng(0)
N = 60
Y = np.arange(N) % 3
X = RNG.normal(size=(N, 5)) + Y[:, None]
CODES = np.where(np.arange(N) < 30, Y, -1)
KNOWN = Known(CODES, 3)


def test_labelled_items_are_judged_by_models_that_did_not_see_their_label():
    model = LogisticRegression(C=10.0)
    p = CrossFitted(X, model, n_folds=5).predict(KNOWN).values
    labelled, order = KNOWN.canonical, KNOWN.class_order
    folds = np.empty(N, dtype=int)
    folds[KNOWN.items] = KNOWN.folds(5, keep_shares=True)

    def expected(train, rows):
        fitted = LogisticRegression(C=10.0).fit(X[train], np.argsort(order)[CODES[train]])
        return fitted.predict_proba(rows)[:, np.argsort(order)]

    for fold in range(5):
        train, test = (labelled[(folds[labelled] == fold) == side] for side in (False, True))
        assert p[test] == pytest.approx(expected(train, X[test]), abs=1e-12)
    assert p[30:] == pytest.approx(expected(labelled, X[30:]), abs=1e-12)


def test_of_several_classifiers_the_most_accurate_is_taken():
    noise = RNG.normal(size=(N, 5))

    class OnNoise(LogisticRegression):
        def fit(self, X, y):
            return super().fit(noise[: len(y)], y)

    candidates = [OnNoise(), LogisticRegression()]
    both, alone = (CrossFitted(X, models) for models in (candidates, LogisticRegression()))
    found = both.predict(KNOWN)
    assert np.array_equal(found.values, alone.predict(KNOWN).values)
    assert found.choice == 1
    source = SupervisedSource(both, "f", KNOWN)
    other = KNOWN.without([0, 1, 2])
    assert source.relabel(other, keep_choice=True).choice == 1
    expected = alone.predict(other, n_folds=5).values
    assert np.array_equal(source.relabel(other, keep_choice=True).values, expected)
    assert np.array_equal(
        both.predict(other, choice=0).values, CrossFitted(X, OnNoise()).predict(other).values
    )


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
    direct = CrossFitted(wide, KernelLogisticRegression(kernel)).predict(KNOWN).values
    assert direct.shape == (N, 3)
    by_products = KernelClassifier(wide, kernel)
    by_products.estimators = [KernelLogisticRegression(kernel)]
    assert by_products.predict(KNOWN).values[30:] == pytest.approx(direct[30:], abs=1e-6)
    model = by_products.model(KNOWN)
    assert model.predict(wide[30:]) == pytest.approx(direct[30:], abs=1e-6)


def test_what_is_kept_of_labelled_rows_changes_nothing():
    """Resamples of the same labels, other labels, and the first ones again, with and without it."""
    weights = [np.random.default_rng(k).exponential(size=N) for k in range(3)]
    asked = [(KNOWN, None), *((KNOWN, one) for one in weights), (KNOWN.without([0, 4]), weights[0])]
    one = KernelClassifier(X, "rbf")
    for known, weighted in [*asked, *asked]:
        found = one.predict(known, weighted).values
        assert np.array_equal(found, KernelClassifier(X, "rbf").predict(known, weighted).values)


def test_label_propagation_leaves_out_the_own_label():
    graph = as_graph([(0, 1), (1, 2), (3, 4)], nodes=6)
    known = Known(np.array([0, 0, -1, 1, -1, -1]), 2)
    p = LabelPropagation(smoothing_operator(graph)).predict(known).values
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert p[2].argmax() == 0
    assert p[4].argmax() == 1
    assert p[3] == pytest.approx(0.5)  # nothing but its own label reaches it
    assert p[5] == pytest.approx(0.5)


def test_rows_pairs_and_the_definition_agree():
    source = SupervisedSource(KernelClassifier(X), "words", KNOWN)
    root = np.sqrt(source.values)
    expected = np.sqrt(np.maximum(1 - root @ root.T, 0))
    every = np.arange(N)
    rows = source.rows(every)
    assert rows == pytest.approx(expected, abs=1e-7)
    assert np.array_equal(rows, source.columns(every))
    i, j = RNG.integers(0, N, (2, 50))
    assert source.pairs(i, j) == pytest.approx(rows[i, j], abs=1e-12)
    assert hellinger(source.values[:1], source.values[:1]) == 0
    assert mm.is_metric(rows)
    assert rows.max() <= 1


def test_other_labels_give_another_source():
    stack = mm.sources_for(X, labels=CODES)
    assert stack.relabelled(CODES, 3) is not None
    again = stack.relabelled(CODES, 3)
    assert again.source("learned") == pytest.approx(stack.source("learned"))
    other = np.where(CODES >= 0, (CODES + np.arange(N)) % 3, -1)
    changed = stack.relabelled(other, 3)
    fresh = mm.sources_for(X, labels=other)
    assert np.asarray(changed) == pytest.approx(np.asarray(fresh))
    for name in stack.names:
        same = np.array_equal(stack.source(name), changed.source(name))
        assert same == (name not in stack.supervised), name


def test_the_labels_of_the_fit_win():
    shuffled = np.where(CODES >= 0, RNG.permutation(CODES[:30])[np.arange(N) % 30], -1)
    right, wrong = (mm.sources_for(X, labels=labels) for labels in (CODES, shuffled))
    fits = [mm.MetricMixtureClassifier(stack).fit(np.arange(N), CODES) for stack in (right, wrong)]
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
    p = CrossFitted(X, forest, n_folds=3).predict(KNOWN).values
    assert p.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(mm.InputError, match="predict_proba, got LinearSVC"):
        CrossFitted(X, LinearSVC())


def test_few_labels():
    single = np.where(np.arange(N) < 4, [0, 0, 0, 1][0], -1)
    single[3] = 1  # a class with one label: nothing is known of it without that
    p = KernelClassifier(X).predict(Known(single, 2)).values
    assert p[3].tolist() == [0.5, 0.5]
    assert np.isfinite(p).all()


def test_bad_input():
    with pytest.raises(mm.InputError, match="labels: expected 60 labels"):
        mm.sources_for(X, labels=CODES[:-1])
    with pytest.raises(mm.InputError, match="labels"):
        mm.sources_for(X, labels=np.full(N, -1))
    with pytest.raises(mm.InputError, match="'learned' is computed from labels"):
        mm.MetricMixtureClassifier().fit(mm.sources_for(X, labels=CODES), CODES)
