r"""What iterations over metrics share: the best metric, a bound, and when to stop.

The duals of a projection give a pull u with :math:`u^T w \le 0` for all metrics w. So, if f is
separable, over the metrics that are nowhere longer than U

.. math:: f(w) \ge f(w) + u^T w \ge \sum_e \min_{0 \le x \le U} f_e(x) + u_e x

and if it is not, with any tangent :math:`f(w) \ge c + r^T w` of a convex f,

.. math:: f(w) \ge c + U \sum_e \min(0, r_e + u_e)

For separable costs that are convex, and do not fall for ever, there is a U that some solution keeps
(:meth:`~metricmix.nearness.pairwise.PairCosts.ceiling`). Where the objective says
that it is convex, that proves a bound. Otherwise, the longest entry may stand in for U, and the
room between bound and value only says when to stop: it is 0 where an iteration comes to rest,
convex or not.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from metricmix.kernels.threads import Crew
from metricmix.nearness.pairwise import OverPairs, PairCosts, least_with
from metricmix.nearness.problem import pairs_of
from metricmix.solvers.loop import Solver
from metricmix.solvers.result import Status
from metricmix.typing import Floats

__all__ = ["Found", "OverMetrics"]


Tangent = tuple[float, Floats]

LOOK = 5
"""Steps from one look at the bound to the next, after as many first ones."""
POWERS = range(-60, 61, 2)
"""Powers of two that a start is tried at."""
ALIKE, WORTHWHILE = 10, 0.01
"""How many of them it may be off; and what a size must gain over none."""
SMALL = 1e-4
"""A gap counts relative to the objective, or to this share of the gain since the start."""


@dataclass
class Found:
    """The best metric, its value, that of the start, the proved bound, and the room left below."""

    best: Floats
    best_value: float
    start_value: float
    lower: float
    room: float


State = TypeVar("State", bound=Found)


class OverMetrics(Solver[State]):
    """Base of the iterations over the metrics on n items.

    Parameters
    ----------
    over : OverPairs
        The objective.
    start : (n, n) array
        Dissimilarities; the iteration starts at the nearest metric. If the objective is convex it
        is scaled first, to where the objective is least.
    convex : bool
        Whether the objective is convex, or looks so.
    tol : float
        Stop when no metric is better by more than this share of the objective, as far as one can
        tell.
    crew : Crew
    """

    name: str
    returns = "last"

    def __init__(
        self, over: OverPairs, start: Floats, *, convex: bool, tol: float, crew: Crew
    ) -> None:
        self.over, self.tol, self.crew = over, tol, crew
        given = pairs_of(start)
        self.start = _well_scaled(over, given) if convex else given
        sizes = (float(np.abs(values).max(initial=0.0)) for values in (given, self.start))
        self.size = max(sizes) or 1.0
        self.costs = PairCosts(over) if over.separable and convex else None
        self.ceiling = math.inf
        if self.costs is not None:
            self.ceiling = self.costs.ceiling(float(self.start.max(initial=0.0)))
        self.proves = over.objective.convex and math.isfinite(self.ceiling)

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """Return the first state."""

    @abstractmethod
    def step(self, state: State, iteration: int, rng: np.random.Generator) -> State:
        """Return the next state."""

    def check(self, state: State) -> tuple[State, float]:
        """Return the best value so far."""
        return state, state.best_value

    def details(self, state: State) -> dict[str, float]:
        """Return the proved bound for the trace, if there is one."""
        return {"lower_bound": state.lower} if self.proves else {}

    def status(self, state: State) -> Status | None:
        """Stop when nothing is left to gain."""
        gained = SMALL * (state.start_value - state.best_value)
        small = self.tol * max(abs(state.best_value), gained)
        return Status.CONVERGED if state.room <= small else None

    def gap(self, state: State) -> float | None:
        """Return the proved gap, relative to the objective; None if there is no bound."""
        if not (self.proves and math.isfinite(state.lower)):
            return None
        room = max(0.0, state.best_value - state.lower)
        return room / max(abs(state.best_value), np.finfo(np.float64).tiny) if room else 0.0

    def is_finite(self, state: State) -> bool:
        """Return whether the last step met finite values."""
        return not math.isnan(state.room)

    def weights(self, state: State) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        digest = hashlib.sha256(self.over.objective.fingerprint() + self.start.tobytes())
        digest.update(repr((self.name, self.tol)).encode())
        return digest.hexdigest()

    def _found_at(self, x: Floats, value: float) -> dict[str, Any]:
        """Return what is known at the start."""
        return {
            "best": x,
            "best_value": value,
            "start_value": value,
            "lower": -math.inf,
            "room": math.inf if math.isfinite(value) else math.nan,
        }

    def _offered(self, state: State, x: Floats, value: float) -> dict[str, Any]:
        """Return the better of the best metric and x."""
        if value < state.best_value:
            return {"best": x, "best_value": value}
        return {"best": state.best, "best_value": state.best_value}

    def _bounded(
        self, state: State, iteration: int, x: Floats, value: float, pull: Floats, tangent: Tangent
    ) -> dict[str, Any]:
        """Return what a step that found a value at x knows of the minimum."""
        if not math.isfinite(value):
            return {"room": math.nan}
        if self.costs is None or math.isinf(self.ceiling):
            constant, slope = tangent
            top = max(float(x.max(initial=0.0)), self.size)
            lower = constant + top * float(np.minimum(slope + pull, 0.0).sum())
            # If f is not convex, there may be less than none. Nor must scaling the metric help.
            return {"room": abs(value - lower) + abs(float(slope @ x))}
        if iteration >= LOOK and iteration % LOOK:
            return {}
        least, error = least_with(self.costs, pull, self.ceiling, x)
        lower = max(state.lower, least - error)
        room = min(value, state.best_value) - max(state.lower, least)
        return {"lower": lower, "room": max(0.0, room)}


def _well_scaled(over: OverPairs, start: Floats) -> Floats:
    """Return a start of a size that costs least; ones, where nothing is positive.

    A start that is far too small or too large costs digits. If it is neither, or if nothing, or no
    limit, would cost least, it stays as it is.
    """
    size = float(start.max(initial=0.0))
    base = np.maximum(start, 0.0) / size if size > 0 else np.ones_like(start)
    with np.errstate(all="ignore"):
        found = [over.value_and_gradient(np.ldexp(base, power))[0] for power in POWERS]
    values = np.where(np.isfinite(found), found, np.inf)
    best = int(values.argmin())
    alike = size > 0 and abs(POWERS[best] - math.log2(size)) <= ALIKE
    ends = min(values[0], values[-1])
    if alike or not values[best] < ends - WORTHWHILE * abs(ends):
        return start if size > 0 else base
    return np.ldexp(base, POWERS[best])
