"""Rounding for cuts: sweeps over balls, spanning trees, and moves of single nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time, time_is_up
from metricmix.kernels.heap import clear, empty_ball, reach, search, settle
from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations.graph_search import SLICE, Adjacency, read_edges, with_lengths
from metricmix.relaxations.weighted_graphs import DemandNetwork, WeightedGraph
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "flip_for_ratio",
    "flip_for_weight",
    "round_max_cut",
    "round_sparse_cut",
    "spanning_tree_cut",
    "sweep_cut",
]


MAX_PASSES, LEAST_GAIN = 1000, 1e-12
"""Passes over all nodes, at most, and the share of the objective that a move must gain."""


# -- sparsest cut -------------------------------------------------------------------------------


def round_sparse_cut(
    network: DemandNetwork,
    x: Floats,
    pool: ThreadPool,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return a cut with a small ratio, and its ratio.

    Parameters
    ----------
    network : DemandNetwork
    x : (m,) array
        Lengths of the edges.
    pool : ThreadPool
    trials : int
        Random sets of nodes, of sizes 2, 4, 8 and so on, to sweep from, besides all single nodes.
    moves : bool
        Whether to move single nodes afterwards, while that lowers the ratio.
    rng : Generator
    """
    n, graph = network.n, network.graph.edges
    if not network.is_connected:
        return (network.component != network.component[0]).astype(np.int32), 0.0
    sizes = 2 ** (1 + np.arange(trials) % max(1, int(np.log2(n)) - 1))
    sets = [np.array([i]) for i in rng.permutation(n)]
    sets += [rng.choice(n, min(int(size), n - 1), replace=False) for size in sizes]

    def attempt(some: list[Any]) -> tuple[float, Ints]:
        labels = np.empty(n, np.int32)
        starts = np.cumsum([0, *(len(one) for one in some)])
        members = np.concatenate(some).astype(np.int32)
        arrays, ratio = (graph, x, network.capacity, network.demand, labels), np.inf
        at_once = max(1, SLICE // n)
        for first in range(0, len(some), at_once):
            if first:  # the cuts found so far will do
                if time_is_up():
                    break
            else:
                check_time()
            ratio = sweep_cut(starts[first : first + at_once + 1], members, *arrays, ratio)
        order = np.arange(n, dtype=np.int32)
        for _ in range(MAX_PASSES if moves else 0):
            if time_is_up() or not flip_for_ratio(
                order, graph, network.capacity, network.demand, LEAST_GAIN, labels
            ):
                break
        return network.cut_ratio(labels), labels

    # Lists of balls per sweep; fixed, so that ties are broken alike whatever the number of threads.
    parts = 16
    tasks = [some for k in range(parts) if (some := sets[k::parts])]
    ratio, labels = min(pool.run(attempt, tasks, partial=True), key=lambda found: found[0])
    return labels if labels[0] == 0 else 1 - labels, ratio


@kernel
def sweep_cut(
    set_starts: Indices,
    sets: Ints,
    graph: Adjacency,
    x: Floats,
    c: Floats,
    demand: Floats,
    labels: Ints,
    best: float,
) -> float:
    """Write the cut of smallest ratio among all balls around sets of nodes; return its ratio.

    Balls are those of the lengths x. Set s is ``sets[set_starts[s]:set_starts[s + 1]]``; the graph
    is connected. Cuts whose ratio is not below `best` are ignored.
    """
    starts, ends, edges = graph
    n = starts.shape[0] - 1
    lengths, ball, inside = with_lengths(graph, x), empty_ball(n), np.empty(n, np.bool_)
    total = np.sum(demand)
    for s in range(set_starts.shape[0] - 1):
        for t in range(set_starts[s], set_starts[s + 1]):
            reach(sets[t], 0.0, -1, ball)
        search(read_edges, lengths, n, np.inf, ball)
        inside[:] = False
        cut, weight, chosen = 0.0, 0.0, 0
        for k in range(n):
            u = ball.order[k]
            inside[u] = True
            weight += demand[u]
            for t in range(starts[u], starts[u + 1]):
                cut += -c[edges[t]] if inside[ends[t]] else c[edges[t]]
            if k < n - 1:
                ratio = cut / (weight * (total - weight))
                if ratio < best:
                    best, chosen = ratio, k + 1
        if chosen > 0:
            labels[:] = 0
            for k in range(chosen):
                labels[ball.order[k]] = 1
        clear(ball)
    return best


@kernel
def flip_for_ratio(
    order: Ints, graph: Adjacency, c: Floats, demand: Floats, least: float, labels: Ints
) -> int:
    """Move each node to the other side, in the given order, if that lowers the ratio of the cut.

    Gains up to the share `least` of the ratio do not count. Return how many moved.
    """
    starts, ends, edges = graph
    weight, count, cut = np.zeros(2), np.zeros(2, np.int64), 0.0
    for i in range(labels.shape[0]):
        weight[labels[i]] += demand[i]
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
        here, there = weight[own] - demand[i], weight[1 - own] + demand[i]
        if (cut + change) / (here * there) < cut / (weight[0] * weight[1]) * (1.0 - least):
            weight[own], weight[1 - own] = here, there
            count[own] -= 1
            count[1 - own] += 1
            cut += change
            labels[i] = 1 - own
            moved += 1
    return moved


# -- maximum cut --------------------------------------------------------------------------------


def round_max_cut(
    graph: WeightedGraph,
    x: Floats,
    pool: ThreadPool,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return the best cut of several trials, and its weight.

    Parameters
    ----------
    graph : WeightedGraph
    x : (m,) array
        The fractional cut: from 0, not cut, to 1, cut.
    pool : ThreadPool
    trials : int
        Spanning trees.
    moves : bool
        Whether to move single nodes afterwards, while that increases the weight.
    rng : Generator
    """
    n, m = graph.n, len(x)
    # Largest random number added to the uncertainty of an edge, in all trials but the first.
    largest_noise = 0.2
    drawn = [
        (rng.permutation(n).astype(np.int32), (largest_noise if trial else 0.0) * rng.random(m))
        for trial in range(trials)
    ]
    least = LEAST_GAIN * float(np.abs(graph.weights).sum())

    def attempt(trial: tuple[Ints, Floats]) -> tuple[float, Ints]:
        order, noise = trial
        labels = np.empty(n, np.int32)
        spanning_tree_cut(order, graph.edges, x, noise, labels)
        for _ in range(MAX_PASSES if moves else 0):
            if time_is_up() or not flip_for_weight(
                order, graph.edges, graph.weights, least, labels
            ):
                break
        return graph.weight_between(labels), labels

    weight, labels = max(pool.run(attempt, drawn, partial=True), key=lambda found: found[0])
    if weight < 0.0:
        return np.zeros(n, np.int32), 0.0
    return labels if labels[0] == 0 else 1 - labels, weight


@kernel
def spanning_tree_cut(
    order: Ints, graph: Adjacency, x: Floats, noise: Floats, labels: Ints
) -> None:
    """Write the cut along the spanning tree of least uncertainty (Prim).

    The uncertainty of an edge is the distance of x from 0 (not cut) or 1 (cut), whichever is
    nearer, plus `noise`. Components start at their first node in the given order.
    """
    starts, ends, edges = graph
    n = order.shape[0]
    ball = empty_ball(n)
    dist = ball.dist  # the uncertainty of the edge that a node is reached by; -inf once settled
    for root in order:
        if dist[root] == -np.inf:
            continue
        labels[root] = 0
        reach(root, 0.0, -1, ball)
        while ball.counts[0] > 0:
            u = settle(ball)
            dist[u] = -np.inf
            for t in range(starts[u], starts[u + 1]):
                v, e = ends[t], edges[t]
                uncertainty = min(x[e], 1.0 - x[e]) + noise[e]
                if uncertainty < dist[v]:
                    labels[v] = labels[u] if x[e] < 0.5 else 1 - labels[u]
                    reach(v, uncertainty, u, ball)


@kernel
def flip_for_weight(
    order: Ints, graph: Adjacency, weights: Floats, least: float, labels: Ints
) -> int:
    """Move each node to the other side, in the given order, if that increases the weight cut.

    Gains up to `least` do not count. Return how many moved.
    """
    starts, ends, edges = graph
    moved = 0
    for i in order:
        gain = 0.0
        for t in range(starts[i], starts[i + 1]):
            gain += weights[edges[t]] if labels[ends[t]] == labels[i] else -weights[edges[t]]
        if gain > least:
            labels[i] = 1 - labels[i]
            moved += 1
    return moved
