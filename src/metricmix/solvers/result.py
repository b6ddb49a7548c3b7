"""What a solver returns: one result type, one set of statuses, one trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricmix.mixture.linear import Mixture

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SolveResult", "Status", "Trace", "relative_gap"]


def relative_gap(objective: float, lower_bound: float, rounding: float = 0.0) -> float:
    """Return (objective - lower_bound) / objective, and 0 if objective <= rounding."""
    room = max(0.0, objective - lower_bound)
    return 0.0 if room == 0.0 or objective <= rounding else room / objective


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
        """Whether the solver did what was asked of it."""
        return self in (Status.CONVERGED, Status.NO_INTERIOR, Status.COMPLETED, Status.STOPPED)


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
    weights: list[NDArray[np.float64]] = field(default_factory=list)
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


@dataclass(frozen=True)
class SolveResult:
    """What a solver found.

    Attributes
    ----------
    objective : float
        Value at the result.
    objective_kind : str
        ``"exact"`` (over all terms), ``"soft"`` (the same, over soft distances), ``"unprojected"``
        (over edge lengths), ``"held-out"`` (over the validation terms) or ``"running mean"`` (of
        the terms drawn since the last check).
    status, message : Status, str
        Why it stopped, and the same in words.
    n_iter : int
    trace : Trace
    mixture, weights : Mixture, array
        What was learned (None when the whole matrix was the variable).
    metric : (n, n) array
        The learned metric, when the whole matrix was the variable.
    lower_bound, gap : float
        No weights have a smaller objective, and how far from that the result may be, relative to
        it; of solvers that prove it.
    has_interior : bool
        Whether some weights keep all triangles strictly, where a solver had to know.
    violation : float
        Where the mixture itself is the metric: its largest breach of a metric's laws, as a share of
        its largest entry.
    seconds : dict
        What took how long, where a solver tells: "assembly" of the constraints, "solve".
    """

    objective: float
    objective_kind: str
    status: Status
    n_iter: int
    trace: Trace
    mixture: Mixture | None = None
    metric: NDArray[np.float64] | None = None
    lower_bound: float | None = None
    gap: float | None = None
    has_interior: bool | None = None
    violation: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The learned weights."""
        return None if self.mixture is None else self.mixture.weights

    @property
    def message(self) -> str:
        """Why the solver stopped, in words."""
        return self.status.value

    @property
    def converged(self) -> bool:
        """Whether the solver did what was asked of it."""
        return self.status.is_success

    def __repr__(self) -> str:
        what = f"mixture={str(self.mixture)!r}" if self.mixture else "metric=..."
        return (
            f"SolveResult(objective={self.objective:.6g} ({self.objective_kind}), "
            f"status={self.status.name}, n_iter={self.n_iter}, {what})"
        )
