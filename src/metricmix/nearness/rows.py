r"""The triangle inequalities that matter: rows of :math:`A x \le 0` with their duals.

Of the n (n - 1) (n - 2) / 2 rows, only those that were found broken are kept, and of these only
those with a positive dual stay (project and forget). They are sorted by colour
(:mod:`metricmix.kernels.triples`), so that threads sweep over them side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.sweeps import add_rows, row_product
from metricmix.kernels.threads import Crew
from metricmix.kernels.triples import (
    PLACES,
    blocks_for,
    merge,
    read_keys,
    sides_of,
    write_keys,
)

__all__ = ["Rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Keys = NDArray[np.int64]
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
        self.keys: Keys = np.empty(0, np.int64)
        self.z: Floats = np.empty(0)
        self.before: Floats = np.empty(0)
        self.side: Ints = np.empty(0, np.int32)
        self.leg, self.other = self.side, self.side
        self._tasks: list[list[tuple[int, int]]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, fresh: Keys) -> None:
        """Add sorted rows with dual 0, and forget those whose dual is 0."""
        count = len(fresh) + len(self.keys)
        keys, z, before = np.empty(count, np.int64), np.empty(count), np.empty(count)
        count = merge(self.keys, self.z, self.before, fresh, keys, z, before)
        self.keys, self.z, self.before = keys[:count], z[:count], before[:count]
        self._find_sides()

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

    def sweep(self, function: Sweep) -> None:
        """Call a kernel on all rows, in an order that does not depend on the threads."""
        if self.crew.threads == 1 or self.blocks == 1:
            function(0, len(self))
            return
        for tasks in self._tasks:
            self.crew.run(lambda task: function(*task), tasks)

    def product(self, x: Floats) -> float:
        r"""Return :math:`z^T A x`."""
        rows = (self.side, self.leg, self.other, self.z)
        return sum(self.crew.run(lambda task: row_product(x, *rows, *task), self._parts()), 0.0)

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
