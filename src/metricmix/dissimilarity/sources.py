"""Sources: anything that gives rows of a dissimilarity matrix.

Algorithms never request the matrix of a source, only ``rows``, ``columns`` and the values of given
``pairs``: this is what makes the library scale. A dense array, a memory map, features with a
distance, and a graph searched on demand all provide them.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    check_ids,
    examples,
    facts,
    is_frame,
    is_numbering,
)
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_square, unmasked

if TYPE_CHECKING:
    from metricmix.dissimilarity.features import FeatureRows

__all__ = [
    "SCALINGS",
    "ComputedSource",
    "DenseSource",
    "FeatureSource",
    "GraphSource",
    "Source",
    "Subset",
    "align",
    "as_list",
    "scale_of",
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
    directed : bool
        Whether it may be asymmetric; an undirected stack refuses it then.
    facts : SourceFacts or None
        What holds for this kind of dissimilarity, if known.
    supervised : bool
        Whether it is computed from labels (:mod:`metricmix.dissimilarity.supervised`).
    """

    n: int
    name: str | None = None
    n_unreachable: int = 0
    directed: bool = False
    facts: SourceFacts | None = None
    supervised: bool = False

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

    def relabelled(self, codes: AnyArray, n_classes: int, *, keep_choice: bool = False) -> Source:
        """Return the source for other labels: itself, unless it is supervised.

        Parameters as in :meth:`metricmix.DissimilarityStack.relabelled`.
        """
        return self


class DenseSource(Source):
    """A source held as a matrix: an array in memory or a memory map, used uncopied."""

    def __init__(self, matrix: ArrayLike, *, name: str | None = None, directed: bool = False):
        self.matrix = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix)
        self.n = self.matrix.shape[0]
        self.name = name or getattr(matrix, "source_name", None)
        self.n_unreachable = getattr(matrix, "n_unreachable", 0)
        self.facts = getattr(matrix, "facts", None)
        self.directed = directed

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


