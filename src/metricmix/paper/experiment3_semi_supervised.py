r"""Experiment 3: classify papers by their words, by their citations, and by both.

Of D + 20 papers D are labelled. Two sources, scaled to mean 1,

.. math:: [M_\mathrm{graph}]_{ij} = \mathrm{dist}_\mathrm{path}(i, j), \qquad
          [M_\mathrm{feature}]_{ij} = \lVert x_i - x_j \rVert^2

come from the sub-graph of these papers and from 40 principal components of their words. An
unlabelled paper gets the topic of the nearest labelled one. The paper suggests more sources without
trying them. Here they are tried: neighbourhoods (Jaccard, resource allocation), a Mahalanobis
metric learned from the labels by neighbourhood components analysis, and components smoothed along
citations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
from metricmix.paper.data import (
    SAMPLINGS,
    Data,
    Papers,
    check_enough,
    draw_papers,
    largest_component,
    random_start,
)
from metricmix.paper.experiment import (
    LITERAL,
    RHO,
    Cell,
    CellResult,
    Experiment,
    generator,
    learn,
)
from metricmix.paths import nearest_labelled, path_metric
from metricmix.typing import Floats, Indices

__all__ = ["METHODS", "SOURCES", "SemiSupervised", "learn_mixtures", "sources_of"]

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
        """Return a cell per repetition, sampling and size."""
        return [
            {"sampling": sampling, "D": D, "repetition": k}
            for k in range(self.repetitions)
            for sampling in SAMPLINGS
            for D in self.sizes
        ]

    def check(self, data: Data) -> None:
        """Raise InputError if the largest component has too few papers."""
        check_enough(
            max(self.sizes) + self.n_test,
            len(largest_component(data.papers)),
            "papers that hang together",
        )

    def cost(self, cell: Cell) -> float:
        """Return a cost that grows with the size."""
        return 100.0 + float(cell["D"])

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Train on D papers, predict the topics of the others."""
        D, repetition, sampling = int(cell["D"]), int(cell["repetition"]), str(cell["sampling"])
        which = list(SAMPLINGS).index(sampling)
        rng = generator(seed, self.name, which, D, repetition)
        papers = data.papers
        drawn = draw_papers(papers, sampling, rng, D + self.n_test, D)
        topics = papers.topics[drawn]
        known = np.where(np.arange(len(drawn)) < D, topics, -1)
        six, edges = sources_of(papers, drawn, known, int(rng.integers(1 << 31)))
        two = six.select(["graph", "feature"])
        learned = learn_mixtures(two, six, known, rng)
        nearest = {name: np.argmin(two.source(name)[D:, :D], axis=1) for name in two.names}
        for method, (stack, weights) in learned.items():
            nearest[method] = nearest_labelled(stack, weights, known >= 0)[1][D:, 0]
        accuracy = {
            method: float(np.mean(topics[found] == topics[D:])) for method, found in nearest.items()
        }
        return CellResult(
            {
                "accuracy": accuracy,
                "edges": edges,
                "unreachable": six.n_unreachable[0] / (len(drawn) * (len(drawn) - 1)),
                "weights": {name: w.round(6).tolist() for name, (_, w) in learned.items()},
                "violation": metric_violations(path_metric(*learned["mixture, balanced"])).triangle,
            }
        )


def sources_of(
    papers: Papers, drawn: Indices, known: Indices, seed: int
) -> tuple[DissimilarityStack, int]:
    """Return the six sources over the drawn papers, and the number of citations among them."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    X, graph = papers.components[drawn], papers.graph[drawn][:, drawn]
    labelled = known >= 0
    nca = NeighborhoodComponentsAnalysis(n_components=10, max_iter=30, random_state=seed)
    nca.fit(X[labelled], known[labelled])
    with warnings.catch_warnings():  # the number of unreachable pairs is stored
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


def learn_mixtures(
    two: DissimilarityStack, six: DissimilarityStack, known: Indices, rng: np.random.Generator
) -> dict[str, tuple[DissimilarityStack, Floats]]:
    """Return the sources and weights of every mixture."""
    contrast = LabelContrast(known, rho=RHO)
    balanced = LabelContrast(known, rho=RHO, balanced=True)
    start, seed = random_start(rng, 2), int(rng.integers(1 << 31))
    literal = learn(contrast, two, "stochastic", start=start, random_state=seed, **LITERAL)
    return {
        "mixture, literal": (two, literal),
        "mixture, converged": (two, learn(contrast, two, start=start)),
        "mixture, balanced": (two, learn(balanced, two)),
        "uniform": (two, np.full(2, 1 / 2)),
        "more, balanced": (six, learn(balanced, six)),
        "more, uniform": (six, np.full(6, 1 / 6)),
    }
