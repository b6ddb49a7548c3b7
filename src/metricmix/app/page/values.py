"""The content of a page, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metricmix.typing import Floats, Indices

__all__ = [
    "Accuracy",
    "ConfusionMatrix",
    "EmbeddedPaths",
    "Example",
    "LocalWeights",
    "MetricCheck",
    "ObjectiveCurve",
    "PageContent",
    "PageItems",
    "View",
    "Weight",
]

MAX_ITEMS = 65535
"""Item numbers are embedded as 16 bits, pairs as 32."""


@dataclass(frozen=True)
class PageItems:
    """All items, in the order of every other array.

    Attributes
    ----------
    ids : n texts
    classes : C texts
    labels : (n,) array of class numbers
        The label of every item, given or predicted.
    given : (n,) array of bool
        Whether the label was given.
    misfit : (n,) array of bool
        Whether the rule predicts another label than the given one.
    about : n texts, or none
        What each item is called besides its id: a title, a name.
    confidence : (n,) array, optional
        The probability that the rule gives to the label of each item.
    prefers : (n,) array of class numbers, optional
        The class that the rule predicts for each item.
    nearest : (n,) array of item numbers, optional
        The nearest item with a given label, other than itself; -1 where there is none.
    target, predicted : (n,) arrays, optional
        Of a numeric target: its value, given or predicted, and what the rule predicts without the
        item's own. The classes are then ranges of the target, from low to high.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    labels: NDArray[np.integer]
    given: NDArray[np.bool_]
    misfit: NDArray[np.bool_]
    about: tuple[str, ...] = ()
    confidence: NDArray[np.floating] | None = None
    prefers: NDArray[np.integer] | None = None
    nearest: NDArray[np.integer] | None = None
    target: NDArray[np.floating] | None = None
    predicted: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class View:
    """One map of the items: its name, and (n, 2) coordinates.

    `chains` says that it shows the distances along the nearest items, whose paths are `chains` of
    the page.
    """

    name: str
    coordinates: NDArray[np.floating]
    chains: bool = False


@dataclass(frozen=True)
class Weight:
    """The weight of a source, and the ends of its interval where there is one.

    `about` says in a few words what the source compares.
    """

    name: str
    value: float
    lower: float | None = None
    upper: float | None = None
    about: str = ""


@dataclass(frozen=True)
class LocalWeights:
    """The weights of the sources in each region, where they are local.

    Attributes
    ----------
    regions : C texts
    values : (C, R) array
        In the order of the weights of the page.
    """

    regions: tuple[str, ...]
    values: Floats


@dataclass(frozen=True)
class EmbeddedPaths:
    """Shortest paths of chosen pairs, and the contributions to the edges that they use.

    Attributes
    ----------
    n_items : int
    pairs : (P,) array, ascending
        ``i * n + j``, with i < j unless `directed`.
    lengths : (P,) array
    indptr, between : (P + 1,) and (total,) arrays
        Path p goes from i through ``between[indptr[p]:indptr[p + 1]]`` to j.
    edges : (E,) array, ascending
        Keys of edges, as `pairs`.
    edge_lengths : (E,) array
    parts : (E, R) array
        What each source contributes to the length of an edge.
    link : float
        What the link adds to every edge.
    complete : bool
        Whether all pairs are embedded.
    """

    n_items: int
    pairs: Indices
    lengths: Floats
    indptr: Indices
    between: Indices
    edges: Indices
    edge_lengths: Floats
    parts: Floats
    link: float
    directed: bool
    complete: bool

    def nodes(self, i: int, j: int) -> Indices:
        """Return the items on the path from i to j, whose pair is one of `pairs`."""
        swapped = not self.directed and i > j
        a, b = (j, i) if swapped else (i, j)
        p = int(np.searchsorted(self.pairs, a * self.n_items + b))
        nodes = np.concatenate([[a], self.between[self.indptr[p] : self.indptr[p + 1]], [b]])
        return nodes[::-1] if swapped else nodes


@dataclass(frozen=True)
class Example:
    """The path on which a page opens, and what is surprising about it.

    Attributes
    ----------
    kind : "detour", "shortcut", "source", "misfit" or "nearest"
        As :mod:`metricmix.app.page.page_paths` describes them.
    items : pair of item numbers
    nearer : float
        Of a detour or a source: the share of pairs that are farther apart in the learned metric.
    farther : float
        The share of pairs that are nearer in every source, or in `source`.
    source, brought_by : int
        Numbers of the source that puts the items far apart, and of the one that brings them
        together.
    direct : float
        Of a shortcut: the length of the edge between the two items.
    """

    kind: str
    items: tuple[int, int]
    nearer: float = 0.0
    farther: float = 0.0
    source: int = -1
    brought_by: int = -1
    direct: float = 0.0


@dataclass(frozen=True)
class ObjectiveCurve:
    """The objective over the iterations, and why the solver stopped."""

    iteration: tuple[int, ...]
    objective: tuple[float, ...]
    status: str


@dataclass(frozen=True)
class ConfusionMatrix:
    """Number of items of a class (rows) that were predicted as a class (columns), (C, C)."""

    counts: NDArray[np.integer]
    how: str


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a method, and the ends of its interval where there is one.

    `single` marks one source alone: these are listed apart from the methods.
    """

    name: str
    value: float
    lower: float | None = None
    upper: float | None = None
    single: bool = False


@dataclass(frozen=True)
class MetricCheck:
    """Whether the distances satisfy the axioms of a metric.

    Attributes
    ----------
    violation : float
        The largest violation of a triangle inequality.
    triangles : int
        Number of inequalities checked.
    holds : bool
        Whether that is rounding, and all other axioms hold too.
    """

    violation: float
    triangles: int
    holds: bool = True


@dataclass(frozen=True)
class PageContent:
    """Everything on a page; what is None or empty is left out of it.

    `intervals` says in a sentence what the intervals of the weights are; `command` is the one that
    made the page; `facts` are names and values that say how, in the order in which they are shown;
    `sample_of` is the number of all items, where the page shows a sample of them; `chains` are
    paths along the nearest items of each item; `phrases` say edges in words, by their keys
    ``i * n + j``, with i < j unless directed; `headline` says how the metric does beside simpler
    methods; the page opens on the path of `example`.
    """

    title: str
    items: PageItems
    views: tuple[View, ...]
    weights: tuple[Weight, ...]
    paths: EmbeddedPaths | None = None
    convergence: ObjectiveCurve | None = None
    confusion: ConfusionMatrix | None = None
    accuracies: tuple[Accuracy, ...] = field(default=())
    metric_check: MetricCheck | None = None
    intervals: str | None = None
    command: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    local_weights: LocalWeights | None = None
    sample_of: int | None = None
    chains: EmbeddedPaths | None = None
    phrases: Mapping[int, str] = field(default_factory=dict)
    headline: str | None = None
    example: Example | None = None
