"""Why an item has its label: the labelled items near it, the paths to them, and the sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.attribution import (
    Contributions,
    by_size,
    edge_parts,
    item_position,
    split_lengths,
    unused_name,
)
from metricmix.estimators.rules import ClassMean, FittedRule
from metricmix.exceptions import InputError
from metricmix.objectives.class_means import class_mean_scores
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.pair import Path, PathBundle, bundle_paths
from metricmix.paths.sparse_bundle import traced_paths
from metricmix.paths.trees import grow_trees
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["ClassScores", "Explanation", "Neighbour", "explain"]

NEW = "new item"
"""What an item is called that was not in the fit."""
SHOWN = 5
"""Sources that a line of text names; the others are summed."""
LABELS_BY_SOURCE = 500
"""Up to this many labelled items, the distances between them are split by source too."""


@dataclass(frozen=True)
class Neighbour:
    """A labelled item near the one explained: its id, label and distance, and where that is from.

    Attributes
    ----------
    item, label : id and class
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
        return f"{self.item} ({self.label!r}) at {self.distance:.3g}{through}"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why an item has its label.

    Attributes
    ----------
    item, label : id and class
    given : bool
        Whether the label was given with the item, or found by the rule.
    rule : str
    classes : list of C labels
    probabilities : (C,) array
        What the rule makes of the item, also where its label was given.
    nearest : tuple of Neighbour
        The nearest labelled items but itself, nearest first.
    scores : ClassScores or None
        For the rule "class-mean".
    """

    item: Any
    label: Any
    given: bool
    rule: str
    classes: list[Any]
    probabilities: Floats
    nearest: tuple[Neighbour, ...]
    scores: ClassScores | None = None

    @property
    def runner_up(self) -> Any:
        """The likeliest of the other classes."""
        others = [c for c in range(len(self.classes)) if self.classes[c] != self.label]
        return self.classes[max(others, key=lambda c: float(self.probabilities[c]))]

    def probability(self, label: Any) -> float:
        """Return the probability of a class."""
        return float(self.probabilities[self.classes.index(label)])

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the nearest labelled items: item, label, distance, and its parts.

        ``scores.to_frame()`` is the table of the classes.
        """
        import pandas as pd

        rows = []
        for neighbour in self.nearest:
            parts = neighbour.contributions.totals
            about = {
                unused_name("item", list(parts)): neighbour.item,
                unused_name("label", list(parts)): neighbour.label,
                unused_name("distance", list(parts)): neighbour.distance,
            }
            rows.append({**about, **parts})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        def listed(parts: dict[str, float]) -> str:
            """Return parts in a line, the largest first."""
            sizes = by_size(parts)
            words = [f"{name} {value:+.2g}" for name, value in sizes[:SHOWN]]
            if sizes[SHOWN:]:
                words.append(f"others {sum(value for _, value in sizes[SHOWN:]):+.2g}")
            return ", ".join(words)

        how = "as given" if self.given else f"by the rule {self.rule!r}"
        name = self.item if self.item == NEW else f"item {self.item}"
        lines = [f"{name} is {self.label!r} ({self.probability(self.label):.2f}), {how}"]
        if self.nearest:
            lines.append("nearest labelled: " + ", ".join(map(str, self.nearest)))
        other = self.runner_up
        if self.scores is not None:
            rank = "the runner-up"
            if self.probability(other) > self.probability(self.label):
                rank = "which the rule prefers"
            odds = listed(self.scores.log_odds(self.label, other))
            lines.append(f"for {self.label!r} rather than {other!r}, {rank}: {odds}")
        elif self.nearest:
            first = self.nearest[0]
            lines.append(f"distance to {first.item}: {listed(first.contributions.totals)}")
        return "\n".join(lines)


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


def explain(
    model: MetricMixtureClassifier, i: Any = None, *, X: Any = None, k: int = 3
) -> Explanation:
    """Return why an item has its label.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier or MetricMixtureClassifierCV
    i
        An item of its stack: its id, or its number where the stack has no ids.
    X : one row, as ``predict`` takes it
        A new item, instead of `i`; the first edge of its paths then starts outside the stack.
    k : int
        Nearest labelled items to tell of.

    Notes
    -----
    One shortest-path tree; for the rule "class-mean" and up to 500 labelled items, once, also those
    of the labelled items.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 5.0, 6.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> y = ["low", "low", "high", "high", ""]
    >>> print(explain(mm.MetricMixtureClassifier().fit(stack, y), 4, k=2))
    item 4 is 'low' (...), by the rule 'class-mean'
    nearest labelled: 1 ('low') at ..., 0 ('low') at ...
    for 'low' rather than 'high', the runner-up: line +..., link +0, offset +0
    """
    check_is_fitted(model)
    if hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    if not hasattr(model, "predict_proba"):
        raise InputError(argument="model", expected="a classifier", found=type(model).__name__)
    check_integer(k, name="k", low=1)
    if (i is None) == (X is None):
        raise InputError("i, X: expected an item of the stack, or one new row; pass one of them")
    stack = model.stack_
    if X is not None:
        members = model._input.members(X)
        p = model.predict_proba(X)
        if len(p) != 1:
            raise InputError(argument="X", expected="one item to explain", found=len(p))
        if members is None:
            label = model.classes_[p.argmax(axis=1)].tolist()[0]
            return describe(model, (NEW, label, False), p[0], paths_from_new_item(model, X, k), k)
        position = int(members[0])
    else:
        position = item_position(stack, i, "i")
    label = model.transduction_[position : position + 1].tolist()[0]
    about = (id_of(stack, position), label, bool(model._codes[position] >= 0))
    paths = paths_from_item(model._rule, position)
    return describe(model, about, model._rule.probabilities[position], paths, k, position)


