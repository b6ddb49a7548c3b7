"""An experiment small enough to look through, quick cells, and figures saved without painting."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from metricmix.atomic import replacing
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult, Experiment, generator
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults


@dataclass(frozen=True)
class Drawing(Experiment):
    """Draws a number per cell; can be told to fail, or to note what it runs."""

    repetitions: int = 5
    fails_at: int = -1
    interrupted_at: int = -1
    notes: Path | None = None

    name: ClassVar[str] = "drawing"
    settings: ClassVar = {"version": 1}

    @property
    def depends_on(self) -> dict[str, Any]:
        return dict(self.settings)  # how it fails is not what it finds

    def cells(self) -> list[Cell]:
        return [{"D": D, "repetition": k} for D in (4, 10) for k in range(self.repetitions)]

    def check(self, data: Data) -> None:
        pass

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        D, k = int(cell["D"]), int(cell["repetition"])
        if k == self.fails_at:
            raise ValueError("this cell fails")
        if k == self.interrupted_at:
            raise KeyboardInterrupt
        if self.notes is not None:
            with self.notes.open("a") as file:
                file.write(f"{D} {k}\n")
        value = float(generator(seed, self.name, D, k).normal())
        return CellResult({"value": value}, {"total": time.perf_counter()})


@dataclass(frozen=True)
class Masked(Drawing):
    """Tells of every cell whether Ctrl-C can reach the process that ran it."""

    name: ClassVar[str] = "masked"

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        found = super().run(cell, data, seed)
        blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return CellResult({**found.values, "blocked": float(blocked)}, found.seconds)


def draw_defaults(patch: pytest.MonkeyPatch) -> None:
    """Draw the accuracies of the experiments with the library's defaults in place of classifying.

    For tests of the runner, to which it does not matter what a cell does; test_library_defaults.py
    and test_experiment.py run the cells themselves.
    """

    def run(self: Experiment, cell: Cell, data: Data, seed: int) -> CellResult:
        rng = generator(seed, self.name, int(cell["D"]), int(cell["repetition"]))
        methods = self.settings["methods"]
        accuracy = dict(zip(methods, rng.random(len(methods)).tolist(), strict=True))
        return CellResult({"accuracy": accuracy})

    for kind in (FeatureSpaceDefaults, SemiSupervisedDefaults):
        patch.setattr(kind, "run", run)


def save_quickly(picture: Any, path: Path) -> list[Path]:
    """Write what is drawn as numbers: painting takes longer than all the rest."""
    drawn = [line.get_ydata().tolist() for ax in picture.axes for line in ax.lines]
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for target in written:
        with replacing(target) as file:
            file.write(repr(drawn).encode())
    return written
