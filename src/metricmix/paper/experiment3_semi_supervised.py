r"""Experiment 3: classify papers by their words, by their citations, and by both.

Of D + 20 papers D are labelled. Two sources, scaled to mean 1,

.. math:: [M_\mathrm{graph}]_{ij} = \mathrm{dist}_\mathrm{path}(i, j), \qquad
          [M_\mathrm{feature}]_{ij} = \lVert x_i - x_j \rVert^2

come from the sub-graph of these papers and from 40 principal components of their words. An
unlabelled paper gets the topic of the nearest labelled one. The paper suggests more sources without
trying them. Here they are tried: neighbourhoods (Jaccard, resource allocation), a Mahalanobis
metric learned from the labels by neighbourhood components analysis, and components smoothed along
citations. It also suggests a comparison with embeddings of the graph: Laplacian eigenvectors and a
factorisation of random walks are rivals, and two further sources.
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
from metricmix.paths import nearest_labelled, path_metric
from metricmix.typing import Floats, Indices

__all__ = ["METHODS", "SOURCES", "SemiSupervised", "learn_mixtures", "sources_of"]

EMBEDDINGS = ("spectral", "walks")
SOURCES = ("graph", "feature", "jaccard", "resource allocation", "nca", "diffusion", *EMBEDDINGS)
DIMENSIONS = 10
"""Of the embeddings of the graph."""
METHODS = {
    "graph": "path length among the sampled papers alone",
    "feature": "squared distance of 40 principal components alone",
    **{method: f"both, {meaning}" for method, meaning in DESCENT_METHODS.items()},
    "mixture, balanced": "both, pairs of one class and of two count alike, from equal weights",
    "uniform": "both, 1/2 each, nothing learned",
    "more, balanced": "six sources, as 'mixture, balanced'",
    "more, uniform": "six sources, 1/6 each",
    "spectral": "Euclidean distance of Laplacian eigenvectors of the citations alone",
    "walks": "the same of factors of random walks, the limit of DeepWalk and node2vec (p = q = 1)",
    "all, balanced": "the six sources and both embeddings, as 'mixture, balanced'",
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

    def draw(
        self, cell: Cell, data: Data, seed: int
    ) -> tuple[np.random.Generator, Indices, Indices]:
        """Return the papers of a cell and the topics known, and a generator for what follows."""
        D, repetition, sampling = int(cell["D"]), int(cell["repetition"]), str(cell["sampling"])
        which = list(SAMPLINGS).index(sampling)
        rng = generator(seed, SemiSupervised.name, which, D, repetition)
        drawn = draw_papers(data.papers, sampling, rng, D + self.n_test, D)
        return rng, drawn, np.where(np.arange(len(drawn)) < D, data.papers.topics[drawn], -1)

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Train on D papers, predict the topics of the others."""
        D, papers = int(cell["D"]), data.papers
        rng, drawn, known = self.draw(cell, data, seed)
        topics = papers.topics[drawn]
        stack, edges = sources_of(papers, drawn, known, int(rng.integers(1 << 31)))
        learned = learn_mixtures(stack, known, rng)
        alone = ("graph", "feature", *EMBEDDINGS)
        nearest = {name: np.argmin(stack.source(name)[D:, :D], axis=1) for name in alone}
        for method, (some, weights) in learned.items():
            nearest[method] = nearest_labelled(some, weights, known >= 0)[1][D:, 0]
        accuracy = {
            method: float(np.mean(topics[found] == topics[D:])) for method, found in nearest.items()
        }
        return CellResult(
            {
                "accuracy": accuracy,
                "edges": edges,
                "unreachable": stack.n_unreachable[0] / (len(drawn) * (len(drawn) - 1)),
                "weights": {name: w.round(6).tolist() for name, (_, w) in learned.items()},
                "violation": metric_violations(path_metric(*learned["mixture, balanced"])).triangle,
            }
        )


def sources_of(
    papers: Papers, drawn: Indices, known: Indices, seed: int
) -> tuple[DissimilarityStack, int]:
    """Return the SOURCES over the drawn papers, and the number of citations among them."""
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
            features(spectral_embedding(graph.toarray())),
            features(walk_embedding(graph.toarray())),
        ]
    return DissimilarityStack(sources, names=SOURCES, scaling="mean"), graph.nnz // 2


def spectral_embedding(A: Floats) -> Floats:
    """Return the first eigenvectors of the steps of a random walk, times their eigenvalues.

    They are those of the normalised Laplacian. Papers without citations lie at 0.
    """
    root = 1.0 / np.sqrt(np.maximum(A.sum(axis=1), 1.0))
    values, vectors = np.linalg.eigh(root[:, None] * A * root)
    return np.asarray((root[:, None] * vectors * values)[:, -DIMENSIONS:])


def walk_embedding(A: Floats, window: int = 10) -> Floats:
    r"""Return factors of :math:`\log \max(1, \mathrm{vol}\, T^{-1} \sum_{t \le T} P^t D^{-1})`.

    :math:`P = D^{-1} A` are the steps of a random walk: the matrix that DeepWalk, and node2vec with
    p = q = 1 and one negative sample, factorise in the limit (Qiu et al., 2018).
    """
    degrees = np.maximum(A.sum(axis=1), 1.0)
    step = A / degrees[:, None]
    power, total = np.eye(len(A)), np.zeros_like(step)
    for _ in range(window):
        power = power @ step
        total += power
    u, s, _ = np.linalg.svd(np.log(np.maximum(1.0, A.sum() / window * total / degrees)))
    return np.asarray(u[:, :DIMENSIONS] * np.sqrt(s[:DIMENSIONS]))


def learn_mixtures(
    stack: DissimilarityStack, known: Indices, rng: np.random.Generator
) -> dict[str, tuple[DissimilarityStack, Floats]]:
    """Return the sources and weights of every mixture."""
    two, six = stack.select(SOURCES[:2]), stack.select(SOURCES[:6])
    contrast = LabelContrast(known, rho=RHO)
    balanced = LabelContrast(known, rho=RHO, balanced=True)
    start, seed = random_start(rng, 2), int(rng.integers(1 << 31))
    descents = learn_descents(contrast, two, start, seed)
    return {
        **{method: (two, weights) for method, weights in descents.items()},
        "mixture, balanced": (two, learn(balanced, two)),
        "uniform": (two, np.full(2, 1 / 2)),
        "more, balanced": (six, learn(balanced, six)),
        "more, uniform": (six, np.full(6, 1 / 6)),
        "all, balanced": (stack, learn(balanced, stack)),
    }
