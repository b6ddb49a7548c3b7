"""Sources: anything that gives rows of a dissimilarity matrix.

Algorithms never request the matrix of a source, only ``rows``, ``columns`` and the values of given
``pairs``: this is what makes the library scale. A dense array, a memory map, features with a
distance, and a graph searched on demand all provide them.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import unmasked

if TYPE_CHECKING:
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = [
    "ComputedSource",
    "DenseSource",
    "ItemData",
    "Source",
    "Subset",
    "data_of",
]

VALUES_AT_ONCE = 1 << 22
"""Values of whole rows that are computed together, to take some of their columns."""


class Source(ABC):
    """One n × n dissimilarity matrix, accessed by rows.

    Attributes
    ----------
    n : int
        Number of items.
    name : str or None
        How a stack calls it unless told otherwise.
    n_unreachable : int
        Ordered pairs that had no path and were given a length (graph sources).
    n_unknown : int
        Ordered pairs that were not known (:mod:`metricmix.dissimilarity.unknown_pairs`).
    directed : bool
        Whether it may be asymmetric; an undirected stack refuses it then.
    facts : SourceFacts or None
        What holds for this kind of dissimilarity, if known.
    supervised : bool
        Whether it is computed from labels (:mod:`metricmix.dissimilarity.supervised`).
    made_from : ItemData or None
        The table and links it was computed from, if stated; dropped when pickled.
    to_corners : (n, C) array or None
        Of class probabilities: how far each item is from certainty of each class
        (:mod:`metricmix.dissimilarity.examples`).
    """

    n: int
    name: str | None = None
    n_unreachable: int = 0
    n_unknown: int = 0
    directed: bool = False
    facts: SourceFacts | None = None
    supervised: bool = False
    made_from: ItemData | None = None
    to_corners: Floats | None = None

    @abstractmethod
    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, of shape (len(indices), n)."""

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, of shape (len(indices), n); the rows, when symmetric."""
        return self.rows(indices)

    @property
    def rows_only(self) -> bool:
        """Whether columns are only known as rows, so that the source must be symmetric."""
        return type(self).columns is Source.columns

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise, of shape (len(i),)."""
        rows, row = np.unique(i, return_inverse=True)
        order = np.argsort(row, kind="stable")
        first = np.searchsorted(row[order], np.arange(0, len(rows) + 64, 64))
        values = np.empty(len(i))
        for block, (start, stop) in enumerate(itertools.pairwise(first)):
            here = order[start:stop]  # a few rows at a time bound the memory
            columns, column = np.unique(j[here], return_inverse=True)
            found = self.block(rows[64 * block : 64 * block + 64], columns)
            values[here] = found[row[here] - 64 * block, column]
        return values

    def block(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[np.ix_(i, j)]``, of shape (len(i), len(j))."""
        step = max(64, VALUES_AT_ONCE // self.n)
        parts = [self.rows(i[start : start + step])[:, j] for start in range(0, len(i), step)]
        return np.concatenate(parts) if parts else np.empty((0, len(j)))

    def pairs_among(self, items: Indices, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[items[i], items[j]]`` elementwise, from the block of these items."""
        return np.asarray(self.block(items, items)[i, j])

    @property
    def can_relabel(self) -> bool:
        """Whether :meth:`relabel` works."""
        return True

    def part(self, items: Indices, n_folds: int) -> Source:
        """Return the source of some items that have all the labels there are."""
        return Subset(self, items)

    def relabel(
        self, known: Known, *, weights: Floats | None = None, keep_choice: bool = False
    ) -> Source:
        """Return the source for other labels: itself, unless it is supervised.

        Parameters as in :meth:`metricmix.dissimilarity.supervised.SupervisedSource.relabel`.
        """
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "made_from"}


