r"""Newton steps for few weights, over objectives with second derivatives.

A step minimises the quadratic model of the objective over the feasible weights,

.. math:: x = \arg\min_{x \in C} \; g^T (x - \alpha)
          + \tfrac12 (x - \alpha)^T |H| \, (x - \alpha),

and goes from :math:`\alpha` towards x as far as the objective falls. Weights at 0 that the
gradient keeps there are left out of the model, which makes it exact on the others. H is their part
of the Hessian, and :math:`|H|` has the absolute values of its eigenvalues: the objective need not
be convex, since softplus has a curvature of its own.

Some ten evaluations take the place of a hundred first-order ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from metricmix.solvers.lbfgs import ARMIJO, LBFGS, LINE_SEARCH_STEPS, hull_shares
from metricmix.solvers.loop import RunOptions
from metricmix.solvers.minimize import METHODS, IterativeSolver
from metricmix.solvers.problem import project_weights
from metricmix.solvers.quadratic_program import nonnegative_least_squares
from metricmix.solvers.result import SolveResult, Status
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_number

__all__ = ["Newton", "NewtonState"]


@dataclass
class NewtonState:
    """Weights and objective; the next step, its slope, and how much the model gains by it.

    `stuck` says whether the objective did not fall along the last step.
    """

    weights: Floats
    objective: float
    move: Floats
    slope: float
    promise: float
    stuck: bool = False


@METHODS.register(
    "newton",
    order=6,
    words="exact second derivatives, some ten steps: the choice for few weights on edge lengths; "
    "through shortest paths, and for objectives without second derivatives, the same as 'full'",
)
@stored("Newton")
@dataclass(frozen=True, kw_only=True)
class Newton(IterativeSolver[NewtonState]):
    """Projected Newton steps: ``method="newton"``.

    Parameters
    ----------
    tol : float
        Stop when a step promises to gain less than ``tol²`` times ``max(1, abs(f))``.
    """

    tol: float = 1e-7

    state_type = NewtonState
    default_max_iter = 100

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)

    def solve(
        self, rng: np.random.Generator, seed: int | None = None, **options: Unpack[RunOptions]
    ) -> SolveResult:
        """Run the loop, or L-BFGS where the problem has no Hessian."""
        if self.problem.has_hessian:
            return super().solve(rng, seed, **options)
        return LBFGS().bind(self.problem, self.start).solve(rng, seed, **options)

    def init(self, rng: np.random.Generator) -> NewtonState:
        """Evaluate the start."""
        start = project_weights(self.start, self.problem.constraint)
        return self.state_at(start, *self.problem.with_hessian(start))

    def step(self, state: NewtonState, iteration: int, rng: np.random.Generator) -> NewtonState:
        """Go along the step, half as far each time until the objective falls."""
        t, rounding = 1.0, 1e-15 * max(1.0, abs(state.objective))
        for _ in range(LINE_SEARCH_STEPS):
            weights = state.weights + t * state.move
            objective, gradient, hessian = self.problem.with_hessian(weights)
            if objective <= state.objective + ARMIJO * t * state.slope + rounding:
                return self.state_at(weights, objective, gradient, hessian)
            t *= 0.5
        return replace(state, stuck=True)

    def state_at(
        self, weights: Floats, objective: float, gradient: Floats, hessian: Floats
    ) -> NewtonState:
        """Return the state at weights, with the minimum of the quadratic model as next step."""
        free = free_weights(weights, gradient, self.problem.constraint)
        g, here, move = gradient[free], weights[free], np.zeros_like(weights)
        if not (np.isfinite(g).all() and np.isfinite(hessian).all() and len(g)):
            return NewtonState(weights, objective, move, 0.0, 0.0)
        sizes, axes = np.linalg.eigh(hessian[np.ix_(free, free)])
        sizes = np.abs(sizes)
        sizes = np.maximum(sizes, 1e-12 * sizes.max() or 1.0)
        # The model is half the squared length of `root @ (x - here) + shift`, up to a constant.
        root = np.sqrt(sizes)[:, None] * axes.T
        shift = (axes.T @ g) / np.sqrt(sizes)
        move[free] = nearest(root, shift, here, self.problem.constraint) - here
        slope = float(g @ move[free])
        promise = -slope - 0.5 * float(np.square(root @ move[free]).sum())
        return NewtonState(weights, objective, move, slope, promise)

    def check(self, state: NewtonState) -> tuple[NewtonState, float]:
        """Return the objective, which is exact."""
        return state, state.objective

    def status(self, state: NewtonState) -> Status | None:
        """Stop where the model promises a negligible gain, or the objective does not fall."""
        if state.promise <= self.tol**2 * max(1.0, abs(state.objective)):
            return Status.CONVERGED
        return Status.STALLED if state.stuck else None

    def is_finite(self, state: NewtonState) -> bool:
        """Return whether the objective is finite, and the weights bounded."""
        # Larger weights mean an objective that falls without bound.
        return bool(np.isfinite(state.objective) and np.abs(state.weights).max() < 1e7)

    def weights(self, state: NewtonState) -> Floats:
        """Return the weights."""
        return state.weights


def free_weights(weights: Floats, gradient: Floats, constraint: str) -> AnyArray:
    """Return which weights are not at 0 with a gradient that keeps them there.

    >>> free_weights(np.array([0.0, 0.0, 1.0]), np.array([1.0, -1.0, 0.5]), "nonnegative")
    array([False,  True,  True])
    """
    if constraint == "none":
        return np.ones(len(weights), dtype=bool)
    # On the simplex a weight grows at the cost of the others.
    level = float(gradient @ weights) if constraint == "simplex" else 0.0
    return np.asarray((weights > 0.0) | (gradient < level))


def nearest(root: Floats, shift: Floats, here: Floats, constraint: str) -> Floats:
    """Return the feasible x with the shortest ``root @ (x - here) + shift``."""
    if constraint == "none":
        return here - np.linalg.solve(root, shift)
    aim = root @ here - shift
    if constraint == "nonnegative":
        return nonnegative_least_squares(root, aim)
    return hull_shares(root.T - aim)
