"""Figure 1: Algorithm 1 from slightly different starts, for four sizes of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from metricmix.experiments.data import Data, check_enough
from metricmix.experiments.experiment import Cell, Experiment, Found, generator
from metricmix.experiments.graph_metrics import graphs_of, image_metric, random_start
from metricmix.experiments.training import LITERAL, RHO, check_not_interrupted, learn
from metricmix.objectives import LabelContrast
from metricmix.solvers import minimize
from metricmix.solvers.problem import Problem

__all__ = ["SCALINGS", "Convergence"]

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
"""The paper's steps, and the same without the factor D^-2: the mean over pairs is the objective."""
EVERY = 5


@dataclass(frozen=True)
class Convergence(Experiment):
    """The exact objective along descents from several starts, on the same data for each size."""

    sizes: tuple[int, ...] = (40, 60, 80, 100)
    starts: int = 5

    name: ClassVar[str] = "convergence"
    settings: ClassVar = {"rho": RHO, "scalings": SCALINGS}

    def cells(self) -> list[Cell]:
        """Return a cell per size and start."""
        return [{"D": D, "start": k} for D in self.sizes for k in range(self.starts)]

    def check(self, data: Data) -> None:
        """Raise unless there are images enough."""
        check_enough(max(self.sizes), len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return what the evaluations of the exact objective cost."""
        return 100.0 + float(cell["D"])

    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Descend with both scalings; evaluate the exact objective every five steps."""
        D, start = int(cell["D"]), int(cell["start"])
        pixels, digits = data.images.sample(generator(seed, self.name, D), D)
        stack = graphs_of(image_metric(pixels))
        objective = LabelContrast(digits, rho=RHO)
        problem = Problem(objective, stack, n_jobs=1)
        weights = random_start(generator(seed, self.name, D, 1 + start))
        values: dict[str, Any] = {"step": list(range(0, 501, EVERY))}
        for scaling, options in SCALINGS.items():
            result = minimize(
                *(objective, stack), start=weights, check_every=EVERY, random_state=start, **options
            )
            check_not_interrupted(result)
            values[scaling] = [round(problem.value(w), 6) for w in result.trace.weights]
        values["optimum"] = problem.value(learn(objective, stack, weights))
        return Found(values)
