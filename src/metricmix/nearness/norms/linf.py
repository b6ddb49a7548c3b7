r"""The metric nearest in the maximum norm.

.. math:: t^* = \min \{ t : P(\min(d + t/w, u)) \ge \max(d - t/w, l) \}

P is the shortest-path closure: the left-hand side is the largest metric that raises no entry by
more than :math:`t/w`, and t is feasible if and only if it lowers none by more. If t is
infeasible, some pair ij and some path between its ends violate

.. math:: \max(d_{ij} - s/w_{ij},\, l_{ij}) \;\le\; \sum_e \min(d_e + s/w_e,\, u_e)
          \qquad \text{for every } s \le t

and the smallest s that satisfies it is a lower bound of t*. t goes from bound to bound (Newton's
method on a piecewise linear function) until it is feasible: then it is t* itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.norms.norm import NORMS, Norm
from metricmix.nearness.problem import (
    NearnessProblem,
    closure_of,
    items_of,
    matrix_of,
    pairs_of,
)
from metricmix.nearness.solver import BestMetric, NearnessSolver, WarmStart
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import as_float_array, check_number

if TYPE_CHECKING:
    from metricmix.nearness.nearest_metric import NearnessResult

__all__ = [
    "LInfinitySolver",
    "LInfinityState",
    "LargestNorm",
    "refine_linf",
    "shortest_path_nodes",
]


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Rounding error of a path length, as a share of the entry that the path is compared with."""


@NORMS.register(
    "linf",
    order=2,
    words="largest absolute change of a pair",
    brief="the largest change (of many such metrics, one that changes little else)",
    formula="largest w abs(x - d)",
    how="the smallest t with P(d + t/w) >= d - t/w",
)
class LargestNorm(Norm):
    """The largest weighted absolute value."""

    power = 1
    bytes_per_entry = 120

    def objective(self, change: Floats, w: Floats) -> float:
        """Return the largest w abs(x - d)."""
        return float(np.max(w * np.abs(change), initial=0.0))

    def solver(
        self, problem: NearnessProblem, pool: ThreadPool, tol: float, device: str
    ) -> NearnessSolver[Any]:
        """Return Newton's method for the smallest change."""
        return LInfinitySolver(problem, tol=tol, n_jobs=pool.threads)

    def refined(self, D: AnyArray, result: NearnessResult, **options: Any) -> NearnessResult:
        """Return the metric of :func:`refine_linf`."""
        return refine_linf(D, result, **options)


@dataclass(kw_only=True)
class LInfinityState(BestMetric):
    """The change t to try next, whether Newton's method chose it, and the largest infeasible t.

    `still` counts the steps since a bound changed. The lower bound comes from the triangles along
    the path `nodes`, all with the same `multiplier`.
    """

    t: float = 0.0
    newton: bool = False
    infeasible: float = -math.inf
    still: int = 0
    nodes: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    multiplier: float = 0.0


