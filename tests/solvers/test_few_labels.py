"""Few labels among many items: the ways to a gradient agree, and a centre draws the weights."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers import problem as problems
from metricmix.solvers.problem import Problem
from metricmix.solvers.unprojected import UnprojectedProblem
from reference.flat import minimize
from reference.instances import on_demand, random_sources

N, R = 260, 3


@pytest.fixture(params=[False, True], ids=["symmetric", "directed"])
def stack(request):
    rng = np.random.default_rng(0)
    sources = random_sources(rng, N, R, directed=request.param)
    return mm.DissimilarityStack(sources, directed=request.param)


@pytest.fixture
def known():
    y = np.full(N, -1)
    y[::26] = [0, 1] * 5
    return y


@pytest.mark.parametrize("weights", [[2.0, 1.0, 0.5], [6.0, -3.0, 1.0]])
@pytest.mark.parametrize("loss", ["ClassMeans", "Neighbourhood", "LabelContrast"])
def test_all_ways_to_the_gradient_agree(stack, known, weights, loss, monkeypatch):
    objective = getattr(mm.objectives, loss)(known, 0.01)
    weights = np.array(weights)
    by_rounds = Problem(objective, stack)
    assert by_rounds.from_few_roots(weights) is not None
    value, gradient = by_rounds.value_and_gradient(weights)
    by_pairs = Problem(objective, on_demand(stack))
    assert by_pairs.by_pairs
    with monkeypatch.context() as patch:
        patch.setattr(problems, "FORMED_UP_TO", 10)
        by_trees = Problem(objective, stack)
        by_trees.__dict__["by_pairs"] = False
        others = [by_pairs.value_and_gradient(weights), by_trees.value_and_gradient(weights)]
    for other_value, other_gradient in others:
        assert other_value == pytest.approx(value, rel=1e-10)
        assert other_gradient == pytest.approx(gradient, rel=1e-8, abs=1e-12)
    assert by_pairs.value(weights) == pytest.approx(value, rel=1e-10)
    step = 1e-6 * np.eye(R)
    slopes = [(by_rounds.value(weights + h) - by_rounds.value(weights - h)) / 2e-6 for h in step]
    assert gradient == pytest.approx(slopes, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", [Problem, UnprojectedProblem])
def test_the_ridge_draws_to_the_centre(stack, known, kind):
    centre = np.array([1.0, 2.0, 3.0])
    objective = mm.objectives.ClassMeans(known, 0.5)
    plain, centred = kind(objective, stack), kind(objective, stack, centre=centre)
    weights = np.array([2.0, 1.0, 0.5])
    apart = weights - centre
    assert centred.ridge(weights) == pytest.approx(0.5 * apart @ apart)
    shift = centred.value_and_gradient(weights)[1] - plain.value_and_gradient(weights)[1]
    assert shift == pytest.approx(-2 * 0.5 * centre)
    assert centred.fingerprint() != plain.fingerprint()


def test_centring_leaves_the_objective_alone(known):
    objective = mm.objectives.ClassMeans(known, 0.5)
    centred = objective.centred([1.0, 2.0, 3.0])
    assert (type(centred), centred.rho, centred.centre) == (type(objective), 0.5, [1.0, 2.0, 3.0])
    assert objective.centre is None
    assert centred.fingerprint() != objective.fingerprint()
    assert centred.centred(None).centre is None


@pytest.mark.parametrize("method", ["full", "stochastic"])
def test_a_strong_ridge_ends_at_the_centre(stack, known, method):
    centre = mm.Mixture([1.0, 2.0, 3.0], stack.names, scaling=stack.scales)
    options = {"batch_size": 1, "max_iter": 300, "learning_rate": 0.05} if method != "full" else {}
    result = minimize(
        mm.objectives.ClassMeans(known, 1e3).centred(centre),
        stack,
        method,
        start=centre,
        projection=False,
        random_state=0,
        **options,
    )
    assert result.weights == pytest.approx([1.0, 2.0, 3.0], abs=0.05)
