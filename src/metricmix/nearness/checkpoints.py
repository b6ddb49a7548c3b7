"""Runs that may be killed: what was found so far goes to a file now and then.

Bounds, metric and duals are all that matters; a run that finds the file goes on from there. It
takes other steps than one that was never killed, to the same optimum, and loses no bound.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from metricmix.exceptions import CheckpointError, warn_caller
from metricmix.nearness.problem import Problem
from metricmix.solvers.checkpoint import damaged, read_checkpoint, write_checkpoint
from metricmix.typing import Floats, Ints

__all__ = ["Keeper", "Kept"]


EVERY, SHARE = 2.0, 0.05
"""Seconds between writing, at least, and the share of all time that writing may take."""


class Kept(NamedTuple):
    """Where to go on from, in the units of the problem."""

    metric: Floats | None = None
    triangles: Ints | None = None
    multipliers: Floats | None = None
    lower: float = 0.0


class Found(Protocol):
    """What a solver knows."""

    @property
    def metric(self) -> Floats | None:
        """The best metric so far."""
        ...

    @property
    def lower(self) -> float:
        """The lower bound so far."""
        ...

    def triangles(self) -> tuple[Ints, Floats]:
        """Return triangles and multipliers."""
        ...


class Keeper:
    """The file of one problem.

    Parameters
    ----------
    path : path
    problem : Problem
    norm : str

    Raises
    ------
    CheckpointError
        If the folder is not there, or not to be written to.
    """

    def __init__(self, path: str | os.PathLike[str], problem: Problem, norm: str) -> None:
        self.path = Path(path)
        if not os.access(self.path.parent, os.W_OK) or self.path.is_dir():
            raise CheckpointError(f"{self.path}: cannot be written; choose a file in your folders")
        digest = hashlib.sha256(repr((norm, problem.n, problem.unit, problem.weight_unit)).encode())
        for values in (problem.d * (problem.w > 0), problem.w, problem.lower, problem.upper):
            digest.update(b"none" if values is None else values.tobytes())
        self.fingerprint = digest.hexdigest()
        self.next = time.perf_counter() + EVERY

    def read(self) -> Kept | None:
        """Return what the file holds, or None if there is none.

        Raises
        ------
        CheckpointError
            If it is damaged, or belongs to another problem.
        """
        if not self.path.exists():
            return None
        header, arrays = read_checkpoint(self.path, self.fingerprint, {"lower"})
        try:
            return Kept(
                arrays["metric"], arrays["triangles"], arrays["multipliers"], header["lower"]
            )
        except KeyError:
            raise damaged(self.path) from None

    def keep(self, solver: Found, *, now: bool = False) -> None:
        """Write what a solver knows, if it is time to; a full disk does not end the run."""
        started = time.perf_counter()
        if solver.metric is None or not (now or started >= self.next):
            return
        triangles, multipliers = solver.triangles()
        header = {"fingerprint": self.fingerprint, "lower": solver.lower}
        arrays: dict[str, NDArray[Any]] = {"metric": solver.metric}
        arrays |= {"triangles": triangles, "multipliers": multipliers}
        try:
            write_checkpoint(self.path, header, arrays)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            warn_caller(f"{self.path}: could not be written ({reason}); going on", RuntimeWarning)
        ended = time.perf_counter()
        self.next = ended + max(EVERY, (ended - started) / SHARE)
