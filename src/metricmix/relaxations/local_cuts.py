"""Sparse cuts of a graph: balls around items and around sets of them, improved by moving items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.kernels.threads import Crew
from metricmix.relaxations.signed_graph import Neighbours, WeightedGraph
from metricmix.typing import Floats, Indices, Ints

__all__ = ["CutGraph", "best_sweep", "flip_items", "move_across", "sparse_cut", "tree_cut"]


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


# -- cuts of a graph into two sides: from lengths, and from other cuts by moving items ----------


@kernel
def best_sweep(
    set_starts: Indices,
    sets: Ints,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    c: Floats,
    demand: Floats,
    labels: Ints,
) -> float:
    """Write the best of the cuts that balls around sets of items make; return its ratio.

    Balls have lengths x, and every radius. Set s is ``sets[set_starts[s]:set_starts[s + 1]]``; the
    graph is connected.
    """
    n = starts.shape[0] - 1
    dist, heap, place = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    order, inside = np.empty(n, np.int32), np.empty(n, np.bool_)
    everything = np.sum(demand)
    best = np.inf
    for s in range(set_starts.shape[0] - 1):
        dist[:], place[:], inside[:] = np.inf, -1, False
        size = 0
        for t in range(set_starts[s], set_starts[s + 1]):
            dist[sets[t]] = 0.0
            size = lift(sets[t], size, heap, place, dist)
        cut, held, count, chosen = 0.0, 0.0, 0, 0
        while size > 0:
            u: int = take_first(size, heap, place, dist)
            size -= 1
            order[count], inside[u] = u, True
            count += 1
            held += demand[u]
            for t in range(starts[u], starts[u + 1]):
                v = ends[t]
                cut += -c[edges[t]] if inside[v] else c[edges[t]]
                reached = dist[u] + x[edges[t]]
                if reached < dist[v]:
                    dist[v] = reached
                    size = lift(v, size, heap, place, dist)
            if count < n:
                ratio = cut / (held * (everything - held))
                if ratio < best:
                    best, chosen = ratio, count
        if chosen > 0:
            labels[:] = 0
            for k in range(chosen):
                labels[order[k]] = 1
    return best


@kernel
def move_across(
    order: Ints,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    c: Floats,
    demand: Floats,
    rounding: float,
    labels: Ints,
) -> int:
    """Move every item once to the other side, in the given order, if that lowers the ratio.

    Shares of it up to `rounding` do not count. Return how many moved.
    """
    held, count, cut = np.zeros(2), np.zeros(2, np.int64), 0.0
    for i in range(labels.shape[0]):
        held[labels[i]] += demand[i]
        count[labels[i]] += 1
        for t in range(starts[i], starts[i + 1]):
            if ends[t] < i and labels[ends[t]] != labels[i]:
                cut += c[edges[t]]
    moved = 0
    for i in order:
        own = labels[i]
        if count[own] == 1:
            continue
        change = 0.0
        for t in range(starts[i], starts[i + 1]):
            change += c[edges[t]] if labels[ends[t]] == own else -c[edges[t]]
        here, there = held[own] - demand[i], held[1 - own] + demand[i]
        if (cut + change) / (here * there) < cut / (held[0] * held[1]) * (1.0 - rounding):
            held[own], held[1 - own] = here, there
            count[own] -= 1
            count[1 - own] += 1
            cut += change
            labels[i] = 1 - own
            moved += 1
    return moved


@kernel
def tree_cut(
    order: Ints,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    extra: Floats,
    labels: Ints,
) -> None:
    """Write the cut that a spanning tree of the surest edges makes.

    An edge is the surer, the nearer x is to 0, its ends together, or to 1, its ends apart; numbers
    `extra` are added to how unsure they are. Trees begin with the first items of the order.
    """
    n = order.shape[0]
    dist, heap, place = np.full(n, np.inf), np.empty(n, np.int32), np.full(n, -1, np.int32)
    done = np.zeros(n, np.bool_)
    for root in order:
        if done[root]:
            continue
        labels[root], dist[root] = 0, 0.0
        size = lift(root, 0, heap, place, dist)
        while size > 0:
            u: int = take_first(size, heap, place, dist)
            size -= 1
            done[u] = True
            for t in range(starts[u], starts[u + 1]):
                v, e = ends[t], edges[t]
                unsure = min(x[e], 1.0 - x[e]) + extra[e]
                if not done[v] and unsure < dist[v]:
                    dist[v] = unsure
                    labels[v] = labels[u] if x[e] < 0.5 else 1 - labels[u]
                    size = lift(v, size, heap, place, dist)


@kernel
def flip_items(
    order: Ints,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    weights: Floats,
    least: float,
    labels: Ints,
) -> int:
    """Move every item once to the other side, in the given order, if more is cut then.

    Gains up to `least` do not count. Return how many moved.
    """
    moved = 0
    for i in order:
        gain = 0.0
        for t in range(starts[i], starts[i + 1]):
            gain += weights[edges[t]] if labels[ends[t]] == labels[i] else -weights[edges[t]]
        if gain > least:
            labels[i] = 1 - labels[i]
            moved += 1
    return moved
