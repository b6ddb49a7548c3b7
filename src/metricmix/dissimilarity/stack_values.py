"""What a stack holds and hands out: named sources, their values, scales and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.item_ids import ItemIds
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.source_input import as_block
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.exceptions import InputError
from metricmix.kernels.blocks import BlockJob, Cost, Found, run_blocks
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_indices, check_square_fits

if TYPE_CHECKING:
    from metricmix.dissimilarity.edge_set import EdgeSet

__all__ = [
    "SCALINGS",
    "SINGLE_FROM",
    "EdgeSource",
    "EdgeValues",
    "StackValues",
    "as_layers",
    "check_names",
    "evaluated",
    "given_scales",
    "row_ranges",
    "scale_of",
]

EDGES_AT_ONCE = 1 << 18
SINGLE_FROM = 10**6
"""Edges from which on values are kept in single precision."""
SCALINGS = ("none", "norm", "mean", "max")


class StackValues:
    """R named sources over n items with ids, divided by their scales: how a stack is read.

    The attributes are those of :class:`~metricmix.DissimilarityStack`; immutable.
    """

    names: tuple[str, ...]
    scaling: str
    scales: Floats
    sources: tuple[Source, ...]
    facts: tuple[SourceFacts | None, ...]
    n_unreachable: tuple[int, ...]
    directed: bool
    block: AnyArray | None
    edges: EdgeSet | None
    links: Indices | None
    _items: ItemIds
    _ranges: dict[bool, tuple[Floats, Floats]]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a stack is immutable, and so is its {name!r}")

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, n)``, as scikit-learn expects of something pairwise."""
        return (self.n_items, self.n_items)

    @property
    def n_items(self) -> int:
        """Number of items n."""
        return self.sources[0].n

    @property
    def items(self) -> AnyArray:
        """The n ids, in order and read-only: 0 .. n-1 where none were given."""
        return self._items.ids

    @property
    def has_items(self) -> bool:
        """Whether the items have ids of their own, and are not only numbered."""
        return self._items.given

    @property
    def n_sources(self) -> int:
        """Number of sources R."""
        return len(self.names)

    @property
    def supervised(self) -> tuple[str, ...]:
        """The names of the sources that are computed from labels."""
        named = zip(self.names, self.sources, strict=True)
        return tuple(name for name, source in named if source.supervised)

    def __len__(self) -> int:
        return self.n_items

    def __repr__(self) -> str:
        edges = "" if self.edges is None else f", edges={len(self.edges)}"
        extra = ", directed=True" if self.directed else ""
        extra += f", scaling={self.scaling!r}" if self.scaling != "none" else ""
        if self.has_items:
            more = ", ..." if self.n_items > 2 else ""
            extra += f", items=[{', '.join(map(repr, self.items[:2].tolist()))}{more}]"
        kind = type(self).__name__
        return f"{kind}(n={self.n_items}{edges}, sources={list(self.names)}{extra})"

    # -- values ----------------------------------------------------------------------------------

    def positions(self, ids: Any) -> Indices:
        """Return the numbers of the items called `ids`, as `rows` and `pairs` take them.

        An id that is not there is an error; of one that a slice repeats, the first counts.
        """
        return self._items.positions(ids)

    def rows(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[i, :]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self.n_items)))

    def columns(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[:, i]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self.n_items), reverse=True))

    def pairs(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Return the R values of the pairs ``(i[k], j[k])``: shape (len(i), R)."""
        first, second = (
            check_indices(side, self.n_items, name=name) for side, name in ((i, "i"), (j, "j"))
        )
        if len(first) != len(second):
            raise InputError(f"i, j: expected as many of each, got {len(first)} and {len(second)}")
        return self._scaled(self.raw_pairs(first, second))

    def raw_rows(self, items: Indices, *, reverse: bool = False) -> AnyArray:
        """Return the rows (columns, if `reverse`) as the kernels take them: (R, len(items), n).

        Neither checked nor divided by the scales; inf where sparse edges have none.
        """
        return np.stack(
            [source.columns(items) if reverse else source.rows(items) for source in self.sources]
        )

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs as the kernels take them, (R, len(i)), undivided."""
        if self.block is not None:
            return self.block[:, i, j]
        return np.stack([source.pairs(i, j) for source in self.sources])

    def raw_range(self, *, reverse: bool = False) -> tuple[Floats, Floats] | None:
        """Return the smallest and largest entry of every row (column, if `reverse`): (R, n) each.

        The diagonal is left out. None for sources that are not in memory; else found once, by
        reading all entries.
        """
        if self.block is None or self.n_items == 1:
            return None
        side = reverse and self.directed
        if side not in self._ranges:
            self._ranges[side] = row_ranges(self.block, reverse=side)
        return self._ranges[side]

    def source(self, name: str | int) -> Floats:
        """Return one source as an (n, n) array, by its name or number, divided by its scale.

        Exactly symmetric unless the stack is directed: the rows of a matrix product may differ
        from its columns by rounding, and the smaller of the two entries counts.
        """
        r = self.position_of(name)
        values = np.asarray(self.sources[r].rows(np.arange(self.n_items)) / self.scales[r])
        return values if self.directed else np.minimum(values, values.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        instead = "use stack.rows(i), or stack.values of sparse edges"
        size = 8 * self.n_sources
        check_square_fits(self.n_items, size, what="the array", argument="stack", instead=instead)
        everything = self.rows(np.arange(self.n_items))
        return everything if dtype is None else everything.astype(dtype)

    def _scaled(self, raw: AnyArray) -> Floats:
        """Divide by the scales, and put the sources on the last axis."""
        return np.asarray(np.moveaxis(raw, 0, -1) / self.scales)

    def position_of(self, name: str | int) -> int:
        """Return the number of the source of that name, or of that number."""
        if isinstance(name, str):
            if name not in self.names:
                raise InputError(
                    argument="source", expected=f"one of {list(self.names)}", found=f"{name!r}"
                )
            return self.names.index(name)
        return int(check_indices(name, self.n_sources, name="source")[0])


def as_layers(
    sources: Sequence[Source], directed: bool
) -> tuple[Sequence[Source], AnyArray | None]:
    """Return valid sources, and a copy of those in memory as one (R, n, n) block they share."""
    block = as_block(sources, directed)
    if block is not None:
        pairs = zip(sources, block, strict=True)
        sources = [DenseSource(layer, directed=directed, like=source) for source, layer in pairs]
    return sources, block


FEWEST, MOST = 32, 256
"""Rows of a sample by which a source is scaled."""
PRECISION = 0.02
"""Standard error of a scale, relative to it, from which on a sample is large enough."""


def scale_of(source: Source, scaling: str) -> float:
    """Return the number that brings `source` to unit root mean square, mean or maximum.

    Computed sources of more than 256 items are scaled by a random sample of rows: 32 of them, and
    32 more up to 256 while the standard error of the mean is above 2 %. Of rows so long that 256
    have more than 16 million entries fewer are taken, at least 16. Sparse edges are scaled by their
    values.
    """
    if isinstance(source, EdgeSource):
        return source.scale(scaling)
    n, at_once = source.n, max(1, min(MOST, (1 << 24) // source.n))
    chosen, step, enough = np.arange(n), at_once, n
    if not isinstance(source, DenseSource) and n > MOST:
        few = min(MOST, max(16, (1 << 24) // n))
        chosen, step = np.random.default_rng(0).choice(n, few, replace=False), min(FEWEST, at_once)
        enough = few if scaling == "max" else FEWEST
    totals, largest = np.empty(0), 0.0
    while len(totals) < len(chosen):
        part = np.sort(chosen[len(totals) : len(totals) + step])
        rows = np.asarray(source.rows(part), dtype=np.float64)
        sums = np.square(rows).sum(axis=1) if scaling == "norm" else rows.sum(axis=1)
        totals, largest = np.append(totals, sums), max(largest, float(rows.max()))
        error = totals.std() / np.sqrt(len(totals))
        if len(totals) >= enough and error <= PRECISION * totals.mean():
            break
    mean = float(totals.mean()) / (n - 1)
    scale = {"norm": np.sqrt(mean), "mean": mean, "max": largest}[scaling]
    return float(scale) if scale > 0 else 1.0  # an all-zero source stays as it is


def given_scales(scales: ArrayLike, R: int) -> Floats:
    """Return scales that were given, R positive numbers, as a new array."""
    found = np.array(scales, dtype=np.float64)
    if found.shape != (R,) or not (np.isfinite(found).all() and (found > 0).all()):
        raise InputError(argument="scaling", expected=f"{R} positive numbers", found=f"{scales!r}")
    return found


def check_names(names: Sequence[str] | None, parts: Sequence[Source]) -> tuple[str, ...]:
    """Return different names of the sources: those given, else what they call themselves."""
    if names is None:
        own = [part.name or f"source_{r}" for r, part in enumerate(parts)]
        unique: list[str] = []
        for name in own:  # sources of one kind are told apart by a number
            numbered = (f"{name}_{k}" for k in range(1, len(own) + 2))
            taken = {*own, *unique}
            unique.append(
                name if own.count(name) == 1 else next(x for x in numbered if x not in taken)
            )
        return tuple(unique)
    if isinstance(names, str) or np.isscalar(names) or len(names) != len(parts):
        raise InputError(
            argument="names", expected=f"{len(parts)}, one per source", found=f"{names!r}"
        )
    checked = tuple(str(name) for name in names)
    repeated = sorted({name for name in checked if checked.count(name) > 1})
    if repeated:
        raise InputError(
            argument="names", expected=f"different names, found {repeated[0]!r} more than once"
        )
    return checked


def row_ranges(block: AnyArray, *, reverse: bool) -> tuple[Floats, Floats]:
    """Return the range of every row (column, if `reverse`), diagonal left out: (R, n) each."""
    low, high = np.empty((2, *block.shape[:2]))

    def fill(r: int) -> None:
        layer = block[r]
        row_range(np.ascontiguousarray(layer.T) if reverse else layer, low[r], high[r])

    in_threads(fill, range(len(block)), threads_for(block.shape[1]))
    return low, high


@kernel
def row_range(layer: AnyArray, low: AnyArray, high: AnyArray) -> None:
    """Fill `low` and `high` with the range of every row, without the diagonal."""
    for u in range(layer.shape[0]):
        row = layer[u]
        smallest, largest = np.inf, 0.0
        for v in range(row.shape[0]):
            if v != u:
                smallest = min(smallest, row[v])
                largest = max(largest, row[v])
        low[u], high[u] = smallest, largest


# -- values on sparse edges ------------------------------------------------------------------------


class EdgeSource(Source):
    """One dissimilarity that is known on the edges of a set, and infinite elsewhere."""

    def __init__(self, edges: EdgeSet, values: AnyArray, name: str | None = None) -> None:
        self.edges, self.values, self.name = edges, values, name
        self.n, self.directed = edges.n, edges.directed

    def scale(self, scaling: str) -> float:
        """Return the root mean square, mean or maximum over the edges; 1 if that is 0."""
        if len(self.edges) == 0:
            return 1.0
        scale = float(
            np.sqrt(np.square(self.values, dtype=np.float64).mean())
            if scaling == "norm"
            else self.values.max()
            if scaling == "max"
            else self.values.mean(dtype=np.float64)
        )
        return scale or 1.0

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, inf where there is no edge."""
        return self._rows(indices, self.edges.out)

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, inf where there is no edge."""
        return self._rows(indices, self.edges.into)

    def _rows(self, indices: Indices, arcs: tuple[AnyArray, AnyArray, AnyArray]) -> AnyArray:
        indptr, ends, edge = arcs
        rows = np.full((len(indices), self.n), np.inf)
        for row, u in zip(rows, indices, strict=True):
            here = slice(indptr[u], indptr[u + 1])
            row[ends[here]] = self.values[edge[here]]
            row[u] = 0.0
        return rows

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise, inf where there is no edge."""
        found = self.edges.find(i, j)
        values = np.full(found.shape, np.inf)
        known = found >= 0
        values[known] = self.values[found[known]]
        values[np.equal(i, j)] = 0.0
        return values


def evaluated(sources: Any, edges: EdgeSet) -> AnyArray:
    """Return the values of sources on every edge, (R, E); float32 from a million edges on."""
    precision = np.float32 if len(edges) > SINGLE_FROM else np.float64
    values: Floats = np.empty((len(sources), len(edges)), precision)
    for row, source in zip(values, sources, strict=True):

        def put(start: int, stop: int, found: Found, row: AnyArray = row) -> None:
            row[start * EDGES_AT_ONCE : stop * EDGES_AT_ONCE] = found[0]

        run_blocks(EdgeValues(source, edges.tails, edges.heads, np.dtype(precision)), put)
    return values


@dataclass(frozen=True, eq=False)
class EdgeValues(BlockJob):
    """The values of a source on edges; a unit is `EDGES_AT_ONCE` of them."""

    source: Any
    tails: Ints
    heads: Ints
    dtype: Any
    what = "source values"
    alone = True  # sources need not support several threads

    @property
    def cost(self) -> Cost:
        """A microsecond per edge; memory for its two ends, and for values in double precision."""
        units = -(-len(self.tails) // EDGES_AT_ONCE)
        result = float(EDGES_AT_ONCE * self.dtype.itemsize)
        return Cost(units, EDGES_AT_ONCE * 1e-6, result, work_bytes=64.0 * EDGES_AT_ONCE)

    def block(self, start: int, stop: int) -> Found:
        """Return the values on some edges."""
        first, last = start * EDGES_AT_ONCE, min(stop * EDGES_AT_ONCE, len(self.tails))
        found = np.empty(last - first, self.dtype)
        for low in range(first, last, EDGES_AT_ONCE):
            check_time()
            some = slice(low, min(low + EDGES_AT_ONCE, last))
            ends = self.tails[some].astype(np.int64), self.heads[some].astype(np.int64)
            found[low - first : low - first + len(ends[0])] = self.source.pairs(*ends)
        return (found,)
