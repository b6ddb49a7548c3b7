"""Supervised sources of a numeric target: cross-fitted, without a leak, robust."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score

import metricmix as mm
from metricmix.dissimilarity.kernel_ridge import KernelRegressor, ridge_path
from metricmix.dissimilarity.kinds.forest import Forest
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import moved_in
from metricmix.dissimilarity.predictors import CrossFitted, Training
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.supervised import SupervisedSource

pytestmark = pytest.mark.default_sources

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
TRUE = X[:, 0] - 2.0 * X[:, 1] + 0.1 * RNG.normal(size=60)
KNOWN = np.where(np.arange(60) < 40, TRUE, np.nan)


def ring() -> Any:
    import networkx as nx

    from metricmix.dissimilarity.diffusion import smoothing_operator
    from metricmix.dissimilarity.graphs import as_graph

    return smoothing_operator(as_graph(nx.cycle_graph(60), nodes=60))


PREDICTORS = {
    "linear": KernelRegressor(X),
    "rbf": KernelRegressor(X, "rbf"),
    "forest": Forest(X, 40),
    "spread": LabelPropagation(ring()),
    "scikit-learn": CrossFitted(X, LinearRegression()),
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_held_out_numbers_do_not_depend_on_the_item_itself(name: str) -> None:
    """Another target of an item changes its own number by no more than through the mean."""
    predictor, changed = PREDICTORS[name], KNOWN.copy()
    order = np.argsort(TRUE[:40])
    one, other = order[20], order[21]  # adjacent: the folds stay the same
    changed[one] = 0.5 * (changed[one] + changed[other])
    before, after = (predictor.predict(Known(y)).values for y in (KNOWN, changed))
    moved = abs(changed[one] - KNOWN[one])
    assert moved > 0
    assert abs(after[one] - before[one]) <= 0.3 * moved
    assert np.isfinite(before).all()


@pytest.mark.parametrize("name", ["linear", "rbf", "scikit-learn"])
def test_numbers_predict_the_target(name: str) -> None:
    values = PREDICTORS[name].predict(Known(KNOWN)).values
    assert r2_score(TRUE[:40], values[:40]) > 0.8
    assert r2_score(TRUE[40:], values[40:]) > 0.8


def test_folds_of_the_ridge_are_refits() -> None:
    y, folds = KNOWN[:40], Known(KNOWN[:40]).folds(5)
    fit = ridge_path(X[:40], y, penalty=3.0, folds=folds)
    for fold in range(5):
        train = folds != fold
        model = Ridge(3.0).fit(X[:40][train], y[train])
        assert fit.held_out[~train] == pytest.approx(model.predict(X[:40][~train]))
    weights = np.random.default_rng(1).exponential(size=40)
    fit = ridge_path(X[:40], y, penalty=3.0, weights=weights)
    for i in range(3):
        rest = np.arange(40) != i
        model = Ridge(3.0).fit(X[:40][rest], y[rest], weights[rest])
        assert fit.held_out[i] == pytest.approx(model.predict(X[i : i + 1])[0])
        assert fit.intercept + X[:40] @ fit.coefficients == pytest.approx(
            Ridge(3.0).fit(X[:40], y, weights).predict(X[:40])
        )


def test_all_numbers_are_relative_to_one_mean() -> None:
    """A model that knows nothing says the same of all items, in whatever fold."""
    y = np.random.default_rng(2).exponential(size=23)
    training = Training.of(Known(y), None, 5)
    y, folds = training.y, training.folds
    means = np.array([y[folds != fold].mean() for fold in folds])
    assert np.ptp(means) > 0
    assert np.ptp(training.judged(means)) == pytest.approx(0.0, abs=1e-12)


def test_a_useless_regressor_is_a_source_of_zeros() -> None:
    noise = np.random.default_rng(3).normal(size=60)
    zeros = [
        not SupervisedSource(KernelRegressor(X), "noise", Known(np.roll(noise, k))).values.any()
        for k in range(20)
    ]
    assert sum(zeros) >= 10


def test_far_targets_are_moved_in() -> None:
    wild = KNOWN.copy()
    wild[5] = 1e9
    one, other = (SupervisedSource(KernelRegressor(X), "f", Known(y)) for y in (KNOWN, wild))
    assert np.abs(one.values - other.values).max() < 20
    assert (moved_in(np.r_[np.zeros(60), np.arange(40)]) == np.r_[np.zeros(60), range(40)]).all()


def test_distances() -> None:
    source = SupervisedSource(KernelRegressor(X), "f", Known(KNOWN))
    expected = np.abs(source.values[:, None] - source.values)
    i, j = np.array([0, 5, 59]), np.array([3, 5, 1])
    assert (source.rows(i) == expected[i]).all()
    assert (source.columns(i) == expected[i]).all()
    assert (source.pairs(i, j) == expected[i, j]).all()
    assert (source.block(i, j) == expected[np.ix_(i, j)]).all()


def test_classes_and_numbers_are_not_mixed_up() -> None:
    items = np.arange(60)
    of_numbers, of_classes = mm.sources_for(X, target=KNOWN), mm.sources_for(X, labels=items % 3)
    with pytest.raises(mm.InputError, match=r"there are classes to predict.*labels="):
        mm.MetricMixtureClassifier(of_numbers).fit(items, items % 3)
    with pytest.raises(mm.InputError, match=r"there are numbers to predict.*target="):
        mm.MetricMixtureRegressor(of_classes).fit(items, TRUE)
    with pytest.raises(mm.InputError, match="expected one of them"):
        mm.sources_for(X, labels=items % 3, target=TRUE)
    with pytest.raises(mm.InputError, match="predict_proba"):
        mm.dissimilarity.supervised(object())
    for model, is_numeric in ((LogisticRegression(), False), (Ridge(), True)):
        source = mm.dissimilarity.supervised(model).bind(X).supervised
        assert source.is_numeric is is_numeric


@pytest.mark.parametrize("bad", [[1.0, np.inf] * 30, ["a"] * 60, [1.0], np.ones((60, 2))])
def test_targets_are_checked(bad: Any) -> None:
    with pytest.raises(mm.InputError, match="target: expected"):
        mm.sources_for(X, target=bad)
