r"""Experiment 3: topics of papers from who cites whom and from words, alone and together.

Of D + 20 papers D are labelled. Two sources, brought to a common mean,

.. math:: [M_\mathrm{graph}]_{ij} = \mathrm{dist}_\mathrm{path}(i, j), \qquad
          [M_\mathrm{feature}]_{ij} = \lVert x_i - x_j \rVert^2

are those of the sub-graph and of 40 principal components; the others get the topic of the nearest
labelled paper. The paper suggests more sources and leaves them out; here they are: neighbourhoods
(Jaccard, resource allocation), a Mahalanobis metric learned from the labels by neighbourhood
components analysis, and components smoothed along citations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity import (
    DissimilarityStack,
    diffusion,
    features,
    jaccard,
    mahalanobis,
    path_length,
    resource_allocation,
)
from metricmix.exceptions import UnreachableWarning
from metricmix.metric import metric_violations
from metricmix.objectives import LabelContrast
from metricmix.paper.experiment import Cell, Experiment, Found, generator
from metricmix.paper.feature_space import LITERAL, RHO, learn, learn_literally
from metricmix.paper.inputs import (
    SAMPLINGS,
    Data,
    Papers,
    check_enough,
    draw_papers,
    largest_component,
    random_start,
)
from metricmix.paths import nearest_labelled, path_metric
from metricmix.typing import Floats

__all__ = ["METHODS", "SOURCES", "SemiSupervised"]

SOURCES = ("graph", "feature", "jaccard", "resource allocation", "nca", "diffusion")
METHODS = {
    "graph": "path length among the sampled papers alone",
    "feature": "squared distance of 40 principal components alone",
    "mixture, literal": "both, Algorithm 1 with the paper's settings",
    "mixture, converged": "both, the same objective minimised",
    "mixture, balanced": "both, pairs of one class and of two count alike, from equal weights",
    "uniform": "both, 1/2 each, nothing learned",
    "more, balanced": "six sources, as 'mixture, balanced'",
    "more, uniform": "six sources, 1/6 each",
}


@dataclass(frozen=True)
class SemiSupervised(Experiment):
    """1-NN accuracy of graph, feature and mixture against the number of labelled papers."""

    sizes: tuple[int, ...] = (20, 40, 60, 80, 100)
    repetitions: int = 200
    n_test: int = 20

    name: ClassVar[str] = "semi-supervised"
    settings: ClassVar = {
        "rho": RHO,
        "literal": LITERAL,
        "sources": SOURCES,
        "methods": list(METHODS),
    }

    def cells(self) -> list[Cell]:
        """Return a cell per repetition, way of sampling and size."""
        return [
            {"sampling": sampling, "D": D, "repetition": k}
            for k in range(self.repetitions)
            for sampling in SAMPLINGS
            for D in self.sizes
        ]

    def check(self, data: Data) -> None:
        """Raise unless there are papers enough."""
        check_enough(
            max(self.sizes) + self.n_test,
            len(largest_component(data.papers)),
            "papers that hang together",
        )

    def cost(self, cell: Cell) -> float:
        """Return what the size costs."""
        return 100.0 + float(cell["D"])

    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Train on D papers, predict the topics of the others."""
        D, repetition, sampling = int(cell["D"]), int(cell["repetition"]), str(cell["sampling"])
        which = list(SAMPLINGS).index(sampling)
        rng = generator(seed, self.name, which, D, repetition)
        papers = data.papers
        drawn = draw_papers(papers, sampling, rng, D + self.n_test, D)
        topics = papers.topics[drawn]
        known = np.where(np.arange(len(drawn)) < D, topics, -1)
        six, edges = _sources(papers, drawn, known, int(rng.integers(1 << 31)))
        two = six.select(["graph", "feature"])
        learned = _learn(two, six, known, rng)
        accuracy = {
            name: _share_right(np.argmin(two.source(name)[D:, :D], axis=1), topics, D)
            for name in two.names
        }
        for method, (stack, weights) in learned.items():
            _, nearest = nearest_labelled(stack, weights, known >= 0)
            accuracy[method] = _share_right(nearest[D:, 0], topics, D)
        return Found(
            {
                "accuracy": accuracy,
                "edges": edges,
                "unreachable": six.n_unreachable[0] / (len(drawn) * (len(drawn) - 1)),
                "weights": {name: w.round(6).tolist() for name, (_, w) in learned.items()},
                "violation": metric_violations(path_metric(*learned["mixture, balanced"])).triangle,
            }
        )


def _sources(
    papers: Papers, drawn: NDArray[np.int64], known: NDArray[np.int64], seed: int
) -> tuple[DissimilarityStack, int]:
    """Return the six sources over the drawn papers, and the citations among them."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    X, graph = papers.components[drawn], papers.graph[drawn][:, drawn]
    labelled = known >= 0
    nca = NeighborhoodComponentsAnalysis(n_components=10, max_iter=30, random_state=seed)
    nca.fit(X[labelled], known[labelled])
    with warnings.catch_warnings():  # how many pairs have no path is among the results
        warnings.simplefilter("ignore", UnreachableWarning)
        sources = [
            path_length(graph),
            features(X, "sqeuclidean"),
            jaccard(graph),
            resource_allocation(graph),
            mahalanobis(X, nca.components_, kind="map"),
            diffusion(graph, X, steps=2, metric="euclidean"),
        ]
    return DissimilarityStack(sources, names=SOURCES, scaling="mean"), graph.nnz // 2


def _learn(
    two: DissimilarityStack, six: DissimilarityStack, known: Any, rng: np.random.Generator
) -> dict[str, tuple[DissimilarityStack, Floats]]:
    """Return the sources and weights of every method."""
    contrast = LabelContrast(known, rho=RHO)
    balanced = LabelContrast(known, rho=RHO, balanced=True)
    start = random_start(rng, 2)
    return {
        "mixture, literal": (two, learn_literally(contrast, two, start, rng)),
        "mixture, converged": (two, learn(contrast, two, start)),
        "mixture, balanced": (two, learn(balanced, two)),
        "uniform": (two, np.full(2, 1 / 2)),
        "more, balanced": (six, learn(balanced, six)),
        "more, uniform": (six, np.full(6, 1 / 6)),
    }


def _share_right(nearest: NDArray[Any], topics: NDArray[np.int64], D: int) -> float:
    return float(np.mean(topics[nearest] == topics[D:]))
