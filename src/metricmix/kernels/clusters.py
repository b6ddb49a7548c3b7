r"""Clusters of a signed graph: from lengths, by pivots; from other clusters, by moving items.

With weights positive where a pair attracts, clusters cost :math:`\sum_{w > 0} w` less the sum of
the weights of all pairs within clusters. Graphs and weights come as for
:mod:`metricmix.kernels.short_paths`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.short_paths import mixed, search_ball

__all__ = ["cost_of_clusters", "move_items", "pivot_clusters"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]

NEAR, FAR = 0.19, 0.5095
"""Attracting pairs nearer than NEAR are put together always, those farther than FAR never; these
numbers bound the cost on complete graphs with weights of 1 by 2.06 of the least."""


@kernel
def pivot_clusters(
    order: Ints,
    seed: int,
    radius: float,
    starts: Starts,
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
    starts: Starts,
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
    starts: Starts,
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
