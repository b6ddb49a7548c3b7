r"""The min-plus product of two matrices, and distances from some roots by rounds of it.

.. math:: (A \otimes B)_{ij} = \min_k A_{ik} + B_{kj}, \qquad
          D \leftarrow \min(D,\; D \otimes w)

A round lets every path grow by one edge. On a complete graph shortest paths have few edges, so that
a few rounds settle everything, at the speed of :mod:`metricmix.kernels.minplus`; a search from each
root, one row at a time, does fewer operations but waits for memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.minplus import (
    STRIP,
    Packed,
    pack_columns,
    pack_rows,
    panel_width,
    tile_maxima,
    update,
)
from metricmix.kernels.threads import in_threads
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import AnyArray

__all__ = ["distances_by_rounds", "distances_streamed", "edges_back", "min_plus"]


DEPTH = 512
"""Items that a product goes through at a time: their panels stay in the cache."""
ROWS = 8 * STRIP
"""Rows of a product that a thread does at a time."""
MAX_ROUNDS = 12
"""Rounds after which shortest paths are taken to be too long for this."""


def min_plus(A: AnyArray, B: AnyArray, *, n_jobs: int | None = None) -> AnyArray:
    r"""Return the min-plus product :math:`C_{ij} = \min_k A_{ik} + B_{kj}`.

    Parameters
    ----------
    A : (M, n) array
    B : (n, T) array
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> min_plus(np.array([[0.0, 2.0]]), np.array([[5.0, 1.0], [1.0, 9.0]]))
    array([[3., 1.]])
    """
    dtype = np.result_type(A, B)
    C = np.full((len(A), B.shape[1]), np.inf, dtype)
    _lower(C, np.ascontiguousarray(A, dtype), _panels(np.ascontiguousarray(B, dtype)), n_jobs)
    return C


def distances_by_rounds(
    w: AnyArray, roots: NDArray[np.int64], *, n_jobs: int | None = None
) -> AnyArray | None:
    """Return the (S, n) distances from `roots` over the (n, n) lengths `w`.

    None where some shortest path has more than a dozen edges.
    """
    panels = _panels(np.ascontiguousarray(w))
    d = w[roots]
    for _ in range(MAX_ROUNDS):
        before = d.copy()
        _lower(d, before, panels, n_jobs)
        if np.array_equal(d, before):
            return d
    return None


def edges_back(
    w: AnyArray,
    d: AnyArray,
    roots: NDArray[np.int64],
    tree: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
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
        Path p has the edges (u, v) with number p. None where edges of length 0 hide the way.
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
        for start in range(0, len(v), ROWS):
            some = slice(start, start + ROWS)
            lengths = d[tree[number[some]]] + w[v[some]]
            lengths[np.arange(len(lengths)), v[some]] = np.inf
            u[some] = lengths.argmin(axis=1)
        if (d[tree[number], u] >= d[tree[number], v]).any():
            return None
        found.append((number, u, v))
        v = u
    parts = [np.concatenate(part) for part in zip(*found, strict=True)] if found else []
    return (parts[0], parts[1], parts[2]) if parts else (number, v, v)


def _panels(B: AnyArray) -> list[Packed]:
    """Return the columns of B as the kernel takes them, a few of its rows at a time."""
    columns = B.shape[1]
    panels = []
    for first in range(0, len(B), DEPTH):
        part = B[first : first + DEPTH]
        panels.append(Packed.empty(columns, len(part), panel_width(B.dtype), B.dtype))
        pack_columns(part, 0, columns, panels[-1])
    return panels


def _lower(C: AnyArray, A: AnyArray, panels: list[Packed], n_jobs: int | None) -> None:
    """Let C be the smaller of itself and the product of A with what was packed."""

    def fill(start: int) -> None:
        stop = min(len(A), start + ROWS)
        highs = np.empty((-(-(stop - start) // STRIP), len(panels[0].parts)), C.dtype)
        tile_maxima(C, start, stop, highs)
        first = 0
        for panel in panels:
            depth = panel.parts.shape[1]
            part = np.ascontiguousarray(A[start:stop, first : first + depth])
            strips = Packed.empty(len(part), depth, STRIP, C.dtype)
            pack_rows(part, 0, len(part), strips)
            update(C, start, stop, strips, panel, highs)
            first += depth

    in_threads(fill, range(0, len(A), ROWS), n_jobs)


# -- distances from some roots where the lengths are not formed: few passes over all rows -------

ROWS_AT_ONCE = 128


def distances_streamed(
    lengths: EdgeLengths, roots: NDArray[np.int64], *, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Return the (S, n) distances from `roots`; memory O((S + 128 R) n)."""
    n = lengths.n
    d = lengths.rows(roots)
    out, into = np.full(n, np.inf), np.full(n, np.inf)
    edges = 2  # after the pass to come, paths of so many edges are known
    while True:
        before = d.copy()
        for start in range(0, n, ROWS_AT_ONCE):
            some = np.arange(start, min(n, start + ROWS_AT_ONCE))
            w = lengths.some_rows(start, start + len(some), n_jobs=n_jobs)
            np.minimum(d, min_plus(d[:, some], w, n_jobs=n_jobs), out=d)
            if edges == 2:
                w[np.arange(len(some)), some] = np.inf
                out[some] = w.min(axis=1)
                np.minimum(into, w.min(axis=0), out=into)
        longer = out[roots, None] + (edges - 1) * out.min() + into
        if np.array_equal(d, before) or (d <= longer).all():
            return d
        edges += 1
