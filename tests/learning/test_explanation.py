"""Explanations add up to distances and scores; those of labelled items are without their label."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

import metricmix as mm
from metricmix.dissimilarity import EdgeSet
from metricmix.exceptions import InputError
from metricmix.learning import label_paths
from metricmix.learning.rules import ClassMean
from reference.instances import random_sources
from reference.models import classifier

N, R = 14, 3
NAMES = ("words", "links", "link")  # the last one is also what a column would be called
Y = np.array([0, 1, 2, -1, 1, 0, 0, 2, 1, -1, 2, 1, -1, 0])
KNOWN = Y >= 0
TARGETS = np.where(KNOWN, np.random.default_rng(1).normal(size=N), np.nan)
CASES = {
    **{rule: (rule, Y) for rule in ("class-mean", "k-nearest", "nearest", "spreading")},
    "kernel-ridge of targets": ("kernel-ridge", TARGETS),
    "k-nearest of targets": ("k-nearest", TARGETS),
}
"""Rules, and the labels or targets that they are for."""
pytestmark = pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
both_tasks = pytest.mark.parametrize("y", [Y, TARGETS], ids=["labels", "targets"])


def make_stack(seed=0, *, directed=False, items=None, n=N):
    sources = random_sources(np.random.default_rng(seed), n, R, directed=directed)
    return mm.DissimilarityStack(sources, NAMES, directed, items=items, scaling="mean")


def fitted(stack, y=Y, **options):
    """Return a model that chooses nothing, after a few steps: any weights can be explained."""
    settings = {"rho": 1e-2, "method": mm.solvers.LBFGS(), "max_iter": 4, **options}
    if np.asarray(y).dtype.kind != "f":
        return classifier(**settings).fit(stack, y)
    settings = {"constraint": "nonnegative", "rule": "k-nearest", **settings}
    return mm.MetricMixtureRegressor(**settings).fit(stack, y)


def without(y, i):
    """Return labels or targets without that of an item."""
    held_out = np.array(y)
    held_out[i] = {"f": np.nan, "i": -1, "U": ""}[held_out.dtype.kind]
    return held_out


def not_seeing(model, stack, y, i):
    """Return the same model fitted without the label of an item; itself, if it has none."""
    return clone(model).fit(stack, without(y, i)) if KNOWN[i] else model


@cache
def fitted_by_class_means(directed):
    """The model of several tests, which do not change it."""
    return fitted(make_stack(2, directed=directed))


# -- items of the fit --------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_agrees_with_the_transformer(directed):
    stack = make_stack(directed=directed)
    model = mm.MetricMixture().fit(stack, Y)
    d = model.transform(stack)
    for i, j in [(0, 1), (12, 3), (3, 12)]:
        found = model.contributions(i, j)
        assert found.length == pytest.approx(model.compute_metric()[i, j])
        assert sum(found.totals.values()) == pytest.approx(model.compute_metric()[i, j])
    assert d.shape == (N, N)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_explains_every_item(case, directed):
    """Unlabelled ones by the model, labelled ones by the same model without their label."""
    rule, y = CASES[case]
    stack = make_stack(1, directed=directed, items=[f"p{k}" for k in range(N)])
    model = fitted(stack, y, rule=rule)
    for i in range(N):
        found = model.explain(f"p{i}", k=4)
        used = not_seeing(model, stack, y, i)
        answer = used.learned_.answers[i]
        metric = mm.path_metric(stack, used.mixture_)
        assert (found.item, found.label) == (f"p{i}", model.transduction_[i])
        assert found.given == KNOWN[i]
        assert found.answer == pytest.approx(answer)
        assert found.predicted == pytest.approx(used.transduction_[i])
        others = np.flatnonzero(KNOWN & (np.arange(N) != i))
        expected = others[np.argsort(metric[i, others])[:4]]
        assert [near.item for near in found.nearest] == [f"p{j}" for j in expected]
        assert [near.label for near in found.nearest] == y[expected].tolist()
        assert [near.distance for near in found.nearest] == pytest.approx(metric[i, expected])
        for near in found.nearest:
            assert sum(near.contributions.totals.values()) == pytest.approx(near.distance)
        assert (found.scores is not None) == (rule == "class-mean")
        if y is TARGETS:
            assert found.mean == pytest.approx(y[others].mean())
        else:
            assert found.mean is None
            assert found.probabilities == pytest.approx(answer)


@pytest.mark.parametrize("recipe", [LogisticRegression(), Ridge()], ids=["labels", "targets"])
def test_a_labelled_item_is_explained_without_its_label(recipe):
    """Sources computed from labels, weights and rule: as in a model fitted without it."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 3))
    X[:, 0] += 2.0 * (np.arange(40) % 2)
    y = np.arange(40) % 2 if isinstance(recipe, LogisticRegression) else X[:, 0] + X[:, 1]
    sources = ["euclidean", mm.dissimilarity.supervised(recipe)]
    model = fitted(X, y, sources=sources, rule="k-nearest")
    changed = 0
    for i in (0, 7, 21):
        found = model.explain(i)
        other = clone(model).fit(X, without(y, i))
        expected = other.explain(i)
        assert (found.given, expected.given) == (True, False)
        assert found.label == pytest.approx(y[i])
        assert found.answer == pytest.approx(other.learned_.answers[i])
        assert found.predicted == pytest.approx(expected.label)
        assert found.to_frame().equals(expected.to_frame())
        changed += not np.allclose(found.answer, model.learned_.answers[i])
    assert changed


