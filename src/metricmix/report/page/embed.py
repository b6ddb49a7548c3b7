"""Which shortest paths a page holds, and the parts of their edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.estimators.attribution import edge_parts
from metricmix.mixture.lengths import EdgeLengths
from metricmix.paths.pair import shortest_paths
from metricmix.report.page.data import EmbeddedPaths

__all__ = ["chosen_pairs", "embed_paths"]

ALL_UP_TO = 800
NEAREST = 10


def chosen_pairs(
    distances: NDArray[np.float64], given: NDArray[np.bool_], *, directed: bool
) -> NDArray[np.int64]:
    """Return the pairs a page holds, as ascending keys ``i * n + j``.

    All of them up to 800 items; beyond, those of each item with its 10 nearest items and its
    nearest labelled item.
    """
    n = len(distances)
    if n <= ALL_UP_TO:
        i, j = np.nonzero(~np.eye(n, dtype=bool))
    else:
        d = distances.copy()
        np.fill_diagonal(d, np.inf)
        near = np.argpartition(d, NEAREST, axis=1)[:, :NEAREST]
        if given.any():
            labelled = np.flatnonzero(given)
            near = np.column_stack([near, labelled[d[:, labelled].argmin(axis=1)]])
        i, j = np.repeat(np.arange(n), near.shape[1]), near.ravel()
    i, j = i[i != j], j[i != j]
    return np.unique(i * n + j if directed else np.minimum(i, j) * n + np.maximum(i, j))


def embed_paths(lengths: EdgeLengths, pairs: NDArray[np.int64]) -> EmbeddedPaths:
    """Return the shortest paths of pairs given by their keys, with the parts of their edges."""
    n, directed = lengths.n, bool(lengths.directed)
    bundle = shortest_paths(lengths, None, pairs // n, pairs % n)
    inner = np.ones(len(bundle.nodes), dtype=bool)
    inner[bundle.indptr[:-1]] = inner[bundle.indptr[1:] - 1] = False
    _, u, v = bundle.edges()
    keys = np.unique(u * n + v if directed else np.minimum(u, v) * n + np.maximum(u, v))
    parts = edge_parts(lengths, lengths.stack.raw_pairs(keys // n, keys % n))
    return EmbeddedPaths(
        pairs=pairs,
        indptr=bundle.indptr - 2 * np.arange(len(pairs) + 1),
        between=bundle.nodes[inner].astype(np.int64),
        edges=keys,
        parts=parts[:, :-1],
        link=float(parts[0, -1]) if len(parts) else 0.0,
        directed=directed,
        complete=len(pairs) == (n * (n - 1) if directed else n * (n - 1) // 2),
    )
