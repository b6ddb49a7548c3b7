"""Problems whose solution is at hand: nothing to iterate, the same way out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metricmix.solvers.result import Status

__all__ = ["Known"]

Floats = NDArray[np.float64]


@dataclass
class Nothing:
    """There is no state."""


class Known:
    """A solver that knows the answer."""

    state_type = Nothing
    gap = 0.0

    def __init__(self, metric: Floats, objective: float) -> None:
        self.metric = metric
        self.lower = self.upper = objective
        self.lower_bounds: list[float] = []

    def init(self, rng: np.random.Generator) -> Nothing:
        """Return nothing."""
        return Nothing()

    def step(self, state: Nothing, iteration: int, rng: np.random.Generator) -> Nothing:
        """Do nothing."""
        return state

    def check(self, state: Nothing) -> tuple[Nothing, float]:
        """Return the objective."""
        self.lower_bounds.append(self.lower)
        return state, self.upper

    def status(self, state: Nothing) -> Status:
        """Stop."""
        return Status.CONVERGED

    def is_finite(self, state: Nothing) -> bool:
        """Return that it is."""
        return True

    def weights(self, state: Nothing) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints."""
        return ""

    def finish(self) -> Floats:
        """Return the metric, as pairs."""
        return self.metric

    def triangles(self) -> tuple[NDArray[np.int32], Floats]:
        """Return nothing: there are no duals."""
        return np.empty((0, 3), np.int32), np.empty(0)
