"""Which shortest paths a page holds, and the parts of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.estimators.attribution import edge_parts
from metricmix.mixture.lengths import EdgeLengths
from metricmix.paths.pair import shortest_path, shortest_paths
from metricmix.report.page.data import EmbeddedPaths

__all__ = ["chosen_pairs", "embed_paths", "nearest_given", "path_record"]

ALL_UP_TO = 800
MOST_BYTES = 6_800_000
"""Room for all pairs, before they are packed: about 8 MB of the file."""
NEAREST = 10


def chosen_pairs(
    distances: NDArray[np.float64], given: NDArray[np.bool_], n_sources: int, *, directed: bool
) -> NDArray[np.int64]:
    """Return the pairs a page holds, as ascending keys ``i * n + j``.

    All of them up to 800 items, if they fit (up to 9 sources, or 4 with two directions); beyond,
    those of each item with its 10 nearest items and its nearest labelled item, both ways.
    """
    n = len(distances)
    bytes_per_pair = (2 if directed else 1) * (n_sources + 1)  # 2 a source less one, 4 a length
    if n <= ALL_UP_TO and n * (n - 1) * bytes_per_pair <= MOST_BYTES:
        i, j = np.nonzero(~np.eye(n, dtype=bool))
    else:
        d = distances.copy()
        np.fill_diagonal(d, np.inf)
        near = np.argpartition(d, NEAREST, axis=1)[:, :NEAREST]
        near = np.column_stack([near, nearest_given(distances, given)])
        i, j = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        i, j = i[j >= 0], j[j >= 0]
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    i, j = i[i != j], j[i != j]
    return np.unique(i * n + j if directed else np.minimum(i, j) * n + np.maximum(i, j))


def nearest_given(distances: NDArray[np.float64], given: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each item the labelled one that it is nearest to, itself left out; -1 for none."""
    labelled = np.flatnonzero(given)
    if not len(labelled):
        return np.full(len(distances), -1)
    to_labelled = distances[:, labelled]
    to_labelled[labelled, np.arange(len(labelled))] = np.inf
    nearest = labelled[to_labelled.argmin(axis=1)]
    return np.where(np.isfinite(to_labelled.min(axis=1)), nearest, -1)


def embed_paths(
    lengths: EdgeLengths, pairs: NDArray[np.int64], metric: NDArray[np.float64]
) -> EmbeddedPaths:
    """Return the shortest paths of pairs given by their keys, with the parts of their edges.

    Where the metric is the edge itself, that is the path; the others are searched for.
    """
    n, directed = lengths.n, bool(lengths.directed)
    i, j = pairs // n, pairs % n
    found = lengths.pairs(i, j)
    longer = np.flatnonzero(metric[i, j] < found)
    bundle = shortest_paths(lengths, None, i[longer], j[longer])
    found[longer] = bundle.lengths
    inner = np.ones(len(bundle.nodes), dtype=bool)
    inner[bundle.indptr[:-1]] = inner[bundle.indptr[1:] - 1] = False
    counts = np.zeros(len(pairs), np.int64)
    counts[longer] = np.diff(bundle.indptr) - 2
    _, u, v = bundle.edges()
    used = u * n + v if directed else np.minimum(u, v) * n + np.maximum(u, v)
    keys = np.unique(np.concatenate([pairs[counts == 0], used]))
    parts = edge_parts(lengths, lengths.stack.raw_pairs(keys // n, keys % n))
    return EmbeddedPaths(
        pairs=pairs,
        lengths=found,
        indptr=np.concatenate([[0], counts.cumsum()]),
        between=bundle.nodes[inner].astype(np.int64),
        edges=keys,
        edge_lengths=lengths.pairs(keys // n, keys % n),
        parts=parts[:, :-1],
        link=float(parts[0, -1]) if len(parts) else 0.0,
        directed=directed,
        complete=len(pairs) == (n * (n - 1) if directed else n * (n - 1) // 2),
    )


def path_record(lengths: EdgeLengths, i: int, j: int) -> dict[str, Any]:
    """Return the shortest path from item number `i` to `j`, as plain values for a page to ask for.

    Its `length`, its `nodes`, and for each edge its parts: those of the sources, last the link's.
    One search, O(R n) as a rule.
    """
    path = shortest_path(lengths, None, i, j)
    u, v = np.array(path.edges, dtype=np.int64).reshape(-1, 2).T
    parts = edge_parts(lengths, lengths.stack.raw_pairs(u, v))
    return {"length": path.length, "nodes": list(path.nodes), "parts": parts.tolist()}
