r"""Smooth objectives over metrics: spectral projected gradients.

.. math:: \min_x \; f(x) \qquad x \text{ a metric}

Metrics are a convex cone and the nearest metric is its projection N, so that projected gradients
apply: with a step :math:`\lambda`, :math:`p = N(x - \lambda \nabla f(x)) - x` is a direction of
descent along which every point is a metric. The step is the spectral one of Barzilai and Borwein,
and the search along p accepts what improves on the worst of the last few values (Birgin, Martínez
and Raydan). A point with p = 0 is the minimum if f is convex, and stationary otherwise.

At a kink, where no step along p improves, a sub-gradient step of falling length is taken and the
best point kept. That is slow; :mod:`~metricmix.nearness.splitting` is the way over
kinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from metricmix.kernels.threads import Crew
from metricmix.nearness.checkpoints import Kept
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.iteration import Found, OverMetrics
from metricmix.nearness.losses import Squares
from metricmix.nearness.problem import Problem
from metricmix.typing import Floats, Ints

__all__ = ["NO_DUALS", "Duals", "Nearest", "Projected", "ProjectedState", "nearest_pairs"]


MEMORY = 10
"""Values that a step has to improve on the worst of."""
SUFFICIENT = 1e-4
SMALLEST_SHARE = 1e-10
FIRST_STEP, LONGEST, SHORTEST = 0.1, 1e6, 1e-10
"""Steps, as shares of what would move the metric by its own size."""
HUGE = 1e30
"""Metrics that are so many times larger than at the start are on their way to infinity."""
COARSE, FINE, FINER = 1e-6, 1e-13, 1e-3
"""Accuracy of projections: of the first, of the last, and relative to the move."""


@dataclass
class ProjectedState(Found):
    """The point, its value and gradient, the step, the last values, kinks met, and duals."""

    x: Floats
    value: float
    gradient: Floats
    step: float
    history: Floats
    kinks: int
    accuracy: float
    triples: Ints
    multipliers: Floats


class Projected(OverMetrics[ProjectedState]):
    """Spectral projected gradients; see the module."""

    state_type = ProjectedState
    name = "projected"

    def init(self, rng: np.random.Generator) -> ProjectedState:
        """Return the nearest metric to the start, with a step that moves it a little."""
        x = self._nearest(self.start, NO_DUALS, FINE).metric
        value, gradient = self.over.value_and_gradient(x)
        return ProjectedState(
            **self._found_at(x, value),
            x=x,
            value=value,
            gradient=gradient,
            step=FIRST_STEP * _own_size(x, gradient),
            history=_only(value, 0),
            kinks=0,
            accuracy=COARSE,
            triples=NO_DUALS.triples,
            multipliers=NO_DUALS.multipliers,
        )

    def step(
        self, state: ProjectedState, iteration: int, rng: np.random.Generator
    ) -> ProjectedState:
        """Project a gradient step and search between it and the point."""
        x, gradient, step = state.x, state.gradient, state.step
        duals = Duals(state.triples, state.multipliers)
        goal = x - step * gradient
        if not float(np.abs(goal).max(initial=0.0)) < HUGE * self.size:  # falls for ever, or NaN
            return replace(state, room=np.nan)
        nearest = self._nearest(goal, duals, state.accuracy)
        along = nearest.metric - x
        tangent = (state.value - float(gradient @ x), gradient)
        moved = float(np.linalg.norm(along)) / (float(np.linalg.norm(nearest.metric)) or 1.0)
        state = replace(
            state,
            **self._bounded(state, iteration, x, state.value, nearest.pull / step, tangent),
            triples=nearest.duals.triples,
            multipliers=nearest.duals.multipliers,
            accuracy=max(FINE, min(COARSE, FINER * moved)),
        )
        if self.status(state) is not None:
            return state
        slope = min(0.0, float(gradient @ along))
        share = 1.0
        while share > SMALLEST_SHARE:
            value, turned = self.over.value_and_gradient(x + share * along)
            if value <= state.history.max() + SUFFICIENT * share * slope:
                return self._taken(state, iteration, x + share * along, value, turned)
            share *= 0.5
        return self._over_kink(state, iteration)

    def _taken(
        self, state: ProjectedState, iteration: int, x: Floats, value: float, gradient: Floats
    ) -> ProjectedState:
        """Return the state at x, with the spectral step."""
        way, turn = x - state.x, gradient - state.gradient
        curvature, own = float(way @ turn), _own_size(x, gradient)
        step = float(way @ way) / curvature if curvature > 0 else np.inf
        history = state.history.copy()
        history[(iteration + 1) % MEMORY] = value
        return replace(
            state,
            **self._offered(state, x, value),
            room=state.room if self.proves else np.inf,  # what was left there says nothing here
            x=x,
            value=value,
            gradient=gradient,
            step=float(np.clip(step, SHORTEST * own, LONGEST * own)),
            history=history,
        )

    def _over_kink(self, state: ProjectedState, iteration: int) -> ProjectedState:
        """Step along the sub-gradient from the best point, ever shorter."""
        _, gradient = self.over.value_and_gradient(state.best)
        step = FIRST_STEP / (state.kinks + 1.0) * _own_size(state.best, gradient)
        duals = Duals(state.triples, state.multipliers)
        x = self._nearest(state.best - step * gradient, duals, state.accuracy).metric
        value, gradient = self.over.value_and_gradient(x)
        after = self._taken(state, iteration, x, value, gradient)
        history = _only(value, iteration + 1)
        return replace(after, history=history, step=step, kinks=state.kinks + 1)

    def _nearest(self, v: Floats, duals: Duals, accuracy: float) -> Nearest:
        return nearest_pairs(v, None, self.over.n, self.crew, duals, accuracy)


def _own_size(x: Floats, gradient: Floats) -> float:
    """Return the step that moves x by its own size, or 1 where there is none."""
    size, slope = float(np.linalg.norm(x)), float(np.linalg.norm(gradient))
    return (size or 1.0) / slope if slope > 0 else 1.0


def _only(value: float, iteration: int) -> Floats:
    """Return a history of one value."""
    history = np.full(MEMORY, -np.inf)
    history[iteration % MEMORY] = value
    return history


# -- the nearest metric, again and again: the projection that iterations over metrics step with -


MAX_ROUNDS = 300
ROUNDING = 4 * float(np.finfo(np.float64).eps)


class Duals(NamedTuple):
    """Triangles (i, j, k) and their multipliers."""

    triples: Ints
    multipliers: Floats


NO_DUALS = Duals(np.empty((0, 3), np.int32), np.empty(0))


class Nearest(NamedTuple):
    r"""A metric, and what proves that it is near.

    `pull` is :math:`A^T z` for the duals :math:`z \ge 0`: its product with any metric is at most 0.
    Up to the accuracy, it is :math:`w (v - N(v))`.
    """

    metric: Floats
    pull: Floats
    duals: Duals


def nearest_pairs(
    v: Floats, w: Floats | None, n: int, crew: Crew, duals: Duals, accuracy: float
) -> Nearest:
    """Return the metric nearest to numbers of any sign, by pairs.

    Parameters
    ----------
    v : (pairs,) array
    w : (pairs,) array, optional
        Weights > 0; default 1.
    n : int
    crew : Crew
    duals : Duals
        Of a problem like it, to start from.
    accuracy : float
        Distance from the exact projection, as a share of the largest entry and per pair.
    """
    unit = float(np.abs(v).max(initial=0.0))
    if n < 3 or unit == 0.0:
        metric = np.maximum(v, 0.0)
        return Nearest(metric, (1.0 if w is None else w) * (v - metric), NO_DUALS)
    even = w is None
    h = np.ones_like(v) if w is None else w
    problem = Problem(n, v / unit, h, None, None, even, unit, 1.0)
    start = Kept(None, duals.triples, duals.multipliers / unit)
    solver = DualAscent(Squares(problem, crew.threads), crew, tol=0.0, start=start)
    # f has curvature 2 w: its value is as far from the minimum as the point, squared.
    close = accuracy**2 * float(h.sum())
    rng = np.random.default_rng(0)
    state, _ = solver.check(solver.init(rng))
    for iteration in range(MAX_ROUNDS):
        if solver.upper - solver.lower <= max(close, ROUNDING * solver.upper):
            break
        if solver.status(state) is not None:
            break
        state, _ = solver.check(solver.step(state, iteration, rng))
    metric = unit * solver.finish()
    if solver.ascent is None:
        return Nearest(metric, np.zeros_like(v), NO_DUALS)
    triples, multipliers = solver.triangles()
    assert solver.rows is not None
    pull = unit * solver.rows.transposed()
    return Nearest(metric, pull, Duals(triples, multipliers * unit))
