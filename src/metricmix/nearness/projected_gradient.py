r"""Minimisation over metrics: a base class for solvers, and spectral projected gradients.

.. math:: \min_x \; f(x) \qquad x \text{ a metric}

Metrics are a convex cone and the nearest metric is the projection N onto it. With a step
:math:`\lambda`, :math:`p = N(x - \lambda \nabla f(x)) - x` is a descent direction along which every
point is a metric. The step is that of Barzilai and Borwein, and the line search along p accepts
what improves on the worst of the last few values (Birgin, Martínez and Raydan). A point with p = 0
is the minimum if f is convex, and stationary otherwise. Where no step along p improves, because f
is not smooth, a subgradient step of decreasing length is taken and the best point kept. That is
slow; :mod:`~metricmix.nearness.splitting` handles convex non-smooth terms.

Lower bounds: the duals of a projection give a vector u with :math:`u^T x \le 0` for all metrics x.
If f is separable, over the metrics with entries of at most U

.. math:: f(x) \ge f(x) + u^T x \ge \sum_e \min_{0 \le s \le U} f_e(s) + u_e s

and otherwise, with any tangent :math:`f(x) \ge c + r^T x` of a convex f,

.. math:: f(x) \ge c + U \sum_e \min(0, r_e + u_e)

For separable costs that are convex and do not decrease for ever, some solution has entries of at
most some U (:meth:`~metricmix.nearness.pair_objective.SeparableCosts.ceiling`). If the objective is
declared convex, the bound is proved. Otherwise the longest entry stands in for U, and the distance
between bound and value is only a stopping criterion: it is 0 where an iteration is stationary,
convex or not.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.pair_objective import PairObjective, SeparableCosts, separable_minimum
from metricmix.nearness.problem import pairs_of
from metricmix.nearness.projection import NO_DUALS, Duals, Projection, project_onto_metrics
from metricmix.solvers.loop import Certificate, Solver
from metricmix.solvers.result import Status
from metricmix.typing import Floats, Ints

__all__ = ["MetricMinimizer", "MinimizerState", "ProjectedGradient", "ProjectedGradientState"]


POWERS = range(-60, 61, 2)
"""Powers of two at which the scale of a start is tried."""
ALIKE, WORTHWHILE = 10, 0.01
"""Powers of two that the scale may be off; and the gain that a new scale must give."""


@dataclass
class MinimizerState:
    """The best metric and its value, the value at the start, and the lower bound.

    `room` is the distance between value and bound, proved or estimated; `triangles` and
    `multipliers` are the duals of the last projection.
    """

    best: Floats
    best_value: float
    start_value: float
    lower: float
    room: float
    accuracy: float
    triangles: Ints
    multipliers: Floats


State = TypeVar("State", bound=MinimizerState)


class MetricMinimizer(Solver[State]):
    """Base of the solvers that minimise an objective over the metrics on n items.

    Parameters
    ----------
    objective : PairObjective
    start : (n, n) array
        Dissimilarities; the solver starts at the nearest metric. If the objective is convex, they
        are first scaled to where the objective is smallest.
    convex : bool
        Whether the objective is convex, or looks so.
    tol : float
        Stop when no metric is better by more than this share of the objective, as far as known.
    pool : ThreadPool
    """

    name: str
    returns = "last"
    default_max_iter = 2000

    def __init__(
        self, objective: PairObjective, start: Floats, *, convex: bool, tol: float, pool: ThreadPool
    ) -> None:
        self.objective, self.tol, self.pool = objective, tol, pool
        given = pairs_of(start)
        self.start = well_scaled(objective, given) if convex else given
        sizes = (float(np.abs(values).max(initial=0.0)) for values in (given, self.start))
        self.size = max(sizes) or 1.0
        self.costs = SeparableCosts(objective) if objective.separable and convex else None
        self.ceiling = math.inf
        if self.costs is not None:
            self.ceiling = self.costs.ceiling(float(self.start.max(initial=0.0)))
        self.proves = objective.objective.convex and math.isfinite(self.ceiling)

    def check(self, state: State) -> tuple[State, float]:
        """Return the best value so far."""
        return state, state.best_value

    def certificate(self, state: State) -> Certificate | None:
        """Return the proved bound and the relative gap, if there is one."""
        if not self.proves:
            return None
        room = max(0.0, state.best_value - state.lower)
        gap = room / max(abs(state.best_value), np.finfo(np.float64).tiny) if room else 0.0
        return Certificate(state.lower, gap)

    def status(self, state: State) -> Status | None:
        """Stop when nothing is left to gain."""
        # A gap is relative to the objective, or to a share of the gain since the start.
        gained = 1e-4 * (state.start_value - state.best_value)
        small = self.tol * max(abs(state.best_value), gained)
        return Status.CONVERGED if state.room <= small else None

    def is_finite(self, state: State) -> bool:
        """Return whether the last step met finite values."""
        return not math.isnan(state.room)

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        digest = hashlib.sha256(self.objective.objective.fingerprint() + self.start.tobytes())
        digest.update(repr((self.name, self.tol)).encode())
        return digest.hexdigest()

    def initial(self, x: Floats, value: float, accuracy: float) -> dict[str, Any]:
        """Return the fields of :class:`MinimizerState` at the start."""
        return {
            "best": x,
            "best_value": value,
            "start_value": value,
            "lower": -math.inf,
            "room": math.inf if math.isfinite(value) else math.nan,
            "accuracy": accuracy,
            "triangles": NO_DUALS.triangles,
            "multipliers": NO_DUALS.multipliers,
        }

    def improved(self, state: State, x: Floats, value: float) -> dict[str, Any]:
        """Return the best of the best metric so far and x, as fields of the state."""
        if value < state.best_value:
            return {"best": x, "best_value": value}
        return {"best": state.best, "best_value": state.best_value}

    def bounded(
        self,
        state: State,
        iteration: int,
        x: Floats,
        value: float,
        u: Floats,
        tangent: tuple[float, Floats],
    ) -> dict[str, Any]:
        """Return bound and room after a step that found this value at x, as fields of the state."""
        if not math.isfinite(value):
            return {"room": math.nan}
        if self.costs is None or math.isinf(self.ceiling):
            constant, slope = tangent
            top = max(float(x.max(initial=0.0)), self.size)
            lower = constant + top * float(np.minimum(slope + u, 0.0).sum())
            # If f is not convex, `lower` may exceed the value. Scaling x must not help either.
            return {"room": abs(value - lower) + abs(float(slope @ x))}
        # The bound is evaluated in the first steps, then in every fifth.
        if iteration >= 5 and iteration % 5:
            return {}
        least, error = separable_minimum(self.costs, u, self.ceiling, x)
        lower = max(state.lower, least - error)
        room = min(value, state.best_value) - max(state.lower, least)
        return {"lower": lower, "room": max(0.0, room)}


def well_scaled(objective: PairObjective, start: Floats) -> Floats:
    """Return the start at the scale with the smallest objective; ones, if nothing is positive.

    A start that is far too small or too large costs digits. The start stays as it is if its scale
    is about right, or if the smallest scale, or the largest, would be the best.
    """
    size = float(start.max(initial=0.0))
    base = np.maximum(start, 0.0) / size if size > 0 else np.ones_like(start)
    with np.errstate(all="ignore"):
        found = [objective.value_and_gradient(np.ldexp(base, power))[0] for power in POWERS]
    values = np.where(np.isfinite(found), found, np.inf)
    best = int(values.argmin())
    alike = size > 0 and abs(POWERS[best] - math.log2(size)) <= ALIKE
    ends = min(values[0], values[-1])
    if alike or not values[best] < ends - WORTHWHILE * abs(ends):
        return start if size > 0 else base
    return np.ldexp(base, POWERS[best])


# -- spectral projected gradients ---------------------------------------------------------------

MEMORY = 10
"""A step has to improve on the worst of this many values."""
FIRST_STEP, LONGEST, SHORTEST = 0.1, 1e6, 1e-10
"""Steps, as shares of the one that moves the metric by its own size."""
COARSE, FINE, FINER = 1e-6, 1e-13, 1e-3
"""Accuracy of projections: of the first, of the last, and relative to the step."""


@dataclass
class ProjectedGradientState(MinimizerState):
    """The point, its value and gradient, the step, the last values, and subgradient steps."""

    x: Floats
    value: float
    gradient: Floats
    step: float
    history: Floats
    subgradient_steps: int


class ProjectedGradient(MetricMinimizer[ProjectedGradientState]):
    """Spectral projected gradients; see the module."""

    state_type = ProjectedGradientState
    name = "projected"

    def init(self, rng: np.random.Generator) -> ProjectedGradientState:
        """Return the metric nearest to the start, with a step that moves it a little."""
        x = self.project(self.start, NO_DUALS, FINE).metric
        value, gradient = self.objective.value_and_gradient(x)
        return ProjectedGradientState(
            **self.initial(x, value, COARSE),
            x=x,
            value=value,
            gradient=gradient,
            step=FIRST_STEP * unit_step(x, gradient),
            history=history_of(value, 0),
            subgradient_steps=0,
        )

    def step(
        self, state: ProjectedGradientState, iteration: int, rng: np.random.Generator
    ) -> ProjectedGradientState:
        """Project a gradient step and search between it and the point."""
        x, gradient, step = state.x, state.gradient, state.step
        goal = x - step * gradient
        if not float(np.abs(goal).max(initial=0.0)) < 1e30 * self.size:  # diverges, or NaN
            return replace(state, room=np.nan)
        projection = self.project(goal, Duals(state.triangles, state.multipliers), state.accuracy)
        along = projection.metric - x
        tangent = (state.value - float(gradient @ x), gradient)
        moved = float(np.linalg.norm(along)) / (float(np.linalg.norm(projection.metric)) or 1.0)
        state = replace(
            state,
            **self.bounded(state, iteration, x, state.value, projection.pull / step, tangent),
            triangles=projection.duals.triangles,
            multipliers=projection.duals.multipliers,
            accuracy=max(FINE, min(COARSE, FINER * moved)),
        )
        if self.status(state) is not None:
            return state
        slope = min(0.0, float(gradient @ along))
        share = 1.0
        while share > 1e-10:
            value, new_gradient = self.objective.value_and_gradient(x + share * along)
            if value <= state.history.max() + 1e-4 * share * slope:
                return self.moved(state, iteration, x + share * along, value, new_gradient)
            share *= 0.5
        return self.subgradient_step(state, iteration)

    def moved(
        self,
        state: ProjectedGradientState,
        iteration: int,
        x: Floats,
        value: float,
        gradient: Floats,
    ) -> ProjectedGradientState:
        """Return the state at x, with the Barzilai-Borwein step."""
        s, y = x - state.x, gradient - state.gradient
        curvature, unit = float(s @ y), unit_step(x, gradient)
        step = float(s @ s) / curvature if curvature > 0 else np.inf
        history = state.history.copy()
        history[(iteration + 1) % MEMORY] = value
        return replace(
            state,
            **self.improved(state, x, value),
            room=state.room if self.proves else np.inf,  # an estimate holds at its point only
            x=x,
            value=value,
            gradient=gradient,
            step=float(np.clip(step, SHORTEST * unit, LONGEST * unit)),
            history=history,
        )

    def subgradient_step(
        self, state: ProjectedGradientState, iteration: int
    ) -> ProjectedGradientState:
        """Step along the subgradient from the best point, with decreasing length."""
        _, gradient = self.objective.value_and_gradient(state.best)
        step = FIRST_STEP / (state.subgradient_steps + 1.0) * unit_step(state.best, gradient)
        duals = Duals(state.triangles, state.multipliers)
        x = self.project(state.best - step * gradient, duals, state.accuracy).metric
        value, gradient = self.objective.value_and_gradient(x)
        after = self.moved(state, iteration, x, value, gradient)
        return replace(
            after,
            history=history_of(value, iteration + 1),
            step=step,
            subgradient_steps=state.subgradient_steps + 1,
        )

    def project(self, v: Floats, duals: Duals, accuracy: float) -> Projection:
        """Return the nearest metric."""
        return project_onto_metrics(v, None, self.objective.n, self.pool, duals, accuracy)


def unit_step(x: Floats, gradient: Floats) -> float:
    """Return the step that moves x by its own size; 1 if the gradient is 0."""
    size, slope = float(np.linalg.norm(x)), float(np.linalg.norm(gradient))
    return (size or 1.0) / slope if slope > 0 else 1.0


def history_of(value: float, iteration: int) -> Floats:
    """Return a history of one value."""
    history = np.full(MEMORY, -np.inf)
    history[iteration % MEMORY] = value
    return history
