r"""Edges in words: what two items have in common, from the cells and links of a fit.

An edge between items i and j has a reason per source. With weights :math:`\alpha_r` and the mean
:math:`\bar M_r` of a source over all pairs,

.. math:: s_r(i, j) = \alpha_r \, (\bar M_r - M_r[i, j])

is how much nearer the source brings i and j than it brings an average pair; reasons are told from
the largest :math:`s_r` to the smallest. The words are those of the table and the graphs:

=============  ====================================================================================
a source of    says
=============  ====================================================================================
text           the words that both cells have, those of the largest tf-idf first; not those that
               more than half of the cells have
categories     which cells are equal
numbers        how far the cells are apart; of more than three columns how many nearly agree
dates          how many days, months or years lie between
counts         the columns that both items have, the rarest first
a graph        that the items are linked, and whom both are linked to, the least linked first;
               else the number of links between them
memberships    the groups that both items belong to, the smallest first
predictions    the model, and the class or the number that it predicts for each
other sources  the dissimilarity as a share of the mean one
=============  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from metricmix.dissimilarity.default_specs import model_name
from metricmix.dissimilarity.item_sources import ItemSource
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.relation_sources import Links
from metricmix.dissimilarity.specs import graph_names
from metricmix.items.columns import Column, is_block, numbers_of
from metricmix.items.encoding import MOST_WORDS, counts_of
from metricmix.items.items import Items
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import Floats

__all__ = ["EdgePhrases", "Reason"]

FAR = 2.0
"""Times the mean distance from which on a distance is told as such, and not in per cent."""
SHOWN = 3
"""Words, columns and neighbours that a phrase names."""
NEARLY = 0.1
"""Standard deviations within which two numbers nearly agree."""
LONGEST = 40
"""Characters of a cell that are quoted."""
OF_OTHERS = ("knn", "near")
"""Kinds whose columns are told by other sources: chains of near items."""
MONTH, YEAR = 30.44, 365.25
"""Days."""


@dataclass(frozen=True)
class Reason:
    """What a source says of an edge.

    Attributes
    ----------
    source : str
    nearer : float
        By how much it brings the two items nearer than an average pair, before the link; negative
        if it keeps them apart.
    phrase : str
    """

    source: str
    nearer: float
    phrase: str


class EdgePhrases:
    r"""Says in words what an edge is made of.

    Parameters
    ----------
    lengths : EdgeLengths
        The edge lengths of the model.
    sources : sequence of ItemSource
        Where its sources come from, by their names; others are told by their dissimilarity alone.
    classes : sequence, optional
        Names of the classes, for sources that are predictions.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from metricmix.dissimilarity.plan import plan_sources
    >>> from metricmix.items.in_memory import as_items
    >>> from metricmix.mixture.edge_lengths import edge_lengths
    >>> towns = pd.DataFrame({"people": [300, 41, 7], "land": ["hill", "hill", "coast"]})
    >>> joined = plan_sources(as_items(towns)).build()
    >>> lengths = edge_lengths(joined.stack, np.ones(joined.stack.n_sources))
    >>> EdgePhrases(lengths, joined.sources).sentence(0, 1)
    'same land (hill); people 259 apart'
    """

    def __init__(
        self, lengths: EdgeLengths, sources: Sequence[ItemSource] = (), classes: Sequence[Any] = ()
    ) -> None:
        self.lengths, self.classes = lengths, [str(name) for name in classes]
        self._files = {source.spec.name: source for source in sources}
        self._graphs = graph_names([source.spec for source in sources])
        self._words: dict[Any, Callable[[int, int], list[str]]] = {}

    def reasons(self, i: int, j: int) -> list[Reason]:
        """Return what the sources say of the edge between items number i and j.

        The source that brings them nearest comes first. What one has said is not repeated, and
        sources of weight 0 say nothing.
        """
        stack, u, v = self.lengths.stack, np.array([i]), np.array([j])
        raw = np.asarray(stack.raw_pairs(u, v)[:, 0], dtype=np.float64)
        weights = np.asarray(self.lengths.mixed.pair_weights(u, v)).reshape(len(raw), -1)[:, 0]
        nearer = weights * (self._means - raw)
        told: set[str] = set()
        found = []
        for r in np.argsort(-nearer, kind="stable").tolist():
            if weights[r] == 0.0:
                continue
            phrases = [text for text in self._told(r, i, j, float(raw[r])) if text not in told]
            told.update(phrases)
            if phrases:
                found.append(Reason(stack.names[r], float(nearer[r]), "; ".join(phrases)))
        return found

    def sentence(self, i: int, j: int) -> str:
        """Return the phrases of an edge in one line."""
        return "; ".join(reason.phrase for reason in self.reasons(i, j))

    @cached_property
    def _means(self) -> Floats:
        """The mean of each source over all pairs, not divided by its scale."""
        stack = self.lengths.stack
        return stack.scales if stack.scaling == "mean" else stack.rescaled("mean").scales

    def _told(self, r: int, i: int, j: int, value: float) -> list[str]:
        stack = self.lengths.stack
        name, whole = stack.names[r], stack.origin
        file, source = self._files.get(name), None if whole is None else whole.sources[r]
        if isinstance(source, PredictedSource):
            if source.is_numeric:
                first, second = (f"{source.values[k]:.4g}" for k in (i, j))
                return [self._prediction(name, file, first, second, numbers=True)]
            codes = source.values[[i, j]].argmax(axis=1).tolist()
            known = len(self.classes) == source.values.shape[1]
            first, second = (self.classes[c] if known else f"class {c}" for c in codes)
            return [self._prediction(name, file, first, second)]
        ratio = value / float(self._means[r])
        share = f"at {ratio:.0%} of the mean distance"
        if ratio >= FAR:
            share = f"at {ratio:.2g} times the mean distance"
        links = None if file is None or file.spec.supervised else file.links
        if file is not None and links is not None:
            graph = self._graphs[file.spec.file or ""]
            found = self._writer(file.spec.file, lambda: LinkWords(links, graph))(i, j)
            if not found and file.spec.kind == "paths" and links.edges.weights is None:
                return [f"{value:.0f} links apart in {graph}"]
            if not found and links.memberships is not None:
                return [f"no group in common in {graph}"]
            return found or [f"{name} {share}"]
        if file is not None and file.spec.kind in OF_OTHERS:
            return []
        if file is not None and hasattr(file, "columns"):
            items, columns = file.items, file.columns
            return self._writer(name, lambda: ColumnWords(items, columns))(i, j)
        return [f"{name} {share}"]

    def _writer(self, key: Any, make: Callable[[], Any]) -> Callable[[int, int], list[str]]:
        if key not in self._words:
            self._words[key] = make()
        return self._words[key]

    def _prediction(
        self, name: str, file: ItemSource | None, first: str, second: str, *, numbers: bool = False
    ) -> str:
        """Return what a model predicts of two items, what model it is, and what it looks at."""
        what = (
            f"{first} for both" if first == second else f"{first} for one, {second} for the other"
        )
        if file is None:
            return f"{name!r} predicts {what}"
        names = [column.name for column in getattr(getattr(file, "base", file), "columns", ())]
        of = self._graphs.get(file.spec.file or "", "") or listed(names) or "columns"
        if file.spec.facts["model"] == "spread":
            over = of if file.spec.uses_graph else f"items near by {of}"
            return f"{'targets' if numbers else 'labels'} spread over {over} predict {what}"
        model = "random forest" if file.spec.facts["model"] == "forest" else model_name(numbers)
        model += " with a Gaussian kernel" if file.spec.kind == "kernel" else ""
        return f"a {model} on {of} predicts {what}"


class LinkWords:
    """Says how two items are linked in a graph, which is called `name`."""

    def __init__(self, links: Links, name: str) -> None:
        self.ids, self.name = links.items.ids, name
        self.memberships = links.memberships
        ends = links.edges.ends
        self.one_way = {(i, j) for i, j in ends.tolist()} if links.edges.directed else None
        both = np.concatenate([ends, ends[:, ::-1]])
        order = np.lexsort((both[:, 1], both[:, 0]))
        both = both[order]
        bounds = np.searchsorted(both[:, 0], np.arange(len(self.ids) + 1))
        self.neighbours = [set(both[a:b, 1].tolist()) for a, b in pairwise(bounds.tolist())]

    def __call__(self, i: int, j: int) -> list[str]:
        """Return that items i and j are linked, and whom both are linked to."""
        if self.memberships is not None:
            return self._shared_things(i, j)
        linked = j in self.neighbours[i]
        how = ""
        if linked and self.one_way is not None and (i, j) not in self.one_way:
            how = " the other way only"
        shared = self.neighbours[i] & self.neighbours[j]
        order = sorted(shared, key=lambda k: (len(self.neighbours[k]), k))
        phrases = [f"linked{how} in {self.name}"] if linked else []
        if order:
            names = listed([self.ids[k] for k in order])
            phrases.append(f"both linked to {names} in {self.name}")
        return phrases

    def _shared_things(self, i: int, j: int) -> list[str]:
        assert self.memberships is not None
        table, things = self.memberships.table, self.memberships.things
        one, other = (set(table.indices[table.indptr[k] : table.indptr[k + 1]]) for k in (i, j))
        having = self._having
        order = sorted(one & other, key=lambda t: (having[t], t))
        return [f"both with {listed([things[t] for t in order])} in {self.name}"] if order else []

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
        self.categories = [column.name for column in columns if column.kind == "category"]
        self.numbers = [c for c in columns if c.kind in ("number", "plain", "date")]
        counts = [column for column in columns if column.kind == "count"]
        self.values = numbers_in(items, self.numbers)
        self.spread = np.nan_to_num(np.nanstd(self.values, axis=0)) if self.numbers else None
        self.counted = Counts(items, counts) if counts else None

    def __call__(self, i: int, j: int) -> list[str]:
        """Return the phrases: equal categories and shared words first."""
        found = [text for words in self.texts for text in words(i, j)]
        found += [text for name in self.categories for text in self._category(name, i, j)]
        if self.counted is not None:
            found.append(self.counted(i, j))
        return found + self._numbers(i, j)

    def _category(self, name: str, i: int, j: int) -> list[str]:
        cells = self.items.texts(name)
        if not (cells[i] and cells[j]):
            return []
        if cells[i] == cells[j]:
            return [f"same {name} ({short(cells[i])})"]
        return [f"{name} {short(cells[i])} and {short(cells[j])}"]

    def _numbers(self, i: int, j: int) -> list[str]:
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
            return [f"all {len(known)} numbers the same"]
        return [f"{told}, the largest difference: {self._apart(far, float(apart[far]), i)}"]

    def _apart(self, c: int, apart: float, i: int) -> str:
        column = self.numbers[c]
        if apart == 0:
            return f"same {column.name} ({short(self.items.texts(column.name)[i])})"
        if column.kind == "date":
            return f"{column.name} {duration(apart)} apart"
        unit = column.format.unit
        return f"{column.name} {apart:.3g}{' ' * bool(unit)}{unit} apart"


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

    def __call__(self, i: int, j: int) -> str:
        """Return the shared columns, those that few items have first."""
        one, other = (self.indices[self.indptr[k] : self.indptr[k + 1]] for k in (i, j))
        both = np.intersect1d(one, other).tolist()
        order = sorted(both, key=lambda c: (int(self.having[c]), c))
        if not order:
            return "nothing in common in the counts"
        return f"both have {listed([self._name(c) for c in order])}"

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

    def __call__(self, i: int, j: int) -> list[str]:
        """Return the shared words of the largest tf-idf, those that most cells have left out."""
        if self.missing[i] or self.missing[j]:
            return [f"both without {self.column}"] * (self.missing[i] and self.missing[j])
        one, other = self.rows[i], self.rows[j]
        order = sorted((-one[word] * other[word], word) for word in one.keys() & other.keys())
        if not order:
            return [f"no rare word in common in {self.column}"]
        return [f"{self.column} shares {', '.join(repr(word) for _, word in order[:SHOWN])}"]


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
