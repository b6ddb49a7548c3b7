"""What two items have in common by their cells and links, in words.

Phrases have a rank: `SHARED` for what both items have, `OTHER` for other facts, `PREDICTED` for
what a model predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.relation_sources import Links
from metricmix.items.columns import Column, is_block, numbers_of
from metricmix.items.encoding import MOST_WORDS, counts_of
from metricmix.items.items import Items
from metricmix.typing import Floats, Indices

__all__ = ["OTHER", "PREDICTED", "SHARED", "ColumnWords", "LinkWords", "Phrase", "listed"]

SHARED, OTHER, PREDICTED = range(3)
"""Ranks of phrases: the first are told first."""
Phrase = tuple[int, str]
"""A rank, and words."""
SHOWN = 3
"""Words, columns and neighbours that a phrase names."""
NEARLY = 0.1
"""Standard deviations within which two numbers nearly agree."""
LONGEST = 40
"""Characters of a cell that are quoted."""
MONTH, YEAR = 30.44, 365.25
"""Days."""


class LinkWords:
    """Says how two items are linked in a graph, which is called `name`."""

    def __init__(self, links: Links, name: str) -> None:
        self.ids, self.name = links.items.ids, name
        self.memberships = links.memberships
        self.has_lengths = links.edges.weights is not None
        self.ends = ends = links.edges.ends
        self.one_way = {(i, j) for i, j in ends.tolist()} if links.edges.directed else None
        both = np.concatenate([ends, ends[:, ::-1]])
        order = np.lexsort((both[:, 1], both[:, 0]))
        both = both[order]
        bounds = np.searchsorted(both[:, 0], np.arange(len(self.ids) + 1))
        self.neighbours = [set(both[a:b, 1].tolist()) for a, b in pairwise(bounds.tolist())]

    @cached_property
    def ties(self) -> Indices:
        """How many other items each item is linked to; of memberships, how many share a group."""
        if self.memberships is None:
            return np.array([len(others) for others in self.neighbours])
        return np.asarray(self.memberships.presence @ (np.array(self._having) - 1.0)).astype(int)

    @cached_property
    def parts(self) -> Indices:
        """The number of the connected component of each item."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n, (u, v) = len(self.ids), self.ends.T
        return np.asarray(connected_components(coo_array((np.ones(len(u)), (u, v)), (n, n)))[1])

    def __call__(self, i: int, j: int) -> list[Phrase]:
        """Return that items i and j are linked, and whom both are linked to."""
        if self.memberships is not None:
            return self._shared_things(i, j)
        linked = j in self.neighbours[i]
        how = ""
        if linked and self.one_way is not None and (i, j) not in self.one_way:
            how = " the other way only"
        shared = self.neighbours[i] & self.neighbours[j]
        order = sorted(shared, key=lambda k: (len(self.neighbours[k]), k))
        phrases = [(SHARED, f"linked{how} in {self.name}")] if linked else []
        if order:
            names = listed([self.ids[k] for k in order])
            phrases.append((SHARED, f"both linked to {names} in {self.name}"))
        return phrases

    def _shared_things(self, i: int, j: int) -> list[Phrase]:
        assert self.memberships is not None
        table, things = self.memberships.table, self.memberships.things
        one, other = (set(table.indices[table.indptr[k] : table.indptr[k + 1]]) for k in (i, j))
        having = self._having
        order = sorted(one & other, key=lambda t: (having[t], t))
        if not order:
            return [(OTHER, f"no group in common in {self.name}")] * bool(one and other)
        return [(SHARED, f"both with {listed([things[t] for t in order])} in {self.name}")]

    @cached_property
    def _having(self) -> list[int]:
        """How many items belong to each thing."""
        assert self.memberships is not None
        table = self.memberships.table
        return [int(count) for count in np.bincount(table.indices, minlength=table.shape[1])]


class ColumnWords:
    """Says how the cells of two items compare, column by column, by the kinds of these."""

    def __init__(self, items: Items, columns: Sequence[Column]) -> None:
        self.items = items
        self.texts = [Words(items, column.name) for column in columns if column.kind == "text"]
        categories = [column.name for column in columns if column.kind == "category"]
        self.categories = {name: items.texts(name) for name in categories}
        self.numbers = [c for c in columns if c.kind in ("number", "plain", "date")]
        counts = [column for column in columns if column.kind == "count"]
        self.values = numbers_in(items, self.numbers)
        self.spread = np.nan_to_num(np.nanstd(self.values, axis=0)) if self.numbers else None
        self.counted = Counts(items, counts) if counts else None

    def __call__(self, i: int, j: int) -> list[Phrase]:
        """Return the phrases: equal cells and shared words first."""
        found = [text for words in self.texts for text in words(i, j)]
        for name, cells in self.categories.items():
            found += same_cell(name, cells[i], cells[j])
        if self.counted is not None:
            found.append(self.counted(i, j))
        return sorted(found + self._numbers(i, j), key=lambda phrase: phrase[0])

    def _numbers(self, i: int, j: int) -> list[Phrase]:
        if self.spread is None:
            return []
        apart = np.abs(self.values[i] - self.values[j])
        known = np.flatnonzero(np.isfinite(apart))
        if len(known) <= SHOWN:
            return [self._apart(c, float(apart[c]), i) for c in known.tolist()]
        relative = apart[known] / np.where(self.spread[known] > 0, self.spread[known], 1.0)
        near, far = int((relative <= NEARLY).sum()), int(known[relative.argmax()])
        told = f"{near} of {len(known)} numbers nearly the same"
        if relative.max() == 0:
            return [(SHARED, f"all {len(known)} numbers the same")]
        largest = self._apart(far, float(apart[far]), i)[1]
        return [(OTHER, f"{told}, the largest difference: {largest}")]

    def _apart(self, c: int, apart: float, i: int) -> Phrase:
        column = self.numbers[c]
        if apart == 0:
            return SHARED, f"same {column.name} ({short(self.items.texts(column.name)[i])})"
        if column.kind == "date":
            return OTHER, f"{column.name} {duration(apart)} apart"
        unit = column.format.unit
        return OTHER, f"{column.name} {apart:.3g}{' ' * bool(unit)}{unit} apart"


