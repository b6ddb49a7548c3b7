"""Two ways to take a few papers out of a citation network.

The paper says only that sets of articles are selected. Taken at random, a hundred of three thousand
have a handful of citations among them, and path lengths say next to nothing. A random walk takes
papers that hang together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.experiments.data import Papers, check_enough

__all__ = ["SAMPLINGS", "draw_papers", "largest_component"]

Indices = NDArray[np.int64]
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
        f"sizes: expected samples with two topics, found a single one in {MAX_DRAWS} samples of "
        f"{size} papers; take more"
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
