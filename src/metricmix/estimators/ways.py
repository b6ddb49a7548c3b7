r"""The ways from one item to the labelled ones, and what the sources contribute to them.

The score of a class under the rule "class-mean" is linear in distances,

.. math:: s_c(x) = \frac{1}{|c|} \sum_{i \in c} d(x, i)
          - \frac{1}{2 |c|^2} \sum_{i, j \in c} d(i, j)

and each distance is a sum over sources (:mod:`metricmix.estimators.attribution`), so the score is
one too: the same means, taken of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.attribution import Contributions, column, edge_parts
from metricmix.estimators.rules import ClassMean, Rule
from metricmix.objectives.class_means import class_mean_scores
from metricmix.paths.forest import search_forest
from metricmix.paths.outside import NewItems
from metricmix.paths.pair import Path, bundle_paths
from metricmix.paths.trees import grow_trees

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NEW",
    "ClassScores",
    "Ways",
    "id_of",
    "take_scores_apart",
    "ways_from_member",
    "ways_from_outside",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
NEW = "new item"
"""What an item is called that was not in the fit."""
LABELS_TAKEN_APART = 500
"""Up to this many labelled items, the distances between them are taken apart by source too."""
_HALVES: WeakKeyDictionary[ClassMean, Floats] = WeakKeyDictionary()
"""Half means of the parts, per rule: the same for all items that are explained."""


@dataclass(frozen=True, eq=False)
class Ways:
    """Shortest paths from one item to labelled items.

    Attributes
    ----------
    rule : Rule
    paths : list of T Path
    new : int, optional
        The number of an item that was not in the fit.
    row : (R, n) array, optional
        Its raw dissimilarities, if it is not in the stack either.
    """

    rule: Rule
    paths: list[Path]
    new: int | None = None
    row: NDArray[Any] | None = None

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
            return number, edge_parts(lengths, lengths.stack.raw_pairs(u, v))
        outside = u == self.new
        raw = lengths.stack.raw_pairs(np.where(outside, 0, u), v)
        return number, edge_parts(lengths, np.where(outside, self.row[:, v], raw))

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


@dataclass(frozen=True, eq=False)
class ClassScores:
    """The scores of the rule "class-mean", by source: distances to the means of the classes.

    Attributes
    ----------
    classes : list of C labels
    columns : list of K names
        The sources and "link"; with more than 500 labelled items also "within", what the distances
        within the class take off its score, whatever their source.
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
        table[column("score", self.columns)] = self.scores
        return table


def id_of(stack: DissimilarityStack, item: int) -> Any:
    """Return the id of an item, as a Python object."""
    return stack.items[item : item + 1].tolist()[0]


def ways_from_member(rule: Rule, item: int, new: int | None = None) -> Ways:
    """Return the ways from an item of the stack to all labelled ones: one tree.

    Where rows have to be computed, pair by pair: a tree would ask for all of them, one at a time.
    """
    if rule.lengths.block is None:
        start = np.full(len(rule.labelled), item)
        return Ways(rule, list(bundle_paths(rule.lengths, start, rule.labelled)), new)
    tree = grow_trees(rule.lengths, np.array([item]), n_jobs=rule.n_jobs)
    return Ways(rule, [tree.path(0, j) for j in rule.labelled.tolist()], new)


def ways_from_outside(rule: Rule, new: NewItems, row: NDArray[Any], k: int) -> Ways:
    r"""Return the ways from a new item, :math:`d(x, j) = \min_u w(x, u) + d(u, j)`.

    Under the rule "class-mean" those to all labelled items, else those to the k nearest.
    """
    lengths = rule.lengths
    if isinstance(rule, ClassMean):
        targets, into = rule.labelled, rule.to_labelled
    else:
        targets = new.nearest(rule.codes >= 0, min(k, len(rule.labelled)))[1][0]
        searches = [
            search_forest(lengths, targets[t : t + 1], reverse=lengths.directed)
            for t in range(len(targets))
        ]
        into = np.stack([search.distances for search in searches], axis=1)
    edges = new.edges()[0]
    doors = (edges[:, None] + into).argmin(axis=0)
    rest = bundle_paths(lengths, doors, targets, n_jobs=rule.n_jobs)
    paths = [
        Path(float(edges[path.nodes[0]]) + path.length, (lengths.n, *path.nodes)) for path in rest
    ]
    return Ways(rule, paths, lengths.n, row)


def take_scores_apart(rule: ClassMean, ways: Ways, classes: list[Any]) -> ClassScores:
    """Return the scores by source of the item whose ways to all labelled items are `ways`."""
    codes, names = rule.codes[rule.labelled], rule.lengths.stack.names
    parts = ways.parts.T
    columns = [*names, column("link", names)]
    if len(codes) > LABELS_TAKEN_APART:
        means = class_mean_scores(parts, codes, rule.n_classes).T
        columns.append(column("within", names))
        return ClassScores(classes, columns, np.column_stack([means, -rule.within]))
    if rule not in _HALVES:
        _HALVES[rule] = _half_means_of_parts(rule)
    means = class_mean_scores(parts, codes, rule.n_classes, _HALVES[rule].T).T
    return ClassScores(classes, columns, means)


def _half_means_of_parts(rule: ClassMean) -> Floats:
    """Return half of the mean parts of the distances within each class, (C, R + 1)."""
    lengths, codes = rule.lengths, rule.codes[rule.labelled]
    sizes = np.bincount(codes, minlength=rule.n_classes)
    share = 1.0 / (2.0 * np.square(sizes[codes], dtype=np.float64))
    same = codes[:, None] == codes
    halves = np.zeros((rule.n_classes, lengths.stack.n_sources + 1))
    if lengths.block is None:
        i, j = np.nonzero(same)
        paths = bundle_paths(lengths, rule.labelled[i], rule.labelled[j])
        number, u, v = paths.edges()
        s, flow = i[number], share[i[number]]
    else:
        trees = grow_trees(lengths, rule.labelled, n_jobs=rule.n_jobs)
        demand = np.zeros(trees.distances.shape)
        demand[:, rule.labelled] = same * share[:, None]
        flows = trees.edge_flow(demand, n_jobs=rule.n_jobs)
        s, v = np.nonzero(flows)
        u, flow = trees.predecessors[s, v].astype(np.int64), flows[s, v]
    parts = edge_parts(lengths, lengths.stack.raw_pairs(u, v))
    np.add.at(halves, codes[s], flow[:, None] * parts)
    return halves
