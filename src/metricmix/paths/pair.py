r"""Shortest paths of given pairs, exactly, without forming the matrix of edge lengths.

.. math:: d_{ij} = \min_{\gamma : i \to j} \sum_{(u,v) \in \gamma} w_{uv}

over all paths of the complete graph, by Dijkstra's algorithm from both ends. Let :math:`\mu` be
the length of the best path found so far, at first the edge itself; let :math:`\rho_F, \rho_B` be
the distances of the nearest open items of the two sides, and :math:`\phi_v` a lower bound of the
edges at v. A better path has an edge (x, y) of which neither end is settled, so it is at least
:math:`\rho_F + \phi + \rho_B` long: the search ends as soon as that reaches :math:`\mu`. Likewise
an item v reached from one side at distance x is worth opening only if
:math:`x + \min(d_{\text{other}}(v), \phi_v + \rho_{\text{other}}) < \mu`.

A row of the sources is mixed only when its item is settled: usually little more than the two ends,
so that a pair costs O(R n), not O(R n²).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, mix_row, tangent_of
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, EdgeLengths, edge_lengths, link_in_place
from metricmix.paths.dijkstra import CHUNK, open_item, pop_nearest, reset
from metricmix.paths.sparse_bundle import sparse_paths
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_index, check_indices

__all__ = ["Path", "PathBundle", "shortest_path", "shortest_paths"]

ENTRIES_AT_ONCE = 1 << 21
"""Pairs times items of one kernel call: a fraction of a second."""
PAIRS_PER_THREAD = 8
"""Fewer pairs than this do not justify another thread."""
PAIRS_PER_PASS = 32
"""Fewer pairs than this are not worth a pass over all rows of a stack."""
KEPT_UP_TO = 1 << 26
"""Entries of computed rows that are cached during a call: half a gigabyte."""


@dataclass(frozen=True)
class Path:
    """A shortest path: its length, and the items it goes through, both ends included.

    Where there is no path, its length is inf and it has no items.
    """

    length: float
    nodes: tuple[int, ...]

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The edges in order."""
        return list(zip(self.nodes[:-1], self.nodes[1:], strict=True))


@dataclass(frozen=True)
class PathBundle:
    """Shortest paths of many pairs.

    Attributes
    ----------
    lengths : (P,) array
    indptr, nodes : (P + 1,) and (total,) arrays
        Path p goes through ``nodes[indptr[p]:indptr[p + 1]]``: no items where there is no path, and
        its length is inf.
    rows_touched : (P,) array
        How many rows of the sources each search mixed; over a sparse edge set, how many items it
        settled.
    """

    lengths: Floats
    indptr: Indices
    nodes: Ints
    rows_touched: Ints

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, p: int) -> Path:
        nodes = self.nodes[self.indptr[p] : self.indptr[p + 1]]
        return Path(float(self.lengths[p]), tuple(int(v) for v in nodes))

    def __iter__(self) -> Iterator[Path]:
        return (self[p] for p in range(len(self)))

    def edges(self) -> tuple[Indices, Indices, Indices]:
        """Return all edges as arrays (path number, from, to)."""
        counts = np.diff(self.indptr)
        path = np.repeat(np.arange(len(self)), np.maximum(counts - 1, 0))
        starts = np.ones(len(self.nodes), dtype=bool)
        starts[self.indptr[1:][counts > 0] - 1] = False  # the last item of a path starts no edge
        tails = np.flatnonzero(starts)
        return path, self.nodes[tails].astype(np.int64), self.nodes[tails + 1].astype(np.int64)

    def without_infinite(self) -> PathBundle:
        """Return the same paths, where those of infinite length have no items."""
        infinite = np.isinf(self.lengths)
        if not infinite.any():
            return self
        counts = np.diff(self.indptr)
        nodes = self.nodes[np.repeat(~infinite, counts)]
        indptr = np.append(0, np.cumsum(np.where(infinite, 0, counts)))
        return PathBundle(self.lengths, indptr, nodes, self.rows_touched)


