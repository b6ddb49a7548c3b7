"""Weights learned on edge lengths, against the definition and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers import problem as problem_module
from metricmix.solvers import unprojected as unprojected_module
from metricmix.solvers.problem import Problem
from metricmix.solvers.unprojected import UnprojectedProblem
from reference.flat import minimize
from reference.instances import on_demand, random_sources
from reference.mixing import lengths as naive_lengths

N, R = 11, 3
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, -1, -1])
WEIGHTS = np.array([1.3, -0.7, 0.4])


def objectives():
    rng = np.random.default_rng(0)
    triples = np.array([rng.choice(N, 3, replace=False) for _ in range(25)])
    holes = np.where(rng.random((N, N)) < 0.3, np.nan, rng.uniform(0.5, 3.0, (N, N)))
    return {
        "squares": mm.objectives.LeastSquares(holes, rho=0.1),
        "contrast": mm.objectives.LabelContrast(LABELS, rho=0.3, balanced=True),
        "class means": mm.objectives.ClassMeans(LABELS, rho=0.02),
        "class means in blocks": mm.objectives.ClassMeans(LABELS, rho=0.02, block_size=4),
        "neighbourhood": mm.objectives.Neighbourhood(LABELS, rho=0.02),
        "triplets": mm.objectives.Triplets(triples, rho=0.02, margin=0.3),
        "own": mm.objectives.Separable(
            value=lambda d, i, j: np.sin(2 * d) + 0.1 * i * d,
            derivative=lambda d, i, j: 2 * np.cos(2 * d) + 0.1 * i,
            rho=0.05,
        ),
    }


MODELS = {
    "plain": {},
    "sharp": {"beta": 3.7},
    "directed": {"directed": True, "beta": 0.5},
    "float32": {"dtype": np.float32},
    "scaled": {"scaling": [3.0, 0.2, 11.0]},
}
OBJECTIVES = objectives()


def make_stack(seed=0, *, directed=False, dtype=np.float64, scaling=None, **_):
    sources = random_sources(np.random.default_rng(seed), N, R, directed=directed, dtype=dtype)
    return mm.DissimilarityStack(sources, directed=directed, scaling=scaling)


def make_problem(objective, model="plain", **options):
    settings = MODELS[model]
    stack = make_stack(**settings)
    return UnprojectedProblem(objective, stack, beta=settings.get("beta", 1.0), **options)


def by_definition(objective, stack, weights, beta):
    """Edge lengths by the formula; terms, probabilities and ridge summed up."""
    w = naive_lengths([stack.source(r) for r in range(R)], weights, beta)
    terms = np.arange(objective.n_terms(N))
    i, j = objective.pairs(terms, N)
    values, _ = objective.evaluate(terms, w[i, j], N)
    return values @ objective.probabilities(terms, N) + objective.rho * weights @ weights


def central_differences(function, x, step=1e-6):
    steps = step * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * step) for s in steps])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_value_and_gradient(name, model):
    problem = make_problem(OBJECTIVES[name], model)
    value, gradient = problem.value_and_gradient(WEIGHTS)
    expected = by_definition(OBJECTIVES[name], problem.stack, WEIGHTS, problem.beta)
    assert value == pytest.approx(expected, rel=1e-11)
    assert problem.value(WEIGHTS) == value
    slope = central_differences(
        lambda a: by_definition(OBJECTIVES[name], problem.stack, a, problem.beta), WEIGHTS
    )
    assert gradient == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_some_terms(name):
    objective = OBJECTIVES[name]
    problem = make_problem(objective)
    some = np.arange(objective.n_terms(N))[::2]
    i, j = objective.pairs(some, N)

    def mean(weights):
        w = naive_lengths([problem.stack.source(r) for r in range(R)], weights)
        return objective.evaluate(some, w[i, j], N)[0].mean()

    value, gradient = problem.sampled(WEIGHTS, some)
    assert value == pytest.approx(mean(WEIGHTS), rel=1e-11)
    assert gradient == pytest.approx(central_differences(mean, WEIGHTS), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_estimate_from_all_terms_is_the_value(name):
    problem = make_problem(OBJECTIVES[name])
    everything = np.arange(problem.n_terms)
    assert problem.estimate(WEIGHTS, everything) == pytest.approx(problem.value(WEIGHTS), rel=1e-12)


@pytest.mark.parametrize("name", ["squares", "class means", "triplets"])
@pytest.mark.parametrize("kept", [True, False])
def test_pieces_do_not_matter(name, kept, monkeypatch):
    expected = make_problem(OBJECTIVES[name]).value_and_gradient(WEIGHTS)
    monkeypatch.setattr(problem_module, "PAIRS_AT_ONCE", 7)
    if not kept:
        monkeypatch.setattr(unprojected_module, "STORED_UP_TO", 0)
    problem = make_problem(OBJECTIVES[name])
    for _ in range(2):
        value, gradient = problem.value_and_gradient(WEIGHTS)
        assert value == pytest.approx(expected[0], rel=1e-13)
        assert gradient == pytest.approx(expected[1], rel=1e-12)
    assert (problem.stored_sources is not None) is kept


@pytest.mark.parametrize("directed", [False, True])
def test_computed_sources(directed):
    stack = make_stack(3, directed=directed, scaling="mean")
    objective = OBJECTIVES["class means"]
    one = UnprojectedProblem(objective, stack).value_and_gradient(WEIGHTS)
    two = UnprojectedProblem(objective, on_demand(stack)).value_and_gradient(WEIGHTS)
    assert two[0] == pytest.approx(one[0], rel=1e-13)
    assert two[1] == pytest.approx(one[1], rel=1e-12)
    in_memory, computed = (
        minimize(objective, s, "full", projection=False) for s in (stack, on_demand(stack))
    )
    assert computed.weights == pytest.approx(in_memory.weights, rel=1e-6)


def on_a_line():
    """Sources whose lengths are a metric whatever the positive weights: nothing to project."""
    X = np.random.default_rng(6).normal(size=(N, 2))
    return mm.DissimilarityStack(
        [mm.dissimilarity.features(X, metric) for metric in ("euclidean", "cityblock")]
    )


@pytest.mark.parametrize("name", ["contrast", "class means", "neighbourhood", "own"])
@pytest.mark.parametrize("link", ["softplus", "identity"])
def test_same_as_with_the_projection_where_lengths_are_a_metric(name, link):
    stack, weights = on_a_line(), np.array([0.9, 0.4])
    one, two = (kind(OBJECTIVES[name], stack, link) for kind in (Problem, UnprojectedProblem))
    value, gradient = one.value_and_gradient(weights)
    assert two.value(weights) == pytest.approx(value, rel=1e-12)
    assert two.value_and_gradient(weights)[1] == pytest.approx(gradient, rel=1e-9, abs=1e-12)


def test_same_solution_as_with_the_projection_where_lengths_stay_a_metric():
    target = mm.path_metric(on_a_line(), [0.8, 0.5])
    objective = mm.objectives.LeastSquares(target)
    for projection in (True, False):
        result = minimize(objective, on_a_line(), "full", projection=projection)
        assert result.weights == pytest.approx([0.8, 0.5], abs=1e-3)


def test_differs_from_the_projection_in_general():
    stack = make_stack(1)
    one, two = (k(OBJECTIVES["own"], stack, beta=9.0) for k in (Problem, UnprojectedProblem))
    assert abs(one.value(WEIGHTS) - two.value(WEIGHTS)) > 1e-3


def test_full_finds_a_stationary_point():
    problem = make_problem(OBJECTIVES["class means"])
    result = minimize(problem.objective, problem.stack, "full", projection=False)
    assert result.objective_kind == "unprojected"
    assert result.objective == pytest.approx(problem.value(result.weights), rel=1e-12)
    assert np.abs(problem.value_and_gradient(result.weights)[1]).max() < 1e-4


def test_stochastic_comes_near():
    stack, objective = make_stack(2), OBJECTIVES["contrast"]
    full = minimize(objective, stack, "full", projection=False)
    run = {"batch_size": 32, "learning_rate": 0.05, "random_state": 0, "max_iter": 800}
    found = minimize(objective, stack, "stochastic", projection=False, averaging=True, **run)
    assert found.objective_kind == "unprojected"
    assert found.objective == pytest.approx(full.objective, abs=1e-2)
    again = minimize(objective, stack, "stochastic", projection=False, averaging=True, **run)
    assert np.array_equal(found.weights, again.weights)


def test_stochastic_with_validation():
    found = minimize(
        OBJECTIVES["triplets"], make_stack(2), projection=False, n_validation=10, max_iter=50
    )
    assert found.objective == pytest.approx(
        UnprojectedProblem(OBJECTIVES["triplets"], make_stack(2)).value(found.weights)
    )


@pytest.mark.parametrize("method", ["full", "stochastic"])
def test_constraints(method):
    objective = OBJECTIVES["contrast"]
    options = {"projection": False, "random_state": 0, "method": method, "max_iter": 300}
    free = minimize(objective, make_stack(2), **options)
    assert free.weights.min() < 0
    bound = minimize(objective, make_stack(2), constraint="nonnegative", **options)
    assert bound.weights.min() >= 0
    assert bound.objective > free.objective
    simplex = minimize(objective, make_stack(2), constraint="simplex", **options)
    assert simplex.weights.min() >= 0
    assert simplex.weights.sum() == pytest.approx(1.0)


def test_nonnegative_is_the_best_of_a_grid():
    stack, objective = make_stack(2), OBJECTIVES["class means"]
    problem = UnprojectedProblem(objective, stack)
    found = minimize(objective, stack, "full", constraint="nonnegative", projection=False)
    steps = np.linspace(0.0, 3.0, 13)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    best = min(problem.value(w) for w in [*grid, *np.maximum(found.weights + grid - 0.05, 0.0)])
    assert found.objective <= best + 1e-9


def test_n_jobs_does_not_matter():
    runs = [
        minimize(OBJECTIVES["class means"], make_stack(4), "full", projection=False, n_jobs=k)
        for k in (1, 3)
    ]
    assert np.array_equal(runs[0].weights, runs[1].weights)


@pytest.mark.parametrize("method", ["full", "stochastic"])
def test_a_checkpoint_goes_on(method, tmp_path):
    problem = OBJECTIVES["contrast"], make_stack(5), method
    options = {"projection": False, "random_state": 1, "max_iter": 60, "check_every": 1}
    whole = minimize(*problem, **options)

    def interrupt(progress):
        if progress.iteration >= 2:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        minimize(*problem, callback=interrupt, checkpoint=file, **options)
    resumed = minimize(*problem, checkpoint=file, **options)
    assert np.array_equal(resumed.weights, whole.weights)
    assert resumed.n_iter == whole.n_iter


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_of_the_other_problem_is_refused(first, tmp_path):
    options = {"random_state": 1, "max_iter": 5, "checkpoint": tmp_path / "run.npz"}
    minimize(OBJECTIVES["contrast"], make_stack(5), projection=first, **options)
    with pytest.raises(mm.CheckpointError):
        minimize(OBJECTIVES["contrast"], make_stack(5), projection=not first, **options)


def test_a_temperature_is_refused():
    with pytest.raises(mm.InputError, match=r"temperature: .*projection=True"):
        minimize(OBJECTIVES["contrast"], make_stack(), "full", projection=False, temperature=1.0)


def test_the_mixture_means_the_projected_metric():
    stack = make_stack(2, scaling="mean")
    result = minimize(OBJECTIVES["class means"], stack, "full", projection=False)
    assert mm.is_metric(mm.path_metric(stack, result))