def describe(
    model: MetricMixtureClassifier,
    about: tuple[Any, Any, bool],
    probabilities: Floats,
    paths: LabelPaths,
    k: int,
    besides: int = -1,
) -> Explanation:
    """Return the explanation of an item from its paths to labelled items, `besides` left out.

    `about` are the item, its label, and whether that was given.
    """
    fit, classes = paths.rule, model.classes_.tolist()
    targets, distances = paths.targets, paths.distances
    order = [t for t in np.argsort(distances, kind="stable").tolist() if targets[t] != besides]
    nearest = tuple(
        Neighbour(
            id_of(model.stack_, int(targets[t])),
            classes[fit.codes[targets[t]]],
            float(distances[t]),
            paths.contributions(t),
        )
        for t in order[:k]
    )
    scores = class_scores(paths, classes) if type(fit.rule) is ClassMean else None
    return Explanation(*about, fit.rule.name, classes, probabilities, nearest, scores)


def id_of(stack: DissimilarityStack, item: int) -> Any:
    """Return the id of an item, as a Python object."""
    return stack.items[item : item + 1].tolist()[0]


# -- paths to the labelled items -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelPaths:
    """Shortest paths from one item to labelled items.

    Attributes
    ----------
    rule : FittedRule or FittedRegression
    paths : list of T Path
    new : int, optional
        The number that the paths use for an item that was not in the fit.
    row : (R, n) array, optional
        Its raw dissimilarities, if it is not in the stack either.
    weights : (R,) array, optional
        Its weights, where these are local.
    """

    rule: Any
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
        weights = lengths.edge_weights(u, v, raw)
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


def paths_from_item(rule: Any, item: int, new: int | None = None) -> LabelPaths:
    """Return the paths from an item of the stack to all labelled ones: one tree.

    Where rows have to be computed, pair by pair: a tree would ask for all of them, one at a time.
    """
    if rule.lengths.block is None and rule.lengths.edges is None:
        start = np.full(len(rule.labelled), item)
        return LabelPaths(rule, list(bundle_paths(rule.lengths, start, rule.labelled)), new)
    tree = grow_trees(rule.lengths, np.array([item]), n_jobs=rule.n_jobs)
    return LabelPaths(rule, [tree.path(0, j) for j in rule.labelled.tolist()], new)


def paths_from_new_item(model: Any, X: Any, k: int) -> LabelPaths:
    r"""Return the paths from a new item, :math:`d(x, j) = \min_u w(x, u) + d(u, j)`.

    Under the rule "class-mean" those to all labelled items, else those to the k nearest.
    """
    n, rule = model.stack_.n_items, model._rule
    if model.new_items == "augmented":
        return paths_from_item(next(model._augmented_rules(X)), n, n)
    rows = next(model._new_rows(X))
    new = model._join_rows(rows)
    if new.same[0] >= 0:  # no source distinguishes it from that item
        return paths_from_item(rule, int(new.same[0]))
    lengths = rule.lengths
    if isinstance(rule.rule, ClassMean):
        targets, to_targets = rule.labelled, rule.distances[0]
    else:
        targets = new.nearest(rule.codes >= 0, min(k, len(rule.labelled)))[1][0]
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


# -- the rule "class-mean", by source --------------------------------------------------------------

_WITHIN: WeakKeyDictionary[FittedRule, Floats] = WeakKeyDictionary()
"""Results of :func:`within_by_source`, the same for all items that are explained."""


def class_scores(paths: LabelPaths, classes: list[Any]) -> ClassScores:
    """Return the scores by source of the item whose paths to all labelled items are given."""
    rule = paths.rule
    codes, names = rule.codes[rule.labelled], rule.lengths.stack.names
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
    lengths, codes = rule.lengths, rule.codes[rule.labelled]
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
