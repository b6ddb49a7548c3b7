"""The entry point that all relaxations share: arguments, linear program, rounding, result.

A relaxation is a subclass of :class:`LinearRelaxation`, which solves the linear program and rounds
its solution, and a subclass of :class:`Relaxation`, which holds the result; :func:`solve` does the
rest.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from metricmix.devices import resolve_device
from metricmix.kernels.deadline import stop_after
from metricmix.kernels.threads import ThreadPool, threads_for
from metricmix.relaxations.state import RelaxationState
from metricmix.relaxations.weighted_graphs import separation
from metricmix.solvers.loop import (
    Certificate,
    RunOptions,
    Solver,
    check_run_options,
    finish,
    run,
)
from metricmix.solvers.result import SolveResult, Status, relative_gap
from metricmix.typing import AnyArray, Floats, Ints
from metricmix.validation import check_integer, check_number, check_random_state

__all__ = [
    "LinearRelaxation",
    "Relaxation",
    "solve",
]


STEPS = 40
"""Primal-dual steps per round."""

FIRST_TRIALS = 4
"""Roundings at the start."""

RELATIVE = 0.02
"""Violations up to this share of the largest one, at the last search, are ignored."""

PATIENCE = 300
"""Checks without any change of the bounds after which a run has stalled."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Relaxation(SolveResult):
    """The result of a relaxation: labels, a fractional solution, and a certified bound.

    Attributes
    ----------
    labels : (n,) array
        The cluster or the side of every item.
    objective : float
        Value of the labels.
    lp_objective : float
        Value of the fractional solution, the best feasible point found of the linear program.
    gap : float
        How far `lp_objective` may be from the optimum of the linear program, relatively.
    edges, lengths : (m, 2) and (m,) arrays
        The fractional solution on the edges.
    nodes : (n,) array
        Ids of the items.
    n_iter : int
        Rounds of the linear program.
    status, message, converged : Status, str, bool
        Why the solver stopped; the same in words, with what to try next.
    trace : Trace
        `objective` is the value of the best feasible point so far, and `bound` the certified bound:
        lower when minimising, upper when maximising.
    """

    advice: ClassVar[Mapping[Status, str]] = {
        Status.CONVERGED: "converged: the gap is within tol",
        Status.MAX_ITER: "reached max_iter before tol; allow more rounds, or a larger tol",
        Status.TIME_LIMIT: "reached time_limit before tol; allow more time, or a larger tol",
        Status.STALLED: (
            "neither bound changes any more: tol is beyond the precision of the arithmetic; allow "
            "a larger tol"
        ),
        Status.INTERRUPTED: "interrupted",
        Status.DIVERGED: "met values that are not finite; check for weights of very different size",
    }

    labels: Ints
    lp_objective: float
    gap: float
    edges: Ints
    lengths: Floats
    nodes: AnyArray
    metric: Floats | None = field(init=False, repr=False, compare=False)  # of some subclasses

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(objective={self.objective:.6g}, ratio={self.ratio:.6g}, "
            f"lp_objective={self.lp_objective:.6g}, gap={self.gap:.2g}, "
            f"status={self.status.name}, n_iter={self.n_iter})"
        )

    @property
    def ratio(self) -> float:
        """``objective / lower_bound``; 1 if both are 0."""
        bound = self.lower_bound
        if bound is None or self.objective <= bound:
            return 1.0
        return self.objective / bound if bound > 0 else math.inf


