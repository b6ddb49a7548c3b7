r"""Edges in words: what two items have in common, from the cells and links of a fit.

An edge between items i and j has a reason per source. With weights :math:`\alpha_r` and the mean
:math:`\bar M_r` of a source over all pairs,

.. math:: s_r(i, j) = \alpha_r \, (\bar M_r - M_r[i, j])

is how much nearer the source brings i and j than it brings an average pair. Reasons that name
something that both items have (a group, a neighbour, a word, an equal cell, a link) come first,
predictions of models last; among each, from the largest :math:`s_r` to the smallest. A source that
knows nothing of an item gives no reason: the item has no link, shares its groups with no other
item, or all its cells are missing. The words are those of the table and the graphs:

=============  ====================================================================================
a source of    says
=============  ====================================================================================
text           the words that both cells have, those of the largest tf-idf first; not those that
               more than half of the cells have; or that both cells are missing
categories     which cells are equal
numbers        how far the cells are apart; of more than three columns how many nearly agree
dates          how many days, months or years lie between
counts         the columns that both items have, the rarest first
a graph        that the items are linked, and whom both are linked to, the least linked first;
               else the number of links between them, or that no path connects them
memberships    the groups that both items belong to, the smallest first
predictions    the model, and the class or the number that it predicts for each
other sources  the dissimilarity as a share of the mean one
=============  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.default_specs import model_name
from metricmix.dissimilarity.item_sources import ItemSource
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.specs import graph_names
from metricmix.fitting.shared_words import (
    OTHER,
    PREDICTED,
    ColumnWords,
    LinkWords,
    Phrase,
    listed,
)
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["EdgePhrases", "Reason"]

FAR = 2.0
"""Times the mean distance from which on a distance is told as such, and not in per cent."""
OF_OTHERS = ("knn", "near")
"""Kinds whose columns are told by other sources: chains of near items."""


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
        self._words: dict[Any, Any] = {}

    def reasons(self, i: int, j: int) -> list[Reason]:
        """Return what the sources say of the edge between items number i and j.

        What both have comes first, what models predict last; else the source that brings them
        nearest first. What one has said is not repeated, and sources of weight 0, or that know
        nothing of one of the items, say nothing.
        """
        return next(self.reasons_of_edges(np.array([i]), np.array([j])))

    def reasons_of_edges(self, i: Indices, j: Indices) -> Iterator[list[Reason]]:
        """Yield the same for many edges, whose values are read at once."""
        stack = self.lengths.stack
        raw = np.asarray(stack.raw_pairs(i, j), dtype=np.float64)
        mixed, usual = self.lengths.mixed, np.broadcast_to(self._means[:, None], raw.shape)
        of_usual = mixed.parts(usual, i, j)
        nearer = (of_usual - mixed.parts(raw, i, j)).T
        used = (of_usual != 0.0).T.tolist()
        orders = np.argsort(-nearer, axis=1, kind="stable").tolist()
        edges = zip(
            i.tolist(), j.tolist(), raw.T.tolist(), nearer.tolist(), used, orders, strict=True
        )
        for u, v, values, gains, has_weight, order in edges:
            told: set[str] = set()
            found: list[tuple[int, Reason]] = []
            for r in order:
                if not has_weight[r]:
                    continue
                phrases = [one for one in self._told(r, u, v, values[r]) if one[1] not in told]
                texts = [text for _, text in phrases]
                told.update(texts)
                if phrases:
                    reason = Reason(stack.names[r], gains[r], "; ".join(texts))
                    found.append((phrases[0][0], reason))
            yield [reason for _, reason in sorted(found, key=lambda ranked: ranked[0])]

    def sentence(self, i: int, j: int) -> str:
        """Return the phrases of an edge in one line."""
        return self.sentences(np.array([i]), np.array([j]))[0]

    def sentences(self, i: Indices, j: Indices) -> list[str]:
        """Return the phrases of many edges, each in one line."""
        found = self.reasons_of_edges(i, j)
        return ["; ".join(reason.phrase for reason in reasons) for reasons in found]

    @cached_property
    def _means(self) -> Floats:
        """The mean of each source over all pairs, not divided by its scale."""
        stack = self.lengths.stack
        return stack.scales if stack.scaling == "mean" else stack.rescaled("mean").scales

    def _told(self, r: int, i: int, j: int, value: float) -> list[Phrase]:
        """Return the phrases of a source, those of the lowest rank first."""
        stack = self.lengths.stack
        name, whole = stack.names[r], stack.origin
        file, source = self._files.get(name), None if whole is None else whole.sources[r]
        links = None if file is None else self._links(file)
        if isinstance(source, PredictedSource):
            known = links.ties if links is not None else self._cells(file)
            if not (known[i] and known[j]):
                return []
            if source.is_numeric:
                first, second = (f"{source.values[k]:.4g}" for k in (i, j))
            else:
                values, named = source.values, len(self.classes) == source.values.shape[1]
                codes = self._once(("codes", r), lambda: values.argmax(axis=1).tolist())
                first, second = (
                    self.classes[c] if named else f"class {c}" for c in (codes[i], codes[j])
                )
            said = self._once(("model", name), lambda: self._model(name, file, source.is_numeric))
            both = f"{first} for both"
            what = both if first == second else f"{first} for one, {second} for the other"
            return [(PREDICTED, f"{said} {what}")]
        ratio = value / float(self._means[r])
        share = f"at {ratio:.0%} of the mean distance"
        if ratio >= FAR:
            share = f"at {ratio:.2g} times the mean distance"
        if file is not None and links is not None:
            found = links(i, j)
            if found or not (links.ties[i] and links.ties[j]):
                return found
            if links.parts[i] != links.parts[j]:
                return [(OTHER, f"not connected in {links.name}")]
            if file.spec.kind == "paths" and not links.has_lengths:
                return [(OTHER, f"{value:.0f} links apart in {links.name}")]
            return [(OTHER, f"{name} {share}")]
        if file is not None and file.spec.kind in OF_OTHERS:
            return []
        if file is not None and hasattr(file, "columns"):
            items, columns = file.items, file.columns
            words = self._once(("columns", name), lambda: ColumnWords(items, columns))
            told: list[Phrase] = words(i, j)
            return told
        return [(OTHER, f"{name} {share}")]

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._words:
            self._words[key] = make()
        return self._words[key]

    def _links(self, file: ItemSource) -> LinkWords | None:
        """Return the writer for the graph of a source, if it has one."""
        links, graph = file.links, file.spec.file or ""
        if links is None:
            return None
        words: LinkWords = self._once(
            ("links", graph), lambda: LinkWords(links, self._graphs[graph])
        )
        return words

    def _cells(self, file: ItemSource | None) -> AnyArray:
        """Return which items have a value in a column of a source; all, if it has no columns."""
        names = () if file is None else file.column_names

        def known() -> AnyArray:
            cells = [file.items.known(name) for name in names] if file is not None else []
            return np.any(cells, axis=0) if cells else np.ones(self.lengths.stack.n_items, bool)

        found: AnyArray = self._once(("cells", names), known)
        return found

    def _model(self, name: str, file: ItemSource | None, numbers: bool) -> str:
        """Return the beginning of what a model predicts: which model it is, what it looks at."""
        if file is None:
            return f"{name!r} predicts"
        names = [column.name for column in getattr(getattr(file, "base", file), "columns", ())]
        of = self._graphs.get(file.spec.file or "", "") or listed(names) or "columns"
        if file.spec.facts["model"] == "spread":
            known = "targets" if numbers else "labels"
            if file.spec.uses_graph:
                return f"{known} spread over {of} predict"
            return f"the {known} of items of similar {of} predict"
        model = "random forest" if file.spec.facts["model"] == "forest" else model_name(numbers)
        model += " with a Gaussian kernel" if file.spec.kind == "kernel" else ""
        return f"a {model} on {of} predicts"
