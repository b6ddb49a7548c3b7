"""The classifier with a network mixture: trained, stored, explained, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import metricmix as mm
from metricmix.estimators import Network
from metricmix.paths.geodesic import geodesic_stack

SMALL = Network(hidden=4, max_iter=25, patience=5, n_folds=2)


def saturating(n=90, seed=0):
    """Sources that count up to a threshold only: beyond it, they are large by chance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    same = y[:, None] == y
    sources = []
    for _ in range(2):
        near = rng.random((n, n)) < np.where(same, 0.5, 0.03)
        D = np.where(near, 0.2 * rng.random((n, n)), 1.0 + 6.0 * rng.random((n, n)) ** 3)
        D = np.triu(D, 1)
        sources.append(D + D.T)
    return mm.DissimilarityStack(sources, names=["first", "second"]), y


@pytest.fixture(scope="module")
def fitted():
    stack, y = saturating()
    known = np.where(np.arange(len(y)) < 60, y, -1)
    options = {"rule": "class-mean", "random_state": 0, "projection": False}
    with pytest.warns(mm.ProjectionWarning):
        linear = mm.MetricMixtureClassifier(**options).fit(stack, known)
    with pytest.warns(mm.ProjectionWarning):
        network = mm.MetricMixtureClassifier(mixture=Network(hidden=8), **options).fit(stack, known)
    return linear, network, y, known


def test_network_learns_what_a_linear_mixture_cannot(fitted):
    linear, network, _, _ = fitted
    held_out = network.result_.trace.details["held_out"]
    assert network.n_iter_ > 5
    assert held_out[-1] < 0.8 * held_out[0]
    assert network.result_.objective < linear.result_.objective
    assert isinstance(network.mixture_, mm.mixture.NetworkMixture)
    assert network.device_ == "cpu"
    assert mm.is_metric(network.compute_metric())


def test_lengths_do_not_fall(fitted):
    mixture = fitted[1].mixture_
    for part in ("linear", "hidden", "out"):
        assert (getattr(mixture, part) >= 0).all()


def test_contributions_add_up_to_the_distance(fitted):
    _, network, _, _ = fitted
    d = network.compute_metric()
    for i, j in ((0, 5), (3, 88)):
        parts = network.contributions(i, j)
        assert sum(parts.totals.values()) == pytest.approx(parts.length)
        assert parts.length == pytest.approx(d[i, j])
    assert "item 70 is" in str(network.explain(70))


def test_new_items(fitted):
    """A new item with the row of an item of the fit is that item; others get probabilities."""
    _, network, _, _ = fitted
    block = np.moveaxis(network.stack_.raw_rows(np.arange(90)), 0, -1)
    p = network.predict_proba(block[[64, 70]])
    np.testing.assert_allclose(p, network.learned_.answers[[64, 70]], rtol=1e-9)
    moved = block[[64]] + 0.05
    assert network.predict_proba(moved).sum() == pytest.approx(1.0)
    assert "is" in str(network.explain(X=moved))


def test_model_file_has_no_pickle_and_loads_the_same(fitted, tmp_path):
    _, network, _, _ = fitted
    mm.save(network, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    assert again.mixture_ == network.mixture_
    assert again.mixture == Network(hidden=8)
    rows = np.moveaxis(network.stack_.raw_rows(np.arange(3)), 0, -1) + 0.01
    np.testing.assert_array_equal(again.predict_proba(rows), network.predict_proba(rows))


@pytest.mark.parametrize("damage", ["cut", "infinite", "renamed"])
def test_damaged_networks_are_refused(damage, fitted):
    mixture = fitted[1].mixture_
    state = mixture.to_state()
    assert type(mixture).from_state(state) == mixture
    if damage == "cut":
        state["hidden"] = state["hidden"][:-1]
    elif damage == "infinite":
        state["out"] = state["out"] + np.inf
    else:
        state["bios"] = state.pop("bias")
    with pytest.raises((mm.ModelFileError, mm.InputError)):
        type(mixture).from_state(state)


def test_early_stopping_keeps_the_linear_mixture_where_nothing_is_gained():
    """Sources of pure noise: no step lowers the loss of held-out labels."""
    rng = np.random.default_rng(0)
    D = rng.random((40, 40)) + 1
    stack = [np.triu(D, 1) + np.triu(D, 1).T]
    model = mm.MetricMixtureClassifier(
        mixture=SMALL, rule="class-mean", projection=False, random_state=0
    )
    model.fit(np.stack(stack, axis=-1), np.arange(40) % 2)
    assert model.result_.n_iter == 0
    assert (model.mixture_.out == 0).all()


@pytest.mark.parametrize("objective", ["class-means", "neighbourhood", "label-contrast"])
def test_every_objective_and_feature_tables(objective):
    X, y = load_iris(return_X_y=True)
    known = np.where(np.arange(150) % 5 == 0, y, -1)
    model = mm.MetricMixtureClassifier(
        ["euclidean", "cosine"],
        objective=objective,
        mixture=SMALL,
        rule="class-mean",
        random_state=0,
    )
    model.fit(X, known)
    assert (model.transduction_ == y).mean() > 0.85
    assert (model.predict(X[:10] + 0.01) == y[:10]).all()
    again = clone(model).fit(X, known)
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_learning_through_paths():
    stack, y = saturating(30)
    model = mm.MetricMixtureClassifier(
        mixture=SMALL, projection=True, rule="class-mean", random_state=0
    )
    model.fit(stack, y)
    assert model.result_.objective_kind == "exact"
    assert mm.is_metric(model.compute_metric())


def test_many_labels_are_trained_in_blocks(monkeypatch):
    from metricmix.torch import train_network

    monkeypatch.setattr(train_network, "LABELS_AT_ONCE", 40)
    X, y = load_iris(return_X_y=True)
    model = mm.MetricMixtureClassifier(["euclidean", "cosine"], mixture=SMALL, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.9


def test_nested_parameters():
    model = mm.MetricMixtureClassifier(mixture=SMALL)
    assert model.get_params()["mixture__hidden"] == 4
    assert model.set_params(mixture__hidden=9).mixture.hidden == 9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mixture": "deep"}, "mixture: expected 'linear', 'network' or Network"),
        ({"mixture": Network(hidden=0)}, "mixture: hidden: expected a whole number >= 1"),
        ({"mixture": SMALL, "local": "classes"}, "local: expected None for a network"),
        ({"mixture": SMALL, "geodesic": 5}, "geodesic: expected None for a network"),
        ({"mixture": SMALL, "objective": None}, "objective: expected the name"),
        ({"mixture": SMALL, "device": "gpu"}, "device: expected 'cpu', 'cuda' or 'auto'"),
    ],
)
def test_parameters_that_are_refused(arguments, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(mm.InputError, match=words):
        mm.MetricMixtureClassifier(["euclidean"], **arguments).fit(X, y)


def test_no_intervals_of_a_network(fitted):
    with pytest.raises(mm.InputError, match="found a network mixture"):
        fitted[1].weights_table(n_bootstrap=2)


def test_sparse_edges_take_no_network(fitted):
    mixture = fitted[1].mixture_
    stack = geodesic_stack(fitted[0].stack_, fitted[0].mixture_, 3)
    with pytest.raises(mm.InputError, match="found a network"):
        mm.path_metric(stack, mixture)
