r"""Sources that have their data: dissimilarities of all items, and of new items to them.

:class:`ItemSource` is what a specification (:mod:`metricmix.dissimilarity.specs`) becomes, over the
items of :func:`~metricmix.fit` or over the rows of a feature table.

New items are *attached*: what was computed for the n items of the fit stays as it is, and the
dissimilarities of a new item x follow from its own data.

- *Columns*: the distance of its encoded cells, by the medians, categories and words of the fit.
- *Matrix*: its row is given.
- *Graphs* and *memberships*: see :mod:`metricmix.dissimilarity.relation_sources`.
- *Supervised*: what the classifiers of the fit say of it; see
  :mod:`metricmix.dissimilarity.learned_sources`.

A source is also known by its rows and by the values of pairs (:meth:`ItemSource.by_pairs`), so that
neither needs the matrix of all items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_metrics import check_metric_name
from metricmix.dissimilarity.feature_rows import FeatureRows, FeatureSource
from metricmix.dissimilarity.item_keys import keys_of, row_keys
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.nearest_items import NearestItems, nearest_items
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.exceptions import InputError
from metricmix.items.columns import Column
from metricmix.items.encoding import Encoding, encode
from metricmix.items.items import Items
from metricmix.items.relation import Memberships, Relation
from metricmix.typing import AnyArray, Floats, Indices, Keys

if TYPE_CHECKING:
    from metricmix.dissimilarity.relation_sources import Links

__all__ = [
    "ItemSource",
    "NewItemData",
    "SourceData",
    "TableSource",
    "known_shares",
    "little_data",
    "lowered",
    "shares_by_source",
    "view_of",
]

ANGLES = ("cosine", "angular", "correlation")
"""Metrics by which the nearest items are those at the smallest angle."""


@dataclass(frozen=True)
class NewItemData:
    """New items: their table, their edges by graph file, their rows by the name of the source.

    Edges go between new items, numbered from n on, and items of the fit, numbered up to n - 1.
    `memberships` are those in the things of the fit, (m, T), by file.
    """

    items: Items
    edges: dict[str, Relation]
    rows: dict[str, Floats]
    memberships: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceData:
    """What a source may be computed from.

    Attributes
    ----------
    items : Items
    columns : tuple of Column
        All columns, with their kinds.
    edges : Relation or Memberships, optional
        Those of its graph between items, numbered as in the table, or their memberships.
    values : (n, n) array, optional
        The entries of its matrix; None where only dissimilarities of new items are needed.
    shared : dict
        What several sources of the same items are computed from: encoded columns, views, graphs.
    """

    items: Items
    columns: tuple[Column, ...]
    edges: Relation | Memberships | None = None
    values: Floats | None = None
    shared: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` returned when it was first asked for under this key.

        Threads that ask for it at the same time wait for the first.
        """
        with self.shared.setdefault(("lock", key), RLock()):
            if key not in self.shared:
                self.shared[key] = make()
        return self.shared[key]

    def without_labels(self) -> dict[Any, Any]:
        """Return what is shared, less what is known of the labels."""
        return {key: one for key, one in self.shared.items() if key != "known"}

    def encoding(self, columns: Sequence[Column]) -> Encoding:
        """Return columns as features."""
        names = tuple(column.name for column in columns)
        found: Encoding = self.once(("columns", names), lambda: encode(self.items, columns))
        return found

    @property
    def keys(self) -> Keys:
        """What folds are dealt by, a number for each item: from its id.

        Where rows are only numbered, from their features, so that their order does not matter.
        """
        columns = [column for column in self.columns if column.kind != "ignore"]
        if self.items.id_column is not None or not columns:
            return keys_of(map(str, self.items.ids))
        return row_keys(self.encoding(columns).features, np.arange(len(self.items.ids)))