class FeatureSource(ComputedSource):
    """Distances between the rows of a feature table, computed on demand.

    The values are those of :func:`metricmix.dissimilarity.features`; memory is that of the table.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or table
    metric : str
        As in :func:`~metricmix.dissimilarity.features`.
    name : str, optional
        Default: that of the metric.
    """

    def __init__(self, X: ArrayLike, metric: str = "euclidean", *, name: str | None = None) -> None:
        from metricmix.dissimilarity.features import feature_rows

        self._use(feature_rows(X, metric), name or metric)

    @classmethod
    def of(cls, compute: FeatureRows, name: str) -> FeatureSource:
        """Return the source of a validated table, in its own precision."""
        source = cls.__new__(cls)
        source._use(compute, name)
        return source

    def _use(self, compute: FeatureRows, name: str) -> None:
        rows, known = compute.rows, replace(compute.facts, new_items=False)
        super().__init__(compute.n, rows, columns=rows, name=name, facts=known)
        self.compute = compute

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return self.compute.between(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise, O(d) each."""
        return self.compute.pairs(i, j)


class GraphSource(ComputedSource):
    """Path lengths of an unweighted graph, by one breadth-first search per row.

    Unreachable pairs need a stated length here, since the largest finite distance of the whole
    graph is not known without searching all of it.

    Parameters
    ----------
    graph : graph
        As in :func:`~metricmix.dissimilarity.path_length`; weights are ignored.
    unreachable : float
        Length given to pairs without a path. In an undirected graph, a row with a path more than
        twice as long raises :class:`~metricmix.exceptions.InputError`: the triangle inequality
        would not hold. In a directed one it is up to the caller that it does.
    clipped : bool
        Whether longer paths count as `unreachable` too, which is then a whole number. The length
        of a pair is found from the surroundings of its two ends.
    nodes, directed
        As in :func:`~metricmix.dissimilarity.path_length`.
    name : str, optional
    """

    def __init__(
        self,
        graph: Any,
        *,
        unreachable: float,
        clipped: bool = False,
        nodes: Any = None,
        directed: bool = False,
        name: str | None = None,
    ) -> None:
        from metricmix.dissimilarity.breadth_first import breadth_first, clipped_path_lengths
        from metricmix.dissimilarity.graphs import as_graph
        from metricmix.dissimilarity.path_length import check_unreachable_length

        forward = as_graph(graph, nodes=nodes, weight="ignore", directed=directed).adjacency
        backward = forward.T.tocsr() if directed else forward
        longest = check_integer(unreachable, name="unreachable", low=1) if clipped else 0

        def search(adjacency: Any) -> Callable[[Indices], AnyArray]:
            indptr, indices = adjacency.indptr, adjacency.indices

            def rows(sources: Indices) -> AnyArray:
                hops = breadth_first(indptr, indices, sources).astype(np.float64)
                missing = (hops < 0) | (hops > longest) if clipped else hops < 0
                if not directed and not clipped:
                    apart = missing.any(axis=1)
                    check_unreachable_length(unreachable, float(hops[apart].max(initial=0.0)))
                hops[missing] = unreachable
                return hops

            return rows

        def lengths(i: Indices, j: Indices) -> AnyArray:
            there, back = ((A.indptr, A.indices) for A in (forward, backward))
            return clipped_path_lengths(there, back, i, j, longest)

        super().__init__(
            forward.shape[0],
            search(forward),
            columns=search(backward),
            pairs=lengths if clipped else None,
            name=name or "path_length",
        )
        self.directed = directed
        known = replace(facts("path_length"), directed=directed)
        self.facts = replace(known, metric="no") if directed else known


class Subset(Source):
    """Some of the items of a computed source."""

    def __init__(self, source: Source, items: Indices) -> None:
        self.source, self.items = source, items
        self.n = len(items)
        self.name, self.facts = source.name, source.facts
        self.supervised = source.supervised

    def relabelled(self, codes: AnyArray, n_classes: int, *, keep_choice: bool = False) -> Source:
        """Return the source for other labels of these items; all others are unlabelled."""
        everyone = np.full(self.source.n, -1 if n_classes else np.nan)
        everyone[self.items] = codes
        source = self.source.relabelled(everyone, n_classes, keep_choice=keep_choice)
        return self if source is self.source else Subset(source, self.items)

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]`` among these items."""
        return self.source.rows(self.items[indices])[:, self.items]

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T`` among these items."""
        return self.source.columns(self.items[indices])[:, self.items]

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        return self.source.pairs(self.items[i], self.items[j])


def as_source(source: Any, *, name: str, directed: bool, validate: bool = True) -> Source:
    """Return `source` as a checked :class:`Source`; `name` is what error messages call it."""
    if isinstance(source, Source):
        if source.directed and not directed:
            raise InputError(
                argument=name,
                expected="a symmetric source",
                found="a directed one",
                remedy="pass directed=True",
            )
        if directed and source.rows_only:
            raise InputError(
                argument=name,
                expected="columns as well as rows in a directed stack",
                remedy=(
                    "pass columns= to the source (the same function as rows= if it is symmetric)"
                ),
            )
        if validate:  # a few rows only: all of them would be too many to compute
            some = np.unique(np.linspace(0, source.n - 1, 8).astype(np.int64))
            sample = source.rows(some)[:, some]
            check_square(sample, name=f"{name}, a sample of it", directed=directed)
        return source
    matrix = check_square(source, name=name, directed=directed) if validate else unmasked(source)
    dense = DenseSource(matrix, directed=directed)
    dense.name = getattr(source, "source_name", None)
    dense.n_unreachable = getattr(source, "n_unreachable", 0)
    dense.facts = getattr(source, "facts", None)
    return dense


def is_mapped(array: Any) -> bool:
    """Return whether an array is, or is a view of, a memory map."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


# -- scaling ---------------------------------------------------------------------------------------

SCALINGS = ("none", "norm", "mean", "max")
ROWS_FOR_SCALE = 256
"""Computed sources with more items than this are scaled by a random sample of as many rows."""
VALUES_FOR_SCALE = 1 << 24
"""Entries of these rows at most, unless there are fewer than 16 rows."""


def scale_of(source: Source, scaling: str) -> float:
    """Return the number that brings `source` to unit root mean square, mean or maximum."""
    n = source.n
    chosen = np.arange(n)
    if not isinstance(source, DenseSource) and n > ROWS_FOR_SCALE:
        few = min(ROWS_FOR_SCALE, max(16, VALUES_FOR_SCALE // n))
        chosen = np.sort(np.random.default_rng(0).choice(n, few, replace=False))
    total, largest = 0.0, 0.0
    step = max(1, min(256, VALUES_FOR_SCALE // n))
    for start in range(0, len(chosen), step):
        rows = np.asarray(source.rows(chosen[start : start + step]), dtype=np.float64)
        total += float(np.square(rows).sum() if scaling == "norm" else rows.sum())
        largest = max(largest, float(rows.max()))
    pairs = len(chosen) * (n - 1)
    scale = {"norm": np.sqrt(total / pairs), "mean": total / pairs, "max": largest}[scaling]
    return float(scale) if scale > 0 else 1.0  # an all-zero source stays as it is


# -- alignment: the same item in the same row of every source -------------------------------------


def as_list(sources: Any) -> list[Any]:
    """Split whatever was given into a list of R sources."""
    if isinstance(sources, Source) or is_frame(sources):
        return [sources]
    if sources is None or np.isscalar(sources):
        raise InputError(
            argument="stack",
            expected="a list of matrices or an (n, n, R) array",
            found=f"{sources!r}",
        )
    if isinstance(sources, np.ndarray):
        if sources.ndim == 2:
            return [sources]
        if sources.ndim == 3 and sources.shape[0] == sources.shape[1]:
            return [sources[:, :, r] for r in range(sources.shape[2])] or _refuse_empty()
        raise InputError(
            argument="stack",
            expected="an (n, n, R) array",
            found=f"shape {sources.shape}",
            remedy="np.moveaxis(a, 0, -1) makes one of an (R, n, n) array",
        )
    listed = list(sources)
    return listed or _refuse_empty()


def _refuse_empty() -> list[Any]:
    raise InputError(argument="stack", expected="at least one dissimilarity", found="none")


def align(
    sources: Sequence[Any], labels: Sequence[str], items: Any = None
) -> tuple[list[Any], AnyArray | None]:
    """Return the sources with their rows and columns in the order of the items, and the ids.

    Parameters
    ----------
    sources : sequence of arrays, DataFrames or Source
        Those that know their ids (a square DataFrame with an index other than the default one, a
        :class:`~metricmix.dissimilarity.DissimilarityMatrix` with `items`) are reordered, in a
        copy, where their order is another. The others are left as they are.
    labels : sequence of str
        What error messages call the sources.
    items : sequence of ids, optional
        Default: the ids of the first source that knows them; None if no source does. Ids that are
        the numbers 0 .. n - 1 in another order, as a networkx graph may have them, are taken for
        the places of the items: their order is 0, 1, …

    >>> M = as_dissimilarity(np.array([[0, 1], [2, 0]]), "steps", items=["b", "a"])
    >>> align([M], ["stack[0]"], items=["a", "b"])
    ([DissimilarityMatrix([[0, 2],
                           [1, 0]])], array(['a', 'b'], dtype='<U1'))
    """
    whose = "items"
    ids = None if items is None else check_ids(items)
    aligned = []
    for source, label in zip(sources, labels, strict=True):
        matrix, own = source, None
        if isinstance(source, DissimilarityMatrix):
            own = source.items
        elif is_frame(source):
            matrix, own = read_frame(source, label)
        if own is not None and ids is None:
            numbers = own.dtype.kind == "i" and np.array_equal(np.sort(own), np.arange(len(own)))
            ids, whose = np.arange(len(own)) if numbers else own, label
        if own is not None and ids is not None and own.tolist() != ids.tolist():
            order = _order(own, ids, f"{label}: expected the ids of {whose}")
            matrix = np.asarray(matrix)[np.ix_(order, order)]
            if isinstance(source, DissimilarityMatrix):
                name, missing, known = source.source_name, source.n_unreachable, source.facts
                matrix = as_dissimilarity(matrix, name, missing, facts=known)
        aligned.append(matrix)
    return aligned, ids


def read_frame(source: Any, label: str) -> tuple[AnyArray, AnyArray | None]:
    """Return the values of a DataFrame, columns in the order of the rows, and the ids if any."""
    matrix = np.asarray(source)
    rows, columns = source.index, source.columns
    if len(rows) != len(columns) or (is_numbering(rows) and is_numbering(columns)):
        return matrix, None
    ids, across = check_ids(rows, name=label), check_ids(columns, name=label)
    if ids.tolist() != across.tolist():
        order = _order(across, ids, f"{label}: expected columns labelled as its rows")
        matrix = matrix[:, order]
    return matrix, ids


def _order(own: AnyArray, wanted: AnyArray, expected: str) -> Indices:
    """Return the places of the ids `wanted` among one's own, which must be the same ids."""
    places = {label: k for k, label in enumerate(own.tolist())}
    listed = wanted.tolist()
    missing = [label for label in listed if label not in places]
    known = set(listed)
    surplus = [label for label in places if label not in known]
    if missing or surplus:
        found = [
            f"{len(some)} {what}, such as {examples(some)}"
            for some, what in ((missing, "missing"), (surplus, "more"))
            if some
        ]
        raise InputError(
            f"{expected}, found {' and '.join(found)}; keep the items that both have, or pass "
            "np.asarray(source) to match by position"
        )
    return np.array([places[label] for label in listed], dtype=np.int64)
