"""The shortest paths that a page holds, and those that are searched for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.page.values import EmbeddedPaths
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.contributions import edge_parts, path_contributions
from metricmix.paths.learned_metric import Metric
from metricmix.paths.pair import shortest_paths
from metricmix.typing import Floats, Indices

__all__ = [
    "chain_metric",
    "edges_to_phrase",
    "embed_chains",
    "embed_paths",
    "nearest_labelled_item",
    "pairs_to_embed",
    "path_edges",
    "path_record",
]

MAX_PHRASES = 5000
"""Edges that a page says in words."""


def chain_metric(metric: Metric, max_items: int = 2000) -> Metric | None:
    """Return the same mixture along the edges to each item's ten nearest items, and its links.

    None if the edges of the metric are sparse, or there are more than `max_items` items.
    """
    if metric.stack.edges is not None or metric.n > max_items:
        return None
    return metric.geodesic(10)


def embed_chains(
    metric: Metric, given: NDArray[np.bool_]
) -> tuple[EmbeddedPaths, Floats] | tuple[None, None]:
    """Return the paths along the nearest items that a page holds, and their distances, (n, n).

    None for both where :func:`chain_metric` returns None.
    """
    chains = chain_metric(metric)
    if chains is None:
        return None, None
    distances = chains.to_array()
    # Edges are few: a pair has its length and some items, as much as five sources take.
    n_sources = min(chains.stack.n_sources, 5)
    pairs = pairs_to_embed(distances, given, n_sources, directed=chains.directed)
    return embed_paths(chains.lengths, pairs, distances), distances


def edges_to_phrase(
    tables: Sequence[EmbeddedPaths | None], first: tuple[EmbeddedPaths, int, int] | None = None
) -> Indices:
    """Return the keys of the edges that a page says in words: of the first table first.

    At most 5000 of them, and of a table that has more the shortest. Those of the path between two
    items of a table, `first`, come before all others.
    """
    found = np.empty(0, np.int64) if first is None else path_edges(*first)
    for table in tables:
        if table is not None:
            order = np.argsort(table.edge_lengths, kind="stable")
            keys = table.edges[order]
            found = np.concatenate([found, keys[~np.isin(keys, found)]])[:MAX_PHRASES]
    return found


def path_edges(paths: EmbeddedPaths, i: int, j: int) -> Indices:
    """Return the keys of the edges on the path between two items that `paths` holds."""
    nodes = paths.nodes(i, j)
    u, v = nodes[:-1], nodes[1:]
    if not paths.directed:
        u, v = np.minimum(u, v), np.maximum(u, v)
    return u * paths.n_items + v


def pairs_to_embed(
    distances: Floats, labelled: NDArray[np.bool_], n_sources: int, *, directed: bool
) -> Indices:
    """Return the pairs whose paths a page holds, as ascending keys ``i * n + j``.

    All of them up to 800 items, if they fit (up to 9 sources, or 4 with two directions); beyond,
    those of each item with its 10 nearest items and its nearest labelled item, in both directions.
    """
    n = len(distances)
    bytes_per_pair = (2 if directed else 1) * (n_sources + 1)  # 2 a source less one, 4 a length
    max_bytes = 6_800_000  # size of all paths before compression: about 8 MB of the file
    if n <= 800 and n * (n - 1) * bytes_per_pair <= max_bytes:
        i, j = np.nonzero(~np.eye(n, dtype=bool))
    else:
        d = distances.copy()
        np.fill_diagonal(d, np.inf)
        n_nearest = 10
        near = np.argpartition(d, n_nearest, axis=1)[:, :n_nearest]
        near = np.column_stack([near, nearest_labelled_item(distances, labelled)])
        i, j = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        i, j = i[j >= 0], j[j >= 0]
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    i, j = i[i != j], j[i != j]
    return np.unique(i * n + j if directed else np.minimum(i, j) * n + np.maximum(i, j))


def nearest_labelled_item(distances: Floats, labelled: NDArray[np.bool_]) -> Indices:
    """Return the nearest labelled item of each item, other than itself; -1 where there is none."""
    candidates = np.flatnonzero(labelled)
    if not len(candidates):
        return np.full(len(distances), -1)
    to_labelled = distances[:, candidates]
    to_labelled[candidates, np.arange(len(candidates))] = np.inf
    nearest = candidates[to_labelled.argmin(axis=1)]
    return np.where(np.isfinite(to_labelled.min(axis=1)), nearest, -1)


def embed_paths(lengths: EdgeLengths, pairs: Indices, metric: Floats) -> EmbeddedPaths:
    """Return the shortest paths of pairs given by their keys, with the parts of their edges.

    Where the metric equals the edge length, the edge is the path; the others are searched for.
    """
    n, directed = lengths.n, bool(lengths.directed)
    i, j = pairs // n, pairs % n
    path_lengths = lengths.pairs(i, j)
    longer = np.flatnonzero(metric[i, j] < path_lengths)
    bundle = shortest_paths(lengths, None, i[longer], j[longer])
    path_lengths[longer] = bundle.lengths
    inner = np.ones(len(bundle.nodes), dtype=bool)
    inner[bundle.indptr[:-1]] = inner[bundle.indptr[1:] - 1] = False
    counts = np.zeros(len(pairs), np.int64)
    counts[longer] = np.diff(bundle.indptr) - 2
    _, u, v = bundle.edges()
    used = u * n + v if directed else np.minimum(u, v) * n + np.maximum(u, v)
    keys = np.unique(np.concatenate([pairs[counts == 0], used]))
    parts = edge_parts(lengths, keys // n, keys % n)
    return EmbeddedPaths(
        n_items=n,
        pairs=pairs,
        lengths=path_lengths,
        indptr=np.concatenate([[0], counts.cumsum()]),
        between=bundle.nodes[inner].astype(np.int64),
        edges=keys,
        edge_lengths=lengths.pairs(keys // n, keys % n),
        parts=parts[:, :-1],
        link=float(parts[0, -1]) if len(parts) else 0.0,
        directed=directed,
        complete=len(pairs) == (n * (n - 1) if directed else n * (n - 1) // 2),
    )


def path_record(metric: Metric, i: int, j: int) -> dict[str, Any]:
    """Return the shortest path from item number `i` to `j` as plain values for JSON.

    Its `length`, its `nodes`, and for each edge its parts: those of the sources, last the link's.
    One search, usually O(R n).
    """
    found = path_contributions(metric.lengths, i, j)
    parts = np.column_stack([found.edges, found.link]).tolist()
    return {"length": found.length, "nodes": list(found.path.nodes), "parts": parts}
