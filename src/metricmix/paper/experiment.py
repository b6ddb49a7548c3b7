"""What the experiments have in common: independent cells, seeds, how weights are learned.

A cell is a pure function of its key, the data and the seed. Cells can be run in any order and in
any process, and are stored one by one.
"""

from __future__ import annotations

import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning
from metricmix.objectives import Objective
from metricmix.paper.data import Data
from metricmix.solvers import SolveResult, Status, minimize
from metricmix.solvers.minimize import solver_from_options
from metricmix.typing import Floats

__all__ = [
    "LITERAL",
    "RHO",
    "Cell",
    "CellResult",
    "Experiment",
    "generator",
    "learn",
    "solve",
]

Cell = Mapping[str, int | str]
"""The key of a cell within its experiment: size, repetition, method."""
PLAN = ("sizes", "repetitions", "few_repetitions", "general_sizes", "limits", "starts")
"""Fields that only decide which cells there are."""
RHO = 0.01
"""The ridge of Experiments 2 and 3."""
LITERAL: dict[str, Any] = {"scaling": "paper", "learning_rate": 1.0, "max_iter": 500}
"""The paper's settings of Algorithm 1: one pair a step, steps of size 1 times D^-2, 500 of them."""


@dataclass(frozen=True)
class CellResult:
    """The result of a cell, as JSON can hold it.

    `values` are the same in every run with the same seed; `seconds` are measured.
    """

    values: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)


class Experiment(ABC):
    """A grid of independent cells.

    To add an experiment, derive a frozen dataclass whose fields say how large it is, and add it to
    ``PARTS`` in :mod:`metricmix.paper.runner`.
    """

    name: ClassVar[str]
    """Its name in the results file."""
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
        """Return the cells in the order to run them in."""

    @abstractmethod
    def check(self, data: Data) -> None:
        """Raise InputError if the data is too small for one of the cells."""

    @abstractmethod
    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Run one cell."""

    def cost(self, cell: Cell) -> float:
        """Return the relative run time of a cell, for the estimate of the time left."""
        return 1.0


def generator(seed: int, name: str, *key: int) -> np.random.Generator:
    """Return the random numbers of one cell, independent of those of all others.

    Keys that differ only by trailing zeros give the same numbers.

    >>> generator(0, "feature-space", 40, 3).integers(1000)
    np.int64(...)
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *key])


def solve(
    objective: Objective, stack: DissimilarityStack, method: str = "stochastic", **options: Any
) -> SolveResult:
    """Call :func:`~metricmix.minimize` without convergence warnings.

    How the solver ended is part of the results. An interrupted solver raises KeyboardInterrupt, so
    that no cell is stored half done.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver, others = solver_from_options(method, options)
        result = minimize(objective, stack, solver, **others)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def learn(
    objective: Objective, stack: DissimilarityStack, method: str = "full", **options: Any
) -> Floats:
    """Return the weights that minimise an objective: by full sub-gradients, from equal weights.

    ``method="stochastic", **LITERAL`` is Algorithm 1 with the paper's settings.
    """
    weights = solve(objective, stack, method, n_jobs=1, **options).weights
    assert weights is not None
    return weights
