"""NaN, None and pandas' NA mark unlabelled items, as -1 does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

import metricmix as mm
from metricmix.learning.bootstrap import bootstrap_weights
from reference.models import classifier

X, TRUTH = load_iris(return_X_y=True)
X, TRUTH = X[::3], TRUTH[::3]
HIDDEN = np.arange(len(X)) % 4 == 1
NAMES = np.array(["setosa", "versicolor", "virginica"])


def hidden(labels, marker):
    """Return labels as a list, some of them replaced by a marker."""
    return [marker if hide else label for label, hide in zip(labels, HIDDEN, strict=True)]


NUMBERS = {
    "float array": np.array(hidden(TRUTH.tolist(), np.nan), dtype=float),
    "list with None": hidden(TRUTH.tolist(), None),
    "list with NaN": hidden(TRUTH.tolist(), np.nan),
    "list with NA": hidden(TRUTH.tolist(), pd.NA),
    "object array with NaT": np.array(hidden(TRUTH.tolist(), pd.NaT), dtype=object),
    "Int64": pd.Series(hidden(TRUTH.tolist(), None), dtype="Int64"),
    "category of numbers": pd.Series(hidden(TRUTH.tolist(), None), dtype="category"),
    "column": np.array(hidden(TRUTH.tolist(), None), dtype=object),
}
TEXTS = {
    "list of texts with NaN": hidden(NAMES[TRUTH].tolist(), np.nan),
    "object array with None": np.array(hidden(NAMES[TRUTH].tolist(), None), dtype=object),
    "object Series with NaN": pd.Series(hidden(NAMES[TRUTH].tolist(), np.nan), dtype=object),
    "string": pd.Series(hidden(NAMES[TRUTH].tolist(), None), dtype="string"),
    "category": pd.Series(hidden(NAMES[TRUTH].tolist(), None), dtype="category"),
    "Categorical": pd.Categorical(hidden(NAMES[TRUTH].tolist(), None)),
}
ALL = {**NUMBERS, **TEXTS}
SOURCES = ["euclidean", "angular"]


def usual(name):
    """Return the same labels in the documented form."""
    return np.array(hidden(TRUTH.tolist(), -1) if name in NUMBERS else hidden(NAMES[TRUTH], ""))


@pytest.mark.parametrize("name", ALL)
def test_estimators_take_them_for_unlabelled(name):
    model = classifier(SOURCES).fit(X, ALL[name])
    expected = classifier(SOURCES).fit(X, usual(name))
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.transduction_.tolist() == expected.transduction_.tolist()
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    assert model.score(X, ALL[name]) == expected.score(X, usual(name))
    mixture = mm.MetricMixture(SOURCES, rho=1e-3).fit(X, ALL[name])
    np.testing.assert_array_equal(mixture.weights_, model.weights_)
    bootstrap = bootstrap_weights(model.learned_, n_bootstrap=3, random_state=0)
    np.testing.assert_array_equal(
        bootstrap, bootstrap_weights(expected.learned_, n_bootstrap=3, random_state=0)
    )


@pytest.mark.parametrize("name", ALL)
def test_cross_validation_keeps_them_in_training(name):
    folds = list(mm.LabelledKFold(4, random_state=0).split(X, ALL[name]))
    expected = list(mm.LabelledKFold(4, random_state=0).split(X, usual(name)))
    for (train, test), (same_train, same_test) in zip(folds, expected, strict=True):
        np.testing.assert_array_equal(train, same_train)
        np.testing.assert_array_equal(test, same_test)
        assert not HIDDEN[test].any()
    model = classifier(SOURCES)
    folds = mm.LabelledKFold(3, random_state=0)
    if isinstance(ALL[name], pd.Categorical):  # which scikit-learn cannot slice
        return
    np.testing.assert_array_equal(
        cross_val_score(model, X, ALL[name], cv=folds),
        cross_val_score(model, X, usual(name), cv=folds),
    )


@pytest.mark.parametrize("name", ["Int64", "list of texts with NaN"])
def test_choosing_settings_and_comparing(name):
    options = {"rhos": (1e-3,), "rules": ("class-mean", "nearest"), "random_state": 0}
    model = mm.MetricMixtureClassifierCV(SOURCES, **options).fit(X, ALL[name])
    expected = mm.MetricMixtureClassifierCV(SOURCES, **options).fit(X, usual(name))
    assert model.best_params_ == expected.best_params_
    assert model.best_score_ == expected.best_score_
    found = model.best_estimator_.compare(n_splits=3, random_state=0)
    assert str(found) == str(expected.best_estimator_.compare(n_splits=3, random_state=0))


def test_saved_models_know_which_items_were_labelled(tmp_path):
    model = classifier(SOURCES).fit(X, ALL["string"])
    mm.save(model, tmp_path / "model.mm")
    loaded = mm.load(tmp_path / "model.mm")
    assert loaded.transduction_.tolist() == model.transduction_.tolist()
    assert loaded.explain(1).given is False


@pytest.mark.parametrize("edges", [None, 6])
def test_fitting_the_same_stack_to_other_labels_is_as_good_as_a_new_one(edges: int | None) -> None:
    """Labels are added, corrected and taken away, and there is a new class."""
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + y[:, None] * [1.0, 0.0, 1.0, 0.0]
    before = np.where(np.arange(60) < 24, y, -1)
    after = np.where(np.arange(60) < 30, y, -1)
    after[[3, 4, 50, 51, 52]] = -1, 2, 3, 3, 3
    every = np.arange(60)
    stack = mm.sources_for(X, labels=before, edges_per_item=edges)
    model = mm.MetricMixtureClassifier(sources=stack).fit(every, before)
    again = mm.MetricMixtureClassifier(sources=model.stack_).fit(every, after)
    fresh = mm.MetricMixtureClassifier(
        sources=mm.sources_for(X, labels=after, edges_per_item=edges)
    ).fit(every, after)
    for one in (again, model.fit(every, after)):
        np.testing.assert_array_equal(one.weights_, fresh.weights_)
        np.testing.assert_array_equal(one.stack_.scales, fresh.stack_.scales)
        np.testing.assert_array_equal(one.transduction_, fresh.transduction_)
        found, expected = one.learned_.answers, fresh.learned_.answers
        np.testing.assert_array_equal(found, expected)
