r"""The triangle inequalities that matter: rows of :math:`A x \le 0` with their duals.

Of the n (n - 1) (n - 2) / 2 rows, only those that were found broken are kept, and of these only
those with a positive dual stay (project and forget). They are sorted by colour
(:mod:`metricmix.nearness.constraints`), so that threads sweep over them side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import Crew
from metricmix.nearness.coordinate_ascent import add_rows, row_excess, row_product
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "PLACES",
    "SMALL",
    "Rows",
    "blocks_for",
    "key_of",
    "merge",
    "pair_of",
    "read_keys",
    "sides_of",
    "write_keys",
]


PLACE_BITS = 10
"""Bits for an item's place in its block."""

PLACES = 4 * PLACE_BITS + 2
"""Bits below the blocks of a key."""

SMALL = 512
"""Items below which the rows are too few to share out."""

MANY = 64
"""Most blocks: with blocks of 1024 items, that is 65 536 of them."""


def blocks_for(n: int) -> int:
    """Return the number of blocks for n items: one where threads would not pay.

    More blocks are more tasks of one colour, but more colours too, and threads wait for each other
    after each of them.
    """
    if n < SMALL:
        return 1
    return int(min(MANY, max(8 if n < 2000 else 16, -(-n // (1 << PLACE_BITS)))))


@kernel
def pair_of(i: int, j: int) -> int:
    """Return the number of a pair of different items."""
    return i * (i - 1) // 2 + j if i > j else j * (j - 1) // 2 + i


@kernel
def key_of(i: int, j: int, k: int, size: int, blocks: int) -> int:
    """Return the number of the row x_ij <= x_ik + x_kj, i > j; `size` is that of a block."""
    if k > i:
        a, b, c, which = k, i, j, 0
    elif k > j:
        a, b, c, which = i, k, j, 1
    else:
        a, b, c, which = i, j, k, 2
    first, second, third = a // size, b // size, c // size
    colour = (first + second + third) % blocks
    a -= first * size
    b -= second * size
    c -= third * size
    key = (colour * blocks + first) * blocks + second
    key = (key << 2) | which
    key = (key << PLACE_BITS) | ((a + b + c) % size)
    key = (key << PLACE_BITS) | a
    key = (key << PLACE_BITS) | b
    return (key << PLACE_BITS) | c


@kernel
def _row_of(key: int, size: int, blocks: int) -> tuple[int, int, int]:
    """Return (i, j, k) of a key."""
    mask = (1 << PLACE_BITS) - 1
    c = key & mask
    b = (key >> PLACE_BITS) & mask
    a = (key >> (2 * PLACE_BITS)) & mask
    which = (key >> (4 * PLACE_BITS)) & 3
    block = key >> PLACES
    second = block % blocks
    first = (block // blocks) % blocks
    third = (block // (blocks * blocks) + 2 * blocks - first - second) % blocks
    a += first * size
    b += second * size
    c += third * size
    if which == 0:
        return b, c, a
    if which == 1:
        return a, c, b
    return a, b, c


@kernel
def write_keys(rows: Ints, size: int, blocks: int, keys: Indices) -> None:
    """Write the key of every row (i, j, k) into `keys`."""
    for t in range(rows.shape[0]):
        i, j = max(rows[t, 0], rows[t, 1]), min(rows[t, 0], rows[t, 1])
        keys[t] = key_of(i, j, rows[t, 2], size, blocks)


@kernel
def read_keys(keys: Indices, size: int, blocks: int, rows: Ints) -> None:
    """Write the items (i, j, k) of every key into `rows` (count, 3)."""
    for t in range(keys.shape[0]):
        rows[t, 0], rows[t, 1], rows[t, 2] = _row_of(keys[t], size, blocks)


@kernel
def sides_of(
    keys: Indices, size: int, blocks: int, start: int, stop: int, side: Ints, leg: Ints, other: Ints
) -> None:
    """Write the pairs (i, j), (i, k), (k, j) of the keys start .. stop - 1."""
    for t in range(start, stop):
        i, j, k = _row_of(keys[t], size, blocks)
        side[t] = pair_of(i, j)
        leg[t] = pair_of(i, k)
        other[t] = pair_of(k, j)


@kernel
def merge(
    keys: Indices,
    z: Floats,
    before: Floats,
    fresh: Indices,
    out_keys: Indices,
    out_z: Floats,
    out_before: Floats,
    forget: bool,
) -> int:
    """Merge two sorted lists of keys; return the number.

    If `forget`, old ones whose dual is 0 are left out, unless they are fresh too.

    z is the dual of a row, `before` what it was a sweep ago; both are 0 for fresh rows. A key may
    be in both lists; in each, once.
    """
    count, f = 0, 0
    for t in range(keys.shape[0]):
        while f < fresh.shape[0] and fresh[f] < keys[t]:
            out_keys[count] = fresh[f]
            out_z[count] = 0.0
            out_before[count] = 0.0
            count += 1
            f += 1
        known = f < fresh.shape[0] and fresh[f] == keys[t]
        if known:
            f += 1
        if known or not forget or z[t] != 0.0 or before[t] != 0.0:
            out_keys[count] = keys[t]
            out_z[count] = z[t]
            out_before[count] = before[t]
            count += 1
    while f < fresh.shape[0]:
        out_keys[count] = fresh[f]
        out_z[count] = 0.0
        out_before[count] = 0.0
        count += 1
        f += 1
    return count


# -- the triangle inequalities that matter: rows of :math:`A x \le 0` with their duals ----------

Sweep = Callable[[int, int], None]

PART = 1 << 16
"""Rows of a task where any cut will do; fixed, so that sums do not depend on the threads."""


class Rows:
    """Rows x_ij - x_ik - x_kj <= 0, sorted, with their duals.

    Attributes
    ----------
    z, before : (T,) arrays
        The duals, and what they were a sweep ago.
    side, leg, other : (T,) arrays
        Numbers of the pairs (i, j), (i, k), (k, j).
    """

    def __init__(self, n: int, crew: Crew) -> None:
        self.n, self.crew = n, crew
        self.blocks = blocks_for(n)
        self.size = -(-n // self.blocks)
        self.keys: Indices = np.empty(0, np.int64)
        self.z: Floats = np.empty(0)
        self.before: Floats = np.empty(0)
        self.side: Ints = np.empty(0, np.int32)
        self.leg, self.other = self.side, self.side
        self._tasks: list[list[tuple[int, int]]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, fresh: Indices, forget: bool = True) -> None:
        """Add sorted rows with dual 0, and forget others whose dual is 0."""
        count = len(fresh) + len(self.keys)
        keys, z, before = np.empty(count, np.int64), np.empty(count), np.empty(count)
        count = merge(self.keys, self.z, self.before, fresh, keys, z, before, forget)
        self.keys, self.z, self.before = keys[:count], z[:count], before[:count]
        self._find_sides()

    def copy(self) -> Rows:
        """Return rows of their own with the same duals."""
        rows = Rows(self.n, self.crew)
        rows.keys, rows.z, rows.before = self.keys.copy(), self.z.copy(), self.before.copy()
        rows._find_sides()
        return rows

    def set_duals(self, triples: Ints, z: Floats) -> None:
        """Start from rows (i, j, k) with given duals."""
        keys = np.empty(len(triples), np.int64)
        write_keys(np.ascontiguousarray(triples, np.int32), self.size, self.blocks, keys)
        keys, first = np.unique(keys, return_index=True)
        self.keys, self.z = keys, np.ascontiguousarray(z[first], np.float64)
        self.before = self.z.copy()
        self._find_sides()

    def triples(self) -> tuple[Ints, Floats]:
        """Return the rows (i, j, k) with a positive dual, and the duals."""
        chosen = self.z > 0
        rows = np.empty((int(chosen.sum()), 3), np.int32)
        read_keys(self.keys[chosen], self.size, self.blocks, rows)
        return rows, self.z[chosen]

    def sweep(self, function: Sweep, back: bool = False) -> None:
        """Call a kernel on all rows, in an order that does not depend on the threads.

        Going `back`, the kernel takes the rows of a call from the last to the first.
        """
        if self.crew.threads == 1 or self.blocks == 1:
            function(0, len(self))
            return
        for tasks in self._tasks[::-1] if back else self._tasks:
            self.crew.run(lambda task: function(*task), tasks)

    def product(self, x: Floats) -> float:
        r"""Return :math:`z^T A x`."""
        rows = (self.side, self.leg, self.other, self.z)
        return sum(self.crew.run(lambda task: row_product(x, *rows, *task), self._parts()), 0.0)

    def worst(self, x: Floats) -> float:
        """Return the largest excess of a row at x, or 0."""
        rows = (self.side, self.leg, self.other)
        parts = self.crew.run(lambda task: row_excess(x, *rows, *task), self._parts())
        return float(max(parts))

    def transposed(self) -> Floats:
        r"""Return :math:`A^T z`, over all pairs."""
        u = np.zeros(self.n * (self.n - 1) // 2)
        rows = (self.side, self.leg, self.other, self.z)
        self.sweep(lambda start, stop: add_rows(u, *rows, start, stop))
        return u

    def _parts(self) -> list[tuple[int, int]]:
        count = len(self)
        return [(start, min(start + PART, count)) for start in range(0, count, PART)] or [(0, 0)]

    def _find_sides(self) -> None:
        count = len(self)
        self.side, self.leg, self.other = (np.empty(count, np.int32) for _ in range(3))
        sides = (self.side, self.leg, self.other)
        self.crew.run(
            lambda task: sides_of(self.keys, self.size, self.blocks, *task, *sides), self._parts()
        )
        self._tasks = self._cut()

    def _cut(self) -> list[list[tuple[int, int]]]:
        """Return tasks (start, stop) for every colour, cut where one triple of blocks ends."""
        blocks, shares = self.blocks, 2 * self.crew.threads
        colours = np.arange(blocks + 1, dtype=np.int64) * blocks * blocks
        ends = np.searchsorted(self.keys, colours << PLACES)
        tasks = []
        for start, stop in pairwise(ends.tolist()):
            if start == stop:
                continue
            near = start + (stop - start) * np.arange(1, shares) // shares
            whole = (self.keys[near] >> PLACES) << PLACES
            cuts = np.unique([start, *np.searchsorted(self.keys, whole).tolist(), stop]).tolist()
            tasks.append(list(pairwise(cuts)))
        return tasks
