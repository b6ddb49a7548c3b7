"""Breadth-first search from many nodes at once, one bit per node.

On an unweighted graph with successors N(v)::

    d(v, t) = 0 if v = t,  else  1 + min over u in N(v) of d(u, t),  inf if there is no path.

The set of targets t with d(v, t) = l is a row of bits, and one OR of such rows over N(v) answers
for 64 targets per machine word. Graphs are adjacency lists in the usual compressed form: the
successors of v are ``indices[indptr[v] : indptr[v + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "adjacency_lists",
    "breadth_first",
    "breadth_first_all_pairs",
    "clipped_path_lengths",
    "distances_from_sources",
    "distances_to_targets",
    "longest_path",
]

WORDS = 8
"""Words of 64 targets that are processed together: a cache line."""


def breadth_first_all_pairs(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], n_jobs: int | None = None
) -> Floats:
    """Return ``d[i, j]``, the number of edges from i to j, for all pairs; inf without a path.

    Costs at most (levels) x (edges) x n / 512 steps of eight words each, and less on dense graphs:
    a node stops looking at its neighbours as soon as every target is reached.

    >>> breadth_first_all_pairs(np.array([0, 1, 2, 2]), np.array([1, 2]))
    array([[ 0.,  1.,  2.],
           [inf,  0.,  1.],
           [inf, inf,  0.]])
    """
    indptr, indices = _as_lists(indptr, indices)
    n, block = len(indptr) - 1, 64 * WORDS
    # With few edges per node the graph may be chain-like: many levels that touch few nodes each,
    # where following a list of nodes beats sweeping over all of them.
    few_edges = 3
    if len(indices) <= few_edges * n:
        hops = breadth_first(indptr, indices, np.arange(n), n_jobs)
        return np.where(hops < 0, np.inf, hops)
    out = np.full((n, n), np.inf)
    in_threads(
        lambda first: distances_to_targets(indptr, indices, first, min(n, first + block), out),
        range(0, n, block),
        n_jobs,
    )
    return out


def breadth_first(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    sources: NDArray[np.integer],
    n_jobs: int | None = None,
) -> Ints:
    """Return ``d[k, j]``, the number of edges from ``sources[k]`` to j; -1 without a path.

    Costs O(n + edges) for one source, and little more for 64: they share a word.

    >>> breadth_first(np.array([0, 1, 2, 2]), np.array([1, 2]), np.array([1]))
    array([[-1,  0,  1]], dtype=int32)
    """
    indptr, indices = _as_lists(indptr, indices)
    starts = np.ascontiguousarray(sources, np.int64)
    out = np.full((len(starts), len(indptr) - 1), -1, dtype=np.int32)
    in_threads(
        lambda k: distances_from_sources(indptr, indices, starts[k : k + 64], out[k : k + 64]),
        range(0, len(starts), 64),
        n_jobs,
    )
    return out


def longest_path(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], n_jobs: int | None = None
) -> int:
    """Return the largest finite number of edges between any two nodes.

    Costs (levels) x (edges) x n / 512 steps of eight words, and memory for 512 nodes at a time.

    >>> longest_path(np.array([0, 1, 2, 2]), np.array([1, 2]))
    2
    """
    indptr, indices = _as_lists(indptr, indices)
    n, block = len(indptr) - 1, 64 * WORDS
    levels = in_threads(
        lambda first: levels_to_targets(indptr, indices, first, min(n, first + block)),
        range(0, n, block),
        n_jobs,
    )
    return max(levels, default=0)


def clipped_path_lengths(
    there: tuple[NDArray[np.integer], NDArray[np.integer]],
    back: tuple[NDArray[np.integer], NDArray[np.integer]],
    i: Indices,
    j: Indices,
    longest: int,
    n_jobs: int | None = None,
) -> Floats:
    """Return ``min(d(i[k], j[k]), longest)`` for pairs, from the surroundings of their two ends.

    `there` is the graph as (indptr, indices), `back` its reverse. With r = longest // 2, costs what
    lies within r edges of each different i once, and within longest - 1 - r of each j.

    >>> line = np.array([0, 1, 2, 3, 3]), np.array([1, 2, 3])
    >>> back = np.array([0, 0, 1, 2, 3]), np.array([0, 1, 2])
    >>> clipped_path_lengths(line, back, np.array([0, 0, 3]), np.array([1, 3, 0]), 4)
    array([1., 3., 4.])
    """
    there, back = _as_lists(*there), _as_lists(*back)
    order = np.argsort(i, kind="stable")
    first, second = (np.ascontiguousarray(end[order], np.int64) for end in (i, j))
    values = np.empty(len(first))
    step = max(1024, len(first) // 64 + 1)

    def fill(start: int) -> None:
        part = slice(start, start + step)
        hops_of_pairs(*there, *back, first[part], second[part], longest, values[part])

    in_threads(fill, range(0, len(first), step), n_jobs)
    unsorted = np.empty_like(values)
    unsorted[order] = values
    return unsorted


def _as_lists(indptr: NDArray[np.integer], indices: NDArray[np.integer]) -> tuple[Indices, Ints]:
    # One type each, so that every kernel is compiled once.
    return np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int32)


@kernel
def adjacency_lists(mask: NDArray[np.bool_]) -> tuple[Indices, Ints]:
    """Return (indptr, indices) of the graph with an edge i -> j wherever ``mask[i, j]``."""
    n = mask.shape[0]
    indptr = np.zeros(n + 1, np.int64)
    for i in range(n):
        count = 0
        for entry in mask[i]:
            count += entry
        indptr[i + 1] = indptr[i] + count
    # Every column is written and the place moves on only at an edge: no branch to mispredict. The
    # last write may fall one past the end.
    indices = np.empty(indptr[n] + 1, np.int32)
    for i in range(n):
        place = indptr[i]
        row = mask[i]
        for j in range(row.size):
            indices[place] = j
            place += row[j]
    return indptr, indices[: indptr[n]]


@kernel
def distances_to_targets(
    indptr: Indices,
    indices: Ints,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Write ``d(v, t)`` into ``out[v, t]`` for all v and the targets first <= t < last.

    Looking from v at its successors, and not from the front outwards, lets v stop early, and needs
    no transposed graph when edges are directed: the front of t holds the nodes that reach t.
    """
    n = indptr.size - 1
    one = np.uint64(1)
    ones = ~np.uint64(0)
    front = np.zeros((n, WORDS), np.uint64)
    fresh = np.zeros((n, WORDS), np.uint64)
    # Bits beyond the last target count as reached, so that "all ones" means "nothing left to do".
    unused = np.full(WORDS, ones)
    for t in range(last - first):
        unused[t // 64] ^= one << np.uint64(t % 64)
    reached = np.empty((n, WORDS), np.uint64)
    for v in range(n):
        for k in range(WORDS):
            reached[v, k] = unused[k]
    # The first level is the list of edges itself; on dense graphs it is most of the work.
    for v in range(n):
        known = reached[v]
        row = out[v, first:last]
        if first <= v < last:
            known[(v - first) // 64] |= one << np.uint64((v - first) % 64)
            row[v - first] = 0
        for e in range(indptr[v], indptr[v + 1]):
            t = indices[e] - first
            if 0 <= t < row.size and indices[e] != v:
                bit = one << np.uint64(t % 64)
                known[t // 64] |= bit
                front[v, t // 64] |= bit
                row[t] = 1
    union = np.empty(WORDS, np.uint64)
    level = 1
    alive = True
    while alive:
        level += 1
        alive = False
        for v in range(n):
            known = reached[v]
            all_of = ones
            for k in range(WORDS):
                union[k] = known[k]
                all_of &= known[k]
            if all_of == ones:
                fresh[v] = 0
                continue
            for e in range(indptr[v], indptr[v + 1]):
                successor = front[indices[e]]
                all_of = ones
                for k in range(WORDS):
                    union[k] |= successor[k]
                    all_of &= union[k]
                if all_of == ones:
                    break
            row = out[v, first:last]
            for k in range(WORDS):
                bits = union[k] & ~known[k]
                fresh[v, k] = bits
                if bits != 0:
                    alive = True
                    known[k] |= bits
                    part = row[64 * k : 64 * k + 64]
                    for b in range(part.size):  # branch-free, so that it is vectorised
                        part[b] = level if (bits >> np.uint64(b)) & one else part[b]
        front, fresh = fresh, front


@kernel
def levels_to_targets(indptr: Indices, indices: Ints, first: int, last: int) -> int:
    """Return the largest finite ``d(v, t)`` for all v and the targets first <= t < last."""
    n = indptr.size - 1
    ones = ~np.uint64(0)
    reached = np.zeros((n, WORDS), np.uint64)
    for t in range(last - first):
        reached[first + t, t // 64] |= np.uint64(1) << np.uint64(t % 64)
    front, fresh = reached.copy(), np.empty_like(reached)
    union = np.empty(WORDS, np.uint64)
    level = 0
    while True:
        alive = np.uint64(0)
        for v in range(n):
            known = reached[v]
            all_of = ones
            for k in range(WORDS):
                union[k] = 0
                all_of &= known[k]
            if all_of != ones:
                for e in range(indptr[v], indptr[v + 1]):
                    successor = front[indices[e]]
                    for k in range(WORDS):
                        union[k] |= successor[k]
            for k in range(WORDS):
                bits = union[k] & ~known[k]
                fresh[v, k] = bits
                known[k] |= bits
                alive |= bits
        if alive == 0:
            return level
        level += 1
        front, fresh = fresh, front


@kernel
def distances_from_sources(
    indptr: Indices,
    indices: Ints,
    sources: Indices,
    out: Ints,
) -> None:
    """Write ``d(sources[k], v)`` into ``out[k, v]`` for at most 64 sources.

    The front is a list of nodes, so that a level costs what it touches: single rows are asked for
    on large sparse graphs, where a sweep over all nodes per level would dominate.
    """
    n = indptr.size - 1
    one = np.uint64(1)
    reached = np.zeros(n, np.uint64)
    front = np.zeros(n, np.uint64)
    fresh = np.zeros(n, np.uint64)
    queue = np.empty(n, np.int64)
    following = np.empty(n, np.int64)
    size = 0
    for k in range(sources.size):
        v = sources[k]
        if front[v] == 0:
            queue[size] = v
            size += 1
        front[v] |= one << np.uint64(k)
        reached[v] = front[v]
        out[k, v] = 0
    level = 0
    while size > 0:
        level += 1
        touched = 0
        for q in range(size):
            u = queue[q]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                bits = front[u] & ~reached[v]
                if bits != 0:
                    if fresh[v] == 0:
                        following[touched] = v
                        touched += 1
                    fresh[v] |= bits
        for q in range(size):
            front[queue[q]] = 0
        for q in range(touched):
            v = following[q]
            bits = fresh[v]
            reached[v] |= bits
            for k in range(sources.size):
                if (bits >> np.uint64(k)) & one:
                    out[k, v] = level
        front, fresh = fresh, front
        queue, following = following, queue
        size = touched


@kernel
def hops_of_pairs(
    indptr: Indices,
    indices: Ints,
    indptr_back: Indices,
    indices_back: Ints,
    i: Indices,
    j: Indices,
    longest: int,
    out: Floats,
) -> None:
    """Write ``min(d(i[k], j[k]), longest)``; pairs with the same i are beside each other.

    The items around i are marked with their distance. The search from j then stops at the first
    level that has a marked item: had there been a shorter path, an earlier level would have met it.
    """
    n = indptr.size - 1
    radius = longest // 2
    distance = np.full(n, -1, np.int32)
    seen = np.full(n, -1, np.int64)
    around = np.empty(n, np.int64)
    ball = np.empty(n, np.int64)
    size = 0
    for k in range(i.size):
        if k == 0 or i[k] != i[k - 1]:
            for q in range(size):
                distance[around[q]] = -1
            around[0] = i[k]
            distance[i[k]] = 0
            size, start = 1, 0
            for level in range(1, radius + 1):
                stop = size
                for q in range(start, stop):
                    u = around[q]
                    for e in range(indptr[u], indptr[u + 1]):
                        v = indices[e]
                        if distance[v] < 0:
                            distance[v] = level
                            around[size] = v
                            size += 1
                start = stop
        ball[0] = j[k]
        seen[j[k]] = k
        best = longest
        if distance[j[k]] >= 0:
            best = min(longest, distance[j[k]])
        count, start, level = 1, 0, 0
        while best == longest and radius + level + 1 < longest and start < count:
            level += 1
            stop = count
            for q in range(start, stop):
                u = ball[q]
                for e in range(indptr_back[u], indptr_back[u + 1]):
                    v = indices_back[e]
                    if distance[v] >= 0:
                        best = min(best, distance[v] + level)
                    if seen[v] != k:
                        seen[v] = k
                        ball[count] = v
                        count += 1
            start = stop
        out[k] = best
