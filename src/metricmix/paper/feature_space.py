"""Experiment 2: a mixture of graphs stands in for the images that the graphs were made from.

D images are labelled. Each test image makes an augmented data set of D + 1, over which all graph
metrics are computed anew; it gets the label of its nearest neighbour. As every other image is
labelled, the nearest neighbour under the projected metric is the one under the edge lengths, and as
the link is increasing, the one under the plain mixture: no shortest path is needed to predict.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning
from metricmix.metric import metric_violations
from metricmix.objectives import LabelContrast, Objective
from metricmix.paper.experiment import Cell, Experiment, Found, generator
from metricmix.paper.inputs import (
    N_GRAPHS,
    Data,
    check_enough,
    graphs_of,
    image_metric,
    random_start,
)
from metricmix.paths import path_metric
from metricmix.solvers import SolveResult, Status, minimize
from metricmix.solvers.minimize import solver_from_options
from metricmix.solvers.problem import Problem
from metricmix.typing import Floats

__all__ = [
    "LITERAL",
    "METHODS",
    "RHO",
    "FeatureSpace",
    "check_not_interrupted",
    "learn",
    "learn_literally",
]


RHO = 0.01
LITERAL: dict[str, Any] = {"scaling": "paper", "learning_rate": 1.0, "max_iter": 500}
"""The paper's settings: one pair a step, steps of size 1 times D^-2, 500 of them."""


def check_not_interrupted(result: SolveResult) -> None:
    """Raise KeyboardInterrupt if that is what ended a solver: half a cell is no cell."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def learn_literally(
    objective: Objective, stack: DissimilarityStack, start: Floats, rng: np.random.Generator
) -> Floats:
    """Run Algorithm 1 with the paper's settings."""
    seed = int(rng.integers(1 << 31))
    with warnings.catch_warnings():  # that it was interrupted is told otherwise
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver, options = solver_from_options("stochastic", LITERAL)
        options |= {"start": start, "random_state": seed, "n_jobs": 1}
        result = minimize(objective, stack, solver, **options)
    check_not_interrupted(result)
    assert result.weights is not None
    return result.weights


def learn(
    objective: Objective,
    stack: DissimilarityStack,
    start: Floats | None = None,
    constraint: str | None = None,
) -> Floats:
    """Minimise by full sub-gradients until nothing improves, from equal weights by default."""
    options: dict[str, Any] = {"start": start, "constraint": constraint, "n_jobs": 1}
    with warnings.catch_warnings():  # at a kink there is no smooth end; the best found is used
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(objective, stack, "full", **options)
    check_not_interrupted(result)
    assert result.weights is not None
    return result.weights


# -- experiment 2: a mixture of graphs stands in for the images that the graphs were made from --

MANY_GRAPHS = 32
METHODS = {
    "mixture, literal": "Algorithm 1 with the paper's settings",
    "mixture, converged": "the same objective, minimised",
    "mixture, balanced": "pairs of one class and of two count alike, from equal weights",
    "uniform": "1/8 each, nothing learned",
    "32 graphs, balanced": "as 'mixture, balanced', from 32 thresholds in place of 8",
    "32 graphs, uniform": "1/32 each, nothing learned",
    "best, single": "the graph with the lowest objective",
    "best, simplex": "weights >= 0 of sum 1 with the lowest objective",
    "full": "the images' own metric",
}


@dataclass(frozen=True)
class FeatureSpace(Experiment):
    """1-NN accuracy of mixture, best and full against the number of labelled images."""

    sizes: tuple[int, ...] = (40, 50, 60, 70, 80, 90)
    repetitions: int = 200
    n_test: int = 20

    name: ClassVar[str] = "feature-space"
    settings: ClassVar = {"rho": RHO, "literal": LITERAL, "methods": list(METHODS)}

    def cells(self) -> list[Cell]:
        """Return a cell per repetition and size."""
        return [{"D": D, "repetition": k} for k in range(self.repetitions) for D in self.sizes]

    def check(self, data: Data) -> None:
        """Raise unless there are images enough."""
        check_enough(max(self.sizes) + self.n_test, len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return what the size costs."""
        return 100.0 + float(cell["D"])

    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Train on D images, predict the others one by one."""
        D, repetition = int(cell["D"]), int(cell["repetition"])
        rng = generator(seed, self.name, D, repetition)
        pixels, digits = data.images.sample(rng, D + self.n_test)
        metric = image_metric(pixels)
        y = digits[:D]
        stack, many = graphs_of(metric[:D, :D]), graphs_of(metric[:D, :D], MANY_GRAPHS)
        learned, reached = _learn(stack, y, rng)
        learned |= {
            "32 graphs, balanced": learn(LabelContrast(y, rho=RHO, balanced=True), many),
            "32 graphs, uniform": np.full(MANY_GRAPHS, 1.0 / MANY_GRAPHS),
        }
        right: dict[str, list[bool]] = {method: [] for method in METHODS}
        for t in range(D, D + self.n_test):
            augmented = [*range(D), t]
            rows = metric[np.ix_(augmented, augmented)]
            to_train = {R: graphs_of(rows, R).rows([D])[0, :D] for R in (N_GRAPHS, MANY_GRAPHS)}
            for method, weights in learned.items():
                # Sums in one order keep ties as ties; a product by BLAS may not.
                nearest = np.argmin((to_train[len(weights)] * weights).sum(axis=1))
                right[method].append(y[nearest] == digits[t])
            right["full"].append(y[np.argmin(rows[D, :D])] == digits[t])
        balanced = path_metric(stack, learned["mixture, balanced"])
        return Found(
            {
                "accuracy": {method: float(np.mean(found)) for method, found in right.items()},
                "objective": reached,
                "weights": {method: learned[method].round(6).tolist() for method in learned},
                "violation": metric_violations(balanced).triangle,
            }
        )


def _learn(
    stack: DissimilarityStack, y: NDArray[Any], rng: np.random.Generator
) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return the weights of every method, and the paper's objective where each ends."""
    contrast = LabelContrast(y, rho=RHO)
    problem = Problem(contrast, stack, n_jobs=1)
    start, corners = random_start(rng), np.eye(N_GRAPHS)
    learned = {
        "mixture, literal": learn_literally(contrast, stack, start, rng),
        "mixture, converged": learn(contrast, stack, start),
        "mixture, balanced": learn(LabelContrast(y, rho=RHO, balanced=True), stack),
        "uniform": np.full(N_GRAPHS, 1.0 / N_GRAPHS),
        "best, single": corners[np.argmin([problem.value(corner) for corner in corners])],
        "best, simplex": learn(contrast, stack, constraint="simplex"),
    }
    return learned, {method: problem.value(weights) for method, weights in learned.items()}
