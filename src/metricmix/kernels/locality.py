"""Orders of items in which near items have near numbers.

A search over a million items of a sparse graph waits for memory most of the time. Renumbered in
this order, the ends of an item's edges lie in few cache lines, and items that are open together are
read together. The items of a matrix of lengths are put into the order of a tour, in which the
min-plus product skips more tiles.
"""

from __future__ import annotations

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import CHUNK, panel_width
from metricmix.kernels.minplus_tile import STRIP
from metricmix.typing import AnyArray, Indices, Ints

__all__ = [
    "copy_rows",
    "fraction_computed",
    "locality_order",
    "nearest_neighbour_tour",
    "renumber_rows",
    "reorder",
    "tour_order",
]

TOUR_COST = 250
"""Sorting costs O(n²), the closure O(n³): it pays if n times the fraction saved exceeds this."""
SAMPLED = 4
"""Of so many items one is in a tour that is tried first. It saves less, as fewer are near."""


@kernel
def locality_order(indptr: Indices, ends: Ints) -> Ints:
    """Return the items block by block; each next item has the most edges into its block so far.

    Nearest neighbours share neighbours, the two ends of a random link do not: so links that lead
    far away do not decide the order, as they would in a breadth-first one. O(n + A).
    """
    n = indptr.shape[0] - 1
    order = np.empty(n, np.int32)
    placed = np.zeros(n, np.bool_)
    count = np.zeros(n, np.int32)
    counted = np.empty(n, np.int32)
    most_counted = 31  # edges into a block that are counted; more count as this many
    # A stack for every count, in linked lists; an entry is outdated if the count has grown since.
    first = np.empty(most_counted + 1, np.int64)
    who = np.empty(1024, np.int32)
    following = np.empty(1024, np.int64)
    done = 0
    lowest = 0
    seed = -1
    block = 4096  # items of a block that is grown from one item
    while done < n:
        if seed < 0:
            while placed[lowest]:
                lowest += 1
            seed = lowest
        for c in range(most_counted + 1):
            first[c] = -1
        entries, n_counted, size, most = 0, 0, 0, 0
        u = seed
        seed = -1
        while u >= 0:
            if size == block:  # the next block begins where this one would go on
                seed = u
                break
            placed[u] = True
            order[done] = u
            done += 1
            size += 1
            for a in range(indptr[u], indptr[u + 1]):
                v = ends[a]
                if placed[v]:
                    continue
                if count[v] == 0:
                    counted[n_counted] = v
                    n_counted += 1
                count[v] += 1
                c = min(count[v], most_counted)
                if entries == who.shape[0]:
                    more_who = np.empty(2 * entries, np.int32)
                    more_following = np.empty(2 * entries, np.int64)
                    for e in range(entries):
                        more_who[e] = who[e]
                        more_following[e] = following[e]
                    who, following = more_who, more_following
                who[entries] = v
                following[entries] = first[c]
                first[c] = entries
                entries += 1
                most = max(most, c)
            u = -1
            while most > 0 and u < 0:
                e = first[most]
                if e < 0:
                    most -= 1
                    continue
                first[most] = following[e]
                if not placed[who[e]] and min(count[who[e]], most_counted) == most:
                    u = who[e]
        for k in range(n_counted):
            count[counted[k]] = 0
    return order


@kernel
def renumber_rows(
    indptr: Indices, ends: Ints, order: Ints, new_indptr: Indices, new_ends: Ints
) -> None:
    """Renumber compressed rows: item ``order[k]`` becomes item k."""
    n = order.shape[0]
    rank = np.empty(n, np.int32)
    for k in range(n):
        rank[order[k]] = k
    at = 0
    new_indptr[0] = 0
    for k in range(n):
        u = order[k]
        for a in range(indptr[u], indptr[u + 1]):
            new_ends[at] = rank[ends[a]]
            at += 1
        new_indptr[k + 1] = at


@kernel
def copy_rows(indptr: Indices, values: AnyArray, order: Ints, new_values: AnyArray) -> None:
    """Copy the values of the arcs of compressed rows into the new order of the rows."""
    at = 0
    for u in order:
        for a in range(indptr[u], indptr[u + 1]):
            new_values[at] = values[a]
            at += 1


# -- a tour through all items ---------------------------------------------------------------------


def tour_order(matrix: AnyArray) -> Indices | None:
    """Return an order of the items in which the closure is faster, or None."""
    n = len(matrix)
    as_given = fraction_computed(matrix, np.arange(n))
    if n * as_given < TOUR_COST:
        return None
    some = np.ascontiguousarray(matrix[::SAMPLED, ::SAMPLED])  # a tour of few items costs little
    saved = fraction_computed(some, np.arange(len(some)))
    saved -= fraction_computed(some, nearest_neighbour_tour(some))
    if n * saved < TOUR_COST / 10:
        return None
    order: Indices = nearest_neighbour_tour(matrix)
    return order if n * (as_given - fraction_computed(matrix, order)) > TOUR_COST else None


def fraction_computed(matrix: AnyArray, order: Indices) -> float:
    """Estimate from a few tiles the fraction of the product that is not skipped in this order."""
    n, width = len(matrix), panel_width(matrix.dtype)
    left = np.linspace(0, n - STRIP, 8).astype(int)[:, None] + np.arange(STRIP)
    right = np.linspace(0, n - width, 2).astype(int)[:, None] + np.arange(width)
    chosen = order[np.concatenate([left.ravel(), right.ravel()])]
    rows = np.take(matrix[chosen], order, axis=1)
    lows = np.minimum.reduceat(rows, np.arange(0, n, CHUNK), axis=1)
    left_lows = lows[: left.size].reshape(*left.shape, -1).min(axis=1)
    right_lows = lows[left.size :].reshape(*right.shape, -1).min(axis=1)
    tiles = rows[: left.size, right.ravel()].reshape(*left.shape, *right.shape)
    highs = tiles.max(axis=(1, 3))
    return float(np.mean(left_lows[:, None] + right_lows[None] < highs[:, :, None]))


@kernel
def nearest_neighbour_tour(matrix: AnyArray) -> Indices:
    """Return the items in the order of a tour that goes to the nearest unvisited item each time."""
    n = matrix.shape[0]
    order = np.empty(n, np.int64)
    left = np.arange(n)
    current = 0
    for step in range(n):
        order[step] = left[current]
        row = matrix[left[current]]
        last = n - 1 - step
        left[current] = left[last]
        current, nearest = 0, np.inf
        for place in range(last):
            length = row[left[place]]
            if length < nearest:
                current, nearest = place, length
    return order


@kernel
def reorder(matrix: AnyArray, order: Indices, low: int, high: int, out: AnyArray) -> None:
    """Fill rows low .. high - 1 of out with the matrix in the given order of items."""
    for i in range(low, high):
        row = matrix[order[i]]
        target = out[i]
        for j in range(len(order)):
            target[j] = row[order[j]]
