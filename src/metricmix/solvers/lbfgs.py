r"""L-BFGS on full sub-gradients.

All shortest-path trees give the exact objective and an exact sub-gradient; a limited-memory
quasi-Newton method with a weak Wolfe line search then needs a few dozen of them. At a kink, where
shortest paths tie, the line search fails: the sub-gradients it met on both sides are gathered, and
the shortest vector in their convex hull,

.. math:: p = -\arg\min \{ \lVert v \rVert : v \in \mathrm{conv}(g_1, \dots, g_k) \},

is the direction of steepest descent that takes all of them into account. If it vanishes, the point
is stationary. Constrained weights take spectral projected-gradient steps instead,
:math:`P_C(\alpha - t g) - \alpha`, and at kinks the step that lowers all their linear models,
:math:`\arg\min_{\alpha + p \in C} \max_k g_k^T p + \tfrac12 \lVert p \rVert^2`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix.exceptions import TemperatureError
from metricmix.solvers.minimize import METHODS, IterativeSolver
from metricmix.solvers.problem import project_weights
from metricmix.solvers.result import Status
from metricmix.state import stored
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number

__all__ = ["LBFGS", "LBFGSState"]

ARMIJO, CURVATURE = 1e-4, 0.9
LINE_SEARCH_STEPS = 30


@dataclass
class LBFGSState:
    """Weights, objective, sub-gradient; the memory of L-BFGS; the sub-gradients met at a kink."""

    weights: Floats
    objective: float
    gradient: Floats
    moves: Floats
    changes: Floats
    bundle: Floats
    spectral: float
    gain: float
    failures: int


@METHODS.register(
    "full",
    order=1,
    words="all shortest paths in each step and an exact sub-gradient, O(n³) but few steps; the "
    "choice up to a few thousand items",
)
@stored("LBFGS")
@dataclass(frozen=True, kw_only=True)
class LBFGS(IterativeSolver[LBFGSState]):
    """L-BFGS on the full objective: ``method="full"``.

    Parameters
    ----------
    tol : float
        Stop when no descent direction is longer than this times ``max(1, abs(f))``, or when an
        iteration gains less than ``tol²`` of it.
    memory : int
        Pairs of moves and gradient changes that L-BFGS remembers.
    temperature : float, optional
        Use the soft distances at this temperature instead of shortest paths: a smooth objective.
    """

    tol: float = 1e-6
    memory: int = 10
    temperature: float | None = None

    state_type = LBFGSState
    default_max_iter = 200

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)
        check_integer(self.memory, name="memory", low=1)

    def init(self, rng: np.random.Generator) -> LBFGSState:
        """Evaluate the start."""
        start = project_weights(self.start, self.problem.constraint)
        objective, gradient = self.problem.value_and_gradient(start, self.temperature)
        nothing = np.empty((0, len(start)))
        longest = max(1.0, float(np.abs(gradient).max()))
        return LBFGSState(
            *(start, objective, gradient, nothing, nothing, nothing), 1.0 / longest, np.inf, 0
        )

    def step(self, state: LBFGSState, iteration: int, rng: np.random.Generator) -> LBFGSState:
        """Search along a descent direction."""
        if self.problem.constraint != "none":
            return self.projected_step(state)
        if len(state.bundle):
            direction = -shortest_in_hull(state.bundle)
        else:
            direction = -inverse_hessian_times(state.gradient, state.moves, state.changes)
            if direction @ state.gradient >= 0:
                direction = -state.gradient
        first = 1.0 if len(state.moves) else state.spectral
        reached, met = self.line_search(state, direction, first)
        if reached is None:
            # A kink lies ahead. The next step looks for a direction of descent on all its sides.
            return self._with_subgradients(state, met)
        return self._with_curvature(state, reached)

    def line_search(
        self, state: LBFGSState, direction: Floats, first: float
    ) -> tuple[LBFGSState | None, Floats]:
        """Return a point that satisfies the weak Wolfe conditions, and sub-gradients near `state`.

        Bisection, starting with the step `first`; None if there is no descent.
        """
        slope = float(direction @ state.gradient)
        if len(state.bundle):  # the bundle's direction descends by its own length
            slope = -float(direction @ direction)
        low, high, t = 0.0, np.inf, first
        best: LBFGSState | None = None
        met = []
        for _ in range(LINE_SEARCH_STEPS):
            weights = state.weights + t * direction
            objective, gradient = self._evaluate(weights)
            if not np.isfinite(objective) or objective > state.objective + ARMIJO * t * slope:
                high = t
                met.append(gradient)
            else:
                best = replace(state, weights=weights, objective=objective, gradient=gradient)
                if gradient @ direction >= CURVATURE * slope:
                    break
                low = t
            t = (low + high) / 2.0 if np.isfinite(high) else 2.0 * t
        return best, np.array(met[-3:]).reshape(-1, len(direction))

    def projected_step(self, state: LBFGSState) -> LBFGSState:
        """Take a spectral projected-gradient step, or one that descends on all sides of a kink."""
        constraint = self.problem.constraint
        if len(state.bundle):
            direction, slope = bundle_direction(state.weights, state.bundle, constraint)
        else:
            target = project_weights(state.weights - state.spectral * state.gradient, constraint)
            direction = target - state.weights
            slope = float(direction @ state.gradient)
        t = 1.0
        met = []
        for _ in range(LINE_SEARCH_STEPS if slope < 0 else 0):
            weights = state.weights + t * direction
            objective, gradient = self._evaluate(weights)
            if objective <= state.objective + ARMIJO * t * slope:
                reached = replace(state, weights=weights, objective=objective, gradient=gradient)
                after = self._with_curvature(state, reached)
                if after.gain > self.tol**2 * max(1.0, abs(objective)):
                    return after
                met.append(gradient)  # so small a gain means a kink
                state = replace(after, bundle=state.bundle, failures=state.failures)
                break
            met.append(gradient)
            t *= 0.5
        return self._with_subgradients(state, np.array(met[-3:]).reshape(-1, len(direction)))

    def _with_subgradients(self, state: LBFGSState, met: Floats) -> LBFGSState:
        """Return the state with sub-gradients from the other sides of a kink in its bundle."""
        known = state.bundle if len(state.bundle) else state.gradient[None]
        met = met[np.isfinite(met).all(axis=1)]
        bundle = np.concatenate([known, met])[-4 * len(state.weights) - 8 :]
        nothing = state.moves[:0]
        return replace(
            state, bundle=bundle, moves=nothing, changes=nothing, failures=state.failures + 1
        )

    def _with_curvature(self, before: LBFGSState, after: LBFGSState) -> LBFGSState:
        """Return the state after a step, with its move and change of gradient remembered."""
        move, change = after.weights - before.weights, after.gradient - before.gradient
        curvature = float(move @ change)
        moves, changes, spectral = before.moves, before.changes, before.spectral
        if curvature > 1e-12 * float(np.linalg.norm(move) * np.linalg.norm(change)):
            moves = np.concatenate([moves, move[None]])[-self.memory :]
            changes = np.concatenate([changes, change[None]])[-self.memory :]
            spectral = float(np.clip((move @ move) / curvature, 1e-10, 1e10))
        return replace(
            after,
            moves=moves,
            changes=changes,
            spectral=spectral,
            bundle=before.bundle[:0],
            gain=before.objective - after.objective,
            failures=0,
        )

    def _evaluate(self, weights: Floats) -> tuple[float, Floats]:
        """Return objective and sub-gradient; infinity where soft distances do not exist."""
        try:
            return self.problem.value_and_gradient(weights, self.temperature)
        except TemperatureError:
            return np.inf, np.full(len(weights), np.nan)

    def check(self, state: LBFGSState) -> tuple[LBFGSState, float]:
        """Return the objective, which is exact."""
        return state, state.objective

    def status(self, state: LBFGSState) -> Status | None:
        """Stop at a stationary point, at a negligible gain, or at a kink without descent."""
        scale = max(1.0, abs(state.objective))
        constraint = self.problem.constraint
        if constraint == "none":
            descent = shortest_in_hull(state.bundle) if len(state.bundle) else state.gradient
        elif len(state.bundle):
            descent, _ = bundle_direction(state.weights, state.bundle, constraint)
        else:
            descent = project_weights(state.weights - state.gradient, constraint) - state.weights
        if np.abs(descent).max() <= self.tol * scale:
            return Status.CONVERGED
        if state.failures == 0 and state.gain <= self.tol**2 * scale:
            return Status.CONVERGED
        return Status.STALLED if state.failures >= 8 else None

    def is_finite(self, state: LBFGSState) -> bool:
        """Return whether objective and gradient are finite, and the weights bounded."""
        sound = np.isfinite(state.objective) and np.isfinite(state.gradient).all()
        # Larger weights mean an objective that falls without bound.
        return bool(sound and np.abs(state.weights).max() < 1e7)

    def weights(self, state: LBFGSState) -> Floats:
        """Return the weights."""
        return state.weights

    @property
    def objective_kind(self) -> str:
        """All terms, over shortest paths or soft distances."""
        return super().objective_kind if self.temperature is None else "soft"


def inverse_hessian_times(gradient: Floats, moves: Floats, changes: Floats) -> Floats:
    """Return H g by the two-loop recursion over past moves and gradient changes."""
    q = gradient.copy()
    along = np.empty(len(moves))
    for k in reversed(range(len(moves))):
        along[k] = (moves[k] @ q) / (moves[k] @ changes[k])
        q -= along[k] * changes[k]
    if len(moves):
        q *= (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for k in range(len(moves)):
        q += moves[k] * (along[k] - (changes[k] @ q) / (moves[k] @ changes[k]))
    return q


def shortest_in_hull(vectors: Floats) -> Floats:
    """Return the shortest vector in the convex hull of the rows."""
    return hull_shares(vectors) @ vectors


def hull_shares(vectors: Floats) -> Floats:
    """Return the shares of the rows in the shortest vector of their convex hull.

    By non-negative least squares.
    """
    from scipy.optimize import nnls

    size = float(np.abs(vectors).max()) or 1.0
    # Minimise ||V^T c||² + (sum c - 1)²; its solution is the sought combination times a number.
    system = np.vstack([vectors.T / size, np.ones(len(vectors))])
    shares, _ = nnls(system, np.concatenate([np.zeros(vectors.shape[1]), [1.0]]))
    total = float(shares.sum())
    return shares / total if total > 0 else np.eye(len(vectors))[-1]


def bundle_direction(weights: Floats, vectors: Floats, constraint: str) -> tuple[Floats, float]:
    r"""Return the feasible step that descends along all sub-gradients, and its slope.

    .. math:: \min_{p, s} \; s + \tfrac12 \lVert p \rVert^2 \quad \text{with} \quad
              g_k^T p \le s, \; \alpha + p \in C

    a quadratic programme in R + 1 variables, in units of the largest sub-gradient.
    """
    from scipy.optimize import minimize

    programme: Any = minimize  # its stubs do not know dictionaries of constraints
    size = float(np.abs(vectors).max()) or 1.0
    scaled = vectors / size
    R = len(weights)
    below = {
        "type": "ineq",
        "fun": lambda x: x[R] - scaled @ x[:R],
        "jac": lambda x: np.hstack([-scaled, np.ones((len(scaled), 1))]),
    }
    total = {
        "type": "eq",
        "fun": lambda x: x[:R].sum(),
        "jac": lambda x: np.append(np.ones(R), 0.0)[None],
    }
    found = programme(
        lambda x: x[R] + 0.5 * x[:R] @ x[:R],
        np.zeros(R + 1),
        jac=lambda x: np.append(x[:R], 1.0),
        bounds=[*((-w, None) for w in weights), (None, None)],
        constraints=[below, total] if constraint == "simplex" else [below],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 200},
    )
    step = project_weights(weights + found.x[:R], constraint) - weights
    return step, float((vectors @ step).max())
