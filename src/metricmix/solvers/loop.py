"""The loop that runs every iterative solver.

A solver is its state and its step. The loop adds the limits, the trace, the callback, the guard
against values that are not finite, Ctrl-C, checkpoint and resume.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np

from metricmix.exceptions import InputError, is_interruption
from metricmix.kernels.deadline import (
    Deadline,
    TimeUp,
    stop_after,
    time_is_up,
    time_left,
    use_deadline,
)
from metricmix.solvers.checkpoint import Checkpoint, Run
from metricmix.solvers.result import Progress, Status, Trace, progress_bar
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number

__all__ = [
    "Certificate",
    "Outcome",
    "RunOptions",
    "Solver",
    "check_run_options",
    "finish",
    "run",
]

State = TypeVar("State")
T = TypeVar("T")


class RunOptions(TypedDict, total=False):
    """Options of a run, the same for all iterative solvers.

    Parameters
    ----------
    max_iter : int, optional
        Iterations; the default depends on the solver.
    time_limit : float, optional
        Seconds after which to stop with the best so far, from the call on; a resumed run has them
        anew. Solvers read the clock inside iterations too: a call takes at most a tenth and a
        second longer. The first call in a process may also load or compile code.
    check_every : int, optional
        Iterations between two checks: a trace entry, the callback, the tests for stopping.
        Default: about 100 checks for stochastic solvers, else every iteration.
    callback : callable, optional
        Called with a :class:`Progress` at every check; a true return value stops the solver.
    checkpoint : path, optional
        File to save the run to: every few seconds, and at the end, however it comes. If it exists
        and belongs to the same problem, settings and seed, the run goes on from it, to the result
        that it would have had.
    verbose : bool, optional
        Show a progress bar with the time left, on a terminal.
    """

    max_iter: int | None
    time_limit: float | None
    check_every: int | None
    callback: Callable[[Progress], Any] | None
    checkpoint: str | os.PathLike[str] | None
    verbose: bool


def check_run_options(
    options: Mapping[str, Any], *, allowed: Collection[str] = tuple(RunOptions.__annotations__)
) -> None:
    """Raise InputError for an unknown name or a value that a run cannot use.

    >>> check_run_options({"max_iter": 10})
    >>> check_run_options({"max_iters": 10})
    Traceback (most recent call last):
    metricmix.exceptions.InputError: max_iters: unknown argument; a run takes max_iter, ...
    """
    for name in options:
        if name not in allowed:
            raise InputError(
                "unknown argument", argument=name, remedy=f"a run takes {', '.join(allowed)}"
            )
    given = {name: value for name, value in options.items() if value is not None}
    if "max_iter" in given:
        check_integer(given["max_iter"], name="max_iter")
    if "check_every" in given:
        check_integer(given["check_every"], name="check_every", low=1)
    if "time_limit" in given:
        check_number(given["time_limit"], name="time_limit", low=0)
    if "callback" in given and not callable(given["callback"]):
        raise InputError(
            argument="callback",
            expected="a function of one argument",
            found=f"{given['callback']!r}",
        )


class Certificate(NamedTuple):
    """A bound on the optimum, and the relative gap between it and the objective."""

    bound: float
    gap: float


class Solver(ABC, Generic[State]):
    """What the loop needs of a solver.

    A solver object holds the problem and the settings; everything that changes is in its state, a
    dataclass of arrays, numbers and None (see :mod:`metricmix.solvers.checkpoint`).

    Attributes
    ----------
    state_type : type
        The dataclass that holds the state.
    default_max_iter : int
        Iterations, unless the caller gives a number.
    tests_convergence : bool
        Whether the solver tests convergence; if so, reaching `max_iter` means that it did not
        converge.
    returns : {"best", "last", "mean"}
        Which state the loop returns. "best": the one with the best objective. "last": the current
        one, which holds the best solution itself; nothing is copied. "mean": the current one, as
        the objective of a check is a mean over the steps since the last check; after a divergence,
        the one from which the best mean was started.
    """

    state_type: type[State]

    @property
    def returns(self) -> Literal["best", "last", "mean"]:
        """Which state the loop returns."""
        return "best"

    @property
    def default_max_iter(self) -> int:
        """Iterations, unless the caller gives a number."""
        return 1000

    @property
    def tests_convergence(self) -> bool:
        """Whether the solver tests convergence."""
        return True

    def default_check_every(self, max_iter: int) -> int:
        """Return the iterations between two checks, unless the caller gives a number."""
        return 1

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """Return the initial state."""

    @abstractmethod
    def step(self, state: State, iteration: int, rng: np.random.Generator) -> State:
        """Return the next state, a pure function of this one and the random numbers drawn.

        It may reuse the arrays of `state`, if an interruption leaves them as they were. Where it
        may take long, it calls :func:`~metricmix.kernels.deadline.check_time` several times a
        second, as parallel loops do before each task.
        """

    @abstractmethod
    def check(self, state: State) -> tuple[State, float]:
        """Return the objective as far as the solver knows it; called at every check."""

    @abstractmethod
    def status(self, state: State) -> Status | None:
        """Return why to stop, or None to go on; called after every check."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of problem and settings that identifies a checkpoint."""

    def is_finite(self, state: State) -> bool:
        """Return whether all values are finite; called after every step."""
        return True

    def weights(self, state: State) -> Floats | None:
        """Return the weights, for the trace and the callback."""
        return None

    def certificate(self, state: State) -> Certificate | None:
        """Return a bound on the optimum, if the solver has one."""
        return None

    def details(self, state: State) -> dict[str, float]:
        """Return further columns of the trace."""
        return {}


