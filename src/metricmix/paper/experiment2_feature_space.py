"""Experiment 2: classify images by a mixture of graphs that were made from them.

D images are labelled. Each test image is added to them, and all graph metrics of these D + 1 images
are computed anew; the test image gets the label of its nearest neighbour. All other images are
labelled, so the nearest neighbour under the path metric is the one under the edge lengths; the link
is increasing, so it is also the one under the mixture itself: prediction needs no shortest path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metricmix.dissimilarity import DissimilarityStack
from metricmix.metric import metric_violations
from metricmix.objectives import LabelContrast
from metricmix.paper.data import (
    N_GRAPHS,
    Data,
    check_enough,
    graphs_of,
    image_metric,
    random_start,
)
from metricmix.paper.experiment import (
    DESCENT_METHODS,
    LITERAL,
    RHO,
    Cell,
    CellResult,
    Experiment,
    generator,
    learn,
    learn_descents,
)
from metricmix.paths import path_metric
from metricmix.solvers.problem import Problem
from metricmix.typing import Floats, Indices

__all__ = ["METHODS", "FeatureSpace", "learn_all"]

MANY_GRAPHS = 32
METHODS = {
    **DESCENT_METHODS,
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
        """Raise InputError if there are too few images."""
        check_enough(max(self.sizes) + self.n_test, len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return a cost that grows with the size."""
        return 100.0 + float(cell["D"])

    def draw(
        self, cell: Cell, data: Data, seed: int
    ) -> tuple[np.random.Generator, Floats, Indices]:
        """Return the images of a cell and their digits, and a generator for what follows."""
        D, repetition = int(cell["D"]), int(cell["repetition"])
        rng = generator(seed, FeatureSpace.name, D, repetition)
        return rng, *data.images.sample(rng, D + self.n_test)

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Train on D images, predict the others one by one."""
        D = int(cell["D"])
        rng, pixels, digits = self.draw(cell, data, seed)
        metric = image_metric(pixels)
        y = digits[:D]
        stack, many = graphs_of(metric[:D, :D]), graphs_of(metric[:D, :D], MANY_GRAPHS)
        learned, reached = learn_all(stack, many, y, rng)
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
        return CellResult(
            {
                "accuracy": {method: float(np.mean(found)) for method, found in right.items()},
                "objective": reached,
                "weights": {method: learned[method].round(6).tolist() for method in learned},
                "violation": metric_violations(balanced).triangle,
            }
        )


def learn_all(
    stack: DissimilarityStack, many: DissimilarityStack, y: Indices, rng: np.random.Generator
) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return the weights of every method, and the paper's objective at those of the 8 graphs."""
    contrast = LabelContrast(y, rho=RHO)
    balanced = LabelContrast(y, rho=RHO, balanced=True)
    problem = Problem(contrast, stack, n_jobs=1)
    start, corners = random_start(rng), np.eye(N_GRAPHS)
    seed = int(rng.integers(1 << 31))
    learned = {
        **learn_descents(contrast, stack, start, seed),
        "mixture, balanced": learn(balanced, stack),
        "uniform": np.full(N_GRAPHS, 1.0 / N_GRAPHS),
        "best, single": corners[np.argmin([problem.value(corner) for corner in corners])],
        "best, simplex": learn(contrast, stack, constraint="simplex"),
    }
    reached = {method: problem.value(weights) for method, weights in learned.items()}
    learned |= {
        "32 graphs, balanced": learn(balanced, many),
        "32 graphs, uniform": np.full(MANY_GRAPHS, 1.0 / MANY_GRAPHS),
    }
    return learned, reached