class ItemSource(ABC):
    """A source over n items.

    Attributes
    ----------
    spec : SourceSpec
        A :class:`~metricmix.dissimilarity.specs.TableSpec` of a feature table, which has no
        `items`; new items are a table there, too.
    n : int
    items : Items
    metric : str or None
        By which the rows of :attr:`table` are compared.
    needs_known : bool
        Whether dissimilarities of new items are computed from those of all items.
    joins_nearest : bool
        Whether sparse edges join items that are near by it; not by near-duplicates of others.
    """

    metric: str | None = None
    needs_known = False
    joins_nearest = False

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        self.spec, self.items, self.n = spec, data.items, len(data.items.ids)

    def __repr__(self) -> str:
        return f"<{self.spec!r} of {self.n} rows>"

    @abstractmethod
    def matrix(self) -> Floats:
        """Return the dissimilarities of all items, (n, n), with their facts if known."""

    def relabel(self, known: Known) -> ItemSource:
        """Return the source for the labels of a fit: itself, unless it is supervised."""
        return self

    @property
    def links(self) -> Links | None:
        """The graph that it is computed from, if there is one."""
        return None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        columns: tuple[Column, ...] = getattr(getattr(self, "base", self), "columns", ())
        return tuple(column.name for column in columns if column.kind != "ignore")

    @property
    def supervised(self) -> Source | None:
        """What a stack takes in place of the matrix, if it is computed from predictions."""
        return None

    def by_pairs(self) -> Source | None:
        """Return the source by rows and by values of pairs, at a cost that does not grow with n.

        Path lengths are bounded there: they end at four links, or at two that have lengths. None if
        a value takes those of all items.
        """
        return None

    def by_rows(self) -> Source | None:
        """Return the source by rows, with the values of :meth:`matrix`.

        None if a row takes those of all items.
        """
        return self.by_pairs()

    def known_entries(self, new: NewItemData | None) -> Floats | None:
        """Return which share of the entries of each item is known; None unless they are given."""
        return None

    @property
    def table(self) -> Any:
        """The rows that distances are computed from, dense or CSR; None if there are none."""
        return None

    def nearest(self, k: int) -> NearestItems | None:
        """Return the k nearest items of every item; None unless it is a table or a matrix."""
        return None

    def new_pairs(self, new: NewItemData, x: Indices, j: Indices) -> Floats:
        """Return the dissimilarities from new items x to items j elementwise, as in `by_pairs`."""
        return self.cross(new)[x, j]

    def cross(self, new: Any, known: Any = None) -> Floats:
        """Return the dissimilarities from m new items to all items, (m, n).

        `new` is NewItemData, or a feature table. `known` is what a fit holds of the source: what
        :meth:`matrix` returned, which path lengths need; or its source in the stack, which has the
        predictions for the labels of the fit. InputError if the kind does not support new items.
        """
        raise InputError(
            f"sources of kind {self.spec.kind!r} do not support new items",
            argument=f"source {self.spec.name!r}",
            remedy="put them into the table with an empty label, and fit again",
        )


class UnusedSource(ItemSource):
    """A source that is not computed for new items: 0 from each of them."""

    def matrix(self) -> Floats:
        """Return zeros."""
        return np.zeros((self.n, self.n))

    def cross(self, new: NewItemData, known: Any = None) -> Floats:
        """Return zeros."""
        return np.zeros((len(new.items.ids), self.n))


