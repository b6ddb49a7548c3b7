"""Figure 1: Algorithm 1 from slightly different starts, for four sizes of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from metricmix.objectives import LabelContrast
from metricmix.paper.data import Data, check_enough, graphs_of, image_metric, random_start
from metricmix.paper.experiment import (
    LITERAL,
    RHO,
    Cell,
    CellResult,
    Experiment,
    generator,
    learn,
    solve,
)
from metricmix.solvers.problem import Problem

__all__ = ["SCALINGS", "AlgorithmConvergence"]


SCALINGS: dict[str, dict[str, Any]] = {
    "paper": LITERAL,
    "mean": {
        "optimizer": "sgd",
        "schedule": "constant",
        "batch_size": 1,
        "learning_rate": 1.0,
        "max_iter": 500,
    },
}
"""The paper's steps, and steps without the factor D^-2: the objective is the mean over pairs."""


@dataclass(frozen=True)
class AlgorithmConvergence(Experiment):
    """The exact objective along descents from several starts, on the same data for each size."""

    sizes: tuple[int, ...] = (40, 60, 80, 100)
    starts: int = 5

    name: ClassVar[str] = "convergence"
    settings: ClassVar = {"rho": RHO, "scalings": SCALINGS}

    def cells(self) -> list[Cell]:
        """Return a cell per size and start."""
        return [{"D": D, "start": k} for D in self.sizes for k in range(self.starts)]

    def check(self, data: Data) -> None:
        """Raise InputError if there are too few images."""
        check_enough(max(self.sizes), len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return the cost of evaluating the exact objective."""
        return 100.0 + float(cell["D"])

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Descend with both scalings; evaluate the exact objective every five steps."""
        D, start = int(cell["D"]), int(cell["start"])
        pixels, digits = data.images.sample(generator(seed, self.name, D), D)
        stack = graphs_of(image_metric(pixels))
        objective = LabelContrast(digits, rho=RHO)
        problem = Problem(objective, stack, n_jobs=1)
        weights = random_start(generator(seed, self.name, D, 1 + start))
        values: dict[str, Any] = {"step": list(range(0, 501, 5))}
        for scaling, options in SCALINGS.items():
            result = solve(
                *(objective, stack), start=weights, check_every=5, random_state=start, **options
            )
            values[scaling] = [round(problem.value(w), 6) for w in result.trace.weights]
        values["optimum"] = problem.value(learn(objective, stack, start=weights))
        return CellResult(values)
