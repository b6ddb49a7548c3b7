r"""Shortest paths of given pairs, exactly, without forming the matrix of edge lengths.

.. math:: d_{ij} = \min_{\gamma : i \to j} \sum_{(u,v) \in \gamma} w_{uv}

over all paths of the complete graph. The search runs from both ends and mixes a row of the
sources only when it settles an item (:mod:`metricmix.paths.bidirectional`): mostly the two ends
and little more, so a pair costs O(R n), not O(R n²).
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
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.paths.bidirectional import expand, find_paths, next_item, start_pair, trace_path
from metricmix.paths.forest import chunk_count
from metricmix.validation import check_index, check_indices

__all__ = ["Path", "PathBundle", "shortest_path", "shortest_paths"]

PAIRS_PER_THREAD = 8
"""Fewer pairs than this are not worth another thread."""
PAIRS_PER_LOOK = 32
"""Fewer pairs than this are not worth a look at all rows of a stack."""
ROWS_AT_ONCE = 128
KEPT_UP_TO = 1 << 26
"""Entries of computed rows that are kept during a call: half a gigabyte."""


@dataclass(frozen=True)
class Path:
    """A shortest path: its length, and the items it goes through, both ends included."""

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
        Path p goes through ``nodes[indptr[p]:indptr[p + 1]]``.
    rows_touched : (P,) array
        How many rows of the sources each search mixed.
    """

    lengths: NDArray[np.float64]
    indptr: NDArray[np.int64]
    nodes: NDArray[np.int32]
    rows_touched: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, p: int) -> Path:
        nodes = self.nodes[self.indptr[p] : self.indptr[p + 1]]
        return Path(float(self.lengths[p]), tuple(int(v) for v in nodes))

    def __iter__(self) -> Iterator[Path]:
        return (self[p] for p in range(len(self)))

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return all edges as arrays (path number, from, to)."""
        hops = np.diff(self.indptr) - 1
        path = np.repeat(np.arange(len(self)), hops)
        starts = np.ones(len(self.nodes), dtype=bool)
        starts[self.indptr[1:] - 1] = False  # the last item of a path starts no edge
        tails = np.flatnonzero(starts)
        return path, self.nodes[tails].astype(np.int64), self.nodes[tails + 1].astype(np.int64)


def shortest_path(
    stack: Any, mixture: Any = None, i: Any = None, j: Any = None, *, directed: bool = False
) -> Path:
    """Return the shortest path from item `i` to item `j`.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths (then `mixture` is None).
    mixture : Mixture or array of R weights
    i, j : int
    directed : bool
        For a matrix of lengths only; a stack knows.

    Returns
    -------
    Path
        With `length` and `nodes`. Ties are broken the same way every time; an edge that is as short
        as any detour is taken itself.

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
    return bundle_paths(lengths, np.array([start]), np.array([end]), n_jobs=1)[0]


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
    return bundle_paths(lengths, first, second, n_jobs=n_jobs)


def bundle_paths(
    lengths: EdgeLengths,
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    *,
    bounded: bool | None = None,
    n_jobs: int | None = None,
) -> PathBundle:
    """Return the shortest paths of pairs that are known to be sound.

    `bounded` says whether to prune by the ranges of the stack's rows, which have to be looked up
    once: by default for many pairs only. It may change which of several equal paths is found, so
    it must not depend on what a stack was used for before.
    """
    if lengths.block is None:
        return _search_computed(lengths, i, j)
    threads = max(1, min(effective_threads(n_jobs), len(i) // PAIRS_PER_THREAD))
    shares = np.array_split(np.arange(len(i)), threads)
    bounded = len(i) >= PAIRS_PER_LOOK if bounded is None else bounded
    floors = lengths.floors() if bounded else np.zeros((2, lengths.n))
    parts = in_threads(
        lambda share: _search_block(lengths, floors, i[share], j[share]), shares, threads
    )
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


class _Workspace:
    """Scratch arrays of the two searches, allocated once for many pairs."""

    def __init__(self, n: int) -> None:
        self.dist = np.empty((2, n))
        self.key = np.empty((2, n))
        self.least = np.empty((2, chunk_count(n)))
        self.pred = np.empty((2, n), np.int32)
        self.path = np.empty(n + 1, np.int32)

    @property
    def search(self) -> tuple[Any, ...]:
        return self.dist, self.key, self.least, self.pred


def _search_block(
    lengths: EdgeLengths,
    floors: NDArray[np.float64],
    i: NDArray[np.int64],
    j: NDArray[np.int64],
) -> PathBundle:
    work = _Workspace(lengths.n)
    found = np.empty(len(i))
    indptr = np.empty(len(i) + 1, np.int64)
    touched = np.empty(len(i), np.int32)
    nodes = find_paths(
        *(lengths.block, lengths.raw_weights, lengths.beta, lengths.link, lengths.directed),
        *(floors, i, j, *work.search, np.empty(lengths.n), work.path),
        *(found, indptr, touched),
    )
    return PathBundle(found, indptr, nodes, touched)


def _search_computed(
    lengths: EdgeLengths, i: NDArray[np.int64], j: NDArray[np.int64]
) -> PathBundle:
    """Search likewise, where rows have to be asked for; a row is asked for once per call."""
    work = _Workspace(lengths.n)
    best, floors = np.empty(2), lengths.floors()
    cache: dict[tuple[int, bool], NDArray[np.float64]] = {}
    direct, edges = _direct_edges(lengths, i, j, cache)

    def row(u: int, reverse: bool) -> NDArray[np.float64]:
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
            start_pair(start, end, float(edges[p]), *work.search, best)
            while True:
                side, u = next_item(work.key, work.least, floors, best)
                if side < 0:
                    break
                m = row(u, lengths.directed and side == 1)
                expand(side, u, m, lengths.beta, lengths.link, floors, *work.search, best)
                rows += 1
            found.append(float(best[0]))
            count = trace_path(start, end, work.pred, best, work.path)
            paths.append(work.path[:count].copy())
        touched.append(rows)
    indptr = np.cumsum([0] + [len(path) for path in paths])
    nodes = np.concatenate(paths) if paths else np.empty(0, np.int32)
    return PathBundle(np.array(found), indptr, nodes, np.array(touched, np.int32))


def _direct_edges(
    lengths: EdgeLengths,
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    cache: dict[tuple[int, bool], NDArray[np.float64]],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the edges of many pairs, and which are no longer than the shortest two at their ends.

    Those are shortest paths themselves: any other path leaves i and enters j by some edge. The rows
    of all ends are asked for together, and kept for the search if they are not too many.
    """
    if len(i) < PAIRS_PER_LOOK or lengths.directed:
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
