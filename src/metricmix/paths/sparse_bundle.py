r"""Shortest paths of many pairs over a sparse edge set: pair by pair, or by the roots they share.

Paths from a root are traced back along its distances: the item before v is a u with

.. math:: d(s, u) < d(s, v), \qquad d(s, u) + w_{uv} = d(s, v)

so that distances determine paths, but for edges of length 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import EdgeLengths, SparseLengths
from metricmix.paths.lanes import LANES
from metricmix.paths.sparse_pairs import arcs_of, find_sparse_paths, use_balls
from metricmix.paths.sparse_rows import blocks_in_near_order
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["SomePaths", "sparse_paths", "trace_to_roots", "traced_paths"]

PAIRS_AT_ONCE = 8
"""Pairs of one kernel call, and of the sample that decides how the others are searched."""
PER_ITEM = 10
"""Settling an item by a heap takes as long as ten of a search from many roots to all items."""


class SomePaths(NamedTuple):
    """Shortest paths of some of many pairs; see :class:`~metricmix.paths.PathBundle`.

    Attributes
    ----------
    pairs : (Q,) array
        Which pairs.
    lengths, indptr, nodes, settled
        Path q goes through ``nodes[indptr[q]:indptr[q + 1]]``.
    """

    pairs: Indices
    lengths: Floats
    indptr: Indices
    nodes: Ints
    settled: Ints


def sparse_paths(
    lengths: EdgeLengths, i: Indices, j: Indices, *, n_jobs: int | None = None
) -> tuple[Floats, Indices, Ints, Ints]:
    """Return the shortest paths of valid pairs: lengths, indptr, nodes, and items settled.

    A sample of the pairs is searched from both ends. If searching from all items at one end of the
    pairs, to all items, costs less than going on like that, it is done, and the paths are traced
    back along the distances. Which is decided by counting items, not by the clock.
    """
    everything = np.arange(len(i))
    sample = np.unique(np.linspace(0, len(i) - 1, PAIRS_AT_ONCE).astype(np.int64))
    if len(i) <= 4 * PAIRS_AT_ONCE:
        return joined(pair_by_pair(lengths, i, j, everything, n_jobs), len(i))
    parts = pair_by_pair(lengths, i, j, sample, n_jobs)
    rest = np.delete(everything, sample)
    settled = np.mean([part.settled.mean() for part in parts])
    starts, ends = len(np.unique(i)), len(np.unique(j))
    if min(starts, ends) * lengths.n < PER_ITEM * len(rest) * settled:
        found = by_roots(lengths, i, j, rest, from_ends=ends < starts, n_jobs=n_jobs)
        parts += found
        known = np.concatenate([part.pairs for part in parts])
        rest = np.delete(everything, known)
    return joined(parts + pair_by_pair(lengths, i, j, rest, n_jobs), len(i))


def pair_by_pair(
    lengths: EdgeLengths, i: Indices, j: Indices, chosen: Indices, n_jobs: int | None
) -> list[SomePaths]:
    """Return the paths of the chosen pairs, each by a search from both ends."""
    out = arcs_of(lengths, len(chosen))
    into = arcs_of(lengths, len(chosen), reverse=True) if lengths.directed else out

    def search(some: Indices) -> SomePaths:
        found, settled = np.empty(len(some)), np.empty(len(some), np.int32)
        indptr = np.empty(len(some) + 1, np.int64)
        with use_balls(lengths) as (ahead, back):
            nodes = find_sparse_paths(
                out, into, i[some], j[some], ahead, back, found, indptr, settled
            )
        return SomePaths(some, found, indptr, nodes, settled)

    shares = [chosen[k : k + PAIRS_AT_ONCE] for k in range(0, len(chosen), PAIRS_AT_ONCE)]
    return in_threads(search, shares, effective_threads(n_jobs))


def by_roots(
    lengths: EdgeLengths,
    i: Indices,
    j: Indices,
    chosen: Indices,
    *,
    from_ends: bool,
    n_jobs: int | None,
) -> list[SomePaths]:
    """Return the paths of the chosen pairs from the distances of all their starts (or ends).

    Without those that the distances do not determine, because of edges that are too short to
    change them.
    """
    near, arcs = lengths.near_order, lengths.arcs(reverse=not from_ends, near=True)
    root_side, other = (j, i) if from_ends else (i, j)
    roots, which = np.unique(root_side[chosen], return_inverse=True)
    order = np.argsort(which, kind="stable")
    begins = np.append(0, np.cumsum(np.bincount(which, minlength=len(roots))))
    parts = []
    for some, dist in blocks_in_near_order(lengths, roots, reverse=from_ends, n_jobs=n_jobs):
        mine = np.concatenate([order[begins[r] : begins[r + 1]] for r in some])
        lane = np.repeat(np.arange(len(some)), begins[some + 1] - begins[some])
        pairs = chosen[mine]
        found, indptr = np.empty(len(pairs)), np.empty(len(pairs) + 1, np.int64)
        nodes = trace_to_roots(
            arcs,
            np.ascontiguousarray(dist),
            lane,
            near.rank[root_side[pairs]],
            near.rank[other[pairs]],
            near.order,
            found,
            indptr,
        )
        if not from_ends:  # traced from the end
            counts = np.diff(indptr)
            last = np.repeat(indptr[1:] - 1 + indptr[:-1], counts)
            nodes = nodes[last - np.arange(len(nodes))]
        parts.append(determined(pairs, found, indptr, nodes, lengths.n))
    return parts


def determined(pairs: Indices, found: Floats, indptr: Indices, nodes: Ints, n: int) -> SomePaths:
    """Return the traced paths without those that the distances do not determine."""
    keep = found >= 0
    nodes = nodes[np.repeat(keep, np.diff(indptr))]
    indptr = np.append(0, np.cumsum(np.diff(indptr)[keep]))
    settled = np.full(int(keep.sum()), n, np.int32)
    return SomePaths(pairs[keep], found[keep], indptr, nodes, settled)


def traced_paths(
    lengths: EdgeLengths,
    i: Indices,
    lane: Indices,
    targets: Indices,
    distances: AnyArray,
    *,
    n_jobs: int | None = None,
) -> tuple[Floats, Indices, Ints, Ints]:
    """Return the shortest paths from items i to ``targets[lane]``, as :func:`sparse_paths` does.

    They are traced along `distances`, (n, T), from all items to the targets: no search, unless
    these do not determine a path.
    """
    arcs = lengths.arcs()
    numbers = np.arange(lengths.n, dtype=np.int32)
    parts = []
    for start in range(0, len(targets), LANES):
        pairs = np.flatnonzero((lane >= start) & (lane < start + LANES))
        some = np.ascontiguousarray(distances[:, start : start + LANES], arcs.lengths.dtype)
        found, indptr = np.empty(len(pairs)), np.empty(len(pairs) + 1, np.int64)
        roots, ends = targets[lane[pairs]].astype(np.int32), i[pairs].astype(np.int32)
        nodes = trace_to_roots(arcs, some, lane[pairs] - start, roots, ends, numbers, found, indptr)
        parts.append(determined(pairs, found, indptr, nodes, lengths.n))
    known = np.concatenate([part.pairs for part in parts])
    rest = np.delete(np.arange(len(i)), known)
    return joined(parts + pair_by_pair(lengths, i, targets[lane], rest, n_jobs), len(i))


def joined(parts: list[SomePaths], total: int) -> tuple[Floats, Indices, Ints, Ints]:
    """Return the paths of all pairs in their order."""
    lengths, counts = np.empty(total), np.zeros(total, np.int64)
    settled = np.zeros(total, np.int32)
    for part in parts:
        lengths[part.pairs], settled[part.pairs] = part.lengths, part.settled
        counts[part.pairs] = np.diff(part.indptr)
    indptr = np.append(0, np.cumsum(counts))
    nodes = np.empty(indptr[-1], np.int32)
    for part in parts:
        shift = np.repeat(indptr[part.pairs] - part.indptr[:-1], np.diff(part.indptr))
        nodes[shift + np.arange(len(part.nodes))] = part.nodes
    return lengths, indptr, nodes, settled


@kernel
def trace_to_roots(
    arcs: SparseLengths,
    dist: AnyArray,
    lane: Indices,
    roots: Ints,
    ends: Ints,
    order: Ints,
    lengths: Floats,
    indptr: Indices,
) -> Ints:
    """Trace every path p back from ``ends[p]`` to ``roots[p]`` along the distances of its lane.

    The item before v is one that is strictly nearer, at just the distance that the edge to v makes
    up for: the root if it is one of these, else the one with the lowest number ``order[u]``.
    ``nodes[indptr[p]:indptr[p + 1]]`` are the items met, by these numbers, and ``lengths[p]`` the
    sum of the edges: inf, and no items, without a path; -1, and no items, where there is no such
    item, as an edge is too short to change a distance.
    """
    nodes = np.empty(16 * ends.shape[0], np.int32)
    indptr[0] = 0
    for p in range(ends.shape[0]):
        at = indptr[p]
        v = ends[p]
        root = roots[p]
        total = 0.0
        if dist[v, lane[p]] == np.inf:
            lengths[p] = np.inf
            indptr[p + 1] = at
            continue
        while True:
            if at == nodes.shape[0]:
                larger = np.empty(2 * at, np.int32)
                for k in range(at):  # loops compile ten times faster than assignments to slices
                    larger[k] = nodes[k]
                nodes = larger
            nodes[at] = order[v]
            at += 1
            if v == root:
                break
            dv = dist[v, lane[p]]
            before = -1
            edge = 0.0
            for a in range(arcs.indptr[v], arcs.indptr[v + 1]):
                u = arcs.ends[a]
                du = dist[u, lane[p]]
                if not (du < dv and du + arcs.lengths[a] == dv):
                    continue
                if before < 0 or u == root or (before != root and order[u] < order[before]):
                    before = u
                    edge = arcs.lengths[a]
            if before < 0:
                at = indptr[p]
                total = -1.0
                break
            total += edge
            v = before
        lengths[p] = total
        indptr[p + 1] = at
    return nodes[: indptr[ends.shape[0]]]
