"""Shortest paths from one item to the items of known label or target, and their parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.learning.learned import Learned
from metricmix.learning.rules import ClassMean, FittedRule
from metricmix.paths.contributions import Contributions, edge_parts, split_lengths
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.pair import Path, bundle_paths
from metricmix.paths.trees import grow_trees
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["NEW", "LabelPaths", "id_of", "paths_from_item", "paths_from_new_item"]

NEW = "new item"
"""What an item is called that was not in the fit."""


def id_of(stack: DissimilarityStack, item: int) -> Any:
    """Return the id of an item, as a Python object."""
    return stack.items[item : item + 1].tolist()[0]


@dataclass(frozen=True, eq=False)
class LabelPaths:
    """Shortest paths from one item to labelled items that it reaches.

    Attributes
    ----------
    rule : FittedRule
    paths : list of T Path
    new : int, optional
        The number that the paths use for an item that was not in the fit.
    row : (R, n) array, optional
        Its raw dissimilarities, if it is not in the stack either.
    weights : (R,) array, optional
        Its weights, where these are local.
    """

    rule: FittedRule
    paths: list[Path]
    new: int | None = None
    row: AnyArray | None = None
    weights: Floats | None = None

    @property
    def targets(self) -> Indices:
        """The labelled items, (T,)."""
        return np.array([path.nodes[-1] for path in self.paths])

    @property
    def distances(self) -> Floats:
        """How far they are, (T,)."""
        return np.array([path.length for path in self.paths])

    @cached_property
    def _edges(self) -> tuple[Indices, Floats]:
        """The number of the path of every edge, and the parts of the edge, (E, R + 1)."""
        lengths = self.rule.lengths
        number = np.repeat(np.arange(len(self.paths)), [len(p.nodes) - 1 for p in self.paths])
        edges = [edge for path in self.paths for edge in path.edges]
        u, v = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        if self.row is None:
            return number, edge_parts(lengths, u, v)
        outside = u == self.new
        u = np.where(outside, 0, u)
        raw = np.where(outside, self.row[:, v], lengths.stack.raw_pairs(u, v))
        weights = lengths.mixed.pair_weights(u, v, raw)
        if self.weights is not None and lengths.item_weights is not None:
            joined = 0.5 * (self.weights[:, None] + lengths.item_weights[:, v])
            weights = np.where(outside, joined, weights)
        return number, split_lengths(lengths, raw, weights)

    @property
    def parts(self) -> Floats:
        """The parts of the distances, (T, R + 1): the sources', and last the link's."""
        number, parts = self._edges
        total = np.zeros((len(self.paths), parts.shape[1]))
        np.add.at(total, number, parts)
        return total

    def contributions(self, t: int) -> Contributions:
        """Return what the sources contribute to path number `t`."""
        number, parts = self._edges
        own, path, stack = parts[number == t], self.paths[t], self.rule.lengths.stack
        ids = [NEW if v == self.new else id_of(stack, v) for v in path.nodes]
        return Contributions(path, tuple(ids), stack.names, own[:, :-1], own[:, -1])


def paths_from_item(rule: FittedRule, item: int, new: int | None = None) -> LabelPaths:
    """Return the paths from an item of the stack to the labelled ones that it reaches: one tree.

    Where rows have to be computed, pair by pair: a tree would ask for all of them, one at a time.
    """
    if rule.lengths.block is None and rule.lengths.edges is None:
        start = np.full(len(rule.labelled), item)
        return LabelPaths(rule, list(bundle_paths(rule.lengths, start, rule.labelled)), new)
    tree = grow_trees(rule.lengths, np.array([item]), n_jobs=rule.n_jobs)
    there = np.isfinite(tree.distances[0, rule.labelled])
    return LabelPaths(rule, [tree.path(0, j) for j in rule.labelled[there].tolist()], new)


def paths_from_new_item(learned: Learned, rows: AnyArray | CrossEdges, k: int) -> LabelPaths:
    r"""Return the paths from a new item, :math:`d(x, j) = \min_u w(x, u) + d(u, j)`.

    Under the rule "class-mean" those to all labelled items, else those to the k nearest of those
    that it reaches. `rows` are what :meth:`Learned.join` takes, of one item.
    """
    n, rule, lengths = learned.stack.n_items, learned.rule, learned.lengths
    new = learned.join(rows)
    if new.same[0] >= 0:  # no source distinguishes it from that item
        return paths_from_item(rule, int(new.same[0]))
    if isinstance(rule.rule, ClassMean):
        targets, to_targets = rule.labelled, rule.distances[0]
    else:
        d, nearest = new.nearest(rule.known.mask, min(k, len(rule.labelled)))
        targets = nearest[0, np.isfinite(d[0])]
        searches = [
            dijkstra(lengths, targets[t : t + 1], reverse=lengths.directed)
            for t in range(len(targets))
        ]
        to_targets = np.stack([search.distances for search in searches], axis=1)
    ends, edges = new.edges_of(0)
    entry = (edges[:, None] + to_targets[ends]).argmin(axis=0)
    rest = bundle_paths(lengths, ends[entry], targets, n_jobs=rule.n_jobs)
    paths = [
        Path(float(edge) + path.length, (n, *path.nodes))
        for edge, path in zip(edges[entry], rest, strict=True)
    ]
    weights = None if new.weights is None else new.weights[0]
    row = rows.dense_row(0) if isinstance(rows, CrossEdges) else rows[0].T
    return LabelPaths(rule, paths, n, row, weights)
