"""Large cuts of a weighted graph: rounded along trees of sure edges, improved by moving items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.cuts import flip_items, tree_cut
from metricmix.kernels.threads import Crew
from metricmix.nearness.relaxations.weighted_graph import WeightedGraph

__all__ = ["best_two_sides", "cut_lengths"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

NOISE = 0.2
"""How unsure an edge may look at random in all trials but the first."""

PASSES, ROUNDING = 1000, 1e-12
"""Most passes over all items, and the share of all weight that a move must gain."""


def best_two_sides(
    graph: WeightedGraph,
    x: Floats,
    crew: Crew,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return the best cut of several trials, and what it cuts.

    Parameters
    ----------
    graph : WeightedGraph
    x : (m,) array
        How much of every edge is cut.
    trials : int
        Spanning trees, each of the edges that look surest.
    moves : bool
        Whether to move single items afterwards, while more is cut then.
    """
    n, m = graph.n, len(x)
    drawn = [
        (rng.permutation(n).astype(np.int32), (NOISE if trial else 0.0) * rng.random(m))
        for trial in range(trials)
    ]
    edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs)
    least = ROUNDING * float(np.abs(graph.weights).sum())

    def attempt(trial: tuple[Ints, Floats]) -> tuple[float, Ints]:
        order, extra = trial
        labels = np.empty(n, np.int32)
        tree_cut(order, *edges, x, extra, labels)
        for _ in range(PASSES if moves else 0):
            if not flip_items(order, *edges, graph.weights, least, labels):
                break
        return graph.weight_between(labels), labels

    cut, labels = max(crew.run(attempt, drawn), key=lambda found: found[0])
    if cut < 0.0:
        return np.zeros(n, np.int32), 0.0
    return labels if labels[0] == 0 else 1 - labels, cut


def cut_lengths(graph: WeightedGraph, labels: Ints) -> Floats:
    """Return the lengths of the edges that stand for a cut: 1 between its sides."""
    i, j = graph.ends.T
    return np.where(labels[i] != labels[j], 1.0, 0.0)
