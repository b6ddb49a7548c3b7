"""The derivative that every solver rests on, against finite differences and the paper's theorem."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers.problem import Problem
from reference.instances import on_demand, random_sources
from reference.mixing import lengths as naive_lengths
from reference.mixing import sigmoid
from reference.paths import all_distances, by_enumeration

N, R = 12, 3
STEP = 1e-6


def central_differences(function, x, step=STEP):
    slope = np.empty(len(x))
    for r in range(len(x)):
        up, down = x.copy(), x.copy()
        up[r] += step
        down[r] -= step
        slope[r] = (function(up) - function(down)) / (2 * step)
    return slope


def objectives(rng):
    y = rng.integers(0, 3, N)
    y[:3] = [0, 1, 2]
    some = np.where(np.arange(N) % 3 == 0, -1, y)
    target = rng.uniform(0.5, 3.0, (N, N))
    holes = np.where(rng.random((N, N)) < 0.3, np.nan, target)
    triples = np.array([rng.choice(N, 3, replace=False) for _ in range(30)])
    bump = {
        "value": lambda d, i, j: np.sin(2 * d) + 0.1 * i * d - 0.05 * j * d**2,
        "derivative": lambda d, i, j: 2 * np.cos(2 * d) + 0.1 * i - 0.1 * j * d,
    }
    return {
        "squares": mm.objectives.LeastSquares(target, rho=0.1),
        "squares with holes": mm.objectives.LeastSquares(holes),
        "labels": mm.objectives.LabelContrast(y, rho=0.3),
        "labelled subset": mm.objectives.LabelContrast(some, rho=0.3),
        "balanced": mm.objectives.LabelContrast(some, rho=0.3, balanced=True),
        "triplets": mm.objectives.Triplets(triples, rho=0.01, margin=0.3),
        "own": mm.objectives.Separable(**bump, rho=0.2),
        "own, some items": mm.objectives.Separable(**bump, items=[1, 4, 5, 9]),
    }


MODELS = {
    "plain": {},
    "beta": {"beta": 3.7},
    "blunt": {"beta": 0.4},
    "directed": {"directed": True},
    "float32": {"dtype": np.float32},
    "scaled": {"scaling": "mean"},
    "scaled, directed, beta": {"scaling": [3.0, 0.2, 11.0], "directed": True, "beta": 2.0},
}


def make(name, seed):
    """A stack, beta and weights of mixed signs; random sources have no ties."""
    rng = np.random.default_rng(seed)
    options = dict(MODELS[name])
    directed, beta = options.pop("directed", False), options.pop("beta", 1.0)
    dtype = options.pop("dtype", np.float64)
    sources = random_sources(rng, N, R, directed=directed, dtype=dtype)
    stack = mm.DissimilarityStack(sources, directed=directed, **options)
    weights = np.array([1.3, -0.9, 0.6]) * rng.uniform(0.5, 1.5, R) * np.sqrt(stack.scales)
    return rng, stack, beta, weights


def naive_objective(objective, stack, weights, beta):
    """The objective by its definition: formula, textbook search, sum over terms."""
    sources = [stack.source(r) for r in range(stack.n_sources)]
    d = all_distances(naive_lengths(sources, weights, beta))
    terms = np.arange(objective.n_terms(N))
    i, j = objective.pairs(terms, N)
    value, _ = objective.evaluate(terms, d[i, j], N)
    ridge = objective.rho * sum(a * a for a in weights)
    return float(value @ objective.probabilities(terms, N)) + ridge


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", objectives(np.random.default_rng(0)))
def test_value_is_the_definition(model, kind):
    rng, stack, beta, weights = make(model, 1)
    objective = objectives(rng)[kind]
    problem = Problem(objective, stack, beta=beta)
    expected = naive_objective(objective, stack, weights, beta)
    assert problem.value(weights) == pytest.approx(expected, rel=1e-10)
    assert problem.value_and_gradient(weights)[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", objectives(np.random.default_rng(0)))
def test_gradient_against_central_differences(model, kind, seed):
    rng, stack, beta, weights = make(model, seed)
    problem = Problem(objectives(rng)[kind], stack, beta=beta)
    _, gradient = problem.value_and_gradient(weights)
    numeric = central_differences(problem.value, weights)
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", objectives(np.random.default_rng(0)))
def test_full_gradient_is_the_mean_of_the_sampled_ones(model, kind):
    rng, stack, beta, weights = make(model, 4)
    objective = objectives(rng)[kind]
    problem = Problem(objective, stack, beta=beta)
    terms = np.arange(problem.n_terms)
    shares = objective.probabilities(terms, N)
    value, gradient = problem.ridge(weights), 2 * objective.rho * weights
    for term, share in zip(terms, shares, strict=True):
        one_value, one_gradient = problem.sampled(weights, np.array([term]))
        value, gradient = value + share * one_value, gradient + share * one_gradient
    full_value, full_gradient = problem.value_and_gradient(weights)
    assert full_value == pytest.approx(value, rel=1e-12)
    assert full_gradient == pytest.approx(gradient, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", objectives(np.random.default_rng(0)))
def test_sampled_terms_are_averaged(kind):
    rng, stack, beta, weights = make("plain", 5)
    objective = objectives(rng)[kind]
    problem = Problem(objective, stack, beta=beta)
    terms = rng.integers(problem.n_terms, size=25)  # some twice
    each = [problem.sampled(weights, terms[t : t + 1]) for t in range(25)]
    value, gradient = problem.sampled(weights, terms)
    assert value == pytest.approx(np.mean([v for v, _ in each]), rel=1e-12)
    assert gradient == pytest.approx(np.mean([g for _, g in each], axis=0), rel=1e-9, abs=1e-13)
    shares = objective.probabilities(terms, N) / objective.probabilities(terms, N).sum()
    expected = shares @ [v for v, _ in each] + problem.ridge(weights)
    assert problem.estimate(weights, terms) == pytest.approx(expected)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("temperature", [None, 8.0])
def test_sources_computed_on_demand(model, temperature):
    rng, stack, beta, weights = make(model, 6)
    objective = objectives(rng)["own"]
    weights = np.abs(weights) if temperature else weights  # long enough for the walks to sum up
    dense, computed = (Problem(objective, s, beta=beta) for s in (stack, on_demand(stack)))
    assert computed.stack.block is None
    assert dense.stack.block is not None
    one = dense.value_and_gradient(weights, temperature)
    other = computed.value_and_gradient(weights, temperature)
    assert other[0] == pytest.approx(one[0], rel=1e-12)
    assert other[1] == pytest.approx(one[1], rel=1e-9, abs=1e-12)
    terms = np.arange(0, problem_terms := dense.n_terms, 3)
    assert problem_terms == computed.n_terms
    one, other = dense.sampled(weights, terms), computed.sampled(weights, terms)
    assert other[0] == pytest.approx(one[0], rel=1e-12)
    assert other[1] == pytest.approx(one[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_change_no_bit(n_jobs):
    rng = np.random.default_rng(7)
    stack = mm.DissimilarityStack(
        random_sources(rng, 600, R)  # enough items for threads
    )
    objective = mm.objectives.LeastSquares(rng.uniform(0.5, 3.0, (600, 600)))
    weights = np.array([1.3, -0.7, 0.4])
    one = Problem(objective, stack, n_jobs=1).value_and_gradient(weights)
    many = Problem(objective, stack, n_jobs=n_jobs).value_and_gradient(weights)
    assert one[0] == many[0]
    assert one[1].tobytes() == many[1].tobytes()


@pytest.mark.parametrize("kind", ["squares", "labelled subset", "triplets", "own"])
@pytest.mark.parametrize("model", ["plain", "beta", "directed", "scaled"])
def test_soft_gradient_against_central_differences(model, kind):
    rng, stack, beta, weights = make(model, 8)
    weights = np.array([1.2, -0.1, 0.6]) * np.abs(weights) / np.abs(weights).mean() * stack.scales
    problem = Problem(objectives(rng)[kind], stack, beta=beta)
    _, gradient = problem.value_and_gradient(weights, 6.0)
    numeric = central_differences(lambda x: problem.value_and_gradient(x, 6.0)[0], weights)
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-8)


def test_soft_gradient_tends_to_the_path_gradient():
    rng, stack, beta, weights = make("plain", 9)
    weights = np.abs(weights)
    problem = Problem(objectives(rng)["squares"], stack, beta=beta)
    value, gradient = problem.value_and_gradient(weights)
    errors = []
    for temperature in (10.0, 30.0, 90.0):
        soft_value, soft_gradient = problem.value_and_gradient(weights, temperature)
        errors.append((abs(soft_value - value), np.abs(soft_gradient - gradient).max()))
    errors = np.array(errors)
    assert (np.diff(errors, axis=0) < 0).all()
    assert errors[-1] == pytest.approx(0, abs=5e-3)


def test_ties_give_the_slope_on_one_side():
    # Two ways from 0 to 2, of equal length: the derivative is that of one of them.
    first = np.array([[0, 1, 5, 1], [1, 0, 1, 5], [5, 1, 0, 1], [1, 5, 1, 0]], float)
    second = np.array([[0, 2, 9, 1], [2, 0, 2, 9], [9, 2, 0, 5], [1, 9, 5, 0]], float)
    stack = mm.DissimilarityStack([first, second])
    pick = np.full((4, 4), np.nan)
    pick[0, 2] = 0.0  # (d - 0)² has slope 2 d
    problem = Problem(mm.objectives.LeastSquares(pick), stack, link="identity")
    weights = np.array([1.0, 0.0])
    value, gradient = problem.value_and_gradient(weights)
    assert value == 4.0
    through_1, through_3 = np.array([2.0, 4.0]), np.array([2.0, 6.0])
    assert gradient.tolist() in ((4 * through_1).tolist(), (4 * through_3).tolist())


# -- the paper's theorem: sub- and super-gradients while the path stays the same -----------------


def one_pair(stack, i, j, sign, beta):
    pick = mm.objectives.Separable(
        lambda d, u, v: sign * d * ((u == i) & (v == j)) * N**2,
        lambda d, u, v: sign * 1.0 * ((u == i) & (v == j)) * N**2,
    )
    return Problem(pick, stack, beta=beta)


@pytest.mark.parametrize("seed", range(5))
def test_path_length_is_convex_while_the_path_stays(seed):
    rng, stack, beta, weights = make("beta", seed)
    i, j = rng.choice(N, 2, replace=False)
    near = one_pair(stack, i, j, +1.0, beta)
    far = one_pair(stack, i, j, -1.0, beta)
    value, slope = near.value_and_gradient(weights)
    minus_value, minus_slope = far.value_and_gradient(weights)
    assert minus_value == -value
    assert minus_slope == pytest.approx(-slope)
    path = mm.shortest_path(stack, mm.Mixture(weights, beta=beta), i, j).nodes
    stayed = 0
    for _ in range(200):
        move = rng.normal(0, 0.05, R)
        there = mm.shortest_path(stack, mm.Mixture(weights + move, beta=beta), i, j)
        if there.nodes == path:
            stayed += 1
            # softplus is convex: the gradient is a sub-gradient of d and a super-gradient of -d.
            assert there.length >= value + slope @ move - 1e-12
            assert -there.length <= minus_value + minus_slope @ move + 1e-12
    assert stayed > 20


@pytest.mark.parametrize("seed", range(5))
def test_path_length_lies_below_every_fixed_path(seed):
    # Whatever the path does, d is a minimum over paths: it lies below the length of the old path.
    rng, stack, beta, weights = make("plain", seed)
    i, j = rng.choice(N, 2, replace=False)
    path = mm.shortest_path(stack, weights, i, j)
    sources = [stack.source(r) for r in range(R)]
    for _ in range(100):
        moved = weights + rng.normal(0, 0.5, R)
        w = naive_lengths(sources, moved, beta)
        along = sum(w[u, v] for u, v in path.edges)
        assert mm.shortest_path(stack, moved, i, j).length <= along + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_gradient_of_one_distance_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    sources = random_sources(rng, 6, R, directed=True)
    stack = mm.DissimilarityStack(sources, directed=True)
    weights, beta = rng.normal(0.5, 1.0, R), 1.7
    w = naive_lengths(sources, weights, beta)
    length, paths = by_enumeration(w, 0, 5)
    (path,) = paths  # unique, with continuous entries
    expected = np.zeros(R)
    for u, v in zip(path[:-1], path[1:], strict=True):  # noqa: RUF007
        m = sum(a * M[u, v] for a, M in zip(weights, sources, strict=True))
        expected += [sigmoid(m, beta) * M[u, v] for M in sources]
    pick = np.full((6, 6), np.nan)
    pick[0, 5] = length - 0.5  # residual 0.5: the slope of its square is 1
    problem = Problem(mm.objectives.LeastSquares(pick), stack, beta=beta)
    assert problem.value_and_gradient(weights)[1] == pytest.approx(expected, rel=1e-10)
    assert problem.sampled(weights, np.array([0]))[1] == pytest.approx(expected, rel=1e-10)


def test_very_negative_mixtures_keep_the_gradient_exact():
    # Lengths underflow beside the others, so that many items lie at the same distance to rounding.
    rng = np.random.default_rng(11)
    stack = mm.DissimilarityStack(random_sources(rng, 30, 2))
    weights = np.array([60.0, -80.0])
    objective = mm.objectives.LeastSquares(rng.uniform(0.5, 3.0, (30, 30)))
    problem = Problem(objective, stack)
    terms = np.arange(problem.n_terms)
    value, gradient = problem.value_and_gradient(weights)
    sampled_value, sampled_gradient = problem.sampled(weights, terms)
    assert value == pytest.approx(sampled_value, rel=1e-9)
    assert gradient == pytest.approx(sampled_gradient, rel=1e-6, abs=1e-9)
