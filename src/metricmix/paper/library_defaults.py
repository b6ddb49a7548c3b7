"""Experiments 2 and 3 again with the defaults of this library, on the same draws.

The classifier chooses by itself: weights >= 0 or others, the ridge and the rule, on held-out labels
(:mod:`metricmix.learning.selection`). It gets the sources of the paper, and in a second run those
of :func:`~metricmix.sources_for`, which knows the labels. Single sources and equal weights are
classified in the same way, so that the differences are what merging and learning are worth.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from metricmix.dissimilarity import DissimilarityStack, features, path_length
from metricmix.dissimilarity.default_sources import sources_for
from metricmix.dissimilarity.known import Known
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.learning.learn import along
from metricmix.learning.rules import FittedRule
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture
from metricmix.objectives import ClassMeans
from metricmix.paper.data import N_GRAPHS, Data, graphs_of, image_metric
from metricmix.paper.experiment import Cell, CellResult
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.experiment3_semi_supervised import SemiSupervised
from metricmix.solvers.problem import Problem
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["IMAGE_METHODS", "PAPER_METHODS", "FeatureSpaceDefaults", "SemiSupervisedDefaults"]

IMAGE_METHODS = {
    "graphs": "eight graphs, the classifier with its defaults",
    "graphs, equal": "the same with equal weights",
    "best graph": "the graph with the lowest loss of class means on the labels",
    "images": "the images' own metric",
    "ready sources": "`sources_for(pixels, labels=...)`",
    "ready sources, equal": "the same with equal weights",
}
PAPER_METHODS = {
    "graph": "path length alone",
    "feature": "squared distance of 40 principal components alone",
    "both": "both, the classifier with its defaults",
    "both, equal": "the same with equal weights",
    "ready sources": "`sources_for(words, graph, labels=...)`",
    "ready sources, equal": "the same with equal weights",
}


@dataclass(frozen=True)
class FeatureSpaceDefaults(FeatureSpace):
    """Accuracy of graphs of images, and of ready sources, against the number of labelled images.

    The first repetitions of :class:`FeatureSpace`: the same images. Ready sources are computed once
    for all images of a cell, test images being unlabelled items.
    """

    repetitions: int = 20

    name: ClassVar[str] = "feature-space-defaults"
    settings: ClassVar = {"methods": list(IMAGE_METHODS)}

    def cost(self, cell: Cell) -> float:
        """Return a larger cost than that of the experiment."""
        return 5.0 * super().cost(cell)

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Fit the classifiers to D images, predict the others one by one."""
        D = int(cell["D"])
        _, pixels, digits = self.draw(cell, data, seed)
        metric, y = image_metric(pixels), digits[:D]
        known = np.where(np.arange(len(digits)) < D, digits, -1)
        graphs, ready = graphs_of(metric[:D, :D]), sources_for(pixels, labels=known)
        best = graphs.names[best_source(graphs, y)]
        own = DissimilarityStack([metric[:D, :D]], names=["images"])
        models = {
            "graphs": fitted(graphs, y),
            "graphs, equal": fitted(graphs, y, **EQUAL),
            "best graph": fitted(graphs.select([best]), y),
            "images": fitted(own, y),
        }
        right: dict[str, list[bool]] = {method: [] for method in models}
        for t in range(D, D + self.n_test):
            augmented = [*range(D), t]
            rows = metric[np.ix_(augmented, augmented)]
            stacks = {"images": DissimilarityStack([rows], names=["images"])}
            stacks["graphs"] = stacks["graphs, equal"] = graphs_of(rows, N_GRAPHS)
            stacks["best graph"] = stacks["graphs"].select([best])
            for method, model in models.items():
                right[method].append(label_of_last(model, stacks[method]) == digits[t])
        accuracy = {method: float(np.mean(found)) for method, found in right.items()}
        for method, settings in {"ready sources": {}, "ready sources, equal": EQUAL}.items():
            models[method] = fitted(ready, known, **settings)
            accuracy[method] = share_right(models[method], digits, D)
        return CellResult({"accuracy": accuracy, **learned(models)})


