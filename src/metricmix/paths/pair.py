r"""Shortest paths of given pairs, exactly, without forming the matrix of edge lengths.

.. math:: d_{ij} = \min_{\gamma : i \to j} \sum_{(u,v) \in \gamma} w_{uv}

over all paths: on a complete graph by a search from both ends
(:mod:`metricmix.paths.bidirectional`), on a sparse one see :mod:`metricmix.paths.sparse_bundle`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.mixing import link_in_place
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, EdgeLengths, edge_lengths
from metricmix.paths.bidirectional import (
    BidirectionalState,
    expand,
    find_paths,
    next_item,
    start_pair,
    trace_path,
)
from metricmix.paths.sparse_bundle import sparse_paths
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_index, check_indices

__all__ = ["Path", "PathBundle", "shortest_path", "shortest_paths", "trace_edges"]

PAIRS_PER_PASS = 32
"""Fewer pairs than this are not worth a pass over all rows of a stack."""
KEPT_UP_TO = 1 << 26
"""Entries of computed rows that are cached during a call: half a gigabyte."""


@dataclass(frozen=True)
class Path:
    """A shortest path: its length, and the items it goes through, both ends included.

    Items are numbers; ids on the paths of a :class:`~metricmix.Metric`. Where there is no path, its
    length is inf and it has no items.
    """

    length: float
    nodes: tuple[Any, ...]

    @property
    def edges(self) -> list[tuple[Any, Any]]:
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
    pairs_per_thread = 8  # fewer pairs than this do not justify another thread
    threads = max(1, min(effective_threads(n_jobs), len(i) // pairs_per_thread))
    entries_at_once = 1 << 21  # pairs times items of one kernel call: a fraction of a second
    slices = -(-len(i) * lengths.n // entries_at_once)
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


def trace_edges(
    w: AnyArray,
    d: AnyArray,
    roots: Indices,
    tree: Indices,
    end: Indices,
) -> tuple[Indices, Indices, Indices] | None:
    """Return the edges of the shortest paths from ``roots[tree[p]]`` to ``end[p]``.

    Parameters
    ----------
    w : (n, n) array
        Lengths into the items, ``w[v, u]`` that of the edge from u to v.
    d : (S, n) array
        Distances from the roots.

    Returns
    -------
    number, u, v : arrays
        Path p has the edges (u, v) with number p. None where edges of length 0 leave it undefined.
    """
    found: list[tuple[Any, Any, Any]] = []
    number, v = np.arange(len(end)), end.copy()
    keep = v != roots[tree]
    number, v = number[keep], v[keep]
    while len(v):
        root = roots[tree[number]]
        direct = w[v, root] <= d[tree[number], v]
        found.append((number[direct], root[direct], v[direct]))
        number, v = number[~direct], v[~direct]
        u = np.empty_like(v)
        for start in range(0, len(v), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            lengths = d[tree[number[some]]] + w[v[some]]
            lengths[np.arange(len(lengths)), v[some]] = np.inf
            u[some] = lengths.argmin(axis=1)
        if (d[tree[number], u] >= d[tree[number], v]).any():
            return None
        found.append((number, u, v))
        v = u
    parts = [np.concatenate(part) for part in zip(*found, strict=True)] if found else []
    return (parts[0], parts[1], parts[2]) if parts else (number, v, v)
