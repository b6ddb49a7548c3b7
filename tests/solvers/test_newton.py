"""Newton steps: the Hessian against finite differences, the optimum against L-BFGS."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import ConvergenceWarning
from metricmix.solvers import Status
from metricmix.solvers import unprojected as unprojected_module
from metricmix.solvers.newton import free_weights, nearest
from metricmix.solvers.problem import Problem, project_weights
from metricmix.solvers.unprojected import UnprojectedProblem

N = 24
LABELS = np.where(np.arange(N) < 18, np.arange(N) % 3, -1)
CONSTRAINTS = ("none", "nonnegative", "simplex")


def make_stack(seed=0, R=4, *, directed=False, informative=1.0):
    rng = np.random.default_rng(seed)
    shift = np.where(LABELS < 0, 0, LABELS)[:, None] * informative
    sources = []
    for share in np.linspace(0.0, 1.0, R):
        d = mm.dissimilarity.features(rng.normal(size=(N, 3)) + share * shift)
        noise = rng.uniform(0.0, 0.3, (N, N)) * (1 - np.eye(N))
        sources.append(d + noise if directed else d)
    return mm.DissimilarityStack(sources, directed=directed)


def objectives(seed=0):
    rng = np.random.default_rng(seed)
    target = mm.dissimilarity.features(rng.normal(size=(N, 2)))
    weights = rng.uniform(0.2, 2.0, N)
    return {
        "class means": mm.objectives.ClassMeans(LABELS, rho=1e-2),
        "weighted": mm.objectives.ClassMeans(LABELS, rho=1e-2, item_weights=weights),
        "blocks": mm.objectives.ClassMeans(LABELS, rho=1e-2, block_size=6),
        "contrast": mm.objectives.LabelContrast(LABELS, rho=0.3, balanced=True),
        "squares": mm.objectives.LeastSquares(target, rho=1e-2),
        "differences": mm.objectives.TargetDifferences(rng.normal(size=N), rho=1e-2),
        "links": mm.objectives.PairConstraints([[0, 3], [5, 2]], [[3, 1], [6, 0]], rho=1e-2),
    }


OBJECTIVES = objectives()


@pytest.mark.parametrize("model", [{}, {"beta": 3.0}, {"directed": True}])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_hessian(name, model):
    stack = make_stack(directed=model.get("directed", False))
    problem = UnprojectedProblem(OBJECTIVES[name], stack, beta=model.get("beta", 1.0))
    weights = np.array([1.3, -0.4, 0.6, 0.9])
    value, gradient, hessian = problem.with_hessian(weights)
    expected = problem.value_and_gradient(weights)
    assert value == pytest.approx(expected[0], rel=1e-13)
    assert gradient == pytest.approx(expected[1], rel=1e-11)
    step = 1e-5
    slopes = [problem.value_and_gradient(weights + step * s)[1] for s in np.eye(4)]
    before = [problem.value_and_gradient(weights - step * s)[1] for s in np.eye(4)]
    differences = (np.array(slopes) - before) / (2.0 * step)
    assert hessian == pytest.approx(differences, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_optimum_is_that_of_l_bfgs(name, constraint):
    for seed, R in itertools.product(range(3), (2, 7)):
        objective, stack = objectives(seed)[name], make_stack(seed, R)
        options = {"constraint": constraint, "projection": False, "max_iter": 2000}
        with warnings.catch_warnings():  # at the limit of precision it may stop before this tol
            warnings.simplefilter("ignore", ConvergenceWarning)
            slow = mm.minimize(objective, stack, mm.solvers.LBFGS(tol=1e-9), **options)
        fast = mm.minimize(objective, stack, mm.solvers.Newton(), **options)
        assert fast.converged
        assert fast.n_iter < 30
        assert fast.objective <= slow.objective + 1e-12
        if fast.objective > slow.objective - 1e-9:  # the same minimum, where there are several
            assert fast.weights == pytest.approx(slow.weights, abs=2e-5)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_result_is_stationary(constraint):
    objective, stack = mm.objectives.ClassMeans(LABELS, rho=1e-5), make_stack(3, 9)
    result = mm.minimize(objective, stack, "newton", constraint=constraint, projection=False)
    problem = UnprojectedProblem(objective, stack)
    _, gradient = problem.value_and_gradient(result.weights)
    moved = project_weights(result.weights - gradient, constraint) - result.weights
    assert np.abs(moved).max() < 1e-6
    assert project_weights(result.weights, constraint) == pytest.approx(result.weights, abs=1e-12)


def test_equal_sources_and_no_ridge():
    source = make_stack().source(0)
    stack = mm.DissimilarityStack([source, source, source])
    objective = mm.objectives.LeastSquares(np.log1p(np.exp(source)))
    result = mm.minimize(objective, stack, "newton", projection=False)
    assert result.converged
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_step_is_the_minimum_of_the_model(constraint):
    rng = np.random.default_rng(1)
    for _ in range(20):
        root, shift = rng.normal(size=(5, 5)), rng.normal(size=5)
        here = project_weights(rng.normal(size=5), constraint)
        found = nearest(root, shift, here, constraint)
        best = np.square(root @ (found - here) + shift).sum()
        for _ in range(200):
            size = rng.choice([1e-3, 1e-1, 1.0])
            other = project_weights(found + size * rng.normal(size=5), constraint)
            assert best <= np.square(root @ (other - here) + shift).sum() + 1e-9


def test_free_weights():
    weights, gradient = np.array([0.0, 0.0, 1.0]), np.array([1.0, -1.0, 2.0])
    assert free_weights(weights, gradient, "none").all()
    assert free_weights(weights, gradient, "nonnegative").tolist() == [False, True, True]
    assert free_weights(weights, gradient, "simplex").tolist() == [True, True, True]


# -- the loop --------------------------------------------------------------------------------------


def solve(objective=OBJECTIVES["class means"], **options):
    given = {"constraint": "nonnegative", "projection": False, **options}
    return mm.minimize(objective, make_stack(1, 6), "newton", **given)


def test_trace_and_callback():
    seen = []
    result = solve(callback=seen.append)
    assert result.objective_kind == "unprojected"
    assert result.trace.iteration == [p.iteration for p in seen] == list(range(result.n_iter + 1))
    assert result.trace.objective == sorted(result.trace.objective, reverse=True)
    assert result.trace.weights[-1].tolist() == result.weights.tolist()
    stopped = solve(callback=lambda progress: progress.iteration >= 2)
    assert (stopped.status, stopped.n_iter) == (Status.STOPPED, 2)


@pytest.mark.filterwarnings("ignore::metricmix.ConvergenceWarning")
def test_checkpoint(tmp_path):
    whole = solve()
    for steps in range(whole.n_iter):
        solve(max_iter=steps, checkpoint=tmp_path / f"{steps}.npz")
        resumed = solve(checkpoint=tmp_path / f"{steps}.npz")
        assert resumed.weights.tobytes() == whole.weights.tobytes()
        assert resumed.trace.objective == whole.trace.objective


@pytest.mark.filterwarnings("ignore::metricmix.ConvergenceWarning")
def test_limits():
    start = solve(max_iter=0)
    assert (start.status, start.n_iter) == (Status.MAX_ITER, 0)
    assert start.weights == pytest.approx(np.full(6, 1 / 6), abs=1e-15)
    late = solve(time_limit=0.0)
    assert late.status is Status.TIME_LIMIT


def test_threads_and_pieces_do_not_matter(monkeypatch):
    expected = solve(OBJECTIVES["blocks"], n_jobs=1)
    assert solve(OBJECTIVES["blocks"], n_jobs=3).weights.tobytes() == expected.weights.tobytes()
    monkeypatch.setattr(unprojected_module, "STORED_UP_TO", 0)
    again = solve(OBJECTIVES["blocks"])
    assert again.weights == pytest.approx(expected.weights, abs=1e-10)


# -- where there is no Hessian ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        (OBJECTIVES["class means"], {"projection": True}),
        (OBJECTIVES["class means"], {"link": "identity", "constraint": "nonnegative"}),
        (mm.objectives.Triplets([(0, 1, 2), (3, 4, 5)], rho=0.1), {}),
    ],
)
def test_l_bfgs_takes_over(objective, options):
    given = {"projection": False, "max_iter": 50, **options}
    stack = make_stack(2, 3)
    one, other = (mm.minimize(objective, stack, name, **given) for name in ("newton", "full"))
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.n_iter == other.n_iter


def test_many_weights_are_left_to_l_bfgs(monkeypatch):
    objective, stack = OBJECTIVES["class means"], make_stack(0, 3)
    assert UnprojectedProblem(objective, stack).has_hessian
    assert not Problem(objective, stack).has_hessian
    monkeypatch.setattr(unprojected_module, "WEIGHTS_AT_MOST", 2)
    assert not UnprojectedProblem(objective, stack).has_hessian