def test_an_objective_of_ones_own_holds_the_label_out_of_the_rule():
    """Which labels it was made for is not known: the weights stay."""
    stack = make_stack()
    model = fitted(stack, objective=mm.objectives.ClassMeans(Y, 1e-2))
    found = model.explain(0)
    metric = model.compute_metric()
    others = np.flatnonzero(KNOWN & (np.arange(N) != 0))
    assert found.nearest[0].distance == pytest.approx(metric[0, others].min())
    scores = [
        metric[0, of].mean() - metric[np.ix_(of, of)].mean() / 2
        for of in (others[Y[others] == c] for c in range(3))
    ]
    assert found.scores.scores == pytest.approx(scores)


@pytest.mark.parametrize("most", [500, 5])
@pytest.mark.parametrize("directed", [False, True])
def test_class_scores_add_up(monkeypatch, directed, most):
    monkeypatch.setattr(label_paths, "LABELS_BY_SOURCE", most)
    model = fitted_by_class_means(directed)
    for i in range(N):
        found = model.explain(i)
        fit = not_seeing(model, model.stack_, Y, i).learned_.rule
        expected = ClassMean().scores(fit, fit.distances[0])[i]
        assert found.scores.scores == pytest.approx(expected, rel=1e-12)
        last = ["link_"] if most == 500 else ["link_", "within"]
        assert found.scores.columns == [*NAMES, *last]
        table = found.scores.to_frame()
        assert table.index.tolist() == [0, 1, 2]
        assert table.iloc[:, :-1].sum(axis=1).to_numpy() == pytest.approx(table["score"].to_numpy())
        odds = sum(found.scores.log_odds(0, 2).values())
        assert odds == pytest.approx(np.log(found.probabilities[0] / found.probabilities[2]))


@pytest.mark.parametrize("directed", [False, True])
def test_class_scores_source_by_source(directed):
    model = fitted_by_class_means(directed)
    for i in (3, 5):
        used = not_seeing(model, model.stack_, Y, i)
        labelled = np.flatnonzero(KNOWN & (np.arange(N) != i))
        parts = np.array(
            [[list(used.contributions(a, b).totals.values()) for b in range(N)] for a in range(N)]
        )
        for c in range(3):
            of = labelled[Y[labelled] == c]
            half = parts[np.ix_(of, of)].mean(axis=(0, 1)) / 2
            expected = parts[i, of].mean(axis=0) - half
            assert model.explain(i).scores.parts[c] == pytest.approx(expected, rel=1e-10)


def test_offsets_of_classes_are_a_part_of_the_scores():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * (1 + np.arange(60) % 2)[:, None] + (np.arange(60) % 2)[:, None]
    known = np.where(np.arange(60) < 30, np.arange(60) % 2, -1)
    rule = mm.estimators.ClassMean(offsets=True)
    model = mm.MetricMixtureClassifier(
        ["euclidean", "cityblock"], rule=rule, constraint="nonnegative"
    )
    model.fit(X, known)
    found = model.explain(45)
    table = found.scores.to_frame()
    assert abs(table["offset"]).max() > 0.01
    scores = found.scores.scores
    p = np.exp(-scores) / np.exp(-scores).sum()
    np.testing.assert_allclose(p, found.probabilities, rtol=1e-9)


def test_ids_of_a_stack_given_beforehand():
    stack = make_stack(items=[f"p{k}" for k in range(N)])
    model = classifier(stack).fit([f"p{k}" for k in range(10)], Y[:10])
    assert model.explain("p12").label == model.transduction_[12]
    assert model.explain(X=["p12"]).item == "p12"


