r"""Distances from some items, the roots, to all others over a sparse edge set.

.. math:: d(s, v) = \min_u \; d(s, u) + w_{uv}

A heap hands out one item at a time, wherever it lies in memory. These searches take all open items
with :math:`d < \theta` instead, in the order of their numbers, until there are none left, and then
raise the threshold :math:`\theta` by about the length of an edge (delta-stepping): an item is read
1.0 to 1.2 times instead of once, but together with its neighbours, since items are renumbered
(:attr:`EdgeSet.near_order <metricmix.dissimilarity.EdgeSet>`). Many roots are searched from
together, a vector of distances per item: edges are read once for all of them. Where waves from the
roots arrive at very different times, that does not pay, and every root gets a search of its own.

All of these find the least fixed point of :math:`d(v) = \min_u d(u) + w_{uv}` in the precision of
the lengths, the same to the last bit, as additions of lengths >= 0 are monotone when rounded. Over
lengths in single precision, distances are summed in single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metricmix.kernels.blocks import BlockJob, Found, stream_blocks
from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import lift, take_first
from metricmix.kernels.threads import check_time, effective_threads
from metricmix.mixture.edge_lengths import EdgeLengths, SparseLengths
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "RootDistances",
    "RootTrees",
    "blocks_in_near_order",
    "distances_in_blocks",
    "open_all",
    "roots_of",
    "search_all",
    "settle_by_heap",
    "sweep",
    "sweep_lanes",
]

BLOCK = 256
"""Items whose smallest open distance is kept: they and their edges fit in the second cache."""
LANES = 32
"""Roots that are searched from together."""
FEW_ROOTS = 8
"""Fewer roots than this are searched from one by one."""
SLICE = 1 << 18
"""Items that a kernel call reads before the clock is looked at: a fraction of a second."""
WASTE = 4
"""Times that an item may be read, on average, before a heap takes over."""
PER_ARC, PER_ITEM, PER_TREE = 2e-9, 2e-8, 3
"""Seconds that a search takes for each edge that it reads, and for each item, of many roots
together; and how many times that is for a root alone."""
SAMPLE = 256
"""Items from whose edges the step of the threshold is estimated."""


def distances_in_blocks(
    lengths: EdgeLengths,
    roots: Indices,
    block: int = LANES,
    *,
    reverse: bool = False,
    n_jobs: int | None = None,
) -> Iterator[tuple[Indices, Floats]]:
    """Yield the distances from some roots at a time, so that they need not be held together.

    Parameters
    ----------
    lengths : EdgeLengths
        Over a sparse edge set.
    roots : (S,) array of int
    block : int
        Largest number of roots at a time.
    reverse : bool
        Whether distances run from the items to the roots.
    n_jobs : int, optional
        Threads, each with a block of its own. No result depends on it.

    Yields
    ------
    some : (B,) array
        Positions in `roots`. Every root is in one block, roots near each other in the same one.
    distances : (B, n) array
    """
    assert lengths.edges is not None
    rank = lengths.edges.near_order.rank
    found = blocks_in_near_order(lengths, roots, block, reverse=reverse, n_jobs=n_jobs)
    for some, dist in found:
        yield some, np.ascontiguousarray(dist[rank].T, np.float64)


def blocks_in_near_order(
    lengths: EdgeLengths,
    roots: Indices,
    block: int = LANES,
    *,
    reverse: bool = False,
    n_jobs: int | None = None,
) -> Iterator[tuple[Indices, AnyArray]]:
    """Yield what :func:`distances_in_blocks` does, (n, B) in the order of ``edges.near_order``."""
    assert lengths.edges is not None
    near = lengths.edges.near_order
    arcs = lengths.renumbered_into if reverse else lengths.renumbered
    assert arcs is not None
    starts = near.rank[roots]
    places = np.argsort(starts, kind="stable")
    threads = effective_threads(n_jobs) if lengths.n >= BLOCK else 1
    lanes = min(LANES, block, max(1, -(-len(roots) // threads)))
    job = RootDistances(arcs, starts[places], step_width(arcs), lanes)
    for start, stop, (dist,) in stream_blocks(job, n_jobs=threads):
        for first in range(start * lanes, min(stop * lanes, len(places)), lanes):
            some = places[first : first + lanes]
            yield some, dist[:, first - start * lanes : first - start * lanes + len(some)]


@dataclass(eq=False)
class RootDistances(BlockJob):
    """The distances from roots to all items, in near order; a unit is `lanes` roots.

    Attributes
    ----------
    arcs : SparseLengths
    roots : (S,) array
        Numbers of items in near order, increasing.
    step : float
        See :func:`step_width`.
    lanes : int
    together : bool
        Whether to search from the roots of a unit together; changed when that does not pay.
    """

    arcs: SparseLengths
    roots: Ints
    step: float
    lanes: int
    together: bool = True
    what = "distances from roots"

    @property
    def n_units(self) -> int:
        """Number of units."""
        return -(-len(self.roots) // self.lanes)

    @property
    def unit_seconds(self) -> float:
        """Time of a unit."""
        return self.lanes * (PER_ARC * len(self.arcs.ends) + PER_ITEM * len(self.arcs.indptr))

    @property
    def unit_bytes(self) -> float:
        """Size of the result of a unit."""
        return float(self.lanes * len(self.arcs.indptr) * self.arcs.lengths.dtype.itemsize)

    @property
    def work_bytes(self) -> float:
        """Memory of a block: open items, and distances before they are cut."""
        return self.unit_bytes + 4.0 * len(self.arcs.indptr) * self.arcs.lengths.dtype.itemsize

    def block(self, start: int, stop: int) -> Found:
        """Return the distances from some roots, (n, B)."""
        roots = self.roots[start * self.lanes : stop * self.lanes]
        parts = [
            self.search(roots[first : first + self.lanes])
            for first in range(0, len(roots), self.lanes)
        ]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1),)

    def search(self, roots: Ints) -> AnyArray:
        """Return the distances from the roots of a unit."""
        arcs, n = self.arcs, len(self.arcs.indptr) - 1
        if self.together and min(self.lanes, len(roots)) >= FEW_ROOTS:
            dist = np.full((n, -(-len(roots) // 8) * 8), np.inf, arcs.lengths.dtype)
            if run_lanes(arcs, roots, self.step, dist):
                return dist[:, : len(roots)]
            self.together = False  # a wave at a time is faster on these edges
        dist = np.empty((n, len(roots)), arcs.lengths.dtype)
        for lane, root in enumerate(roots):
            dist[:, lane] = run_sweeps(arcs, np.array([root]), self.step)
        return dist


def search_all(
    lengths: EdgeLengths, roots: Indices, *, reverse: bool = False
) -> tuple[Floats, Ints]:
    """Return the distances from the set of `roots` to all items, and the predecessors.

    -1 is the predecessor of roots, and of items that cannot be reached.
    """
    assert lengths.edges is not None
    near = lengths.edges.near_order
    arcs = lengths.renumbered_into if reverse else lengths.renumbered
    assert arcs is not None
    return tree_of(arcs, near.order, near.rank, near.rank[roots], step_width(arcs))


def tree_of(
    arcs: SparseLengths, order: Ints, rank: Ints, roots: Ints, step: float
) -> tuple[Floats, Ints]:
    """Return what :func:`search_all` does; the roots and the arcs are in near order."""
    pred = np.full(len(rank), -1, np.int32)
    dist = run_sweeps(arcs, roots, step, pred)
    before = pred[rank]
    given = np.where(before >= 0, order[before], np.int32(-1))
    return dist[rank].astype(np.float64), given


@dataclass(frozen=True, eq=False)
class RootTrees(BlockJob):
    """The shortest-path trees of roots; a unit is one root.

    Attributes
    ----------
    arcs : SparseLengths
        In near order.
    order, rank : (n,) arrays
        The near order.
    roots : (S,) array
        Numbers of items in near order.
    step : float
        See :func:`step_width`.
    """

    arcs: SparseLengths
    order: Ints
    rank: Ints
    roots: Ints
    step: float
    what = "shortest-path trees"

    @classmethod
    def of(cls, lengths: EdgeLengths, roots: Indices) -> RootTrees:
        """Return the job for some roots over a sparse edge set."""
        assert lengths.edges is not None
        assert lengths.renumbered is not None
        near, arcs = lengths.edges.near_order, lengths.renumbered
        return cls(arcs, near.order, near.rank, near.rank[roots], step_width(arcs))

    @property
    def n_units(self) -> int:
        """Number of roots."""
        return len(self.roots)

    @property
    def unit_seconds(self) -> float:
        """Time of a root."""
        return PER_TREE * (PER_ARC * len(self.arcs.ends) + PER_ITEM * len(self.rank))

    @property
    def unit_bytes(self) -> float:
        """Size of a tree."""
        return 12.0 * len(self.rank)

    @property
    def work_bytes(self) -> float:
        """Memory of a block: open items, in near order and in the given one."""
        return 48.0 * len(self.rank)

    def block(self, start: int, stop: int) -> Found:
        """Return distances and predecessors of some roots, (B, n)."""
        dist = np.empty((stop - start, len(self.rank)))
        pred = np.empty(dist.shape, np.int32)
        for s in range(start, stop):
            check_time()
            found = tree_of(self.arcs, self.order, self.rank, self.roots[s : s + 1], self.step)
            dist[s - start], pred[s - start] = found
        return dist, pred


def step_width(arcs: SparseLengths) -> float:
    """Return by how much to raise the threshold at a time, from a sample of items.

    The median length of their edges; or, if that is less, four times the median of each item's
    shortest edge: where lengths are of very different sizes, paths avoid most edges. Without edges
    of length 0.
    """
    n = len(arcs.indptr) - 1
    items = np.unique(np.linspace(0, n - 1, SAMPLE).astype(np.int64))
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


def run_sweeps(
    arcs: SparseLengths, roots: Ints | Indices, step: float, pred: Ints | None = None
) -> AnyArray:
    """Return the (n,) distances from a set of roots; `pred`, if given, receives predecessors."""
    n, dtype = len(arcs.indptr) - 1, arcs.lengths.dtype
    pred = np.empty(0, np.int32) if pred is None else pred
    dist, key = np.full((2, n), np.inf, dtype)
    block_key = np.full(-(-n // BLOCK), np.inf, dtype)
    dist[roots], key[roots], block_key[roots // BLOCK] = 0.0, 0.0, 0.0
    state = np.array([0.0, step, step], dtype)
    read = 0
    while (count := sweep(arcs, SLICE, dist, key, block_key, state, pred)) > 0:
        check_time()
        read += count
        if read > WASTE * n + SLICE:  # lengths of very different sizes
            heap, place = np.empty(n, np.int32), np.full(n, -1, np.int32)
            size = open_all(key, dist, heap, place)
            while size > 0:
                size = settle_by_heap(arcs, SLICE, size, heap, place, dist, pred)
                check_time()
            break
    return dist


def run_lanes(arcs: SparseLengths, roots: Ints, step: float, dist: AnyArray) -> bool:
    """Fill `dist` (n, L), inf at first, from L roots or fewer; False if that does not pay."""
    n, lanes = dist.shape
    key = np.full(n, np.inf, dist.dtype)
    block_key = np.full(-(-n // BLOCK), np.inf, dist.dtype)
    dist[roots, np.arange(len(roots))] = 0.0
    key[roots], block_key[roots // BLOCK] = 0.0, 0.0
    state = np.array([0.0, step, step], dist.dtype)
    sample = np.linspace(0, n - 1, 256).astype(np.int64)
    budget, read = min(SLICE, n // 4 + BLOCK), 0
    while (count := sweep_lanes(arcs, budget, dist, key, block_key, state)) > 0:
        check_time()
        read += count
        done = share_done(dist[sample, : len(roots)], state[0])
        if read > n and read > reads_worth(lanes) * n * done:
            return False
    return True


def share_done(dist: AnyArray, threshold: float) -> float:
    """Estimate the progress of a search: the mean of the final and the reached share."""
    final, known = (dist < threshold).mean(), np.isfinite(dist).mean()
    return float(final + known) / 2


def reads_worth(lanes: int) -> float:
    """Return how often an item may be read for all lanes together, in place of once for each.

    Reading an item for L lanes takes as long as (50 + L) / 27 times for one (measured).
    """
    return 27 * lanes / (50 + lanes)


# -- kernels -------------------------------------------------------------------------------------


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
    """Read about `budget` open items, or all that are left; return how many, 0 at the end.

    `key` (n,) holds the distances of open items, inf for all others, `block_key` lower bounds of
    the keys of every block, `state` the threshold, its present step and its first step. `pred`
    receives predecessors unless it is empty.
    """
    indptr, ends, lengths = arcs.indptr, arcs.ends, arcs.lengths
    n = dist.shape[0]
    inf = dist.dtype.type(np.inf)
    track = pred.shape[0] > 0
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
                    du = key[u]
                    if du >= top:
                        rest = min(rest, du)
                        continue
                    key[u] = inf
                    count += 1
                    for a in range(indptr[u], indptr[u + 1]):
                        v = ends[a]
                        reached = du + lengths[a]
                        if reached < dist[v]:
                            dist[v] = reached
                            key[v] = reached
                            if track:
                                pred[v] = u
                            c = v // BLOCK
                            if reached < block_key[c]:
                                block_key[c] = reached
                block_key[b] = min(block_key[b], rest)
        lowest = inf
        for b in range(block_key.shape[0]):
            lowest = min(lowest, block_key[b])
        if lowest == inf:
            return count
        if lowest >= top:
            raise_threshold(lowest, count - before, block_key.shape[0], state)
            before = count


@kernel
def raise_threshold(lowest: float, count: int, blocks: int, state: AnyArray) -> None:
    """Raise the threshold above the lowest key; by larger steps while they find few items."""
    if 8 * count < blocks:
        state[1] *= 2
    elif count > blocks and state[1] > state[2]:
        state[1] /= 2
    state[0] = lowest + state[1]
    if not state[0] > lowest:  # a step below the last digit
        state[0] = np.nextafter(lowest, state.dtype.type(np.inf))


@kernel
def sweep_lanes(
    arcs: SparseLengths,
    budget: int,
    dist: AnyArray,
    key: AnyArray,
    block_key: AnyArray,
    state: AnyArray,
) -> int:
    """Do what :func:`sweep` does for L roots together, with distances (n, L).

    The key of an open item is the smallest of its distances that have fallen since it was read.
    """
    indptr, ends, lengths = arcs.indptr, arcs.ends, arcs.lengths
    n, lanes = dist.shape
    inf = dist.dtype.type(np.inf)
    du = np.empty(lanes, dist.dtype)
    fallen = np.empty(lanes, dist.dtype)
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
                    if key[u] >= top:
                        rest = min(rest, key[u])
                        continue
                    key[u] = inf
                    count += 1
                    row = dist[u]
                    for lane in range(lanes):
                        du[lane] = row[lane]
                    for a in range(indptr[u], indptr[u + 1]):
                        v = ends[a]
                        w = lengths[a]
                        dv = dist[v]
                        improved = 0  # counted, not tested: such loops become vector code
                        for lane in range(lanes):
                            improved += 1 if du[lane] + w < dv[lane] else 0
                        if improved == 0:
                            continue
                        for lane in range(lanes):
                            reached = du[lane] + w
                            fallen[lane] = reached if reached < dv[lane] else inf
                            dv[lane] = reached if reached < dv[lane] else dv[lane]
                        low = fallen[0]
                        for lane in range(1, lanes):
                            if fallen[lane] < low:
                                low = fallen[lane]
                        if low < key[v]:
                            key[v] = low
                        if low < block_key[v // BLOCK]:
                            block_key[v // BLOCK] = low
                block_key[b] = min(block_key[b], rest)
        lowest = inf
        for b in range(block_key.shape[0]):
            lowest = min(lowest, block_key[b])
        if lowest == inf:
            return count
        if lowest >= top:
            raise_threshold(lowest, count - before, block_key.shape[0], state)
            before = count


@kernel
def open_all(key: AnyArray, dist: AnyArray, heap: Ints, place: Ints) -> int:
    """Put all items with a finite key into the heap; return its size."""
    size = 0
    for v in range(key.shape[0]):
        if key[v] < np.inf:
            size = lift(v, size, heap, place, dist)
    return size


@kernel
def settle_by_heap(
    arcs: SparseLengths,
    budget: int,
    size: int,
    heap: Ints,
    place: Ints,
    dist: AnyArray,
    pred: Ints,
) -> int:
    """Settle up to `budget` items of the heap, nearest first; return its size, 0 at the end."""
    indptr, ends, lengths = arcs.indptr, arcs.ends, arcs.lengths
    track = pred.shape[0] > 0
    for _ in range(budget):
        if size == 0:
            break
        u = take_first(size, heap, place, dist)
        size -= 1
        du = dist[u]
        for a in range(indptr[u], indptr[u + 1]):
            v = ends[a]
            reached = du + lengths[a]
            if reached < dist[v]:
                dist[v] = reached
                if track:
                    pred[v] = u
                size = lift(v, size, heap, place, dist)
    return size


@kernel
def roots_of(dist: Floats, pred: Ints, root: Ints) -> None:
    """Fill `root` with the root of every item's path; -1 where there is none."""
    n = pred.shape[0]
    for v in range(n):
        root[v] = v if pred[v] < 0 and dist[v] < np.inf else -1
    for v in range(n):
        top = v
        while root[top] < 0 and pred[top] >= 0:
            top = pred[top]
        found = root[top]
        u = v
        while root[u] < 0 and pred[u] >= 0:
            root[u] = found
            u = pred[u]
