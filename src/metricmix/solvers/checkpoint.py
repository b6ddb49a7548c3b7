"""Checkpoints: the whole state of a run in one npz file, without pickles, replaced atomically.

A state is a dataclass whose fields are arrays (of any size, which may change from step to step),
numbers or None. Fields with the metadata ``{"checkpoint": False}`` are not stored; they need a
default, which a restored state has.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.atomic import replacing
from metricmix.exceptions import CheckpointError, array_file_errors, warn_caller
from metricmix.solvers.result import Trace
from metricmix.typing import AnyArray

__all__ = ["Checkpoint", "Run", "damaged", "on_host", "read_checkpoint", "write_checkpoint"]

FORMAT = "metricmix checkpoint 1"
KEYS = {"iteration", "seconds", "best_objective", "rng", "trace"}
"""Entries of the header."""
STATES = ("state", "best", "last")
"""The states of a run."""
WRITE_EVERY, WRITE_SHARE = 2.0, 0.05
"""Seconds between two writes, at least, and the share of the run that writing may take."""


@dataclass
class Run:
    """The state needed to resume a run.

    Attributes
    ----------
    state, best, last : dataclasses
        The current state; the one to return, if it is chosen by its objective; the one at the
        last check, if the objective of a check belongs to the steps before it.
    iteration : int
    best_objective : float
    seconds : float
        Time spent so far, in all sessions.
    trace : Trace
    """

    state: Any
    best: Any = None
    last: Any = None
    iteration: int = 0
    best_objective: float = math.inf
    seconds: float = 0.0
    trace: Trace = field(default_factory=Trace)


class Checkpoint:
    """The file of one run.

    Parameters
    ----------
    path : path
        Missing folders are created.
    fingerprint : str
        Digest of problem and settings.

    Raises
    ------
    CheckpointError
        If the file could not be written.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writable = os.access(self.path.parent, os.W_OK)
        except OSError:
            writable = False
        if not writable or self.path.is_dir():
            raise CheckpointError(
                f"{self.path}: cannot be written; choose a file in a folder that you can write to"
            )
        self._next = time.perf_counter() + WRITE_EVERY

    def exists(self) -> bool:
        """Return whether there is a run to resume."""
        return self.path.exists()

    def write(self, run: Run, rng: np.random.Generator, *, at_end: bool = False) -> None:
        """Write the run, unless it was written a moment ago; `at_end` always.

        Writing takes at most a twentieth of the time. A full disk only warns.
        """
        started = time.perf_counter()
        if not at_end and started < self._next:
            return
        arrays: dict[str, AnyArray] = {}
        none: list[str] = []
        for which in STATES:
            state = getattr(run, which)
            for part in () if state is None else stored_fields(state):
                value = getattr(state, part)
                if value is None:
                    none.append(f"{which}.{part}")
                else:
                    arrays[f"{which}.{part}"] = on_host(value)
        trace = run.trace
        arrays["trace.weights"] = np.array(trace.weights)
        header = {
            "fingerprint": self.fingerprint,
            "iteration": run.iteration,
            "seconds": run.seconds,
            "best_objective": run.best_objective,
            "rng": rng.bit_generator.state,
            "trace": [trace.iteration, trace.objective, trace.time, trace.bound],
            "details": trace.details,
            "none": none,
        }
        try:
            write_checkpoint(self.path, header, arrays)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            warn_caller(f"{self.path}: could not be written ({reason}); going on", RuntimeWarning)
        ended = time.perf_counter()
        self._next = ended + max(WRITE_EVERY, (ended - started) / WRITE_SHARE)

    def read(self, state_type: type[Any], rng: np.random.Generator) -> Run:
        """Return the stored run, and restore the state of the random generator.

        Raises
        ------
        CheckpointError
            If the file is damaged, or belongs to another problem or another kind of generator.
        """
        header, arrays = read_checkpoint(self.path, self.fingerprint, KEYS)
        none = dict.fromkeys(header.get("none", ()))
        names = stored_fields(state_type)
        states: dict[str, Any] = {}
        for which in STATES:
            keys = {name: f"{which}.{name}" for name in names}
            present = [key in arrays or key in none for key in keys.values()]
            if which != "state" and not any(present):
                continue  # not kept by this solver
            if not all(present) or "trace.weights" not in arrays:
                raise damaged(self.path)
            values = {name: arrays.get(key) for name, key in keys.items()}
            states[which] = state_type(
                **{k: v.item() if v is not None and v.ndim == 0 else v for k, v in values.items()}
            )
        try:
            rng.bit_generator.state = header["rng"]
        except ValueError:
            raise CheckpointError(
                f"{self.path}: was written with another kind of random generator"
            ) from None
        iteration, objective, seconds, bound = header["trace"]
        weights, details = list(arrays["trace.weights"]), header.get("details", {})
        return Run(
            **states,
            iteration=header["iteration"],
            best_objective=header["best_objective"],
            seconds=header["seconds"],
            trace=Trace(iteration, objective, seconds, weights, bound, details),
        )


def on_host(value: Any) -> AnyArray:
    """Return a number, array, or tensor on any device as an array."""
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)


def stored_fields(state: Any) -> list[str]:
    """Return the names of the fields of a state that are stored."""
    return [f.name for f in dataclasses.fields(state) if f.metadata.get("checkpoint", True)]


def write_checkpoint(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> None:
    """Write a checkpoint atomically: to a temporary file that is then renamed.

    `header` holds what JSON can; numbers come back exactly as they were.
    """
    target = Path(path)
    # The states of some random generators hold arrays.
    text = json.dumps({"format": FORMAT, **header}, default=np.ndarray.tolist)
    content: dict[str, Any] = {"header": np.array(text)}
    content.update(arrays)
    with replacing(target) as file:
        np.savez(file, **content)


def read_checkpoint(
    path: str | os.PathLike[str], fingerprint: str, keys: Set[str]
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read what :func:`write_checkpoint` wrote for the problem with this fingerprint.

    A header without one of the keys is damaged.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT or not header.keys() >= {"fingerprint", *keys}:
            raise KeyError
    except OSError:
        raise damaged(path) from None
    except array_file_errors():
        raise damaged(path) from None
    if header["fingerprint"] != fingerprint:
        raise CheckpointError(
            f"{os.fspath(path)}: belongs to another problem or other settings; "
            "delete it or choose another file"
        )
    return header, arrays


def damaged(path: str | os.PathLike[str]) -> CheckpointError:
    """Return the error for an invalid or damaged checkpoint."""
    return CheckpointError(
        f"{os.fspath(path)}: not a metricmix checkpoint, or a damaged one; delete it to start again"
    )