def test_cross_validated():
    model = mm.MetricMixtureClassifierCV(rhos=(1e-2,), cv=2, random_state=0)
    with pytest.raises(NotFittedError):
        model.explain(0)
    model.fit(make_stack(6), Y)
    assert model.explain(3).label == model.transduction_[3]
    assert model.contributions(0, 1).length == pytest.approx(
        mm.path_metric(model.stack_, model.mixture_)[0, 1]
    )
    assert str(model.best_estimator_.explain(3)) == str(model.explain(3))
    table = model.weights_table(n_bootstrap=3, random_state=0)
    assert table["weight"].tolist() == model.weights_.tolist()


# -- sparse edges in several parts -------------------------------------------------------------


def in_two_parts() -> mm.EdgeStack:
    """Return a path of four items, and one of two."""
    edges = EdgeSet(6, np.array([0, 1, 2, 4]), np.array([1, 2, 3, 5]))
    return mm.EdgeStack(edges, np.array([[1.0, 2.0, 3.0, 1.0]]), ["line"])


def test_only_items_that_are_reached_are_named():
    model = fitted(in_two_parts(), [0, -1, -1, 1, 0, 1], rule="nearest", objective=None)
    metric = model.compute_metric()
    for i, expected in ((1, [0, 3]), (2, [0, 3])):
        found = model.explain(i)
        near = sorted(expected, key=lambda j: metric[i, j])
        assert [one.item for one in found.nearest] == near
        assert [one.distance for one in found.nearest] == pytest.approx(metric[i, near])
        assert found.label == found.nearest[0].label == model.transduction_[i]
        why = model.explain_label(i)
        assert [chain.item for chain in why.chains] == near
        assert why.total == pytest.approx(abs(metric[i, 0] - metric[i, 3]))
    row = np.full((1, 6, 1), np.inf)
    row[0, 1] = 1.0
    found = model.explain(X=row, k=4)
    assert [one.item for one in found.nearest] == [0, 3]
    assert np.isfinite([one.distance for one in found.nearest]).all()


def test_a_class_that_is_not_reached_is_no_evidence():
    rule = mm.estimators.KNearest(1)
    model = fitted(in_two_parts(), [0, -1, -1, 0, 1, 1], rule=rule, objective=None)
    found = model.explain(1)
    assert [near.item for near in found.nearest] == [0, 3]
    assert found.probabilities.tolist() == [1.0, 0.0]
    why = model.explain_label(1)
    near, far = why.chains
    assert near is not None
    assert (near.item, far) == (0, None)
    assert "nearest 1: none" in str(why)


# -- new items ---------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_new_items_enter_by_their_first_edge(case, directed):
    rule, y = CASES[case]
    whole = make_stack(3, directed=directed, n=N + 1)
    inside = np.arange(N)
    model = fitted(whole[np.ix_(inside, inside)], y, rule=rule)
    row = (whole.rows([N]) * whole.scales)[:, :N]
    found = model.explain(X=row, k=4)
    assert found.label == pytest.approx(model.predict(row)[0])
    if y is Y:
        assert found.probabilities == pytest.approx(model.predict_proba(row)[0])
        assert str(found).startswith(f"new item is {found.label}")
    else:
        assert found.predicted == found.answer == found.label
        assert str(found).startswith(f"new item is predicted {found.label:.4g}")
    assert (found.item, found.given) == ("new item", False)
    d = mm.path_metric(whole, model.mixture_)[N]  # the detour over a new item is its own only
    labelled = np.flatnonzero(KNOWN)
    expected = labelled[np.argsort(d[labelled])[:4]]
    assert [near.item for near in found.nearest] == expected.tolist()
    assert [near.label for near in found.nearest] == y[expected].tolist()
    assert [near.distance for near in found.nearest] == pytest.approx(d[expected])
    for near in found.nearest:
        assert sum(near.contributions.totals.values()) == pytest.approx(near.distance)
        assert near.contributions.nodes[0] == "new item"
        assert near.contributions.path.nodes[0] == N
    if rule == "class-mean":
        assert found.scores.scores == pytest.approx(
            ClassMean().scores(model.learned_.rule, d[None, labelled])[0]
        )


@both_tasks
def test_a_new_item_that_is_one_of_the_fit(y):
    stack = make_stack(3)
    model = fitted(stack, y)
    found = model.explain(X=stack.rows([4]) * stack.scales)
    assert found.nearest[0].item == 4
    assert found.nearest[0].distance == 0.0
    assert found.answer == pytest.approx(model.learned_.answers[4])