@dataclass
class Outcome:
    """How the loop ended: the state to use, and its objective.

    The state is None, and the objective infinite, if there was no time for an initial state.
    """

    state: Any
    objective: float
    status: Status
    n_iter: int
    trace: Trace

    @property
    def evaluated(self) -> bool:
        """Whether there is a state whose objective was evaluated."""
        return self.state is not None and (
            len(self.trace) > 0 or self.status not in (Status.TIME_LIMIT, Status.INTERRUPTED)
        )

    @classmethod
    def cut_short(cls) -> Outcome:
        """Return the outcome if there was no time to set up the solver."""
        return cls(None, math.inf, Status.TIME_LIMIT, 0, Trace())


def run(
    solver: Solver[Any],
    rng: np.random.Generator,
    *,
    seed: int | None = None,
    **options: Unpack[RunOptions],
) -> Outcome:
    """Run a solver to its end.

    The caller warns if the solver did not converge
    (:meth:`~metricmix.solvers.SolveResult.warn_unless_converged`).

    Parameters
    ----------
    solver : Solver
    rng : Generator
    seed : int, optional
        Where the generator came from; part of what identifies a checkpoint.
    **options
        See :class:`RunOptions`.
    """
    check_run_options(options)
    max_iter = options.get("max_iter")
    max_iter = solver.default_max_iter if max_iter is None else max_iter
    check_every = options.get("check_every") or solver.default_check_every(max_iter)
    callback, path = options.get("callback"), options.get("checkpoint")
    # The digest of a large stack takes a while.
    file = None if path is None else Checkpoint(path, f"{solver.fingerprint()} {seed}")
    resumed = file is not None and file.exists()
    current = file.read(solver.state_type, rng) if file and resumed else Run(state=None)
    started = time.perf_counter() - current.seconds
    status: Status | None = None
    before_step: Any = None

    def due(iteration: int) -> bool:
        return iteration % check_every == 0 or iteration == max_iter

    with (
        progress_bar(options.get("verbose", False), max_iter) as show,
        stop_after(options.get("time_limit")),
    ):
        try:
            if not resumed:
                current.state = solver.init(rng)
            # The state of a checkpoint has been looked at, unless the interruption came just then.
            if current.iteration in current.trace.iteration[-1:] or not due(current.iteration):
                status = solver.status(current.state)
            else:
                status = look(solver, current, callback)
            while status is None:
                if current.iteration >= max_iter:
                    status = Status.MAX_ITER if solver.tests_convergence else Status.COMPLETED
                    break
                before_step = rng.bit_generator.state
                with np.errstate(all="ignore"):  # is_finite looks at the result
                    # One statement: an interruption comes before all of it or after all of it.
                    current.state, current.iteration, before_step = (
                        solver.step(current.state, current.iteration, rng),
                        current.iteration + 1,
                        None,
                    )
                if not solver.is_finite(current.state):
                    status = Status.DIVERGED
                    break
                current.seconds = time.perf_counter() - started
                if due(current.iteration):
                    status = look(solver, current, callback)
                    show(current.iteration, current.trace.objective[-1])
                    if file and status is None:
                        file.write(current, rng)
                if status is None and time_is_up():
                    status = Status.TIME_LIMIT
        except (KeyboardInterrupt, SystemError, TimeUp) as error:
            if not (isinstance(error, TimeUp) or is_interruption(error)):
                raise
            status = Status.TIME_LIMIT if isinstance(error, TimeUp) else Status.INTERRUPTED
            if before_step is not None:  # the interrupted step is taken again after a resume
                rng.bit_generator.state = before_step
    checked = len(current.trace) > 0
    if file and checked and status is not Status.DIVERGED:
        file.write(current, rng, at_end=True)
    by_objective = solver.returns == "best" or (
        solver.returns == "mean" and (status is Status.DIVERGED or not checked)
    )
    state, objective = current.state, current.best_objective
    if by_objective:
        state = state if current.best is None else current.best
    elif checked:
        objective = current.trace.objective[-1]
    return Outcome(state, objective, status, current.iteration, current.trace)


