"""The nearest labelled items of all items at once.

One search grows from all labelled items together: for one label per item it settles every item
once, for k labels per item at most k times. Never one search per unlabelled item.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.frontier import CHUNK
from metricmix.kernels.nearest_roots import settle_next, spread, spread_rows
from metricmix.mixture.lengths import EdgeLengths, edge_lengths
from metricmix.paths.forest import search_forest
from metricmix.validation import check_indices, check_integer

__all__ = ["nearest_labelled"]

Floats = NDArray[np.float64]


def nearest_labelled(
    stack: Any,
    mixture: Any = None,
    labelled: ArrayLike | None = None,
    k: int = 1,
    *,
    directed: bool = False,
) -> tuple[Floats, NDArray[np.int64]]:
    r"""Return, for every item v, its k nearest labelled items :math:`\arg\min_{s} d(v, s)`.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths (then `mixture` is None).
    mixture : Mixture or array of R weights
    labelled : array of int, or boolean mask
        The labelled items. A labelled item is its own nearest one, at distance 0.
    k : int
        How many; at most the number of labelled items.
    directed : bool
        For a matrix of lengths only. Distances run from the item to the labelled one.

    Returns
    -------
    distances, items : (n, k) arrays
        Nearest first.

    Notes
    -----
    Cost O(k R n²) in time and O(k n) in memory, rows being mixed as they are needed; for k > 1 and
    up to some thousands of items, all lengths are formed once instead.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths import nearest_labelled
    >>> place = np.array([0.0, 1.0, 2.0, 10.0])
    >>> distances, items = nearest_labelled(abs(place[:, None] - place), labelled=[0, 3])
    >>> items.ravel()
    array([0, 0, 0, 3])
    """
    lengths = edge_lengths(stack, mixture, directed=directed)
    if labelled is None:
        raise InputError("labelled: expected the labelled items, as numbers or as a mask")
    chosen = check_indices(labelled, lengths.n, name="labelled")
    roots = np.unique(chosen)
    if len(roots) == 0:
        raise InputError("labelled: expected at least one item, got none")
    if len(roots) < len(chosen):
        raise InputError(
            "labelled: expected each item once, found some again; pass item numbers or a mask "
            "such as y >= 0, not the labels"
        )
    check_integer(k, name="k", low=1)
    if k > len(roots):
        raise InputError(f"k: expected 1 .. {len(roots)}, the number of labelled items, got {k}")
    if k == 1:
        found = search_forest(lengths, roots, reverse=lengths.directed)
        return found.distances[:, None], found.roots[:, None].astype(np.int64)
    return nearest_marks(lengths, roots, roots, k)


def nearest_marks(
    lengths: EdgeLengths, roots: NDArray[np.int64], marks: NDArray[np.int64], k: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Return, for every item, the k nearest different marks of marked items, and how near.

    `marks` (len(roots),) are numbers >= 0: the items themselves, or their classes. -1 at an
    infinite distance fills up where there are fewer than k different ones.
    """
    n = lengths.n
    lengths = lengths.formed()  # items are settled up to k times, and ask for their row each time
    dist = np.full((n, k), np.inf)
    root = np.full((n, k), -1, np.int32)
    dist[roots, 0], root[roots, 0] = 0.0, marks
    settled = np.zeros(n, np.int32)
    worst, key = dist[:, k - 1].copy(), dist[:, 0].copy()
    least = np.array([key[c : c + CHUNK].min() for c in range(0, n, CHUNK)])
    state = (dist, root, settled, worst, key, least)
    if lengths.block is not None:
        rows = (lengths.block, lengths.raw_weights, lengths.beta, lengths.link)
        spread_rows(*rows, lengths.directed, *state, np.empty(n))
    else:
        while (u := settle_next(dist, settled, key, least)) >= 0:
            m = lengths.mixed_rows(np.array([u]), reverse=lengths.directed)[0]
            spread(u, m, lengths.beta, lengths.link, *state)
    return dist, root.astype(np.int64)
