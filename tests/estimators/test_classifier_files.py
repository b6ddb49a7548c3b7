"""Supervised sources in model files: the same answers from plain arrays, and nothing that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import metricmix as mm
from metricmix.dissimilarity import ProbabilitySource, supervised
from metricmix.dissimilarity.kernel_logistic import KernelLogisticRegression
from metricmix.estimators.files.classifiers import STORED, storage_of
from metricmix.estimators.files.reader import Reader
from metricmix.estimators.files.writer import Writer

RNG = np.random.default_rng(0)
N = 30
Y = np.arange(N) % 3
X = RNG.normal(size=(N, 4)) + 1.5 * np.eye(3, 4)[Y]
KNOWN = np.where(np.arange(N) < 24, Y, -1)
NEW = RNG.normal(size=(5, 4)) + 1.0
FIXED: dict[str, Any] = {"constraint": "nonnegative", "rho": 1e-3, "rule": "class-mean"}
CLASSIFIERS: dict[str, Any] = {
    "linear": LogisticRegression(C=3.0),
    "kernel": KernelLogisticRegression("rbf", C=2.0),
    "machine": SVC(probability=True, gamma=0.3, random_state=0),
    "forest": RandomForestClassifier(4, max_depth=3, random_state=0),
    "extra": ExtraTreesClassifier(3, max_depth=2, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


def sources(classifier: Any) -> dict[str, Any]:
    return {"plain": "euclidean", "learned": supervised(classifier, n_folds=2)}


def round_trip(model: Any, path: Path, *, keep: bool = True, **options: Any) -> Any:
    mm.save(model, path / "model.mm", sources=keep)
    return mm.load(path / "model.mm", **options)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_models_with_a_classifier_come_back(name: str, keep: bool, tmp_path: Path) -> None:
    for y in (KNOWN, np.where(KNOWN > 0, 1, KNOWN)):  # three classes, and two
        model = mm.MetricMixtureClassifier(sources(CLASSIFIERS[name]), **FIXED).fit(X, y)
        again = round_trip(model, tmp_path, keep=keep)
        for asked in (NEW, X, X[3:5]):
            assert np.array_equal(again.predict_proba(asked), model.predict_proba(asked))
        assert repr(again) == repr(model)
        assert again.stack_.supervised == ("learned",)
        assert np.array_equal(again.stack_.scales, model.stack_.scales)
        assert str(again.explain(X=NEW[:1])) == str(model.explain(X=NEW[:1]))
    before = (tmp_path / "model.mm").read_bytes()
    mm.save(again, tmp_path / "model.mm", sources=keep)
    assert (tmp_path / "model.mm").read_bytes() == before


def test_a_loaded_model_does_everything_else(tmp_path: Path) -> None:
    model = mm.MetricMixtureClassifier(sources(LogisticRegression()), **FIXED).fit(X, KNOWN)
    again = round_trip(model, tmp_path)
    assert str(again.compare()) == str(model.compare())
    assert again.weights_table(3, random_state=0).equals(model.weights_table(3, random_state=0))
    other = (KNOWN + 1) % 3
    fits = [clone(one).fit(X, other).predict_proba(NEW) for one in (again, model)]
    assert np.array_equal(*fits)
    augmented = clone(model).set_params(new_items="augmented").fit(X, KNOWN)
    loaded = round_trip(augmented, tmp_path)
    assert np.array_equal(loaded.predict_proba(NEW), augmented.predict_proba(NEW))


def test_other_estimators(tmp_path: Path) -> None:
    recipes = sources(CLASSIFIERS["forest"]) | {"more": supervised(CLASSIFIERS["linear"])}
    metric = mm.MetricMixture(recipes, rho=1e-3).fit(X, KNOWN)
    again = round_trip(metric, tmp_path)
    assert np.array_equal(again.transform(NEW), metric.transform(NEW))
    search = mm.MetricMixtureClassifierCV(recipes, rhos=(1e-3,), cv=2, rules=("nearest",))
    search.fit(X, KNOWN)
    found = round_trip(search, tmp_path)
    assert np.array_equal(found.predict_proba(NEW), search.predict_proba(NEW))


def test_sparse_tables(tmp_path: Path) -> None:
    table = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    for name in ("linear", "kernel", "forest"):
        model = mm.MetricMixtureClassifier(sources(CLASSIFIERS[name]), **FIXED).fit(table, KNOWN)
        again = round_trip(model, tmp_path)
        assert np.array_equal(again.predict_proba(NEW), model.predict_proba(NEW)), name
    model = mm.MetricMixtureClassifier(sources(CLASSIFIERS["machine"]), **FIXED).fit(table, KNOWN)
    with pytest.raises(mm.ModelFileError, match="SVC: fitted to a sparse table"):
        mm.save(model, tmp_path / "model.mm")


def test_classifiers_trained_elsewhere(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c"])[Y]
    classifier = LogisticRegression().fit(X, names)
    recipe = supervised(classifier, probabilities=classifier.predict_proba(X))
    for given in (recipe, supervised(probabilities=recipe.probabilities)):
        model = mm.MetricMixtureClassifier([given, "cosine"], **FIXED).fit(X, KNOWN)
        again = round_trip(model, tmp_path)
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
        if given is recipe:
            assert np.array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    with pytest.raises(mm.InputError, match="rows of the fit only"):
        again.predict(NEW)


# -- stacks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_stacks_with_supervised_sources(keep: bool, tmp_path: Path) -> None:
    """Labels of the fit win over those of the stack, also in the file."""
    ids = [f"item {k}" for k in range(N)]
    A = np.triu(RNG.random((N, N)) < 0.15, 1)
    import pandas as pd

    table = pd.DataFrame(np.abs(X), index=ids)
    graph = pd.DataFrame((A | A.T).astype(float), index=ids, columns=ids)
    stack = mm.sources_for(table, graph, labels=np.roll(KNOWN, 1))
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(ids, KNOWN)
    again = round_trip(model, tmp_path, keep=keep, sources=None if keep else stack)
    assert "spread_links" in again.stack_.supervised  # label propagation
    assert again.stack_.supervised == model.stack_.supervised
    assert np.array_equal(again.predict_proba(ids[:7]), model.predict_proba(ids[:7]))
    assert np.array_equal(again.transduction_, model.transduction_)
    assert np.array_equal(np.asarray(again.stack_), np.asarray(model.stack_))
    assert again.stack_.facts == model.stack_.facts
    assert str(again.explain(ids[27])) == str(model.explain(ids[27]))
    assert again.moved_share_ == model.moved_share_
    assert again.weights_table(2, random_state=0)["lower"].notna().all()  # sources as they are
    with pytest.raises(mm.InputError, match="was loaded with the probabilities of its fit"):
        again.compare()
    twice = round_trip(again, tmp_path, keep=keep, sources=None if keep else stack)
    assert np.array_equal(twice.predict_proba(ids), model.predict_proba(ids))
    with pytest.raises(mm.ModelFileError, match=r"sources: .* fit again to save"):
        mm.save(model.set_params(sources=mm.sources_for(table, graph)), tmp_path / "model.mm")


def test_slices_and_probabilities_in_stacks(tmp_path: Path) -> None:
    P = np.eye(3)[Y] * 0.7 + 0.1
    mixed = mm.DissimilarityStack({"own": ProbabilitySource(P)})
    model = mm.MetricMixtureClassifier(mixed, **FIXED).fit(np.arange(N), KNOWN)
    again = round_trip(model, tmp_path)
    assert np.array_equal(again.predict_proba(np.arange(N)), model.predict_proba(np.arange(N)))
    some = np.arange(24)
    part: Any = mm.sources_for(X, labels=KNOWN)[np.ix_(some, some)]
    model = mm.MetricMixtureClassifier(part, **FIXED).fit(some, KNOWN[:24])
    again = round_trip(model, tmp_path)
    assert again.stack_.supervised == part.supervised
    assert np.array_equal(again.predict_proba(some), model.predict_proba(some))


def test_any_classifier_of_a_stack_is_stored_as_what_it_says(tmp_path: Path) -> None:
    from metricmix.dissimilarity.supervised import CrossFittedClassifier, SupervisedSource

    source = SupervisedSource(CrossFittedClassifier(X, GaussianNB()), "bayes", KNOWN, 3)
    stack = mm.DissimilarityStack([source, mm.dissimilarity.features(X)])
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(np.arange(N), KNOWN)
    again = round_trip(model, tmp_path)
    assert np.array_equal(again.predict_proba(np.arange(N)), model.predict_proba(np.arange(N)))


# -- what is not stored, and what is not loaded ----------------------------------------------------


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (GaussianNB(), r"sources\['learned'\]: GaussianNB cannot be stored .*LogisticRegression"),
        (make_pipeline(MinMaxScaler(), LogisticRegression()), "MinMaxScaler cannot be stored"),
        (
            RandomForestClassifier(2, random_state=np.random.RandomState(0)),
            r"RandomForestClassifier.random_state: .*RandomState, which cannot be stored",
        ),
    ],
    ids=["other", "step", "parameter"],
)
def test_what_cannot_be_stored(classifier: Any, message: str, tmp_path: Path) -> None:
    model = mm.MetricMixtureClassifier(sources(classifier), **FIXED).fit(X, KNOWN)
    with pytest.raises(mm.ModelFileError, match=message):
        mm.save(model, tmp_path / "model.mm")
    assert not list(tmp_path.iterdir())


class Derived(LogisticRegression):
    """Another class, whatever it does."""


def test_derived_classes_are_other_classes(tmp_path: Path) -> None:
    model = mm.MetricMixtureClassifier(sources(Derived()), **FIXED).fit(X, KNOWN)
    with pytest.raises(mm.ModelFileError, match="Derived cannot be stored"):
        mm.save(model, tmp_path / "model.mm")


def stored(classifier: Any) -> tuple[Any, dict[str, np.ndarray]]:
    writer = Writer()
    return writer.encode(classifier, "classifier"), dict(writer.arrays)  # type: ignore[arg-type]


class Arrays:
    """A file that holds some arrays."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def array(self, name: str, *, mapped: bool = False) -> np.ndarray:
        return self.arrays[name]