def finish(outcome: Outcome, complete: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Return the completed run, or `otherwise` if there is no time for that.

    A run that was cut short has a moment left to finish, any other one the rest of its time and
    that moment. `otherwise` has to be quick. If it is needed, the run has met its limit too.
    """
    rest = time_left()
    grace = 0.2  # seconds to finish in, after a run that was cut short
    if outcome.status is Status.INTERRUPTED:
        rest = 0.0
    elif outcome.status is Status.TIME_LIMIT:
        rest = 0.0 if math.isinf(rest) else max(0.0, rest - grace)
    end = time.perf_counter() + rest + grace
    deadline = Deadline(end, end)
    try:
        with use_deadline(deadline):
            return complete()
    except (KeyboardInterrupt, SystemError, TimeUp) as error:
        if not (isinstance(error, TimeUp) or is_interruption(error)):
            raise
        if not isinstance(error, TimeUp):
            outcome.status = Status.INTERRUPTED
        elif outcome.status is not Status.INTERRUPTED:
            outcome.status = Status.TIME_LIMIT
    with use_deadline(Deadline()):
        return otherwise()


def look(
    solver: Solver[Any], current: Run, callback: Callable[[Progress], Any] | None
) -> Status | None:
    """Check the state: trace, best so far, callback, reasons to stop."""
    current.state, objective = solver.check(current.state)
    if not math.isfinite(objective):
        return Status.DIVERGED
    trace, weights = current.trace, solver.weights(current.state)
    trace.iteration.append(current.iteration)
    trace.objective.append(objective)
    trace.time.append(current.seconds)
    if weights is not None:
        trace.weights.append(weights.copy())
    certificate = solver.certificate(current.state)
    if certificate is not None:
        trace.bound.append(certificate.bound)
    for name, amount in solver.details(current.state).items():
        trace.details.setdefault(name, []).append(amount)
    if objective < current.best_objective:
        current.best_objective = objective
        if solver.returns != "last":
            # A mean belongs to the states that it was drawn at: from the last check on.
            current.best = copy_state(current.state) if current.last is None else current.last
    if solver.returns == "mean":
        current.last = copy_state(current.state)
    bounds = certificate or (None, None)
    progress = Progress(current.iteration, objective, weights, current.seconds, *bounds)
    if callback is not None and callback(progress):
        return Status.STOPPED
    return solver.status(current.state)


def copy_state(state: Any) -> Any:
    """Return a state with copies of the arrays that a checkpoint holds; steps may reuse them."""
    stored = [f.name for f in dataclasses.fields(state) if f.metadata.get("checkpoint", True)]
    fields = {name: getattr(state, name) for name in stored}
    return type(state)(
        **{k: v.copy() if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    )
