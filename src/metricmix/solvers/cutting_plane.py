r"""Cutting planes: the exact optimum over all mixtures that are metrics, and a proof of it.

.. math:: \min_{\alpha \in C} \; f(\alpha) \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

for a convex quadratic f. Of the n³ triangle inequalities only a few matter. A round solves the
program over the rows known so far, asks for the triangles that its solution breaks most
(one min-plus product), and adds them as rows; rows that were idle for some rounds are forgotten.

Both sides of the optimum are known all along. The multipliers of the program give a lower bound. An
upper bound is f at weights that do make a metric: if h is the smallest margin of any law, a concave
function of the weights, and x weights strictly inside, :math:`h(x) = s > 0`, then weights with
:math:`h(\alpha) = -v` become feasible by :math:`\alpha + (v / s) x` (on the simplex, by going the
share v / (v + s) of the way to x). Such an x is looked for by a linear program over the same rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.loop import Solver
from metricmix.solvers.metric_cone import Broken, Inner, InnerSearch, Oracle
from metricmix.solvers.quadratic_program import Quadratic, WeightProgram, quadratic_of
from metricmix.solvers.result import Status
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number

__all__ = ["CuttingPlane", "CuttingPlaneState"]

NEARLY = 1e-9
"""Where there is no interior, laws broken by up to this share of the largest entry are kept."""
GAP_FLOOR = 1e-8
"""Gaps are relative to the objective, but to no less than this share of what it is elsewhere."""
NOTHING = 1e-15
"""Mixtures up to this share of the one without constraints are 0."""
MAX_STUCK = 3
"""Rounds without effect after which rounding is to blame."""


@dataclass
class CuttingPlaneState:
    """The relaxed optimum, the best metric, the bounds, the rows, and weights strictly inside.

    `interior`, `margin`, `width` and `settled` are what
    :class:`~metricmix.solvers.metric_cone.Inner`
    tells; `stuck` counts rounds that changed nothing.
    """

    weights: Floats
    incumbent: Floats
    interior: Floats
    rows: Floats
    idle: NDArray[np.int64]
    upper: float
    lower: float
    violation: float
    margin: float
    width: float
    settled: bool
    stuck: int

    @property
    def inner(self) -> Inner:
        """What is known of the interior."""
        return Inner(self.interior, self.margin, self.width, self.settled)


@dataclass(frozen=True)
class CuttingPlane(Solver[CuttingPlaneState]):
    """Cutting planes over the weights.

    Parameters
    ----------
    model : LinearModel
    start : (R,) array
        Weights that may be strictly inside; equal ones are, if the sources are metrics.
    tol : float
        Stop when the best metric is proven to be this close to the optimum, relative to it.
    rows_per_round : int
        Triangles that a round adds, at most.
    forget_after : int
        Rounds after which a row without effect is forgotten.

    Examples
    --------
    The nearest mixture to a target that only a mixture with broken triangles would meet:

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

    model: LinearModel
    start: Floats
    tol: float = 1e-8
    rows_per_round: int = 200
    forget_after: int = 5

    state_type = CuttingPlaneState
    returns: ClassVar[Literal["last"]] = "last"
    default_max_iter = 500

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)
        check_integer(self.rows_per_round, name="rows_per_round", low=1)
        check_integer(self.forget_after, name="forget_after", low=1)
        self.model.check_quadratic(
            "cutting-plane", "method='full' takes any, in the path model; see its link"
        )

    @cached_property
    def quadratic(self) -> Quadratic:
        """The objective as a function of the weights."""
        return quadratic_of(self.model)

    @cached_property
    def oracle(self) -> Oracle:
        """What finds broken laws."""
        return Oracle(self.model)

    @cached_property
    def program(self) -> WeightProgram:
        """The program over some of the rows."""
        return WeightProgram(self.quadratic, self.model.constraint, self.model.largest)

    @cached_property
    def search(self) -> InnerSearch:
        """What finds weights strictly inside."""
        return InnerSearch(self.model, self.oracle, self.start, self.rows_per_round)

    @cached_property
    def scale(self) -> float:
        """What the objective is elsewhere: without weights, and without constraints."""
        ends = np.zeros(len(self.start)), self.program.free
        return max(abs(self.quadratic.value(weights)) for weights in ends)

    # -- the loop's side -------------------------------------------------------------------------

    def init(self, rng: np.random.Generator) -> CuttingPlaneState:
        """Return weights 0, which are feasible; on the simplex, look for some that are."""
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
        if self.model.constraint != "simplex":
            return state
        while not (state.settled or self.search.keeps(state.inner)):
            state = self._widen(state)
        if not self.search.keeps(state.inner):
            raise self.model.infeasible()
        start = state.interior
        return replace(
            state, weights=start, incumbent=start, upper=self.quadratic.value(start), settled=False
        )

    def step(
        self, state: CuttingPlaneState, iteration: int, rng: np.random.Generator
    ) -> CuttingPlaneState:
        """Solve, ask for broken triangles, bound from above, add rows and forget idle ones."""
        solved = self.program.solve(state.rows, state.weights)
        if solved is None:  # rows without a solution, though there is one: rounding won
            return replace(state, stuck=MAX_STUCK)
        weights, multipliers = solved
        if self.model.constraint != "simplex":
            nothing = np.abs(weights) @ self.model.largest <= NOTHING * self._size
            weights = np.zeros_like(weights) if nothing else weights
        lower = self.program.lower_bound(weights, state.rows, multipliers)
        broken = self.oracle.worst(weights, self.rows_per_round)
        excess, noise = max(0.0, -broken.margin), self.model.noise(weights)
        moved = np.abs(weights - state.weights) @ self.model.largest > 1e3 * noise
        rose = lower > state.lower + self.tol * abs(lower)
        of_rows = multipliers[len(multipliers) - len(state.rows) :]
        state = replace(
            state,
            weights=weights,
            lower=max(lower, state.lower),
            violation=excess / broken.scale if broken.scale > 0 else 0.0,
            idle=np.where(of_rows > 0, 0, state.idle + 1),
        )
        if excess <= noise:
            state = self._improve(state, weights)
            state = self._widen(state) if len(state.rows) else state
            return replace(state, stuck=0 if moved else state.stuck + 1)
        before = len(state.rows)
        if rose and state.settled:
            kept = state.idle < self.forget_after
            state = replace(state, rows=state.rows[kept], idle=state.idle[kept])
            before = len(state.rows)
        state = self._with_rows(state, broken)
        new = len(state.rows) > before
        state = self._feasible(self._widen(state), excess + noise)
        return replace(state, stuck=0 if new or moved else state.stuck + 1)

    def check(self, state: CuttingPlaneState) -> tuple[CuttingPlaneState, float]:
        """Return the objective of the best metric so far."""
        return state, state.upper

    def details(self, state: CuttingPlaneState) -> dict[str, float]:
        """Return what the trace says of a round."""
        return {
            "lower_bound": state.lower,
            "gap": self.gap(state),
            "rows": len(state.rows),
            "violation": state.violation,
        }

    def status(self, state: CuttingPlaneState) -> Status | None:
        """Stop when the gap is closed, or when rounding keeps it open.

        Where rows matter, a few more rounds are spent to know whether there is an interior.
        """
        stuck = state.stuck >= MAX_STUCK
        inside = self.has_interior(state)
        if self.gap(state) > self.tol:
            return Status.INACCURATE if stuck else None
        if len(state.rows) and inside is None and not stuck:
            return None
        return Status.NO_INTERIOR if inside is False else Status.CONVERGED

    def is_finite(self, state: CuttingPlaneState) -> bool:
        """Return whether weights and objective are finite."""
        return bool(np.isfinite(state.weights).all() and np.isfinite(state.upper))

    def weights(self, state: CuttingPlaneState) -> Floats:
        """Return the weights of the best metric so far."""
        return state.incumbent

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        settings = ("cutting-plane", self.tol, self.rows_per_round, self.forget_after)
        digest = self.model.fingerprint() + repr((*settings, self.start.tolist()))
        return hashlib.sha256(digest.encode()).hexdigest()

    def gap(self, state: CuttingPlaneState) -> float:
        """Return how far from the optimum the best metric may be, relative to it."""
        apart = max(0.0, state.upper - state.lower)
        floor = max(GAP_FLOOR * self.scale, float(np.finfo(np.float64).tiny))
        return apart / max(abs(state.upper), floor)

    def has_interior(self, state: CuttingPlaneState) -> bool | None:
        """Return whether some weights keep all laws strictly; None if that was never asked."""
        return self.search.exists(state.inner)

    # -- feasible weights ------------------------------------------------------------------------

    @cached_property
    def _size(self) -> float:
        """How large a mixture may be: that without constraints."""
        return 1.0 + float(np.abs(self.program.free) @ self.model.largest)

    def _widen(self, state: CuttingPlaneState) -> CuttingPlaneState:
        """Look for weights further inside, unless those known are far enough."""
        if state.settled:
            return state
        inner, broken = self.search.wider(state.inner, state.rows)
        known = len(state.rows)
        if broken is not None:
            state = self._with_rows(state, broken)
        settled = self.search.is_settled(inner, len(state.rows) > known)
        return replace(
            state, interior=inner.weights, margin=inner.margin, width=inner.width, settled=settled
        )

    def _feasible(self, state: CuttingPlaneState, excess: float) -> CuttingPlaneState:
        """Move the relaxed optimum inside, as little as is enough."""
        weights = state.weights
        if self.has_interior(state) is not True:
            scale = excess / state.violation if state.violation > 0 else 0.0
            nearly = self.has_interior(state) is False and excess <= NEARLY * scale
            return self._improve(state, weights) if nearly else state
        sure = state.margin > 0
        margin = state.margin if sure else state.width
        if self.model.constraint == "simplex":
            share = excess / (excess + margin)
            weights = (1.0 - share) * weights + share * state.interior
        else:
            weights = weights + excess / margin * state.interior
        if sure:
            return self._improve(state, weights)
        # Some laws are tight in all sources and hide others of the same pair: look.
        broken = self.oracle.worst(weights, self.rows_per_round)
        if -broken.margin <= self.model.noise(weights):
            return self._improve(state, weights)
        return self._with_rows(replace(state, settled=False), broken)

    def _improve(self, state: CuttingPlaneState, weights: Floats) -> CuttingPlaneState:
        """Take the best weights between feasible ones and the best so far."""
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

    # -- rows ------------------------------------------------------------------------------------

    def _with_rows(self, state: CuttingPlaneState, broken: Broken) -> CuttingPlaneState:
        """Add the deepest rows whose direction is new."""
        if len(broken.rows) == 0:
            return state
        norms = np.linalg.norm(broken.rows @ self.program.into, axis=1)
        depth = np.divide(broken.excess, norms, out=np.zeros_like(norms), where=norms > 0)
        rows = broken.rows[np.argsort(-depth, kind="stable")]
        together = np.concatenate([state.rows, rows])
        scaled = together / self.model.largest
        rounded = np.round(scaled / np.abs(scaled).max(axis=1, keepdims=True), 10)
        _, first = np.unique(rounded, axis=0, return_index=True)
        fresh = np.sort(first[first >= len(state.rows)])[: self.rows_per_round]
        return replace(
            state,
            rows=np.concatenate([state.rows, together[fresh]]),
            idle=np.concatenate([state.idle, np.zeros(len(fresh), dtype=np.int64)]),
        )