def restored(content: Any, arrays: dict[str, np.ndarray]) -> Any:
    return Reader(Arrays(arrays)).decode(json.loads(json.dumps(content)))


REGRESSORS = [
    LinearRegression(),
    Ridge(0.1),
    RandomForestRegressor(3, random_state=0),
    ExtraTreesRegressor(3, random_state=0),
]


def test_every_class_has_a_storage() -> None:
    models = [*CLASSIFIERS.values(), *REGRESSORS]
    assert {type(one).__name__ for one in models} | {"StandardScaler"} == set(STORED)
    assert all(storage_of(name).kind.__name__ == name for name in STORED)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_with_or_without_a_fit(name: str) -> None:
    assert repr(restored(*stored(CLASSIFIERS[name]))) == repr(CLASSIFIERS[name])
    labels = np.array(["a", "b", "c"])[Y]
    with pytest.warns(FutureWarning) if name == "machine" else Always():
        fitted = clone(CLASSIFIERS[name]).fit(X, labels)
    again = restored(*stored(fitted))
    assert np.array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
    assert np.array_equal(again.classes_, fitted.classes_)


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda one: type(one).__name__)
def test_regressors_with_or_without_a_fit(regressor: Any) -> None:
    assert repr(restored(*stored(regressor))) == repr(regressor)
    fitted = clone(regressor).fit(X, 1.5 * Y)
    assert np.array_equal(restored(*stored(fitted)).predict(NEW), fitted.predict(NEW))


