"""The k nearest different labels of all items over a sparse edge set, in one search."""

from __future__ import annotations

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import check_time
from metricmix.mixture.edge_lengths import EdgeLengths, SparseLengths
from metricmix.paths.sparse_rows import BLOCK, SLICE, raise_threshold, step_width
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["nearest_labels_over_edges", "put_label", "sweep_labels"]

WASTE = 4
"""Times that an item may be read per label, on average, before the threshold rises more slowly."""


def nearest_labels_over_edges(
    lengths: EdgeLengths, items: Indices, labels: Indices, k: int
) -> tuple[Floats, Indices]:
    """Return the k nearest labels of every item and their distances to it, (n, k) each.

    As :func:`metricmix.paths.neighbours.nearest_labels`, by the sweeps of
    :mod:`metricmix.paths.sparse_rows` with a list of k labels for every item.
    """
    arcs, edges = lengths.renumbered_into, lengths.edges
    assert arcs is not None
    assert edges is not None
    n, near = lengths.n, edges.near_order
    starts, dtype = near.rank[items], arcs.lengths.dtype
    dist, label = np.full((n, k), np.inf, dtype), np.full((n, k), -1, np.int32)
    key, block_key = np.full(n, np.inf, dtype), np.full(-(-n // BLOCK), np.inf, dtype)
    dist[starts, 0], label[starts, 0] = 0.0, labels
    key[starts], block_key[starts // BLOCK] = 0.0, 0.0
    step = step_width(arcs)
    state = np.array([0.0, step, step], dtype)
    read, allowed = 0, WASTE * k * n + SLICE
    while (count := sweep_labels(arcs, SLICE // k, dist, label, key, block_key, state)) > 0:
        check_time()
        read += count
        if read > allowed:  # lengths of very different sizes
            state[1:] /= 8
            allowed += n
    return dist[near.rank].astype(np.float64), label[near.rank].astype(np.int64)


@kernel
def put_label(v: int, reached: float, label: int, dist: AnyArray, labels: Ints) -> bool:
    """Put a label into the sorted list of item v; return whether the list improved.

    `reached` is below the last distance of the list.
    """
    slot = dist.shape[1] - 1
    for known in range(dist.shape[1]):
        if labels[v, known] == label:
            if dist[v, known] <= reached:
                return False
            slot = known  # a shorter path to a label that is in the list
            break
    while slot > 0 and dist[v, slot - 1] > reached:
        dist[v, slot] = dist[v, slot - 1]
        labels[v, slot] = labels[v, slot - 1]
        slot -= 1
    dist[v, slot] = reached
    labels[v, slot] = label
    return True


@kernel
def sweep_labels(
    arcs: SparseLengths,
    budget: int,
    dist: AnyArray,
    label: Ints,
    key: AnyArray,
    block_key: AnyArray,
    state: AnyArray,
) -> int:
    """Do what :func:`metricmix.paths.sparse_rows.sweep` does, with k labels for every item.

    The key of an open item is the smallest of its distances that have fallen since it was read.
    """
    indptr, ends, lengths = arcs.indptr, arcs.ends, arcs.lengths
    n, k = dist.shape
    inf = dist.dtype.type(np.inf)
    count = 0
    before = 0
    while True:
        top = state[0]
        for b in range(block_key.shape[0]):
            while block_key[b] < top:
                if count >= budget:
                    return count
                block_key[b] = inf
                rest = inf
                for u in range(b * BLOCK, min(b * BLOCK + BLOCK, n)):
                    low = key[u]
                    if low >= top:
                        rest = min(rest, low)
                        continue
                    key[u] = inf
                    count += 1
                    first = 0  # nearer labels have not changed
                    while dist[u, first] < low:
                        first += 1
                    for a in range(indptr[u], indptr[u + 1]):
                        v = ends[a]
                        for slot in range(first, k):
                            reached = dist[u, slot] + lengths[a]
                            if not reached < dist[v, k - 1]:
                                break
                            if put_label(v, reached, label[u, slot], dist, label):
                                key[v] = min(key[v], reached)
                                block_key[v // BLOCK] = min(block_key[v // BLOCK], reached)
                block_key[b] = min(block_key[b], rest)
        lowest = inf
        for b in range(block_key.shape[0]):
            lowest = min(lowest, block_key[b])
        if lowest == inf:
            return count
        if lowest >= top:
            raise_threshold(lowest, count - before, block_key.shape[0], state)
            before = count
