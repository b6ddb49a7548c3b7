"""What a solver tells while it runs, and what it returns: progress, status, trace, result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from metricmix.exceptions import ConvergenceWarning, warn_caller
from metricmix.mixture.linear import Mixture
from metricmix.state import stored
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Progress", "SolveResult", "Status", "Trace", "progress_bar", "relative_gap"]


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return (objective - lower_bound) / objective, and 0 if the objective is 0."""
    room = max(0.0, objective - lower_bound)
    return 0.0 if room == 0.0 or objective <= 0.0 else room / objective


@stored("Status")
class Status(Enum):
    """Why a solver stopped; the value says it in words, with what to try next."""

    CONVERGED = "converged: no further improvement within tol"
    NO_INTERIOR = (
        "converged, but no weights keep all triangles strictly: the result, often the weights 0, "
        "keeps them up to the violation that is reported"
    )
    COMPLETED = "did all the steps asked for (no tol was given, so convergence was not tested)"
    MAX_ITER = "reached max_iter before tol; try more iterations, a larger step or a larger tol"
    TIME_LIMIT = "reached time_limit; give it more time, or go on from where it ended"
    STALLED = (
        "no descent found at a kink of the objective; the weights are as good as this solver gets, "
        "try method='stochastic' from here or a larger rho"
    )
    INACCURATE = (
        "the solver ended short of its own tolerance; look at the violation, try another solver or "
        "scale the sources alike"
    )
    STOPPED = "stopped by the callback"
    INTERRUPTED = "interrupted; this is the best so far"
    DIVERGED = (
        "met values that are not finite, or weights without bound, and went back to the best so "
        "far; reduce the step size, or add a ridge rho if the objective has no minimum"
    )

    @property
    def is_success(self) -> bool:
        """Whether the solver reached its goal."""
        return self in (Status.CONVERGED, Status.NO_INTERIOR, Status.COMPLETED, Status.STOPPED)


@stored("Trace")
@dataclass
class Trace:
    """The history of a run, one entry per check.

    Attributes
    ----------
    iteration, objective, time : lists
        Number of the iteration, objective, seconds since the start.
    weights : list of (R,) arrays
        Empty where the solver has no weights.
    bound : list of float
        The certified bound on the optimum (lower when minimising, upper when maximising); empty
        where the solver certifies nothing.
    details : dict of lists
        Further quantities of a solver, by name.
    """

    iteration: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    details: dict[str, list[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.iteration)

    def to_frame(self) -> pd.DataFrame:
        """Return the trace as a table, with a column per weight."""
        import pandas as pd

        table: dict[str, Any] = {
            "iteration": self.iteration,
            "objective": self.objective,
            "time": self.time,
            **({"bound": self.bound} if self.bound else {}),
            **self.details,
        }
        if self.weights:
            for r, column in enumerate(np.array(self.weights).T):
                table[f"weight_{r}"] = column
        return pd.DataFrame(table)


@stored("SolveResult")
@dataclass(frozen=True, kw_only=True)
class SolveResult:
    """The result of a solver.

    Solvers with more to report return subclasses, also frozen dataclasses with keyword arguments.

    Attributes
    ----------
    objective : float
        Value at the result.
    objective_kind : str
        ``"exact"`` (over all terms), ``"soft"`` (the same, over soft distances), ``"unprojected"``
        (over edge lengths), ``"held-out"`` (over the validation terms), ``"running mean"`` (of
        the terms drawn since the last check) or ``"sampled"`` (of a few terms at the start: the
        time was up before all could be evaluated).
    status, message : Status, str
        Why the solver stopped, and the same in words, with what to try next.
    n_iter : int
    trace : Trace
    mixture, weights : Mixture, array
        What was learned (None when the whole matrix was the variable).
    metric : (n, n) array
        The learned metric, when the whole matrix was the variable.
    lower_bound, gap : float
        No feasible point has a smaller objective, and how far from that the result may be, relative
        to its objective; None where the solver proves nothing.
    has_interior : bool
        Whether some weights satisfy all triangle inequalities strictly, where a solver tests it.
    violation : float
        Where the mixture itself is the metric: the largest violation of the metric axioms, as a
        share of its largest entry; None if the time was up before it could be computed.
    seconds : dict
        Time by part, where a solver reports it: "assembly" of the constraints, "solve".
    advice : class variable, mapping of Status to str
        Words of a subclass for `message`, where they differ from those of :class:`Status`.
    """

    advice: ClassVar[Mapping[Status, str]] = {}

    objective: float
    objective_kind: str = "exact"
    status: Status
    n_iter: int
    trace: Trace = field(repr=False)
    mixture: Mixture | None = None
    metric: Floats | None = field(default=None, repr=False)
    lower_bound: float | None = None
    gap: float | None = None
    has_interior: bool | None = None
    violation: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def weights(self) -> Floats | None:
        """The learned weights."""
        return None if self.mixture is None else self.mixture.weights

    @property
    def message(self) -> str:
        """Why the solver stopped, in words, with the certified gap if it did not converge."""
        words = self.advice.get(self.status, self.status.value)
        if self.gap is None or self.status in (Status.CONVERGED, Status.NO_INTERIOR):
            return words
        return f"{words} (certified gap {self.gap:.2g})"

    @property
    def converged(self) -> bool:
        """Whether the solver reached its goal."""
        return self.status.is_success

    @property
    def has_settled(self) -> bool:
        """Whether the solver converged, or ended at kinks where it made no more progress."""
        last = self.trace.objective[-10:]
        flat = len(last) == 10 and last[0] - last[-1] <= 1e-3 * abs(last[-1])
        return self.status.is_success or self.status is Status.STALLED or flat

    def warn_unless_converged(self) -> Self:
        """Issue a ConvergenceWarning if the solver did not converge; return itself."""
        if not self.converged:
            warn_caller(self.message, ConvergenceWarning)
        return self

    def __repr__(self) -> str:
        what = f"mixture={str(self.mixture)!r}" if self.mixture else "metric=..."
        return (
            f"{type(self).__name__}(objective={self.objective:.6g} ({self.objective_kind}), "
            f"status={self.status.name}, n_iter={self.n_iter}, {what})"
        )


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


@contextmanager
def progress_bar(verbose: bool, total: int) -> Iterator[Callable[[int, float], None]]:
    """Provide a function to call with iteration and objective.

    It shows a bar with the time left, or, without rich, a line that is overwritten.
    """
    if not (verbose and sys.stderr.isatty()):
        yield lambda iteration, objective: None
        return
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:

        def write(iteration: int, objective: float) -> None:
            sys.stderr.write(f"\r{iteration}/{total}  {objective:.6g}   ")
            sys.stderr.flush()

        yield write
        sys.stderr.write("\n")
        return
    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda iteration, objective: bar.update(
            task, completed=iteration, description=f"objective {objective:.6g}"
        )
