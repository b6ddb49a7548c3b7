"""Nearest rows of a table, block by block: what threads and the workers of a cluster compute.

Every unit is some rows, or the rows of a cell, compared with others at the speed of a matrix
product. :mod:`metricmix.dissimilarity.nearest_items` chooses between these searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.squared_distances import Products, sparse_operations
from metricmix.kernels.blocks import BlockJob, Cost, Found, release
from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "BLOCK",
    "TREE_ROWS",
    "AllRows",
    "NearCells",
    "NearestCentres",
    "TreeRows",
    "empty_places",
    "keep_nearest",
    "search_tiles",
]

BLOCK = 1 << 23
"""Distances to all rows of a sparse table computed at once: 32 MiB in single precision."""
TILE = 1 << 17
"""Products held at once: what stays in the cache of a core is compared faster."""
TILE_ROWS = 512
"""Rows that are compared together: with fewer, a product mostly copies its other operand."""
PER_PRODUCT, PER_COMPARISON = 3e-11, 3e-10
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
        return max(1, min(n, TILE_ROWS if self.streams else BLOCK // n))

    @property
    def cost(self) -> Cost:
        """Units of `step` rows; memory for the products, and for a piece of the table."""
        n, d = self.Z.shape
        per_row = n * d * PER_PRODUCT if self.streams else sparse_operations(self.Z) / n * 1e-9
        held = TILE + 2 * min(n, self.piece) * d if self.streams else self.step * n
        return Cost(
            units=-(-n // self.step),
            unit_seconds=float(self.step * (per_row + n * PER_COMPARISON)),
            unit_bytes=4.0 * self.step * self.k,
            work_bytes=float(held * self.Z.dtype.itemsize),
        )

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
        everyone, room = np.arange(n, dtype=np.int32), np.empty(TILE, Z.dtype)
        for low in range(first, last, step):
            rows = everyone[low : min(low + step, last)]
            own = slice(low - first, low - first + len(rows))
            if not self.streams:
                keep_nearest(
                    self.multiply(rows), self.halves, rows, everyone, found[own], best[own]
                )
                continue
            for begin in range(0, n, self.piece):
                part = slice(begin, min(begin + self.piece, n))
                others = Z[part], self.halves[part], everyone[part]
                search_tiles(Z[rows], rows, *others, found[own], best[own], room)
                if n > self.piece:
                    release(Z)
        return (found,)


@dataclass(frozen=True, eq=False)
class TreeRows(BlockJob):
    """The k nearest rows of all rows of a table, themselves included, by a tree."""

    Z: Floats
    k: int
    what = "neighbour search"

    @property
    def cost(self) -> Cost:
        """Units of `TREE_ROWS` rows; memory for the tree."""
        units = -(-len(self.Z) // TREE_ROWS)
        return Cost(units, TREE_ROWS * 3e-5, 4.0 * TREE_ROWS * self.k, 2.0 * self.Z.nbytes)

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
    def cost(self) -> Cost:
        """Units are cells, of mean size; memory for the rows of near cells, and for products."""
        (n, d), units = self.ordered.shape, len(self.first) - 1
        size, near = n / units, n / units * self.around.shape[1]
        return Cost(
            units,
            unit_seconds=float(size * near * (d * PER_PRODUCT + PER_COMPARISON)),
            unit_bytes=4.0 * self.k * size,
            work_bytes=float((near * d + TILE) * self.ordered.dtype.itemsize),
        )

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest rows of the rows of some cells, by their places in `ordered`."""
        first, ordered = self.first, self.ordered
        found, best = empty_places(int(first[stop] - first[start]), self.k, ordered.dtype)
        room = np.empty(TILE, ordered.dtype)
        for c in range(start, stop):
            columns = np.concatenate(
                [np.arange(first[other], first[other + 1]) for other in self.around[c]]
            ).astype(np.int32)
            others = ordered[columns], self.halves[columns], columns
            for low in range(first[c], first[c + 1], TILE_ROWS):
                rows = np.arange(low, min(low + TILE_ROWS, first[c + 1]), dtype=np.int32)
                own = slice(low - first[start], low - first[start] + len(rows))
                search_tiles(ordered[rows], rows, *others, found[own], best[own], room)
        return (found,)


