"""What the experiments draw from: images of digits, and papers that cite each other.

"real" is what the paper used, MNIST and Citeseer; "embedded" stands in for them where there is no
data at hand: scikit-learn's digits and a generated citation network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.datasets import fetch_citeseer, fetch_mnist, make_attributed_graph
from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs
from metricmix.exceptions import InputError
from metricmix.typing import Indices
from metricmix.validation import check_choice

__all__ = [
    "KINDS",
    "N_GRAPHS",
    "SAMPLINGS",
    "Data",
    "Images",
    "Papers",
    "draw_papers",
    "graphs_of",
    "image_metric",
    "largest_component",
    "random_start",
]


KINDS = ("embedded", "real")
N_COMPONENTS = 40


@dataclass(frozen=True)
class Images:
    """Grey values (N, d), strictly positive as the paper asks, and the digits they show."""

    pixels: NDArray[Any]
    digits: NDArray[np.int64]

    def sample(
        self, rng: np.random.Generator, size: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return `size` different images, with 1 added to their grey values, and their digits."""
        check_enough(size, len(self.pixels), "images")
        chosen = rng.choice(len(self.pixels), size, replace=False)
        return self.pixels[chosen].astype(np.float64) + 1.0, self.digits[chosen]


@dataclass(frozen=True)
class Papers:
    """Papers with words and a topic: words, principal components, topics, who cites whom.

    Papers without words or topic (15 in Citeseer) are left out. The principal components are those
    of all papers.
    """

    words: Any
    components: NDArray[np.float64]
    topics: NDArray[np.int64]
    graph: Any

    def __len__(self) -> int:
        return len(self.topics)


@dataclass(frozen=True)
class Data:
    """Which data to use, and where real data is looked for first."""

    kind: str = "embedded"
    data_home: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, KINDS, name="data")

    @property
    def images(self) -> Images:
        """Images of digits, loaded once per process."""
        return _images(self.kind, self.data_home)

    @property
    def papers(self) -> Papers:
        """Papers that cite each other, loaded once per process."""
        return _papers(self.kind, self.data_home)


def check_enough(wanted: int, there: int, what: str) -> None:
    """Raise InputError if a sample is larger than the data."""
    if wanted > there:
        raise InputError(
            argument="sizes",
            expected=f"samples of at most {there} {what}, as many as there are",
            found=f"one of {wanted}",
        )


@lru_cache(maxsize=1)
def _images(kind: str, data_home: str | None) -> Images:
    if kind == "real":
        pixels, digits = fetch_mnist(data_home=data_home, return_X_y=True)
    else:
        from sklearn.datasets import load_digits

        pixels, digits = load_digits(return_X_y=True)
    return Images(pixels, np.asarray(digits, np.int64))


@lru_cache(maxsize=1)
def _papers(kind: str, data_home: str | None) -> Papers:
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
    pca = PCA(N_COMPONENTS, svd_solver="arpack", random_state=0)
    return Papers(
        words, pca.fit_transform(words), network.target[known], network.graph[known][:, known]
    )


# -- two ways to take a few papers out of a citation network ------------------------------------

MAX_DRAWS = 1000


def draw_papers(
    papers: Papers, sampling: str, rng: np.random.Generator, size: int, n_labelled: int
) -> Indices:
    """Return `size` different papers in random order.

    Drawn again until the first `n_labelled` are of two topics at least, with two papers of one.
    """
    check_enough(size, len(papers), "papers")
    for _ in range(MAX_DRAWS):
        drawn = rng.permutation(SAMPLINGS[sampling](papers, rng, size))
        counts = np.bincount(papers.topics[drawn[:n_labelled]])
        if (counts > 0).sum() >= 2 and counts.max() >= 2:
            return drawn
    raise InputError(
        argument="sizes",
        expected=(
            f"samples with two topics, found a single one in {MAX_DRAWS} samples of {size} papers"
        ),
        remedy="take more",
    )


def at_random(papers: Papers, rng: np.random.Generator, size: int) -> Indices:
    """Draw papers alike, whoever they cite."""
    return np.asarray(rng.choice(len(papers), size, replace=False))


def by_random_walk(papers: Papers, rng: np.random.Generator, size: int) -> Indices:
    """Collect the first `size` papers that a random walk along citations meets."""
    inside = largest_component(papers)
    check_enough(size, len(inside), "papers that hang together")
    graph = papers.graph
    at = int(rng.choice(inside))
    met = {at}
    while len(met) < size:
        cited = graph.indices[graph.indptr[at] : graph.indptr[at + 1]]
        at = int(cited[rng.integers(len(cited))])
        met.add(at)
    return np.sort(np.array(list(met)))


def largest_component(papers: Papers) -> Indices:
    """Return the papers of the largest connected part of the network."""
    from scipy.sparse.csgraph import connected_components

    _, part = connected_components(papers.graph, directed=False)
    return np.flatnonzero(part == np.bincount(part).argmax())


SAMPLINGS: dict[str, Callable[[Papers, np.random.Generator, int], Indices]] = {
    "random": at_random,
    "walk": by_random_walk,
}


# -- the metrics of Experiments 1 and 2: one of images, and eight graphs that sketch it ---------

N_GRAPHS = 8


def image_metric(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Return M_true of some images."""
    return np.asarray(features(pixels, "normalized-euclidean"), np.float64)


def graphs_of(metric: NDArray[np.float64], n_graphs: int = N_GRAPHS) -> DissimilarityStack:
    """Return the graph metrics made from M_true: eight, or as many as asked for."""
    return DissimilarityStack(threshold_graphs(metric, n_graphs))


def random_start(rng: np.random.Generator, n_sources: int = N_GRAPHS) -> NDArray[np.float64]:
    """Return x / ||x||², x standard normal: where the paper's descents start."""
    x = rng.normal(size=n_sources)
    return np.asarray(x / (x @ x))
