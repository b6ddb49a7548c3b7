r"""Sources computed from files: dissimilarities of all items, and of new items to them.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.features import FeatureSource, features
from metricmix.dissimilarity.matrix import DissimilarityMatrix, SourceFacts, as_dissimilarity
from metricmix.dissimilarity.nearest_items import NearestItems, nearest_items
from metricmix.dissimilarity.path_length import knn_path_length
from metricmix.dissimilarity.sources import ComputedSource, DenseSource, Source
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import InputError
from metricmix.items.columns import Column, Encoding, encode, numbers_of
from metricmix.items.items import Items
from metricmix.items.memberships import Memberships
from metricmix.items.relation import Relation
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.relation_sources import RelationSource

__all__ = [
    "ColumnSource",
    "GowerSource",
    "ItemSource",
    "NewItemData",
    "known_shares",
    "little_data",
    "lowered",
    "make_source",
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


class ItemSource(ABC):
    """A source over the n items of a table, computed from files."""

    def __init__(self, spec: SourceSpec, items: Items) -> None:
        self.spec, self.items = spec, items
        self.n = len(items.ids)

    @abstractmethod
    def matrix(self) -> Floats:
        """Return the dissimilarities of all items, (n, n), with their facts if known."""

    def relabelled(self, codes: AnyArray, n_classes: int) -> ItemSource:
        """Return the source for the labels of a fit: itself, unless it is supervised."""
        return self

    @property
    def links(self) -> RelationSource | None:
        """The graph that it is computed from, if there is one."""
        return None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        columns: tuple[Column, ...] = getattr(getattr(self, "base", self), "columns", ())
        return tuple(column.name for column in columns if column.kind != "ignore")

    @property
    def supervised(self) -> Source | None:
        """What a stack takes in place of the matrix, if it is computed from labels."""
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

    @property
    def table(self) -> Any:
        """The rows that distances are computed from, dense or CSR; None if there are none."""
        return None

    def nearest(self, k: int) -> NearestItems | None:
        """Return the k nearest items of every item; None unless it is a table or a matrix."""
        return None

    def new_pairs(self, new: NewItemData, x: Indices, j: Indices) -> Floats:
        """Return the dissimilarities from new items x to items j elementwise, as in `by_pairs`."""
        return self.cross(new, None)[x, j]

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the dissimilarities from m new items to all items, (m, n).

        `known` is what :meth:`matrix` returned; path lengths need it. InputError if the kind does
        not support new items.
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

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return zeros."""
        return np.zeros((len(new.items.ids), self.n))


class ColumnSource(ItemSource):
    """Distances of columns, or path lengths over nearest neighbours by them."""

    def __init__(self, spec: SourceSpec, items: Items, columns: tuple[Column, ...]) -> None:
        super().__init__(spec, items)
        self.columns = columns

    @cached_property
    def encoding(self) -> Encoding:
        """The columns as features."""
        return encode(self.items, self.columns)

    @cached_property
    def applied(self) -> Any:
        """The distance, applied to the features."""
        if self.spec.kind == "knn":
            recipe: Any = knn_path_length(k=self.spec.k, metric=self.spec.metric)
        else:
            recipe = features(metric=self.spec.metric)
        return recipe.apply(self.encoding.features)

    def matrix(self) -> DissimilarityMatrix:
        """Return the distances of the columns."""
        matrix: DissimilarityMatrix = self.applied.matrix
        return matrix

    def by_pairs(self) -> Source | None:
        """Return the distances of the columns; None for paths over nearest neighbours."""
        if self.spec.kind == "knn":
            return None
        return FeatureSource(self.encoding.features, self.spec.metric, name=self.spec.name)

    @property
    def table(self) -> Any:
        """The encoded columns."""
        return self.encoding.features

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the columns, at the smallest distance or angle."""
        how = "cosine" if self.spec.metric in ANGLES else "euclidean"
        return nearest_items(self.table, k, how)

    def new_rows(self, new: NewItemData) -> Any:
        """Return the encoded columns of new items."""
        return self.encoding.transform(new.items)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from the cells of new items."""
        return np.asarray(self.applied.cross(self.new_rows(new)))


