"""The one loop that runs every solver.

A solver is only its state and its step. Everything around that lives here, once: limits, progress,
trace, callback, the guard against values that are not finite, Ctrl-C, checkpoint and resume.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import (
    CheckpointError,
    ConvergenceWarning,
    InputError,
    is_interruption,
    warn_caller,
)
from metricmix.solvers.checkpoint import damaged, read_checkpoint, write_checkpoint
from metricmix.solvers.result import Status, Trace
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number

__all__ = ["Certificate", "Limits", "Outcome", "Progress", "Solver", "progress_bar", "run"]


Show = Callable[[int, float], None]


@contextmanager
def progress_bar(verbose: bool, total: int) -> Iterator[Show]:
    """Give a function to call with iteration and objective.

    With rich a bar with the time left; without it, a line that is written over and over.
    """
    if not (verbose and sys.stderr.isatty()):
        yield lambda iteration, objective: None
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield lambda iteration, objective: _write(f"\r{iteration}/{total}  {objective:.6g}   ")
        _write("\n")
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    text = TextColumn("{task.description}")
    with Progress(*columns, text, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda iteration, objective: bar.update(
            task, completed=iteration, description=f"objective {objective:.6g}"
        )


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


# -- the one loop that runs every solver --------------------------------------------------------

State = TypeVar("State")
STATES = ("state", "best", "last")
"""The states of a run that a checkpoint holds."""
KEYS = {"iteration", "seconds", "best_objective", "rng", "trace"}
"""What its header says beside that."""


class Certificate(NamedTuple):
    """A bound on the optimum, and the relative gap between it and the objective."""

    bound: float
    gap: float


class Solver(Protocol[State]):
    """What the loop needs of a solver. States are dataclasses of arrays and numbers.

    Two methods are optional: ``certificate(state) -> Certificate``, for solvers that bound the
    optimum, and ``details(state) -> dict[str, float]``, further columns of the trace.
    """

    @property
    def state_type(self) -> type[State]:
        """The dataclass that holds the state."""
        ...

    def init(self, rng: np.random.Generator) -> State:
        """Return the first state."""
        ...

    def step(self, state: State, iteration: int, rng: np.random.Generator) -> State:
        """Return the next state, a pure function of this one and the random numbers drawn."""
        ...

    def check(self, state: State) -> tuple[State, float]:
        """Return the objective as the solver knows it; called every `check_every` steps."""
        ...

    def status(self, state: State) -> Status | None:
        """Return why to stop, or None to go on; asked after every check."""
        ...

    def is_finite(self, state: State) -> bool:
        """Return whether the state is still sound; asked after every step."""
        ...

    def weights(self, state: State) -> Floats | None:
        """Return the weights, for the trace and the callback."""
        ...

    def fingerprint(self) -> str:
        """Return a digest of problem and settings, to recognise a checkpoint by."""
        ...


@dataclass(frozen=True)
class Limits:
    """When to stop and how often to look.

    Parameters
    ----------
    max_iter : int
    time_limit : float, optional
        Seconds from now; a resumed run has them anew.
    check_every : int
        Steps between checks: a trace entry, the callback, the tests for stopping.
    tested : bool
        Whether the solver tests convergence; if so, ending at `max_iter` means it did not converge.
    keep_best : bool
        Whether the objective of a check is good enough to choose the best state by.
    """

    max_iter: int
    time_limit: float | None = None
    check_every: int = 1
    tested: bool = True
    keep_best: bool = True

    def __post_init__(self) -> None:
        check_integer(self.max_iter, name="max_iter")
        check_integer(self.check_every, name="check_every", low=1)
        if self.time_limit is not None:
            check_number(self.time_limit, name="time_limit", low=0)


@dataclass(frozen=True)
class Progress:
    """What a callback receives at every check; it stops the solver by returning True.

    `weights`, `bound` and `gap` are None where a solver has none.
    """

    iteration: int
    objective: float
    weights: Floats | None
    seconds: float
    bound: float | None = None
    gap: float | None = None


@dataclass
class Outcome:
    """How the loop ended: the state to use, and what is known of it."""

    state: Any
    objective: float
    status: Status
    n_iter: int
    trace: Trace


@dataclass
class _Run:
    """All that must survive an interruption."""

    state: Any
    iteration: int = 0
    best: Any = None
    last: Any = None
    best_objective: float = math.inf
    seconds: float = 0.0


def run(
    solver: Solver[Any],
    limits: Limits,
    rng: np.random.Generator,
    *,
    seed: int | None = None,
    callback: Callable[[Progress], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    warn: bool = True,
) -> Outcome:
    """Run a solver to its end.

    Parameters
    ----------
    solver, limits, rng
    seed : int, optional
        Where the generator came from, to tell checkpoints of different seeds apart.
    callback : callable, optional
        Called with a :class:`Progress` at every check; a true return value stops the solver.
    checkpoint : path, optional
        Written at every check and at the end, however it comes. If the file is there already and
        belongs to the same problem and seed, the run goes on from it, to the very same result.
    verbose : bool
        Show a progress bar on a terminal.
    warn : bool
        Whether to warn where the solver was not done; otherwise that is left to the caller.
    """
    if callback is not None and not callable(callback):
        raise InputError(
            argument="callback", expected="a function of one argument", found=f"{callback!r}"
        )
    trace = Trace()
    # Digesting a large stack takes a while: once per run, and only if it will be needed.
    fingerprint = f"{solver.fingerprint()} {seed}" if checkpoint is not None else ""
    resumed = checkpoint is not None and Path(checkpoint).exists()
    current = (
        _restore(checkpoint, solver, fingerprint, rng, trace)
        if checkpoint is not None and resumed
        else _Run(solver.init(rng))
    )
    now = time.perf_counter()
    started = now - current.seconds
    deadline = now + (math.inf if limits.time_limit is None else limits.time_limit)
    status: Status | None = None
    before_step: Any = None
    with progress_bar(verbose, limits.max_iter) as show:
        try:
            if resumed:
                status = solver.status(current.state)
            else:
                status = _look(solver, current, trace, limits, callback)
            while status is None:
                if current.iteration >= limits.max_iter:
                    status = Status.MAX_ITER if limits.tested else Status.COMPLETED
                    break
                before_step = rng.bit_generator.state
                with np.errstate(all="ignore"):  # what is not finite is caught below
                    # One statement: Ctrl-C comes before all of it or after all of it.
                    current.state, current.iteration, before_step = (
                        solver.step(current.state, current.iteration, rng),
                        current.iteration + 1,
                        None,
                    )
                if not solver.is_finite(current.state):
                    status = Status.DIVERGED
                    break
                current.seconds = time.perf_counter() - started
                at_end = current.iteration == limits.max_iter
                if current.iteration % limits.check_every == 0 or at_end:
                    status = _look(solver, current, trace, limits, callback)
                    show(current.iteration, trace.objective[-1])
                    if checkpoint is not None:
                        _save(checkpoint, fingerprint, rng, trace, current)
                if status is None and time.perf_counter() >= deadline:
                    status = Status.TIME_LIMIT
        except (KeyboardInterrupt, SystemError) as error:
            if not is_interruption(error):
                raise
            status = Status.INTERRUPTED
            if before_step is not None:  # the step in progress will be taken again
                rng.bit_generator.state = before_step
    if checkpoint is not None and status is not Status.DIVERGED and len(trace):
        _save(checkpoint, fingerprint, rng, trace, current)
    if warn and not status.is_success:
        warn_caller(status.value, ConvergenceWarning)
    if limits.keep_best or status is Status.DIVERGED or not len(trace):
        best = current.state if current.best is None else current.best
        return Outcome(best, current.best_objective, status, current.iteration, trace)
    return Outcome(current.state, trace.objective[-1], status, current.iteration, trace)


def _look(
    solver: Solver[Any],
    current: _Run,
    trace: Trace,
    limits: Limits,
    callback: Callable[[Progress], Any] | None,
) -> Status | None:
    """Check the state: trace, best so far, callback, reasons to stop."""
    current.state, objective = solver.check(current.state)
    if not math.isfinite(objective):
        return Status.DIVERGED
    weights = solver.weights(current.state)
    trace.iteration.append(current.iteration)
    trace.objective.append(objective)
    trace.time.append(current.seconds)
    if weights is not None:
        trace.weights.append(weights.copy())
    certificate: Callable[[Any], Certificate] | None = getattr(solver, "certificate", None)
    certified = certificate(current.state) if certificate is not None else None
    if certified is not None:
        trace.bound.append(certified.bound)
    details: Callable[[Any], dict[str, float]] | None = getattr(solver, "details", None)
    if details is not None:
        for name, amount in details(current.state).items():
            trace.details.setdefault(name, []).append(amount)
    if not limits.keep_best:
        # The mean of what was drawn speaks for where it was drawn: up to the last check's state.
        if objective < current.best_objective:
            current.best, current.best_objective = current.last or _copy(current.state), objective
        current.last = _copy(current.state)
    elif objective < current.best_objective:
        current.best, current.best_objective = _copy(current.state), objective
    progress = Progress(
        current.iteration, objective, weights, current.seconds, *(certified or (None, None))
    )
    if callback is not None and callback(progress):
        return Status.STOPPED
    return solver.status(current.state)


# -- checkpoints: any dataclass of arrays and numbers --------------------------------------------


def _copy(state: Any) -> Any:
    """Copy a state, so that solvers may work in place."""
    fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    return type(state)(
        **{k: v.copy() if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    )


def _save(
    path: str | os.PathLike[str],
    fingerprint: str,
    rng: np.random.Generator,
    trace: Trace,
    current: _Run,
) -> None:
    arrays: dict[str, NDArray[Any]] = {
        f"{which}.{f.name}": np.asarray(getattr(state, f.name))
        for which in STATES
        if (state := getattr(current, which)) is not None
        for f in dataclasses.fields(state)
    }
    arrays["trace.weights"] = np.array(trace.weights)
    header = {
        "fingerprint": fingerprint,
        "iteration": current.iteration,
        "seconds": current.seconds,
        "best_objective": current.best_objective,
        "rng": rng.bit_generator.state,
        "trace": [trace.iteration, trace.objective, trace.time, trace.bound],
        "details": trace.details,
    }
    write_checkpoint(path, header, arrays)


def _restore(
    path: str | os.PathLike[str],
    solver: Solver[Any],
    fingerprint: str,
    rng: np.random.Generator,
    trace: Trace,
) -> _Run:
    header, arrays = read_checkpoint(path, fingerprint, KEYS)
    kind = solver.state_type
    names = [f.name for f in dataclasses.fields(kind)]
    states: dict[str, Any] = {}
    for which in STATES:
        saved = {name: arrays.get(f"{which}.{name}") for name in names}
        if which == "last" and all(value is None for value in saved.values()):
            continue  # only kept by solvers that cannot tell which state is best
        if any(value is None for value in saved.values()) or "trace.weights" not in arrays:
            raise damaged(path)
        states[which] = kind(
            **{k: v.copy() if v.ndim else v.item() for k, v in saved.items() if v is not None}
        )
    try:
        rng.bit_generator.state = header["rng"]
    except ValueError:
        raise CheckpointError(
            f"{os.fspath(path)}: was written with another kind of random generator"
        ) from None
    trace.iteration, trace.objective, trace.time, trace.bound = header["trace"]
    trace.weights = list(arrays["trace.weights"])
    trace.details = header.get("details", {})
    return _Run(
        iteration=header["iteration"],
        best_objective=header["best_objective"],
        seconds=header["seconds"],
        **states,
    )
