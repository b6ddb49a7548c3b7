r"""Objectives with kinks over metrics: splitting, with the nearest metric as its other half.

.. math:: \min_{x, y} \; \sum_t f_t(y_t) \qquad y_t = x_t \text{ for all terms t}, \quad
          x \text{ a metric}

Every term has copies :math:`y_t` of the distances it looks at (where all look at a single one, the
terms of a pair share a copy). From s, one number per copy,

.. math:: x = N(\bar s), \qquad y = \operatorname{prox}_{f / \sigma}(2 x - s), \qquad
          T(s) = s + 2 (y - x)

with :math:`\bar s` the mean over the copies of a pair and N the nearest metric, weighted by their
number (:mod:`~metricmix.nearness.projected_gradient`). T is Peaceman and Rachford's operator;
at its fixed points x = y is a minimum. It need not converge by itself. Halpern's iteration, which
mixes in the start :math:`s_0`, does,

.. math:: s_{k+1} = \tfrac{1}{k+2} s_0 + \tfrac{k+1}{k+2} T(s_k)

and started over whenever the residual :math:`\|y - x\|` has shrunk enough, it does so at a linear
rate where costs are piecewise linear or quadratic. At every such start :math:`\sigma` is set anew,
to let x and the duals move alike.

Proximal points come with a tangent of f, of slope :math:`\xi = \sigma (2 x - s - y)`, for the bound
in :mod:`~metricmix.nearness.iteration`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metricmix.kernels.threads import Crew
from metricmix.nearness.iteration import Found, OverMetrics
from metricmix.nearness.pairwise import OverPairs, prox_of_pairs, prox_of_terms, summed, with_zero
from metricmix.nearness.projected_gradient import NO_DUALS, Duals, Nearest, nearest_pairs
from metricmix.typing import Floats, Ints

__all__ = ["Splitting", "SplittingState"]


ENOUGH, SOME = 0.2, 0.6
"""Start over when the residual has shrunk to the first share, or to the second and grows again."""
LONG, LEAST = 0.3, 5
"""Or after so large a share of all steps, and that many."""
COARSE, FINE, FINER = 1e-5, 1e-13, 0.05
"""Accuracy of projections: of the first, of the last, and relative to the residual."""


@dataclass
class SplittingState(Found):
    """Where the iteration is, where it started from last, and what it found.

    `s` and `anchor` are the numbers per copy now and at the last start, `anchored` the metric then,
    `y` the last proximal points, `age` the steps since, `first` and `last` the residuals after the
    start and a step ago.
    """

    s: Floats
    anchor: Floats
    anchored: Floats
    y: Floats
    sigma: float
    age: int
    first: float
    last: float
    accuracy: float
    triples: Ints
    multipliers: Floats


class Splitting(OverMetrics[SplittingState]):
    """Restarted Halpern iteration of Peaceman–Rachford splitting; see the module."""

    state_type = SplittingState
    name = "splitting"

    def __init__(
        self, over: OverPairs, start: Floats, *, convex: bool, tol: float, crew: Crew
    ) -> None:
        super().__init__(over, start, convex=convex, tol=tol, crew=crew)
        # One copy per pair if terms look at single ones; else one per place, and one per pair that
        # costs nothing and stays where it is.
        every = np.arange(over.pairs)
        self.places = every if over.separable else np.append(over.where.ravel(), every)
        copies = np.bincount(self.places, minlength=over.pairs + 1)[: over.pairs]
        self.copies = None if (copies == 1).all() else copies.astype(np.float64)

    def init(self, rng: np.random.Generator) -> SplittingState:
        """Return the nearest metric to the start, and a sigma by the sizes of slopes and metric."""
        x = self._nearest(self.start, NO_DUALS, FINE).metric
        value, gradient = self.over.value_and_gradient(x)
        size, slope = float(np.linalg.norm(x)), float(np.linalg.norm(gradient))
        s = with_zero(x)[self.places]
        return SplittingState(
            **self._found_at(x, value),
            s=s,
            anchor=s,
            anchored=x,
            y=s,
            sigma=slope / size if slope > 0 and size > 0 else 1.0,
            age=0,
            first=np.inf,
            last=np.inf,
            accuracy=COARSE,
            triples=NO_DUALS.triples,
            multipliers=NO_DUALS.multipliers,
        )

    def step(
        self, state: SplittingState, iteration: int, rng: np.random.Generator
    ) -> SplittingState:
        """Apply the operator once, and mix in the start or start over."""
        duals = Duals(state.triples, state.multipliers)
        nearest = self._nearest(self._mean(state.s), duals, state.accuracy)
        x = nearest.metric
        copied = with_zero(x)[self.places]
        y, cost = self._prox(2.0 * copied - state.s, state.sigma, state.y)
        residual = float(np.linalg.norm(y - copied))
        size = float(np.linalg.norm(copied)) or 1.0
        value, _ = self.over.value_and_gradient(x)
        xi = state.sigma * (2.0 * copied - state.s - y)
        tangent = (cost - float(xi @ y), self._sum(xi))
        state = replace(
            state,
            **self._offered(state, x, value),
            **self._bounded(state, iteration, x, value, state.sigma * nearest.pull, tangent),
            y=y,
            triples=nearest.duals.triples,
            multipliers=nearest.duals.multipliers,
            accuracy=max(FINE, min(COARSE, FINER * residual / size)),
        )
        if self._is_time(state, residual, iteration):
            return self._start_over(state, x, copied)
        moved = (state.anchor + (state.age + 1) * (state.s + 2.0 * (y - copied))) / (state.age + 2)
        first = residual if state.age == 0 else state.first
        return replace(state, s=moved, age=state.age + 1, first=first, last=residual)

    def _is_time(self, state: SplittingState, residual: float, iteration: int) -> bool:
        shrunk = residual <= ENOUGH * state.first
        turned = residual <= SOME * state.first and residual > state.last
        return state.age > 0 and (shrunk or turned or state.age > LONG * iteration + LEAST)

    def _start_over(self, state: SplittingState, x: Floats, copied: Floats) -> SplittingState:
        """Start from here, with a sigma such that metric and duals would have moved alike."""
        before = with_zero(state.anchored)[self.places]
        metric = float(np.linalg.norm(copied - before))
        dual = float(np.linalg.norm((state.s - copied) - (state.anchor - before)))
        ratio = np.sqrt(dual / metric) if metric > 0 and dual > 0 else 1.0
        s = copied + (state.s - copied) / ratio
        return replace(
            state,
            s=s,
            anchor=s,
            anchored=x,
            sigma=float(state.sigma * ratio),
            age=0,
            first=np.inf,
            last=np.inf,
            multipliers=state.multipliers / ratio,
        )

    def _prox(self, v: Floats, sigma: float, guess: Floats) -> tuple[Floats, float]:
        if self.costs is not None:
            return prox_of_pairs(self.costs, v, sigma, guess)
        shape = self.over.where.shape
        own = v[: self.over.where.size].reshape(shape)
        y, cost = prox_of_terms(self.over, own, sigma)
        return np.append(y.ravel(), v[self.over.where.size :]), cost

    def _sum(self, values: Floats) -> Floats:
        """Return the sum over the copies of each pair."""
        pairs = self.over.pairs
        return summed(self.places, values, pairs + 1)[:pairs]

    def _mean(self, values: Floats) -> Floats:
        return values if self.copies is None else self._sum(values) / self.copies

    def _nearest(self, v: Floats, duals: Duals, accuracy: float) -> Nearest:
        return nearest_pairs(v, self.copies, self.over.n, self.crew, duals, accuracy)
