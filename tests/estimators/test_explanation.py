"""Explanations add up: to edge lengths, distances and scores."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import metricmix as mm
from metricmix.estimators import MetricMixtureClassifierCV, explanation
from metricmix.estimators.attribution import chord_slope, contributions
from metricmix.estimators.explanation import explain
from metricmix.estimators.rules import ClassMean
from metricmix.exceptions import InputError
from reference.instances import on_demand, random_sources
from reference.models import classifier

N, R = 14, 3
NAMES = ("words", "links", "link")  # the last one is also what a column would be called
Y = np.array([0, 1, 2, -1, 1, 0, 0, 2, 1, -1, 2, 1, -1, 0])
RULES = ("class-mean", "k-nearest", "nearest", "spreading")
WEIGHTS = st.lists(st.floats(-8.0, 8.0), min_size=R, max_size=R)


def make_stack(seed=0, *, directed=False, items=None, n=N):
    sources = random_sources(np.random.default_rng(seed), n, R, directed=directed)
    return mm.DissimilarityStack(sources, NAMES, directed, items=items, scaling="mean")


def fitted(stack, y=Y, **options):
    return classifier(**{"rho": 1e-2, **options}).fit(stack, y)


@cache
def fitted_by_class_means(directed):
    """The model of several tests, which do not change it."""
    return fitted(make_stack(2, directed=directed))


# -- a distance --------------------------------------------------------------------------------


@given(WEIGHTS, st.sampled_from([0.3, 1.0, 20.0]), st.booleans(), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_parts_add_up(weights, beta, directed, seed):
    stack = make_stack(seed, directed=directed)
    mixture = mm.Mixture(weights, NAMES, beta=beta)
    found = contributions(stack, mixture, 3, 11)
    u, v = np.array(found.path.edges).T
    lengths = mm.mixture.edge_lengths(stack, mixture).pairs(u, v)
    room = 1e-14 * (1.0 + np.abs(found.edges).sum() + found.link.sum())
    assert found.edges.sum(axis=1) + found.link == pytest.approx(lengths, rel=1e-13, abs=room)
    assert sum(found.totals.values()) == pytest.approx(found.length, rel=1e-12, abs=room)
    assert found.length == pytest.approx(mm.path_metric(stack, mixture)[3, 11], rel=1e-12)
    assert (found.link == np.log(2) / beta).all()
    signs = np.sign(np.array(weights)) * np.sign(found.edges)
    assert (signs >= 0).all()  # a weight pulls one way


@given(st.lists(st.floats(0.0, 8.0), min_size=R, max_size=R), st.booleans())
@settings(deadline=None, max_examples=30)
def test_identity_link_takes_sources_as_they_are(weights, directed):
    stack = make_stack(directed=directed)
    found = contributions(stack, mm.Mixture(weights, NAMES, link="identity"), 0, 7)
    u, v = np.array(found.path.edges).T
    assert found.edges == pytest.approx(stack.pairs(u, v) * weights, rel=1e-12)
    assert (found.link == 0).all()
    assert sum(found.totals.values()) == pytest.approx(found.length, rel=1e-12, abs=1e-15)


def test_weights_of_zero_leave_the_link_alone():
    found = contributions(make_stack(), [0.0, 0.0, 0.0], 0, 1)
    assert found.totals == {"words": 0.0, "links": 0.0, "link": 0.0, "link_": np.log(2)}


def test_sources_that_cancel_are_told_apart():
    M = make_stack().source("words")
    stack = mm.DissimilarityStack({"for": M, "against": M})
    found = contributions(stack, [2.0, -2.0], 0, 1)
    assert found.totals["for"] == pytest.approx(M[0, 1])  # half of 2 M: the slope at 0
    assert found.totals["against"] == pytest.approx(-M[0, 1])
    assert found.length == pytest.approx(np.log(2))


def test_the_line_integral_itself():
    stack, weights = make_stack(), np.array([1.5, -0.7, 0.4])
    found = contributions(stack, mm.Mixture(weights, NAMES, beta=3.0), 0, 1)
    u, v = np.array(found.path.edges).T
    values = stack.pairs(u, v)
    t = (np.arange(20_000) + 0.5) / 20_000
    slopes = mm.mixture.link_derivative(np.outer(values @ weights, t), 3.0).mean(axis=1)
    assert found.edges == pytest.approx(values * weights * slopes[:, None], rel=1e-7)


def test_chord_slope_near_and_far():
    m = np.array([-1e300, -800.0, -2e-5, -1e-6, -5e-324, 0.0, 5e-324, 1e-6, 2e-5, 800.0, 1e300])
    slope = chord_slope(m, 1.0)
    assert np.all(np.diff(slope) >= 0)  # the link is convex
    assert slope[4:7] == pytest.approx(0.5, rel=1e-15)
    assert slope[[2, 3, 7, 8]] == pytest.approx(0.5 + m[[2, 3, 7, 8]] / 8, rel=1e-11)
    assert slope[[0, -1]] == pytest.approx([0.0, 1.0])
    either_side = chord_slope(np.array([0.99999999e-5, 1.00000001e-5]), 1.0)
    assert either_side[0] == pytest.approx(either_side[1], rel=1e-11)


def test_ids_and_the_item_itself():
    ids = [("item", k) for k in range(N)]
    found = contributions(make_stack(items=ids), [1.0, 0.5, 0.2], ids[2], ids[5])
    assert (found.nodes[0], found.nodes[-1]) == (ids[2], ids[5])
    assert found.nodes == tuple(ids[v] for v in found.path.nodes)
    nowhere = contributions(make_stack(items=ids), [1.0, 0.5, 0.2], ids[2], ids[2])
    assert nowhere.edges.shape == (0, R)
    assert (nowhere.length, set(nowhere.totals.values())) == (0.0, {0.0})
    assert len(nowhere.to_frame()) == 0


def test_sources_computed_on_demand():
    stack = make_stack(directed=True)
    weights = mm.Mixture([1.0, -0.5, 2.0], NAMES)
    here, there = (contributions(s, weights, 1, 9) for s in (stack, on_demand(stack)))
    assert here.path == there.path
    assert there.edges == pytest.approx(here.edges)


def test_table_and_text():
    line = abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    stack = mm.DissimilarityStack({"length": line**2, "to": line}, items=["a", "b", "c"])
    found = contributions(stack, mm.Mixture([1.0, -0.2]), "a", "c")
    table = found.to_frame()
    assert list(table.columns) == ["from", "to_", "length", "to", "link", "length_"]
    assert table["from"].tolist() == ["a", "b"]
    assert table["length_"].sum() == pytest.approx(found.length)
    text = str(found).splitlines()
    assert text[0] == f"a -> b -> c: {found.length:.4g}"
    assert [line.split()[0] for line in text[1:]] == ["length", "link", "to"]
    assert text[3].split()[1].startswith("-")


def test_wrong_items_and_stacks():
    with pytest.raises(InputError, match=r"^j: expected 0 .. 13 of the stack, got 14$"):
        contributions(make_stack(), [1.0, 1.0, 1.0], 0, 14)
    named = make_stack(items=[f"p{k}" for k in range(N)])
    with pytest.raises(InputError, match=r"^i: expected the id of an item of the stack, got 0$"):
        contributions(named, [1.0, 1.0, 1.0], 0, "p1")
    with pytest.raises(InputError, match="stack: expected a DissimilarityStack"):
        contributions(np.eye(3), None, 0, 1)


# -- estimators --------------------------------------------------------------------------------


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
@pytest.mark.parametrize("rule", RULES)
def test_explains_every_item(rule, directed):
    stack = make_stack(1, directed=directed, items=[f"p{k}" for k in range(N)])
    model = fitted(stack, rule=rule)
    metric = mm.path_metric(stack, model.mixture_)
    labelled = np.flatnonzero(Y >= 0)
    for i in range(N):
        found = model.explain(f"p{i}", k=4)
        assert (found.item, found.label) == (f"p{i}", model.transduction_[i])
        assert found.given == (Y[i] >= 0)
        assert found.probabilities == pytest.approx(model._rule.probabilities[i])
        others = labelled[labelled != i]
        expected = others[np.argsort(metric[i, others])[:4]]
        assert [near.item for near in found.nearest] == [f"p{j}" for j in expected]
        assert [near.label for near in found.nearest] == Y[expected].tolist()
        assert [near.distance for near in found.nearest] == pytest.approx(metric[i, expected])
        for near in found.nearest:
            assert sum(near.contributions.totals.values()) == pytest.approx(near.distance)
        assert (found.scores is not None) == (rule == "class-mean")


@pytest.mark.parametrize("most", [500, 5])
@pytest.mark.parametrize("directed", [False, True])
def test_class_scores_add_up(monkeypatch, directed, most):
    monkeypatch.setattr(explanation, "LABELS_BY_SOURCE", most)
    model = fitted_by_class_means(directed)
    expected = ClassMean().scores(model._rule, model._rule.distances[0])
    for i in range(N):
        found = model.explain(i)
        assert found.scores.scores == pytest.approx(expected[i], rel=1e-12)
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
    labelled = np.flatnonzero(Y >= 0)
    parts = np.array(
        [[list(model.contributions(i, j).totals.values()) for j in range(N)] for i in range(N)]
    )
    for i in (3, 5):
        for c in range(3):
            of = labelled[Y[labelled] == c]
            half = parts[np.ix_(of, of)].mean(axis=(0, 1)) / 2
            expected = parts[i, of].mean(axis=0) - half
            assert model.explain(i).scores.parts[c] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_new_items_enter_by_their_first_edge(rule, directed):
    whole = make_stack(3, directed=directed, n=N + 1)
    inside = np.arange(N)
    model = fitted(whole[np.ix_(inside, inside)], rule=rule)
    row = (whole.rows([N]) * whole.scales)[:, :N]
    found = model.explain(X=row, k=4)
    assert found.label == model.predict(row)[0]
    assert found.probabilities == pytest.approx(model.predict_proba(row)[0])
    assert (found.item, found.given) == ("new item", False)
    d = mm.path_metric(whole, model.mixture_)[N]  # the detour over a new item is its own only
    labelled = np.flatnonzero(Y >= 0)
    expected = labelled[np.argsort(d[labelled])[:4]]
    assert [near.item for near in found.nearest] == expected.tolist()
    assert [near.distance for near in found.nearest] == pytest.approx(d[expected])
    for near in found.nearest:
        assert sum(near.contributions.totals.values()) == pytest.approx(near.distance)
        assert near.contributions.nodes[0] == "new item"
        assert near.contributions.path.nodes[0] == N
    if rule == "class-mean":
        assert found.scores.scores == pytest.approx(
            ClassMean().scores(model._rule, d[None, labelled])[0]
        )
    assert str(found).startswith(f"new item is {found.label}")


def test_a_new_item_that_is_one_of_the_fit():
    stack = make_stack(3)
    model = fitted(stack)
    found = model.explain(X=stack.rows([4]) * stack.scales)
    assert found.nearest[0].item == 4
    assert found.nearest[0].distance == 0.0
    assert found.probabilities == pytest.approx(model._rule.probabilities[4])


@pytest.mark.parametrize("new_items", ["attached", "augmented"])
def test_new_rows_of_a_feature_table(new_items):
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(N, 3)), rng.normal(size=(1, 3))
    paths = mm.dissimilarity.knn_path_length(k=4)
    model = classifier(["euclidean", paths], new_items=new_items).fit(X, Y)
    found = explain(model, X=new)
    assert found.label == model.predict(new)[0]
    assert found.nearest[0].contributions.nodes[0] == "new item"
    p = np.exp(-found.scores.scores)
    assert p / p.sum() == pytest.approx(model.predict_proba(new)[0])


def test_ids_of_a_stack_given_beforehand():
    stack = make_stack(items=[f"p{k}" for k in range(N)])
    model = classifier(stack).fit([f"p{k}" for k in range(10)], Y[:10])
    assert model.explain("p12").label == model.transduction_[12]
    assert model.explain(X=["p12"]).item == "p12"


def test_text():
    y = np.array(["a", "b", "c", ""])[Y]
    model = fitted(make_stack(4), y)
    first, second, third = str(model.explain(3)).splitlines()
    found = model.explain(3)
    assert first == f"item 3 is {found.label!r} ({found.probabilities.max():.2f}), by the rule " + (
        "'class-mean'"
    )
    assert second.startswith(f"nearest labelled: {found.nearest[0].item} ")
    assert third.startswith(f"for {found.label!r} rather than {found.runner_up!r}, the runner-up: ")
    assert "as given" in str(model.explain(0))
    texts = [str(model.explain(i)) for i in np.flatnonzero(Y >= 0)]
    wrong = model._rule.probabilities.argmax(axis=1) != Y
    assert sum("which the rule prefers" in text for text in texts) == wrong[Y >= 0].sum()
    assert (
        str(fitted(make_stack(4), y, rule="nearest").explain(3))
        .splitlines()[2]
        .startswith("distance to ")
    )


def test_many_sources_are_put_together_in_the_text():
    sources = random_sources(np.random.default_rng(0), N, 9)
    text = str(fitted(mm.DissimilarityStack(sources)).explain(3))
    assert text.count("source_") + text.count("link") == 5
    assert "others " in text


def test_table_of_the_nearest():
    found = fitted(make_stack()).explain(3, k=2)
    table = found.to_frame()
    assert list(table.columns) == ["item", "label", "distance", *NAMES, "link_"]
    assert table.iloc[:, 3:].sum(axis=1).to_numpy() == pytest.approx(table["distance"].to_numpy())


def test_cross_validated():
    model = MetricMixtureClassifierCV(rhos=(1e-2,), cv=2, random_state=0)
    with pytest.raises(NotFittedError):
        model.explain(0)
    model.fit(make_stack(6), Y)
    assert model.explain(3).label == model.transduction_[3]
    assert model.contributions(0, 1).length == pytest.approx(
        mm.path_metric(model.stack_, model.mixture_)[0, 1]
    )
    assert explain(model, 3).label == model.explain(3).label
    table = model.weights_table(n_bootstrap=3, random_state=0)
    assert table["weight"].tolist() == model.weights_.tolist()


def test_errors():
    stack = make_stack()
    model = classifier()
    for ask in (lambda: model.explain(0), lambda: model.contributions(0, 1)):
        with pytest.raises(NotFittedError):
            ask()
    model = fitted(stack)
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
    with pytest.raises(InputError, match=r"^model: expected a classifier, got MetricMixture"):
        explain(mm.MetricMixture().fit(stack, Y), 0)


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
