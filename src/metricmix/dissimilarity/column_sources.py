"""Sources computed from columns: encoded ones, numbers in their own units, topics of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import InputError
from metricmix.items.columns import CUT, NUMERIC, Column, centre_and_spread, is_block
from metricmix.items.encoding import Encoding, filled_numbers
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = [
    "ColumnSource",
    "NumberRows",
    "Topics",
    "far_limits",
    "have_similar_sizes",
    "scaled_numbers",
    "topics_of",
    "unit_rows",
]


FAR = 13.5
"""Spreads at which columns in their own units are cut off: ten times the quartiles' distance."""


class ColumnSource(TableSource):
    """Distances of encoded columns."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.columns, self.metric = spec.select_columns(data.columns), spec.metric
        self.data = data

    @cached_property
    def encoding(self) -> Encoding:
        """The columns as features, computed when they are first needed."""
        return self.data.encoding(self.columns)

    @property
    def table(self) -> Any:
        """The encoded columns."""
        return self.encoding.features

    def new_rows(self, new: NewItemData) -> Any:
        """Return the encoded columns of new items."""
        return self.encoding.transform(new.items)


class NumberRows(TableSource):
    """A view of the columns of numbers, dates and counts among those that are selected."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        selected = spec.select_columns(data.columns)
        numeric = (column for column in selected if column.kind in NUMERIC)
        self.columns = tuple(column for column in numeric if not is_block(data.items, column))
        if not self.columns:
            raise InputError(
                argument=f"source {spec.name!r}", expected="columns of numbers, found none"
            )

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Between which values of each column lie, but for far ones."""
        return far_limits(filled_numbers(self.items, self.columns))

    def near_values(self, items: Items) -> Floats:
        """Return the numbers of items, far ones clipped as in the fit, (n, d)."""
        return np.asarray(np.clip(filled_numbers(items, self.columns), *self.limits))


def scaled_numbers(items: Items, columns: Sequence[Column]) -> Floats:
    """Return columns less their median, over their spread, cut off at 3; plain ones as they are."""
    values = filled_numbers(items, columns)
    for k, column in enumerate(columns):
        if column.kind != "plain":
            away = (values[:, k] - column.centre) / (column.reach / CUT or 1.0)
            values[:, k] = np.clip(away, -CUT, CUT)
    return values


def have_similar_sizes(items: Items, columns: Sequence[Column]) -> bool:
    """Return whether columns of numbers have similar sizes: their units may be the same.

    That is, without far values and zeros none is a hundred times larger than the median one.
    """
    some = [column for column in columns if column.kind in ("number", "plain")]
    if len(some) < 2:
        return False
    values = filled_numbers(items, some)
    values = np.abs(np.clip(values, *far_limits(values)))
    having = np.count_nonzero(values, axis=0)
    sizes = np.sort(values.sum(axis=0)[having > 0] / having[having > 0])
    return len(sizes) > 1 and bool(sizes[-1] <= 100.0 * sizes[(len(sizes) - 1) // 2])


def far_limits(X: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest value of each column that is not far.

    A column that is constant but for a few rows has no distance between quartiles: there a value is
    far if it would be so in the widest of the other columns.
    """
    middle, spread, common = centre_and_spread(X)
    widest = max(float(common.max(initial=0.0)), float(np.median(spread)))
    limit = FAR * np.where(common > 0, common, widest)
    return middle - limit, middle + limit


def unit_rows(Z: Floats) -> Floats:
    """Return the rows at length 1 (or 0)."""
    from sklearn.preprocessing import normalize

    return np.asarray(normalize(Z))


TOPICS = 100


class Topics:
    """The leading singular vectors of the tf-idf of texts and counts, rows at length 1."""

    def __init__(self, data: SourceData, columns: Sequence[Column]) -> None:
        self.items, self.data, self.columns = data.items, data, columns

    @cached_property
    def encoding(self) -> Encoding:
        """The columns as features, computed when they are first needed."""
        return self.data.encoding(self.columns)

    def words(self, items: Items) -> Any:
        """Return the tf-idf of items, rows at length 1 (or 0), dense or sparse."""
        from sklearn.preprocessing import normalize

        here = items is self.items
        return normalize(self.encoding.features if here else self.encoding.transform(items))

    @cached_property
    def vectors(self) -> Any:
        """The singular vectors, (V, 100); None if there are no two of them."""
        from sklearn.decomposition import TruncatedSVD

        words = self.words(self.items)
        k = min(TOPICS, min(words.shape) - 1)
        return None if k < 1 else TruncatedSVD(k, random_state=0).fit(words).components_.T

    def of(self, items: Items) -> Floats:
        """Return the topics of items, (n, 100)."""
        words = self.words(items)
        if self.vectors is not None:
            return np.asarray(words @ self.vectors)
        return words if isinstance(words, np.ndarray) else np.asarray(words.toarray())


def topics_of(data: SourceData, columns: Sequence[Column]) -> Topics:
    """Return the topics of columns of texts and counts."""
    key = "topics", tuple(column.name for column in columns)
    topics: Topics = data.once(key, lambda: Topics(data, columns))
    return topics
