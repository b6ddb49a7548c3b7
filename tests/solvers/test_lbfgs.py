"""The full sub-gradient method: smooth instances, kinks, constraints."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import metricmix as mm
from metricmix.mixture import edge_lengths
from metricmix.solvers import Status
from metricmix.solvers.lbfgs import inverse_hessian_times, shortest_in_hull
from metricmix.solvers.problem import Problem, project_weights
from reference.flat import minimize
from reference.instances import random_sources
from reference.paths import all_distances


def solve(objective, stack, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        return minimize(objective, stack, method="full", **options)


def euclidean_stack(seed, n, R, **options):
    rng = np.random.default_rng(seed)
    return mm.DissimilarityStack(
        [mm.dissimilarity.features(rng.normal(size=(n, 3))) for _ in range(R)], **options
    )


def threshold_stack(seed, n, R=2):
    """Path lengths of graphs: small integers, full of ties."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    D = mm.dissimilarity.features(X)
    graphs = mm.dissimilarity.threshold_graphs(D, 8, normalize=False)
    return mm.DissimilarityStack(graphs[2 : 2 + R])


def naive_values(objective, stack, weights):
    """The objective at many weights at once, by formula and Floyd's recursion."""
    n = stack.n_items
    m = np.tensordot(weights, np.stack([stack.source(r) for r in range(stack.n_sources)]), 1)
    d = np.log1p(np.exp(m)) * (1 - np.eye(n))
    for k in range(n):
        np.minimum(d, d[:, :, k, None] + d[:, None, k, :], out=d)
    terms = np.arange(objective.n_terms(n))
    i, j = objective.pairs(terms, n)
    shares = objective.probabilities(terms, n)
    means = [objective.evaluate(terms, one[i, j], n)[0] @ shares for one in d]
    return np.array(means) + objective.rho * np.square(weights).sum(axis=1)


def grid_minimum(objective, stack, low=-3.0, high=3.0, points=41, refinements=4):
    """The best of an ever finer grid of two weights."""
    centre, width = np.full(2, (low + high) / 2), (high - low) / 2
    for _ in range(refinements):
        a, b = np.meshgrid(*[np.linspace(-width, width, points)] * 2)
        grid = np.maximum(np.column_stack([a.ravel(), b.ravel()]) + centre, low)
        values = naive_values(objective, stack, grid)
        centre, width = grid[values.argmin()], 4 * width / points
    return float(values.min())


# -- smooth instances ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{}, {"beta": 3.0}, {"memory": 1}, {"memory": 30}])
def test_recovers_known_weights(seed, options):
    stack = euclidean_stack(seed, 25, 3)
    truth = mm.Mixture([1.5, -0.4, 0.7], beta=options.get("beta", 1.0))
    target = all_distances(edge_lengths(stack, truth).matrix())
    result = solve(mm.objectives.LeastSquares(target), stack, **options)
    assert result.weights == pytest.approx(truth.weights, abs=1e-4)
    assert result.objective < 1e-9


