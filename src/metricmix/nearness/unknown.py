r"""Values for the unknown entries of a metric.

Let the entries outside a set U be known. Every metric with these entries satisfies

.. math:: l_{ij} \le x_{ij} \le p_{ij} \quad (ij \in U), \qquad
          l_{ij} = \max\Bigl(0,\; \max_{uv \notin U} x_{uv} - p_{ui} - p_{jv}\Bigr)

where p are the shortest-path lengths over known entries, and each single entry can take any value
of its interval. All entries together cannot: the midpoints of the intervals may violate triangles
whose three sides are unknown. So the entries are

.. math:: x = P\bigl(l + t (p - l)\bigr), \qquad t = \tfrac12

with P the shortest-path closure, which lowers such sides. Where a path becomes so short that it
lowers a known entry, or brings an unknown one close to the end of its interval, the entries on the
path are moved towards p: 1 - t is halved. With m entries on a path, that ends at the latest when
1 - t is below 7 / (8 m), since a path over an entry ij is longer than what it may not go below by
:math:`p_{ij} - l_{ij}` at t = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.metric import smallest_entries
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.typing import Floats, Indices

__all__ = ["FilledMetric", "fill_unknown"]


class FilledMetric(NamedTuple):
    """A metric whose unknown entries were filled.

    Attributes
    ----------
    metric : (n, n) array
    filled : (F, 2) array
        The unknown pairs (i, j): i < j unless directed.
    allowed : (F, 2) array
        The smallest and the largest value that each can take, given all known entries.
    """

    metric: Floats
    filled: Indices
    allowed: Floats


def fill_unknown(
    metric: Floats,
    unknown: NDArray[np.bool_],
    *,
    lower: Floats | None = None,
    upper: Floats | None = None,
    directed: bool = False,
    n_jobs: int | None = None,
) -> FilledMetric:
    """Return a metric with the known entries of another one and central values for the others.

    An entry that is the only unknown one gets the midpoint of its interval; so do all of them if
    the midpoints form a metric with the known entries. No entry is at an end of its interval unless
    both ends are the same.

    Parameters
    ----------
    metric : (n, n) array
        Its known entries are those of a metric, and join any two items by a path. Its unknown
        entries are ignored.
    unknown : (n, n) array of bool
        Symmetric unless `directed`; False on the diagonal.
    lower, upper : (n, n) arrays, optional
        Bounds of unknown entries, which some metric with the known entries satisfies.
    directed : bool
        Whether d(i, j) and d(j, i) may differ.
    n_jobs : int, optional
        Threads; no result depends on it.

    Notes
    -----
    Two min-plus products of n³ for the intervals, and a closure; two products and a closure more
    for each halving of 1 - t, at most about log2(n) of them and seldom more than one.

    Examples
    --------
    >>> d = np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 3.0], [0.0, 3.0, 0.0]])
    >>> unknown = np.zeros((3, 3), bool)
    >>> unknown[0, 2] = unknown[2, 0] = True
    >>> found = fill_unknown(d, unknown)
    >>> found.metric[0], found.allowed  # between 3 - 2 and 3 + 2
    (array([0., 2., 3.]), array([[1., 5.]]))
    """
    if not unknown.any():
        return FilledMetric(metric, np.empty((0, 2), np.int64), np.empty((0, 2)))

    def closed(lengths: Floats) -> Floats:
        return close_in_place(lengths, symmetric=not directed, n_jobs=n_jobs)

    high = closed(np.where(unknown, np.inf if upper is None else upper, metric))
    # Rounding error of path lengths, as a share of the largest length.
    relative_rounding = 512 * float(np.finfo(np.float64).eps)
    rounding = relative_rounding * float(high.max())
    floor = np.where(unknown, 0.0 if lower is None else lower, metric)
    low = smallest_entries(floor, high, directed, n_jobs)
    np.clip(low, 0.0, high, out=low)
    margin = 1 / 8  # share of its interval by which an entry stays away from its smallest value
    narrow = 2 / margin  # intervals up to this many rounding errors wide count as a single value
    single = ~unknown | (high - low <= narrow * rounding)
    low[single] = high[single]
    pairs = np.argwhere(unknown if directed else np.triu(unknown))
    places = tuple(pairs.T)
    allowed = np.stack([low[places], high[places]], axis=1)
    width = high - low
    del low
    floor = high - (1.0 - margin) * width
    below = np.full(width.shape, np.float32(0.5))  # 1 - t, a power of two
    while True:
        filled = closed(high - below * width)
        if not np.any(floor - filled > rounding):
            break
        needed = smallest_entries(floor, filled, directed, n_jobs)
        short = (width > 0) & (needed > high - below * width + rounding)
        if not np.any(below[short] > relative_rounding):
            break
        below[short] *= 0.5
    return FilledMetric(np.where(unknown, filled, metric), pairs, allowed)