def shortest_path(
    stack: Any, mixture: Any = None, i: Any = None, j: Any = None, *, directed: bool = False
) -> Path:
    """Return the shortest path from item `i` to item `j`.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths, inf where there is no edge (then `mixture` is
        None).
    mixture : Mixture or array of R weights
    i, j : int
    directed : bool
        For a matrix of lengths only; a stack knows.

    Returns
    -------
    Path
        With `length` and `nodes`. Ties are broken the same way every time; an edge that is as short
        as any detour is taken itself. Without a path from `i` to `j`, the length is inf and there
        are no nodes.

    Examples
    --------
    >>> import metricmix as mm
    >>> lengths = [[0, 1, 5], [1, 0, 2], [5, 2, 0]]
    >>> mm.shortest_path(lengths, None, 0, 2)
    Path(length=3.0, nodes=(0, 1, 2))
    """
    lengths = edge_lengths(stack, mixture, directed=directed)
    if i is None or j is None:
        raise InputError(
            "i, j: expected two item numbers, as in shortest_path(stack, mixture, 0, 1)"
        )
    start, end = check_index(i, lengths.n, name="i"), check_index(j, lengths.n, name="j")
    found = bundle_paths(lengths, np.array([start]), np.array([end]), n_jobs=1)
    return found.without_infinite()[0]


def shortest_paths(
    stack: Any,
    mixture: Any,
    i: ArrayLike,
    j: ArrayLike,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
) -> PathBundle:
    """Return the shortest paths of many pairs ``(i[p], j[p])``.

    Parameters as in :func:`shortest_path`, with arrays of item numbers. Pairs are shared out over
    `n_jobs` threads where the sources are in memory.
    """
    lengths = edge_lengths(stack, mixture, directed=directed)
    first = check_indices(i, lengths.n, name="i")
    second = check_indices(j, lengths.n, name="j")
    if len(first) != len(second):
        raise InputError(f"i, j: expected as many of each, got {len(first)} and {len(second)}")
    return bundle_paths(lengths, first, second, n_jobs=n_jobs).without_infinite()


def bundle_paths(
    lengths: EdgeLengths,
    i: Indices,
    j: Indices,
    *,
    bounded: bool | None = None,
    n_jobs: int | None = None,
) -> PathBundle:
    """Return the shortest paths of valid pairs.

    `bounded` says whether to prune by the ranges of the stack's rows, which take one pass over all
    entries: by default for many pairs only. It may change which of several equally short paths is
    found, so it must not depend on earlier calls.
    """
    if lengths.edges is not None:
        return PathBundle(*sparse_paths(lengths, i, j, n_jobs=n_jobs))
    dense = lengths.dense
    if lengths.is_metric:  # every shortest path is the edge
        ends = np.stack([i, j], axis=1).astype(np.int32)
        moves = np.stack([np.ones(len(i), bool), i != j], axis=1)
        ends_at = np.concatenate([np.zeros(1, np.int64), np.cumsum(moves.sum(axis=1))])
        none = np.zeros(len(i), np.int32)
        return PathBundle(lengths.pairs(i, j), ends_at, ends[moves], none)
    if dense is None:
        return search_computed(lengths, i, j)
    threads = max(1, min(effective_threads(n_jobs), len(i) // PAIRS_PER_THREAD))
    slices = -(-len(i) * lengths.n // ENTRIES_AT_ONCE)
    shares = np.array_split(np.arange(len(i)), max(threads, min(len(i), slices)))
    bounded = len(i) >= PAIRS_PER_PASS if bounded is None else bounded
    floors = lengths.floors() if bounded else np.zeros((2, lengths.n))

    def search(share: Indices) -> PathBundle:
        found, touched = np.empty(len(share)), np.empty(len(share), np.int32)
        indptr = np.empty(len(share) + 1, np.int64)
        state = BidirectionalState.empty(lengths.n)
        nodes = find_paths(
            dense, lengths.directed, floors, i[share], j[share], state, found, indptr, touched
        )
        return PathBundle(found, indptr, nodes, touched)

    parts = in_threads(search, shares, threads)
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [len(part.nodes) for part in parts[:-1]])
    indptr = [part.indptr[1:] + offset for part, offset in zip(parts, offsets, strict=True)]
    return PathBundle(
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.rows_touched for part in parts]),
    )


