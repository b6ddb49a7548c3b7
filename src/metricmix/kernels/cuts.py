r"""Cuts of a graph into two sides: from lengths, and from other cuts by moving items.

A graph is given as ``starts, ends, edges`` as for :mod:`metricmix.kernels.short_paths`, with
weights of edges. The ratio of a cut is the weight between its sides over the product of the
`demand` on either side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first

__all__ = ["best_sweep", "flip_items", "move_across", "tree_cut"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@kernel
def best_sweep(
    set_starts: Starts,
    sets: Ints,
    starts: Starts,
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
    starts: Starts,
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
    starts: Starts,
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
    starts: Starts,
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
