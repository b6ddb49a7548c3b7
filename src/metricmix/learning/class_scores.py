"""The scores of the rule "class-mean", by source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from metricmix.learning.label_paths import LabelPaths
from metricmix.learning.rules import ClassMean, FittedRule
from metricmix.objectives.class_scores import class_mean_scores
from metricmix.paths.contributions import edge_parts, unused_name
from metricmix.paths.pair import PathBundle, bundle_paths
from metricmix.paths.sparse_bundle import traced_paths
from metricmix.paths.trees import grow_trees
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassScores", "class_scores"]

LABELS_BY_SOURCE = 500
"""Up to this many labelled items, the distances between them are split by source too."""


@dataclass(frozen=True, eq=False)
class ClassScores:
    """The scores of the rule "class-mean", by source: distances to the means of the classes.

    Attributes
    ----------
    classes : list of C labels
    columns : list of K names
        The sources and "link"; "offset", where the rule has offsets or shares of labels; with more
        than 500 labelled items "within", what the distances within the class and its offset take
        off its score.
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
    parts = paths.parts.T
    columns = [*names, unused_name("link", names)]
    if len(codes) > LABELS_BY_SOURCE:
        means = class_mean_scores(parts, codes, rule.n_classes).T
        columns.append(unused_name("within", names))
        return ClassScores(classes, columns, np.column_stack([means, -rule.distances[1]]))
    if rule not in _WITHIN:
        _WITHIN[rule] = within_by_source(rule)
    within = _WITHIN[rule]
    means = class_mean_scores(parts, codes, rule.n_classes, within.T).T
    if isinstance(rule.rule, ClassMean) and rule.rule.shifts_classes:
        columns.append(unused_name("offset", names))
        means = np.column_stack([means, within.sum(axis=1) - rule.distances[1]])
    return ClassScores(classes, columns, means)


def within_by_source(rule: FittedRule) -> Floats:
    """Return half of the mean distances within each class, by source and link, (C, R + 1)."""
    lengths, codes = rule.lengths, rule.y
    sizes = np.bincount(codes, minlength=rule.n_classes)
    share = 1.0 / (2.0 * np.square(sizes[codes], dtype=np.float64))
    same = codes[:, None] == codes
    halves = np.zeros((rule.n_classes, lengths.stack.n_sources + 1))
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
