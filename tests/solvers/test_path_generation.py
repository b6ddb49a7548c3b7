"""Path generation."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import InputError
from metricmix.solvers.path_generation import KnownPathProblem, KnownPaths, PathGeneration
from metricmix.solvers.problem import Problem


def instance(seed: int, n: int = 40) -> tuple[mm.DissimilarityStack, mm.objectives.ClassMeans]:
    """Return three sources, two of which break triangles, and an objective over 15 labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 1.5 * (np.arange(n) % 3)[:, None]
    stack = mm.DissimilarityStack(
        {
            "squares": mm.dissimilarity.features(X, "sqeuclidean"),
            "first": mm.dissimilarity.features(X[:, :1], "sqeuclidean"),
            "noise": mm.dissimilarity.features(rng.normal(size=(n, 2))),
        },
        scaling="mean",
    )
    known = np.where(np.arange(n) < 15, np.arange(n) % 3, -1)
    return stack, mm.objectives.ClassMeans(known, 1e-2)


@pytest.mark.parametrize("constraint", [None, "nonnegative", "simplex"])
def test_reaches_what_full_sub_gradients_reach(constraint: str | None) -> None:
    for seed in range(3):
        stack, objective = instance(seed)
        options = {"constraint": constraint, "start": np.ones(3) / 3}
        full = mm.minimize(objective, stack, mm.solvers.LBFGS(tol=1e-4), **options)
        rounds = mm.minimize(objective, stack, PathGeneration(tol=1e-6), **options)
        assert rounds.objective <= full.objective + 1e-5
        exact = Problem(objective, stack).value(rounds.weights)
        assert rounds.objective == pytest.approx(exact, rel=1e-9)


def test_paths_of_the_start_give_the_true_value_and_gradient() -> None:
    stack, objective = instance(0)
    weights = np.array([0.9, -0.1, 0.4])
    whole = Problem(objective, stack)
    value, paths = PathGeneration().bind(whole, weights).search(weights)
    about = (objective, stack, "softplus", 1.0, "none", None, None)
    fixed = KnownPathProblem(*about, known=KnownPaths.of(paths))
    expected, slope = whole.value_and_gradient(weights)
    assert value == pytest.approx(expected, rel=1e-12)
    found, gradient = fixed.value_and_gradient(weights)
    assert found == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)
    assert max(len(path.nodes) for path in paths) > 2, "no path to speak of"


def test_gradient_along_path_generation_is_that_of_differences() -> None:
    stack, objective = instance(1)
    weights = np.array([1.2, 0.3, 0.1])
    _, paths = PathGeneration().bind(Problem(objective, stack), weights).search(weights)
    about = (objective, stack, "softplus", 1.0, "none", None, np.array([1.0, 0.0, 0.5]))
    fixed = KnownPathProblem(*about, known=KnownPaths.of(paths))
    elsewhere = np.array([0.4, -0.2, 0.8])
    _, gradient = fixed.value_and_gradient(elsewhere)
    for r in range(3):
        step = 1e-6 * np.eye(3)[r]
        slope = (fixed.value(elsewhere + step) - fixed.value(elsewhere - step)) / 2e-6
        assert gradient[r] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
def test_a_round_never_makes_it_worse() -> None:
    stack, objective = instance(2)
    result = mm.minimize(objective, stack, PathGeneration(tol=0.0), max_iter=8, start=np.ones(3))
    assert (np.diff(result.trace.objective) <= 0).all()


def test_items_without_a_path_are_named() -> None:
    edges = mm.dissimilarity.EdgeSet(4, [0, 2], [1, 3])
    stack = mm.EdgeStack(edges, np.ones((1, 2)))
    objective = mm.objectives.ClassMeans(np.array([0, 0, 1, 1]), 1e-3)
    with pytest.raises(InputError, match="none between 0 and 2"):
        mm.minimize(objective, stack, "path-generation")