class Always:
    """A context that expects nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize("name", ["forest", "tree"])
@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("left_child", lambda a: np.zeros_like(a)),  # a node that leads to itself
        ("left_child", lambda a: np.full_like(a, 10**9)),
        ("right_child", lambda a: a[::-1].copy()),
        ("right_child", lambda a: np.full_like(a, -2)),
        ("left_child", lambda a: a + 0.5),
        ("feature", lambda a: np.where(a >= 0, 4, a)),
        ("feature", lambda a: np.where(a >= 0, -1, a)),
        ("threshold", lambda a: np.full_like(a, np.nan)),
        ("values", lambda a: -a),
        ("values", lambda a: a[:, :-1]),
        ("values", lambda a: a[:-1]),
        ("sizes", lambda a: a + 1),
        ("sizes", lambda a: np.full_like(a, 2**62)),
        ("sizes", lambda a: a[:0]),
        ("depths", lambda a: a[:0]),
        ("missing_go_to_left", lambda a: a.astype(np.int64)),
    ],
)
def test_trees_that_lead_nowhere(name: str, array: str, change: Any) -> None:
    content, arrays = stored(clone(CLASSIFIERS[name]).fit(X, Y))
    arrays[array] = change(arrays[array])
    with pytest.raises(mm.ModelFileError):
        restored(content, arrays)


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("n_support", lambda a: a + 1),
        ("n_support", lambda a: np.array([-1, 1, 10**6], a.dtype)),
        ("n_support", lambda a: a[:-1]),
        ("support_", lambda a: a[:-1]),
        ("support_vectors_", lambda a: a[:-1]),
        ("support_vectors_", lambda a: np.full_like(a, np.inf)),
        ("dual_coef", lambda a: a[:-1]),
        ("dual_coef", lambda a: a[:, :-1]),
        ("intercept", lambda a: a[:-1]),
        ("prob_a", lambda a: a[:0]),
        ("prob_b", lambda a: np.full_like(a, np.nan)),
    ],
)
def test_kernel_machines_whose_arrays_do_not_fit(array: str, change: Any) -> None:
    with pytest.warns(FutureWarning):
        fitted = clone(CLASSIFIERS["machine"]).fit(X, Y)
    content, arrays = stored(fitted)
    arrays[array] = change(arrays[array])
    with pytest.raises(mm.ModelFileError):
        restored(content, arrays)


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("linear", "coef_", lambda a: a[:-1]),
        ("linear", "coef_", lambda a: a * np.nan),
        ("linear", "intercept_", lambda a: a[:-1]),
        ("kernel", "rows_", lambda a: a[:-1]),
        ("kernel", "basis_", lambda a: a[:, :-1]),
        ("pipeline", "mean_", lambda a: a[:-1]),
        ("pipeline", "scale_", lambda a: a * np.inf),
    ],
)
def test_other_arrays_that_do_not_fit(name: str, array: str, change: Any) -> None:
    content, arrays = stored(clone(CLASSIFIERS[name]).fit(X, Y))
    arrays[array] = change(arrays[array])
    with pytest.raises(mm.ModelFileError):
        restored(content, arrays)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("forest", "n_jobs", 10**9),
        ("forest", "n_estimators", 10**9),
        ("forest", "evil", 1),
        ("machine", "kernel", "precomputed"),
        ("machine", "probability", False),
        ("kernel", "kernel", "evil"),
    ],
)
def test_parameters_that_do_not_fit(name: str, parameter: str, value: Any) -> None:
    with pytest.warns(FutureWarning) if name == "machine" else Always():
        fitted = clone(CLASSIFIERS[name]).fit(X, Y)
    content, arrays = stored(fitted)
    content[type(fitted).__name__]["parameters"][parameter] = value
    with pytest.raises(mm.ModelFileError):
        restored(content, arrays)
