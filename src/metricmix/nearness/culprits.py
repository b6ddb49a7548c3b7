r"""Which items break a matrix.

A few corrupt rows explain most broken matrices: then most broken triangles share an item. With
:math:`T` the set of broken triangles,

.. math:: T = \{\{i, j, k\} : 2 \max(d_{ij}, d_{jk}, d_{ik}) > d_{ij} + d_{jk} + d_{ik}\}

the items that meet all of them are a vertex cover of a hypergraph; the greedy cover, the item with
the most triangles first, then the one with the most of what is left, ranks them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.kernels.blame import count_with, count_within
from metricmix.kernels.threads import in_threads, row_ranges, threads_for
from metricmix.validation import check_integer, check_number, check_square, symmetrized

__all__ = ["Blame", "blame"]


@dataclass(frozen=True)
class Blame:
    """An item, the broken triangles it is in, and those left once it and those before are gone."""

    item: int
    triangles: int
    left: int


def blame(
    D: ArrayLike, *, top: int = 10, tol: float = 1e-9, n_jobs: int | None = None
) -> list[Blame]:
    """Return the items to blame for broken triangles, the worst first.

    Each is the item with the most broken triangles among the items not yet named. The list ends
    with `top` items, or when nothing is broken any more.

    Parameters
    ----------
    D : (n, n) array
        Symmetric dissimilarities.
    top : int
        How many items to name at most.
    tol : float
        Violations up to this share of the largest entry count as rounding.
    n_jobs : int, optional
        Threads.

    Notes
    -----
    Cost n³ / 6 to count, n² / 2 per item named.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.nearness import blame
    >>> place = np.arange(6.0)
    >>> D = abs(place[:, None] - place)
    >>> D[2] = D[:, 2] = 20.0; D[2, 2] = 0.0
    >>> blame(D)
    [Blame(item=2, triangles=10, left=0)]
    """
    check_integer(top, name="top", low=0)
    matrix = np.ascontiguousarray(symmetrized(check_square(D, name="D")), np.float64)
    n = len(matrix)
    tolerance = check_number(tol, name="tol", low=0) * float(matrix.max(initial=0.0))
    shares = row_ranges(n, 1, 64)
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
        counts = counts - gone
        counts[worst] = 0
        broken -= own
        named.append(Blame(worst, own, broken))
    return named
