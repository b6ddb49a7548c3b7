"""R dissimilarities from some items to others: of all pairs, or on the edges of a sparse set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = [
    "CrossDissimilarities",
    "CrossEdges",
    "are_items",
    "find_same_items",
    "has_edges_of",
    "open_mesh",
]

ROUNDING = 1e-12
"""Dissimilarities up to this share of the scale of their source count as 0."""
ROW_ROUNDING = 1e-6
"""Relative difference up to which two rows count as equal (float32 sources included)."""
ROWS_AT_ONCE = 128
"""Rows that are compared together."""


def open_mesh(key: Any, n: int) -> tuple[Indices, Indices]:
    """Return the item numbers of ``stack[np.ix_(rows, columns)]``, of n items.

    Raises
    ------
    InputError
        For any other key, or without items.
    """
    is_open_mesh = (
        isinstance(key, tuple)
        and len(key) == 2
        and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in key)
    )
    if not is_open_mesh:
        raise InputError(
            argument="stack[...]",
            expected="stack[np.ix_(rows, columns)]",
            remedy="use stack.rows(i), stack.pairs(i, j) or stack.source(name) for values",
        )
    rows = check_indices(key[0].ravel(), n, name="rows")
    columns = check_indices(key[1].ravel(), n, name="columns")
    if len(rows) == 0 or len(columns) == 0:
        raise InputError("stack[np.ix_(rows, columns)]: expected at least one item, got none")
    return rows, columns


class CrossDissimilarities:
    """R dissimilarities from some items (rows) to other items (columns).

    What ``stack[np.ix_(a, b)]`` gives; `values` has shape (len(a), len(b), R) and is divided by the
    stack's `scales`. The ids of the items, ``stack.items[a]`` and ``stack.items[b]``, are in
    `row_items` and `column_items`; `has_items` says whether they are more than numbers.
    """

    def __init__(
        self,
        raw: AnyArray,
        names: tuple[str, ...],
        scales: Floats,
        row_items: AnyArray,
        column_items: AnyArray,
        has_items: bool = True,
    ) -> None:
        scaled = raw.astype(np.float64) / scales[:, None, None]
        self.values = np.moveaxis(scaled, 0, -1)
        self.names = names
        self.scales = scales
        self.row_items = row_items
        self.column_items = column_items
        self.has_items = has_items
        self.shape: tuple[int, int] = (raw.shape[1], raw.shape[2])
        self.n_sources = raw.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"CrossDissimilarities(shape={self.shape}, sources={list(self.names)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return self.values if dtype is None else self.values.astype(dtype)


class CrossEdges:
    """R dissimilarities on edges from M items (rows) to n items (columns), by compressed rows.

    What ``stack[np.ix_(a, b)]`` of an :class:`~metricmix.EdgeStack` gives, and what predictions for
    new items take. An item that is row and column has an edge to itself, at 0.

    Attributes
    ----------
    indptr : (M + 1,) array
        Row q has the edges ``indptr[q] .. indptr[q + 1] - 1``.
    ends : (A,) array
        The column of each edge, increasing within a row.
    values : (R, A) array
        Not divided by scales.
    names : tuple of R str
    shape : (M, n)
    column_items : (n,) array or None
        Ids of the columns, where they have some.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from metricmix.dissimilarity import CrossEdges
    >>> km = csr_array([[0, 2.5, 0], [4, 0, 1]])
    >>> CrossEdges.from_matrices({"km": km, "minutes": 2 * km})
    CrossEdges(shape=(2, 3), edges=3, sources=['km', 'minutes'])
    """

    def __init__(
        self,
        indptr: Indices,
        ends: Indices,
        values: AnyArray,
        names: Sequence[str],
        n: int,
        column_items: AnyArray | None = None,
    ) -> None:
        self.indptr, self.ends, self.values = indptr, ends, values
        self.names = tuple(names)
        self.shape: tuple[int, int] = (len(indptr) - 1, n)
        self.column_items = column_items

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        edges = f"edges={len(self.ends)}, sources={list(self.names)}"
        return f"CrossEdges(shape={self.shape}, {edges})"

    @classmethod
    def from_matrices(cls, matrices: Mapping[str, Any]) -> CrossEdges:
        """Return the edges of a sparse (M, n) matrix per source.

        Every stored entry is an edge, zeros included. All sources have the same edges.

        Raises
        ------
        InputError
            If sources have different edges, or values that are not finite or negative.
        """
        found: list[AnyArray] = []
        first: Any = None
        for name, matrix in matrices.items():
            label = f"X[{name!r}]"
            if not hasattr(matrix, "tocoo"):
                raise InputError(
                    argument=label,
                    expected="a scipy sparse matrix, a row per new item",
                    found=type(matrix).__name__,
                )
            entries = matrix.tocoo()
            keys = entries.row.astype(np.int64) * entries.shape[1] + entries.col
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            if (np.diff(keys) == 0).any():
                raise InputError(argument=label, expected="each entry once, found some again")
            if first is None:
                first = (name, entries.shape, keys)
            if entries.shape != first[1] or not np.array_equal(keys, first[2]):
                raise InputError(
                    argument=label,
                    expected=f"the shape and the stored entries of {first[0]!r}, found others",
                    remedy="store a value of every source on every edge",
                )
            found.append(entries.data[order])
        if first is None:
            raise InputError(argument="X", expected="a sparse matrix per source, found none")
        (n_new, n), keys = first[1], first[2]
        row, ends = np.divmod(keys, max(1, n))
        return cls.of_sorted(row, ends, np.stack(found), list(matrices), (n_new, n))

    @classmethod
    def from_array(cls, values: AnyArray, names: Sequence[str]) -> CrossEdges:
        """Return the edges of an (M, n, R) array, inf in all sources where there is no edge."""
        there = ~np.isinf(values)
        some = there.any(axis=2)
        if not np.array_equal(some, there.all(axis=2)):
            raise InputError(
                argument="X",
                expected="a value of every source on every edge, found inf in some of them only",
            )
        row, ends = np.nonzero(some)
        return cls.of_sorted(row, ends, values[row, ends].T, names, some.shape)

    @classmethod
    def of_sorted(
        cls,
        row: Indices,
        ends: Indices,
        values: AnyArray,
        names: Sequence[str],
        shape: tuple[int, int],
        *,
        allow_unknown: bool = False,
    ) -> CrossEdges:
        """Return edges that are sorted by row and end, if their values are dissimilarities.

        With `allow_unknown`, NaN is for :func:`~metricmix.dissimilarity.unknown_pairs` to fill.
        """
        known = values[~np.isnan(values)] if allow_unknown else values
        if not (np.isfinite(known).all() and known.min(initial=0.0) >= 0):
            raise InputError(
                argument="X",
                expected="finite dissimilarities >= 0, found NaN, infinity or negative ones",
            )
        counts = np.bincount(row, minlength=shape[0])
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(indptr, ends, np.asarray(values, dtype=np.float64), names, shape[1])

    @classmethod
    def between(
        cls,
        edges: EdgeSet,
        values: AnyArray,
        names: Sequence[str],
        rows: Indices,
        columns: Indices,
    ) -> CrossEdges:
        """Return the edges of a set that lead from some items to others, which are different."""
        indptr, heads, number = edges.out
        counts = indptr[rows + 1] - indptr[rows]
        total = np.cumsum(counts)
        arcs = np.repeat(indptr[rows] - (total - counts), counts) + np.arange(counts.sum())
        place = np.full(edges.n, -1)
        place[columns] = np.arange(len(columns))
        row = np.concatenate([np.repeat(np.arange(len(rows)), counts), np.arange(len(rows))])
        ends = np.concatenate([place[heads[arcs]], place[rows]])
        itself = np.zeros((len(values), len(rows)), values.dtype)
        found = np.concatenate([values[:, number[arcs]], itself], axis=1)
        known = np.flatnonzero(ends >= 0)
        order = known[np.lexsort((ends[known], row[known]))]
        shape = (len(rows), len(columns))
        return cls.of_sorted(row[order], ends[order], found[:, order], names, shape)

    def row(self, q: int) -> slice:
        """Return where the edges of row q are."""
        return slice(int(self.indptr[q]), int(self.indptr[q + 1]))

    def dense_row(self, q: int) -> Floats:
        """Return the values from row q to all columns, (R, n), inf where there is no edge."""
        values = np.full((len(self.values), self.shape[1]), np.inf)
        values[:, self.ends[self.row(q)]] = self.values[:, self.row(q)]
        return values

    def rows(self, chosen: slice | Indices | NDArray[np.bool_]) -> CrossEdges:
        """Return some of the rows."""
        some = np.arange(len(self))[chosen]
        counts = np.diff(self.indptr)[some]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        taken = np.repeat(self.indptr[some] - bounds[:-1], counts) + np.arange(bounds[-1])
        part = (self.ends[taken], self.values[:, taken], self.names, self.shape[1])
        return CrossEdges(bounds, *part, self.column_items)

    def arranged(self, names: Sequence[str], columns: Sequence[int] | None) -> CrossEdges:
        """Return the same edges with the sources, and the columns if given, in another order.

        Columns that are not named are left out, with their edges.
        """
        values = self.values[[self.names.index(name) for name in names]]
        if columns is None:
            return CrossEdges(self.indptr, self.ends, values, names, self.shape[1])
        place = np.full(self.shape[1], -1)
        place[np.asarray(columns)] = np.arange(len(columns))
        row, ends = np.repeat(np.arange(len(self)), np.diff(self.indptr)), place[self.ends]
        known = np.flatnonzero(ends >= 0)
        order = known[np.lexsort((ends[known], row[known]))]
        shape = (len(self), len(columns))
        return self.of_sorted(row[order], ends[order], values[:, order], names, shape)


# -- new items that are items of the stack -------------------------------------------------------


def are_items(stack: DissimilarityStack, rows: AnyArray | CrossEdges, first: int) -> bool:
    """Return whether `rows` are those of the items first, first + 1, … of the stack.

    `rows` (M, n, R) are raw values; edges, over a sparse edge set.
    """
    if first + len(rows) > stack.n_items:
        return False
    if isinstance(rows, CrossEdges):
        return all(has_edges_of(stack, rows, q, first + q) for q in range(len(rows)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        if not same_rows(stack, some, first + start + np.arange(len(some))).all():
            return False
    return True


def find_same_items(
    stack: DissimilarityStack, raw: AnyArray | CrossEdges, m: Floats, weights: Floats
) -> Indices:
    """Return which new items have the very row of an item of the stack; -1 for the others.

    Of several such items, the first. `m` are mixture values of `raw`, by `weights` of the sources.
    """
    if isinstance(raw, CrossEdges):
        return find_same_edges(stack, raw)
    scales, same = stack.scales, np.full(len(raw), -1)
    # Where no source tells two items apart, neither does the mixture: few places to look at.
    near = np.abs(m) <= ROUNDING * float(np.abs(weights) @ scales)
    item, place = np.nonzero(near)
    equal = (np.abs(raw[item, place]) <= ROUNDING * scales).all(axis=1)
    item, place = item[equal], place[equal]
    while len(item):  # the next place of each item that is still looking for one
        known, first = np.unique(item, return_index=True)
        for start in range(0, len(known), ROWS_AT_ONCE):
            chunk = slice(start, start + ROWS_AT_ONCE)
            some, at = known[chunk], place[first[chunk]]
            same[some] = np.where(same_rows(stack, raw[some], at), at, -1)
        left = same[item] < 0
        left[first] = False
        item, place = item[left], place[left]
    return same


def same_rows(stack: DissimilarityStack, raw: AnyArray, items: Indices) -> NDArray[np.bool_]:
    """Return which of the rows `raw` (M, n, R) are those of the items, up to rounding."""
    theirs = np.moveaxis(stack.raw_rows(items), 0, -1)
    close = np.abs(raw - theirs) <= ROW_ROUNDING * (stack.scales + theirs)
    return np.asarray(close.all(axis=(1, 2)))


def find_same_edges(stack: DissimilarityStack, rows: CrossEdges) -> Indices:
    """Return which new items have the very edges of an item of the stack; -1 for the others."""
    same = np.full(len(rows), -1)
    equal = (rows.values <= ROUNDING * stack.scales[:, None]).all(axis=0)
    row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    for edge in np.flatnonzero(equal):
        q, u = int(row[edge]), int(rows.ends[edge])
        if same[q] < 0 and has_edges_of(stack, rows, q, u):
            same[q] = u
    return same


def has_edges_of(stack: Any, rows: CrossEdges, q: int, u: int) -> bool:
    """Return whether new item q is at 0 from item u of an EdgeStack and has its edges."""
    arcs, here = stack.edges.out, rows.row(q)
    own = slice(arcs.indptr[u], arcs.indptr[u + 1])
    ends, raw = rows.ends[here], rows.values[:, here]
    others = ends != u
    if others.all() or not np.array_equal(ends[others], arcs.ends[own]):
        return False
    scales, theirs = stack.scales[:, None], stack.values[:, arcs.edge[own]]
    close = np.abs(raw[:, others] - theirs) <= ROW_ROUNDING * (scales + theirs)
    return bool(close.all() and (raw[:, ~others] <= ROUNDING * scales).all())
