"""Weights are trained on the metric they are used with, or a warning says by how much not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.learning.learn import MOVED_AT_MOST
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.solvers.problem import Problem
from reference.closure import closure_by_rows

N = 48
METRIC = ("euclidean", "cityblock", "angular")
SIGNED = {"constraint": None, "rule": "class-mean", "rho": 1e-4}


def items(n_labelled=24, seed=0):
    """Return a table of two classes that differ in one of three columns, and some labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    X = rng.normal(size=(N, 3))
    X[:, 0] += 1.5 * y
    return X, np.where(np.arange(N) < n_labelled, y, -1)


def stack_of(X, *metrics):
    """Return a source per column and metric."""
    return mm.DissimilarityStack(
        {f"{metric}_{k}": features(X[:, [k]] + 5.0, metric) for metric in metrics for k in range(3)}
    )


def fitted(model, known):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(np.arange(N), known)


def count_moved(model, roots):
    """Return the share of distances from some items that are shorter than their edges."""
    w = EdgeLengths(model.stack_, model.mixture_).matrix()
    d = closure_by_rows(w)
    moved = [d[i, j] < w[i, j] * (1 - 1e-6) for i in roots for j in range(N) if j != i]
    return sum(moved) / len(moved)


@pytest.mark.parametrize("estimator", [mm.MetricMixtureClassifier, mm.MetricMixture])
def test_metrics_and_weights_of_one_sign_move_nothing(estimator):
    X, known = items()
    model = fitted(estimator(stack_of(X, *METRIC), constraint="nonnegative"), known)
    assert model.weights_.min() >= 0
    assert model.moved_share_ == 0.0
    assert count_moved(model, range(N)) == 0.0
    assert model.result_.objective_kind == "unprojected"


@pytest.mark.parametrize("projection", ["auto", True, False])
@pytest.mark.parametrize("metrics", [("euclidean",), ("euclidean", "sqeuclidean")])
@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ProjectionWarning")
def test_moved_share_is_a_count(metrics, projection):
    """From all labelled items, if there are at most 32 of them."""
    X, known = items()
    model = mm.MetricMixtureClassifier(stack_of(X, *metrics), projection=projection, **SIGNED)
    model.fit(np.arange(N), known)
    counted = count_moved(model, np.flatnonzero(known >= 0))
    assert model.moved_share_ == pytest.approx(counted)
    assert counted > 0


def test_moved_share_of_many_labels_is_an_estimate():
    X, known = items(n_labelled=N)
    assert N > 32
    model = mm.MetricMixture(stack_of(X, "sqeuclidean"), objective=None)
    fitted(model, known)
    exact = count_moved(model, range(N))
    assert exact > 0.1
    assert model.moved_share_ == pytest.approx(exact, abs=0.05)


def weights_by_projection(stack, known, **settings):
    found = {}
    for projection in ("auto", True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mm.exceptions.ProjectionWarning)
            method = mm.solvers.PathGeneration() if projection is True else "full"
            model = mm.MetricMixture(
                stack, projection=projection, method=method, rho=1e-4, **settings
            )
            found[projection] = model.fit(np.arange(N), known)
    return found


def test_auto_learns_through_paths_where_they_matter():
    X, known = items()
    models = weights_by_projection(stack_of(X, "euclidean", "sqeuclidean"), known, constraint=None)
    assert models[False].moved_share_ > MOVED_AT_MOST
    assert models["auto"].result_.objective_kind != "unprojected"
    assert np.array_equal(models["auto"].weights_, models[True].weights_)
    assert not np.allclose(models["auto"].weights_, models[False].weights_)
    assert models["auto"].moved_share_ == models[True].moved_share_


def test_auto_learns_on_edges_where_paths_hardly_matter():
    """Squared distances that have a small weight: some distances move, fewer than 2 %."""
    X, known = items()
    stack = stack_of(X, "euclidean").select([0, 1])
    M = stack.source(0).copy()
    M[3, 7] = M[7, 3] = 3 * M.max()  # one entry breaks the triangle inequality
    stack = mm.DissimilarityStack({"broken": M, "other": stack.source(1)})
    models = weights_by_projection(stack, known, constraint="nonnegative")
    assert 0 < models["auto"].moved_share_ <= MOVED_AT_MOST
    assert models["auto"].result_.objective_kind == "unprojected"
    assert np.array_equal(models["auto"].weights_, models[False].weights_)


def test_what_is_learned_through_paths_is_better_on_paths():
    X, known = items()
    stack = stack_of(X, "euclidean", "sqeuclidean")
    models = weights_by_projection(stack, known, constraint=None)
    loss = {
        projection: Problem(mm.objectives.ClassMeans(known, rho=0.0), model.stack_).value(
            model.weights_
        )
        for projection, model in models.items()
    }
    assert loss["auto"] < loss[False]


@pytest.mark.parametrize("estimator", [mm.MetricMixtureClassifier, mm.MetricMixture])
def test_false_warns(estimator):
    X, known = items()
    stack = stack_of(X, "euclidean", "sqeuclidean")
    model = estimator(stack, projection=False, constraint=None, rho=1e-4)
    said = (
        r"on edge lengths, and the projection changes \d+% of the distances; use projection='auto'"
    )
    with pytest.warns(mm.exceptions.ProjectionWarning, match=said):
        model.fit(np.arange(N), known)
    assert model.moved_share_ > MOVED_AT_MOST
    assert model.result_.objective_kind == "unprojected"


def test_no_warning_where_nothing_moves():
    X, known = items()
    fitted(mm.MetricMixture(stack_of(X, *METRIC), projection=False), known)


@pytest.mark.parametrize("projection", ["yes", None, 2])
def test_other_values_are_refused(projection):
    X, known = items()
    with pytest.raises(mm.InputError, match=r"^projection: expected 'auto', True or False"):
        mm.MetricMixture(stack_of(X, "euclidean"), projection=projection).fit(np.arange(N), known)


@pytest.mark.parametrize("projection", ["auto", True, False])
@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ProjectionWarning")
def test_it_is_a_metric_in_any_case(projection):
    X, known = items()
    stack = stack_of(X, "euclidean", "sqeuclidean")
    model = mm.MetricMixtureClassifier(stack, projection=projection, **SIGNED)
    assert mm.is_metric(model.fit(np.arange(N), known).compute_metric())