class LabelledGraph(Protocol):
    """What :func:`solve` needs of a graph: the number and the ids of its nodes, and its edges."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        ...

    @property
    def nodes(self) -> AnyArray:
        """Ids of the nodes."""
        ...

    @property
    def ends(self) -> Ints:
        """Both ends of each edge."""
        ...


State = TypeVar("State", bound=RelaxationState)
Graph = TypeVar("Graph", bound=LabelledGraph)
Result = TypeVar("Result", bound=Relaxation)


class LinearRelaxation(Solver[State], Generic[State, Graph, Result]):
    """The solver of a linear program over metrics, and the rounding of its solution.

    Costs are to be minimised; a relaxation that maximises takes minus the objective. The work
    begins with the first check, so that limits and interruptions apply from the start.

    Parameters
    ----------
    graph : Graph
    pool : ThreadPool
        Threads.
    tol : float
        Gap at which to stop.
    device : str
        Where steps are taken: "cpu", or a GPU.

    Attributes
    ----------
    maximise : bool
        Whether the objective is minus the cost.
    min_trials : int
        Least number of roundings.
    result_type : type
    """

    maximise: ClassVar[bool] = False
    min_trials: ClassVar[int] = 1
    result_type: type[Result]

    def __init__(self, graph: Graph, pool: ThreadPool, tol: float, device: str = "cpu") -> None:
        self.graph, self.pool, self.tol, self.device = graph, pool, tol, device

    # What a relaxation defines

    @abstractmethod
    def start(self, state: State) -> None:
        """Find first labels, and the first rows of the linear program."""

    @abstractmethod
    def dual_bound(self, state: State) -> float:
        """Return the lower bound that the dual variables give."""

    def gap(self, cost: float, bound: float) -> float:
        """Return the gap between the cost of a feasible point and a bound, relative to the cost."""
        return relative_gap(cost, bound)

    @abstractmethod
    def round(
        self, lengths: Floats, rng: np.random.Generator, *, trials: int, moves: bool
    ) -> tuple[Ints, float]:
        """Return labels made of a feasible point, and their cost."""

    def lengths_of(self, labels: Ints) -> Floats:
        """Return the feasible point that stands for labels: 1 for edges between them, else 0."""
        return separation(self.graph.ends, labels)

    def finish(self, state: State) -> None:
        """Improve the best feasible point once more, after the last step."""

    def result(self, **fields: Any) -> Result:
        """Return the result."""
        return self.result_type(**fields)

    # What the loop calls

    @property
    def default_max_iter(self) -> int:
        """Rounds, unless the caller gives a number."""
        return 10_000

    @property
    def returns(self) -> Literal["best", "last", "mean"]:
        """Which state the loop returns: the last one, as it holds the best point."""
        return "last"

    def sign(self, cost: float) -> float:
        """Return the objective for a cost, and the cost for an objective."""
        return -cost if self.maximise else cost

    def check(self, state: State) -> tuple[State, float]:
        """Update the lower bound; return the value of the best feasible point."""
        if not state.started:
            self.start(state)
            state.started = True
        best = state.best
        best.raise_bound(self.dual_bound(state))
        before, state.previous = state.previous, (best.bound, best.cost)
        state.unchanged = state.unchanged + 1 if state.previous == before else 0
        return state, self.sign(best.cost)

    def certificate(self, state: State) -> Certificate:
        """Return the certified bound and the gap."""
        best = state.best
        return Certificate(self.sign(best.bound), self.gap(best.cost, best.bound))

    def status(self, state: State) -> Status | None:
        """Stop when the gap is small enough, or the bounds do not change any more."""
        if self.gap(state.best.cost, state.best.bound) <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.unchanged >= PATIENCE else None

    def is_finite(self, state: State) -> bool:
        """Return whether the last step met finite values."""
        return math.isfinite(state.residual)

    def fingerprint(self) -> str:
        """Return nothing: :func:`solve` accepts no checkpoints."""
        return ""


def solve(
    relaxation: type[LinearRelaxation[Any, Graph, Result]],
    read: Callable[[], Graph],
    *,
    tol: float,
    trials: int,
    moves: bool,
    random_state: Any,
    n_jobs: int | None,
    options: RunOptions,
    device: str = "cpu",
) -> Result:
    """Solve the linear program of a relaxation and round its solution; `read` returns the graph.

    Parameters, errors and warnings are those of the public functions, such as
    :func:`~metricmix.relaxations.correlation_clustering.correlation_clustering`.
    """
    tol = check_number(tol, name="tol", low=0)
    trials = check_integer(trials, name="trials", low=relaxation.min_trials)
    check_run_options(options, allowed=[n for n in RunOptions.__annotations__ if n != "checkpoint"])
    rng, _ = check_random_state(random_state)
    where = resolve_device(device)
    with stop_after(options.get("time_limit")):
        graph = read()
        with ThreadPool(threads_for(graph.n, n_jobs)) as pool:
            problem = relaxation(graph, pool, tol, where)
            outcome = run(problem, rng, **options)
            state, best = outcome.state, outcome.state.best
            if outcome.status in (Status.TIME_LIMIT, Status.INTERRUPTED) and state.is_whole():
                # The last step may have raised the bound before it was cut short.
                finish(outcome, lambda: best.raise_bound(problem.dual_bound(state)), lambda: None)
            finish(outcome, lambda: problem.finish(state), lambda: None)
            labels, cost = finish(
                outcome,
                lambda: problem.round(best.lengths, rng, trials=trials, moves=moves),
                lambda: (best.labels, best.labels_cost),
            )
    if best.labels_cost <= cost:
        labels, cost = best.labels, best.labels_cost
    best.offer(cost, problem.lengths_of(labels))  # labels are a feasible point too
    bound = min(best.bound, best.cost)
    trace = outcome.trace
    if len(trace.bound):
        trace.objective[-1], trace.bound[-1] = problem.sign(best.cost), problem.sign(bound)
    result = problem.result(
        labels=labels,
        objective=problem.sign(cost),
        lp_objective=problem.sign(best.cost),
        gap=problem.gap(best.cost, bound),
        edges=graph.ends,
        lengths=best.lengths,
        nodes=graph.nodes,
        n_iter=outcome.n_iter,
        status=outcome.status,
        trace=trace,
        **{"upper_bound" if problem.maximise else "lower_bound": problem.sign(bound)},
    )
    return result.warn_unless_converged()
