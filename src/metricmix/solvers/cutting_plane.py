r"""Cutting planes: the certified optimum over all mixtures that are metrics.

.. math:: \min_{\alpha \in C} \; f(\alpha) \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

for a convex quadratic f. Of the n³ triangle inequalities only a few are active. A round solves the
quadratic program over the rows known so far, finds the inequalities that its solution violates most
(the separation oracle, one min-plus product), and adds them as rows. Rows that were inactive for
some rounds are dropped.

Every round bounds the optimum from both sides. The multipliers of the program give a lower bound.
The upper bound is f at weights that make a metric. Let h be the smallest slack of any inequality, a
concave function of the weights, and x weights in the interior, :math:`h(x) = s > 0`. Then weights
with :math:`h(\alpha) = -v` become feasible by :math:`\alpha + (v / s) x` (on the simplex, by going
the share v / (v + s) of the way to x). A linear program over the same rows finds such an x.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from metricmix.cached import cached_property
from metricmix.solvers.linear_model import LinearModel, SeparationOracle, ViolatedRows
from metricmix.solvers.loop import Certificate, Outcome
from metricmix.solvers.minimize import FEW_TERMS, METHODS, IterativeSolver
from metricmix.solvers.problem import Problem
from metricmix.solvers.quadratic_program import (
    InteriorPoint,
    InteriorSearch,
    Quadratic,
    QuadraticProgram,
    quadratic_of,
)
from metricmix.solvers.result import SolveResult, Status
from metricmix.state import stored
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer, check_number

__all__ = ["CuttingPlane", "CuttingPlaneState"]

MAX_STUCK = 3
"""Rounds without effect after which the run ends: rounding prevents further progress."""


@dataclass
class CuttingPlaneState:
    """The relaxed optimum, the best metric, the bounds, the rows, and an interior point.

    `interior`, `margin`, `width` and `settled` are the fields of
    :class:`~metricmix.solvers.quadratic_program.InteriorPoint`; `idle` counts the rounds for which
    each row has been inactive, `stuck` the rounds that changed nothing.
    """

    weights: Floats
    incumbent: Floats
    interior: Floats
    rows: Floats
    idle: Indices
    upper: float
    lower: float
    violation: float
    margin: float
    width: float
    settled: bool
    stuck: int

    @property
    def interior_point(self) -> InteriorPoint:
        """Whether the interior is known to be empty."""
        return InteriorPoint(self.interior, self.margin, self.width, self.settled)


@METHODS.register(
    "cutting-plane",
    order=3,
    words="the optimum of quadratic objectives, with a proof, for thousands of items",
)
@stored("CuttingPlane")
@dataclass(frozen=True, kw_only=True)
class CuttingPlane(IterativeSolver[CuttingPlaneState]):
    """Cutting planes over the weights: ``method="cutting-plane"``.

    The start serves as a guess of weights strictly inside; equal ones are, if the sources are
    metrics.

    Parameters
    ----------
    tol : float
        Stop when the best metric is proven to be this close to the optimum, relative to it.
    rows_per_round : int
        Triangles that a round adds, at most.
    forget_after : int
        Rounds after which an inactive row is dropped.

    Examples
    --------
    The nearest mixture to a target that only a mixture with violated triangles would meet:

    >>> import numpy as np, metricmix as mm
    >>> rng = np.random.default_rng(0)
    >>> sources = [mm.dissimilarity.features(X, "cityblock") for X in rng.normal(size=(3, 9, 9))]
    >>> target = 2 * sources[0] + sources[1] - sources[2]
    >>> mm.is_metric(target)
    False
    >>> stack = mm.DissimilarityStack(sources)
    >>> objective = mm.objectives.LeastSquares(target)
    >>> result = mm.minimize(objective, stack, method="cutting-plane")
    >>> result.weights.round(2), result.gap < 1e-8
    (array([ 1.82,  0.95, -0.79]), True)
    >>> mm.is_metric(np.tensordot(result.weights, sources, 1))
    True
    """

    tol: float = 1e-8
    rows_per_round: int = 200
    forget_after: int = 5

    linear: ClassVar[bool] = True
    state_type = CuttingPlaneState
    returns: ClassVar[Literal["last"]] = "last"
    default_max_iter = 500
    problem: LinearModel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)
        check_integer(self.rows_per_round, name="rows_per_round", low=1)
        check_integer(self.forget_after, name="forget_after", low=1)

    def bind(self, problem: Problem, start: Floats) -> Self:
        """Raise InputError for objectives that are not quadratic."""
        bound = super().bind(problem, start)
        bound.problem.check_quadratic(
            self.method, "method='full' takes any, in the path model; see its link"
        )
        return bound

    @cached_property
    def quadratic(self) -> Quadratic:
        """The objective as a function of the weights."""
        return quadratic_of(self.problem)

    @cached_property
    def oracle(self) -> SeparationOracle:
        """Finds violated inequalities."""
        return SeparationOracle(self.problem)

    @cached_property
    def program(self) -> QuadraticProgram:
        """The quadratic program over some of the rows."""
        return QuadraticProgram(self.quadratic, self.problem.constraint, self.problem.largest)

    @cached_property
    def search(self) -> InteriorSearch:
        """Finds weights in the interior."""
        return InteriorSearch(self.problem, self.oracle, self.start, self.rows_per_round)

    @cached_property
    def scale(self) -> float:
        """The size of the objective: at weights 0, and at the unconstrained optimum."""
        ends = np.zeros(len(self.start)), self.program.free
        return max(abs(self.quadratic.value(weights)) for weights in ends)

    def init(self, rng: np.random.Generator) -> CuttingPlaneState:
        """Start from weights 0, which are feasible; on the simplex, from an interior point."""
        R = len(self.start)
        nothing = np.zeros(R)
        state = CuttingPlaneState(
            *(nothing, nothing, nothing, np.empty((0, R)), np.empty(0, dtype=np.int64)),
            upper=self.quadratic.value(nothing),
            lower=-np.inf,
            violation=0.0,
            margin=np.nan,
            width=np.inf,
            settled=False,
            stuck=0,
        )
        if self.problem.constraint != "simplex":
            return state
        while not (state.settled or self.search.is_feasible(state.interior_point)):
            state = self.search_interior(state)
        if not self.search.is_feasible(state.interior_point):
            raise self.problem.infeasible()
        start = state.interior
        return replace(
            state, weights=start, incumbent=start, upper=self.quadratic.value(start), settled=False
        )

    def step(
        self, state: CuttingPlaneState, iteration: int, rng: np.random.Generator
    ) -> CuttingPlaneState:
        """Solve the program, separate, update both bounds, add rows and drop inactive ones."""
        solved = self.program.solve(state.rows, state.weights)
        if solved is None:  # infeasible, by rounding: weights 0 or the interior are feasible
            return replace(state, stuck=MAX_STUCK)
        weights, multipliers = solved
        if self.problem.constraint != "simplex":
            unconstrained = 1.0 + float(np.abs(self.program.free) @ self.problem.largest)
            if np.abs(weights) @ self.problem.largest <= 1e-15 * unconstrained:
                weights = np.zeros_like(weights)
        lower = self.program.lower_bound(weights, state.rows, multipliers)
        violated = self.oracle.separate(weights, self.rows_per_round)
        excess, noise = max(0.0, -violated.margin), self.problem.noise(weights)
        moved = np.abs(weights - state.weights) @ self.problem.largest > 1e3 * noise
        rose = lower > state.lower + self.tol * abs(lower)
        of_rows = multipliers[len(multipliers) - len(state.rows) :]
        state = replace(
            state,
            weights=weights,
            lower=max(lower, state.lower),
            violation=excess / violated.scale if violated.scale > 0 else 0.0,
            idle=np.where(of_rows > 0, 0, state.idle + 1),
        )
        if excess <= noise:
            state = self.offer(state, weights)
            state = self.search_interior(state) if len(state.rows) else state
            return replace(state, stuck=0 if moved else state.stuck + 1)
        before = len(state.rows)
        if rose and state.settled:
            kept = state.idle < self.forget_after
            state = replace(state, rows=state.rows[kept], idle=state.idle[kept])
            before = len(state.rows)
        state = self.add_rows(state, violated)
        new = len(state.rows) > before
        state = self.make_feasible(self.search_interior(state), excess + noise)
        return replace(state, stuck=0 if new or moved else state.stuck + 1)

    def check(self, state: CuttingPlaneState) -> tuple[CuttingPlaneState, float]:
        """Return the objective of the best metric so far."""
        return state, state.upper

    def details(self, state: CuttingPlaneState) -> dict[str, float]:
        """Return gap, number of rows and violation of a round."""
        return {
            "gap": self.gap(state),
            "rows": len(state.rows),
            "violation": state.violation,
        }

    def status(self, state: CuttingPlaneState) -> Status | None:
        """Stop when the gap is closed, or when rounding keeps it open.

        If rows are active, a few more rounds decide whether there is an interior.
        """
        stuck = state.stuck >= MAX_STUCK
        inside = self.has_interior(state)
        if self.gap(state) > self.tol:
            return Status.INACCURATE if stuck else None
        if len(state.rows) and inside is None and not stuck:
            return None
        return Status.NO_INTERIOR if inside is False else Status.CONVERGED

    def certificate(self, state: CuttingPlaneState) -> Certificate:
        """Return the lower bound, and the gap."""
        return Certificate(state.lower, self.gap(state))

    def is_finite(self, state: CuttingPlaneState) -> bool:
        """Return whether weights and objective are finite."""
        return bool(np.isfinite(state.weights).all() and np.isfinite(state.upper))

    def weights(self, state: CuttingPlaneState) -> Floats:
        """Return the weights of the best metric so far."""
        return state.incumbent

    def result(self, outcome: Outcome) -> SolveResult:
        """Return the best metric, with both bounds."""
        state = outcome.state
        return replace(
            super().result(outcome),
            lower_bound=state.lower,
            gap=self.gap(state),
            has_interior=self.has_interior(state),
            violation=self.problem.violation(state.incumbent),
        )

    def quick_result(self, outcome: Outcome) -> SolveResult:
        """Return the best metric so far, with both bounds, but without its violation.

        If none is known, weights 0 are feasible, except on the simplex: then the start is returned.
        """
        state = outcome.state
        found = super().quick_result(outcome)
        if found.objective_kind != "sampled":
            return replace(
                found,
                lower_bound=state.lower,
                gap=self.gap(state),
                has_interior=self.has_interior(state),
            )
        if self.problem.constraint != "simplex":
            nothing = np.zeros(len(self.start))
            few = np.random.default_rng(0).integers(self.problem.n_terms, size=FEW_TERMS)
            found = replace(
                found,
                objective=self.problem.estimate(nothing, few),
                mixture=self.problem.mixture(nothing),
                violation=0.0,
            )
        return replace(found, lower_bound=-np.inf, gap=np.inf)

    def gap(self, state: CuttingPlaneState) -> float:
        """Return how far from the optimum the best metric may be, relative to it."""
        apart = max(0.0, state.upper - state.lower)
        floor = max(1e-8 * self.scale, float(np.finfo(np.float64).tiny))
        return apart / max(abs(state.upper), floor)

    def has_interior(self, state: CuttingPlaneState) -> bool | None:
        """Return whether some weights satisfy all inequalities strictly; None if unknown."""
        return self.search.exists(state.interior_point)

    def search_interior(self, state: CuttingPlaneState) -> CuttingPlaneState:
        """Look for weights with a larger margin, unless those known are good enough."""
        if state.settled:
            return state
        point, violated = self.search.step(state.interior_point, state.rows)
        known = len(state.rows)
        if violated is not None:
            state = self.add_rows(state, violated)
        settled = self.search.is_settled(point, len(state.rows) > known)
        return replace(
            state, interior=point.weights, margin=point.margin, width=point.width, settled=settled
        )

    def make_feasible(self, state: CuttingPlaneState, excess: float) -> CuttingPlaneState:
        """Move the relaxed optimum towards the interior until it is feasible."""
        weights = state.weights
        if self.has_interior(state) is not True:
            scale = excess / state.violation if state.violation > 0 else 0.0
            # Where there is no interior, violations by rounding are accepted.
            nearly = self.has_interior(state) is False and excess <= 1e-9 * scale
            return self.offer(state, weights) if nearly else state
        sure = state.margin > 0
        margin = state.margin if sure else state.width
        if self.problem.constraint == "simplex":
            share = excess / (excess + margin)
            weights = (1.0 - share) * weights + share * state.interior
        else:
            weights = weights + excess / margin * state.interior
        if sure:
            return self.offer(state, weights)
        # Inequalities that are tight in all sources may hide others of the same pair.
        violated = self.oracle.separate(weights, self.rows_per_round)
        if -violated.margin <= self.problem.noise(weights):
            return self.offer(state, weights)
        return self.add_rows(replace(state, settled=False), violated)

    def offer(self, state: CuttingPlaneState, weights: Floats) -> CuttingPlaneState:
        """Return the state with the best weights on the segment from the incumbent to these."""
        f, known = self.quadratic, state.incumbent
        step = weights - known
        slope = float(f.gradient(known) @ step)
        curvature = float(np.square(f.factor @ step).sum())
        share = 1.0 if curvature <= 0 else min(1.0, max(0.0, -slope / (2.0 * curvature)))
        candidates = [weights, known + share * step]
        values = [f.value(candidate) for candidate in candidates]
        best = int(np.argmin(values))
        if values[best] < state.upper:
            return replace(state, incumbent=candidates[best], upper=values[best])
        return state

    def add_rows(self, state: CuttingPlaneState, violated: ViolatedRows) -> CuttingPlaneState:
        """Return the state with the deepest of the rows that are not there yet."""
        if len(violated.rows) == 0:
            return state
        norms = np.linalg.norm(violated.rows @ self.program.into, axis=1)
        depth = np.divide(violated.excess, norms, out=np.zeros_like(norms), where=norms > 0)
        rows = violated.rows[np.argsort(-depth, kind="stable")]
        together = np.concatenate([state.rows, rows])
        scaled = together / self.problem.largest
        rounded = np.round(scaled / np.abs(scaled).max(axis=1, keepdims=True), 10)
        _, first = np.unique(rounded, axis=0, return_index=True)
        fresh = np.sort(first[first >= len(state.rows)])[: self.rows_per_round]
        return replace(
            state,
            rows=np.concatenate([state.rows, together[fresh]]),
            idle=np.concatenate([state.idle, np.zeros(len(fresh), dtype=np.int64)]),
        )