@dataclass(frozen=True, eq=False)
class NearestCentres(BlockJob):
    """The p nearest centres of all rows; a unit is some rows."""

    Z: Floats
    centres: Floats
    halves: AnyArray
    p: int
    what = "nearest cells"
    streams = True

    @property
    def step(self) -> int:
        """Rows of a unit."""
        return max(TILE_ROWS, BLOCK // len(self.centres))

    @property
    def cost(self) -> Cost:
        """Units of `step` rows; memory for the products, and for the rows of a unit."""
        (n, d), step = self.Z.shape, self.step
        seconds = step * len(self.centres) * (d * PER_PRODUCT + PER_COMPARISON)
        held = (TILE + 2 * step * d) * self.Z.dtype.itemsize
        return Cost(-(-n // step), float(seconds), 4.0 * step * self.p, float(held))

    def block(self, start: int, stop: int) -> Found:
        """Return the nearest centres of some rows, (rows, p)."""
        first, last = start * self.step, min(stop * self.step, len(self.Z))
        found, best = empty_places(last - first, self.p, self.Z.dtype)
        numbers = np.arange(len(self.centres), dtype=np.int32)
        nobody = np.full(TILE_ROWS, -1, np.int32)
        room = np.empty(TILE, self.Z.dtype)
        for low in range(first, last, TILE_ROWS):
            rows = self.Z[low : min(low + TILE_ROWS, last)]
            own = slice(low - first, low - first + len(rows))
            others = self.centres, self.halves, numbers
            search_tiles(rows, nobody[: len(rows)], *others, found[own], best[own], room)
            if (low + TILE_ROWS) % self.step < TILE_ROWS:
                release(self.Z)
        return (found,)


# -- products and comparisons --------------------------------------------------------------------


@kernel
def search_tiles(
    A: AnyArray,
    rows: Ints,
    B: AnyArray,
    halves: AnyArray,
    columns: Ints,
    found: Ints,
    best: AnyArray,
    room: AnyArray,
) -> None:
    """Keep the nearest rows of B for the rows of A, as many at a time as have products in `room`.

    `rows` and `columns` are their numbers; see :func:`keep_nearest`.
    """
    step = max(1, room.size // max(1, len(A)))
    for low in range(0, len(B), step):
        high = min(low + step, len(B))
        values = room[: len(A) * (high - low)].reshape((len(A), high - low))
        np.dot(A, B[low:high].T, values)
        keep_nearest(values, halves[low:high], rows, columns[low:high], found, best)


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

    ``values[a, b]`` is the product of row ``rows[a]`` and column ``columns[b]``, whose half square
    is ``halves[b]``, and ``found[a]`` are the nearest of ``rows[a]``, not itself. That form differs
    from half the squared distance by ``|x|^2 / 2``, which is the same for all columns. Of equal
    ones the first stays.
    """
    k, scanned = found.shape[1], 64  # products that are compared with the largest kept one at once
    for a in range(rows.size):
        own, smallest, nearest = rows[a], best[a], found[a]
        last = smallest[k - 1]
        row = values[a]
        for begin in range(0, columns.size, scanned):
            end = min(begin + scanned, columns.size)
            if not any_below(halves[begin:end], row[begin:end], last):
                continue
            for b in range(begin, end):
                value, column = halves[b] - row[b], columns[b]
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
def any_below(halves: AnyArray, products: AnyArray, limit: float) -> bool:
    """Return whether any difference is below a limit; without branches, for vector instructions."""
    below = np.int32(0)
    for b in range(halves.size):
        below |= np.int32(halves[b] - products[b] < limit)
    return bool(below)