class DenseSource(Source):
    """A source held as a matrix: an array in memory or a memory map, used uncopied.

    What is known of it comes from the matrix, or from the source that it is `like`.
    """

    def __init__(
        self,
        matrix: ArrayLike,
        *,
        name: str | None = None,
        directed: bool = False,
        like: Source | None = None,
    ) -> None:
        self.matrix = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix)
        self.n = self.matrix.shape[0]
        self.name = name or getattr(matrix, "source_name", None)
        self.n_unreachable = getattr(matrix, "n_unreachable", 0)
        self.facts = getattr(matrix, "facts", None)
        self.directed = directed
        if like is not None:
            self.name, self.n_unreachable = like.name, like.n_unreachable
            self.n_unknown = like.n_unknown
            self.facts, self.made_from = like.facts, like.made_from

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``."""
        return np.asarray(self.matrix[indices])

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``."""
        if not self.directed:
            return self.rows(indices)
        return np.ascontiguousarray(np.asarray(self.matrix[:, indices]).T)

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        return np.asarray(self.matrix[i, j])

    def block(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[np.ix_(i, j)]``."""
        return np.asarray(self.matrix[np.ix_(i, j)])


class ComputedSource(Source):
    """A source whose rows are computed on demand, by functions of your own.

    Parameters
    ----------
    n : int
        Number of items.
    rows : callable
        ``rows(indices) -> (len(indices), n)``.
    columns : callable, optional
        ``columns(indices) -> (len(indices), n)``, needed for directed stacks only.
    pairs : callable, optional
        ``pairs(i, j) -> (len(i),)``, where single values are cheaper than rows.
    name : str, optional
    facts : SourceFacts, optional
        What is known to hold for it.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.dissimilarity import ComputedSource
    >>> time = np.array([0.0, 1.0, 5.0])
    >>> lag = ComputedSource(3, lambda i: np.abs(time[i, None] - time), name="lag")
    >>> lag.rows(np.array([2]))
    array([[5., 4., 0.]])
    """

    def __init__(
        self,
        n: int,
        rows: Callable[[Indices], AnyArray],
        *,
        columns: Callable[[Indices], AnyArray] | None = None,
        pairs: Callable[[Indices, Indices], AnyArray] | None = None,
        name: str | None = None,
        facts: SourceFacts | None = None,
    ) -> None:
        self.n = n
        self.name = name
        self.facts = facts
        self._rows, self._columns, self._pairs = rows, columns, pairs

    @property
    def rows_only(self) -> bool:
        """Whether no function for columns was given."""
        return self._columns is None

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, with checked shape and values."""
        return self._checked(self._rows(indices), "rows", (len(indices), self.n))

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, with checked shape and values."""
        if self._columns is None:
            return self.rows(indices)
        return self._checked(self._columns(indices), "columns", (len(indices), self.n))

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        if self._pairs is None:
            return super().pairs(i, j)
        return self._checked(self._pairs(i, j), "values", (len(i),))

    def _checked(self, values: AnyArray, what: str, shape: tuple[int, ...]) -> AnyArray:
        values = np.asarray(unmasked(values))
        label = f"source {self.name!r}" if self.name else "computed source"
        if values.shape != shape:
            raise InputError(
                argument=label, expected=f"{what} of shape {shape}", found=values.shape
            )
        if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
            raise InputError(argument=label, expected=f"finite, non-negative {what}, found others")
        return values


class Subset(Source):
    """Some of the items of a computed source."""

    def __init__(self, source: Source, items: Indices) -> None:
        self.source, self.items = source, items
        self.n = len(items)
        self.name, self.facts = source.name, source.facts
        self.supervised = source.supervised
        if source.to_corners is not None:
            self.to_corners = source.to_corners[items]

    def relabel(
        self, known: Known, *, weights: Floats | None = None, keep_choice: bool = False
    ) -> Source:
        """Return the source for other labels of these items; all others are unlabelled."""
        values = np.full(self.source.n, known.unknown, known.values.dtype)
        values[self.items] = known.values
        keys, groups = self._of_all(known.keys), self._of_all(known.groups)
        everyone = replace(known, values=values, keys=keys, groups=groups)
        source = self.source.relabel(
            everyone, weights=self._of_all(weights), keep_choice=keep_choice
        )
        return self if source is self.source else Subset(source, self.items)

    def _of_all(self, own: AnyArray | None) -> AnyArray | None:
        """Return numbers of these items as numbers of all items, 0 for others."""
        if own is None:
            return None
        numbers = np.zeros(self.source.n, own.dtype)
        numbers[self.items] = own
        return numbers

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]`` among these items."""
        return self.source.rows(self.items[indices])[:, self.items]

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T`` among these items."""
        return self.source.columns(self.items[indices])[:, self.items]

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        return self.source.pairs(self.items[i], self.items[j])


@dataclass(frozen=True, eq=False)
class ItemData:
    """What sources were computed from, for classifiers that learn no metric.

    Attributes
    ----------
    table : (n, d) array or CSR array, optional
        The attributes of the items.
    links : (n, n) CSR array, optional
        Strengths >= 0 of the links between items, symmetric.
    graphs : mapping of names to (n, n) CSR arrays
        The same of each graph, if they are known by name.
    memberships : mapping of names to (n, T) CSR arrays
        Of graphs that are projections of memberships: those in each of T groups.
    complete : bool
        Whether all sources were computed from these; False if some came from elsewhere, such as
        precomputed matrices.
    """

    table: Any = None
    links: Any = None
    complete: bool = True
    graphs: Mapping[str, Any] = field(default_factory=dict)
    memberships: Mapping[str, Any] = field(default_factory=dict)


def data_of(stack: DissimilarityStack) -> ItemData | None:
    """Return what the sources of a stack were computed from, together; None if none states it.

    `complete` says whether all of them do.
    """
    origin = stack.origin
    found = [] if origin is None else [source.made_from for source in origin.sources]
    stated = list({id(data): data for data in found if data is not None}.values())
    if not stated:
        return None
    return ItemData(
        next((data.table for data in stated if data.table is not None), None),
        next((data.links for data in stated if data.links is not None), None),
        None not in found and all(data.complete for data in stated),
        {name: links for data in stated for name, links in data.graphs.items()},
        {name: table for data in stated for name, table in data.memberships.items()},
    )
