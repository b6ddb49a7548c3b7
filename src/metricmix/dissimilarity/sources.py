"""What a stack is made of: anything that can give rows of a dissimilarity matrix.

The one abstraction that makes the library scale is that nothing ever asks a source for its
matrix, only for ``rows``, ``columns`` and the values of given ``pairs``. A dense array, a memory
map, features with a distance, or a graph searched on demand can all answer that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.validation import check_square

__all__ = ["ComputedSource", "DenseSource", "FeatureSource", "GraphSource", "Source", "Subset"]

Indices = NDArray[np.int64]
Floats = NDArray[Any]
SAMPLED_ROWS = 8
"""Rows of a computed source that are looked at before it is accepted."""


class Source(ABC):
    """One n × n dissimilarity matrix, asked for by rows.

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
    """

    n: int
    name: str | None = None
    n_unreachable: int = 0
    directed: bool = False

    @abstractmethod
    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``, of shape (len(indices), n)."""

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``, of shape (len(indices), n); the rows, when symmetric."""
        return self.rows(indices)

    @property
    def rows_only(self) -> bool:
        """Whether columns are only known as rows, so that the source must be symmetric."""
        return type(self).columns is Source.columns

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise, of shape (len(i),)."""
        unique, where = np.unique(i, return_inverse=True)
        values = np.empty(len(i))
        for start in range(0, len(unique), 64):  # a few rows at a time bound the memory
            rows = self.rows(unique[start : start + 64])
            here = (where >= start) & (where < start + 64)
            values[here] = rows[where[here] - start, j[here]]
        return values

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``, of shape (len(i), len(j))."""
        return self.rows(i)[:, j]


class DenseSource(Source):
    """A source held as a matrix: an array in memory or a memory map, used uncopied."""

    def __init__(self, matrix: ArrayLike, *, name: str | None = None, directed: bool = False):
        self.matrix = matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix)
        self.n = self.matrix.shape[0]
        self.name = name or getattr(matrix, "source_name", None)
        self.n_unreachable = getattr(matrix, "n_unreachable", 0)
        self.directed = directed

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return np.asarray(self.matrix[indices])

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``."""
        if not self.directed:
            return self.rows(indices)
        return np.ascontiguousarray(np.asarray(self.matrix[:, indices]).T)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        return np.asarray(self.matrix[i, j])

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return np.asarray(self.matrix[np.ix_(i, j)])


class ComputedSource(Source):
    """A source whose rows are computed when they are asked for, by functions of your own.

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
        rows: Callable[[Indices], Floats],
        *,
        columns: Callable[[Indices], Floats] | None = None,
        pairs: Callable[[Indices, Indices], Floats] | None = None,
        name: str | None = None,
    ) -> None:
        self.n = n
        self.name = name
        self._rows, self._columns, self._pairs = rows, columns, pairs

    @property
    def rows_only(self) -> bool:
        """Whether no function for columns was given."""
        return self._columns is None

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``, checked for shape and sense."""
        return self._checked(self._rows(indices), "rows", (len(indices), self.n))

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T``, checked for shape and sense."""
        if self._columns is None:
            return self.rows(indices)
        return self._checked(self._columns(indices), "columns", (len(indices), self.n))

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        if self._pairs is None:
            return super().pairs(i, j)
        return self._checked(self._pairs(i, j), "values", (len(i),))

    def _checked(self, values: Floats, what: str, shape: tuple[int, ...]) -> Floats:
        values = np.asarray(values)
        label = f"source {self.name!r}" if self.name else "computed source"
        if values.shape != shape:
            raise InputError(f"{label}: expected {what} of shape {shape}, got {values.shape}")
        if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
            raise InputError(f"{label}: expected finite, non-negative {what}, found others")
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

        self.X, self.metric = X, metric
        compute = feature_rows(X, metric)
        super().__init__(compute.n, compute.rows, columns=compute.rows, name=name or metric)


class GraphSource(ComputedSource):
    """Path lengths of an unweighted graph, by one breadth-first search per row asked for.

    Unreachable pairs need a stated length here, since the largest finite distance of the whole
    graph is not known without searching all of it.

    Parameters
    ----------
    graph : graph
        As in :func:`~metricmix.dissimilarity.path_length`; weights are ignored.
    unreachable : float
        Length given to pairs without a path.
    nodes, directed
        As in :func:`~metricmix.dissimilarity.path_length`.
    name : str, optional
    """

    def __init__(
        self,
        graph: Any,
        *,
        unreachable: float,
        nodes: Any = None,
        directed: bool = False,
        name: str | None = None,
    ) -> None:
        from metricmix.dissimilarity.graphs import as_graph
        from metricmix.kernels.breadth_first import breadth_first

        forward = as_graph(graph, nodes=nodes, weight="ignore", directed=directed).adjacency
        backward = forward.T.tocsr() if directed else forward

        def search(adjacency: Any) -> Callable[[Indices], Floats]:
            indptr, indices = adjacency.indptr, adjacency.indices

            def rows(sources: Indices) -> Floats:
                hops = breadth_first(indptr, indices, sources).astype(np.float64)
                hops[hops < 0] = unreachable
                return hops

            return rows

        super().__init__(
            forward.shape[0], search(forward), columns=search(backward), name=name or "path_length"
        )
        self.directed = directed


class Subset(Source):
    """Some of the items of a computed source."""

    def __init__(self, source: Source, items: Indices) -> None:
        self.source, self.items = source, items
        self.n = len(items)
        self.name = source.name

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]`` among these items."""
        return self.source.rows(self.items[indices])[:, self.items]

    def columns(self, indices: Indices) -> Floats:
        """Return ``M[:, indices].T`` among these items."""
        return self.source.columns(self.items[indices])[:, self.items]

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        return self.source.pairs(self.items[i], self.items[j])


def as_source(source: Any, *, name: str, directed: bool, validate: bool = True) -> Source:
    """Return `source` as a checked :class:`Source`; `name` is what error messages call it."""
    if isinstance(source, Source):
        if source.directed and not directed:
            raise InputError(
                f"{name}: expected a symmetric source, got a directed one; pass directed=True"
            )
        if directed and source.rows_only:
            raise InputError(
                f"{name}: expected columns as well as rows in a directed stack; "
                "pass columns= to the source (the same function as rows= if it is symmetric)"
            )
        if validate:
            _check_sample(source, name=name, directed=directed)
        return source
    matrix = check_square(source, name=name, directed=directed) if validate else source
    dense = DenseSource(matrix, directed=directed)
    dense.name = getattr(source, "source_name", None)
    dense.n_unreachable = getattr(source, "n_unreachable", 0)
    return dense


def _check_sample(source: Source, *, name: str, directed: bool) -> None:
    """Check what a few rows of a computed source tell; all of it would be too much to ask for."""
    some = np.unique(np.linspace(0, source.n - 1, SAMPLED_ROWS).astype(np.int64))
    check_square(source.rows(some)[:, some], name=f"{name}, a sample of it", directed=directed)


def is_mapped(array: Any) -> bool:
    """Return whether an array is, or is a view of, a memory map."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False