class LInfinitySolver(NearnessSolver[LInfinityState]):
    """Newton's method for the smallest feasible change; see the module.

    Parameters
    ----------
    problem, tol, start
        As for :class:`~metricmix.nearness.solver.NearnessSolver`.
    n_jobs : int, optional
        Threads.
    """

    state_type = LInfinityState

    def __init__(
        self,
        problem: NearnessProblem,
        *,
        tol: float,
        start: WarmStart | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(problem, tol=tol, start=start)
        self.n_jobs = n_jobs
        self.known = problem.w > 0
        self.per_unit = np.divide(1.0, problem.w, out=np.zeros(len(problem.w)), where=self.known)

    def init(self, rng: np.random.Generator) -> LInfinityState:
        """Start from no change."""
        state = LInfinityState()
        return state if self.start.metric is None else self.offered(state, self.start.metric)

    def step(
        self, state: LInfinityState, iteration: int, rng: np.random.Generator
    ) -> LInfinityState:
        """Close the lengths that t allows; go on to the t that the worst pair needs."""
        t, problem, bounds = state.t, self.problem, (state.lower, state.upper)
        allowed = t * self.per_unit
        longest = problem.d + allowed
        # Sums that were rounded up would raise entries by more than t.
        longest = np.where(longest - problem.d > allowed, np.nextafter(longest, 0.0), longest)
        longest = np.where(self.known, longest, np.inf)
        if problem.upper is not None:
            longest = np.minimum(longest, problem.upper)
        shortest = np.where(self.known, problem.d - allowed, 0.0)
        if problem.lower is not None:
            shortest = np.maximum(shortest, problem.lower)
        lengths = matrix_of(longest, problem.n)
        closed = close_in_place(lengths.copy(), symmetric=True, n_jobs=self.n_jobs)
        metric = pairs_of(closed)
        state = replace(self.offered(state, metric))
        lacking = shortest - metric
        lacking -= ROUNDING * np.maximum(shortest, problem.d + allowed)
        worst = int(lacking.argmax())
        room = state.upper - state.lower
        if lacking[worst] > 0.0:
            nodes = shortest_path_nodes(lengths, *items_of(worst))
            needed, multiplier = self.smallest_change(nodes, t)
            if needed > state.lower:
                state.lower = min(needed, state.upper)
                state.nodes, state.multiplier = nodes, multiplier
            state.infeasible = max(state.infeasible, t)
        # Newton's method takes finitely many steps, but they may be short: then bisect in between.
        short = state.newton and state.upper - state.lower > 0.7 * room
        state.newton = state.infeasible < state.lower and not short
        state.t = state.lower if state.newton else 0.5 * (state.lower + state.upper)
        state.still = state.still + 1 if bounds == (state.lower, state.upper) else 0
        return state

    def check(self, state: LInfinityState) -> tuple[LInfinityState, float]:
        """Return the objective of the best metric so far, in units of the input."""
        return super().check(self.finish(state))

    def status(self, state: LInfinityState) -> Status | None:
        """Stop when the gap is small enough, or as small as the arithmetic allows."""
        small = state.upper - state.lower <= ROUNDING * state.upper
        # Two steps without change: one of Newton's and one of bisection.
        stalled = Status.STALLED if small or state.still >= 2 else None
        return super().status(state) or stalled

    def is_finite(self, state: LInfinityState) -> bool:
        """Return whether the next change is finite."""
        return math.isfinite(state.t)

    def finish(self, state: LInfinityState) -> LInfinityState:
        """Return the state with a metric: at first the largest one that the bounds allow."""
        if state.metric is not None:
            return state
        top = np.full(len(self.known), self.problem.ceiling)
        upper = self.problem.upper
        top = top if upper is None else np.minimum(top, upper)
        return self.offered(state, closure_of(top, self.problem.n, self.n_jobs))

    def multipliers(self, state: LInfinityState) -> tuple[Ints, Floats]:
        """Return the triangles along the path of the lower bound, which add up to it."""
        ends = np.arange(2, max(2, len(state.nodes)))
        at = state.nodes
        first = np.full(len(ends), at[0] if len(at) else 0)
        triangles = np.stack([first, at[ends], at[ends - 1]], axis=1).astype(np.int32)
        return triangles, np.full(len(ends), state.multiplier)

    def smallest_change(self, nodes: Indices, t: float) -> tuple[float, float]:
        r"""Return the smallest change s >= t for which a pair is no longer than a path.

        The second number is the multiplier z of that inequality: s is the minimum over x of f(x)
        plus z times what the pair lacks.
        """
        high_end, low_end = np.maximum(nodes[1:], nodes[:-1]), np.minimum(nodes[1:], nodes[:-1])
        path = high_end * (high_end - 1) // 2 + low_end
        i, j = max(nodes[0], nodes[-1]), min(nodes[0], nodes[-1])
        pair = int(i * (i - 1) // 2 + j)
        d, per_unit, problem, before = self.problem.d, self.per_unit, self.problem, 0.0
        low = 0.0 if problem.lower is None else float(problem.lower[pair])
        high = np.full(len(path), np.inf) if problem.upper is None else problem.upper[path]
        while True:
            target = d[pair] - t * per_unit[pair] if self.known[pair] else -np.inf
            raised = np.where(self.known[path], d[path] + t * per_unit[path], np.inf)
            lacking = max(float(target), low) - float(np.minimum(raised, high).sum())
            slope = float(per_unit[path][raised < high].sum())
            slope += float(per_unit[pair]) if target > low else 0.0
            if lacking <= 0.0 or slope == 0.0 or t + lacking / slope == t:
                slope = before or slope  # left of t; at a bound, it is smaller on the right
                return t, 1.0 / slope if slope > 0 else 0.0
            t += lacking / slope
            before = slope

    def offered(self, state: LInfinityState, metric: Floats) -> LInfinityState:
        """Return the state with this metric, if it is within the bounds and the best so far."""
        lower = self.problem.lower
        if lower is not None:
            if np.any(metric < (1.0 - ROUNDING) * lower):
                return state
            metric = np.maximum(metric, lower)
        return self.improved(state, metric, self.problem.objective(metric))


def shortest_path_nodes(lengths: Floats, start: int, end: int) -> Indices:
    """Return the items of a shortest path between two items, by Dijkstra's algorithm.

    Edges of length 0 are edges, inf is none.
    """
    n = len(lengths)
    reached, before = lengths[start].copy(), np.full(n, start)
    waiting = np.ones(n, bool)
    waiting[start] = False
    while True:
        k = int(np.where(waiting, reached, np.inf).argmin())
        if k == end:
            break
        waiting[k] = False
        shorter = waiting & (reached[k] + lengths[k] < reached)
        reached[shorter] = reached[k] + lengths[k, shorter]
        before[shorter] = k
    nodes = [end]
    while nodes[-1] != start:
        nodes.append(int(before[nodes[-1]]))
    return np.array(nodes[::-1], np.int64)


def refine_linf(
    D: ArrayLike, result: NearnessResult, tol: float = 1e-2, **options: Any
) -> NearnessResult:
    r"""Return, of the metrics with the same largest change, one with small squared changes.

    .. math:: \min_x \; \sum_{i<j} (x_{ij} - d_{ij})^2 \qquad |x_{ij} - d_{ij}| \le t, \quad
              x \text{ a metric}

    Parameters
    ----------
    D : (n, n) array
        Dissimilarities; NaN is an unknown entry.
    result : NearnessResult
        Of ``nearest_metric(D, "linf")`` without weights and bounds; t is its objective.
    tol : float
        Relative gap of the squared changes.
    **options
        `n_jobs` and the options of a run, see :func:`nearest_metric`.

    Returns
    -------
    NearnessResult
        `result` with another metric, or as it is if `time_limit` is too short for that.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> D = np.array([[0, 1, 7, 3], [1, 0, 3, 3], [7, 3, 0, 3], [3, 3, 3, 0]], float)
    >>> result = mm.nearest_metric(D, "linf")
    >>> result.metric[3]  # the largest of all metrics with this largest change
    array([4., 4., 4., 0.])
    >>> mm.nearness.refine_linf(D, result).metric[3].round(2)
    array([3., 3., 3., 0.])
    """
    from metricmix.nearness.nearest_metric import nearest_metric  # which looks norms up

    D = as_float_array(D, name="D").astype(np.float64)
    most = result.objective * (1.0 + 1e-12)
    if options.get("time_limit") is not None:
        check_number(options["time_limit"], name="time_limit", low=0)
    try:
        refined = nearest_metric(
            D, "l2", tol=tol, lower=D - most, upper=D + most, start=result.metric, **options
        )
    except InputError as error:
        if error.argument != "time_limit":
            raise
        return result  # no time to improve on it
    return replace(result, metric=refined.metric, allowed=refined.allowed)
