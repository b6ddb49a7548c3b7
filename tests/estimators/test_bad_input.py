"""What estimators refuse, how they say it, and that they survive it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import DataConversionWarning, NotFittedError

import metricmix as mm
from metricmix import InputError
from metricmix.dissimilarity import features
from metricmix.estimators import (
    LabelledKFold,
    MetricMixture,
    MetricMixtureClassifier,
    MetricMixtureClassifierCV,
    MetricMixtureRegressor,
)
from metricmix.learning.rules import CLASS_RULES, KNearest, Spreading

N = 20
X, Y = make_blobs(N, 3, centers=2, cluster_std=4.0, random_state=0)
SOURCES = ["euclidean", "cityblock"]
STACK = mm.DissimilarityStack({name: features(X, name) for name in SOURCES})
NAMED = mm.DissimilarityStack(
    {name: features(X, name) for name in SOURCES}, items=[f"i{k}" for k in range(N)]
)
M = STACK.source(0)


def classifier(**options: Any) -> MetricMixtureClassifier:
    return MetricMixtureClassifier(SOURCES, **options)


def ids(wanted: Any, y: Any) -> MetricMixtureClassifier:
    return MetricMixtureClassifier(NAMED).fit(wanted, y)


def precomputed(X: Any) -> MetricMixtureClassifier:
    return MetricMixtureClassifier().fit(X, Y)


def with_hole(array: Any, value: Any) -> Any:
    changed = np.array(array)
    changed[(1, 2) if changed.ndim > 1 else 1] = value
    return changed


INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    # X at the fit
    "unseen ids": (lambda: ids(["i0", "i1", "i2", "zz"], [0, 0, 1, 1]), "1 ids are not in .* 'zz'"),
    "numbers for ids": (lambda: ids(np.arange(N), Y), "20 ids are not in the stack"),
    "repeated ids": (lambda: ids(["i0", "i0", "i1"], [0, 0, 1]), "X: expected each item once"),
    "features for ids": (lambda: ids(X, Y), r"X: expected one item id per row, got shape \(20, 3"),
    "NaN in features": (
        lambda: classifier().fit(with_hole(X, np.nan), Y),
        "X: expected numbers, got NaN; fill in missing values, or use",
    ),
    "infinity in features": (
        lambda: classifier().fit(with_hole(X, np.inf), Y),
        "Input X contains infinity",
    ),
    "one row": (lambda: classifier().fit(X[:1], Y[:1]), "1 sample"),
    "flat features": (lambda: classifier().fit(X[:, 0], Y), "Expected 2D array"),
    "list of matrices": (lambda: precomputed([M, M]), "X: expected one object, got a list"),
    "negative": (lambda: precomputed(with_hole(M, -1.0)), "Negative values in data passed to"),
    "negative, many sources": (
        lambda: precomputed(with_hole(np.asarray(STACK), -1.0)),
        "expected non-negative entries",
    ),
    "asymmetric": (lambda: precomputed(np.triu(M)), "expected symmetric, largest asymmetry"),
    "diagonal": (lambda: precomputed(M + 1.0), "expected a zero diagonal"),
    "not square": (lambda: precomputed(M[:, :5]), r"\(20, 5\)"),
    "sources first": (
        lambda: precomputed(np.moveaxis(np.asarray(STACK), -1, 0)),
        r"expected an \(n, n, R\) array, got shape \(2, 20, 20\)",
    ),
    "NaN among dissimilarities": (
        lambda: precomputed(with_hole(M, np.nan)),
        "X: expected finite dissimilarities, got NaN; metricmix.MetricRepair fills",
    ),
    "one item": (lambda: precomputed(STACK[np.ix_([0], [0])]), "X: expected at least two items"),
    # y
    "no y": (lambda: classifier().fit(X, None), "requires y to be passed"),
    "no y for a metric": (lambda: MetricMixture(SOURCES).fit(X), "requires y to be passed"),
    "short y": (
        lambda: classifier().fit(X, Y[:-1]),
        "y: expected 20 labels, one per item of X, got 19",
    ),
    "short y for ids": (lambda: ids(["i0", "i1"], [0]), "y: expected 2 labels, .* got 1"),
    "all unlabelled": (
        lambda: classifier().fit(X, np.full(N, -1)),
        "y: expected labelled items of at least two classes, found every item unlabelled",
    ),
    "all texts empty": (
        lambda: classifier().fit(X, [""] * N),
        "y: expected labelled items of at least two classes, found every item unlabelled",
    ),
    "one class": (
        lambda: classifier().fit(X, np.where(Y == 1, 1, -1)),
        "y: expected at least two classes, found only the class 1",
    ),
    "one item of each class": (
        lambda: classifier(constraint="nonnegative").fit(X, [0, 1, *[-1] * (N - 2)]),
        "y: expected a class with at least two labelled items",
    ),
    "only NaN in y": (
        lambda: classifier().fit(X, np.full(N, np.nan)),
        "y: expected labelled items of at least two classes, found every item unlabelled",
    ),
    "infinite y": (
        lambda: classifier().fit(X, with_hole(Y.astype(float), np.inf)),
        "Input y contains infinity",
    ),
    "numbers among texts": (
        lambda: classifier().fit(X, np.array(["a", 1, *"ab" * 9], dtype=object)),
        "y: expected labels of one type, got int, str",
    ),
    "continuous y": (lambda: classifier().fit(X, X[:, 0]), "Unknown label type: continuous"),
    "two columns of y": (lambda: classifier().fit(X, np.c_[Y, Y]), "y should be a 1d array"),
    # parameters
    "sources not a list": (
        lambda: MetricMixtureClassifier("euclidean").fit(X, Y),
        r"sources: expected a list, as in sources=\['euclidean'\]",
    ),
    "no sources": (lambda: MetricMixtureClassifier([]).fit(X, Y), "sources: expected 'precomputed"),
    "None for sources": (lambda: MetricMixtureClassifier(None).fit(X, Y), "sources: expected 'pre"),
    "misspelt source": (
        lambda: MetricMixtureClassifier(["euclidian"]).fit(X, Y),
        "did you mean 'euclidean'",
    ),
    "matrices as sources": (
        lambda: MetricMixtureClassifier([M]).fit(X, Y),
        "expected the name of a metric, a function .* got ndarray",
    ),
    "rule": (lambda: classifier(rule="?").fit(X, Y), r"rule: expected one of .* got '\?'"),
    "objective": (lambda: classifier(objective="?").fit(X, Y), r"objective: expected one of"),
    "function for objective": (
        lambda: classifier(objective=lambda codes: None).fit(X, Y),
        "objective: expected it to return an Objective, got None",
    ),
    "rule of another kind": (lambda: classifier(rule=5).fit(X, Y), r"rule: .* such as KNearest"),
    "class for a rule": (lambda: classifier(rule=KNearest).fit(X, Y), r"rule: expected one of"),
    "weights": (lambda: KNearest(weights="?"), r"weights: expected one of"),
    "nested parameter of a name": (
        lambda: classifier(rule="k-nearest").set_params(rule__n_neighbors=3),
        r"rule__n_neighbors: Invalid parameter .*'k-nearest'",
    ),
    "unknown nested parameter": (
        lambda: classifier(rule=KNearest()).set_params(rule__alpha=3),
        r"rule__alpha: Invalid parameter .* valid parameters are \['n_neighbors', 'weights'\]",
    ),
    "constraint": (lambda: classifier(constraint="?").fit(X, Y), r"constraint: expected one of"),
    "scaling": (lambda: classifier(scaling="?").fit(X, Y), r"scaling: expected one of"),
    "scaling of others": (
        lambda: classifier(scaling=[1.0, 2.0, 3.0]).fit(X, Y),
        "scaling: expected 2 positive numbers",
    ),
    "method": (lambda: classifier(method="?").fit(X, Y), r"method: expected one of"),
    "new_items": (lambda: classifier(new_items="?").fit(X, Y), r"new_items: expected one of"),
    "n_neighbors": (lambda: KNearest(0), "n_neighbors: expected a whole"),
    "rho": (lambda: classifier(rho=-1).fit(X, Y), "rho: expected a number >= 0, got -1"),
    "beta": (lambda: classifier(beta=0).fit(X, Y), "beta: expected a number > 0, got 0"),
    "alpha": (
        lambda: Spreading(alpha=0.0),
        "alpha: expected a number > 0",
    ),
    "solver_options": (
        lambda: classifier(solver_options={"speed": 1}).fit(X, Y),
        "speed: unknown argument; a run takes .*; Newton takes tol",
    ),
    "rules": (
        lambda: MetricMixtureClassifierCV(SOURCES, rules=("?",)).fit(X, Y),
        "rules: expected one of",
    ),
    "no rhos": (lambda: MetricMixtureClassifierCV(SOURCES, rhos=()).fit(X, Y), "rhos, betas"),
    "cv": (lambda: MetricMixtureClassifierCV(SOURCES, cv=1).fit(X, Y), "n_splits: expected"),
    "an objective for all folds": (
        lambda: MetricMixtureClassifierCV(SOURCES, objective=mm.objectives.ClassMeans(Y)).fit(X, Y),
        "objective: expected a name or a function",
    ),
    "beta twice": (
        lambda: classifier(solver_options={"beta": 2.0}).fit(X, Y),
        "solver_options: 'beta' is a parameter",
    ),
    "link": (
        lambda: classifier(solver_options={"link": "identity"}).fit(X, Y),
        "solver_options: estimators use the softplus",
    ),
    "shrink_to": (
        lambda: classifier(objective=None, shrink_to="?").fit(X, Y),
        "shrink_to: expected one of",
    ),
    "features without sources": (
        lambda: MetricMixtureClassifier().fit(X, Y),
        "for a feature table pass sources",
    ),
    "y in another order": (
        lambda: classifier().fit(pd.DataFrame(X), pd.Series(Y, index=range(N - 1, -1, -1))),
        "y: expected labels in the order of X",
    ),
    "labels -1 and 1": (
        lambda: classifier().fit(X, np.where(Y == 1, 1, -1)),
        "-1 marks unlabelled items",
    ),
    # X later
    "unseen id": (lambda: ids(NAMED.items, Y).predict(["i1", "zz"]), "not in the stack, .* 'zz'"),
    "other width": (
        lambda: classifier().fit(X, Y).predict(X[:, :2]),
        "X has 2 features, but MetricMixtureClassifier is expecting 3 features",
    ),
    "other items": (
        lambda: precomputed(STACK).predict(STACK[np.ix_([0, 1], range(9))]),
        "X has 9 features, but MetricMixtureClassifier is expecting 20 features",
    ),
    "other number of sources": (
        lambda: precomputed(STACK).predict(np.ones((2, N, 3))),
        r"X: expected the 2 sources of the fit, \['euclidean', 'cityblock'\], got 3",
    ),
    "one matrix for two sources": (lambda: precomputed(STACK).predict(M), "2 sources .* got 1"),
    "other names": (
        lambda: precomputed(STACK).predict(mm.DissimilarityStack({"a": M, "b": M})),
        r"X: expected the sources of the fit, .* found \['a', 'b'\]",
    ),
    "negative rows": (
        lambda: precomputed(STACK).predict(-np.ones((2, N, 2))),
        "X: expected finite dissimilarities >= 0",
    ),
    "NaN in rows": (
        lambda: precomputed(STACK).predict(np.full((2, N, 2), np.nan)),
        "X: expected finite dissimilarities >= 0",
    ),
    "augmented without features": (
        lambda: MetricMixtureClassifier(new_items="augmented").fit(STACK, Y).predict(STACK),
        "new_items: 'augmented' recomputes the sources",
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_it_is_refused_in_a_sentence(name: str) -> None:
    refused, message = INPUTS[name]
    with pytest.raises(ValueError, match=message) as error:
        refused()
    if isinstance(error.value, mm.InputError):
        assert "\n" not in str(error.value)


def test_sparse_dissimilarities_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="X: sparse input"):
        precomputed(sparse.csr_array(M))
    model = precomputed(M)
    with pytest.raises(TypeError, match="X: sparse input"):
        model.predict(sparse.csr_array(M))


TABLE = pd.DataFrame({"x": [0.5, 1, 2, 3], "said": ["a b", "c", "d", "e"]})


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (
            MetricMixtureClassifier(),
            "X: expected dissimilarities (n, n), got shape (4, 2); for a feature table pass "
            "sources=[...], as in sources=['cosine'], or call mm.fit(X, label=y)",
        ),
        (
            MetricMixtureRegressor(),
            "X: expected dissimilarities (n, n), got shape (4, 2); for a feature table pass "
            "sources=[...], as in sources=['cosine'], or call mm.fit(X, target=y)",
        ),
        (
            MetricMixtureClassifier(sources=["euclidean"]),
            "X: expected numbers in every column, got object in 'said'; mm.fit(X, label=y) takes "
            "texts, categories and dates",
        ),
    ],
)
def test_a_plain_frame(estimator: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        estimator.fit(TABLE.astype({"said": object}), [0, 1, 0, 1])
    assert str(caught.value) == sentence


def test_a_column_of_labels_warns() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = classifier().fit(X, Y[:, None])
    assert np.array_equal(model.weights_, classifier().fit(X, Y).weights_)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: classifier().predict(X),
        lambda: classifier().predict_proba(X),
        lambda: classifier().weights_,
        lambda: classifier().score(X, Y),
        lambda: MetricMixture(SOURCES).transform(X),
        lambda: MetricMixture(SOURCES).compute_metric(),
        lambda: MetricMixture(SOURCES).kneighbors_graph(),
        lambda: MetricMixtureClassifierCV(SOURCES).predict(X),
        lambda: MetricMixtureClassifierCV(SOURCES).predict_proba(X),
    ],
)
def test_before_the_fit(ask: Any) -> None:
    with pytest.raises(NotFittedError):
        ask()


def test_a_class_with_a_single_item_is_welcome() -> None:
    y = [0, 0, 1, *[-1] * (N - 3)]
    for rule in CLASS_RULES.names():
        assert classifier(rule=rule).fit(X, y).transduction_[:3].tolist() == [0, 0, 1]


# -- a fit that fails loses nothing --------------------------------------------------------------

TEXTS = np.where(Y == 1, "b", "a")
FAILURES: dict[str, Callable[[Any], Any]] = {
    "one item of each class": lambda m: m.set_params(constraint="simplex").fit(
        X, [7, 8, *[-1] * (N - 2)]
    ),
    "rule": lambda m: m.set_params(rule="?").fit(X[:10], np.arange(10) % 2),
    "method": lambda m: m.set_params(method="?").fit(X[:10], np.arange(10) % 2),
    "new_items": lambda m: m.set_params(new_items="?").fit(X[:10], Y[:10]),
    "short y": lambda m: m.fit(X[:, :2], Y[:3]),
    "all unlabelled": lambda m: m.fit(X[:, :2], np.full(N, -1)),
    "NaN": lambda m: m.fit(np.full((N, 2), np.nan), Y),
    "unknown source": lambda m: m.set_params(sources=["?"]).fit(X[:, :2], Y),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_fit_that_fails_loses_nothing(name: str) -> None:
    model = classifier(rule="nearest").fit(X, TEXTS)
    before = model.predict_proba(X[:5] + 0.1)
    state = {key: value for key, value in vars(model).items() if key.endswith("_")}
    with pytest.raises(ValueError, match=r"."):
        FAILURES[name](model)
    assert np.array_equal(model.predict_proba(X[:5] + 0.1), before)
    assert model.predict(X[:5] + 0.1).dtype.kind == "U"
    for key, value in state.items():
        assert getattr(model, key) is value, key


def test_a_metric_whose_fit_fails_loses_nothing() -> None:
    model = MetricMixture(SOURCES).fit(X, TEXTS)
    before = model.transform(X)
    with pytest.raises(mm.InputError):
        model.set_params(method="?").fit(X[:10], np.arange(10) % 2)
    assert np.array_equal(model.transform(X), before)
    assert model.classes_.tolist() == ["a", "b"]


def test_a_search_whose_fit_fails_loses_nothing() -> None:
    model = MetricMixtureClassifierCV(SOURCES, rhos=(1e-2,), cv=2, random_state=0).fit(X, TEXTS)
    with pytest.raises(mm.InputError):
        model.fit(X, [7, 8, *[-1] * (N - 2)])
    assert model.classes_.tolist() == ["a", "b"]


def test_after_a_failure_the_next_fit_is_as_good_as_new() -> None:
    for failure in FAILURES.values():
        model = classifier(rule="nearest")
        settings = model.get_params()
        with pytest.raises(ValueError, match=r"."):
            failure(model)
        model.set_params(**settings).fit(X, TEXTS)
        fresh = classifier(rule="nearest").fit(X, TEXTS)
        assert np.array_equal(model.predict_proba(X + 0.1), fresh.predict_proba(X + 0.1))


# -- easily mistaken ---------------------------------------------------------------------------

OBSCURE: dict[str, tuple[Callable[[], Any], str]] = {
    "alpha=1": (lambda: Spreading(alpha=1), "^alpha: "),
    "nested alpha=1": (
        lambda: classifier(rule=Spreading()).set_params(rule__alpha=1),
        "^alpha: ",
    ),
    "two columns of ids": (
        lambda: ids(pd.DataFrame({"id": NAMED.items, "other": 1}), Y),
        "^X: expected one item id per row",
    ),
    "stack for ids": (lambda: ids(NAMED, Y), "^X: "),
    "n_neighbors=True": (lambda: Spreading(n_neighbors=True), "^n_neighbors: "),
    "rules=(5,)": (
        lambda: MetricMixtureClassifierCV(SOURCES, rules=(5,), cv=LabelledKFold(2)).fit(X, Y),
        "^rules: ",
    ),
    "new_items of a search": (
        lambda: MetricMixtureClassifierCV(SOURCES, new_items="?", cv=2).fit(X, Y),
        "^new_items: ",
    ),
}


WELCOME: dict[str, Callable[[], Any]] = {
    "texts and -1 as objects": lambda: classifier().fit(
        X, np.array(["a", "b", "a", "b", *[-1] * (N - 4)], dtype=object)
    ),
    "a start of one's own": lambda: classifier(solver_options={"start": [1.0, 1.0]}).fit(X, Y),
    "cv=None": lambda: MetricMixtureClassifierCV(SOURCES, rhos=1e-2, cv=None).fit(X, Y),
    "more folds than labels": lambda: MetricMixtureClassifierCV(SOURCES, rhos=1, cv=30).fit(X, Y),
    "a number for a list": lambda: MetricMixtureClassifierCV(
        SOURCES, rhos=0.1, betas=2.0, rules="nearest", cv=2
    ).fit(X, Y),
    "a rule for a list": lambda: MetricMixtureClassifierCV(
        SOURCES, rhos=[0.1], rules=KNearest(3), cv=2
    ).fit(X, Y),
}


@pytest.mark.parametrize("name", WELCOME)
def test_it_is_welcome(name: str) -> None:
    assert len(WELCOME[name]().predict(X)) == N


@pytest.mark.parametrize("name", OBSCURE)
def test_it_is_refused_in_one_sentence(name: str) -> None:
    refused, message = OBSCURE[name]
    with pytest.raises(mm.InputError, match=message):
        refused()
