"""The paper's stopping rule stops where it says, and not before."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.paper.experiment1_complexity import SmallImprovement
from metricmix.solvers.loop import Progress
from metricmix.solvers.problem import Problem
from reference.instances import random_sources


class Scripted:
    """A problem whose objective takes given values one after the other."""

    def __init__(self, values: list[float]) -> None:
        self.values = iter(values)

    def value(self, weights: Any) -> float:
        return next(self.values)


def answers(values: list[float], tol: float) -> list[bool]:
    problem: Any = Scripted(values)
    rule = SmallImprovement(problem, tol)
    return [rule(Progress(k, 0.0, np.zeros(2), 0.0)) for k in range(len(values))]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ([1.0], [False]),  # there is nothing to compare with
        ([1.0, 0.5], [False, False]),
        ([1.0, 1.0], [False, True]),
        ([1.0, 2.0], [False, True]),  # no improvement at all
        ([1.0, 0.75], [False, False]),  # exactly the share that is asked for
        ([1.0, 0.7500001], [False, True]),
        ([4.0, 2.0, 1.6], [False, False, True]),  # compared with the last, not with the first
        ([0.0, 0.0], [False, False]),  # nothing left to improve by a share of
    ],
)
def test_when_it_stops(values: list[float], stops: list[bool]) -> None:
    assert answers(values, 0.25) == stops


def test_two_rules_remember_for_themselves() -> None:
    assert answers([1.0, 0.1], 0.25) == answers([1.0, 0.1], 0.25)


@pytest.mark.parametrize("every", [1, 10])
def test_a_descent_ends_at_the_first_small_improvement(every: int) -> None:
    rng = np.random.default_rng(0)
    stack = mm.DissimilarityStack(random_sources(rng, 10, 3))
    target = mm.path_metric(stack, [0.5, 1.0, 0.2])
    objective = mm.objectives.LeastSquares(target, rho=1e-6)
    problem = Problem(objective, stack, n_jobs=1)
    result = mm.minimize(
        *(objective, stack),
        start=[2.0, 0.0, 0.0],
        callback=SmallImprovement(problem, 1e-2),
        check_every=every,
        max_iter=5000,
        random_state=0,
    )
    assert result.status is mm.Status.STOPPED
    values = [problem.value(weights) for weights in result.trace.weights]
    *before, last = (after > now * (1 - 1e-2) for now, after in pairwise(values))
    assert last
    assert not any(before)
