r"""Triangle constraints :math:`A x \le 0` and their duals.

Of the n (n - 1) (n - 2) / 2 constraints :math:`x_{ij} - x_{ik} - x_{kj} \le 0`, only those that
were violated at some point are kept, and of these only those with a positive dual stay (project
and forget). Each has an integer key. Keys sort the constraints by colour: those of one colour fall
into tasks that share no pair, so that threads can sweep over them at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from metricmix.cached import cached_property
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.phases import BUSY, TaskQueue, next_task, run_phases, task_done
from metricmix.kernels.threads import ThreadPool
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "PLACES",
    "SMALL",
    "ConstraintArrays",
    "KeyedDuals",
    "TriangleConstraints",
    "add_transposed",
    "blocks_for",
    "dual_product",
    "key_of",
    "largest_violation",
    "merge_keys",
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
"""Items below which there are too few constraints to share out over threads."""


class ConstraintArrays(NamedTuple):
    """Constraints x[ij] <= x[ik] + x[kj] as arrays of pair numbers, with duals.

    `previous` are the duals one sweep ago.
    """

    ij: Ints
    ik: Ints
    kj: Ints
    dual: Floats
    previous: Floats


# -- keys ---------------------------------------------------------------------------------------


def blocks_for(n: int) -> int:
    """Return the number of blocks for n items: one where threads do not pay.

    More blocks give more tasks per colour, but more colours too, and threads synchronise after
    each colour.
    """
    if n < SMALL:
        return 1
    # 64 blocks of 1024 items are 65 536 of them.
    return int(min(64, max(8 if n < 2000 else 16, -(-n // (1 << PLACE_BITS)))))


@kernel
def pair_of(i: int, j: int) -> int:
    """Return the number of a pair of different items."""
    return i * (i - 1) // 2 + j if i > j else j * (j - 1) // 2 + i


@kernel
def key_of(i: int, j: int, k: int, size: int, blocks: int) -> int:
    """Return the key of the constraint x_ij <= x_ik + x_kj, i > j; blocks have `size` items."""
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
def _triangle_of(key: int, size: int, blocks: int) -> tuple[int, int, int]:
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
def write_keys(triangles: Ints, size: int, blocks: int, keys: Indices) -> None:
    """Write the key of every triangle (i, j, k) into `keys`."""
    for t in range(triangles.shape[0]):
        i = max(triangles[t, 0], triangles[t, 1])
        j = min(triangles[t, 0], triangles[t, 1])
        keys[t] = key_of(i, j, triangles[t, 2], size, blocks)


@kernel
def read_keys(keys: Indices, size: int, blocks: int, triangles: Ints) -> None:
    """Write the items (i, j, k) of every key into `triangles` (count, 3)."""
    for t in range(keys.shape[0]):
        i, j, k = _triangle_of(keys[t], size, blocks)
        triangles[t, 0], triangles[t, 1], triangles[t, 2] = i, j, k


@kernel
def sides_of(
    keys: Indices, size: int, blocks: int, start: int, stop: int, out: ConstraintArrays
) -> None:
    """Write the pairs (i, j), (i, k), (k, j) of the keys start .. stop - 1."""
    for t in range(start, stop):
        i, j, k = _triangle_of(keys[t], size, blocks)
        out.ij[t] = pair_of(i, j)
        out.ik[t] = pair_of(i, k)
        out.kj[t] = pair_of(k, j)


class KeyedDuals(NamedTuple):
    """Sorted keys of constraints, their duals, and the duals one sweep ago."""

    keys: Indices
    dual: Floats
    previous: Floats


@kernel
def merge_keys(old: KeyedDuals, fresh: Indices, forget: bool, out: KeyedDuals) -> int:
    """Merge constraints with sorted fresh keys, whose duals are 0; return their number.

    With `forget`, old constraints whose dual is 0 are dropped, unless they are fresh too. A key may
    be in both lists, once in each.
    """
    count, f = 0, 0
    for t in range(old.keys.shape[0]):
        while f < fresh.shape[0] and fresh[f] < old.keys[t]:
            out.keys[count] = fresh[f]
            out.dual[count] = 0.0
            out.previous[count] = 0.0
            count += 1
            f += 1
        known = f < fresh.shape[0] and fresh[f] == old.keys[t]
        if known:
            f += 1
        if known or not forget or old.dual[t] != 0.0 or old.previous[t] != 0.0:
            out.keys[count] = old.keys[t]
            out.dual[count] = old.dual[t]
            out.previous[count] = old.previous[t]
            count += 1
    while f < fresh.shape[0]:
        out.keys[count] = fresh[f]
        out.dual[count] = 0.0
        out.previous[count] = 0.0
        count += 1
        f += 1
    return count


# -- products with A ----------------------------------------------------------------------------


@kernel
def dual_product(x: Floats, constraints: ConstraintArrays, start: int, stop: int) -> float:
    r"""Return this part of :math:`z^T A x`, z the duals."""
    ij, ik, kj, z = constraints.ij, constraints.ik, constraints.kj, constraints.dual
    total = 0.0
    for t in range(start, stop):
        if z[t] != 0.0:
            total += z[t] * (x[ij[t]] - x[ik[t]] - x[kj[t]])
    return total


@kernel
def largest_violation(x: Floats, constraints: ConstraintArrays, start: int, stop: int) -> float:
    """Return the largest violation of the constraints start .. stop - 1, or 0."""
    ij, ik, kj = constraints.ij, constraints.ik, constraints.kj
    worst = 0.0
    for t in range(start, stop):
        worst = max(worst, x[ij[t]] - x[ik[t]] - x[kj[t]])
    return worst


@kernel
def add_transposed(u: Floats, constraints: ConstraintArrays, start: int, stop: int) -> None:
    r"""Add this part of :math:`A^T z` to u, z the duals."""
    ij, ik, kj, z = constraints.ij, constraints.ik, constraints.kj, constraints.dual
    for t in range(start, stop):
        u[ij[t]] += z[t]
        u[ik[t]] -= z[t]
        u[kj[t]] -= z[t]


# -- a set of constraints -----------------------------------------------------------------------


class TriangleConstraints:
    """Constraints x_ij - x_ik - x_kj <= 0, sorted by key, with their duals.

    Parameters
    ----------
    n : int
    pool : ThreadPool
    duals : KeyedDuals, optional
        Default: no constraints.

    Attributes
    ----------
    duals : KeyedDuals
        The T constraints; sweeps change the duals in place.
    """

    def __init__(self, n: int, pool: ThreadPool, duals: KeyedDuals | None = None) -> None:
        self.n, self.pool = n, pool
        self.blocks = blocks_for(n)
        self.size = -(-n // self.blocks)
        if duals is None:
            duals = KeyedDuals(np.empty(0, np.int64), np.empty(0), np.empty(0))
        self.duals = duals

    @cached_property
    def arrays(self) -> ConstraintArrays:
        """The constraints as arrays of pair numbers; the duals are those of `duals`."""
        ij, ik, kj = (np.empty(len(self), np.int32) for _ in range(3))
        keys, dual, previous = self.duals
        arrays = ConstraintArrays(ij, ik, kj, dual, previous)
        sizes = (self.size, self.blocks)
        self.pool.run(lambda part: sides_of(keys, *sizes, *part, arrays), self._parts())
        return arrays

    @classmethod
    def from_triangles(
        cls, n: int, pool: ThreadPool, triangles: Ints, duals: Floats
    ) -> TriangleConstraints:
        """Return the constraints of triangles (i, j, k) with given duals."""
        empty = cls(n, pool)
        keys = np.empty(len(triangles), np.int64)
        write_keys(np.ascontiguousarray(triangles, np.int32), empty.size, empty.blocks, keys)
        keys, first = np.unique(keys, return_index=True)
        z = np.ascontiguousarray(duals[first], np.float64)
        return cls(n, pool, KeyedDuals(keys, z, z.copy()))

    def __len__(self) -> int:
        return len(self.duals.keys)

    def merged(self, fresh: Indices, *, forget: bool = True) -> TriangleConstraints:
        """Return these and fresh constraints (sorted keys); those whose dual is 0 are dropped."""
        count = len(fresh) + len(self)
        out = KeyedDuals(np.empty(count, np.int64), np.empty(count), np.empty(count))
        count = merge_keys(self.duals, fresh, forget, out)
        merged = KeyedDuals(out.keys[:count], out.dual[:count], out.previous[:count])
        return TriangleConstraints(self.n, self.pool, merged)

    def triangles(self) -> tuple[Ints, Floats]:
        """Return the triangles (i, j, k) with a positive dual, and the duals."""
        chosen = self.duals.dual > 0
        triangles = np.empty((int(chosen.sum()), 3), np.int32)
        read_keys(self.duals.keys[chosen], self.size, self.blocks, triangles)
        return triangles, self.duals.dual[chosen]

    def sweep(self, function: Callable[[int, int], None], *, backward: bool = False) -> None:
        """Call a kernel on all constraints, in an order that does not depend on the threads.

        In a `backward` sweep the kernel takes the constraints of a call from the last to the first.
        """
        if self.pool.threads == 1 or self.blocks == 1:
            at_once = 1 << 21  # constraints per kernel call of a sweep on one thread
            starts = range(0, len(self), at_once)
            for start in starts[::-1] if backward else starts:
                check_time()
                function(start, min(start + at_once, len(self)))
            return
        colours = self._tasks[::-1] if backward else self._tasks
        tasks = [task for colour in colours for task in colour]

        def work(queue: TaskQueue, seat: Indices) -> int:
            task = int(next_task(queue, seat))
            if task < 0:
                return task
            function(*tasks[task])
            task_done(queue, seat)
            return BUSY

        run_phases(self.pool, [len(colour) for colour in colours], work)

    def product(self, x: Floats) -> float:
        r"""Return :math:`z^T A x`."""
        arrays = self.arrays  # made here: within the threads they would wait for each other
        parts = self.pool.run(lambda part: dual_product(x, arrays, *part), self._parts())
        return sum(parts, 0.0)

    def violation(self, x: Floats) -> float:
        """Return the largest violation at x, or 0."""
        arrays = self.arrays
        parts = self.pool.run(lambda part: largest_violation(x, arrays, *part), self._parts())
        return float(max(parts))

    def transposed(self) -> Floats:
        r"""Return :math:`A^T z`, over all pairs."""
        u = np.zeros(self.n * (self.n - 1) // 2)
        arrays = self.arrays
        self.sweep(lambda start, stop: add_transposed(u, arrays, start, stop))
        return u

    def _parts(self) -> list[tuple[int, int]]:
        count = len(self)
        # Constraints per task of a sum; fixed, so that sums do not depend on the number of threads.
        part = 1 << 16
        return [(start, min(start + part, count)) for start in range(0, count, part)] or [(0, 0)]

    @cached_property
    def _tasks(self) -> list[list[tuple[int, int]]]:
        """The tasks (start, stop) of every colour, cut where one triple of blocks ends."""
        keys, blocks, shares = self.duals.keys, self.blocks, 2 * self.pool.threads
        colours = np.arange(blocks + 1, dtype=np.int64) * blocks * blocks
        ends = np.searchsorted(keys, colours << PLACES)
        tasks = []
        for start, stop in pairwise(ends.tolist()):
            if start == stop:
                continue
            near = start + (stop - start) * np.arange(1, shares) // shares
            whole = (keys[near] >> PLACES) << PLACES
            cuts = np.unique([start, *np.searchsorted(keys, whole).tolist(), stop]).tolist()
            tasks.append(list(pairwise(cuts)))
        return tasks