@dataclass(frozen=True)
class SemiSupervisedDefaults(SemiSupervised):
    """Accuracy of words and citations, and of ready sources, against the number of labels.

    The first repetitions of :class:`SemiSupervised`: the same papers.
    """

    repetitions: int = 10

    name: ClassVar[str] = "semi-supervised-defaults"
    settings: ClassVar = {"methods": list(PAPER_METHODS)}

    def cost(self, cell: Cell) -> float:
        """Return a larger cost than that of the experiment."""
        return 5.0 * super().cost(cell)

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Fit the classifiers to all papers, the last ones without a topic."""
        papers = data.papers
        _, drawn, known = self.draw(cell, data, seed)
        topics, graph = papers.topics[drawn], papers.graph[drawn][:, drawn]
        with warnings.catch_warnings():  # Experiment 3 stores the number of unreachable pairs
            warnings.simplefilter("ignore")
            sources = [path_length(graph), features(papers.components[drawn], "sqeuclidean")]
            both = DissimilarityStack(sources, names=["graph", "feature"], scaling="mean")
            cited = graph if graph.nnz else None  # few papers may not cite each other
            ready = sources_for(papers.words[drawn], cited, labels=known)
        models = {
            "graph": fitted(both.select(["graph"]), known),
            "feature": fitted(both.select(["feature"]), known),
            "both": fitted(both, known),
            "both, equal": fitted(both, known, **EQUAL),
            "ready sources": fitted(ready, known),
            "ready sources, equal": fitted(ready, known, **EQUAL),
        }
        D = int(cell["D"])
        accuracy = {method: share_right(model, topics, D) for method, model in models.items()}
        return CellResult({"accuracy": accuracy, **learned(models)})


EQUAL: dict[str, Any] = {"objective": None}


def fitted(stack: DissimilarityStack, known: AnyArray, **settings: Any) -> MetricMixtureClassifier:
    """Return a classifier with default settings but for those given, without warnings.

    An interrupted solver raises KeyboardInterrupt, so that no cell is stored half done.
    """
    model = MetricMixtureClassifier(stack, n_jobs=1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.arange(stack.n_items), known)
    if model.result_.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return model


def share_right(model: MetricMixtureClassifier, labels: AnyArray, D: int) -> float:
    """Return the accuracy on the items from D on."""
    return float(np.mean(model.transduction_[D:] == labels[D:]))


def learned(models: Mapping[str, MetricMixtureClassifier]) -> dict[str, Any]:
    """Return what every classifier chose, its weights, and how many distances were projected."""
    return {
        "chosen": {method: str(model.selection_.best) for method, model in models.items()},
        "weights": {method: model.weights_.round(6).tolist() for method, model in models.items()},
        "moved_share": {method: model.moved_share_ for method, model in models.items()},
    }


def best_source(stack: DissimilarityStack, y: Indices) -> int:
    """Return the source with the lowest loss of class means, with the whole initial weight."""
    problem = Problem(ClassMeans(y), stack.rescaled("mean"), n_jobs=1)
    return int(np.argmin([problem.value(4.0 * corner) for corner in np.eye(stack.n_sources)]))


def label_of_last(model: MetricMixtureClassifier, stack: DissimilarityStack) -> Any:
    """Return the label of the last item of a stack, whose other items are those of the fit.

    Where weights are local, it gets the mean membership of the items nearest to it; where paths are
    geodesic, edges to its nearest items.
    """
    learned = model.learned_
    mixture, near = (
        one.extended(stack) if isinstance(one, LocalMixture) else one
        for one in (learned.mixture, learned.near or learned.mixture)
    )
    lengths = EdgeLengths(along(stack, near, learned.options), mixture)
    codes = np.append(np.searchsorted(model.classes_, model.transduction_), -1)
    rule = FittedRule(model.rule_, lengths, Known(codes, len(model.classes_)), 1)
    probabilities: Floats = rule.of_items[-1]
    return model.classes_[probabilities.argmax()]
