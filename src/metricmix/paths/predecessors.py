r"""Shortest paths traced back along known distances.

The item before v on a shortest path from s is a u with

.. math:: d(s, u) < d(s, v), \qquad d(s, u) + w_{uv} = d(s, v)

so that distances determine paths, but for edges of length 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, SparseLengths
from metricmix.paths.dijkstra import CHUNK
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["any_predecessor", "find_predecessors", "trace_edges", "trace_to_roots"]


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


@kernel
def find_predecessors(i: int, d: Floats, w_into: Floats, tol: float, pred: Ints) -> bool:
    """Fill pred with the tree of root i; return False if zero-length edges leave it incomplete.

    d is row i of the distances; w_into[j] is the row of edge lengths *into* j (w itself when
    symmetric, its transpose otherwise). The predecessor must be strictly nearer than j, so that
    following predecessors always ends at i; the edge (i, j) wins ties, then the lowest number.
    Lengths that differ by the share `tol` count as equal. Items at an infinite distance have no
    predecessor.
    """
    n = d.shape[0]
    complete = True
    for j in range(n):
        pred[j] = i if d[j] < np.inf else -1
        if w_into[j, i] <= d[j]:
            continue
        row = w_into[j]
        before = -1
        for low in range(0, n, CHUNK):
            high = min(low + CHUNK, n)
            if any_predecessor(d[low:high], row[low:high], d[j], tol):
                before = low
                while not (d[before] < d[j] and d[before] + row[before] <= d[j] * (1.0 + tol)):
                    before += 1
                break
        pred[j] = before
        if before < 0:
            complete = False
    pred[i] = -1
    return complete


@kernel
def any_predecessor(d: Floats, row: Floats, length: float, tol: float) -> bool:
    """Return whether any item of a chunk lies on a path of that length; branch-free."""
    found = 0
    bound = length * (1.0 + tol)
    for k in range(d.shape[0]):
        found += 1 if (d[k] < length) & (d[k] + row[k] <= bound) else 0
    return found > 0


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