def test_recovers_known_weights_of_a_directed_metric():
    rng = np.random.default_rng(3)
    stack = mm.DissimilarityStack(random_sources(rng, 20, 2, directed=True), directed=True)
    target = all_distances(edge_lengths(stack, [2.0, -0.5]).matrix())
    result = solve(mm.objectives.LeastSquares(target), stack, start=[1.5, -0.2])
    assert result.weights == pytest.approx([2.0, -0.5], abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_scipy_where_it_is_smooth(seed):
    # Euclidean sources with positive weights: the edges are the shortest paths, and stay so.
    rng = np.random.default_rng(seed)
    stack = euclidean_stack(seed, 20, 3)
    target = stack.source(0) + rng.uniform(0.5, 1.5, (20, 20))
    np.fill_diagonal(target, 0.0)
    objective = mm.objectives.LeastSquares(target, rho=0.1)
    problem = Problem(objective, stack)
    best = scipy_minimize(problem.value_and_gradient, np.full(3, 1 / 3), jac=True, tol=1e-12)
    result = solve(objective, stack, tol=1e-8)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(best.fun, rel=1e-9)
    assert result.weights == pytest.approx(best.x, abs=1e-5)


def test_objective_never_rises():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        stack = mm.DissimilarityStack(random_sources(rng, 12, 4))
        y = np.arange(12) % 3
        trace = solve(mm.objectives.LabelContrast(y, balanced=True), stack).trace
        assert (np.diff(trace.objective) <= 1e-15).all()


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
def test_tol_bounds_the_slope_or_the_gain(tol):
    stack = euclidean_stack(0, 20, 3)
    objective = mm.objectives.LeastSquares(2 * stack.source(1), rho=0.05)
    result = solve(objective, stack, tol=tol)
    assert result.status is Status.CONVERGED
    _, gradient = Problem(objective, stack).value_and_gradient(result.weights)
    scale = max(1.0, abs(result.objective))
    gain = result.trace.objective[-2] - result.trace.objective[-1]
    assert np.abs(gradient).max() <= tol * scale or gain <= tol**2 * scale


def test_smaller_tol_takes_more_iterations():
    stack = euclidean_stack(0, 20, 3)
    objective = mm.objectives.LeastSquares(2 * stack.source(1), rho=0.05)
    counts = [solve(objective, stack, tol=tol).n_iter for tol in (1e-1, 1e-4, 1e-8)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_start_at_the_minimum_stays_there():
    stack = euclidean_stack(1, 15, 2)
    target = all_distances(edge_lengths(stack, [1.0, 0.5]).matrix())
    result = solve(mm.objectives.LeastSquares(target), stack, start=[1.0, 0.5])
    assert result.status is Status.CONVERGED
    assert result.weights == pytest.approx([1.0, 0.5], abs=1e-6)
    assert result.objective < 1e-12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, "tol: expected a number >= 0"),
        ({"memory": 0}, "memory: expected a whole number >= 1"),
        ({"temperature": -1.0}, "temperature: expected a number > 0"),
        ({"temperature": 1e-3}, "temperature: 0.001 is too small"),
    ],
)
def test_bad_options_are_refused(options, message):
    stack = euclidean_stack(0, 8, 2)
    with pytest.raises(mm.InputError, match=message):
        solve(mm.objectives.LeastSquares(stack.source(0)), stack, **options)


# -- kinks ---------------------------------------------------------------------------------------


KINKED = {
    "squares": lambda n, rng: mm.objectives.LeastSquares(
        np.abs(np.subtract.outer(x := rng.normal(size=n), x)), rho=1e-3
    ),
    "labels": lambda n, rng: mm.objectives.LabelContrast(np.arange(n) % 3, rho=0.2, balanced=True),
    "triplets": lambda n, rng: mm.objectives.Triplets(
        np.array([rng.choice(n, 3, replace=False) for _ in range(60)]), rho=0.05
    ),
    "absolute": lambda n, rng: mm.objectives.Separable(
        lambda d, i, j: np.abs(d - 1.5), lambda d, i, j: np.sign(d - 1.5), rho=1e-3
    ),
}


UNIMODAL = ["squares", "labels", "absolute"]
"""Triplets have several local minima, of which descent finds one."""


@pytest.mark.parametrize("kind", UNIMODAL)
@pytest.mark.parametrize("seed", range(3))
def test_kinks_against_a_grid(kind, seed):
    stack = threshold_stack(seed, 12)
    objective = KINKED[kind](12, np.random.default_rng(seed))
    result = solve(objective, stack)
    best = grid_minimum(objective, stack)
    assert result.objective <= best + 2e-3 * max(1.0, abs(best))


