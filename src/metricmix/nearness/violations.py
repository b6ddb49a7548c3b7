r"""Which items break a matrix, and where it is broken worst.

A few corrupt rows explain most broken matrices: then most broken triangles share an item. With
:math:`T` the set of broken triangles,

.. math:: T = \{\{i, j, k\} : 2 \max(d_{ij}, d_{jk}, d_{ik}) > d_{ij} + d_{jk} + d_{ik}\}

the items that meet all of them are a vertex cover of a hypergraph; the greedy cover, the item with
the most triangles first, then the one with the most of what is left, ranks them. Where one entry is
corrupt and not a row, its two items have the same triangles: each is the other's partner.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads, row_ranges, threads_for
from metricmix.metric import ROW_BLOCK, lower_by_detours
from metricmix.typing import Floats, Indices
from metricmix.validation import (
    as_float_array,
    check_integer,
    check_number,
    check_square,
    symmetrized,
)

__all__ = [
    "Blame",
    "Triangle",
    "blame",
    "count_with",
    "count_within",
    "how_many_explain",
    "worst_triangles",
]


MOST = 0.9
"""Share of the broken triangles that items must be in to explain them."""

FEW = 0.2
"""Share of all items up to which they are few."""


@dataclass(frozen=True)
class Blame:
    """An item to blame.

    Attributes
    ----------
    item : int
    triangles : int
        Broken triangles it is in, those of items named before left out.
    left : int
        Broken triangles that are left once it and those named before are gone.
    partner : int or None
        The item that is in more than half of these triangles too, if there are several of them:
        then the entry of the two is corrupt rather than all of the item's.
    """

    item: int
    triangles: int
    left: int
    partner: int | None = None


class Triangle(NamedTuple):
    """A broken triangle: from i to j is `direct`, over k only `first` + `second`."""

    i: int
    k: int
    j: int
    direct: float
    first: float
    second: float

    @property
    def excess(self) -> float:
        """By how much the direct way is too long."""
        return self.direct - (self.first + self.second)


def blame(
    D: ArrayLike, *, top: int = 10, tol: float = 1e-9, n_jobs: int | None = None
) -> list[Blame]:
    """Return the items to blame for broken triangles, the worst first.

    Each is the item with the most broken triangles among the items not yet named. The list ends
    with `top` items, or when nothing is broken any more.

    Parameters
    ----------
    D : (n, n) array
        Symmetric dissimilarities; NaN is unknown and breaks nothing. The diagonal does not count.
    top : int
        How many items to name at most.
    tol : float
        Violations up to this share of the largest entry count as rounding.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.

    Notes
    -----
    Cost n³ / 6 to count, n² / 2 per item named; memory for one copy of `D`.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.nearness import blame
    >>> place = np.arange(6.0)
    >>> D = abs(place[:, None] - place)
    >>> D[2] *= 4; D[:, 2] *= 4  # a corrupt row
    >>> blame(D)
    [Blame(item=2, triangles=7, left=0, partner=None)]
    >>> D = abs(place[:, None] - place)
    >>> D[2, 3] = D[3, 2] = 20.0  # a corrupt entry
    >>> blame(D)
    [Blame(item=2, triangles=4, left=0, partner=3)]
    """
    check_integer(top, name="top", low=0)
    matrix, tolerance = _read(D, tol)
    n = len(matrix)
    shares = row_ranges(n, 1, 64)[::-1]  # the first rows have most to do, and come first
    partial = [np.zeros(n, np.int64) for _ in shares]

    def count(k: int) -> None:
        count_within(matrix, *shares[k], tolerance, partial[k])

    in_threads(count, list(range(len(shares))), threads_for(n, n_jobs))
    counts: NDArray[np.int64] = np.sum(partial, axis=0)
    broken = int(counts.sum()) // 3
    left = np.ones(n, bool)
    named: list[Blame] = []
    while broken and len(named) < top:
        worst = int(counts.argmax())
        own = int(counts[worst])
        left[worst] = False
        gone = np.zeros(n, np.int64)
        count_with(matrix, worst, left, tolerance, gone)
        other = int(gone.argmax())
        partner = other if own > 1 and 2 * int(gone[other]) > own else None
        counts = counts - gone
        counts[worst] = 0
        broken -= own
        named.append(Blame(worst, own, broken, partner))
    return named


def how_many_explain(named: Sequence[Blame], n: int) -> int | None:
    """Return how many of the first items explain what is broken, or None if no few of them do.

    They are few if they are at most a fifth of all n items (or two), and explain if they are in at
    least nine of ten broken triangles.

    >>> how_many_explain([Blame(4, 90, 6), Blame(7, 6, 0)], 60)
    1
    >>> how_many_explain([Blame(4, 20, 80), Blame(7, 18, 62)], 60) is None
    True
    """
    if not named:
        return None
    total = named[0].triangles + named[0].left
    for count, one in enumerate(named, 1):
        if count > max(2, FEW * n):
            return None
        if total - one.left >= MOST * total:
            return count
    return None


def worst_triangles(
    D: ArrayLike, *, top: int = 10, tol: float = 1e-9, n_jobs: int | None = None
) -> list[Triangle]:
    """Return the pairs that are longest beside their shortest detour, the worst first.

    Each pair comes once, with the third item over which its way is shortest.

    Parameters
    ----------
    D : (n, n) array
        Symmetric dissimilarities; NaN is unknown and no part of a triangle. The diagonal does not
        count.
    top, tol, n_jobs
        As in :func:`blame`.

    Notes
    -----
    Cost at most n³ / 2, as of one min-plus product.

    Examples
    --------
    >>> from metricmix.nearness import worst_triangles
    >>> worst_triangles([[0, 1, 9, 2], [1, 0, 3, 1], [9, 3, 0, 1], [2, 1, 1, 0]], top=1)
    [Triangle(i=0, k=3, j=2, direct=9.0, first=2.0, second=1.0)]
    """
    check_integer(top, name="top", low=0)
    matrix, tolerance = _read(D, tol)
    n = len(matrix)
    unknown = np.isnan(matrix)
    matrix[unknown] = np.inf  # no way

    def of_rows(rows: tuple[int, int]) -> list[tuple[float, int, int]]:
        low, high = rows
        shortest = matrix[low:high, :high].copy()
        lower_by_detours(shortest, matrix, low, True)
        with np.errstate(invalid="ignore"):  # inf - inf
            excess = matrix[low:high, :high] - shortest
        excess[unknown[low:high, :high] | ~np.tri(high - low, high, low - 1, bool)] = 0.0
        some = np.flatnonzero(excess > tolerance)
        if len(some) > top:
            some = some[np.argpartition(-excess.ravel()[some], top)[:top]]
        return [(-float(excess.flat[at]), at % high, low + at // high) for at in some.tolist()]

    blocks = [(low, min(low + ROW_BLOCK, n)) for low in range(0, n, ROW_BLOCK)]
    found = in_threads(of_rows, blocks, threads_for(n, n_jobs))
    triangles = []
    for _, i, j in heapq.nsmallest(top, (one for block in found for one in block)):
        detours = matrix[i] + matrix[j]
        detours[[i, j]] = np.inf
        k = int(detours.argmin())
        lengths = (float(matrix[i, j]), float(matrix[i, k]), float(matrix[k, j]))
        triangles.append(Triangle(i, k, j, *lengths))
    return triangles


def _read(D: ArrayLike, tol: float) -> tuple[Floats, float]:
    """Return a copy of the matrix, exactly symmetric, NaN where unknown, and what is rounding."""
    given = np.array(as_float_array(D, name="D"), np.float64)
    unknown = np.isnan(given)
    given[unknown] = 0.0
    checked = check_square(
        given,
        name="D",
        allow_negative=True,
        require_zero_diagonal=False,
        offer_directed=False,
    )
    matrix = np.ascontiguousarray(symmetrized(checked))
    share = max(check_number(tol, name="tol", low=0), 8 * float(np.finfo(np.float64).eps))
    tolerance = share * float(np.abs(matrix).max())
    matrix[unknown | unknown.T] = np.nan
    np.fill_diagonal(matrix, 0.0)
    return matrix, tolerance


# -- counting broken triangles by item ----------------------------------------------------------


ROWS_AT_ONCE = 8
"""Rows that are worked on together: with one more, they stay in the cache."""


@kernel
def count_within(d: Floats, low: int, high: int, tolerance: float, counts: Indices) -> None:
    """Count the broken triangles {i, j, k}, low <= i < high, i < j < k, for each of their items."""
    n = d.shape[0]
    # Some rows i together, so that a row j is fetched once for all of them.
    for first in range(low, high, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, high)
        for j in range(first + 1, n):
            dj, others = d[j, j + 1 :], counts[j + 1 :]
            for i in range(first, min(last, j)):
                di = d[i, j + 1 :]
                above, below = d[i, j] + tolerance, d[i, j] - tolerance
                here = np.int64(0)
                for k in range(len(others)):
                    a, b = di[k], dj[k]
                    broken = np.int64((abs(a - b) > above) | (a + b < below))
                    here += broken
                    others[k] += broken
                counts[j] += here
                counts[i] += here


@kernel
def count_with(
    d: Floats, r: int, left: NDArray[np.bool_], tolerance: float, counts: Indices
) -> None:
    """Count the broken triangles of item r with two items that are left, for each of these."""
    n = d.shape[0]
    dr = d[r]
    for j in range(n):
        if not left[j] or j == r:
            continue
        dj = d[j]
        above, below = dr[j] + tolerance, dr[j] - tolerance
        here = np.int64(0)
        for k in range(j + 1, n):
            a, b = dr[k], dj[k]
            broken = np.int64((left[k] & (k != r)) & ((abs(a - b) > above) | (a + b < below)))
            here += broken
            counts[k] += broken
        counts[j] += here
