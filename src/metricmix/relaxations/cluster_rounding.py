"""Clusters of a signed graph: rounded from lengths, and improved by moving items."""

from __future__ import annotations

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import Crew
from metricmix.relaxations.short_paths import mixed, search_ball
from metricmix.relaxations.signed_graph import SignedGraph
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "cost_of",
    "cost_of_clusters",
    "lengths_of",
    "move_items",
    "pivot_clusters",
    "round_to_clusters",
]


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


# -- clusters of a signed graph: from lengths, by pivots; from other clusters, by moving items --


NEAR, FAR = 0.19, 0.5095
"""Attracting pairs nearer than NEAR are put together always, those farther than FAR never; these
numbers bound the cost on complete graphs with weights of 1 by 2.06 of the least."""


@kernel
def pivot_clusters(
    order: Ints,
    seed: int,
    radius: float,
    starts: Indices,
    ends: Ints,
    edges: Ints,
    x: Floats,
    labels: Ints,
) -> int:
    r"""Let pivots gather clusters around them, in the given order; return how many.

    A pivot is the next item without a cluster. It takes those of the others that are nearer than
    the radius; or, if that is 0, each with the probability :math:`1 - f(d)`, where f is
    :math:`((d - a) / (b - a))^2` cut off at 0 and 1 for a pair that attracts, and d for one that
    does not (Chawla, Makarychev, Schramm and Yaroslavtsev).
    """
    n = order.shape[0]
    dist, joined = np.full(n, np.inf), np.zeros(n, np.bool_)
    heap, place, ball = np.empty(n, np.int32), np.full(n, -1, np.int32), np.empty(n, np.int32)
    for i in range(n):
        labels[i] = -1
    clusters = 0
    for pivot in order:
        if labels[pivot] >= 0:
            continue
        limit = radius if radius > 0.0 else 1.0
        count = search_ball(pivot, starts, ends, edges, x, limit, dist, heap, place, ball)
        for t in range(starts[pivot], starts[pivot + 1]):
            joined[ends[t]] = True
        for t in range(count):
            j = ball[t]
            d = dist[j]
            dist[j] = np.inf
            if labels[j] >= 0:
                continue
            if radius > 0.0 or j == pivot:
                labels[j] = clusters
                continue
            if joined[j]:
                d = min(1.0, max(0.0, (d - NEAR) / (FAR - NEAR))) ** 2
            draw = mixed(seed + pivot * n + j) >> np.uint64(11)
            if float(draw) * 2.0**-53 >= d:
                labels[j] = clusters
        for t in range(starts[pivot], starts[pivot + 1]):
            joined[ends[t]] = False
        clusters += 1
    return clusters


@kernel
def move_items(
    order: Ints,
    starts: Indices,
    ends: Ints,
    pairs: Ints,
    weights: Floats,
    default: float,
    least: float,
    labels: Ints,
) -> int:
    """Move every item once, in the given order, to the cluster it fits best; return how many moved.

    That may be a new one. Labels are in 0 .. n - 1; gains up to `least` do not count.
    """
    n = order.shape[0]
    sizes, pull = np.zeros(n, np.int32), np.zeros(n)
    for i in range(n):
        sizes[labels[i]] += 1
    empty = np.empty(n, np.int32)  # labels nobody has
    spare = 0
    for label in range(n):
        if sizes[label] == 0:
            empty[spare] = label
            spare += 1
    moved = 0
    for i in order:
        own = labels[i]
        for t in range(starts[i], starts[i + 1]):
            pull[labels[ends[t]]] += weights[pairs[t]] - default
        # A cluster's pull is the sum of its weights: those listed, and the default for the rest.
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
def cost_of_clusters(
    starts: Indices,
    ends: Ints,
    pairs: Ints,
    weights: Floats,
    default: float,
    labels: Ints,
) -> float:
    """Return attraction between clusters and repulsion within; labels are in 0 .. n - 1.

    Only what costs is added up: clusters that cost nothing cost exactly 0.
    """
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
            w = weights[pairs[t]]
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
