"""Supervised sources in model files: predictions, settings, and a fit when new rows come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import metricmix as mm
from metricmix.dissimilarity import ProbabilitySource, supervised
from metricmix.dissimilarity.kernel_logistic import KernelLogisticRegression
from metricmix.storage.codec import estimator_state, restored_estimator
from reference.model_bytes import edited, set_entry

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
    "bayes": GaussianNB(),
    "open seed": RandomForestClassifier(4),
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
    for name in ("linear", "kernel", "forest", "machine"):
        model = mm.MetricMixtureClassifier(sources(CLASSIFIERS[name]), **FIXED).fit(table, KNOWN)
        again = round_trip(model, tmp_path)
        assert np.array_equal(again.predict_proba(NEW), model.predict_proba(NEW)), name


def test_classifiers_trained_elsewhere(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c"])[Y]
    classifier = LogisticRegression().fit(X, names)
    recipe = supervised(classifier, probabilities=classifier.predict_proba(X))
    for given in (recipe, supervised(probabilities=recipe.arguments["probabilities"])):
        model = mm.MetricMixtureClassifier([given, "cosine"], **FIXED).fit(X, KNOWN)
        again = round_trip(model, tmp_path)
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
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
    graph = (A | A.T).astype(float)
    stack = mm.sources_for(table, graph, labels=np.roll(KNOWN, 1))
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(ids, KNOWN)
    again = round_trip(model, tmp_path, keep=keep, sources=None if keep else stack)
    assert "links spread" in again.stack_.supervised  # label propagation
    assert again.stack_.supervised == model.stack_.supervised
    assert np.array_equal(again.predict_proba(ids[:7]), model.predict_proba(ids[:7]))
    assert np.array_equal(again.transduction_, model.transduction_)
    assert np.array_equal(np.asarray(again.stack_), np.asarray(model.stack_))
    assert again.stack_.facts == model.stack_.facts
    assert str(again.explain(ids[27])) == str(model.explain(ids[27]))
    assert again.moved_share_ == model.moved_share_
    assert again.weights_table(2, random_state=0)["lower"].notna().all()  # sources as they are
    with pytest.raises(mm.InputError, match="was loaded with the predictions of its fit"):
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
    from metricmix.dissimilarity.known import Known
    from metricmix.dissimilarity.predictors import CrossFitted
    from metricmix.dissimilarity.supervised import SupervisedSource

    source = SupervisedSource(CrossFitted(X, GaussianNB()), "bayes", Known(KNOWN, 3))
    stack = mm.DissimilarityStack([source, mm.dissimilarity.features(X)])
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(np.arange(N), KNOWN)
    again = round_trip(model, tmp_path)
    assert np.array_equal(again.predict_proba(np.arange(N)), model.predict_proba(np.arange(N)))


# -- what is not stored, and what is not loaded ----------------------------------------------------


class Derived(LogisticRegression):
    """Another class, whatever it does."""


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "classifier",
    [
        Derived(),
        make_pipeline(FunctionTransformer(np.abs), LogisticRegression()),
        make_pipeline(StandardScaler(), LogisticRegression(), memory="cache"),
        RandomForestClassifier(2, random_state=np.random.RandomState(0)),
    ],
    ids=["derived", "function", "folder", "generator"],
)
def test_predictions_of_other_classifiers_stay(
    classifier: Any, keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = mm.MetricMixtureClassifier(sources(classifier), **FIXED).fit(X, KNOWN)
    again = round_trip(model, tmp_path, keep=keep)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    name = type(classifier).__name__
    with pytest.raises(mm.InputError, match=f"rows of the fit only: the file .* its {name}"):
        again.predict(NEW)
    with pytest.raises(mm.InputError, match=f"{name}, which was not stored"):
        clone(again).fit(X, KNOWN)
    before = (tmp_path / "model.mm").read_bytes()
    mm.save(again, tmp_path / "model.mm", sources=keep)
    assert (tmp_path / "model.mm").read_bytes() == before


@pytest.mark.parametrize(
    "estimator", [*CLASSIFIERS.values(), Ridge(0.1), ExtraTreesRegressor(3)], ids=repr
)
def test_settings_come_back(estimator: Any) -> None:
    if isinstance(estimator, KernelLogisticRegression):
        again = type(estimator).from_state(estimator.to_state())  # type: ignore[attr-defined]
    else:
        again = restored_estimator(*estimator_state(estimator))
    assert repr(again) == repr(estimator)


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("os.system", {}),
        ("sklearn.linear_model._logistic", {}),
        ("sklearn.linear_model.__dict__", {}),
        ("sklearn.externals._packaging.version.Version", {}),
        ("sklearn.utils.Bunch", {}),
        ("sklearn.pipeline.make_pipeline", {}),
        ("sklearn", {}),
        (3, {}),
        ("sklearn.linear_model.Ridge", {"alpha": object()}),
        ("sklearn.linear_model.Ridge", {"alpha": print}),
        ("sklearn.linear_model.Ridge", {"other": 1}),
        ("sklearn.linear_model.Ridge", [1]),
        ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 10**9}),
        ("sklearn.ensemble.RandomForestClassifier", {"n_jobs": -(10**9)}),
        ("sklearn.pipeline.Pipeline", {"steps": [], "memory": "/tmp/cache"}),
    ],
)
def test_what_is_no_estimator(path: Any, settings: Any) -> None:
    with pytest.raises(mm.ModelFileError, match="expected"):
        restored_estimator(path, settings)


RIDGE = "sklearn.linear_model.Ridge"
SMOOTH = {"estimator": ["sklearn.naive_bayes.GaussianNB", {"dict": [["var_smoothing", -1.0]]}]}
EVIL = {"KernelLogisticRegression": {"kernel": "evil", "C": 1.0, "gamma": None}}
PARAMETERS = ("content", "MetricMixtureClassifier", "parameters")
RECIPE = (*PARAMETERS, "sources", "dict", 1, 1, "TableSpec")
LEARNED = ("content", "MetricMixtureClassifier", "fitted", "input", "Input", "stack")
PREDICTIONS = (*LEARNED, "DissimilarityStack", "predictions", "dict", 0, 1, "SupervisedSource")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry(*RECIPE, "classifier", "estimator", 0, to="os.system"), "of scikit-learn"),
        (set_entry(*RECIPE, "classifier", to=3), "a classifier with fit"),
        (set_entry(*RECIPE, "classifier", to={"estimator": [RIDGE, 1]}), "plain settings"),
        (set_entry(*RECIPE, "classifier", to=EVIL), "a kernel 'linear' or 'rbf'"),
        (
            set_entry(*RECIPE, "classifier", to={"estimator": [RIDGE, {"dict": []}]}),
            "made as 'sources' says",
        ),
        (set_entry(*RECIPE, "classifier", to=SMOOTH), "is not a valid value"),
        (set_entry(*RECIPE, "n_folds", to=1), "n_folds"),
        (set_entry(*RECIPE, "probabilities", to=1), "probabilities: expected"),
        (set_entry(*PREDICTIONS, "choice", to=4), "made as 'sources' says"),
        (set_entry(*PREDICTIONS, "choice", to=-4), "labels that source"),
        (set_entry(*PREDICTIONS, "name", to=None), "'name' of a source"),
        (set_entry(*PREDICTIONS, "known", "Known", "n_classes", to=2), "class numbers or targets"),
        (set_entry(*PREDICTIONS, "known", "Known", "n_classes", to=4), "labels that source"),
        (set_entry(*PREDICTIONS, "known", "Known", "n_classes", to=0), "class numbers or targets"),
        (set_entry(*PREDICTIONS, "known", "Known", "values", "array", 2, 0, to=1), "from the lab"),
        (set_entry(*PREDICTIONS, "known", "Known", "keys", to=[1]), "'keys' of what is known"),
        (set_entry(*PREDICTIONS, "values", to=None), "'values' of a source"),
    ],
)
def test_wrong_files(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    mm.save(mm.MetricMixtureClassifier(sources(GaussianNB()), **FIXED).fit(X, KNOWN), path)
    path.write_bytes(edited(path.read_bytes(), change))
    with pytest.raises(mm.ModelFileError, match=rf"model.mm: .*{message}"):
        mm.load(path)
