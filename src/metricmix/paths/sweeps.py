r"""Searches over a sparse edge set by sweeps: open items in buckets, read in order of number.

.. math:: d(s, v) = \min_u \; d(s, u) + w_{uv}

A heap hands out one item at a time, wherever it lies in memory. A sweep takes all open items
with :math:`d < \theta` instead, in the order of their numbers, until there are none left, and then
raises the threshold :math:`\theta` by about the length of an edge (delta-stepping): an item is read
1.0 to 1.2 times instead of once, but together with its neighbours, since items are renumbered
(:attr:`EdgeSet.near_order <metricmix.dissimilarity.EdgeSet>`). Blocks of items know the smallest
distance of their open items.

What is read and lowered at an item depends on the search: one distance; a vector of distances from
many roots, so that edges are read once for all of them; or the k nearest labels.

All of these find the least fixed point of :math:`d(v) = \min_u d(u) + w_{uv}` in the precision of
the lengths, the same to the last bit, as additions of lengths >= 0 are monotone when rounded. Over
lengths in single precision, distances are summed in single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step, kernel_template
from metricmix.kernels.deadline import check_time
from metricmix.kernels.heap import Ball, lift, read_arcs, search
from metricmix.mixture.edge_lengths import SparseLengths
from metricmix.typing import AnyArray, Indices, Ints

__all__ = [
    "lower_key",
    "open_keys",
    "open_roots",
    "put_label",
    "raise_threshold",
    "run_labels",
    "run_sweeps",
    "settle_by_heap",
    "step_width",
    "sweep",
    "sweep_blocks",
    "sweep_labels",
]

BLOCK = 256
"""Items whose smallest open distance is kept: they and their edges fit in the second cache."""
SLICE = 1 << 18
"""Items that a kernel call reads before the clock is looked at: a fraction of a second."""
WASTE = 4
"""Times that an item may be read, on average (and per label), before a heap takes over (or, for
labels, the threshold rises more slowly): lengths are of very different sizes."""


def step_width(arcs: SparseLengths) -> float:
    """Return by how much to raise the threshold at a time, from a sample of items.

    The median length of their edges; or, if that is less, four times the median of each item's
    shortest edge: where lengths are of very different sizes, paths avoid most edges. Without edges
    of length 0.
    """
    n = len(arcs.indptr) - 1
    items = np.unique(np.linspace(0, n - 1, 256).astype(np.int64))
    first, counts = arcs.indptr[items], arcs.indptr[items + 1] - arcs.indptr[items]
    first, counts = first[counts > 0], counts[counts > 0]
    if len(first) == 0:
        return 1.0
    begins = np.cumsum(counts) - counts
    sample = arcs.lengths[np.repeat(first - begins, counts) + np.arange(counts.sum())]
    positive = np.where(sample > 0, sample, np.inf)
    shortest = np.minimum.reduceat(positive, begins)
    if not np.isfinite(shortest).any():
        return 1.0
    typical = np.median(positive[np.isfinite(positive)])
    return float(min(typical, 4 * np.median(shortest[np.isfinite(shortest)])))


def open_roots(
    n: int, roots: Ints | Indices, step: float, dtype: Any
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the open items at the start of a search: see :func:`sweep_blocks`."""
    key, block_key = np.full(n, np.inf, dtype), np.full(-(-n // BLOCK), np.inf, dtype)
    key[roots], block_key[roots // BLOCK] = 0.0, 0.0
    return key, block_key, np.array([0.0, step, step], dtype)


def run_sweeps(
    arcs: SparseLengths, roots: Ints | Indices, step: float, pred: Ints | None = None
) -> AnyArray:
    """Return the (n,) distances from a set of roots; `pred`, if given, receives predecessors."""
    n, dtype = len(arcs.indptr) - 1, arcs.lengths.dtype
    pred = np.empty(0, np.int32) if pred is None else pred
    dist = np.full(n, np.inf, dtype)
    dist[roots] = 0.0
    queue = open_roots(n, roots, step, dtype)
    read = 0
    while (count := sweep(arcs, SLICE, dist, *queue, pred)) > 0:
        check_time()
        read += count
        if read > WASTE * n + SLICE:
            pred = pred if len(pred) else np.empty(n, np.int32)
            heap, order = np.empty((2, n), np.int32)
            ball = Ball(dist, heap, np.full(n, -1, np.int32), pred, order, np.zeros(2, np.int64))
            open_keys(queue[0], ball)
            while ball.counts[0] > 0:
                settle_by_heap(arcs, SLICE, ball)
                check_time()
            break
    return dist


def run_labels(
    arcs: SparseLengths, starts: Ints, labels: Indices, k: int, step: float
) -> tuple[AnyArray, Ints]:
    """Return the k nearest different labels of every item, and their distances, (n, k) each.

    Item ``starts[a]`` has the label ``labels[a]``.
    """
    n, dtype = len(arcs.indptr) - 1, arcs.lengths.dtype
    dist, label = np.full((n, k), np.inf, dtype), np.full((n, k), -1, np.int32)
    dist[starts, 0], label[starts, 0] = 0.0, labels
    queue = open_roots(n, starts, step, dtype)
    read, allowed = 0, WASTE * k * n + SLICE
    while (count := sweep_labels(arcs, SLICE // k, dist, label, *queue)) > 0:
        check_time()
        read += count
        if read > allowed:
            queue[2][1:] /= 8
            allowed += n
    return dist, label


# -- kernels: open items -------------------------------------------------------------------------


@kernel_template
def sweep_blocks(
    read: Any,
    arcs: SparseLengths,
    found: Any,
    budget: int,
    key: AnyArray,
    block_key: AnyArray,
    state: AnyArray,
) -> int:
    """Read about `budget` open items, or all that are left; return how many, 0 at the end.

    `key` (n,) holds the distances of open items, inf for all others, `block_key` lower bounds of
    the keys of every block, `state` the threshold, its present step and its first step.
    ``read(arcs, u, key of u, found, key, block_key)`` lowers what is `found` at the neighbours of
    u, and their keys.
    """
    n = key.shape[0]
    inf = key.dtype.type(np.inf)
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
                    read(arcs, u, low, found, key, block_key)
                block_key[b] = min(block_key[b], rest)
        lowest = inf
        for b in range(block_key.shape[0]):
            lowest = min(lowest, block_key[b])
        if lowest == inf:
            return count
        if lowest >= top:
            raise_threshold(lowest, count - before, block_key.shape[0], state)
            before = count


@kernel_step
def raise_threshold(lowest: float, count: int, blocks: int, state: AnyArray) -> None:
    """Raise the threshold above the lowest key; by larger steps while they find few items."""
    if 8 * count < blocks:
        state[1] *= 2
    elif count > blocks and state[1] > state[2]:
        state[1] /= 2
    state[0] = lowest + state[1]
    if not state[0] > lowest:  # a step below the last digit
        state[0] = np.nextafter(lowest, state.dtype.type(np.inf))


@kernel_step
def lower_key(v: int, reached: float, key: AnyArray, block_key: AnyArray) -> None:
    """Open item v, or lower its key."""
    if reached < key[v]:
        key[v] = reached
    if reached < block_key[v // BLOCK]:
        block_key[v // BLOCK] = reached


# -- kernels: one distance -----------------------------------------------------------------------


@kernel_step
def read_distance(
    arcs: SparseLengths, u: int, du: float, found: Any, key: AnyArray, block_key: AnyArray
) -> None:
    """Lower the distances of the neighbours of u; `found` holds distances and predecessors."""
    dist, pred = found
    track = pred.shape[0] > 0
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        v = arcs.ends[a]
        reached = du + arcs.lengths[a]
        if reached < dist[v]:
            dist[v] = reached
            if track:
                pred[v] = u
            lower_key(v, reached, key, block_key)


@kernel
def sweep(
    arcs: SparseLengths,
    budget: int,
    dist: AnyArray,
    key: AnyArray,
    block_key: AnyArray,
    state: AnyArray,
    pred: Ints,
) -> int:
    """Search with one distance per item; `pred` receives predecessors unless it is empty."""
    found = (dist, pred)
    return int(sweep_blocks(read_distance, arcs, found, budget, key, block_key, state))


@kernel
def open_keys(key: AnyArray, ball: Ball) -> None:
    """Put all items with a finite key into the heap of a ball that holds their distances."""
    for v in range(key.shape[0]):
        if key[v] < np.inf:
            ball.counts[0] = lift(v, ball.counts[0], ball.heap, ball.place, ball.dist)


@kernel
def settle_by_heap(arcs: SparseLengths, budget: int, ball: Ball) -> None:
    """Settle about `budget` more items of a ball, or all that are left, nearest first."""
    search(read_arcs, arcs, ball.counts[1] + budget, np.inf, ball)


# -- kernels: labels -----------------------------------------------------------------------------


@kernel_step
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


@kernel_step
def read_labels(
    arcs: SparseLengths, u: int, low: float, found: Any, key: AnyArray, block_key: AnyArray
) -> None:
    """Put the labels of u, from the distance `low` on, into the lists of its neighbours.

    Nearer labels have not changed since u was read.
    """
    dist, label = found
    k = dist.shape[1]
    first = 0
    while dist[u, first] < low:
        first += 1
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        v = arcs.ends[a]
        for slot in range(first, k):
            reached = dist[u, slot] + arcs.lengths[a]
            if not reached < dist[v, k - 1]:
                break
            if put_label(v, reached, label[u, slot], dist, label):
                lower_key(v, reached, key, block_key)


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
    """Search with the k nearest labels of every item and their distances, (n, k) each."""
    found = (dist, label)
    return int(sweep_blocks(read_labels, arcs, found, budget, key, block_key, state))