@pytest.mark.parametrize("new_items", ["attached", "augmented"])
def test_new_rows_of_a_feature_table(new_items):
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(N, 3)), rng.normal(size=(1, 3))
    paths = mm.dissimilarity.knn_path_length(k=4)
    sources = ["euclidean", paths]
    model = classifier(sources, new_items=new_items).fit(X, Y)
    found = model.explain(X=new)
    assert found.label == model.predict(new)[0]
    assert found.nearest[0].contributions.nodes[0] == "new item"
    p = np.exp(-found.scores.scores)
    assert p / p.sum() == pytest.approx(model.predict_proba(new)[0])
    of_targets = fitted(X, TARGETS, sources=sources, new_items=new_items)
    found = of_targets.explain(X=new)
    assert found.predicted == pytest.approx(of_targets.predict(new)[0])
    assert found.nearest[0].contributions.nodes[0] == "new item"


# -- tables and texts --------------------------------------------------------------------------


def test_text():
    y = np.array(["a", "b", "c", ""])[Y]
    stack = make_stack(4)
    model = fitted(stack, y)
    first, second, third = str(model.explain(3)).splitlines()
    found = model.explain(3)
    assert first == f"item 3 is {found.label!r} ({found.probabilities.max():.2f}), by the rule " + (
        "'class-mean'"
    )
    assert second.startswith(f"nearest labelled: {found.nearest[0].item} ")
    assert third.startswith(f"for {found.label!r} rather than {found.runner_up!r}, the runner-up: ")
    assert "as given" in str(model.explain(0))
    labelled = np.flatnonzero(KNOWN)
    texts = [str(model.explain(i)) for i in labelled]
    predicted = [not_seeing(model, stack, y, i).transduction_[i] for i in labelled]
    prefers = ["which the rule prefers" in text for text in texts]
    assert prefers == (np.array(predicted) != y[labelled]).tolist()
    assert 0 < sum(prefers) < len(labelled)
    assert (
        str(fitted(make_stack(4), y, rule="nearest").explain(3))
        .splitlines()[2]
        .startswith("distance to ")
    )


def test_text_of_targets():
    model = fitted(make_stack(4), TARGETS)
    found = model.explain(3)
    mean = TARGETS[KNOWN].mean()
    first, second, third = str(found).splitlines()
    assert first == (
        f"item 3 is predicted {found.predicted:.4g}, by the rule 'k-nearest'; the mean of all "
        f"known targets is {mean:.4g}"
    )
    nearest = found.nearest[0]
    start = f"nearest known: {nearest.item} ({nearest.label:.4g}) at {nearest.distance:.3g}"
    assert second.startswith(start)
    assert third.startswith(f"distance to {nearest.item}: ")
    given = model.explain(0)
    mean = TARGETS[KNOWN][1:].mean()
    assert str(given).splitlines()[0] == (
        f"item 0 has the target {TARGETS[0]:.4g}; the rule 'k-nearest' predicts "
        f"{given.predicted:.4g} without it; the mean of all known targets is {mean:.4g}"
    )


def test_many_sources_are_put_together_in_the_text():
    stack = mm.DissimilarityStack(random_sources(np.random.default_rng(0), N, 9))
    text = str(fitted(stack, objective=None).explain(3))
    assert text.count("source_") + text.count("link") == 5
    assert "others " in text
    told = fitted(stack).explain(3)  # some weights are 0
    parts = told.scores.log_odds(told.label, told.runner_up)
    assert [name in str(told) for name in parts] == [part != 0.0 for part in parts.values()]


@both_tasks
def test_table_of_the_nearest(y):
    found = fitted(make_stack(), y).explain(3, k=2)
    table = found.to_frame()
    value = "label" if y is Y else "target"
    assert list(table.columns) == ["item", value, "distance", *NAMES, "link_"]
    assert table[value].tolist() == y[table["item"]].tolist()
    assert table.iloc[:, 3:].sum(axis=1).to_numpy() == pytest.approx(table["distance"].to_numpy())


@both_tasks
def test_errors(y):
    stack = make_stack()
    model: Any = classifier() if y is Y else mm.MetricMixtureRegressor()
    for ask in (lambda: model.explain(0), lambda: model.contributions(0, 1)):
        with pytest.raises(NotFittedError):
            ask()
    model = fitted(stack, y)
    with pytest.raises(InputError, match=r"^i: expected 0 .. 13 of the stack, got -1"):
        model.explain(-1)
    with pytest.raises(InputError, match=r"^i, X: expected an item of the stack, or one new row"):
        model.explain()
    with pytest.raises(InputError, match="pass one of them"):
        model.explain(0, X=stack.rows([0]))
    with pytest.raises(InputError, match=r"^X: expected one item to explain, got 2"):
        model.explain(X=stack.rows([0, 1]))
    with pytest.raises(InputError, match=r"^k: expected a whole number >= 1"):
        model.explain(0, k=0)
