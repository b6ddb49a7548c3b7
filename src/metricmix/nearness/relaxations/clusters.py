"""Clusters of a signed graph: rounded from lengths, and improved by moving items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.clusters import cost_of_clusters, move_items, pivot_clusters
from metricmix.kernels.threads import Crew
from metricmix.nearness.relaxations.signed_graph import SignedGraph

__all__ = ["cost_of", "lengths_of", "round_to_clusters"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

PASSES = 100
"""Most passes over all items; a few are enough mostly."""

ROUNDING = 1e-12
"""Share of all attraction that a move must gain."""


def round_to_clusters(
    graph: SignedGraph,
    x: Floats,
    crew: Crew,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return the best clusters of several trials, and their cost.

    Parameters
    ----------
    graph : SignedGraph
    x : (m,) array
        Lengths of the attracting pairs.
    trials : int
        Half of them put items around pivots at random, half up to a radius drawn for each.
    moves : bool
        Whether to move single items afterwards, while that lowers the cost.
    """
    n = graph.n
    drawn = [
        (
            rng.permutation(n).astype(np.int32),
            int(rng.integers(2**31)),
            float(rng.uniform(0.2, 0.8)) if trial % 2 else 0.0,
        )
        for trial in range(trials)
    ]
    edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs, x)
    listed = (graph.listed.starts, graph.listed.ends, graph.listed.pairs)
    least = ROUNDING * float(graph.attraction.sum())

    def attempt(trial: tuple[Ints, int, float]) -> tuple[float, Ints]:
        order, seed, radius = trial
        labels = np.empty(n, np.int32)
        pivot_clusters(order, seed, radius, *edges, labels)
        if moves:
            for _ in range(PASSES):
                if not move_items(order, *listed, graph.weights, graph.default, least, labels):
                    break
        return cost_of(graph, labels), labels

    found = crew.run(attempt, drawn)
    cost, labels = min(found, key=lambda pair: pair[0])
    return _in_order(labels), cost


def cost_of(graph: SignedGraph, labels: Ints) -> float:
    """Return what clusters cost: attraction between them and repulsion within; labels < n."""
    listed = (graph.listed.starts, graph.listed.ends, graph.listed.pairs)
    return float(cost_of_clusters(*listed, graph.weights, graph.default, labels))


def lengths_of(graph: SignedGraph, labels: Ints) -> Floats:
    """Return the lengths of the attracting pairs that stand for clusters: 1 between them."""
    i, j = graph.ends.T
    return np.where(labels[i] != labels[j], 1.0, 0.0)


def _in_order(labels: Ints) -> Ints:
    """Return labels that number clusters in the order in which they appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse]
