"""Jobs for tests of clusters: slow ones, and one that takes more memory than a worker has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metricmix.kernels.blocks import BlockJob, Cost, Found


@dataclass(frozen=True, eq=False)
class SlowSquares(BlockJob):
    """The squares of numbers, each of which takes some time."""

    x: np.ndarray
    seconds: float
    what = "squares"

    @property
    def cost(self) -> Cost:
        return Cost(len(self.x), max(self.seconds, 1e-3), unit_bytes=8.0)

    def block(self, start: int, stop: int) -> Found:
        time.sleep((stop - start) * self.seconds)
        return (self.x[start:stop] ** 2,)


@dataclass(frozen=True, eq=False)
class HungrySquares(SlowSquares):
    """The same; unit 3 takes more memory than it has said, while there is no file `full`."""

    full: str = ""
    nbytes: int = 0

    def block(self, start: int, stop: int) -> Found:
        if start <= 3 < stop and not Path(self.full).exists():
            held = np.ones(self.nbytes // 8)
            time.sleep(20.0)
            assert held.any()
        return super().block(start, stop)


def slow_power(base: int, exponent: int) -> int:
    """Return a power after some time: a refit for tests."""
    time.sleep(0.15)
    return int(base**exponent)
