"""The data of the experiments: images of digits, papers that cite each other, samples of both.

"real" is what the paper used, MNIST and Citeseer; "embedded" needs no download: scikit-learn's
digits and a generated citation network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from metricmix.datasets import fetch_citeseer, fetch_mnist, make_attributed_graph
from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice

__all__ = [
    "KINDS",
    "N_GRAPHS",
    "SAMPLINGS",
    "Data",
    "Images",
    "Papers",
    "check_enough",
    "draw_papers",
    "graphs_of",
    "image_metric",
    "largest_component",
    "load_images",
    "load_papers",
    "random_start",
]


KINDS = ("embedded", "real")
N_GRAPHS = 8
"""Threshold graphs of Experiments 1 and 2."""


@dataclass(frozen=True)
class Images:
    """Grey values (N, d), strictly positive as the paper asks, and the digits they show."""

    pixels: AnyArray
    digits: Indices

    def sample(self, rng: np.random.Generator, size: int) -> tuple[Floats, Indices]:
        """Return `size` different images, with 1 added to their grey values, and their digits."""
        check_enough(size, len(self.pixels), "images")
        chosen = rng.choice(len(self.pixels), size, replace=False)
        return self.pixels[chosen].astype(np.float64) + 1.0, self.digits[chosen]


@dataclass(frozen=True)
class Papers:
    """Words (N, n_words), 40 principal components, topics and citations (a symmetric graph).

    Papers without words or topic (15 in Citeseer) are dropped. The principal components are those
    of all others.
    """

    words: Any
    components: Floats
    topics: Indices
    graph: Any

    def __len__(self) -> int:
        return len(self.topics)


@dataclass(frozen=True)
class Data:
    """Which data to use, and the folder in which real data is looked for first."""

    kind: str = "embedded"
    data_home: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, KINDS, name="data")

    @property
    def images(self) -> Images:
        """Images of digits, loaded once per process."""
        return load_images(self.kind, self.data_home)

    @property
    def papers(self) -> Papers:
        """Papers that cite each other, loaded once per process."""
        return load_papers(self.kind, self.data_home)


def check_enough(wanted: int, there: int, what: str) -> None:
    """Raise InputError if a sample is larger than the data."""
    if wanted > there:
        raise InputError(
            argument="sizes",
            expected=f"samples of at most {there} {what}, as many as there are",
            found=f"one of {wanted}",
        )


@lru_cache(maxsize=1)
def load_images(kind: str, data_home: str | None) -> Images:
    """Return MNIST ("real") or scikit-learn's digits ("embedded")."""
    if kind == "real":
        pixels, digits = fetch_mnist(data_home=data_home, return_X_y=True)
    else:
        from sklearn.datasets import load_digits

        pixels, digits = load_digits(return_X_y=True)
    return Images(pixels, np.asarray(digits, np.int64))


@lru_cache(maxsize=1)
def load_papers(kind: str, data_home: str | None) -> Papers:
    """Return Citeseer ("real") or a generated citation network ("embedded")."""
    from sklearn.decomposition import PCA

    if kind == "real":
        network = fetch_citeseer(data_home=data_home)
    else:
        network = make_attributed_graph(
            *(1500, 6),
            n_words=600,
            degree=3.0,
            degree_spread=0.8,
            homophily=0.74,
            words_per_item=30.0,
            word_signal=0.25,
            random_state=0,
        )
    known = np.flatnonzero(network.target >= 0)
    words = (network.data[known] > 0).astype(np.float64)
    pca = PCA(40, svd_solver="arpack", random_state=0)
    return Papers(
        words, pca.fit_transform(words), network.target[known], network.graph[known][:, known]
    )


# -- samples of papers: at random, or along a random walk ---------------------------------------


def draw_papers(
    papers: Papers,
    sampling: str,
    rng: np.random.Generator,
    size: int,
    n_labelled: int,
    *,
    max_draws: int = 1000,
) -> Indices:
    """Return `size` different papers in random order.

    Samples are drawn until the first `n_labelled` papers have at least two topics, and two of them
    the same topic. InputError if there are fewer papers, or none of `max_draws` samples will do.
    """
    check_enough(size, len(papers), "papers")
    for _ in range(max_draws):
        drawn = rng.permutation(SAMPLINGS[sampling](papers, rng, size))
        counts = np.bincount(papers.topics[drawn[:n_labelled]])
        if (counts > 0).sum() >= 2 and counts.max() >= 2:
            return drawn
    raise InputError(
        argument="sizes",
        expected=(
            f"samples with two topics, found a single one in {max_draws} samples of {size} papers"
        ),
        remedy="take more",
    )


def at_random(papers: Papers, rng: np.random.Generator, size: int) -> Indices:
    """Draw papers with equal probabilities."""
    return np.asarray(rng.choice(len(papers), size, replace=False))


def by_random_walk(papers: Papers, rng: np.random.Generator, size: int) -> Indices:
    """Return the first `size` papers that a random walk along citations visits."""
    inside = largest_component(papers)
    check_enough(size, len(inside), "papers that hang together")
    graph = papers.graph
    at = int(rng.choice(inside))
    visited = {at}
    while len(visited) < size:
        cited = graph.indices[graph.indptr[at] : graph.indptr[at + 1]]
        at = int(cited[rng.integers(len(cited))])
        visited.add(at)
    return np.sort(np.array(list(visited)))


def largest_component(papers: Papers) -> Indices:
    """Return the papers of the largest connected component."""
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(papers.graph, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


SAMPLINGS: dict[str, Callable[[Papers, np.random.Generator, int], Indices]] = {
    "random": at_random,
    "walk": by_random_walk,
}


# -- the dissimilarities of Experiments 1 and 2 -------------------------------------------------


def image_metric(pixels: AnyArray) -> Floats:
    """Return M_true, the normalised Euclidean distances of images."""
    return np.asarray(features(pixels, "normalized-euclidean"), np.float64)


def graphs_of(metric: Floats, n_graphs: int = N_GRAPHS) -> DissimilarityStack:
    """Return the path lengths over the threshold graphs of M_true."""
    return DissimilarityStack(threshold_graphs(metric, n_graphs))


def random_start(rng: np.random.Generator, n_sources: int = N_GRAPHS) -> Floats:
    """Return the starting weights of Figure 1, x / ||x||² with x standard normal."""
    x = rng.normal(size=n_sources)
    return np.asarray(x / (x @ x))
