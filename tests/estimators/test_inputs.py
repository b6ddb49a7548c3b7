"""Three ways in, one result; and all that scikit-learn does with an estimator, for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import metricmix as mm
from metricmix.dissimilarity import FeatureSource, features, knn_path_length
from metricmix.estimators import (
    LabelledKFold,
    MetricMixture,
    MetricMixtureClassifier,
    MetricMixtureClassifierCV,
)
from metricmix.learning.rules import CLASS_RULES
from reference.instances import random_sources
from reference.models import classifier

RECIPES = ["euclidean", "angular"]
N = 36
X, Y = make_blobs(N, 3, centers=3, cluster_std=3.0, random_state=3)
KNOWN = np.where(np.arange(N) < 18, Y, -1)
NAMES = np.array([f"item {k}" for k in range(N)])


def make_stack(table: Any = X, **options: Any) -> mm.DissimilarityStack:
    return mm.DissimilarityStack({name: features(table, name) for name in RECIPES}, **options)


STACK = make_stack()
NAMED = make_stack(items=NAMES)


@dataclass(frozen=True)
class Way:
    """What `sources` is, and what X is."""

    sources: Any
    X: Any

    def take(self, chosen: Any, train: Any = None) -> Any:
        """X for some items; for dissimilarities, to the items of the fit."""
        if self.sources != "precomputed":
            return self.X[chosen]
        return self.X[np.ix_(chosen, chosen if train is None else train)]


WAYS = {
    "stack": Way("precomputed", STACK),
    "array": Way("precomputed", np.asarray(STACK)),
    "recipes": Way(RECIPES, X),
    "numbers": Way(STACK, np.arange(N)),
    "ids": Way(NAMED, NAMES),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_all_ways_agree_where_everything_is_in_the_fit(rule: str) -> None:
    fitted = {
        name: classifier(way.sources, rule=rule).fit(way.X, KNOWN) for name, way in WAYS.items()
    }
    one = fitted["stack"]
    for name, model in fitted.items():
        assert model.weights_ == pytest.approx(one.weights_, rel=1e-6), name
        assert model.stack_.scales == pytest.approx(one.stack_.scales), name
        assert np.array_equal(model.transduction_, one.transduction_), name
    by_id = classifier(NAMED, rule=rule).fit(NAMES[:18], Y[:18])
    assert by_id.weights_ == pytest.approx(one.weights_, rel=1e-6)
    assert np.array_equal(by_id.transduction_, one.transduction_)


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_all_ways_agree_on_new_items(rule: str) -> None:
    train, test = np.arange(24), np.arange(24, N)
    answers = []
    for name in ("stack", "array", "recipes"):
        way = WAYS[name]
        model = classifier(way.sources, rule=rule)
        model.fit(way.take(train), KNOWN[train])
        answers.append(model.predict_proba(way.take(test, train)))
    for p in answers[1:]:
        assert p == pytest.approx(answers[0], abs=1e-6)


def test_all_ways_agree_on_distances() -> None:
    one = MetricMixture().fit_transform(STACK, KNOWN)
    for name, way in WAYS.items():
        model = MetricMixture(way.sources)
        assert model.fit_transform(way.X, KNOWN) == pytest.approx(one, rel=1e-6), name
        assert model.transform(way.X) == pytest.approx(one, rel=1e-6), name


@each_way
def test_cross_validation(way: Way) -> None:
    cv = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(classifier(way.sources), way.X, Y, cv=cv)
    assert scores.mean() > 0.7
    by_hand = []
    for train, test in cv.split(Y):
        model = classifier(way.sources).fit(way.take(train), Y[train])
        by_hand.append(np.mean(model.predict(way.take(test, train)) == Y[test]))
    assert scores == pytest.approx(by_hand)
    predicted = cross_val_predict(classifier(way.sources), way.X, Y, cv=cv)
    assert np.mean(predicted == Y) == pytest.approx(scores.mean())


@each_way
def test_grid_search_nested_in_cross_validation(way: Way) -> None:
    grid = {"rho": [1e-4, 1e-2], "rule": ["class-mean", "nearest"]}
    search = GridSearchCV(classifier(way.sources), grid, cv=LabelledKFold(2, random_state=0))
    scores = cross_val_score(search, way.X, KNOWN, cv=LabelledKFold(2, random_state=1))
    assert scores.mean() > 0.5
    search.fit(way.X, KNOWN)
    assert search.best_estimator_.score(way.X, Y) > 0.7


@each_way
def test_pipelines(way: Way) -> None:
    neighbours = make_pipeline(
        MetricMixture(way.sources), KNeighborsClassifier(3, metric="precomputed")
    )
    assert cross_val_score(neighbours, way.X, Y, cv=3).mean() > 0.6
    assert get_tags(neighbours).input_tags.pairwise is (way.sources == "precomputed")


def test_pipeline_that_prepares_the_features() -> None:
    model = make_pipeline(StandardScaler(), classifier(RECIPES))
    search = GridSearchCV(model, {"metricmixtureclassifier__rho": [1e-4, 1e-2]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.7


@each_way
def test_clone_and_parameters(way: Way) -> None:
    model = classifier(way.sources, rho=0.3, rule="nearest").fit(way.X, Y)
    again = clone(model)
    assert not hasattr(again, "mixture_")
    assert {**again.get_params(), "sources": 0} == {**model.get_params(), "sources": 0}
    if isinstance(way.sources, mm.DissimilarityStack):
        assert again.sources is way.sources
    again.set_params(rho=0.1).fit(way.X, Y)
    other = classifier(way.sources, rho=0.1, rule="nearest").fit(way.X, Y)
    assert np.array_equal(again.weights_, other.weights_)


@pytest.mark.parametrize(
    "kind", [MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV]
)
def test_tags_follow_the_sources(kind: Any) -> None:
    model = kind()
    assert get_tags(model).input_tags.pairwise
    assert not get_tags(model).input_tags.sparse
    model.set_params(sources=RECIPES)
    assert not get_tags(model).input_tags.pairwise
    assert get_tags(model).input_tags.sparse
    model.set_params(sources=STACK)
    assert not get_tags(model).input_tags.pairwise
    assert get_tags(model).input_tags.one_d_array
    assert get_tags(model.set_params(sources="precomputed")).input_tags.pairwise


def test_a_stack_scaled_on_purpose_keeps_its_scales() -> None:
    scaled = make_stack(scaling="max")
    model = classifier().fit(scaled, Y)
    assert np.array_equal(model.stack_.scales, scaled.scales)
    part: Any = scaled[np.ix_(range(20), range(20))]
    assert np.array_equal(classifier().fit(part, Y[:20]).stack_.scales, scaled.scales)
    plain: Any = STACK[np.ix_(range(20), range(20))]
    expected = plain.rescaled("mean").scales
    assert classifier().fit(plain, Y[:20]).stack_.scales == pytest.approx(expected)


@pytest.mark.parametrize("scaling", ["mean", "norm", "max", None, [2.0, 0.5]])
def test_scales_do_not_change_what_rows_mean(scaling: Any) -> None:
    train, test = np.arange(24), np.arange(24, N)
    model = classifier(scaling=scaling).fit(STACK[np.ix_(train, train)], Y[train])
    if scaling is None:
        assert (model.stack_.scales == 1).all()
    expected = model.predict_proba(np.asarray(STACK)[np.ix_(test, train)])
    for other in (STACK, make_stack(scaling="max"), make_stack(scaling=[9.0, 0.1])):
        cross = other[np.ix_(test, train)]
        assert model.predict_proba(cross) == pytest.approx(expected, abs=1e-9)


def test_sources_of_new_rows_are_matched_by_name() -> None:
    train, test = np.arange(24), np.arange(24, N)
    model = classifier().fit(STACK[np.ix_(train, train)], Y[train])
    expected = model.predict_proba(STACK[np.ix_(test, train)])
    turned = STACK.select(RECIPES[::-1])
    assert np.array_equal(model.predict_proba(turned[np.ix_(test, train)]), expected)
    as_many = STACK.select(RECIPES[::-1])[np.ix_(np.arange(12, N), np.arange(24))]
    assert np.array_equal(model.predict_proba(as_many)[12:], expected)


def test_a_single_matrix_is_one_source() -> None:
    M = STACK.source(0)
    one, two = (classifier().fit(m, Y) for m in (M, M[:, :, None]))
    assert np.array_equal(one.weights_, two.weights_)
    assert np.array_equal(one.predict(M), two.predict(M[:, :, None]))
    frame = pd.DataFrame(M, index=NAMES, columns=NAMES)
    assert np.array_equal(classifier().fit(frame, Y).predict(frame), one.predict(M))
    listed = classifier().fit(M.tolist(), Y)
    assert np.array_equal(listed.predict(M.tolist()), one.predict(M))


def test_feature_tables_of_any_kind() -> None:
    expected = classifier(RECIPES).fit(X, KNOWN)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=NAMES)
    for table in (frame, X.tolist(), sparse.csr_array(X), sparse.coo_matrix(X), X.copy("F")):
        model = classifier(RECIPES).fit(table, KNOWN)
        assert model.weights_ == pytest.approx(expected.weights_, rel=1e-5)
        assert np.array_equal(model.transduction_, expected.transduction_)
        p = expected.predict_proba(X[:5] + 0.1)
        asked = frame[:5] + 0.1 if table is frame else X[:5] + 0.1
        assert model.predict_proba(asked) == pytest.approx(p, abs=1e-5)
    named = classifier(RECIPES).fit(frame, KNOWN)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]


def test_recipes_of_all_kinds() -> None:
    sources = ["cityblock", knn_path_length(k=5), lambda a, b: float(abs(a[0] - b[0]))]
    model = classifier(sources, rule="nearest").fit(X, KNOWN)
    assert model.stack_.names[:2] == ("cityblock", "knn_path_length")
    assert model.stack_.source(2) == pytest.approx(abs(X[:, :1] - X[:, 0]) / model.stack_.scales[2])
    assert np.array_equal(model.predict(X[:18]), Y[:18])


def test_ids_in_any_order_and_only_some() -> None:
    whole = classifier(NAMED).fit(NAMES, KNOWN)
    order = np.random.default_rng(0).permutation(18)
    some = classifier(NAMED).fit(NAMES[order], Y[order])
    assert some.weights_ == pytest.approx(whole.weights_, rel=1e-6)
    asked = NAMES[[30, 2, 2, 17]]
    assert some.predict_proba(asked) == pytest.approx(whole.predict_proba(asked), abs=1e-6)
    assert len(some.transduction_) == N


@pytest.mark.parametrize(
    "ask",
    [
        list,
        np.asarray,
        lambda ids: np.asarray(ids, dtype=object),
        lambda ids: np.asarray(ids)[:, None],
        lambda ids: pd.Series(ids, index=range(7, 7 + len(ids))),
        lambda ids: pd.DataFrame({"id": ids}),
    ],
    ids=["list", "array", "objects", "column", "series", "frame"],
)
def test_ids_of_any_kind(ask: Any) -> None:
    expected = classifier(NAMED).fit(NAMES, KNOWN).predict(NAMES[20:])
    model = classifier(NAMED).fit(ask(NAMES), KNOWN)
    assert np.array_equal(model.predict(ask(NAMES[20:])), expected)


def test_ids_may_be_any_objects() -> None:
    pairs = [(k, "x") for k in range(N)]
    model = classifier(make_stack(items=pairs)).fit(pairs[:18], Y[:18])
    expected = classifier(STACK).fit(np.arange(18), Y[:18])
    assert np.array_equal(model.predict(pairs), expected.predict(np.arange(N)))


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_sources_on_demand_and_on_disk(rule: str, tmp_path: Any) -> None:
    computed = mm.DissimilarityStack([FeatureSource(X, name) for name in RECIPES])
    for r, name in enumerate(RECIPES):
        np.save(tmp_path / f"{r}.npy", features(X, name))
    maps = [np.load(tmp_path / f"{r}.npy", mmap_mode="r") for r in range(2)]
    mapped = mm.DissimilarityStack(maps, RECIPES)
    expected = classifier(STACK, rule=rule).fit(np.arange(18), Y[:18])
    for stack in (computed, mapped):
        assert stack.block is None
        model = classifier(stack, rule=rule).fit(np.arange(18), Y[:18])
        assert model.weights_ == pytest.approx(expected.weights_, rel=1e-5)
        assert np.array_equal(model.transduction_, expected.transduction_)
        direct = classifier(rule=rule).fit(stack, KNOWN)
        assert np.array_equal(direct.transduction_, expected.transduction_)


@pytest.mark.parametrize("rule", ["class-mean", "k-nearest", "spreading"])
def test_float32(rule: str) -> None:
    single = mm.DissimilarityStack({name: features(X, name).astype(np.float32) for name in RECIPES})
    one, two = (classifier(rule=rule).fit(stack, KNOWN) for stack in (STACK, single))
    assert two.weights_ == pytest.approx(one.weights_, rel=1e-3)
    rows = np.asarray(STACK)[:5] * 1.01
    for new in (rows, rows.astype(np.float32)):
        assert two.predict_proba(new) == pytest.approx(one.predict_proba(rows), abs=1e-3)


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_the_order_of_the_samples_does_not_matter(rule: str) -> None:
    order = np.random.default_rng(1).permutation(N)
    one = classifier(RECIPES, rule=rule).fit(X, KNOWN)
    two = classifier(RECIPES, rule=rule).fit(X[order], KNOWN[order])
    assert two.weights_ == pytest.approx(one.weights_, rel=1e-4)
    assert np.array_equal(two.transduction_, one.transduction_[order])
    new = X[:6] + 0.05
    assert two.predict_proba(new) == pytest.approx(one.predict_proba(new), abs=1e-4)


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_threads_do_not_matter(rule: str) -> None:
    new = X[:9] + 0.05
    one, two = (classifier(RECIPES, rule=rule, n_jobs=k).fit(X, KNOWN) for k in (1, 3))
    assert np.array_equal(one.weights_, two.weights_)
    assert np.array_equal(one.predict_proba(new), two.predict_proba(new))


def test_new_rows_do_not_depend_on_each_other() -> None:
    rng = np.random.default_rng(4)
    stack = mm.DissimilarityStack(random_sources(rng, 20, 3))
    rows = rng.uniform(0.1, 2.0, (7, 20, 3))
    y = np.arange(20) % 3
    for rule in CLASS_RULES.names():
        model = classifier(rule=rule, objective=None).fit(stack, y)
        whole = model.predict_proba(rows)
        for k in range(7):
            assert model.predict_proba(rows[k : k + 1])[0] == pytest.approx(whole[k], rel=1e-12)
    metric = MetricMixture(objective=None).fit(stack, y)
    assert metric.transform(rows[3:5]) == pytest.approx(metric.transform(rows)[3:5], rel=1e-13)


def test_rows_that_name_their_columns_are_put_in_order() -> None:
    model = classifier(rule="nearest").fit(NAMED, Y)
    order = np.random.default_rng(0).permutation(N)
    test = [3, 20]
    expected = model.predict_proba(NAMED[np.ix_(test, range(N))])
    assert model.predict_proba(NAMED[np.ix_(test, order)]) == pytest.approx(expected)
