"""Sparse cuts of a graph: balls around items and around sets of them, improved by moving items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.cuts import best_sweep, move_across
from metricmix.kernels.threads import Crew
from metricmix.nearness.relaxations.signed_graph import Neighbours
from metricmix.nearness.relaxations.weighted_graph import WeightedGraph

__all__ = ["CutGraph", "sparse_cut"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

PARTS = 16
"""Lists of sets to make balls around; fixed, so that of equal cuts the same one is found."""

PASSES, ROUNDING = 100, 1e-12
"""Most passes over all items, and the share of a ratio that a move must gain."""


@dataclass(frozen=True, eq=False)
class CutGraph:
    """A graph whose cuts have ratios: capacity cut over the product of the demands on each side.

    Attributes
    ----------
    given : WeightedGraph
    c, demand : (m,) and (n,) arrays
        Capacities > 0 and demands > 0, 1 in the mean.
    capacity, size : float
        The means of both as they were given.
    parts : (n,) array
        The connected component of every item.
    """

    given: WeightedGraph
    c: Floats
    demand: Floats
    capacity: float
    size: float
    parts: Ints

    @classmethod
    def of(cls, graph: WeightedGraph, demand: Floats) -> CutGraph:
        """Return a graph with these demands, whose weights are > 0."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        pairs = (np.ones(len(graph.weights)), tuple(graph.ends.T))
        joined: Any = coo_array(pairs, shape=(graph.n, graph.n))
        parts = connected_components(joined, directed=False)[1]
        capacity = float(graph.weights.mean()) if len(graph.weights) else 1.0
        size = float(demand.mean())
        return cls(graph, graph.weights / capacity, demand / size, capacity, size, parts)

    @property
    def n(self) -> int:
        """Number of items."""
        return self.given.n

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.c)

    @property
    def edges(self) -> Neighbours:
        """The edges by item."""
        return self.given.edges

    @property
    def unit(self) -> float:
        """What a ratio of 1, of `c` and `demand`, is in terms of what was given."""
        return self.capacity / self.size**2

    @property
    def is_connected(self) -> bool:
        """Whether there is a path between any two items."""
        return bool(self.parts.max() == 0)

    @property
    def hops(self) -> float:
        """About how many edges a path has: the mean over those from the first item."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import shortest_path

        edges = (np.ones(2 * self.m), self.edges.ends, self.edges.starts)
        joined = csr_array(edges, shape=(self.n, self.n))
        return float(shortest_path(joined, unweighted=True, indices=[0]).mean())

    def product_of(self, labels: Ints) -> float:
        """Return the product of the demands on both sides, as given."""
        held, rest = (float(self.demand[labels == side].sum()) for side in (0, 1))
        return held * rest * self.size**2

    def ratio_of(self, labels: Ints) -> float:
        """Return the ratio of a cut, in terms of what was given."""
        return self.given.weight_between(labels) / self.product_of(labels)

    def lengths_of(self, labels: Ints) -> Floats:
        """Return the lengths of the edges that stand for a cut."""
        i, j = self.given.ends.T
        return np.where(labels[i] != labels[j], 1.0, 0.0)


def sparse_cut(
    graph: CutGraph,
    x: Floats,
    crew: Crew,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return a cut with a small ratio, and the ratio: the best of many.

    Parameters
    ----------
    graph : CutGraph
    x : (m,) array
        Lengths of the edges.
    trials : int
        Sets of items drawn at random, of sizes 2, 4, 8 and so on, to make balls around; balls
        around every item come first.
    moves : bool
        Whether to move single items afterwards, while that lowers the ratio.
    """
    n = graph.n
    if not graph.is_connected:
        return (graph.parts != graph.parts[0]).astype(np.int32), 0.0
    sizes = 2 ** (1 + np.arange(trials) % max(1, int(np.log2(n)) - 1))
    sets = [np.array([i]) for i in rng.permutation(n)]
    sets += [rng.choice(n, min(int(size), n - 1), replace=False) for size in sizes]
    edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs)

    def attempt(some: list[Any]) -> tuple[float, Ints]:
        labels = np.empty(n, np.int32)
        starts = np.cumsum([0, *(len(one) for one in some)])
        members = np.concatenate(some).astype(np.int32)
        best_sweep(starts, members, *edges, x, graph.c, graph.demand, labels)
        order = np.arange(n, dtype=np.int32)
        for _ in range(PASSES if moves else 0):
            if not move_across(order, *edges, graph.c, graph.demand, ROUNDING, labels):
                break
        return graph.ratio_of(labels), labels

    tasks = [some for k in range(PARTS) if (some := sets[k::PARTS])]
    ratio, labels = min(crew.run(attempt, tasks), key=lambda found: found[0])
    return labels if labels[0] == 0 else 1 - labels, ratio