class GowerSource(ItemSource):
    r"""Gower's distance: the mean, over d columns, of how far two items differ.

    .. math:: M[i, j] = \tfrac{1}{d} \sum_c \delta_c(i, j)

    Categories differ by 0 or 1, numbers and dates by their distance over the range of the column,
    between its 1 % and 99 % quantiles, at most 1. A missing cell is 1/2 from every known one and 0
    from a missing one. So every column, and their mean, is a pseudo-metric in [0, 1].
    """

    def __init__(self, spec: SourceSpec, items: Items, columns: tuple[Column, ...]) -> None:
        super().__init__(spec, items)
        self.columns = columns
        self.is_category = np.array([column.kind == "category" for column in columns])

    @cached_property
    def cells(self) -> Floats:
        """All cells, (n, d): numbers over their range, codes of categories, NaN where missing."""
        return self._scaled(self.items)

    @cached_property
    def _ranges(self) -> tuple[Floats, list[dict[str, int]]]:
        spreads = np.ones(len(self.columns))
        codes: list[dict[str, int]] = []
        for c, column in enumerate(self.columns):
            codes.append({})
            if column.kind == "category":
                values = sorted(set(self.items.texts(column.name)) - {""})
                codes[c] = {value: k for k, value in enumerate(values)}
                continue
            known = numbers_of(self.items, column)
            known = known[~np.isnan(known)]
            low, high = np.quantile(known, [0.01, 0.99])
            spreads[c] = high - low or np.ptp(known) or 1.0
        return spreads, codes

    def _scaled(self, items: Items) -> Floats:
        spreads, codes = self._ranges
        cells = np.empty((len(items.ids), len(self.columns)))
        for c, column in enumerate(self.columns):
            if self.is_category[c]:
                unseen = len(codes[c])  # differs from all
                texts = items.texts(column.name)
                cells[:, c] = [codes[c].get(text, unseen) if text else np.nan for text in texts]
            else:
                cells[:, c] = numbers_of(items, column) / spreads[c]
        return cells

    def _between(self, left: Floats, right: Floats) -> Floats:
        """Return the distances of rows of cells that broadcast against each other."""
        total = np.zeros(np.broadcast_shapes(left.shape[:-1], right.shape[:-1]))
        for c in range(left.shape[-1]):
            apart = np.abs(left[..., c] - right[..., c])
            apart = np.minimum(np.ceil(apart) if self.is_category[c] else apart, 1.0)
            neither = np.isnan(left[..., c]) & np.isnan(right[..., c])
            total += np.where(np.isnan(apart), np.where(neither, 0.0, 0.5), apart)
        return np.asarray(total / left.shape[-1])

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        values = self._between(self.cells[indices][:, None], self.cells[None])
        values[np.arange(len(indices)), indices] = 0.0
        return values

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        blocks = [self.rows(np.arange(k, min(self.n, k + 256))) for k in range(0, self.n, 256)]
        known = SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n d)")
        return as_dissimilarity(np.concatenate(blocks), self.spec.name, facts=known)

    def by_pairs(self) -> Source:
        """Return the same for single pairs."""

        def pairs(i: Indices, j: Indices) -> Floats:
            return np.where(i == j, 0.0, self._between(self.cells[i], self.cells[j]))

        rows = self.rows
        return ComputedSource(self.n, rows, columns=rows, pairs=pairs, name=self.spec.name)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from the cells of new items, over the ranges of the fit."""
        return self._between(self._scaled(new.items)[:, None], self.cells[None])


LITTLE = 0.5
"""Share of the data of an item below which its confidence is lowered."""
SHOWN = 3
"""Items of little data that are named."""


def known_shares(sources: Sequence[ItemSource], new: NewItemData | None = None) -> Floats:
    """Return which share of the data that sources are computed from is known of each item, (n,).

    Columns count the same, all counts together as one; a graph or file of memberships is known of
    an item that has an edge in it, a matrix of all. With `new`, shares of the new items.
    """
    items = sources[0].items if new is None else new.items
    columns = {
        column.name: column
        for source in sources
        for column in getattr(getattr(source, "base", source), "columns", ())
    }
    by_unit: dict[str, list[AnyArray]] = {}
    for name, column in columns.items():
        unit = "" if column.kind == "count" else f"column {name}"
        by_unit.setdefault(unit, []).append(items.known(name))
    units = [np.mean(some, axis=0) for some in by_unit.values()]
    graphs = {source.spec.file: source.links for source in sources if source.links is not None}
    units += [links.linked(new).astype(np.float64) for links in graphs.values()]
    matrices = sum(source.spec.kind == "matrix" for source in sources)
    units += [np.ones(len(items.ids))] * matrices
    return np.asarray(np.mean(units, axis=0) if units else np.ones(len(items.ids)))


def lowered(probabilities: Floats, shares: Floats) -> Floats:
    r"""Return class probabilities (n, C), those of items of little data moved towards equal ones.

    .. math:: p_c \leftarrow 2 k\, p_c + (1 - 2 k) / C \quad \text{if } k < \tfrac12

    with the share k of their data that is known. What is predicted stays.

    >>> lowered(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0.8, 0.25])).tolist()
    [[0.9, 0.1], [0.7, 0.3]]
    """
    trust = np.minimum(1.0, shares / LITTLE)[:, None]
    return np.asarray(trust * probabilities + (1.0 - trust) / probabilities.shape[1])


def little_data(ids: Sequence[str], shares: Floats, *, numbers: bool) -> Iterator[str]:
    """Yield a remark on the items of which less than half of the data is known.

    >>> next(little_data("abc", np.array([1.0, 0.2, 0.9]), numbers=False))
    'less than half of the cells and links that the sources need are known for b: lower confidence'
    """
    few = [ids[k] for k in np.flatnonzero(shares < LITTLE).tolist()]
    if few:
        more = f" and {len(few) - SHOWN:,} more items" if len(few) > SHOWN else ""
        so = "the prediction is unreliable" if numbers else "lower confidence"
        yield (
            "less than half of the cells and links that the sources need are known for "
            f"{', '.join(few[:SHOWN])}{more}: {so}"
        )


class MatrixSource(ItemSource):
    """A matrix that was given."""

    def __init__(self, spec: SourceSpec, items: Items, values: Floats | None) -> None:
        super().__init__(spec, items)
        self.values = values

    def matrix(self) -> Floats:
        """Return the matrix."""
        assert self.values is not None
        return self.values

    def by_pairs(self) -> Source:
        """Return the matrix, of which single values are read."""
        directed = bool(self.spec.directed)
        return DenseSource(self.matrix(), name=self.spec.name, directed=directed)

    def nearest(self, k: int) -> NearestItems:
        """Return the nearest items by the entries of each row."""
        values, k = self.matrix(), min(k, self.n - 1)
        items = np.empty((self.n, k), np.int32)
        for i, row in enumerate(values):
            others = np.array(row, dtype=np.float64)
            others[i] = np.inf
            items[i] = np.argsort(others, kind="stable")[:k]
        return NearestItems(items, np.take_along_axis(values, items, axis=1), "blocks", 1.0)

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the rows that were given for the new items."""
        if self.spec.name not in new.rows:
            raise InputError(
                argument=f"source {self.spec.name!r}",
                expected="the rows of the new items, found none",
                remedy=(
                    f"pass --matrix {self.spec.name}=FILE with a row per new item and a "
                    "column per item of the fit"
                ),
            )
        return new.rows[self.spec.name]