class BidirectionalState(NamedTuple):
    """The arrays of a search from both ends: row 0 from the start, row 1 from the end.

    Attributes
    ----------
    dist, key, chunk_min, pred : arrays with two rows
        As in :class:`~metricmix.paths.dijkstra.SearchState`.
    best : (2,) array
        Length of the best path so far, and the item where its halves meet (-1: it is the edge).
    path : (n + 1,) array
        Items of the path found.
    """

    dist: Floats
    key: Floats
    chunk_min: Floats
    pred: Ints
    best: Floats
    path: Ints

    @classmethod
    def empty(cls, n: int) -> BidirectionalState:
        """Return uninitialised arrays for n items."""
        return cls(
            np.empty((2, n)),
            np.empty((2, n)),
            np.empty((2, -(-n // CHUNK))),
            np.empty((2, n), np.int32),
            np.empty(2),
            np.empty(n + 1, np.int32),
        )


def search_computed(lengths: EdgeLengths, i: Indices, j: Indices) -> PathBundle:
    """Return the shortest paths of pairs over computed sources, requesting each row once."""
    state = BidirectionalState.empty(lengths.n)
    floors = lengths.floors()
    cache: dict[tuple[int, bool], Floats] = {}
    direct, edges = direct_edges(lengths, i, j, cache)

    def row(u: int, reverse: bool) -> Floats:
        if (u, reverse) not in cache:
            if len(cache) * lengths.n > KEPT_UP_TO:
                cache.pop(next(iter(cache)))  # the oldest
            cache[u, reverse] = lengths.mixed_rows(np.array([u]), reverse=reverse)[0]
        return cache[u, reverse]

    found, paths, touched = [], [], []
    for p, (start, end) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        rows = 0
        if start == end:
            found.append(0.0)
            paths.append(np.array([start], np.int32))
        elif direct[p]:
            found.append(float(edges[p]))
            paths.append(np.array([start, end], np.int32))
            rows = 2
        else:
            start_pair(start, end, float(edges[p]), state)
            while True:
                side, u = next_item(floors, state)
                if side < 0:
                    break
                m = row(u, lengths.directed and side == 1)
                expand(side, u, m, lengths.beta, lengths.link, floors, state)
                rows += 1
            found.append(float(state.best[0]))
            count = trace_path(start, end, state)
            paths.append(state.path[:count].copy())
        touched.append(rows)
    indptr = np.cumsum([0] + [len(path) for path in paths])
    nodes = np.concatenate(paths) if paths else np.empty(0, np.int32)
    return PathBundle(np.array(found), indptr, nodes, np.array(touched, np.int32))


def direct_edges(
    lengths: EdgeLengths,
    i: Indices,
    j: Indices,
    cache: dict[tuple[int, bool], Floats],
) -> tuple[NDArray[np.bool_], Floats]:
    """Return which edges (i, j) are certainly shortest paths, and the lengths of all of them.

    An edge no longer than the shortest edge at i and the shortest at j together is one: any other
    path leaves i and enters j by some edge. The rows of all ends are requested together, and cached
    for the search if they are not too many.
    """
    if len(i) < PAIRS_PER_PASS or lengths.directed:
        return np.zeros(len(i), dtype=bool), lengths.pairs(i, j)
    ends, place = np.unique(np.concatenate([i, j]), return_inverse=True)
    first, second = np.split(place, 2)
    shortest = np.empty(len(ends))
    edges = np.empty(len(i))
    for start in range(0, len(ends), ROWS_AT_ONCE):
        some = ends[start : start + ROWS_AT_ONCE]
        m = lengths.mixed_rows(some)
        if len(ends) * lengths.n <= KEPT_UP_TO:
            cache.update(((int(u), False), row) for u, row in zip(some, m, strict=True))
            m = m.copy()
        here = np.flatnonzero((first >= start) & (first < start + len(some)))
        link_in_place(m, lengths.beta, lengths.link)
        edges[here] = m[first[here] - start, j[here]]
        m[np.arange(len(some)), some] = np.inf
        shortest[start : start + len(some)] = m.min(axis=1)
    edges[i == j] = 0.0
    return edges <= shortest[first] + shortest[second], edges


# -- kernels -------------------------------------------------------------------------------------


@kernel
def start_pair(i: int, j: int, edge: float, state: BidirectionalState) -> None:
    """Open i on side 0 and j on side 1; the best path so far is their edge."""
    dist, key, chunk_min, pred = state.dist, state.key, state.chunk_min, state.pred
    for side in range(2):
        reset(dist[side], key[side], chunk_min[side], pred[side])
    open_item(i, 0.0, dist[0], key[0], chunk_min[0])
    open_item(j, 0.0, dist[1], key[1], chunk_min[1])
    state.best[0] = edge
    state.best[1] = -1.0


@kernel
def radius_of(chunk_min: Floats) -> float:
    """Return the distance of the nearest open item of one side."""
    smallest = np.inf
    for c in range(chunk_min.shape[0]):
        smallest = min(smallest, chunk_min[c])
    return smallest


@kernel
def next_item(floors: Floats, state: BidirectionalState) -> tuple[int, int]:
    """Close the nearest open item on a possibly shorter path; return (side, item), or (-1, -1)."""
    key, chunk_min = state.key, state.chunk_min
    while True:
        forward, backward = radius_of(chunk_min[0]), radius_of(chunk_min[1])
        if forward + backward >= state.best[0]:
            return -1, -1
        side = 0 if forward <= backward else 1
        u = pop_nearest(key[side], chunk_min[side])
        if forward + floors[side, u] + backward < state.best[0]:
            return side, u


@kernel
def expand(
    side: int,
    u: int,
    m: Floats,
    beta: float,
    link: int,
    floors: Floats,
    state: BidirectionalState,
) -> None:
    """Relax the edges of u, just settled on `side`; m is its row (side 0) or column (side 1)."""
    dist, key, chunk_min, best = state.dist, state.key, state.chunk_min, state.best
    n = dist.shape[1]
    mine, other = dist[side], dist[1 - side]
    du = mine[u]
    radius = radius_of(chunk_min[1 - side])
    shift, slope = tangent_of(beta, link)
    for c in range(chunk_min.shape[1]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        part, bound, beyond = m[low:high], mine[low:high], other[low:high]
        floor = floors[side, low:high]
        limit = best[0]
        promising = 0
        for k in range(high - low):
            reached = du + floor_of(part[k], shift, slope)
            rest = radius + floor[k]
            rest = beyond[k] if beyond[k] < rest else rest
            promising += 1 if (reached < bound[k]) & (reached + rest < limit) else 0
        if promising == 0:
            continue
        for v in range(low, high):
            if v == u:
                continue
            reached = du + floor_of(m[v], shift, slope)
            rest = min(other[v], radius + floors[side, v])
            if reached >= mine[v] or reached + rest >= best[0]:
                continue
            reached = du + length_of(m[v], beta, link)
            if reached < mine[v] and reached + rest < best[0]:
                state.pred[side, v] = u
                open_item(v, reached, mine, key[side], chunk_min[side])
                if reached + other[v] < best[0]:
                    best[0] = reached + other[v]
                    best[1] = v


@kernel
def trace_path(i: int, j: int, state: BidirectionalState) -> int:
    """Write the items on the path from i to j into `state.path`; return how many."""
    pred, best, path = state.pred, state.best, state.path
    if best[1] < 0:
        path[0] = i
        path[1] = j
        return 2
    meet = int(best[1])
    count = 1
    v = meet
    while v != i:
        v = pred[0, v]
        count += 1
    at = count
    v = meet
    while True:  # the first half was counted; now it is written from its end
        at -= 1
        path[at] = v
        if v == i:
            break
        v = pred[0, v]
    v = meet
    while v != j:
        v = pred[1, v]
        path[count] = v
        count += 1
    return count


@kernel
def find_paths(
    sources: DenseLengths,
    directed: bool,
    floors: Floats,
    i: Indices,
    j: Indices,
    state: BidirectionalState,
    lengths: Floats,
    indptr: Indices,
    touched: Ints,
) -> Ints:
    """Find the shortest path of every pair (i[p], j[p]); return all their items in one array.

    Path p is ``nodes[indptr[p]:indptr[p + 1]]``, of length ``lengths[p]``; `touched` counts the
    rows mixed for it.
    """
    block, weights, beta, link = sources.block, sources.weights, sources.beta, sources.link
    path = state.path
    m = np.empty(path.shape[0] - 1)
    nodes = np.empty(4 * i.shape[0] + path.shape[0], np.int32)
    indptr[0] = 0
    for p in range(i.shape[0]):
        touched[p] = 0
        if i[p] == j[p]:
            path[0] = i[p]
            lengths[p] = 0.0
            count = 1
        else:
            edge = 0.0
            for r in range(block.shape[0]):
                edge += weights[r] * block[r, i[p], j[p]]
            edge = length_of(edge, beta, link)
            start_pair(i[p], j[p], edge, state)
            while True:
                side, u = next_item(floors, state)
                if side < 0:
                    break
                mix_row(block, weights, u, directed and side == 1, m)
                expand(side, u, m, beta, link, floors, state)
                touched[p] += 1
            lengths[p] = state.best[0]
            count = trace_path(i[p], j[p], state)
        start = indptr[p]
        if start + count > nodes.shape[0]:
            larger = np.empty(2 * nodes.shape[0] + count, np.int32)
            for at in range(start):  # loops compile ten times faster than assignments to slices
                larger[at] = nodes[at]
            nodes = larger
        for at in range(count):
            nodes[start + at] = path[at]
        indptr[p + 1] = start + count
    return nodes[: indptr[i.shape[0]]]
