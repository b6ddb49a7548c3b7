"""What an experiment is: independent cells, each a pure function of its key and the seed."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from metricmix.paper.inputs import Data

__all__ = ["Cell", "Experiment", "Found", "generator"]

Cell = Mapping[str, int | str]
"""What tells a cell from the others of its experiment: size, repetition, method."""


PLAN = ("sizes", "repetitions", "few_repetitions", "general_sizes", "limits", "starts")
"""Fields that say only which cells there are."""


@dataclass(frozen=True)
class Found:
    """What a cell found, as JSON can hold it.

    `values` are the same in every run with the same seed; `seconds` are measured.
    """

    values: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)


class Experiment(ABC):
    """A grid of cells that can be run in any order, in any process, and kept one by one.

    To add an experiment, derive a frozen dataclass whose fields say how large it is, and name it
    in :mod:`metricmix.paper.run`.
    """

    name: ClassVar[str]
    """What the results file calls it."""
    alone: ClassVar[bool] = False
    """Whether it measures time, so that its cells must run one after the other."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """What its results depend on besides the cell and its own fields."""

    @property
    def depends_on(self) -> dict[str, Any]:
        """All that the results depend on besides the cell; if it changes, cells are run again."""
        own = {name: value for name, value in vars(self).items() if name not in PLAN}
        return {**self.settings, **own}

    @abstractmethod
    def cells(self) -> list[Cell]:
        """Return the cells, in the order to run them in."""

    @abstractmethod
    def check(self, data: Data) -> None:
        """Raise unless there is data enough for all cells."""

    @abstractmethod
    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Run one cell."""

    def cost(self, cell: Cell) -> float:
        """Return what a cell takes compared with others, for the estimate of the time left."""
        return 1.0


def generator(seed: int, name: str, *key: int) -> np.random.Generator:
    """Return the random numbers of one cell, independent of all others'.

    A key is not told from the same one with zeros added.

    >>> generator(0, "feature-space", 40, 3).integers(1000)
    np.int64(...)
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *key])
