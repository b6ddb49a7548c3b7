"""The search behind trees, nearest labelled items and nearest neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.forest import cap_beyond, grow_forest, plant_roots
from metricmix.kernels.frontier import chunk_count, relax, take_nearest
from metricmix.mixture.lengths import EdgeLengths

__all__ = ["Forest", "search_forest"]


class Forest(NamedTuple):
    """What a search from some roots found.

    Attributes
    ----------
    distances : (n,) array
        Final for the settled items.
    predecessors : (n,) array
        The item before each on its shortest path; -1 at the roots.
    roots : (n,) array
        The root each belongs to.
    settled : array
        The settled items, nearest first.
    """

    distances: NDArray[np.float64]
    predecessors: NDArray[np.int32]
    roots: NDArray[np.int32]
    settled: NDArray[np.int32]


def search_forest(
    lengths: EdgeLengths,
    roots: NDArray[np.int64],
    *,
    limit: int | None = None,
    reverse: bool = False,
) -> Forest:
    """Settle the `limit` items nearest to the set of `roots` (default: all items).

    Items as near as the last of them are settled too, so that ties can be broken by number. With
    `reverse`, distances run from the items to the roots. Rows are mixed one by one as items are
    settled: in the kernel where the sources are in memory, else by asking for them.
    """
    n = lengths.n
    limit = n if limit is None else limit
    dist, key, least = np.empty(n), np.empty(n), np.empty(chunk_count(n))
    pred, order = np.empty(n, np.int32), np.empty(n, np.int32)
    root = np.full(n, -1, np.int32)
    state = (dist, key, least, pred, root)
    if lengths.block is not None:
        rows = (lengths.block, lengths.raw_weights, lengths.beta, lengths.link)
        count = grow_forest(*rows, reverse, limit, roots, *state, order, np.empty(n))
        return Forest(dist, pred, root, order[:count])
    plant_roots(roots, *state)
    count = 0
    while count < n:
        u = take_nearest(key, least)
        if u < 0 or (count >= limit and dist[u] > dist[order[limit - 1]]):
            break
        order[count] = u
        count += 1
        if count < n:
            m = lengths.mixed_rows(np.array([u]), reverse=reverse)[0]
            relax(u, m, lengths.beta, lengths.link, *state)
            if count == 1 and limit < n and len(roots) == 1:
                cap_beyond(limit, dist, key, least)
    return Forest(dist, pred, root, order[:count])
