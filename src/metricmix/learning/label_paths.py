"""Shortest paths from one item to the items of known label or target, and their parts by source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.learning.learned import Learned, id_of
from metricmix.learning.rules import ClassMean, FittedRule
from metricmix.objectives.class_scores import class_mean_scores
from metricmix.paths.contributions import (
    Contributions,
    by_size,
    edge_parts,
    split_lengths,
    unused_name,
)
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.pair import Path, PathBundle, bundle_paths
from metricmix.paths.sparse_bundle import traced_paths
from metricmix.paths.trees import grow_trees
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NEW",
    "ClassScores",
    "LabelPaths",
    "Neighbour",
    "class_scores",
    "listed",
    "nearest_of_class",
    "path_end",
    "paths_from_item",
    "paths_from_new_item",
]


NEW = "new item"
"""What an item is called that was not in the fit."""


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
    shares : (1, C) array, optional
        Its memberships, where weights are local.
    """

    rule: FittedRule
    paths: list[Path]
    new: int | None = None
    row: AnyArray | None = None
    shares: Floats | None = None

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
        u = np.where(outside, lengths.n, u)
        return number, split_lengths(lengths, lengths.mixed.joined(self.shares).parts(raw, u, v))

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


@dataclass(frozen=True)
class Neighbour:
    """An item of known value near the one explained, and where its distance comes from.

    Attributes
    ----------
    item, label : id, and class or target
    distance : float
    contributions : Contributions
    """

    item: Any
    label: Any
    distance: float
    contributions: Contributions

    def __str__(self) -> str:
        between = ", ".join(map(str, self.contributions.nodes[1:-1]))
        through = f" through {between}" if between else ""
        label = f"{self.label:.4g}" if isinstance(self.label, float) else repr(self.label)
        return f"{self.item} ({label}) at {self.distance:.3g}{through}"

    def to_record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "item": self.item,
            "label": self.label,
            "distance": self.distance,
            "path": list(self.contributions.nodes),
            "totals": self.contributions.totals,
        }


def path_end(learned: Learned, paths: LabelPaths, t: int) -> Neighbour:
    """Return the item of known value at the end of path number `t`."""
    end = paths.targets[t : t + 1]
    label = learned.task.decode(paths.rule.known.values[end]).tolist()[0]
    about = (id_of(learned.stack, int(end[0])), label, float(paths.distances[t]))
    return Neighbour(*about, paths.contributions(t))


def nearest_of_class(learned: Learned, paths: LabelPaths, c: int, besides: int) -> Neighbour | None:
    """Return the nearest labelled item of a class, other than one item; None if there is none."""
    own = (paths.rule.known.values[paths.targets] == c) & (paths.targets != besides)
    if not own.any():
        return None
    return path_end(learned, paths, int(np.where(own, paths.distances, np.inf).argmin()))


def listed(parts: dict[str, float], most: int = 5) -> str:
    """Return parts in a line, the `most` largest first; the others are summed.

    Parts that are rounding beside the largest are left out.

    >>> listed({"a": 1.0, "b": -2.0, "c": 0.5}, most=2)
    'b -2, a +1, others +0.5'
    """
    sizes = by_size(parts)
    sizes = [part for part in sizes if abs(part[1]) > 1e-12 * abs(sizes[0][1])] or sizes[:1]
    words = [f"{name} {value:+.2g}" for name, value in sizes[:most]]
    if sizes[most:]:
        words.append(f"others {sum(value for _, value in sizes[most:]):+.2g}")
    return ", ".join(words)


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
    row = rows.dense_row(0) if isinstance(rows, CrossEdges) else rows[0].T
    return LabelPaths(rule, paths, n, row, new.shares)


LABELS_BY_SOURCE = 500
"""Up to this many labelled items, the distances between them are split by source too."""


