r"""Which source a distance comes from.

A distance is the length of a shortest path, and the length of an edge comes from the mixture m of
its sources through the link. A source is credited with the line integral of the derivative, from
weights 0 to the weights :math:`\alpha` (Aumann and Shapley):

.. math:: \phi_r = \int_0^1 \alpha_r M_r \, \mathrm{link}'(t\,m) \, dt
          = \alpha_r M_r \, \frac{\mathrm{link}(m) - \mathrm{link}(0)}{m}, \qquad
          m = \sum_r \alpha_r M_r

What remains, :math:`\mathrm{link}(0) = \log 2 / \beta`, is the length of an edge about which no
source says anything: it belongs to the link. So :math:`\sum_r \phi_r + \mathrm{link}(0)` is the
length of the edge, and over the edges of a path it is the distance. (Before the link, m is divided
by its sources as it is: the identity link has :math:`\phi_r = \alpha_r M_r`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.rules import ClassMean, Rule
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.objectives.class_means import class_mean_scores
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.pair import Path, bundle_paths, shortest_path
from metricmix.paths.trees import grow_trees
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NEW",
    "ClassScores",
    "Contributions",
    "Ways",
    "column",
    "contributions",
    "edge_parts",
    "id_of",
    "in_order",
    "place_of",
    "take_scores_apart",
    "ways_from_member",
    "ways_from_outside",
]


NEAR_ZERO = 1e-5
"""Below this, the slope of the chord is taken from its series; what is left out is below 1e-17."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """How much each source contributes to a distance.

    Attributes
    ----------
    path : Path
        The shortest path, by item numbers. (A new item has the number n.)
    nodes : tuple
        The same items by their ids.
    sources : tuple of str
    edges : (E, R) array
        What each source contributes to each edge; negative where it makes the edge shorter.
    link : (E,) array
        What an edge would measure if no source said anything.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 3.0])
    >>> line = abs(place[:, None] - place)
    >>> stack = mm.DissimilarityStack({"line": line, "square": line**2}, items=["a", "b", "c"])
    >>> print(contributions(stack, mm.Mixture([1.0, 0.5], link="identity"), "a", "c"))
    a -> b -> c: 5.5
      line   +3
      square +2.5
    """

    path: Path
    nodes: tuple[Any, ...]
    sources: tuple[str, ...]
    edges: Floats
    link: Floats

    @property
    def length(self) -> float:
        """The distance."""
        return self.path.length

    @property
    def totals(self) -> dict[str, float]:
        """What each source, and last the link, contributes to the distance; they add up to it."""
        parts = dict(zip(self.sources, self.edges.sum(axis=0).tolist(), strict=True))
        return {**parts, column("link", self.sources): float(self.link.sum())}

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per edge: from, to, a column per source, link, length.

        A column that has the name of a source is called ``link_``, ``length_``, ….
        """
        import pandas as pd

        table: dict[str, Any] = {
            column("from", self.sources): self.nodes[:-1],
            column("to", self.sources): self.nodes[1:],
            **dict(zip(self.sources, self.edges.T, strict=True)),
            column("link", self.sources): self.link,
            column("length", self.sources): self.edges.sum(axis=1) + self.link,
        }
        return pd.DataFrame(table)

    def __str__(self) -> str:
        parts = [(name, value) for name, value in in_order(self.totals) if value != 0.0]
        width = max((len(name) for name, _ in parts), default=0)
        way = " -> ".join(map(str, self.nodes))
        return "\n".join(
            [f"{way}: {self.length:.4g}"]
            + [f"  {name:<{width}} {value:+.3g}" for name, value in parts]
        )


def contributions(stack: DissimilarityStack, mixture: Any, i: Any, j: Any) -> Contributions:
    """Return how much each source contributes to the distance from item `i` to item `j`.

    Parameters
    ----------
    stack : DissimilarityStack
    mixture : Mixture, solver result, array of R weights, or mapping of source names to weights
    i, j
        Ids of the items; their numbers, where the stack has no ids.

    Notes
    -----
    One shortest-path search, O(R n) as a rule.
    """
    if not isinstance(stack, DissimilarityStack):
        raise InputError(
            argument="stack",
            expected="a DissimilarityStack, whose sources have names",
            found=type(stack).__name__,
        )
    lengths = edge_lengths(stack, mixture)
    path = shortest_path(lengths, None, place_of(stack, i, "i"), place_of(stack, j, "j"))
    u, v = np.array(path.edges, dtype=np.int64).reshape(-1, 2).T
    parts = edge_parts(lengths, stack.raw_pairs(u, v))
    nodes = tuple(stack.items[list(path.nodes)].tolist())
    return Contributions(path, nodes, stack.names, parts[:, :-1], parts[:, -1])


def edge_parts(lengths: EdgeLengths, raw: NDArray[Any]) -> Floats:
    """Return the parts of the lengths of E edges, (E, R + 1): the sources', and last the link's.

    Parameters
    ----------
    lengths : EdgeLengths
    raw : (R, E) array
        Values of the sources on the edges, not divided by their scales.
    """
    mixed = lengths.raw_weights * raw.T.astype(np.float64, copy=False)
    if lengths.mixture.link == "identity":
        return np.column_stack([mixed, np.zeros(len(mixed))])
    slope = chord_slope(mixed.sum(axis=1), lengths.beta)
    return np.column_stack(
        [mixed * slope[:, None], np.full(len(mixed), np.log(2.0) / lengths.beta)]
    )


def chord_slope(m: Floats, beta: float) -> Floats:
    r"""Return the slope of the softplus between 0 and `m`, accurate everywhere.

    .. math:: \frac{\mathrm{softplus}_\beta(m) - \mathrm{softplus}_\beta(0)}{m}
              = \frac{1}{m} \Big( \max(m, 0)
              + \tfrac{1}{\beta} \log \frac{1 + e^{-\beta |m|}}{2} \Big)
              = \tfrac12 + \tfrac{\beta m}{8} + O(m^3)

    >>> chord_slope(np.array([-1e6, 0.0, 1e-12, 1e6]), 1.0).round(4)
    array([0. , 0.5, 0.5, 1. ])
    """
    near = np.abs(beta * m) < NEAR_ZERO
    safe = np.where(near, 1.0, m)
    rise = np.maximum(safe, 0.0) + np.log1p(np.expm1(-beta * np.abs(safe)) / 2.0) / beta
    return np.where(near, 0.5 + beta * m / 8.0, rise / safe)


def place_of(stack: DissimilarityStack, item: Any, name: str) -> int:
    """Return the number of the item called `item`."""
    try:
        return int(stack.positions([item])[0])
    except InputError:
        kind = "the id of an item" if stack.has_items else f"0 .. {stack.n_items - 1}"
        raise InputError(
            argument=name, expected=f"{kind} of the stack", found=f"{item!r}"
        ) from None


def column(name: str, sources: Sequence[str]) -> str:
    """Return a name for a column beside those of the sources, which may have taken it.

    >>> column("link", ["words", "link"])
    'link_'
    """
    while name in sources:
        name += "_"
    return name


def in_order(parts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the parts by size, sign aside, the largest first."""
    return sorted(parts.items(), key=lambda part: -abs(part[1]))


# -- the ways from one item to the labelled ones, and what the sources contribute to them -------

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
            dijkstra(lengths, targets[t : t + 1], reverse=lengths.directed)
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
