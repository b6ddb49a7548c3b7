"""Iterates of restarted primal-dual methods, and when such a method restarts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from metricmix.typing import Floats

__all__ = ["DualIterate", "PrimalIterate", "Restarts"]

SUFFICIENT, NECESSARY = 0.04, 0.2
"""Restart when the residual has fallen to the first share of its first value since the anchor; or
to the second, once it rises again."""


class PrimalIterate(NamedTuple):
    """Where the primal variables are, their anchor, T of the last iterate, and 2 T(v) - v."""

    current: Floats
    anchor: Floats
    image: Floats
    extrapolated: Floats

    @classmethod
    def anchored(cls, v: Floats) -> PrimalIterate:
        """Return the iterate at a restart from v."""
        return cls(v.copy(), v.copy(), v, np.empty(len(v)))


class DualIterate(NamedTuple):
    """Where the dual variables are, their anchor, and T of the last iterate."""

    current: Floats
    anchor: Floats
    image: Floats

    @classmethod
    def anchored(cls, z: Floats) -> DualIterate:
        """Return the iterate at a restart from z."""
        return cls(z.copy(), z.copy(), z)


@dataclass
class Restarts:
    """When to restart, and the primal weight.

    Attributes
    ----------
    omega : float
        Primal weight; about the size of the duals over that of the primal variables.
    steps, since : int
        Steps in all, and since the last restart.
    residual, first : float
        Of the last step (inf before any); of the first check since the last restart (nan before
        it).
    """

    omega: float
    steps: int = 0
    since: int = 0
    residual: float = math.inf
    first: float = math.nan

    def is_due(self, steps: int, primal: float, dual: float) -> bool:
        """Count some more steps, the last with these sums; return whether to restart."""
        self.since += steps
        self.steps += steps
        before, self.residual = self.residual, self.omega * primal + dual / self.omega
        if math.isnan(self.first):
            self.first = self.residual
        fallen = self.residual <= SUFFICIENT * self.first
        rising = self.residual <= NECESSARY * self.first and self.residual > before
        long = self.since >= 0.36 * self.steps
        return fallen or rising or long

    def restart(self, primal: float = 0.0, dual: float = 0.0) -> None:
        """Start to count anew; update the primal weight, if both sides have moved.

        `primal` and `dual` are the weighted squared distances from the anchor. The new weight is
        the geometric mean of the old one and of that which balances them.
        """
        if primal > 0.0 and dual > 0.0:
            self.omega = math.sqrt(self.omega * math.sqrt(dual / primal))
        self.since, self.first = 0, math.nan
