r"""Any objective over metrics by projection: the slower companion of the path method.

.. math:: \min_x \; f(x) = \sum_t p_t \, g_t(x) + \rho \, \mathrm{mean}(x_{ij}^2)
          \qquad x \text{ a metric}

Metrics are a convex cone and the nearest metric is its projection N, so that projected gradients
apply: with a step :math:`\lambda`, :math:`p = N(x - \lambda \nabla f(x)) - x` is a direction of
descent along which every point is a metric. The step is the spectral one of Barzilai and Borwein,
and the search along p accepts what improves on the worst of the last few values (Birgin, Martínez
and Raydan). At a kink, where no step along p improves, a sub-gradient step of falling length is
taken and the best point kept. A point with :math:`N(x - \lambda \nabla f(x)) = x` is the minimum
if f is convex, and stationary otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.threads import Crew
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.problem import Problem, matrix_of, pairs_of
from metricmix.nearness.terms import Squares
from metricmix.objectives.base import Objective
from metricmix.solvers.loop import Limits, run
from metricmix.solvers.result import Status

__all__ = ["Projected", "ProjectedState", "nearest_pairs"]

Floats = NDArray[np.float64]
Duals = tuple[NDArray[np.int32], Floats]

MEMORY = 10
"""Values that a step has to improve on the worst of."""
SUFFICIENT = 1e-4
SMALLEST_STEP = 1e-10
LONGEST, SHORTEST = 1e10, 1e-10
MAX_KINKS = 60
PROJECTION_TOL = 1e-9
TERMS_AT_ONCE = 1 << 22


@dataclass
class ProjectedState:
    """The point, its value and gradient, the step, what came before, and the best point."""

    x: Floats
    value: float
    gradient: Floats
    step: float
    history: Floats
    best: Floats
    best_value: float
    kinks: int
    moved: float


class Projected:
    """Spectral projected gradients over the metrics on n items.

    Parameters
    ----------
    objective : Objective
    start : (n, n) array
        Dissimilarities; the descent starts at the nearest metric.
    tol : float
        Stop when a projected gradient step moves no entry by more than this share of the largest.
    crew : Crew
    """

    state_type = ProjectedState

    def __init__(self, objective: Objective, start: Floats, *, tol: float, crew: Crew) -> None:
        self.objective, self.n, self.tol, self.crew = objective, len(start), tol, crew
        self.start = pairs_of(start)
        self._duals: Duals | None = None

    def init(self, rng: np.random.Generator) -> ProjectedState:
        """Return the nearest metric to the start, with a step that moves it a little."""
        x = self._nearest(self.start)
        value, gradient = self.value_and_gradient(x)
        size, slope = float(np.abs(x).max(initial=0.0)), float(np.abs(gradient).max(initial=0.0))
        step = 0.1 * (size or 1.0) / slope if slope > 0 else 1.0
        history = np.full(MEMORY, -np.inf)
        history[0] = value
        return ProjectedState(x, value, gradient, step, history, x, value, 0, np.inf)

    def step(
        self, state: ProjectedState, iteration: int, rng: np.random.Generator
    ) -> ProjectedState:
        """Project a gradient step and search between it and the point."""
        goal = self._nearest(state.x - state.step * state.gradient)
        along = goal - state.x
        slope = float(state.gradient @ along)
        moved = float(np.abs(along).max(initial=0.0)) / (
            float(np.abs(goal).max(initial=0.0)) or 1.0
        )
        if moved <= self.tol:
            return replace(state, moved=moved)
        share = 1.0
        while share > SMALLEST_STEP:
            x = state.x + share * along
            value, gradient = self.value_and_gradient(x)
            if value <= state.history.max() + SUFFICIENT * share * min(slope, 0.0):
                return self._taken(state, iteration, x, value, gradient, moved)
            share *= 0.5
        return self._over_kink(state, iteration, moved)

    def _taken(
        self,
        state: ProjectedState,
        iteration: int,
        x: Floats,
        value: float,
        gradient: Floats,
        moved: float,
    ) -> ProjectedState:
        way, turn = x - state.x, gradient - state.gradient
        curvature = float(way @ turn)
        step = float(way @ way) / curvature if curvature > 0 else LONGEST
        history = state.history.copy()
        history[(iteration + 1) % MEMORY] = value
        better = value < state.best_value
        return replace(
            state,
            x=x,
            value=value,
            gradient=gradient,
            step=min(LONGEST, max(SHORTEST, step)),
            history=history,
            best=x if better else state.best,
            best_value=min(value, state.best_value),
            moved=moved,
        )

    def _over_kink(self, state: ProjectedState, iteration: int, moved: float) -> ProjectedState:
        """Step along the sub-gradient from the best point, ever shorter."""
        _, gradient = self.value_and_gradient(state.best)
        size = float(np.linalg.norm(state.best)) / (10.0 * (state.kinks + 1.0))
        norm = float(np.linalg.norm(gradient)) or 1.0
        x = self._nearest(state.best - size / norm * gradient)
        reached, slope = self.value_and_gradient(x)
        after = self._taken(state, iteration, x, reached, slope, moved)
        history = np.full(MEMORY, -np.inf)
        history[(iteration + 1) % MEMORY] = reached
        return replace(after, history=history, step=size / norm, kinks=state.kinks + 1)

    def check(self, state: ProjectedState) -> tuple[ProjectedState, float]:
        """Return the best value so far."""
        return state, state.best_value

    def status(self, state: ProjectedState) -> Status | None:
        """Stop when projected gradients move nothing, or kinks allow no descent."""
        if state.moved <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.kinks >= MAX_KINKS else None

    def is_finite(self, state: ProjectedState) -> bool:
        """Return whether value and gradient are finite."""
        return bool(np.isfinite(state.value) and np.isfinite(state.gradient).all())

    def weights(self, state: ProjectedState) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        digest = hashlib.sha256(self.objective.fingerprint() + self.start.tobytes())
        digest.update(repr(("projected", self.tol)).encode())
        return digest.hexdigest()

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return f at a metric given by its pairs, and the derivatives by these."""
        n, objective = self.n, self.objective
        d = matrix_of(x, n)
        value, slopes = 0.0, np.zeros(n * n)
        for terms in self._pieces():
            i, j = objective.pairs(terms, n)
            own, slope = objective.evaluate(terms, d[i, j], n)
            p = objective.probabilities(terms, n)
            ridge = objective.rho / i.shape[1]
            value += float(((own + ridge * (d[i, j] ** 2).sum(axis=1)) * p).sum())
            slope = slope + 2.0 * ridge * d[i, j]
            where = (i * n + j).ravel()
            slopes += np.bincount(where, (slope * p[:, None]).ravel(), minlength=n * n)
        both = slopes.reshape(n, n)
        return value, pairs_of(both + both.T)

    def _pieces(self) -> Iterator[NDArray[np.int64]]:
        count = self.objective.n_terms(self.n)
        for start in range(0, count, TERMS_AT_ONCE):
            yield np.arange(start, min(count, start + TERMS_AT_ONCE))

    def _nearest(self, pairs: Floats) -> Floats:
        metric, self._duals = nearest_pairs(pairs, self.n, self.crew, self._duals)
        return metric


def nearest_pairs(
    pairs: Floats, n: int, crew: Crew, duals: Duals | None = None, tol: float = PROJECTION_TOL
) -> tuple[Floats, Duals | None]:
    """Return the metric nearest to numbers of any sign, and the duals of its triangles.

    `duals` are those of a problem like it, to start from.
    """
    unit = float(np.abs(pairs).max(initial=0.0))
    if n < 3 or unit == 0.0:
        return np.maximum(pairs, 0.0), duals
    problem = Problem(n, pairs / unit, np.ones_like(pairs), None, None, True, unit, 1.0)
    start = None if duals is None else (duals[0], duals[1] / unit)
    solver = DualAscent(Squares(problem, crew.threads), crew, tol=tol, start=start)
    run(solver, Limits(1000, tested=False), np.random.default_rng(0))
    metric = unit * solver.finish()
    triples, multipliers = solver.triangles()
    return metric, (triples, multipliers * unit)
