r"""Distances from some items, the roots, to all others over a sparse edge set.

.. math:: d(s, v) = \min_u \; d(s, u) + w_{uv}

Searches are sweeps (:mod:`metricmix.paths.sweeps`) over items renumbered so that neighbours lie
together. Many roots are searched from together, a vector of distances per item: edges are read once
for all of them. Where waves from the roots arrive at very different times, that does not pay, and
every root gets a search of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metricmix.kernels.blocks import BlockJob, Cost, Found, stream_blocks
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import effective_threads, in_threads, row_ranges
from metricmix.mixture.edge_lengths import EdgeLengths, SparseLengths
from metricmix.paths.lanes import LANES, VECTOR, lanes_per_unit, run_lanes
from metricmix.paths.sweeps import BLOCK, run_labels, run_sweeps, step_width
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "RootDistances",
    "RootTrees",
    "blocks_in_near_order",
    "distances_in_blocks",
    "nearest_labels_over_edges",
    "put_rows",
    "roots_of",
    "search_all",
]

FEW_ROOTS = 8
"""Fewer roots than this are searched from one by one."""
PER_ARC, PER_ITEM, PER_TREE = 2e-9, 2e-8, 3
"""Seconds that a search takes for each edge that it reads, and for each item, of many roots
together; and how many times that is for a root alone."""


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
    found = blocks_in_near_order(lengths, roots, block, reverse=reverse, n_jobs=n_jobs)
    for some, dist in found:
        rows = np.empty((len(some), lengths.n))
        put_rows(dist, lengths, np.arange(len(some)), rows, n_jobs)
        yield some, rows


def put_rows(
    dist: AnyArray, lengths: EdgeLengths, places: Indices, out: AnyArray, n_jobs: int | None
) -> None:
    """Put distances (n, B), in near order, into the rows `places` of `out`, as items are given."""
    rank = lengths.near_order.rank

    def put(part: slice) -> None:
        out[places, part] = dist[rank[part]].T

    in_threads(put, [slice(*ends) for ends in row_ranges(lengths.n, 1, 32)], n_jobs)


def blocks_in_near_order(
    lengths: EdgeLengths,
    roots: Indices,
    block: int = LANES,
    *,
    reverse: bool = False,
    n_jobs: int | None = None,
) -> Iterator[tuple[Indices, AnyArray]]:
    """Yield what :func:`distances_in_blocks` does, (n, B) in the order of ``edges.near_order``."""
    near, arcs = lengths.near_order, lengths.arcs(reverse=reverse, near=True)
    starts = near.rank[roots]
    places = np.argsort(starts, kind="stable")
    threads = effective_threads(n_jobs) if lengths.n >= BLOCK else 1
    lanes = lanes_per_unit(len(roots), block, threads)
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
    def cost(self) -> Cost:
        """Units of `lanes` roots; memory for open items, and for distances before they are cut."""
        n, itemsize = len(self.arcs.indptr), self.arcs.lengths.dtype.itemsize
        seconds = self.lanes * (PER_ARC * len(self.arcs.ends) + PER_ITEM * n)
        result = float(self.lanes * n * itemsize)
        units = -(-len(self.roots) // self.lanes)
        return Cost(units, seconds, result, work_bytes=result + 4.0 * n * itemsize)

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
            dist = np.full((n, -(-len(roots) // VECTOR) * VECTOR), np.inf, arcs.lengths.dtype)
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
    near, arcs = lengths.near_order, lengths.arcs(reverse=reverse, near=True)
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


def nearest_labels_over_edges(
    lengths: EdgeLengths, items: Indices, labels: Indices, k: int
) -> tuple[Floats, Indices]:
    """Return what :func:`~metricmix.paths.neighbours.nearest_labels` does, over sparse edges."""
    near, arcs = lengths.near_order, lengths.arcs(reverse=True, near=True)
    dist, label = run_labels(arcs, near.rank[items], labels, k, step_width(arcs))
    return dist[near.rank].astype(np.float64), label[near.rank].astype(np.int64)


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
        near, arcs = lengths.near_order, lengths.arcs(near=True)
        return cls(arcs, near.order, near.rank, near.rank[roots], step_width(arcs))

    @property
    def cost(self) -> Cost:
        """Units are roots; memory for open items, in near order and in the given one."""
        n, arcs = len(self.rank), len(self.arcs.ends)
        seconds = PER_TREE * (PER_ARC * arcs + PER_ITEM * n)
        return Cost(len(self.roots), seconds, 12.0 * n, work_bytes=48.0 * n)

    def block(self, start: int, stop: int) -> Found:
        """Return distances and predecessors of some roots, (B, n)."""
        dist = np.empty((stop - start, len(self.rank)))
        pred = np.empty(dist.shape, np.int32)
        for s in range(start, stop):
            check_time()
            found = tree_of(self.arcs, self.order, self.rank, self.roots[s : s + 1], self.step)
            dist[s - start], pred[s - start] = found
        return dist, pred


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
