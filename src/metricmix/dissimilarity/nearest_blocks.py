"""Nearest rows of a table, block by block: what threads and the workers of a cluster compute.

Every unit is some rows, or the rows of a cell, compared with others at the speed of a matrix
product. :mod:`metricmix.dissimilarity.nearest_items` chooses between these searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.kernels.blocks import BlockJob, Found, release
from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "BLOCK",
    "TREE_ROWS",
    "AllRows",
    "NearCells",
    "NearestCentres",
    "Products",
    "TreeRows",
    "empty_places",
    "half_squares",
    "keep_nearest",
    "nearest_columns",
    "sparse_operations",
]

BLOCK = 1 << 23
"""Distances computed at once: 32 MiB in single precision."""
PER_PRODUCT, PER_COMPARISON = 5e-11, 1e-9
"""Seconds that a number in a product of tables takes, and a comparison of two rows."""
TREE_ROWS = 1 << 12
"""Rows that are looked up in a tree together."""


@dataclass(frozen=True, eq=False)
class AllRows(BlockJob):
    """The k nearest rows of all rows of a table, by all products; a unit is some rows.

    A dense table is read in pieces, and need not fit into the memory of a worker.
    """

    Z: Any
    halves: AnyArray
    k: int
    what = "neighbour search"

    @property
    def streams(self) -> bool:
        """Whether the table is dense."""
        return isinstance(self.Z, np.ndarray)

    @property
    def step(self) -> int:
        """Rows of a unit."""
        n = int(self.Z.shape[0])
        return max(1, min(n, BLOCK // n))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return -(-int(self.Z.shape[0]) // self.step)

    @property
    def unit_seconds(self) -> float:
        """Time of a unit."""
        n, d = self.Z.shape
        per_row = n * d * PER_PRODUCT if self.streams else sparse_operations(self.Z) / n * 1e-9
        return float(self.step * (per_row + n * PER_COMPARISON))

    @property
    def unit_bytes(self) -> float:
        """Size of the result of a unit."""
        return 4.0 * self.step * self.k

    @property
    def work_bytes(self) -> float:
        """Memory of a block: the products, and a piece of the table."""
        n, d = self.Z.shape
        piece = min(n, self.piece) * d * self.Z.dtype.itemsize if self.streams else 0
        return float(self.step * n * self.Z.dtype.itemsize + 2 * piece)

    @property
    def piece(self) -> int:
        """Rows of a dense table that are read together."""
        return max(1, BLOCK // int(self.Z.shape[1]))

    @cached_property
    def multiply(self) -> Products:
        """Products with a sparse table."""
        return Products(self.Z)

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest rows of some rows, (rows, k)."""
        n, step, Z = int(self.Z.shape[0]), self.step, self.Z
        first, last = start * step, min(stop * step, n)
        found, best = empty_places(last - first, self.k, Z.dtype)
        room = np.empty(BLOCK if self.streams else 0, Z.dtype)
        for low in range(first, last, step):
            rows = np.arange(low, min(low + step, last), dtype=np.int32)
            own = slice(low - first, low - first + len(rows))
            pieces = range(0, n, self.piece) if self.streams else (0,)
            for begin in pieces:
                end = min(begin + self.piece, n) if self.streams else n
                columns = np.arange(begin, end, dtype=np.int32)
                if self.streams:
                    values = product(Z[rows], Z[begin:end].T, room)
                else:
                    values = self.multiply(rows)
                keep_nearest(values, self.halves, rows, columns, found[own], best[own])
                if len(pieces) > 1:
                    release(Z)
        return (found,)