def make_source(
    spec: SourceSpec,
    items: Items,
    columns: tuple[Column, ...],
    edges: Relation | Memberships | None = None,
    values: Floats | None = None,
) -> ItemSource:
    """Return the source that a specification describes.

    `edges` are those of its graph between items, or their memberships; `values` are the entries of
    its matrix, None where only dissimilarities of new items are needed.
    """
    if spec.kind == "matrix":
        return MatrixSource(spec, items, values)
    from metricmix.dissimilarity import learned_sources as supervised
    from metricmix.dissimilarity import relation_sources as graphs

    if spec.kind in ("learned", "forest"):
        base = ColumnSource(spec, items, spec.select_columns(columns))
        return supervised.LearnedSource(spec, items, base)
    if spec.kind == "gower":
        return GowerSource(spec, items, spec.select_columns(columns))
    if spec.uses_columns:
        return ColumnSource(spec, items, spec.select_columns(columns))
    assert edges is not None
    if spec.kind == "spread":
        return supervised.SpreadSource(spec, items, graphs.PageRankSource(spec, items, edges))
    if spec.kind == "smoothed":
        return graphs.SmoothedSource(spec, items, edges, spec.select_columns(columns))
    if spec.kind == "learned_graph":
        if isinstance(edges, Memberships):
            return supervised.LearnedSource(
                spec, items, graphs.MembershipSource(spec, items, edges)
            )
        smoothed = graphs.SmoothedSource(spec, items, edges, spec.select_columns(columns))
        return supervised.LearnedSource(spec, items, smoothed)
    kinds: dict[str, Any] = {
        "paths": graphs.PathSource,
        "pagerank": graphs.PageRankSource,
        "jaccard": graphs.JaccardSource,
        "membership": graphs.MembershipSource,
    }
    source: ItemSource = kinds[spec.kind](spec, items, edges)
    return source
