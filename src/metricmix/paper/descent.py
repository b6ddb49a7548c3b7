"""Figure 1: Algorithm 1 from slightly different starts, for four sizes of the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import dijkstra

from metricmix.dissimilarity import DissimilarityStack
from metricmix.objectives import LabelContrast
from metricmix.paper.experiment import Cell, Experiment, Found, generator
from metricmix.paper.feature_space import LITERAL, RHO, check_not_interrupted, learn
from metricmix.paper.inputs import Data, check_enough, graphs_of, image_metric, random_start
from metricmix.paths.pair import bundle_paths
from metricmix.solvers import minimize
from metricmix.solvers.minimize import solver_from_options
from metricmix.solvers.problem import Problem
from metricmix.typing import Floats

__all__ = ["SCALINGS", "WEIGHTS", "Convergence", "StepCost", "growing_problem"]


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
        for scaling, settings in SCALINGS.items():
            solver, options = solver_from_options("stochastic", settings)
            options |= {"start": weights, "check_every": EVERY, "random_state": start}
            result = minimize(objective, stack, solver, **options)
            check_not_interrupted(result)
            values[scaling] = [round(problem.value(w), 6) for w in result.trace.weights]
        values["optimum"] = problem.value(learn(objective, stack, weights))
        return Found(values)


# -- what one step of Algorithm 1 costs as the data grows: searched by rows, and with all formed

R, DIMENSIONS = 4, 25
WEIGHTS = {
    "weights of size 1": np.array([0.5, 0.3, -0.2, 0.4]),
    "ten times larger": np.array([5.0, 3.0, -2.0, 4.0]),
}
"""The larger the weights are against the link's sharpness, the more detours are to be ruled out."""


@dataclass(frozen=True)
class StepCost(Experiment):
    """Seconds per step against n."""

    sizes: tuple[int, ...] = (250, 500, 1000, 2000, 4000, 8000)
    steps: int = 100

    name: ClassVar[str] = "step-cost"
    alone: ClassVar[bool] = True
    settings: ClassVar = {
        "R": R,
        "dimensions": DIMENSIONS,
        "weights": {k: w.tolist() for k, w in WEIGHTS.items()},
    }

    def cells(self) -> list[Cell]:
        """Return a cell per size."""
        return [{"n": n} for n in self.sizes]

    def check(self, data: Data) -> None:
        """Nothing is needed: the data is generated."""

    def cost(self, cell: Cell) -> float:
        """Return what forming the data costs."""
        return 500.0 + float(cell["n"]) ** 2 / 500.0

    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Time single steps on one thread, both ways, after a step that is not timed."""
        _warm_up()
        n = int(cell["n"])
        problem = growing_problem(n, seed)
        terms = generator(seed, self.name, n).integers(problem.n_terms, size=self.steps)
        few = terms[: max(2, min(self.steps, 20_000_000 // n**2))]
        i, j = (side.ravel() for side in problem.objective.pairs(terms, n))
        rows, seconds = {}, {}
        for label, weights in WEIGHTS.items():
            touched = bundle_paths(problem.lengths(weights), i, j, n_jobs=1).rows_touched
            rows[label] = float(touched.mean())
            seconds[label] = _best(_by_rows, problem, weights, terms) / len(terms)
        weights = WEIGHTS["weights of size 1"]
        seconds["formed"] = _best(_formed, problem, weights, few, repeats=2) / len(few)
        return Found({"rows": rows}, seconds)


def growing_problem(n: int, seed: int = 0) -> Problem:
    """Return Euclidean distances in four feature spaces of ten classes, each of mean 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n)
    block = np.empty((R, n, n), np.float32)
    for layer in block:
        X = rng.normal(size=(10, DIMENSIONS))[y] + rng.normal(size=(n, DIMENSIONS))
        squares = (X**2).sum(1)
        gram = squares[:, None] + squares - 2 * X @ X.T
        np.fill_diagonal(gram, 0.0)
        d = np.sqrt(np.maximum(gram + gram.T, 0.0) / 2)
        layer[...] = d / d.mean()
    stack = DissimilarityStack.from_block(block)
    stack.raw_range()  # found once, in the first step
    return Problem(LabelContrast(y, rho=0.01), stack, n_jobs=1)


def _by_rows(problem: Problem, weights: Floats, terms: Any) -> None:
    for t in range(len(terms)):
        problem.sampled(weights, terms[t : t + 1])


def _formed(problem: Problem, weights: Floats, terms: Any) -> None:
    """Take steps as one would write them down: all edge lengths, then Dijkstra's algorithm."""
    for t in range(len(terms)):
        i, j = (int(side[0, 0]) for side in problem.objective.pairs(terms[t : t + 1], problem.n))
        lengths = problem.lengths(weights)
        w: Any = lengths.matrix(n_jobs=1)
        _, before = dijkstra(w, indices=[i], return_predecessors=True)
        edges = []
        while j != i:
            edges.append((before[0, j], j))
            j = int(before[0, j])
        if edges:
            u, v = np.array(edges).T
            lengths.edge_gradient(u, v, np.ones(len(u)))


def _best(function: Callable[..., None], *arguments: Any, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - started)
    return min(times)


@lru_cache(maxsize=1)
def _warm_up() -> None:
    """Compile."""
    problem = growing_problem(50)
    for weights in WEIGHTS.values():
        _by_rows(problem, weights, np.arange(3))
        _formed(problem, weights, np.arange(3))
