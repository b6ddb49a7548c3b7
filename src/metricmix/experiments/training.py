"""How Experiments 2 and 3 train: as the paper did, and until nothing improves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning
from metricmix.objectives import Objective
from metricmix.solvers import SolveResult, Status, minimize

__all__ = ["LITERAL", "RHO", "check_not_interrupted", "learn", "learn_literally"]

Floats = NDArray[np.float64]
RHO = 0.01
LITERAL: dict[str, Any] = {"scaling": "paper", "learning_rate": 1.0, "max_iter": 500}
"""The paper's settings: one pair a step, steps of size 1 times D^-2, 500 of them."""


def check_not_interrupted(result: SolveResult) -> None:
    """Raise KeyboardInterrupt if that is what ended a solver: half a cell is no cell."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def learn_literally(
    objective: Objective, stack: DissimilarityStack, start: Floats, rng: np.random.Generator
) -> Floats:
    """Run Algorithm 1 with the paper's settings."""
    seed = int(rng.integers(1 << 31))
    with warnings.catch_warnings():  # that it was interrupted is told otherwise
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(*(objective, stack), start=start, random_state=seed, n_jobs=1, **LITERAL)
    check_not_interrupted(result)
    assert result.weights is not None
    return result.weights


def learn(
    objective: Objective,
    stack: DissimilarityStack,
    start: Floats | None = None,
    constraint: str | None = None,
) -> Floats:
    """Minimise by full sub-gradients until nothing improves, from equal weights by default."""
    options: dict[str, Any] = {"start": start, "constraint": constraint, "n_jobs": 1}
    with warnings.catch_warnings():  # at a kink there is no smooth end; the best found is used
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(objective, stack, "full", **options)
    check_not_interrupted(result)
    assert result.weights is not None
    return result.weights
