"""Searches that start outside: from new items, joined by edges to the items of a stack.

A new item x reaches item j by its own edge to some item u and the shortest path from there,
``d(x, j) = min_u w(x, u) + d(u, j)``; rows of the stack are mixed only as items are settled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.frontier import forget, open_item, relax, take_nearest
from metricmix.kernels.mixing import floor_of, length_of, mix_row, tangent_of

__all__ = ["enter", "nearest_by_table", "nearest_wanted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@kernel
def enter(
    m: Floats,
    beta: float,
    link: int,
    wanted: NDArray[np.bool_],
    k: int,
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    root: Ints,
) -> None:
    """Open the items that a new item, with mixture values `m` to all of them, may have to visit.

    The link is increasing, so the k-th smallest value of a wanted item bounds all that matters:
    items beyond it, and ways longer than its edge, are left out.
    """
    forget(dist, key, least, pred)
    smallest = np.full(k, np.inf)
    for v in range(m.shape[0]):
        if wanted[v] and m[v] < smallest[k - 1]:
            place = k - 1
            while place > 0 and smallest[place - 1] > m[v]:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = m[v]
    cap = smallest[k - 1]
    beyond = np.nextafter(length_of(cap, beta, link), np.inf)
    for v in range(m.shape[0]):
        root[v] = -1
        if m[v] <= cap:
            open_item(v, length_of(m[v], beta, link), dist, key, least)
        else:
            dist[v] = beyond


@kernel
def nearest_wanted(
    block: NDArray[Any],
    weights: Floats,
    beta: float,
    link: int,
    m: Floats,
    start: int,
    stop: int,
    wanted: NDArray[np.bool_],
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    root: Ints,
    row: Floats,
    distances: Floats,
    items: NDArray[np.int64],
) -> None:
    """Find the k nearest wanted items of the new items start .. stop - 1, one search each.

    `m` (M, n) holds their mixture values; `distances` and `items` (M, k) receive the answers.
    """
    k = distances.shape[1]
    for q in range(start, stop):
        enter(m[q], beta, link, wanted, k, dist, key, least, pred, root)
        found = 0
        while found < k:
            u = take_nearest(key, least)
            if wanted[u]:
                distances[q, found] = dist[u]
                items[q, found] = u
                found += 1
            if found < k:
                mix_row(block, weights, u, False, row)
                relax(u, row, beta, link, dist, key, least, pred, root)


@kernel
def nearest_by_table(
    m: Floats,
    beta: float,
    link: int,
    start: int,
    stop: int,
    table_distances: Floats,
    table_items: NDArray[np.int64],
    distances: Floats,
    items: NDArray[np.int64],
) -> None:
    """Find the k nearest wanted items of new items from the k nearest of every item.

    `table_distances` and `table_items` (n, k) are sorted by distance. Wherever a path enters, at
    item u, the wanted items that it can lead to nearest are those of u.
    """
    k = distances.shape[1]
    shift, slope = tangent_of(beta, link)
    for q in range(start, stop):
        best, who = distances[q], items[q]
        for slot in range(k):
            best[slot] = np.inf
            who[slot] = -1
        for u in range(m.shape[1]):
            if floor_of(m[q, u], shift, slope) + table_distances[u, 0] >= best[k - 1]:
                continue
            edge = length_of(m[q, u], beta, link)
            for t in range(k):
                reached = edge + table_distances[u, t]
                if reached >= best[k - 1]:
                    break
                place = k - 1
                for slot in range(k):
                    if who[slot] == table_items[u, t]:
                        place = slot  # known already: only a shorter way counts
                        break
                if who[place] == table_items[u, t] and best[place] <= reached:
                    continue
                while place > 0 and best[place - 1] > reached:
                    best[place] = best[place - 1]
                    who[place] = who[place - 1]
                    place -= 1
                best[place] = reached
                who[place] = table_items[u, t]
