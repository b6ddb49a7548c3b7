r"""Nearest metrics by dual ascent over the triangles that matter.

A round: add rows of broken triangles (:mod:`~metricmix.nearness.triangle_oracle`),
forget those whose dual
is 0, sweep (:mod:`~metricmix.nearness.momentum`), look for broken triangles again. The duals give a
lower bound; a metric near x (:mod:`~metricmix.nearness.dual_ascent`)
gives an upper one, and is what
is returned, whenever the end comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metricmix.kernels.symmetric import mirror
from metricmix.kernels.threads import Crew, row_ranges
from metricmix.nearness.checkpoints import Kept
from metricmix.nearness.constraints import Rows
from metricmix.nearness.losses import Terms
from metricmix.nearness.momentum import Ascent
from metricmix.nearness.problem import Problem, closure_of
from metricmix.nearness.triangle_oracle import Broken, broken_rows, spread_pairs
from metricmix.solvers.loop import Solver
from metricmix.solvers.result import Status, relative_gap
from metricmix.typing import Floats, Ints

__all__ = ["AscentState", "DualAscent", "metric_near"]


SHARE, SHARE_BOUNDED, MOST = 0.8, 0.5, 5
"""Of the items k that break a pair's triangles, up to MOST that save SHARE of the largest excess
(or more of them, as long as there are as many rows as pairs). More save rounds, each a product of
n^3 / 2, and cost rows in the sweeps. Entries that must not fall are held up by many k each."""

SMALL = 0.02
"""Pairs are looked at if their excess is at least this share of the largest one a round ago."""

LOOK, PAIR, MANY = 0.02, 0.2, 60
"""Cost of looking at a triangle, and of moving a pair, relative to that of a row in a sweep; most
sweeps of a round."""

FIRST = 4
"""Sweeps of a round after which rows without effect are forgotten, for the rest to be faster."""

NEAR, FIRST_LEAP, LEAPS = 1e-2, 40, 10
"""Gap and rounds from which solving the problem over the rows alone is tried, and how often then.
It waits the longer the more rows there are, and twice as long every time it was in vain."""

ROUNDING = 1e-14
"""Share by which bounds may change without moving."""

NOTHING = Kept()

PATIENCE = 10
"""Rounds after which bounds that did not move will not move any more."""


@dataclass
class AscentState:
    """The bounds that the last round gave, and the rounds since they moved.

    Everything large stays in the solver.
    """

    lower: float
    upper: float
    waited: int


class DualAscent(Solver[AscentState]):
    """Dual ascent for one problem; see the module.

    Parameters
    ----------
    terms : Terms
        The objective.
    crew : Crew
    tol : float
        Gap to reach.
    start : Kept
        Metric within the bounds, duals and bound to go on from, where there are any.
    """

    state_type = AscentState

    def __init__(
        self,
        terms: Terms,
        crew: Crew,
        *,
        tol: float,
        start: Kept = NOTHING,
    ) -> None:
        self.terms, self.problem, self.crew, self.tol = terms, terms.problem, crew, tol
        self.start = start
        self.matrix = np.empty((self.problem.n, self.problem.n))
        self.metric: Floats | None = None
        self.unchanged = False  # whether the best metric is d, but for rounding
        self.lower, self.upper = start.lower, math.inf
        if start.metric is not None:
            self._offer(start.metric)
        self.lower_bounds: list[float] = []
        self.rows: Rows | None = None
        self.ascent: Ascent | None = None
        self.rounds, self.patience, self.effort = 0, FIRST_LEAP, 1
        self.found = Broken(np.empty(0, np.int64), 0, math.inf, math.inf)

    @property
    def gap(self) -> float:
        """The gap so far."""
        return 0.0 if self.unchanged else relative_gap(self.upper, self.lower)

    def init(self, rng: np.random.Generator) -> AscentState:
        """Return a state that knows nothing; the first check begins the work."""
        return AscentState(self.lower, self.upper, 0)

    def step(self, state: AscentState, iteration: int, rng: np.random.Generator) -> AscentState:
        """Do a round."""
        assert self.rows is not None
        assert self.ascent is not None
        self.rounds += 1
        if self.gap < NEAR and self.rounds >= self.patience + len(self.rows) // 50:
            self.rounds, self.patience = 0, 2 * self.patience
            self._leap()
            if self.gap <= self.tol:
                return state
        # Where rows that are known break as badly as new ones, it is the sweeps that lag behind.
        lagging = self.rows.worst(self.ascent.point()) > 0.5 * self.found.worst
        more, less = min(self.terms.effort, 2 * self.effort), max(1, self.effort // 2)
        self.effort = more if lagging else less
        self.rows.add(self.found.keys)
        self.ascent.climb(FIRST)
        if np.count_nonzero(self.rows.z) < 0.7 * len(self.rows):
            self.rows.add(np.empty(0, np.int64))  # only forgets: most new rows have had their say
        self.ascent.climb(self._sweeps() - FIRST)
        self._look(self.ascent.point())
        return state

    def check(self, state: AscentState) -> tuple[AscentState, float]:
        """Return the objective of the best metric so far, with both bounds brought up to date."""
        first = self.ascent is None
        if first:
            self._offer(metric_near(self.problem.d, self.problem, self.crew.threads))
            if self.upper == 0.0:  # D is a metric
                self.lower_bounds.append(0.0)
                return AscentState(0.0, 0.0, 0), 0.0
            self._begin()
        assert self.ascent is not None
        assert self.rows is not None
        x = self.ascent.point()
        lower = self.terms.lower_bound(self.rows, x)
        self.lower = max(self.lower, lower)
        # Shortest paths cost as much as the product; two-edge paths tell whether they will pay.
        hoped = self.found.value
        if hoped - self.lower <= max(0.2 * (self.upper - self.lower), self.tol * hoped):
            self._offer(metric_near(x, self.problem, self.crew.threads))
        self.terms.follow(self.ascent, hoped, lower)
        self.lower_bounds.append(self.lower)
        still = math.isclose(lower, state.lower, rel_tol=ROUNDING) and math.isclose(
            hoped, state.upper, rel_tol=ROUNDING
        )
        return AscentState(lower, hoped, state.waited + 1 if still else 0), self.upper

    def status(self, state: AscentState) -> Status | None:
        """Stop when the gap is small enough, or nothing moves any more."""
        if self.gap <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.waited >= PATIENCE else None

    def is_finite(self, state: AscentState) -> bool:
        """Return whether the last round met finite values."""
        return math.isfinite(self.found.worst)

    def weights(self, state: AscentState) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints, but go on from a result."""
        return ""

    def finish(self) -> Floats:
        """Return the best metric, as pairs; look at the last point too, if it may be better."""
        if self.metric is None or self.gap > self.tol:
            x = self.problem.d if self.ascent is None else self.ascent.point()
            self._offer(metric_near(x, self.problem, self.crew.threads))
        assert self.metric is not None
        return self.metric

    def triangles(self) -> tuple[Ints, Floats]:
        """Return the rows (i, j, k) with a positive dual, and the duals."""
        if self.rows is None:
            return np.empty((0, 3), np.int32), np.empty(0)
        return self.rows.triples()

    def _begin(self) -> None:
        self.rows = Rows(self.problem.n, self.crew)
        if self.start.triangles is not None and self.start.multipliers is not None:
            self.rows.set_duals(self.start.triangles, self.start.multipliers)
            self.rows.z *= self.terms.scale_for(self.rows)
        self.ascent = self.terms.ascent(
            self.rows, None if self.start.metric is None else self.metric
        )
        self._look(self.ascent.point())

    def _sweeps(self) -> int:
        """Return how many sweeps take about as long as looking for broken triangles, or ten."""
        assert self.rows is not None
        n = self.problem.n
        times = LOOK * n**3 / (len(self.rows) + PAIR * n**2)
        return int(self.effort * self.terms.sweeps * min(MANY, max(10.0, times)))

    def _leap(self) -> None:
        """Solve the problem over the rows, and add rows to it, until that solves the whole one."""
        assert self.rows is not None
        rows, found, worst = self.rows.copy(), self.found, math.inf
        for _ in range(LEAPS):
            rows.add(self.found.keys, forget=False)
            best = self.terms.solve_over(rows)
            if best is None:
                break
            x, rows.z = best
            self.lower = max(self.lower, self.terms.lower_bound(rows, x))
            self._offer(metric_near(x, self.problem, self.crew.threads))
            if self.gap <= self.tol:
                self.rows = rows
                return
            self._look(x)
            if self.found.worst > 0.5 * worst:
                break  # from corner to corner: there are many solutions over these rows
            worst = self.found.worst
        self.found = found  # go on as if nothing had happened, but for the bounds

    def _look(self, x: Floats) -> None:
        """Look for broken triangles of x."""
        assert self.rows is not None
        n = self.problem.n
        ranges = row_ranges(n, 64, 4 * self.crew.threads, triangle=True)
        self.crew.run(lambda r: spread_pairs(x, *r, self.matrix), ranges)
        self.crew.run(lambda r: mirror(self.matrix, *r), ranges)
        rounding = 16 * float(np.finfo(np.float64).eps) * self.problem.ceiling
        small = SMALL * self.found.worst if math.isfinite(self.found.worst) else 0.0
        most = MOST
        if self.found.pairs:  # the fewer pairs are broken, the more rows of each
            most = min(n, max(MOST, len(x) // self.found.pairs))
        self.found = broken_rows(
            self.matrix,
            self.crew,
            size=self.rows.size,
            blocks=self.rows.blocks,
            tolerance=max(rounding, small),
            share=SHARE if self.problem.lower is None else SHARE_BOUNDED,
            most=most,
            objective=self.terms.part,
        )

    def _offer(self, metric: Floats) -> None:
        """Keep a metric if it is the best so far."""
        objective = self.terms.objective(metric)
        if self.metric is None or objective < self.upper:
            self.metric, self.upper = metric, objective
            self.unchanged = self.problem.is_unchanged(metric)


# -- a metric near a point that is almost one ---------------------------------------------------


HALVINGS = 6
"""Steps of bisection: the smallest shift is met to a share of 1 / 64."""


def metric_near(x: Floats, problem: Problem, n_jobs: int | None) -> Floats:
    """Return a metric within the bounds, as pairs, near x."""
    lower = problem.lower
    base = np.maximum(x, 0.0 if lower is None else lower)

    def shifted(by: float) -> Floats:
        lengths = base + by if problem.upper is None else np.minimum(base + by, problem.upper)
        return closure_of(lengths, problem.n, n_jobs)

    metric = shifted(0.0)
    if lower is None:
        return metric
    floor = lower - 8 * np.finfo(float).eps * max(problem.ceiling, float(np.max(base)))
    below, above = 0.0, float(np.max(lower - metric))
    if np.any(metric < floor):
        metric = shifted(above)
        while np.any(metric < floor):
            below, above = above, 2.0 * above
            metric = shifted(above)
        for _ in range(HALVINGS):
            middle = 0.5 * (below + above)
            tried = shifted(middle)
            if np.any(tried < floor):
                below = middle
            else:
                above, metric = middle, tried
    return np.maximum(metric, lower)  # by a few roundings at most
