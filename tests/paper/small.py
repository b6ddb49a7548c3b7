"""An experiment small enough to look through."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult, Experiment, generator


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
