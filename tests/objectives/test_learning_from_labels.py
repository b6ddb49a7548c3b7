"""Objectives over labels and links at work: derivatives by the weights, and what is learned."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers.problem import Problem
from reference.flat import minimize
from reference.instances import random_sources
from reference.label_losses import class_means_loss, links_loss, neighbourhood_loss
from reference.mixing import lengths as naive_lengths
from reference.paths import all_distances

N, R = 12, 3
Y = np.array([0, 1, 2, -1, 1, 0, 0, 3, 1, -1, 2, 1])
SHARES = np.random.default_rng(0).exponential(size=N)
MUST, CANNOT = [[0, 5], [6, 0], [8, 1]], [[0, 1], [2, 11], [7, 3]]

OBJECTIVES = {
    "class means": lambda: mm.objectives.ClassMeans(Y, rho=0.1),
    "class means, weighted": lambda: mm.objectives.ClassMeans(Y, item_weights=SHARES),
    "class means in blocks": lambda: mm.objectives.ClassMeans(Y, block_size=5),
    "neighbourhood": lambda: mm.objectives.Neighbourhood(Y, rho=0.1),
    "neighbourhood, weighted": lambda: mm.objectives.Neighbourhood(Y, item_weights=SHARES),
    "links": lambda: mm.objectives.PairConstraints(MUST, CANNOT, threshold=2.0),
    "contrast, weighted": lambda: mm.objectives.LabelContrast(Y, item_weights=SHARES),
    "balanced contrast, weighted": lambda: mm.objectives.LabelContrast(
        Y, balanced=True, item_weights=SHARES
    ),
}
DEFINITIONS = {
    "class means": lambda d: class_means_loss(d, Y)[0],
    "class means, weighted": lambda d: class_means_loss(d, Y, SHARES)[0],
    "neighbourhood": lambda d: neighbourhood_loss(d, Y),
    "neighbourhood, weighted": lambda d: neighbourhood_loss(d, Y, SHARES),
    "links": lambda d: links_loss(d, MUST, CANNOT, 2.0),
}


def make(kind, seed, directed):
    rng = np.random.default_rng(seed)
    stack = mm.DissimilarityStack(random_sources(rng, N, R, directed=directed), directed=directed)
    return Problem(OBJECTIVES[kind](), stack), np.array([1.3, -0.9, 0.6]) * rng.uniform(0.5, 1.5, R)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_value_is_the_definition(kind, directed):
    problem, weights = make(kind, 1, directed)
    sources = [problem.stack.source(r) for r in range(R)]
    d = all_distances(naive_lengths(sources, weights, 1.0))
    expected = DEFINITIONS[kind](d) + problem.ridge(weights)
    assert problem.value(weights) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_gradient_against_central_differences(kind, directed, seed):
    problem, weights = make(kind, seed, directed)
    _, gradient = problem.value_and_gradient(weights)
    steps = 1e-6 * np.eye(R)
    numeric = [(problem.value(weights + s) - problem.value(weights - s)) / 2e-6 for s in steps]
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_full_gradient_is_the_mean_of_the_sampled_ones(kind, directed):
    problem, weights = make(kind, 4, directed)
    terms = np.arange(problem.n_terms)
    each = [problem.sampled(weights, terms[t : t + 1]) for t in terms]
    shares = problem.objective.probabilities(terms, N)
    value, gradient = problem.value_and_gradient(weights)
    rho = problem.objective.rho
    assert value == pytest.approx(shares @ [v for v, _ in each] + problem.ridge(weights))
    expected = shares @ np.array([g for _, g in each]) + 2 * rho * weights
    assert gradient == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["class means", "neighbourhood", "links"])
def test_soft_gradient_against_central_differences(kind):
    problem, _ = make(kind, 5, directed=False)
    weights = np.array([1.2, -0.1, 0.6])
    _, gradient = problem.value_and_gradient(weights, 6.0)
    numeric = [
        (
            problem.value_and_gradient(weights + s, 6.0)[0]
            - problem.value_and_gradient(weights - s, 6.0)[0]
        )
        / 2e-6
        for s in 1e-6 * np.eye(R)
    ]
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-8)


# -- what is learned -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def task():
    """Three classes that the first source tells apart and the second knows nothing of."""
    rng = np.random.default_rng(6)
    truth = np.arange(48) % 3
    informative = mm.dissimilarity.features(np.eye(3)[truth] * 2 + rng.normal(0, 0.7, (48, 3)))
    noise = mm.dissimilarity.features(rng.normal(size=(48, 3)))
    names = ["informative", "noise"]
    stack = mm.DissimilarityStack([informative, noise], names=names, scaling="mean")
    return stack, truth, np.where(np.arange(48) < 30, truth, -1)


def learn(objective, stack, method="full", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)  # the number of steps is the test's
        return minimize(objective, stack, method=method, random_state=0, **options)


def links_among(y):
    i, j = np.triu_indices(len(y), 1)
    known = (y[i] >= 0) & (y[j] >= 0)
    pairs, same = np.stack([i, j], axis=1)[known], (y[i] == y[j])[known]
    return mm.objectives.PairConstraints(pairs[same], pairs[~same])


LEARNERS = {
    "class means": lambda y: mm.objectives.ClassMeans(y, rho=1e-3),
    "class means in blocks": lambda y: mm.objectives.ClassMeans(y, rho=1e-3, block_size=10),
    "neighbourhood": lambda y: mm.objectives.Neighbourhood(y, rho=1e-3),
    "links": links_among,
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_full_descent_finds_the_source_that_informs(kind, task):
    stack, _, y = task
    objective = LEARNERS[kind](y)
    result = learn(objective, stack)
    assert result.objective < result.trace.objective[0]
    assert result.objective == pytest.approx(Problem(objective, stack).value(result.weights))
    informative, noise = result.weights
    assert informative > noise + 0.5


@pytest.mark.parametrize("kind", ["class means in blocks", "neighbourhood", "links"])
def test_stochastic_descent_finds_it_too(kind, task):
    stack, _, y = task
    objective = LEARNERS[kind](y)
    start = Problem(objective, stack).value(np.array([0.5, 0.5]))
    options = {"batch_size": 2, "max_iter": 60, "learning_rate": 0.1}
    result = learn(objective, stack, "stochastic", **options)
    assert result.objective < start
    assert result.weights[0] > result.weights[1]
    again = learn(objective, stack, "stochastic", **options)
    assert np.array_equal(again.weights, result.weights)


def test_learned_class_means_predict_unlabelled_items(task):
    stack, truth, y = task
    objective = mm.objectives.ClassMeans(y, rho=1e-3)
    mixture = learn(objective, stack).mixture
    d = mm.project(mm.mixture.edge_lengths(stack, mixture).matrix())
    labelled, codes = objective.labelled, objective.codes
    within = mm.objectives.half_means(d[np.ix_(labelled, labelled)], codes, 3)
    scores = mm.objectives.class_mean_scores(d[:, labelled], codes, 3, within)
    assert (scores.argmin(axis=1) == truth)[y < 0].mean() > 0.8


def test_items_without_weight_teach_nothing(task):
    # Wrong labels of weight 0 leave the result as it is, to the bit.
    stack, truth, y = task
    wrong = np.where(y < 0, (truth + 1) % 3, y)
    weights = np.where(y < 0, 0.0, 2.0)
    for make_objective in (mm.objectives.ClassMeans, mm.objectives.Neighbourhood):
        one = learn(make_objective(y, rho=1e-3), stack)
        other = learn(make_objective(wrong, rho=1e-3, item_weights=weights), stack)
        assert np.array_equal(one.weights, other.weights)
