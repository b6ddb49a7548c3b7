"""Rounding for correlation clustering: pivot clusters, improved by moving single nodes."""

from __future__ import annotations

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time, time_is_up
from metricmix.kernels.heap import clear, empty_ball
from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations.graph_search import (
    SLICE,
    Adjacency,
    PairWeights,
    hash_integer,
    search_around,
    with_lengths,
)
from metricmix.relaxations.weighted_graphs import SignedGraph
from metricmix.typing import Floats, Ints

__all__ = ["clustering_cost", "move_nodes", "pivot_clusters", "round_clusters"]


NEAR, FAR = 0.19, 0.5095
"""Attracting pairs at a distance below NEAR always join the pivot, above FAR never. With these
values the expected cost is at most 2.06 times the optimum, on complete graphs with weights of 1
and -1."""


def round_clusters(
    graph: SignedGraph,
    x: Floats,
    pool: ThreadPool,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return the best clusters of several trials, numbered by first appearance, and their cost.

    Parameters
    ----------
    graph : SignedGraph
    x : (m,) array
        Lengths of the attracting pairs.
    pool : ThreadPool
    trials : int
        Every second one draws a radius for its clusters; the others join nodes to pivots at random.
    moves : bool
        Whether to move single nodes afterwards, while that lowers the cost.
    rng : Generator
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
    least_gain = 1e-12  # share of the total attraction that a move must gain
    least = least_gain * float(graph.attraction.sum())
    max_passes = 100  # passes over all nodes, at most; a few are usually enough

    def attempt(trial: tuple[Ints, int, float]) -> tuple[float, Ints]:
        order, seed, radius = trial
        labels = np.full(n, -1, np.int32)
        first, clusters = 0, 0
        while first < n:
            check_time()
            clusters, first = pivot_clusters(
                order, first, seed, radius, graph.edges, x, labels, clusters, SLICE
            )
        for _ in range(max_passes if moves else 0):
            if time_is_up() or not move_nodes(order, graph.weights, least, labels):
                break
        return float(clustering_cost(graph.weights, labels)), labels

    cost, labels = min(pool.run(attempt, drawn, partial=True), key=lambda found: found[0])
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse], cost


@kernel
def pivot_clusters(
    order: Ints,
    first: int,
    seed: int,
    radius: float,
    graph: Adjacency,
    x: Floats,
    labels: Ints,
    clusters: int,
    budget: int,
) -> tuple[int, int]:
    r"""Write the clusters around pivots, chosen in the given order from the place `first` on.

    `labels` are -1 at the start; so many `clusters` are there already. Return the number of
    clusters, and the place to go on from: n, or an earlier one if the searches reached more than
    `budget` nodes.

    A pivot is the next node without a cluster. It takes the other free nodes nearer than the
    radius; if the radius is 0, each with the probability :math:`1 - f(d)`, where f is
    :math:`((d - a) / (b - a))^2`, clipped to [0, 1], for an attracting pair, and d for a repelling
    one (Chawla, Makarychev, Schramm and Yaroslavtsev).
    """
    n = order.shape[0]
    starts, ends, joined = graph.starts, graph.ends, np.zeros(n, np.bool_)
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    nodes = 0
    for at in range(first, n):
        pivot = order[at]
        if labels[pivot] >= 0:
            continue
        if nodes > budget:
            return clusters, at
        limit = radius if radius > 0.0 else 1.0
        count = search_around(pivot, lengths, limit, ball)
        nodes += count
        for t in range(starts[pivot], starts[pivot + 1]):
            joined[ends[t]] = True
        for t in range(count):
            j = ball.order[t]
            d = ball.dist[j]
            if labels[j] >= 0:
                continue
            if radius > 0.0 or j == pivot:
                labels[j] = clusters
                continue
            if joined[j]:
                d = min(1.0, max(0.0, (d - NEAR) / (FAR - NEAR))) ** 2
            draw = hash_integer(seed + pivot * n + j) >> np.uint64(11)
            if float(draw) * 2.0**-53 >= d:
                labels[j] = clusters
        for t in range(starts[pivot], starts[pivot + 1]):
            joined[ends[t]] = False
        clear(ball)
        clusters += 1
    return clusters, n


@kernel
def move_nodes(order: Ints, weights: PairWeights, least: float, labels: Ints) -> int:
    """Move each node once, in the given order, to its best cluster; return how many moved.

    The best cluster may be a new one. Labels are in 0 .. n - 1; gains up to `least` do not count.
    """
    starts, ends, pairs = weights.listed
    values, default = weights.values, weights.default
    n = order.shape[0]
    sizes, pull = np.zeros(n, np.int32), np.zeros(n)
    for i in range(n):
        sizes[labels[i]] += 1
    empty = np.empty(n, np.int32)  # unused labels
    spare = 0
    for label in range(n):
        if sizes[label] == 0:
            empty[spare] = label
            spare += 1
    moved = 0
    for i in order:
        own = labels[i]
        for t in range(starts[i], starts[i + 1]):
            pull[labels[ends[t]]] += values[pairs[t]] - default
        # Sum of the weights to a cluster: the listed ones, and the default for the others.
        best, target = pull[own] + default * (sizes[own] - 1), own
        alone = sizes[own] == 1
        best += least
        if not alone and best < 0.0:
            best, target = 0.0, -1
        for t in range(starts[i], starts[i + 1]):
            label = labels[ends[t]]
            if label == own:
                continue
            value = pull[label] + default * sizes[label]
            if value > best:
                best, target = value, label
        for t in range(starts[i], starts[i + 1]):
            pull[labels[ends[t]]] = 0.0
        pull[own] = 0.0
        if target == own:
            continue
        if target < 0:
            spare -= 1
            target = empty[spare]
        sizes[own] -= 1
        if sizes[own] == 0:
            empty[spare] = own
            spare += 1
        sizes[target] += 1
        labels[i] = target
        moved += 1
    return moved


@kernel
def clustering_cost(weights: PairWeights, labels: Ints) -> float:
    """Return the attraction between clusters plus the repulsion within; labels are in 0 .. n - 1.

    Only terms > 0 are added up: clusters without cost have a cost of exactly 0.
    """
    starts, ends, pairs = weights.listed
    values, default = weights.values, weights.default
    n = labels.shape[0]
    sizes = np.zeros(n, np.int64)
    cost: float = 0.0
    together, listed = 0, 0
    for i in range(n):
        sizes[labels[i]] += 1
        for t in range(starts[i], starts[i + 1]):
            j = ends[t]
            if j >= i:
                continue
            listed += 1
            w = values[pairs[t]]
            if labels[j] == labels[i]:
                together += 1
                cost += max(0.0, -w)
            else:
                cost += max(0.0, w)
    within = 0
    for label in range(n):
        within += sizes[label] * (sizes[label] - 1) // 2
    apart = n * (n - 1) // 2 - within - (listed - together)
    return float(cost + max(0.0, -default) * (within - together) + max(0.0, default) * apart)
