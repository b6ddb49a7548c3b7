"""What relaxations have in common: a bound, how it came about, and what to do next."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from metricmix.exceptions import ConvergenceWarning, warn_caller
from metricmix.solvers.loop import Progress, RunOptions, Solver, run
from metricmix.solvers.result import Status

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Relaxation",
    "RelaxationProgress",
    "RelaxationTrace",
    "RoundState",
    "Rounds",
    "finished",
    "relax",
]


ADVICE = {
    Status.CONVERGED: "converged: the gap is within tol",
    Status.MAX_ITER: "reached max_iter before tol; give it more rounds, or take a larger tol",
    Status.TIME_LIMIT: "reached time_limit before tol; give it more time, or take a larger tol",
    Status.STALLED: (
        "neither bound moves any more: tol asks for more digits than the arithmetic has; take a "
        "larger tol"
    ),
    Status.STOPPED: "stopped by the callback",
    Status.INTERRUPTED: "interrupted",
    Status.DIVERGED: "met values that are not finite; check weights of very different size",
}


@dataclass
class RelaxationTrace:
    """What happened, one entry per round: both bounds of the relaxation against seconds."""

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    upper_bound: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.iteration)

    def to_frame(self) -> pd.DataFrame:
        """Return the trace as a table."""
        import pandas as pd

        return pd.DataFrame(vars(self))


@dataclass(frozen=True)
class RelaxationProgress:
    """What a callback is told; it may return True to stop the solver."""

    iteration: int
    lower_bound: float
    upper_bound: float
    gap: float
    seconds: float


@dataclass(frozen=True)
class Relaxation:
    """How the relaxation was solved.

    Attributes
    ----------
    lp_objective : float
        Value of the feasible point that was found.
    gap : float
        How far it may be from the optimum of the relaxation, as a share of the larger one.
    n_iter : int
        Rounds.
    status, message : Status, str
        Why the solver stopped, and the same in words, with what to try next.
    trace : RelaxationTrace
    """

    lp_objective: float
    gap: float
    n_iter: int
    status: Status
    trace: RelaxationTrace = field(repr=False)

    @property
    def message(self) -> str:
        """Why the solver stopped, in words."""
        return _in_words(self.status, self.gap)

    @property
    def converged(self) -> bool:
        """Whether the solver did what was asked of it."""
        return self.status.is_success


Result = TypeVar("Result", bound=Relaxation)


def relax(
    solver: Rounds,
    limits: RunOptions,
    rng: np.random.Generator,
    *,
    callback: Callable[[RelaxationProgress], Any] | None,
    verbose: bool,
    maximise: bool = False,
) -> tuple[Status, int, RelaxationTrace]:
    """Run a solver; return why it stopped, after how many rounds, and what happened.

    Nobody is warned: the caller still improves on it, and ends with :func:`finished`.
    With `maximise`, the solver minimises the negative of what is told.
    """

    def told(lower: Any, upper: Any) -> tuple[Any, Any]:
        return (-upper, -lower) if maximise else (lower, upper)

    def tell(progress: Progress) -> Any:
        assert callback is not None
        bounds = told(solver.lower, solver.upper)
        return callback(
            RelaxationProgress(progress.iteration, *bounds, solver.gap, progress.seconds)
        )

    options: RunOptions = {
        **limits,
        "callback": None if callback is None else tell,
        "verbose": verbose,
    }
    outcome = run(solver, rng, **options)
    rounds = len(outcome.trace)
    lower, upper = told(np.array(solver.lower_bounds[:rounds]), np.array(outcome.trace.objective))
    trace = RelaxationTrace(
        outcome.trace.iteration, outcome.trace.time, lower.tolist(), upper.tolist()
    )
    return outcome.status, outcome.n_iter, trace


def finished(result: Result, *, maximise: bool = False) -> Result:
    """Return the result, its trace ending with what it says; warn if the gap was not reached."""
    bounds = result.trace.lower_bound if maximise else result.trace.upper_bound
    if bounds:
        bounds[-1] = (max if maximise else min)(bounds[-1], result.lp_objective)
    if not result.converged:
        warn_caller(result.message, ConvergenceWarning)
    return result


def _in_words(status: Status, gap: float) -> str:
    """Return why a solver stopped and how good its bound is."""
    words = ADVICE.get(status, status.value)
    if status is Status.CONVERGED:
        return words
    return f"{words} (the bounds hold all the same, and are {gap:.2g} apart)"


# -- what the linear programs of relaxations share: rounds, two bounds, and when to stop --------

PATIENCE = 300
"""Rounds after which bounds that did not move will not move any more."""


@dataclass
class RoundState:
    """Rounds since a bound moved. Everything large stays in the solver."""

    waited: int


class Rounds(Solver[RoundState]):
    """A solver that brings two bounds together, round by round; see its module.

    Attributes
    ----------
    tol : float
        Gap to reach.
    lower, upper : float
        Bounds of the optimum of the relaxation.
    lower_bounds : list of float
        The first of them, round by round.
    """

    state_type = RoundState

    def __init__(self, tol: float, lower: float, upper: float) -> None:
        self.tol, self.lower, self.upper = tol, lower, upper
        self.lower_bounds: list[float] = []

    @property
    @abstractmethod
    def gap(self) -> float:
        """The gap so far."""

    @property
    @abstractmethod
    def residual(self) -> float:
        """How far the last steps went; not finite before the first."""

    @abstractmethod
    def step(self, state: RoundState, iteration: int, rng: np.random.Generator) -> RoundState:
        """Do a round."""

    @abstractmethod
    def _update(self) -> None:
        """Bring the lower bound up to date; begin, at the first time."""

    def init(self, rng: np.random.Generator) -> RoundState:
        """Return a state that knows nothing; the first check begins the work."""
        self._rng = rng
        return RoundState(0)

    def check(self, state: RoundState) -> tuple[RoundState, float]:
        """Return the cost of the best point so far, with the lower bound brought up to date."""
        before = self.lower, self.upper
        self._update()
        self.lower_bounds.append(self.lower)
        still = (self.lower, self.upper) == before
        return RoundState(state.waited + 1 if still else 0), self.upper

    def status(self, state: RoundState) -> Status | None:
        """Stop when the gap is small enough, or nothing moves any more."""
        if self.gap <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.waited >= PATIENCE else None

    def is_finite(self, state: RoundState) -> bool:
        """Return whether the last steps met finite values."""
        return math.isfinite(self.residual)

    def weights(self, state: RoundState) -> None:
        """Return None: there are no weights of sources."""

    def fingerprint(self) -> str:
        """Return nothing: these runs have no checkpoints."""
        return ""

    def _raise_to(self, bound: float) -> None:
        """Keep a lower bound, if it is the best so far."""
        self.lower = max(self.lower, min(bound, self.upper))
