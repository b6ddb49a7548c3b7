r"""The shortest paths that a page holds or searches for, and the one on which it opens.

A page opens on the path between two items that one would not expect to be close.
A pair (i, j) is nearer in the learned metric than a share of all pairs, and in source r it is
farther apart than a share of them, both estimated on a sample of pairs S:

.. math::

    \mathrm{nearer}(i, j) = \frac{|\{s \in S : d_s > d_{ij}\}|}{|S|}, \qquad
    \mathrm{farther}_r(i, j) = \frac{|\{s \in S : M_r[s] < M_r[i, j]\}|}{|S|}.

Five kinds are tried in this order, and the first that some pair is clear enough for is taken:

==========  =======================================================================================
kind        the pair
==========  =======================================================================================
"detour"    its path goes through other items; far apart in every source, so
            :math:`\min_r \mathrm{farther}_r` counts
"shortcut"  its path goes through other items, and is much shorter than the edge between the two:
            :math:`1 - d_{ij} / w_{ij}` counts
"source"    its path is an edge; far apart in the source of the largest weight, brought together by
            another one: the r with the largest :math:`\alpha_r (\bar M_r - M_r[i, j])`
"misfit"    a given label that the rule would not give, and the nearest labelled item
"nearest"   an item without a label, if there is one, and the nearest labelled item
==========  =======================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.page.values import EmbeddedPaths, Example, PageItems
from metricmix.fitting.fit_items import nearest_labelled_item
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
    "example_path",
    "pairs_to_embed",
    "path_edges",
    "path_record",
]

MAX_PHRASES = 5000
"""Edges that a page says in words."""
SAMPLE = 4000
"""Pairs by which shares are estimated."""
NEARER, FARTHER, SHORTER = 0.8, 0.5, 0.2
"""Shares from which on a pair is surprising."""
SAME_LABEL, SEEN = 0.2, 0.8
"""What a pair gains by one label at both ends, and by being as far apart on the map as can be: a
path should be long enough to be seen."""


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
        wanted = ~np.eye(n, dtype=bool)
        return np.flatnonzero(wanted if directed else np.triu(wanted))
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


# -- the path on which a page opens --------------------------------------------------------------


def example_path(
    lengths: EdgeLengths,
    weights: Floats,
    metric: Floats,
    paths: EmbeddedPaths,
    items: PageItems,
    places: Floats,
) -> Example | None:
    """Return the pair on which a page opens, among those whose paths it holds; None without any.

    Parameters
    ----------
    lengths : EdgeLengths
    weights : (R,) array
    metric : (n, n) array
    paths : EmbeddedPaths
    items : PageItems
    places : (n, 2) array
        The map.
    """
    if not len(paths.pairs):
        return None
    choice = _Choice(lengths, weights, metric, paths, items, places)
    return choice.detour() or choice.shortcut() or choice.source() or plain_example(items)


class _Choice:
    """The pairs of a page, and the example of each kind among them; None where there is none."""

    def __init__(
        self,
        lengths: EdgeLengths,
        weights: Floats,
        metric: Floats,
        paths: EmbeddedPaths,
        items: PageItems,
        places: Floats,
    ) -> None:
        stack, n = lengths.stack, lengths.n
        self.lengths, self.weights, self.metric = lengths, weights, metric
        self.paths, self.items, self.places = paths, items, places
        self.between = stack.origin
        self.n_edges = np.diff(paths.indptr) + 1
        rng = np.random.default_rng(0)
        self.first = rng.integers(n, size=SAMPLE)
        self.second = (self.first + rng.integers(1, n, size=SAMPLE)) % n
        self.sampled = np.sort(metric[self.first, self.second])
        self.near = metric[paths.pairs // n, paths.pairs % n] <= np.quantile(
            self.sampled, 1.0 - NEARER
        )

    def detour(self) -> Example | None:
        if self.between is None:
            return None
        i, j = self._some(self.near & self._through_items)
        farther = self._farther(i, j).min(axis=1, initial=1.0)
        nearer = self._nearer(i, j)
        k = self._best(farther >= FARTHER, farther + nearer, i, j)
        if k is None:
            return None
        return Example("detour", (int(i[k]), int(j[k])), float(nearer[k]), float(farther[k]))

    def shortcut(self) -> Example | None:
        if self.lengths.edges is not None:  # most pairs have no edge
            return None
        i, j = self._some(self._through_items)
        direct = self.lengths.pairs(i, j)
        shorter = 1.0 - self.metric[i, j] / direct
        k = self._best(shorter >= SHORTER, shorter, i, j)
        if k is None:
            return None
        return Example("shortcut", (int(i[k]), int(j[k])), direct=float(direct[k]))

    def source(self) -> Example | None:
        if self.between is None or len(self.weights) < 2:
            return None
        i, j = self._some(self.near & (self.n_edges == 1))
        main = int(np.argmax(self.weights))
        farther, nearer = self._farther(i, j)[:, main], self._nearer(i, j)
        usual = self.between.pairs(self.first, self.second).mean(axis=0)
        brings = self.weights * (usual - self.between.pairs(i, j))
        brings[:, main] = 0.0
        surprising = (farther >= FARTHER) & (brings.max(axis=1) > 0)
        k = self._best(surprising, farther + nearer, i, j)
        if k is None:
            return None
        shares = float(nearer[k]), float(farther[k])
        return Example("source", (int(i[k]), int(j[k])), *shares, main, int(brings[k].argmax()))

    @property
    def _through_items(self) -> NDArray[np.bool_]:
        most_edges = 5  # edges of a path that can still be read at a glance
        return (self.n_edges > 1) & (self.n_edges <= most_edges)

    def _some(self, wanted: NDArray[np.bool_]) -> tuple[Indices, Indices]:
        found = self.paths.pairs[wanted]
        candidates = 10_000  # pairs that are looked at for each kind, at most
        found = found[:: max(1, -(-len(found) // candidates))]
        return found // self.lengths.n, found % self.lengths.n

    def _nearer(self, i: Indices, j: Indices) -> Floats:
        return 1.0 - np.searchsorted(self.sampled, self.metric[i, j], side="right") / SAMPLE

    def _farther(self, i: Indices, j: Indices) -> Floats:
        assert self.between is not None
        values = self.between.pairs(i, j)
        usual = np.sort(self.between.pairs(self.first, self.second), axis=0)
        ranks = [np.searchsorted(usual[:, r], values[:, r]) for r in range(values.shape[1])]
        return np.column_stack(ranks) / SAMPLE

    def _best(
        self, surprising: NDArray[np.bool_], score: Floats, i: Indices, j: Indices
    ) -> int | None:
        """Return the position of the best of the surprising pairs."""
        if not surprising.any():
            return None
        span = float(np.hypot(*np.ptp(self.places, axis=0))) or 1.0
        score = score + SEEN * np.linalg.norm(self.places[i] - self.places[j], axis=1) / span
        if self.items.target is None:
            score += SAME_LABEL * (self.items.labels[i] == self.items.labels[j])
        return int(np.where(surprising, score, -np.inf).argmax())


def plain_example(items: PageItems) -> Example | None:
    """Return the clearest misfit with its nearest labelled item, else any other item with its own.

    The clearest misfit has the least confidence in its label, or the largest error of its target.
    """
    nearest = items.nearest
    if nearest is None or not (np.asarray(nearest) >= 0).any():
        return None
    has_near = np.asarray(nearest) >= 0
    misfit = items.misfit & has_near
    if items.prefers is not None:  # rather those whose neighbour has the label that is predicted
        agrees = misfit & (items.labels[nearest] == items.prefers)
        misfit = agrees if agrees.any() else misfit
    misfits = np.flatnonzero(misfit)
    if len(misfits):
        if items.target is not None and items.predicted is not None:
            doubt = np.abs(items.target - items.predicted)
        else:
            doubt = np.zeros(len(items.ids)) if items.confidence is None else -items.confidence
        i = int(misfits[doubt[misfits].argmax()])
        return Example("misfit", (i, int(nearest[i])))
    unlabelled = np.flatnonzero(~items.given & has_near)
    i = int((unlabelled if len(unlabelled) else np.flatnonzero(has_near))[0])
    return Example("nearest", (i, int(nearest[i])))