class Counts:
    """Says which columns of counts two items have in common; ``table[3]`` of a sparse table."""

    def __init__(self, items: Items, columns: Sequence[Column]) -> None:
        table = counts_of(items, columns) > 0
        self.indptr, self.indices = table.indptr, table.indices
        self.having = np.bincount(table.indices, minlength=table.shape[1])
        self.single = [column.name for column in columns if not is_block(items, column)]
        blocks = [column.name for column in columns if is_block(items, column)]
        widths = [np.shape(items.values(name))[1] for name in blocks]
        starts = np.cumsum([len(self.single), *widths]).tolist()
        self.blocks = list(zip(starts, blocks, strict=False))

    def __call__(self, i: int, j: int) -> Phrase:
        """Return the shared columns, those that few items have first."""
        one, other = (self.indices[self.indptr[k] : self.indptr[k + 1]] for k in (i, j))
        both = np.intersect1d(one, other).tolist()
        order = sorted(both, key=lambda c: (int(self.having[c]), c))
        if not order:
            return OTHER, "nothing in common in the counts"
        return SHARED, f"both have {listed([self._name(c) for c in order])}"

    def _name(self, c: int) -> str:
        if c < len(self.single):
            return self.single[c]
        start, name = next(block for block in reversed(self.blocks) if block[0] <= c)
        return f"{name}[{c - start}]"


class Words:
    """Says which words two cells of text share."""

    def __init__(self, items: Items, column: str) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.column = column
        cells = items.texts(column)
        self.missing = [not cell for cell in cells]
        vectorizer = TfidfVectorizer(max_features=MOST_WORDS, token_pattern=r"(?u)\b\w+\b")
        table: Any = vectorizer.fit_transform(cells).tocsr()
        words = vectorizer.get_feature_names_out().tolist()
        having = np.bincount(table.indices, minlength=len(words))
        common = having > max(2, len(cells) / 2)
        # Of each cell its rarer words and their tf-idf: dictionaries are compared faster than rows.
        self.rows = [
            {words[w]: value for w, value in zip(*row, strict=True) if not common[w]}
            for row in (
                (table.indices[a:b].tolist(), table.data[a:b].tolist())
                for a, b in pairwise(table.indptr.tolist())
            )
        ]

    def __call__(self, i: int, j: int) -> list[Phrase]:
        """Return the shared words of the largest tf-idf, those that most cells have left out."""
        if self.missing[i] or self.missing[j]:
            both = self.missing[i] and self.missing[j]
            return [(OTHER, f"both without {self.column}")] * both
        one, other = self.rows[i], self.rows[j]
        order = sorted((-one[word] * other[word], word) for word in one.keys() & other.keys())
        if not order:
            return [(OTHER, f"no rare word in common in {self.column}")]
        shared = ", ".join(repr(word) for _, word in order[:SHOWN])
        return [(SHARED, f"{self.column} shares {shared}")]


def same_cell(name: str, one: str, other: str) -> list[Phrase]:
    """Return whether two cells of a column of categories are equal; nothing if one is missing."""
    if not (one and other):
        return []
    if one == other:
        return [(SHARED, f"same {name} ({short(one)})")]
    return [(OTHER, f"{name} {short(one)} and {short(other)}")]


def numbers_in(items: Items, columns: Sequence[Column]) -> Floats:
    """Return the values of numeric columns, (n, C), NaN where missing."""
    columns_of = [numbers_of(items, column) for column in columns]
    return np.column_stack([np.empty((len(items.ids), 0)), *columns_of])


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more


def short(cell: str) -> str:
    """Return a cell, cut if it is long."""
    return cell if len(cell) <= LONGEST else cell[: LONGEST - 1] + "…"


def duration(days: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(1.0), duration(100.0), duration(1100.0), duration(0.25)
    ('1 day', '3 months', '3 years', '6 hours')
    """
    for unit, size, least in (("year", YEAR, 2 * YEAR), ("month", MONTH, 2 * MONTH), ("day", 1, 1)):
        if days >= least:
            count = round(days / size)
            return f"{count} {unit}{'s' * (count != 1)}"
    hours = days * 24
    return f"{hours:.2g} hour{'s' * (round(hours, 2) != 1)}"
