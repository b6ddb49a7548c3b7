"""What changes while the linear program of a relaxation is solved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from metricmix.relaxations.primal_dual import LinearProgram, PrimalDual
from metricmix.typing import Floats, Ints

__all__ = ["Best", "RelaxationState", "RowGenerationState"]


@dataclass
class Best:
    """The best found so far, as costs to minimise; valid at any time, and updated in place.

    Attributes
    ----------
    bound : float
        Lower bound of the optimum of the linear program.
    cost, lengths : float, (m,) array
        The best feasible point.
    labels, labels_cost : (n,) array, float
        The best clusters or cut.
    """

    bound: float
    cost: float
    lengths: Floats
    labels: Ints
    labels_cost: float

    def offer(self, cost: float, lengths: Floats) -> None:
        """Take a feasible point if it is the best so far."""
        if cost < self.cost:
            self.cost, self.lengths = cost, lengths

    def raise_bound(self, bound: float) -> None:
        """Take a lower bound if it is the best so far."""
        self.bound = max(self.bound, min(bound, self.cost))


@dataclass(kw_only=True)
class RelaxationState(ABC):
    """What changes while a linear program is solved; steps update it in place.

    Attributes
    ----------
    best : Best
    rng : Generator
        That of the run, for the first check.
    started : bool
        Whether the first check is done.
    unchanged : int
        Checks since a bound changed.
    previous : tuple of float
        Both bounds at the last check.
    """

    best: Best
    rng: np.random.Generator
    started: bool = False
    unchanged: int = 0
    previous: tuple[float, float] = (math.nan, math.nan)

    @property
    @abstractmethod
    def residual(self) -> float:
        """The residual of the last step; it is not finite if the method diverged."""

    @abstractmethod
    def is_whole(self) -> bool:
        """Return whether there are dual variables that fit the program, wherever the run ended."""


@dataclass(kw_only=True)
class RowGenerationState(RelaxationState):
    """The state of a solver that adds violated constraints to a linear program.

    Attributes
    ----------
    program : LinearProgram
        With the constraints found so far.
    iterates : PrimalDual, optional
        None before the first check.
    worst : float
        The largest violation at the last search.
    wait, waited : int
        Rounds from one search to the next, and rounds since the last one.
    """

    program: LinearProgram
    iterates: PrimalDual | None = None
    worst: float = 1.0
    wait: int = 1
    waited: int = 0

    @property
    def residual(self) -> float:
        """The residual of the last step."""
        return math.inf if self.iterates is None else self.iterates.restarts.residual

    def is_whole(self) -> bool:
        """Return whether every row has a dual variable."""
        return self.iterates is not None and len(self.iterates.z.image) == self.program.n_rows

    def search_is_due(self) -> bool:
        """Count a round; return whether to search in it."""
        self.waited += 1
        return self.waited >= self.wait

    def searched(self, new_rows: int) -> None:
        """Note a search: the next one is due at once after new rows, else later than before."""
        self.waited = 0
        self.wait = 1 if new_rows else min(2 * self.wait, 8)
