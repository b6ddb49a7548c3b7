r"""Nearest metrics by dual ascent with a growing set of triangle constraints.

A round adds constraints for violated triangles (:mod:`~metricmix.nearness.triangle_oracle`), drops
those whose dual is 0, sweeps over the rest (:mod:`~metricmix.nearness.coordinate_ascent`), and
looks for violated triangles again. The duals give a lower bound; primal repair, a metric near the
primal point, gives an upper bound and the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from metricmix.kernels.deadline import TimeUp, time_is_up
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import KeyedDuals, TriangleConstraints
from metricmix.nearness.coordinate_ascent import AscentState
from metricmix.nearness.loss import Loss
from metricmix.nearness.problem import NearnessProblem, closure_of
from metricmix.nearness.solver import BestMetric, NearnessSolver, WarmStart
from metricmix.nearness.triangle_oracle import SelectedTriangles, find_violated
from metricmix.solvers.result import Status
from metricmix.typing import Floats, Indices, Ints

__all__ = ["DualAscent", "DualAscentState", "repair_primal"]


SHARE, SHARE_BOUNDED, MOST = 0.8, 0.5, 5
"""Constraints per violated pair: up to `MOST`, of at least `SHARE` of its largest violation. More
save rounds, each a product of n^3 / 2, and make sweeps longer. Entries with a lower bound need many
constraints each."""

ORACLE_COST, PAIR_COST, MOST_SWEEPS = 0.02, 0.2, 60
"""Cost of the oracle per triangle, and of a sweep per pair, relative to that of a sweep per
constraint; most sweeps of a round."""

PROGRAM_GAP, PROGRAM_WAIT, PROGRAM_ROUNDS = 1e-2, 40, 10
"""Gap and rounds from which the problem restricted to the known constraints is solved exactly, and
most rounds of that. The wait grows with the number of constraints, and doubles after every try."""


@dataclass(kw_only=True)
class DualAscentState(BestMetric, AscentState):
    """The state of dual ascent.

    Attributes
    ----------
    best_keys, best_dual : (B,) arrays
        Keys and positive duals whose bound is `lower`.
    violated : (V,) array
        Keys of the violated triangles to add next.
    violated_pairs, worst, repaired_value : int, float, float
        What the oracle found beside them (:class:`~metricmix.nearness.triangle_oracle.\
ViolatedTriangles`).
    lagging : bool
        Whether known constraints are violated about as much as new ones: sweeps limit progress.
    effort : int
        Multiple of the usual number of sweeps.
    rounds, wait : int
        Rounds since the restricted problem was last tried, and those to wait.
    last_lower, last_upper, still : float, float, int
        Bounds of the last round, and rounds since they changed.
    repaired : bool
        False after a resume: the first step then repairs the primal point, as the end of the
        earlier run did, so that no bound gets lost.
    """

    best_keys: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    best_dual: Floats = field(default_factory=lambda: np.empty(0))
    violated: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    violated_pairs: int = 0
    worst: float = math.inf
    repaired_value: float = math.inf
    lagging: bool = False
    effort: int = 1
    rounds: int = 0
    wait: int = PROGRAM_WAIT
    last_lower: float = 0.0
    last_upper: float = math.inf
    still: int = 0
    repaired: bool = field(default=False, metadata={"checkpoint": False})

    @property
    def started(self) -> bool:
        """Whether there is a primal point."""
        return len(self.point) > 0


class DualAscent(NearnessSolver[DualAscentState]):
    """Dual ascent for one problem; see the module.

    Parameters
    ----------
    loss : Loss
        The objective.
    pool : ThreadPool
    tol : float
        Relative gap to reach.
    start : WarmStart, optional
        A metric within the bounds, and duals.
    """

    state_type = DualAscentState

    def __init__(
        self, loss: Loss, pool: ThreadPool, *, tol: float, start: WarmStart | None = None
    ) -> None:
        super().__init__(loss.problem, tol=tol, start=start)
        self.loss, self.pool = loss, pool

    def init(self, rng: np.random.Generator) -> DualAscentState:
        """Return the initial state; the first check does the first round."""
        state = DualAscentState(repaired=True)
        return state if self.start.metric is None else self.offered(state, self.start.metric)

    def check(self, state: DualAscentState) -> tuple[DualAscentState, float]:
        """Return the objective of the best metric so far, in units of the input."""
        if not state.started:
            state = self.begin(state)
        return super().check(state)

    def begin(self, state: DualAscentState) -> DualAscentState:
        """Return the state after the first round: no sweeps, only bounds."""
        problem, start = self.problem, self.start
        found = self.offered(state, repair_primal(problem.d, problem, self.pool.threads))
        # In place: the metric is kept if the time is up before the end of this round.
        state.metric, state.upper, state.unchanged = found.metric, found.upper, found.unchanged
        state = replace(state)
        if state.upper == 0.0:  # D is a metric
            return state
        constraints = TriangleConstraints(problem.n, self.pool)
        if start.triangles is not None and start.multipliers is not None:
            constraints = TriangleConstraints.from_triangles(
                problem.n, self.pool, start.triangles, start.multipliers
            )
            constraints.duals.dual[:] *= self.loss.dual_scale(constraints)
        state.set_constraints(constraints)
        centre = self.loss.centre(None if start.metric is None else state.metric)
        self.loss.ascent.start(state, constraints, centre)
        return self.evaluated(state, constraints)

    def step(
        self, state: DualAscentState, iteration: int, rng: np.random.Generator
    ) -> DualAscentState:
        """Return the state after a round; no array of the given one is changed."""
        if not state.repaired:
            state = self.finish(state)
        given = state
        # The merge below replaces the arrays of the constraints; sweeps change the other two.
        state = replace(
            state,
            rounds=state.rounds + 1,
            point=state.point.copy(),
            previous_point=state.previous_point.copy(),
            repaired=True,
        )
        if self.gap(state) < PROGRAM_GAP and state.rounds >= state.wait + len(state.keys) // 50:
            state = self.solve_restricted(replace(state, rounds=0, wait=2 * state.wait))
            if self.gap(state) <= self.tol:
                return state
        try:
            return self.next_round(state)
        except TimeUp:
            given.lower = state.lower  # which only rises, with its duals
            given.best_keys, given.best_dual = state.best_keys, state.best_dual
            raise

    def next_round(self, state: DualAscentState) -> DualAscentState:
        """Return the state after adding constraints, sweeping and evaluating.

        Raises
        ------
        TimeUp
            If the time is up; the lower bound of the state is that of the sweeps done.
        """
        usual, most = self.loss.sweeps(state)
        more, less = min(most, 2 * state.effort), max(1, state.effort // 2)
        state.effort = more if state.lagging else less
        ascent, n = self.loss.ascent, self.problem.n
        constraints = TriangleConstraints(n, self.pool, state.duals).merged(state.violated)
        first_sweeps = 4  # sweeps after which constraints whose dual is still 0 are dropped
        ascent.climb(state, constraints, first_sweeps)
        if np.count_nonzero(constraints.duals.dual) < 0.7 * len(constraints):
            constraints = constraints.merged(np.empty(0, np.int64))
        # As many sweeps as take about as long as the oracle, but at least ten.
        balanced = ORACLE_COST * n**3 / (len(constraints) + PAIR_COST * n**2)
        sweeps = int(state.effort * usual * min(MOST_SWEEPS, max(10.0, balanced)))
        ascent.climb(state, constraints, sweeps - first_sweeps)
        state.set_constraints(constraints)
        if time_is_up():  # too few sweeps for a round; their bound holds
            self.raise_bound(state, constraints, ascent.primal(state, self.pool))
            raise TimeUp
        return self.evaluated(state, constraints)

    def status(self, state: DualAscentState) -> Status | None:
        """Stop when the gap is small enough, or no bound changes any more."""
        stalled = Status.STALLED if state.still >= 10 else None
        return super().status(state) or stalled

    def is_finite(self, state: DualAscentState) -> bool:
        """Return whether the last round met finite values."""
        return math.isfinite(state.worst)

    def finish(self, state: DualAscentState) -> DualAscentState:
        """Return the state with the best metric; repair the last point too, if it may be better."""
        if state.metric is not None and self.gap(state) <= self.tol:
            return state
        x = self.problem.d
        if state.started:
            x = self.loss.ascent.primal(state, self.pool)
        return self.offered(state, repair_primal(x, self.problem, self.pool.threads))

    def multipliers(self, state: DualAscentState) -> tuple[Ints, Floats]:
        """Return the triangles (i, j, k) and duals of the lower bound."""
        best = KeyedDuals(state.best_keys, state.best_dual, state.best_dual)
        return TriangleConstraints(self.problem.n, self.pool, best).triangles()

    def offered(self, state: DualAscentState, metric: Floats) -> DualAscentState:
        """Return the state with this metric, if it is the best so far."""
        return self.improved(state, metric, self.problem.objective(metric))

    def evaluated(
        self, state: DualAscentState, constraints: TriangleConstraints
    ) -> DualAscentState:
        """Return the state with bounds and violated triangles of its primal point."""
        loss, ascent = self.loss, self.loss.ascent
        x = ascent.primal(state, self.pool)
        lower = self.raise_bound(state, constraints, x)
        self.separate(state, x)
        # Shortest paths cost as much as the oracle; two-edge paths show whether they can pay.
        hoped = state.repaired_value
        if hoped - state.lower <= max(0.2 * (state.upper - state.lower), self.tol * hoped):
            state = self.offered(state, repair_primal(x, self.problem, self.pool.threads))
        loss.recentre(state, x, hoped, lower)
        violation = constraints.violation(ascent.primal(state, self.pool))
        state.lagging = violation > 0.5 * state.worst
        rounding = 1e-14  # relative change of a bound up to which it counts as unchanged
        still = math.isclose(lower, state.last_lower, rel_tol=rounding) and math.isclose(
            hoped, state.last_upper, rel_tol=rounding
        )
        state.last_lower, state.last_upper = lower, hoped
        state.still = state.still + 1 if still else 0
        return state

    def raise_bound(
        self, state: DualAscentState, constraints: TriangleConstraints, x: Floats
    ) -> float:
        """Return the lower bound of the duals; keep it and them if it is the best so far."""
        lower, scale = self.loss.lower_bound(constraints, x)
        if lower > state.lower:
            keys, dual, _ = constraints.duals
            positive = dual > 0
            state.lower = lower
            state.best_keys, state.best_dual = keys[positive], scale * dual[positive]
        return lower

    def separate(self, state: DualAscentState, x: Floats) -> None:
        """Find violated triangles of x."""
        # Pairs count if their violation is at least this share of the largest one a round ago.
        share_of_worst = 0.02
        small = share_of_worst * state.worst if math.isfinite(state.worst) else 0.0
        most = MOST
        if state.violated_pairs:  # the fewer pairs are violated, the more constraints of each
            most = min(self.problem.n, max(MOST, len(x) // state.violated_pairs))
        share = SHARE if self.problem.lower is None else SHARE_BOUNDED
        # Violations up to this share of the pair's own length count as rounding.
        rounding = 16 * float(np.finfo(np.float64).eps)
        found = find_violated(
            x,
            self.problem.n,
            self.pool,
            SelectedTriangles(small, share, most, rounding),
            self.loss.objective_of_rows,
        )
        state.violated, state.violated_pairs, state.worst, state.repaired_value = found

    def solve_restricted(self, state: DualAscentState) -> DualAscentState:
        """Return the state after solving the problem over the known constraints only.

        Violated triangles are added until that solves the whole problem. If it does not, only the
        bounds change.
        """
        tried, worst = replace(state), math.inf
        constraints = TriangleConstraints(self.problem.n, self.pool, state.duals)
        for _ in range(PROGRAM_ROUNDS):
            constraints = constraints.merged(tried.violated, forget=False)
            best = self.loss.solve_restricted(constraints)
            if best is None:
                break
            x, constraints.duals.dual[:] = best
            self.raise_bound(tried, constraints, x)
            tried = self.offered(tried, repair_primal(x, self.problem, self.pool.threads))
            if self.gap(tried) <= self.tol:
                tried.set_constraints(constraints)
                self.loss.ascent.start(tried, constraints, x)
                return tried
            self.separate(tried, x)
            if tried.worst > 0.5 * worst:
                break  # from vertex to vertex: these constraints leave many solutions
            worst = tried.worst
        return replace(
            state,
            metric=tried.metric,
            upper=tried.upper,
            lower=tried.lower,
            best_keys=tried.best_keys,
            best_dual=tried.best_dual,
            unchanged=tried.unchanged,
        )


# -- primal repair ------------------------------------------------------------------------------


def repair_primal(x: Floats, problem: NearnessProblem, n_jobs: int | None) -> Floats:
    """Return a metric within the bounds near x: the closure of x + s for a small shift s >= 0."""
    lower = problem.lower
    base = np.maximum(x, 0.0 if lower is None else lower)

    def shifted(by: float) -> Floats:
        lengths = base + by if problem.upper is None else np.minimum(base + by, problem.upper)
        return closure_of(lengths, problem.n, n_jobs)

    metric = shifted(0.0)
    if lower is None:
        return metric
    floor = (1.0 - 64 * float(np.finfo(np.float64).eps)) * lower  # rounding of a path length
    if np.any(metric < floor):
        below, above = 0.0, float(np.max(lower - metric))
        top = np.inf if problem.upper is None else float(np.max(problem.upper))
        metric = shifted(above)
        while np.any(metric < floor) and above < top:  # then it is the closure of the upper bounds
            below, above = above, 2.0 * above
            metric = shifted(above)
        for _ in range(6):  # the smallest shift is found to a share of 1 / 64
            middle = 0.5 * (below + above)
            tried = shifted(middle)
            if np.any(tried < floor):
                below = middle
            else:
                above, metric = middle, tried
    return np.maximum(metric, lower)  # by a few roundings at most
