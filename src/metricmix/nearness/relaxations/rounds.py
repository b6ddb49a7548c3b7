"""What the linear programs of relaxations share: rounds, two bounds, and when to stop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from metricmix.solvers.result import Status

__all__ = ["RoundState", "Rounds"]

PATIENCE = 300
"""Rounds after which bounds that did not move will not move any more."""


@dataclass
class RoundState:
    """Rounds since a bound moved. Everything large stays in the solver."""

    waited: int


class Rounds(ABC):
    """A solver that brings two bounds together, round by round; see its module.

    Attributes
    ----------
    tol : float
        Gap to reach.
    lower, upper : float
        Bounds of the optimum of the relaxation.
    lower_bounds : list of float
        The first of them, round by round.
    """

    state_type = RoundState

    def __init__(self, tol: float, lower: float, upper: float) -> None:
        self.tol, self.lower, self.upper = tol, lower, upper
        self.lower_bounds: list[float] = []

    @property
    @abstractmethod
    def gap(self) -> float:
        """The gap so far."""

    @property
    @abstractmethod
    def residual(self) -> float:
        """How far the last steps went; not finite before the first."""

    @abstractmethod
    def step(self, state: RoundState, iteration: int, rng: np.random.Generator) -> RoundState:
        """Do a round."""

    @abstractmethod
    def _update(self) -> None:
        """Bring the lower bound up to date; begin, at the first time."""

    def init(self, rng: np.random.Generator) -> RoundState:
        """Return a state that knows nothing; the first check begins the work."""
        self._rng = rng
        return RoundState(0)

    def check(self, state: RoundState) -> tuple[RoundState, float]:
        """Return the cost of the best point so far, with the lower bound brought up to date."""
        before = self.lower, self.upper
        self._update()
        self.lower_bounds.append(self.lower)
        still = (self.lower, self.upper) == before
        return RoundState(state.waited + 1 if still else 0), self.upper

    def status(self, state: RoundState) -> Status | None:
        """Stop when the gap is small enough, or nothing moves any more."""
        if self.gap <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.waited >= PATIENCE else None

    def is_finite(self, state: RoundState) -> bool:
        """Return whether the last steps met finite values."""
        return math.isfinite(self.residual)

    def weights(self, state: RoundState) -> None:  # noqa: B027
        """Return None: there are no weights of sources."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints."""
        return ""

    def _raise_to(self, bound: float) -> None:
        """Keep a lower bound, if it is the best so far."""
        self.lower = max(self.lower, min(bound, self.upper))
