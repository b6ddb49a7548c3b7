r"""Which items take part in violated triangles, and which triangles are violated most.

If a few rows are corrupt, most violated triangles share an item. With :math:`T` the set of violated
triangles,

.. math:: T = \{\{i, j, k\} : 2 \max(d_{ij}, d_{jk}, d_{ik}) > d_{ij} + d_{jk} + d_{ik}\}

the items that meet all of them are a vertex cover of a hypergraph. The greedy cover ranks them: the
item in most triangles first, then the item in most of the remaining ones. If a single entry is
corrupt rather than a row, its two items have the same triangles: each is the other's partner.
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
from metricmix.kernels.triangles import ROW_BLOCK, lower_by_detours
from metricmix.typing import Floats, Indices
from metricmix.validation import (
    as_float_array,
    check_integer,
    check_number,
    check_square,
    check_square_fits,
    symmetrized,
)

__all__ = [
    "Triangle",
    "ViolationCount",
    "count_violations",
    "count_violations_of_item",
    "items_explaining_violations",
    "violation_counts",
    "worst_triangles",
]


@dataclass(frozen=True)
class ViolationCount:
    """The violated triangles of an item.

    Attributes
    ----------
    item : int
    triangles : int
        Violated triangles of the item, without those of items listed before it.
    remaining : int
        Violated triangles without this item and those listed before it.
    partner : int or None
        Another item that is in more than half of these triangles, if there are several: then the
        entry of the two is corrupt rather than the whole row.
    """

    item: int
    triangles: int
    remaining: int
    partner: int | None = None


class Triangle(NamedTuple):
    """A violated triangle: d(i, j) is `direct`, the path over k only `first` + `second`."""

    i: int
    k: int
    j: int
    direct: float
    first: float
    second: float

    @property
    def excess(self) -> float:
        """The violation: direct - (first + second)."""
        return self.direct - (self.first + self.second)


def violation_counts(
    D: ArrayLike, *, top: int = 10, tol: float = 1e-9, n_jobs: int | None = None
) -> list[ViolationCount]:
    """Return the items that explain most violated triangles, in greedy order.

    Each is the item with the most violated triangles among the items not yet listed: without it,
    the fewest remain. Of items with equally many, the one comes first that has the same role in
    most of them, at an end of the longest side or opposite to it, as an item with wrong entries
    has. The list ends after `top` items, or when no violated triangle remains.

    Parameters
    ----------
    D : (n, n) array
        Symmetric dissimilarities; NaN is unknown and violates nothing. The diagonal is ignored.
    top : int
        Most items to list.
    tol : float
        Violations up to this share of the largest entry count as rounding.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.

    Notes
    -----
    Cost n³ / 6 to count, n² / 2 per item listed; memory for one copy of `D`.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.nearness import violation_counts
    >>> place = np.arange(6.0)
    >>> D = abs(place[:, None] - place)
    >>> D[2] *= 4; D[:, 2] *= 4  # a corrupt row
    >>> violation_counts(D)
    [ViolationCount(item=2, triangles=7, remaining=0, partner=None)]
    >>> D = abs(place[:, None] - place)
    >>> D[2, 3] = D[3, 2] = 20.0  # a corrupt entry
    >>> violation_counts(D)
    [ViolationCount(item=2, triangles=4, remaining=0, partner=3)]
    """
    check_integer(top, name="top", low=0)
    n_jobs = threads_for(np.shape(D)[0] if np.ndim(D) else 0, n_jobs)
    matrix, tolerance = _read(D, tol, n_jobs)
    n = len(matrix)
    shares = row_ranges(n, 1, 64)[::-1]  # the first rows take longest, and come first
    partial = [np.zeros(n, np.int64) for _ in shares]

    def count(k: int) -> None:
        count_violations(matrix, *shares[k], tolerance, partial[k])

    in_threads(count, list(range(len(shares))), n_jobs)
    counts: Indices = np.sum(partial, axis=0)
    remaining = int(counts.sum()) // 3
    unlisted = np.ones(n, bool)
    listed: list[ViolationCount] = []
    while remaining and len(listed) < top:
        worst = most_consistent(matrix, np.flatnonzero(counts == counts.max()), unlisted, tolerance)
        own = int(counts[worst])
        unlisted[worst] = False
        shared = violations_with(matrix, worst, unlisted, tolerance, n_jobs)
        other = int(shared.argmax())
        partner = other if own > 1 and 2 * int(shared[other]) > own else None
        counts = counts - shared
        counts[worst] = 0
        remaining -= own
        listed.append(ViolationCount(worst, own, remaining, partner))
    return listed


MOST_TIED = 16
"""Items with equally many violated triangles that are compared further."""


def most_consistent(d: Floats, tied: Indices, unlisted: NDArray[np.bool_], tol: float) -> int:
    """Return which of some items has the same role in most of its violated triangles.

    All have equally many of them. If roles are equal too, an end of the longest sides, then the
    first. O(n²) for each.
    """
    others = np.flatnonzero(unlisted)
    roles = []
    for r in tied[:MOST_TIED].tolist() if len(tied) > 1 else ():
        beside = others[others != r]
        near = d[r, beside]
        opposite = sum(
            int((d[j, beside[k + 1 :]] > near[k] + near[k + 1 :] + tol).sum())
            for k, j in enumerate(beside.tolist())
        )
        shared = violations_with(d, r, unlisted, tol, 1)
        ends = int(shared.sum()) // 2 - opposite
        roles.append((-max(ends, opposite), -ends, r))
    return min(roles)[-1] if roles else int(tied[0])


def items_explaining_violations(counts: Sequence[ViolationCount], n: int) -> int | None:
    """Return how many of the first items explain the violations, or None if no small set does.

    They are few if they are at most a fifth of all n items (or two), and explain the violations if
    they take part in at least nine of ten violated triangles.

    >>> items_explaining_violations([ViolationCount(4, 90, 6), ViolationCount(7, 6, 0)], 60)
    1
    >>> items_explaining_violations([ViolationCount(4, 20, 80)], 60) is None
    True
    """
    if not counts:
        return None
    total = counts[0].triangles + counts[0].remaining
    for number, one in enumerate(counts, 1):
        if number > max(2, 0.2 * n):
            return None
        if total - one.remaining >= 0.9 * total:
            return number
    return None


def worst_triangles(
    D: ArrayLike, *, top: int = 10, tol: float = 1e-9, n_jobs: int | None = None
) -> list[Triangle]:
    """Return the pairs that exceed their shortest detour most, the worst first.

    Each pair comes once, with the item k of its shortest detour.

    Parameters
    ----------
    D : (n, n) array
        Symmetric dissimilarities; NaN is unknown and part of no triangle. The diagonal is ignored.
    top, tol, n_jobs
        As in :func:`violation_counts`.

    Notes
    -----
    Cost at most n³ / 2, that of a min-plus product.

    Examples
    --------
    >>> from metricmix.nearness import worst_triangles
    >>> worst_triangles([[0, 1, 9, 2], [1, 0, 3, 1], [9, 3, 0, 1], [2, 1, 1, 0]], top=1)
    [Triangle(i=0, k=3, j=2, direct=9.0, first=2.0, second=1.0)]
    """
    check_integer(top, name="top", low=0)
    n_jobs = threads_for(np.shape(D)[0] if np.ndim(D) else 0, n_jobs)
    matrix, tolerance = _read(D, tol, n_jobs)
    n = len(matrix)
    unknown = np.isnan(matrix)
    matrix[unknown] = np.inf  # no edge

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


def violations_with(
    d: Floats, r: int, chosen: NDArray[np.bool_], tolerance: float, n_jobs: int | None
) -> Indices:
    """Return, for every item, with how many chosen items it and r violate a triangle."""
    n = len(d)
    found = in_threads(
        lambda rows: count_violations_of_item(d, r, chosen, tolerance, *rows),
        row_ranges(n, 1, 16)[::-1],
        n_jobs,
    )
    shared: Indices = np.sum(found, axis=0)
    return shared


def _read(D: ArrayLike, tol: float, n_jobs: int | None) -> tuple[Floats, float]:
    """Return an exactly symmetric copy, NaN where unknown, and the absolute tolerance."""
    values = as_float_array(D, name="D")
    check_square_fits(len(values), 11, what="a copy as float64", argument="D")
    given = np.array(values, np.float64)
    unknown = np.isnan(given)
    if unknown.any():
        given[unknown] = 0.0
    checked = check_square(
        given,
        name="D",
        allow_negative=True,
        require_zero_diagonal=False,
        offer_directed=False,
        n_jobs=n_jobs,
    )
    matrix = np.ascontiguousarray(symmetrized(checked, n_jobs=n_jobs))
    share = max(check_number(tol, name="tol", low=0), 8 * float(np.finfo(np.float64).eps))
    tolerance = share * max(float(matrix.max()), -float(matrix.min()))
    if unknown.any():
        matrix[unknown | unknown.T] = np.nan
    np.fill_diagonal(matrix, 0.0)
    return matrix, tolerance


# -- kernels ------------------------------------------------------------------------------------


ROWS_AT_ONCE = 8
"""Rows i that are processed together: with a row j, they stay in the cache."""


@kernel
def count_violations(d: Floats, low: int, high: int, tolerance: float, counts: Indices) -> None:
    """Count, for each item, the violated triangles {i, j, k}, low <= i < high, i < j < k."""
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
                    violated = np.int64((abs(a - b) > above) | (a + b < below))
                    here += violated
                    others[k] += violated
                counts[j] += here
                counts[i] += here


@kernel
def count_violations_of_item(
    d: Floats, r: int, chosen: NDArray[np.bool_], tolerance: float, low: int, high: int
) -> Indices:
    """Count the violated triangles {j, k, r} of chosen items, low <= j < high, j < k, for each."""
    n = d.shape[0]
    counts = np.zeros(n, np.int64)
    dr = d[r]
    for j in range(low, high):
        if not chosen[j] or j == r:
            continue
        dj = d[j]
        above, below = dr[j] + tolerance, dr[j] - tolerance
        here = np.int64(0)
        for k in range(j + 1, n):
            a, b = dr[k], dj[k]
            violated = np.int64((chosen[k] & (k != r)) & ((abs(a - b) > above) | (a + b < below)))
            here += violated
            counts[k] += violated
        counts[j] += here
    return counts