@dataclass(frozen=True, eq=False)
class TreeRows(BlockJob):
    """The k nearest rows of all rows of a table, themselves included, by a tree."""

    Z: Floats
    k: int
    what = "neighbour search"

    @property
    def n_units(self) -> int:
        """Number of units."""
        return -(-len(self.Z) // TREE_ROWS)

    @property
    def unit_seconds(self) -> float:
        """Time of a unit."""
        return float(TREE_ROWS * 3e-5)

    @property
    def unit_bytes(self) -> float:
        """Size of the result of a unit."""
        return 4.0 * TREE_ROWS * self.k

    @property
    def work_bytes(self) -> float:
        """Memory of a block: the tree."""
        return 2.0 * self.Z.nbytes

    @cached_property
    def tree(self) -> Any:
        """The tree, built once in every process."""
        from sklearn.neighbors import KDTree

        return KDTree(self.Z)

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest rows of some rows, (rows, k)."""
        rows = self.Z[start * TREE_ROWS : stop * TREE_ROWS]
        return (self.tree.query(rows, self.k, return_distance=False).astype(np.int32),)


@dataclass(frozen=True, eq=False)
class NearCells(BlockJob):
    """The k nearest rows of all rows among those of near cells; a unit is the rows of a cell.

    Attributes
    ----------
    ordered : (n, d) array
        The rows, cell by cell; those of cell c are ``first[c] .. first[c + 1] - 1``.
    halves : (n,) array
    first : (C + 1,) array
    around : (C, p) array
        The cells that each is compared with.
    k : int
    """

    ordered: Floats
    halves: AnyArray
    first: Indices
    around: Ints
    k: int
    what = "neighbour search"

    @property
    def n_units(self) -> int:
        """Number of cells."""
        return len(self.first) - 1

    @property
    def unit_seconds(self) -> float:
        """Mean time of a cell."""
        n, d = self.ordered.shape
        size = n / self.n_units
        pairs = size * size * self.around.shape[1]
        return float(pairs * (d * PER_PRODUCT + PER_COMPARISON))

    @property
    def unit_bytes(self) -> float:
        """Mean size of the result of a cell."""
        return 4.0 * self.k * len(self.ordered) / self.n_units

    @property
    def work_bytes(self) -> float:
        """Memory of a block: the rows of near cells, and products."""
        near = len(self.ordered) / self.n_units * self.around.shape[1]
        size = self.ordered.dtype.itemsize
        return float(2 * near * self.ordered.shape[1] * size + BLOCK * size)

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest rows of the rows of some cells, by their places in `ordered`."""
        first, ordered = self.first, self.ordered
        found, best = empty_places(int(first[stop] - first[start]), self.k, ordered.dtype)
        room = np.empty(BLOCK, ordered.dtype)
        for c in range(start, stop):
            columns = np.concatenate(
                [np.arange(first[other], first[other + 1]) for other in self.around[c]]
            ).astype(np.int32)
            others = ordered[columns].T
            step = max(1, BLOCK // max(1, len(columns)))
            for low in range(first[c], first[c + 1], step):
                rows = np.arange(low, min(low + step, first[c + 1]), dtype=np.int32)
                own = slice(low - first[start], low - first[start] + len(rows))
                values = product(ordered[rows], others, room)
                keep_nearest(values, self.halves, rows, columns, found[own], best[own])
        return (found,)


@dataclass(frozen=True, eq=False)
class NearestCentres(BlockJob):
    """The p nearest centres of all rows; a unit is some rows."""

    Z: Floats
    centres: Floats
    halves: AnyArray
    p: int
    what = "nearest cells"

    @property
    def streams(self) -> bool:
        """Rows are read once, in their order."""
        return True

    @property
    def step(self) -> int:
        """Rows of a unit."""
        return max(1, BLOCK // len(self.centres))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return -(-len(self.Z) // self.step)

    @property
    def unit_seconds(self) -> float:
        """Time of a unit."""
        return float(
            self.step * len(self.centres) * (self.Z.shape[1] * PER_PRODUCT + PER_COMPARISON)
        )

    @property
    def unit_bytes(self) -> float:
        """Size of the result of a unit."""
        return 4.0 * self.step * self.p

    @property
    def work_bytes(self) -> float:
        """Memory of a block: the products, and the rows of a unit."""
        rows = self.step * (len(self.centres) + 2 * self.Z.shape[1])
        return float(rows * self.Z.dtype.itemsize)

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest centres of some rows, (rows, p)."""
        first, last = start * self.step, min(stop * self.step, len(self.Z))
        found, best = empty_places(last - first, self.p, self.Z.dtype)
        room = np.empty(BLOCK, self.Z.dtype)
        for low in range(first, last, self.step):
            own = slice(low - first, min(low + self.step, last) - first)
            values = product(self.Z[low : min(low + self.step, last)], self.centres.T, room)
            nearest_columns(values, self.halves, found[own], best[own])
            release(self.Z)
        return (found,)


# -- products and comparisons --------------------------------------------------------------------


def product(A: AnyArray, B: AnyArray, room: AnyArray) -> AnyArray:
    """Return ``A @ B``, in `room` if it is large enough.

    Workers of Dask return every large array to the system at once; a new one costs page faults.
    """
    shape = len(A), B.shape[1]
    if shape[0] * shape[1] > room.size:
        return np.asarray(A @ B)
    return np.asarray(np.matmul(A, B, out=room[: shape[0] * shape[1]].reshape(shape)))


class Products:
    """``x_i . x_j`` for some rows i and all rows j of a dense or CSR table, as a dense array."""

    def __init__(self, Z: Any) -> None:
        self.Z = Z
        self.dense = isinstance(Z, np.ndarray)
        self.columns = None if self.dense else Z.tocsc()

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Return the products of `rows`, (len(rows), n)."""
        Z, C = self.Z, self.columns
        if C is None:
            return np.asarray(Z[rows] @ Z.T)
        values = np.zeros((len(rows), Z.shape[0]), Z.dtype)
        by_row, by_column = (Z.indptr, Z.indices, Z.data), (C.indptr, C.indices, C.data)
        sparse_products(*by_row, *by_column, rows.astype(np.int64), values)
        return values


def sparse_operations(Z: Any) -> float:
    """Return how many products all pairs of rows of a sparse table take, and as many sums as pairs.

    Two rows meet in each column that both have.
    """
    counts = np.bincount(Z.indices, minlength=Z.shape[1]).astype(np.float64)
    return float(counts @ counts) + float(Z.shape[0]) ** 2


@kernel
def sparse_products(
    indptr: Ints,
    indices: Ints,
    data: AnyArray,
    column_indptr: Ints,
    column_indices: Ints,
    column_data: AnyArray,
    rows: Indices,
    values: AnyArray,
) -> None:
    """Add ``x_i . x_j`` to `values` for the rows i, from rows and columns of a sparse table."""
    for a in range(rows.size):
        out = values[a]
        for e in range(indptr[rows[a]], indptr[rows[a] + 1]):
            c, x = indices[e], data[e]
            for f in range(column_indptr[c], column_indptr[c + 1]):
                out[column_indices[f]] += x * column_data[f]


def half_squares(Z: Any) -> AnyArray:
    """Return half the squared length of each row."""
    if isinstance(Z, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", Z, Z) / 2)
    return np.asarray(Z.multiply(Z).sum(axis=1), dtype=Z.dtype).ravel() / 2


def empty_places(n: int, k: int, dtype: Any) -> tuple[Ints, AnyArray]:
    """Return the places of the k nearest rows, none known yet, and their values."""
    return np.full((n, k), -1, np.int32), np.full((n, k), np.inf, dtype)


@kernel
def keep_nearest(
    values: AnyArray,
    halves: AnyArray,
    rows: Ints,
    columns: Ints,
    found: Ints,
    best: AnyArray,
) -> None:
    """Put columns among the k nearest of rows where ``|y|^2 / 2 - x.y`` is smaller than there.

    ``values[a, b] = x_rows[a] . x_columns[b]``, and ``found[a]`` are those of ``rows[a]``. That
    form differs from half the squared distance by ``|x|^2 / 2``, which is the same for all columns.
    Of equal ones the first stays.
    """
    k = found.shape[1]
    for a in range(rows.size):
        own, smallest, nearest = rows[a], best[a], found[a]
        last = smallest[k - 1]
        row = values[a]
        for b in range(columns.size):
            column = columns[b]
            value = halves[column] - row[b]
            if value < last and column != own:
                place = k - 1
                while place > 0 and smallest[place - 1] > value:
                    smallest[place] = smallest[place - 1]
                    nearest[place] = nearest[place - 1]
                    place -= 1
                smallest[place] = value
                nearest[place] = column
                last = smallest[k - 1]


@kernel
def nearest_columns(values: AnyArray, halves: AnyArray, found: Ints, best: AnyArray) -> None:
    """Fill the k columns with the smallest ``halves - values`` of every row, smallest first."""
    k = found.shape[1]
    for a in range(values.shape[0]):
        row, smallest = values[a], best[a]
        last = smallest[k - 1]
        for b in range(row.size):
            value = halves[b] - row[b]
            if value < last:
                place = k - 1
                while place > 0 and smallest[place - 1] > value:
                    smallest[place] = smallest[place - 1]
                    found[a, place] = found[a, place - 1]
                    place -= 1
                smallest[place] = value
                found[a, place] = b
                last = smallest[k - 1]
