r"""Triples of items as numbers, sorted so that threads can work on them without meeting.

Items are cut into B blocks of equal size. Triples of the blocks (I, J, K) with the same colour

.. math:: (I + J + K) \bmod B

have no two blocks in common, hence no pair of items: two of the blocks and the colour give the
third. So all triples of one colour may be worked on side by side, and in whatever order, to the
very same result.

A row of triangle constraints, :math:`x_{ij} \le x_{ik} + x_{kj}`, is one number, from the highest
bits down: the colour, the two higher blocks, the places of the three items in their blocks, and
which of the three is k. Pairs (i > j) of a symmetric matrix are numbered row by row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = [
    "PLACES",
    "blocks_for",
    "key_of",
    "merge",
    "pair_of",
    "read_keys",
    "sides_of",
    "write_keys",
]

Keys = NDArray[np.int64]
Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

PLACE_BITS = 10
"""Bits for an item's place in its block."""

PLACES = 3 * PLACE_BITS + 2
"""Bits below the blocks of a key."""

MANY = 64
"""Most blocks: with blocks of 1024 items, that is 65 536 of them."""


def blocks_for(n: int) -> int:
    """Return the number of blocks for n items: one where threads would not pay.

    More blocks are more tasks of one colour, but more colours too, and threads wait for each other
    after each of them.
    """
    if n < 400:
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
    key = (colour * blocks + first) * blocks + second
    key = (key << PLACE_BITS) | (a - first * size)
    key = (key << PLACE_BITS) | (b - second * size)
    key = (key << PLACE_BITS) | (c - third * size)
    return (key << 2) | which


@kernel
def _row_of(key: int, size: int, blocks: int) -> tuple[int, int, int]:
    """Return (i, j, k) of a key."""
    mask = (1 << PLACE_BITS) - 1
    which = key & 3
    c = (key >> 2) & mask
    b = (key >> (2 + PLACE_BITS)) & mask
    a = (key >> (2 + 2 * PLACE_BITS)) & mask
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
def write_keys(rows: Ints, size: int, blocks: int, keys: Keys) -> None:
    """Write the key of every row (i, j, k) into `keys`."""
    for t in range(rows.shape[0]):
        i, j = max(rows[t, 0], rows[t, 1]), min(rows[t, 0], rows[t, 1])
        keys[t] = key_of(i, j, rows[t, 2], size, blocks)


@kernel
def read_keys(keys: Keys, size: int, blocks: int, rows: Ints) -> None:
    """Write the items (i, j, k) of every key into `rows` (count, 3)."""
    for t in range(keys.shape[0]):
        rows[t, 0], rows[t, 1], rows[t, 2] = _row_of(keys[t], size, blocks)


@kernel
def sides_of(
    keys: Keys, size: int, blocks: int, start: int, stop: int, side: Ints, leg: Ints, other: Ints
) -> None:
    """Write the pairs (i, j), (i, k), (k, j) of the keys start .. stop - 1."""
    for t in range(start, stop):
        i, j, k = _row_of(keys[t], size, blocks)
        side[t] = pair_of(i, j)
        leg[t] = pair_of(i, k)
        other[t] = pair_of(k, j)


@kernel
def merge(
    keys: Keys,
    z: Floats,
    before: Floats,
    fresh: Keys,
    out_keys: Keys,
    out_z: Floats,
    out_before: Floats,
) -> int:
    """Merge two sorted lists of keys, without the old ones whose dual is 0; return the number.

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
        if known or z[t] != 0.0 or before[t] != 0.0:
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