class TableSource(ItemSource):
    """Distances between the rows of a table: a view of the items.

    Models are fitted to the same rows, and near items are found by them.
    """

    metric: Any
    joins_nearest = True

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        data.shared.setdefault(view_key(spec), self)

    @property
    @abstractmethod
    def table(self) -> Any:
        """The rows of all items, (n, d), dense or CSR."""

    @abstractmethod
    def new_rows(self, new: Any) -> Any:
        """Return the rows of new items, (m, d)."""

    @cached_property
    def distances(self) -> FeatureRows:
        """The distances of the rows, in their own precision."""
        check_metric_name(self.metric)
        return FeatureRows(self.table, self.metric, {})

    def matrix(self) -> DissimilarityMatrix:
        """Return the distances of all items."""
        return self.distances.matrix()

    def by_pairs(self) -> Source | None:
        """Return the distances of the rows."""
        return FeatureSource(self.distances, name=self.spec.name)

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the rows, at the smallest distance or angle."""
        how = "cosine" if self.metric in ANGLES else "euclidean"
        return nearest_items(self.table, k, how)

    def cross(self, new: Any, known: Any = None) -> Floats:
        """Return the distances from the rows of new items."""
        return np.asarray(self.distances.cross(self.new_rows(new)))


LITTLE = 0.5
"""Share of its data below which an item is named."""
SHOWN = 3
"""Items of little data that are named."""


def known_shares(
    sources: Sequence[ItemSource], weights: Floats, new: NewItemData | None = None
) -> Floats:
    r"""Return which share of the data that sources are computed from is known of each item, (n,).

    .. math:: k_i = \textstyle\sum_r |\alpha_r|\, k_{ri} / \sum_r |\alpha_r|

    with the weights :math:`\alpha` of the sources and the share :math:`k_{ri}` of the data of
    source r (:func:`shares_by_source`). With `new`, shares of the new items.
    """
    by_source, size = shares_by_source(sources, new), np.abs(weights)
    size = size if size.sum() > 0 else np.ones(len(sources))
    return np.asarray(size @ by_source / size.sum())


def shares_by_source(sources: Sequence[ItemSource], new: NewItemData | None = None) -> Floats:
    """Return which share of the data of each source is known of each item, (R, n).

    Columns count the same, all counts together as one. A graph or file of memberships is known of
    an item that has an edge in it, and counts as much as all columns together. Of a matrix, the
    entries of the item count.
    """
    items = sources[0].items if new is None else new.items
    shares = np.ones((len(sources), len(items.ids)))
    known: dict[str, AnyArray] = {}
    for r, source in enumerate(sources):
        by_unit: dict[str, list[AnyArray]] = {}
        for column in getattr(getattr(source, "base", source), "columns", ()):
            if column.name not in known:
                known[column.name] = items.known(column.name)
            unit = "" if column.kind == "count" else f"column {column.name}"
            by_unit.setdefault(unit, []).append(known[column.name])
        columns = [np.mean(some, axis=0) for some in by_unit.values()]
        parts = [np.mean(columns, axis=0)] if columns else []
        if source.links is not None:
            parts.append(source.links.linked(new))
        if parts:
            shares[r] = np.mean(parts, axis=0)
        entries = source.known_entries(new)
        if entries is not None:
            shares[r] = entries
    return shares


def lowered(probabilities: Floats, shares: Floats) -> Floats:
    r"""Return class probabilities (n, C), those of items of little data nearer to equal ones.

    .. math:: p_c \leftarrow p_c^{\sqrt k} / \textstyle\sum_b p_b^{\sqrt k}

    with the share k of their data that is known: equal probabilities if nothing is. What is
    predicted stays. If all data says the same, any part of it gives the odds in full; if each
    part adds its own evidence, log odds are worth k of what they say. The root lies between.

    >>> lowered(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([1.0, 0.25])).round(3).tolist()
    [[0.9, 0.1], [0.75, 0.25]]
    """
    odds = probabilities / probabilities.max(axis=1, keepdims=True)
    powers = odds ** np.sqrt(shares)[:, None]
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def little_data(ids: Sequence[str], shares: Floats, *, numbers: bool) -> Iterator[str]:
    """Yield a remark on the items of which less than half of the data is known.

    >>> next(little_data("abc", np.array([1.0, 0.2, 0.9]), numbers=False))
    'less than half of the data that the sources need is known for b: lower confidence'
    """
    few = [ids[k] for k in np.flatnonzero(shares < LITTLE).tolist()]
    if few:
        more = f" and {len(few) - SHOWN:,} more items" if len(few) > SHOWN else ""
        so = "the prediction is unreliable" if numbers else "lower confidence"
        yield (
            "less than half of the data that the sources need is known for "
            f"{', '.join(few[:SHOWN])}{more}: {so}"
        )


def view_of(spec: SourceSpec, data: SourceData, usual: str) -> TableSource:
    """Return the rows that a source is computed from: those of the kind `spec.view`, or usual."""
    names = [
        said.name
        for said in KINDS.declarations(view=True)
        if {*said.facts["needs"]} <= {*spec.facts["needs"]}
    ]
    if spec.view is not None and spec.view not in names:
        raise InputError(
            argument=f"source {spec.name!r}, view",
            expected=f"one of {', '.join(names)}",
            found=f"{spec.view!r}",
        )
    viewed = replace(spec, kind=spec.view or usual, view=None)
    view: TableSource = data.once(view_key(viewed), lambda: viewed.bind(data))
    return view


def view_key(spec: SourceSpec) -> tuple[str, tuple[str, ...]]:
    """Return what the rows of a view depend on: all that is stated but its name."""
    return str(replace(spec, name="")), spec.columns