@pytest.mark.parametrize("kind", KINKED)
@pytest.mark.parametrize("seed", range(3))
def test_end_is_a_local_minimum(kind, seed):
    # Slopes are of order 1 here; no direction may descend by more than a thousandth of that.
    stack = threshold_stack(seed, 12, R=4)
    objective = KINKED[kind](12, np.random.default_rng(seed))
    result = solve(objective, stack)
    directions = np.random.default_rng(0).normal(size=(300, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for radius in (1e-4, 1e-3):
        around = naive_values(objective, stack, result.weights + radius * directions)
        assert around.min() >= result.objective - 1e-3 * radius


@pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])
@pytest.mark.parametrize("seed", range(4))
def test_constrained_end_is_not_called_a_minimum_if_it_is_none(constraint, seed):
    stack = threshold_stack(seed, 12, R=4)
    rng = np.random.default_rng(seed)
    target = rng.uniform(0.0, 2.0, (12, 12))
    objective = mm.objectives.Separable(
        lambda d, i, j: np.abs(d - target[i, j]), lambda d, i, j: np.sign(d - target[i, j])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        result = minimize(objective, stack, method="full", constraint=constraint)
    if result.status is not Status.CONVERGED:
        return
    steps = 1e-3 * rng.normal(size=(200, 4))
    around = np.array([project_weights(result.weights + step, constraint) for step in steps])
    moved = np.linalg.norm(around - result.weights, axis=1)
    gain = result.objective - naive_values(objective, stack, around)
    assert (gain <= 1e-2 * moved).all()


@pytest.mark.parametrize("kind", UNIMODAL)
@pytest.mark.parametrize("seed", range(2))
def test_kinks_against_a_long_stochastic_run(kind, seed):
    stack = threshold_stack(seed, 12, R=4)
    objective = KINKED[kind](12, np.random.default_rng(seed))
    options = {"schedule": "inverse", "max_iter": 500, "averaging": True, "random_state": 0}
    slow = minimize(objective, stack, **options)
    fast = solve(objective, stack)
    assert fast.objective <= slow.objective + 1e-3 * max(1.0, abs(slow.objective))


def test_minimum_at_a_kink_is_recognised():
    # min |softplus(a) - 1.5| has no zero gradient anywhere; its minimum is a kink.
    stack = mm.DissimilarityStack([1 - np.eye(5)])
    objective = mm.objectives.Separable(
        lambda d, i, j: np.abs(d - 1.5), lambda d, i, j: np.sign(d - 1.5)
    )
    result = solve(objective, stack)
    assert result.objective == pytest.approx(0.0, abs=1e-6)
    assert result.status in (Status.CONVERGED, Status.STALLED)


def test_zero_is_in_the_hull_of_opposite_gradients():
    assert shortest_in_hull(np.array([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(0, abs=1e-12)
    assert shortest_in_hull(np.array([[3.0, 4.0]])) == pytest.approx([3.0, 4.0])
    assert shortest_in_hull(np.array([[2.0, 0.0], [0.0, 2.0]])) == pytest.approx([1.0, 1.0])
    assert shortest_in_hull(np.zeros((2, 3))) == pytest.approx(0)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("seed", range(20))
def test_shortest_vector_in_the_hull(seed, size):
    rng = np.random.default_rng(seed)
    V = size * (rng.normal(size=(rng.integers(1, 7), 3)) + rng.normal(size=3))
    shortest = shortest_in_hull(V)
    # Optimal: no vertex lies nearer to 0 along it; and it is itself a convex combination.
    assert (V @ shortest >= shortest @ shortest - 1e-9 * size**2).all()
    shares, *_ = np.linalg.lstsq(
        np.vstack([V.T / size, np.ones(len(V))]), [*(shortest / size), 1.0], rcond=None
    )
    assert V.T @ shares == pytest.approx(shortest, abs=1e-7 * size)


@pytest.mark.parametrize("seed", range(5))
def test_two_loop_recursion_is_bfgs(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 4))
    A = A @ A.T + np.eye(4)
    moves = rng.normal(size=(3, 4))
    changes = moves @ A
    g = rng.normal(size=4)
    scale = (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    H = scale * np.eye(4)
    for s, y in zip(moves, changes, strict=True):  # the textbook's update, as a matrix
        V = np.eye(4) - np.outer(y, s) / (y @ s)
        H = V.T @ H @ V + np.outer(s, s) / (y @ s)
    assert inverse_hessian_times(g, moves, changes) == pytest.approx(H @ g)
    assert inverse_hessian_times(g, moves[:0], changes[:0]) == pytest.approx(g)


# -- constraints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sources", ["continuous", "whole numbers"])
def test_simplex_against_a_grid(seed, sources):
    stack = euclidean_stack(seed, 14, 2) if sources == "continuous" else threshold_stack(seed, 14)
    rng = np.random.default_rng(seed)
    objective = mm.objectives.LeastSquares(0.8 * rng.uniform(1, 3, (14, 14)))
    a = np.linspace(0, 1, 1001)
    best = naive_values(objective, stack, np.column_stack([a, 1 - a])).min()
    result = solve(objective, stack, constraint="simplex")
    assert result.objective <= best + 1e-5
    assert (result.weights >= 0).all()
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sources", ["continuous", "whole numbers"])
def test_nonnegative_against_a_grid(seed, sources):
    stack = euclidean_stack(seed, 12, 2) if sources == "continuous" else threshold_stack(seed, 12)
    rng = np.random.default_rng(seed)
    objective = mm.objectives.LeastSquares(0.5 * stack.source(0) + rng.uniform(0, 1, (12, 12)))
    best = grid_minimum(objective, stack, low=0.0, high=1.5)
    result = solve(objective, stack, constraint="nonnegative")
    assert result.objective <= best + 1e-5
    assert (result.weights >= 0).all()


@pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])
@pytest.mark.parametrize("start", [[5.0, -3.0, 0.2], [0.0, 0.0, 1.0], [-1.0, -1.0, -1.0]])
def test_constraints_hold_at_every_check(constraint, start):
    stack = euclidean_stack(2, 15, 3)
    objective = mm.objectives.LeastSquares(
        all_distances(edge_lengths(stack, [1.5, -0.4, 0.2]).matrix())
    )
    result = solve(objective, stack, constraint=constraint, start=start)
    weights = np.array([*result.trace.weights, result.weights])
    assert (weights >= 0).all()
    if constraint == "simplex":
        assert weights.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert result.objective <= result.trace.objective[0]


def test_inactive_constraint_changes_nothing():
    stack = euclidean_stack(5, 15, 3)
    target = all_distances(edge_lengths(stack, [1.5, 0.4, 0.2]).matrix())
    result = solve(mm.objectives.LeastSquares(target), stack, constraint="nonnegative")
    assert result.weights == pytest.approx([1.5, 0.4, 0.2], abs=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_projection_onto_the_simplex_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, rng.integers(1, 7))
    p = project_weights(x, "simplex")
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1.0)
    # Nearest: x - p makes no acute angle with the way from p to any corner.
    assert ((np.eye(len(x)) - p) @ (x - p) <= 1e-12).all()
    assert project_weights(p, "simplex") == pytest.approx(p)


def test_projection_onto_nonnegative_weights():
    x = np.array([1.0, -2.0, 0.0])
    assert project_weights(x, "nonnegative").tolist() == [1.0, 0.0, 0.0]
    assert project_weights(x, "none").tolist() == x.tolist()
    with pytest.raises(mm.InputError, match="constraint"):
        project_weights(x, "box")


# -- soft paths ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["squares", "labels", "absolute"])
def test_soft_minimum_is_near_the_hard_one(kind):
    stack = euclidean_stack(0, 14, 2)
    objective = KINKED[kind](14, np.random.default_rng(0))
    hard = solve(objective, stack)
    soft = solve(objective, stack, temperature=40.0)
    assert Problem(objective, stack).value(soft.weights) <= hard.objective + 0.02


def test_soft_objective_is_what_is_reported():
    stack = euclidean_stack(0, 14, 2)
    objective = KINKED["squares"](14, np.random.default_rng(0))
    result = solve(objective, stack, temperature=12.0)
    value, gradient = Problem(objective, stack).value_and_gradient(result.weights, 12.0)
    assert result.objective == value
    assert result.status is Status.CONVERGED
    assert np.abs(gradient).max() < 1e-4


# -- one and two items ---------------------------------------------------------------------------


def test_two_items():
    stack = mm.DissimilarityStack([np.array([[0.0, 2.0], [2.0, 0.0]])])
    target = np.array([[0.0, 3.0], [3.0, 0.0]])
    result = solve(mm.objectives.LeastSquares(target), stack)
    assert np.log1p(np.exp(2 * result.weights[0])) == pytest.approx(3.0, abs=1e-4)


def test_one_item():
    stack = mm.DissimilarityStack([np.zeros((1, 1))])
    result = solve(mm.objectives.LeastSquares(np.zeros((1, 1)), rho=1.0), stack)
    assert result.objective == pytest.approx(0.0, abs=1e-9)
