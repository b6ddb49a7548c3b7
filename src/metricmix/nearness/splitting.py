r"""Convex non-smooth objectives over metrics: operator splitting.

.. math:: \min_{x, y} \; \sum_t f_t(y_t) \qquad y_t = x_t \text{ for all terms t}, \quad
          x \text{ a metric}

Every term has copies :math:`y_t` of its distances (if every term has a single one, the terms of a
pair share a copy). From s, one number per copy,

.. math:: x = N(\bar s), \qquad y = \operatorname{prox}_{f / \sigma}(2 x - s), \qquad
          T(s) = s + 2 (y - x)

with :math:`\bar s` the mean over the copies of a pair and N the nearest metric, weighted by their
number. T is the operator of Peaceman and Rachford; at its fixed points x = y is a minimum. It need
not converge by itself. Halpern's iteration, which mixes in the anchor :math:`s_0`, does,

.. math:: s_{k+1} = \tfrac{1}{k+2} s_0 + \tfrac{k+1}{k+2} T(s_k)

and with restarts whenever the residual :math:`\|y - x\|` has decreased enough, it converges at a
linear rate for piecewise linear or quadratic costs. Every restart balances :math:`\sigma`, so that
x and the duals move alike.

Proximal points come with a tangent of f, of slope :math:`\xi = \sigma (2 x - s - y)`, for the bound
in :mod:`~metricmix.nearness.projected_gradient`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.pair_objective import (
    PairObjective,
    prox_separable,
    prox_terms,
    sum_by_index,
    with_zero,
)
from metricmix.nearness.projected_gradient import MetricMinimizer, MinimizerState
from metricmix.nearness.projection import NO_DUALS, Duals, Projection, project_onto_metrics
from metricmix.typing import Floats

__all__ = ["Splitting", "SplittingState"]


ENOUGH, SOME = 0.2, 0.6
"""Restart when the residual has decreased to the first share, or to the second and increases."""
LONG, LEAST = 0.3, 5
"""Or after this share of all steps, and that many."""
COARSE, FINE, FINER = 1e-5, 1e-13, 0.05
"""Accuracy of projections: of the first, of the last, and relative to the residual."""


@dataclass
class SplittingState(MinimizerState):
    """The iterate and the anchor.

    `s` and `anchor` are the iterate now and at the last restart, `anchor_metric` the metric then,
    `y` the last proximal points, `age` the steps since, `first` and `last` the residuals after the
    restart and one step ago.
    """

    s: Floats
    anchor: Floats
    anchor_metric: Floats
    y: Floats
    sigma: float
    age: int
    first: float
    last: float


class Splitting(MetricMinimizer[SplittingState]):
    """Peaceman-Rachford splitting with restarted Halpern iteration; see the module."""

    state_type = SplittingState
    name = "splitting"

    def __init__(
        self, objective: PairObjective, start: Floats, *, convex: bool, tol: float, pool: ThreadPool
    ) -> None:
        super().__init__(objective, start, convex=convex, tol=tol, pool=pool)
        # One copy per pair if the objective is separable; else one per argument of a term, and one
        # per pair without a cost.
        every = np.arange(objective.pairs)
        self.places = every if objective.separable else np.append(objective.where.ravel(), every)
        copies = np.bincount(self.places, minlength=objective.pairs + 1)[: objective.pairs]
        self.copies = None if (copies == 1).all() else copies.astype(np.float64)

    def init(self, rng: np.random.Generator) -> SplittingState:
        """Return the metric nearest to the start, and sigma from the sizes of slope and metric."""
        x = self.project(self.start, NO_DUALS, FINE).metric
        value, gradient = self.objective.value_and_gradient(x)
        size, slope = float(np.linalg.norm(x)), float(np.linalg.norm(gradient))
        s = with_zero(x)[self.places]
        return SplittingState(
            **self.initial(x, value, COARSE),
            s=s,
            anchor=s,
            anchor_metric=x,
            y=s,
            sigma=slope / size if slope > 0 and size > 0 else 1.0,
            age=0,
            first=np.inf,
            last=np.inf,
        )

    def step(
        self, state: SplittingState, iteration: int, rng: np.random.Generator
    ) -> SplittingState:
        """Apply the operator once, then mix in the anchor or restart."""
        mean = state.s if self.copies is None else self.sum_copies(state.s) / self.copies
        duals = Duals(state.triangles, state.multipliers)
        projection = self.project(mean, duals, state.accuracy)
        x = projection.metric
        copied = with_zero(x)[self.places]
        y, cost = self.prox(2.0 * copied - state.s, state.sigma, state.y)
        residual = float(np.linalg.norm(y - copied))
        size = float(np.linalg.norm(copied)) or 1.0
        value, _ = self.objective.value_and_gradient(x)
        xi = state.sigma * (2.0 * copied - state.s - y)
        tangent = (cost - float(xi @ y), self.sum_copies(xi))
        state = replace(
            state,
            **self.improved(state, x, value),
            **self.bounded(state, iteration, x, value, state.sigma * projection.pull, tangent),
            y=y,
            triangles=projection.duals.triangles,
            multipliers=projection.duals.multipliers,
            accuracy=max(FINE, min(COARSE, FINER * residual / size)),
        )
        enough = residual <= ENOUGH * state.first
        increases = residual <= SOME * state.first and residual > state.last
        if state.age > 0 and (enough or increases or state.age > LONG * iteration + LEAST):
            return self.restarted(state, x, copied)
        moved = (state.anchor + (state.age + 1) * (state.s + 2.0 * (y - copied))) / (state.age + 2)
        first = residual if state.age == 0 else state.first
        return replace(state, s=moved, age=state.age + 1, first=first, last=residual)

    def restarted(self, state: SplittingState, x: Floats, copied: Floats) -> SplittingState:
        """Return the state with the anchor here, and sigma such that x and duals move alike."""
        before = with_zero(state.anchor_metric)[self.places]
        metric = float(np.linalg.norm(copied - before))
        dual = float(np.linalg.norm((state.s - copied) - (state.anchor - before)))
        ratio = np.sqrt(dual / metric) if metric > 0 and dual > 0 else 1.0
        s = copied + (state.s - copied) / ratio
        return replace(
            state,
            s=s,
            anchor=s,
            anchor_metric=x,
            sigma=float(state.sigma * ratio),
            age=0,
            first=np.inf,
            last=np.inf,
            multipliers=state.multipliers / ratio,
        )

    def prox(self, v: Floats, sigma: float, guess: Floats) -> tuple[Floats, float]:
        """Return the proximal points of all copies, and the sum of the terms there."""
        if self.costs is not None:
            return prox_separable(self.costs, v, sigma, guess)
        where = self.objective.where
        y, cost = prox_terms(self.objective, v[: where.size].reshape(where.shape), sigma)
        return np.append(y.ravel(), v[where.size :]), cost

    def sum_copies(self, values: Floats) -> Floats:
        """Return the sum over the copies of each pair."""
        pairs = self.objective.pairs
        return sum_by_index(self.places, values, pairs + 1)[:pairs]

    def project(self, v: Floats, duals: Duals, accuracy: float) -> Projection:
        """Return the nearest metric, weighted by the number of copies."""
        return project_onto_metrics(v, self.copies, self.objective.n, self.pool, duals, accuracy)
