"""What is to be labelled: digits, and a generated attributed graph, both without downloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from metricmix import DissimilarityStack
from metricmix.datasets import make_attributed_graph
from metricmix.dissimilarity import diffusion, features, knn_path_length

__all__ = ["TASKS", "Task"]

DIGITS, PAPERS = 1000, 600


@dataclass(frozen=True)
class Task:
    """Items with a table, perhaps a graph, and a few labels.

    Attributes
    ----------
    table : (n, d) array
    links : (m, 2) array, optional
    truth : (n,) array
    known : (L,) array
        The labelled items; all others are to be labelled.
    stack : DissimilarityStack
        The same sources for every method that mixes sources.
    """

    table: NDArray[np.float64]
    links: NDArray[np.int64] | None
    truth: NDArray[np.int64]
    known: NDArray[np.int64]
    stack: DissimilarityStack

    @property
    def rest(self) -> NDArray[np.int64]:
        """The items to be labelled."""
        return np.setdiff1d(np.arange(len(self.truth)), self.known)

    @property
    def given(self) -> NDArray[np.int64]:
        """The labels, -1 where there is none."""
        labels = np.full(len(self.truth), -1)
        labels[self.known] = self.truth[self.known]
        return labels


def digits(per_class: int, draw: int) -> Task:
    """Return 1000 of scikit-learn's digits: cosine, city block and a neighbourhood graph."""
    rng = np.random.default_rng(draw)
    X, y = load_digits(return_X_y=True)
    chosen = rng.permutation(len(y))[:DIGITS]
    X, y = X[chosen] / 16.0, y[chosen]
    sources: dict[str, Any] = {
        "cosine": features(X, "cosine"),
        "city block": features(X, "cityblock"),
        "graph": knn_path_length(X, 8),
    }
    stack = DissimilarityStack(sources, scaling="mean")
    return Task(X, None, y, _some_of_each(y, per_class, rng), stack)


def papers(per_class: int, draw: int) -> Task:
    """Return 600 generated papers: their words, and walks along their links."""
    made = make_attributed_graph(PAPERS, random_state=draw, homophily=0.7, word_signal=0.3)
    words = made.data.toarray()
    sources: dict[str, Any] = {
        "words": features(words + 1e-3, "cosine"),
        "walks": diffusion(made.graph, restart=0.1),
    }
    stack = DissimilarityStack(sources, scaling="mean")
    rng = np.random.default_rng(draw)
    return Task(words, made.edges, made.target, _some_of_each(made.target, per_class, rng), stack)


def _some_of_each(
    y: NDArray[np.int64], per_class: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    chosen = [rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)]
    return np.sort(np.concatenate(chosen))


TASKS = {
    "digits, 3 labels per class": (digits, 3),
    "digits, 10 labels per class": (digits, 10),
    "papers, 5 labels per class": (papers, 5),
}
