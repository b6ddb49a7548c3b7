"""What a nearness solver returns: a metric, and how far from the best it can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metricmix.solvers.result import Status, Trace
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NearnessProgress", "NearnessResult", "NearnessTrace", "in_words"]


ADVICE = {
    Status.CONVERGED: "converged: the gap is within tol",
    Status.MAX_ITER: "reached max_iter before tol; go on with start=result, or take a larger tol",
    Status.TIME_LIMIT: "reached time_limit before tol; go on with start=result, or give more time",
    Status.STALLED: (
        "neither bound moves any more: tol asks for more digits than the arithmetic has; take a "
        "larger tol"
    ),
    Status.STOPPED: "stopped by the callback; go on with start=result",
    Status.INTERRUPTED: "interrupted; go on with start=result",
    Status.DIVERGED: "met values that are not finite; check weights of very different size",
}


@dataclass
class NearnessTrace(Trace):
    """What happened, one entry per round: iteration, objective, lower bound, seconds."""

    lower_bound: list[float] = field(default_factory=list)

    def to_frame(self) -> pd.DataFrame:
        """Return the trace as a table."""
        table = super().to_frame()
        table["lower_bound"] = self.lower_bound
        return table


@dataclass(frozen=True)
class NearnessProgress:
    """What a callback is told; it may return True to stop the solver."""

    iteration: int
    objective: float
    lower_bound: float
    gap: float
    seconds: float


@dataclass(frozen=True)
class NearnessResult:
    """A metric near a dissimilarity, with a certificate.

    Attributes
    ----------
    metric : (n, n) array
        A metric (to rounding), within the bounds, whatever the status.
    objective : float
        Its distance from D in the norm asked for, over pairs i < j.
    lower_bound : float
        No metric within the bounds has a smaller objective.
    gap : float
        ``(objective - lower_bound) / objective``, and 0 where both are 0.
    status, message : Status, str
        Why the solver stopped, and the same in words, with what to try next.
    n_iter : int
        Rounds.
    trace : NearnessTrace
        Objective and lower bound round by round.
    triangles, multipliers : (T, 3) and (T,) arrays
        The triangles (i, j, k) that hold the metric in place, d(i, j) = d(i, k) + d(k, j), and how
        hard: moving the right-hand side of one changes the objective at that rate (squares and
        absolute values only; empty otherwise).
    """

    metric: Floats = field(repr=False)
    objective: float
    lower_bound: float
    gap: float
    n_iter: int
    status: Status
    trace: NearnessTrace = field(repr=False)
    triangles: NDArray[np.int32] = field(repr=False)
    multipliers: Floats = field(repr=False)

    @property
    def message(self) -> str:
        """Why the solver stopped, in words."""
        return in_words(self.status, self.gap)

    @property
    def converged(self) -> bool:
        """Whether the solver did what was asked of it."""
        return self.status.is_success


def in_words(status: Status, gap: float) -> str:
    """Return why a solver stopped and how good its metric is."""
    words = ADVICE.get(status, status.value)
    if status is Status.CONVERGED:
        return words
    return f"{words} (this is a metric, at most {gap:.2g} of its objective above the best one)"