@dataclass(frozen=True, eq=False)
class ClassScores:
    """The scores of the rule "class-mean", by source: distances to the means of the classes.

    Where classes are made of examples, a supervised source counts how far the item is from
    certainty of the class (:mod:`metricmix.dissimilarity.examples`).

    Attributes
    ----------
    classes : list of C labels
    columns : list of K names
        The sources and "link"; "offset", where the rule has offsets or shares of labels; with more
        than 500 labelled items "within", what the distances within the class and its offset take
        off its score; "class weight", minus its logarithm, where there are class weights.
    parts : (C, K) array
        They add up to the scores.
    """

    classes: list[Any]
    columns: list[str]
    parts: Floats

    @property
    def scores(self) -> Floats:
        """The scores, (C,); the smaller, the nearer."""
        return np.asarray(self.parts.sum(axis=1))

    def log_odds(self, label: Any, other: Any) -> dict[str, float]:
        r"""Return what speaks for one class rather than another, by source.

        .. math:: \log \frac{p_a}{p_b} = s_b - s_a
        """
        a, b = self.classes.index(label), self.classes.index(other)
        return dict(zip(self.columns, (self.parts[b] - self.parts[a]).tolist(), strict=True))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per class: a column per source, link, and the score."""
        import pandas as pd

        table = pd.DataFrame(self.parts, index=self.classes, columns=self.columns)
        table[unused_name("score", self.columns)] = self.scores
        return table


_WITHIN: WeakKeyDictionary[FittedRule, Floats] = WeakKeyDictionary()
"""Results of :func:`within_by_source`, the same for all items that are explained."""


def class_scores(paths: LabelPaths, classes: list[Any]) -> ClassScores:
    """Return the scores by source of the item whose paths to all labelled items are given."""
    rule = paths.rule
    codes, names = rule.y, rule.lengths.stack.names
    examples = rule.examples
    if examples is None:
        parts = paths.parts.T
    else:
        start = paths.paths[0].nodes[0]
        parts = examples.parts_from(start, paths.row, rule.labelled, codes).T
    columns = [*names, unused_name("link", names)]
    if len(codes) > LABELS_BY_SOURCE:
        means = class_mean_scores(parts, codes, rule.n_classes).T
        columns.append(unused_name("within", names))
        return weighted_scores(rule, classes, columns, [means, -rule.distances[1]])
    if rule not in _WITHIN:
        _WITHIN[rule] = within_by_source(rule)
    within = _WITHIN[rule]
    found = [class_mean_scores(parts, codes, rule.n_classes, within.T).T]
    if examples is None and isinstance(rule.rule, ClassMean) and rule.rule.shifts_classes:
        columns.append(unused_name("offset", names))
        found.append(within.sum(axis=1) - rule.distances[1])
    return weighted_scores(rule, classes, columns, found)


def weighted_scores(
    rule: FittedRule, classes: list[Any], columns: list[str], parts: list[Floats]
) -> ClassScores:
    """Return scores by source, with what the weights of the classes take off them, if any."""
    weights = rule.known.class_weights
    if weights is not None:
        columns.append(unused_name("class weight", rule.lengths.stack.names))
        parts.append(-np.log(weights))
    return ClassScores(classes, columns, np.column_stack(parts))


def within_by_source(rule: FittedRule) -> Floats:
    """Return half of the mean distances within each class, by source and link, (C, R + 1)."""
    lengths, codes = rule.lengths, rule.y
    sizes = np.bincount(codes, minlength=rule.n_classes)
    share = 1.0 / (2.0 * np.square(sizes[codes], dtype=np.float64))
    same = codes[:, None] == codes
    halves = np.zeros((rule.n_classes, lengths.stack.n_sources + 1))
    if (examples := rule.examples) is not None:
        i, j = np.nonzero(same)
        parts = examples.parts_between(rule.labelled[i], rule.labelled[j])
        np.add.at(halves, codes[i], share[i][:, None] * parts)
        return halves
    if lengths.block is None:
        i, j = np.nonzero(same)
        known, values = rule.distances[0], lengths.edge_values
        if values is None or known.itemsize < values.itemsize:
            paths = bundle_paths(lengths, rule.labelled[i], rule.labelled[j])
        else:  # the distances of all items to the labelled ones say how the paths run
            paths = PathBundle(*traced_paths(lengths, rule.labelled[i], j, rule.labelled, known))
        number, u, v = paths.edges()
        s, flow = i[number], share[i[number]]
    else:
        trees = grow_trees(lengths, rule.labelled, n_jobs=rule.n_jobs)
        demand = np.zeros(trees.distances.shape)
        demand[:, rule.labelled] = same * share[:, None]
        flows = trees.edge_flow(demand, n_jobs=rule.n_jobs)
        s, v = np.nonzero(flows)
        u, flow = trees.predecessors[s, v].astype(np.int64), flows[s, v]
    parts = edge_parts(lengths, u, v)
    np.add.at(halves, codes[s], flow[:, None] * parts)
    return halves
