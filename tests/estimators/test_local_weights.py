"""Classifiers with local weights: a row of weights per class or region."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.dissimilarity.known import Known
from metricmix.learning import learn
from metricmix.learning.candidates import candidates_of
from metricmix.learning.learned import Options
from metricmix.learning.regions import regions_of_labels
from metricmix.learning.task import Classes
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture
from metricmix.objectives.class_means import ClassMeans
from metricmix.objectives.class_scores import held_out_scores
from reference.instances import on_demand


def two_worlds(n=60, seed=0):
    """Return a stack, labels, and regions: one source tells in either region."""
    rng = np.random.default_rng(seed)
    y, region, items = np.arange(n) % 2, (np.arange(n) // 2) % 2, np.arange(n)
    tables = rng.normal(size=(2, n, 6))
    tables[region, items, 0] += 4.0 * y
    tables[1 - region, items, 0] += 4.0 * rng.integers(0, 2, n)
    first, second = map(mm.dissimilarity.features, tables)
    return mm.DissimilarityStack({"first": first, "second": second}), y, np.eye(2)[region]


STACK, Y, REGIONS = two_worlds()
ITEMS = np.arange(60)
KNOWN = np.where(ITEMS < 30, Y, -1)


def fitted(local="classes", **settings):
    """Return a model whose weights are learned on edge lengths, unless rho_local is small."""
    settings = {"rule": "class-mean", "rho": 1e-4, "rho_local": 1e-2, **settings}
    if local is None:
        settings["constraint"] = "nonnegative"
    return mm.MetricMixtureClassifier(STACK, local=local, **settings).fit(ITEMS, KNOWN)


def test_regions_where_different_sources_count():
    model = fitted(REGIONS, rho_local=1e-4)
    table = model.local_weights_
    assert table.columns.tolist() == ["first", "second"]
    assert table.index.tolist() == ["region_0", "region_1"]
    assert table.loc["region_0", "first"] > 2.0 * table.loc["region_0", "second"]
    assert table.loc["region_1", "second"] > 2.0 * table.loc["region_1", "first"]
    assert model.weights_ == pytest.approx(table.mean())  # regions of equal size
    assert mm.is_metric(model.compute_metric())
    assert model.result_.objective_kind == "unprojected"  # its lengths are a metric
    assert model.moved_share_ == 0.0
    right = np.mean(model.transduction_[30:] == Y[30:])
    common = np.mean(fitted(None).transduction_[30:] == Y[30:])
    assert right > common + 0.05
    assert not hasattr(fitted(None), "local_weights_")


def test_names_of_regions():
    frame = pd.DataFrame(REGIONS, columns=["theory", "systems"])
    assert fitted(frame).local_weights_.index.tolist() == ["theory", "systems"]
    y = np.where(KNOWN < 0, "", np.where(KNOWN == 0, "no", "yes"))
    model = mm.MetricMixtureClassifier(STACK, local="classes", rho=1e-4, rho_local=1e-2).fit(
        ITEMS, y
    )
    assert model.local_weights_.index.tolist() == ["no", "yes"]


def test_a_large_ridge_gives_common_weights():
    common, local = fitted(None), fitted(rho_local=1e6)
    assert local.local_weights_.to_numpy() == pytest.approx(np.tile(common.weights_, (2, 1)), 1e-4)
    assert local.compute_metric() == pytest.approx(common.compute_metric(), rel=1e-3)


def test_memberships_leave_out_the_own_label():
    model = fitted()
    p = model.mixture_.memberships
    assert p.shape == (60, 2)
    codes = KNOWN.copy()
    codes[7] = 1 - codes[7]
    common = fitted(None)
    lengths, learned = EdgeLengths(STACK, common.mixture_), model.learned_
    changed, kept = (
        learn.memberships(lengths, ClassMeans(y), learned.task, learned.options)[0]
        for y in (codes, KNOWN)
    )
    assert kept == pytest.approx(p)
    assert changed[7] == pytest.approx(kept[7])  # only its own label is another
    assert np.abs(changed - kept).max() > 1e-4


def test_held_out_scores_are_those_without_the_item():
    rng = np.random.default_rng(0)
    d = rng.random((8, 8))
    np.fill_diagonal(d, 0.0)
    codes = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    found = held_out_scores(d, codes, 3)
    for x in range(8):
        others = np.delete(np.arange(8), x)
        within = mm.objectives.half_means(d[np.ix_(others, others)], codes[others], 3)
        expected = mm.objectives.class_mean_scores(d[x : x + 1, others], codes[others], 3, within)
        assert found[x] == pytest.approx(expected[0])


def test_labels_at_random_are_not_predicted():
    stack, _, _ = two_worlds(100, seed=1)
    rng = np.random.default_rng(1)
    right = []
    for _ in range(4):
        y = rng.permutation(np.arange(100) % 2)
        model = mm.MetricMixtureClassifier(
            stack, local="classes", rule="class-mean", rho=1e-3, rho_local=1e-2
        )
        right.append(model.fit(np.arange(100), y).compare(n_splits=4)["learned"].mean)
    assert abs(np.mean(right) - 0.5) < 0.12


def test_the_same_twice_and_over_computed_sources():
    one, two = fitted(), fitted()
    assert np.array_equal(one.mixture_.local_weights, two.mixture_.local_weights)
    assert np.array_equal(one.compute_metric(), two.compute_metric())
    stack = on_demand(STACK.rescaled("mean"))
    model = mm.MetricMixtureClassifier(
        stack, local="classes", rule="class-mean", rho=1e-4, rho_local=1e-2
    )
    model.fit(ITEMS, KNOWN)
    assert model.mixture_.local_weights == pytest.approx(one.mixture_.local_weights, rel=1e-6)
    assert model.compute_metric() == pytest.approx(one.compute_metric(), rel=1e-6)
    assert np.array_equal(model.transduction_, one.transduction_)


@pytest.mark.parametrize("sources", [True, False])
def test_saved_and_loaded(tmp_path: Path, sources):
    model = fitted(REGIONS)
    mm.save(model, tmp_path / "model.mm", sources=sources)
    again = mm.load(tmp_path / "model.mm", sources=None if sources else STACK)
    assert again.mixture_ == model.mixture_
    assert again.moved_share_ == model.moved_share_
    assert again.selection_.best == model.selection_.best
    assert np.array_equal(again.local, REGIONS)
    everyone = ITEMS
    assert np.array_equal(again.predict_proba(everyone), model.predict_proba(everyone))
    assert again.local_weights_.equals(model.local_weights_)


def test_contributions_and_explanations_add_up():
    model = fitted(REGIONS, rho_local=1e-4)
    d = model.compute_metric()
    for j in range(1, 60):
        parts = model.contributions(0, j)
        assert sum(parts.totals.values()) == pytest.approx(d[0, j])
        assert parts.sources == ("first", "second")
    why = model.explain(50)
    assert why.scores is not None
    p = np.exp(-why.scores.scores)
    assert p / p.sum() == pytest.approx(why.probabilities)
    for near in why.nearest:
        assert sum(near.contributions.totals.values()) == pytest.approx(near.distance)


@pytest.mark.parametrize("new_items", ["attached", "augmented"])
def test_new_items(new_items):
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(0, 1, (30, 3)), rng.normal(2, 1, (30, 3))])
    y = np.repeat([0, 1], 30)
    model = mm.MetricMixtureClassifier(
        ["euclidean", "cityblock"],
        local="classes",
        rule="class-mean",
        rho=1e-3,
        rho_local=1e-2,
        new_items=new_items,
    ).fit(X[::2], y[::2])
    assert isinstance(model.mixture_, LocalMixture)
    assert model.score(X[1::2], y[1::2]) > 0.8
    p = model.predict_proba(X[1:2])
    why = model.explain(X=X[1:2])
    assert why.probabilities == pytest.approx(p[0])
    parts = why.nearest[0].contributions
    assert sum(parts.totals.values()) == pytest.approx(why.nearest[0].distance)
    attached = model.set_params(new_items="attached").predict_proba(X[1::2])
    augmented = model.set_params(new_items="augmented").predict_proba(X[1::2])
    # A new item may be a shortcut itself where all of them are one metric.
    assert attached == pytest.approx(augmented, abs=0.1)
    # Items of the fit are themselves.
    again = model.set_params(new_items="attached").predict_proba(X[::2])
    assert again == pytest.approx(model.learned_.answers, abs=1e-9)


def test_bootstrap_and_comparison():
    model = fitted()
    table = model.weights_table(n_bootstrap=5, random_state=0)
    assert table["name"].tolist() == ["first", "second"]
    assert (table["lower"] <= table["upper"]).all()
    assert table["weight"].to_numpy() == pytest.approx(model.weights_)
    comparison = model.compare(n_splits=3)
    assert comparison.weights.shape == (3, 2)
    assert 0.5 < comparison["learned"].mean <= 1.0


def test_a_fold_computes_its_own_memberships(monkeypatch):
    model = fitted()
    seen = []
    original = learn.memberships

    def spy(lengths, objective, task, options):
        seen.append(np.flatnonzero(objective.y >= 0))
        return original(lengths, objective, task, options)

    monkeypatch.setattr(learn, "memberships", spy)
    model.compare(n_splits=3)
    assert len(seen) == 3
    assert all(len(items) == 20 for items in seen)
    assert not set.intersection(*(set(items.tolist()) for items in seen))


def test_it_is_a_candidate_of_the_default_choice():
    stack, y, _ = one_source_tells_in_each_region(0)
    items = np.arange(len(y))
    model = mm.MetricMixtureClassifier(stack).fit(items, np.where(items < 60, y, -1))
    names = [candidate.name for candidate in model.selection_.candidates]
    assert "local weights >= 0 of regions" in names
    assert len(names) == len(model.selection_.loss)
    same = np.asarray(stack.source("one"))
    copies = mm.DissimilarityStack({"one": same, "again": same})
    model = mm.MetricMixtureClassifier(copies).fit(items, np.where(items < 60, y, -1))
    assert "sources that separate the classes better in a part of the items" in " ".join(
        model.selection_.skipped
    )
    given = Options(objective="class-means", constraint="auto")
    task, known = Classes(np.array([0, 1])), Known(Y, 2)
    listed = candidates_of(given, task, STACK.names, known)
    assert len(listed) > 1
    assert not any(candidate.local for candidate in listed)
    listed = candidates_of(given.replace(local="classes"), task, STACK.names, known)
    assert len(listed) > 1
    assert all(candidate.local for candidate in listed)


def test_it_is_named_where_it_is_not_compared(monkeypatch):
    monkeypatch.setattr("metricmix.learning.trials.LOCAL_UP_TO", 0)
    model = mm.MetricMixtureClassifier(STACK).fit(ITEMS, KNOWN)
    assert any("local weights >= 0" in why for why in model.selection_.skipped)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"local": "words"}, "local: expected 'auto'"),
        ({"local": REGIONS[:5]}, "memberships: expected a row of shares for each of the 60 items"),
        ({"local": REGIONS - 0.5}, "memberships: expected numbers >= 0"),
        ({"local": REGIONS * 2}, "memberships: expected rows that sum to 1"),
        ({"local": REGIONS * np.nan}, "memberships: expected finite numbers"),
        ({"rho_local": -1.0}, "rho_local"),
        ({"local": "classes", "constraint": None}, "constraint: expected 'nonnegative' or 'auto'"),
        ({"local": "classes", "constraint": "simplex"}, "constraint: expected 'nonnegative'"),
        ({"local": "classes", "objective": None}, "local: expected an objective to learn by"),
    ],
)
def test_parameters_that_make_no_sense(settings, message):
    with pytest.raises(mm.InputError, match=message):
        mm.MetricMixtureClassifier(STACK, **settings).fit(ITEMS, KNOWN)


def test_an_objective_of_your_own_needs_memberships():
    objective = mm.objectives.LeastSquares(np.ones((60, 60)) - np.eye(60))
    model = mm.MetricMixtureClassifier(STACK, objective=objective, local="classes")
    with pytest.raises(mm.InputError, match="'classes' takes an objective over labels"):
        model.fit(ITEMS, KNOWN)


# -- regions learned from the labels ---------------------------------------------------------------


def one_source_tells_in_each_region(seed, n=600):
    """Return a stack, labels, and the regions: a third source says where which of two tells."""
    rng = np.random.default_rng(seed)
    region, y = rng.integers(0, 2, (2, n))
    one, two = (
        np.where(region == k, 4 * y, 4 * rng.integers(0, 2, n)) + rng.normal(0, 0.4, n)
        for k in (0, 1)
    )
    place = 4 * region + rng.normal(0, 0.5, n)
    sources = {"one": one, "two": two, "place": place, "noise": rng.normal(size=n)}
    stack = mm.DissimilarityStack(
        {name: mm.dissimilarity.features(column[:, None]) for name, column in sources.items()}
    )
    return stack, y, region


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_regions_are_found_from_the_labels(seed):
    stack, y, region = one_source_tells_in_each_region(seed)
    items = np.arange(600)
    known = np.where(items < 60, y, -1)
    model = mm.MetricMixtureClassifier(stack).fit(items, known)
    assert model.selection_.best.local == "regions"
    assert model.local_weights_.index.tolist() == ["one by place", "two by place"]
    assert np.mean(model.mixture_.memberships.argmax(axis=1) == region) > 0.97
    inside = model.local_weights_["one"]
    assert inside["one by place"] > inside["two by place"]
    why = model.explain(500)
    name = model.mixture_.regions[region[500]]
    assert why.region == (name, pytest.approx(model.mixture_.memberships[500].max()))
    assert f"region: {name} (share " in str(why)
    assert np.mean(model.transduction_[60:] == y[60:]) > 0.97
    common = mm.MetricMixtureClassifier(stack, local=None, rule="class-mean").fit(items, known)
    assert np.mean(common.transduction_[60:] == y[60:]) < 0.8
    assert mm.is_metric(model.compute_metric())


def test_regions_that_are_asked_for():
    stack, y, region = one_source_tells_in_each_region(3, n=200)
    items = np.arange(200)
    model = mm.MetricMixtureClassifier(stack, local="regions")
    model.fit(items, np.where(items < 60, y, -1))
    assert model.selection_.best.local == "regions"
    p, names = regions_of_labels(stack.rescaled("mean"), model.known_)
    assert np.array_equal(p, model.mixture_.memberships)
    assert names == ["one by place", "two by place"]
    assert np.mean(p.argmax(axis=1) == region) > 0.9


def test_regions_do_not_depend_on_the_own_label():
    stack, y, _ = one_source_tells_in_each_region(4, n=80)
    known = Known(y, 2)
    p, names = regions_of_labels(stack, known)
    for item in (0, 7, 33):
        changed = y.copy()
        changed[item] = 1 - changed[item]
        again, same = regions_of_labels(stack, Known(changed, 2))
        assert same == names
        # Others near it were predicted with its label, by one of seven votes.
        assert again[item] == pytest.approx(p[item], abs=0.2)


def test_regions_need_two_sources():
    stack, y, _ = one_source_tells_in_each_region(0, n=60)
    with pytest.raises(mm.InputError, match="local: regions are where different sources separate"):
        mm.MetricMixtureClassifier(stack.select(["one"]), local="regions").fit(np.arange(60), y)
    with pytest.raises(mm.InputError, match="expected 'auto', 'classes', 'regions', None or"):
        mm.MetricMixtureClassifier(stack, local="places").fit(np.arange(60), y)


def test_memberships_by_id_are_aligned():
    ids = [f"p{k}" for k in range(60)]
    stack = mm.DissimilarityStack({n: STACK.source(n) for n in STACK.names}, items=ids)
    frame = pd.DataFrame(REGIONS, index=ids, columns=["a", "b"])
    y = np.where(KNOWN < 0, "", KNOWN.astype(str))
    models = [
        mm.MetricMixtureClassifier(stack, local=one, rule="class-mean").fit(ids, y)
        for one in (frame, frame[::-1], frame.reset_index(drop=True))
    ]
    for model in models[1:]:
        assert np.array_equal(model.mixture_.memberships, models[0].mixture_.memberships)
    with pytest.raises(mm.InputError, match="local: expected a row for every item, got none for"):
        mm.MetricMixtureClassifier(stack, local=frame.rename({"p7": "q7"})).fit(ids, y)


def test_regions_need_sources_between_any_two_items():
    edges = mm.dissimilarity.EdgeSet(4, [0, 1, 2], [1, 2, 3])
    stack = mm.EdgeStack(edges, np.ones((2, 3)))
    with pytest.raises(mm.InputError, match="local: 'regions' needs sources that are known"):
        mm.MetricMixtureClassifier(stack, local="regions").fit(np.arange(4), [0, 0, 1, 1])


def test_regions_in_a_fit():
    stack, y, _ = one_source_tells_in_each_region(0, n=120)
    ids = [f"p{k}" for k in range(120)]
    table = pd.DataFrame({"id": ids, "kind": np.where(np.arange(120) < 60, y.astype(str), "")})
    matrices = {
        name: pd.DataFrame(stack.source(name), index=ids, columns=ids) for name in stack.names
    }
    found = {
        local: mm.fit(table, label="kind", matrices=matrices, local=local, evaluate=False)
        for local in ("regions", "none")
    }
    assert found["regions"].model.mixture_.regions == ("one by place", "two by place")
    assert not isinstance(found["none"].model.mixture_, LocalMixture)
    with pytest.raises(mm.InputError, match="local: expected one of 'auto', 'regions'"):
        mm.fit(table, label="kind", matrices=matrices, local="places")
