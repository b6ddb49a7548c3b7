"""Shortest paths from a set of roots to everything: Dijkstra's algorithm on rows.

One root gives a shortest-path tree, many roots give every item its nearest root, and a limit on the
number of settled items gives the nearest items of a root without looking at the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.frontier import forget, open_item, relax, take_nearest
from metricmix.kernels.mixing import mix_row

__all__ = ["cap_beyond", "grow_forest", "plant_roots"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@kernel
def plant_roots(
    roots: NDArray[np.int64],
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    root: Ints,
) -> None:
    """Start a search: everything unknown, every root at distance 0."""
    forget(dist, key, least, pred)
    for r in roots:
        root[r] = r
        open_item(r, 0.0, dist, key, least)


@kernel
def cap_beyond(limit: int, dist: Floats, key: Floats, least: Floats) -> None:
    """Forget items that cannot be among the `limit` nearest, once one row has been relaxed."""
    # The limit-th smallest distance, by insertion: numpy's partition takes seconds to compile.
    smallest = np.full(limit, np.inf)
    for v in range(dist.shape[0]):
        if dist[v] < smallest[limit - 1]:
            place = limit - 1
            while place > 0 and smallest[place - 1] > dist[v]:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = dist[v]
    cap = smallest[limit - 1]
    if cap == np.inf:
        return
    beyond = np.nextafter(cap, np.inf)
    for v in range(dist.shape[0]):
        if dist[v] > cap:
            dist[v] = beyond  # only a way no longer than the cap can bring the item back
            key[v] = np.inf
    for c in range(least.shape[0]):
        if least[c] > cap:
            least[c] = np.inf


@kernel
def grow_forest(
    block: NDArray[Any],
    weights: Floats,
    beta: float,
    link: int,
    reverse: bool,
    limit: int,
    roots: NDArray[np.int64],
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    root: Ints,
    order: Ints,
    m: Floats,
) -> int:
    """Settle the `limit` nearest items and all that are as near as the last; return how many.

    `order` receives them as they are settled, `pred` the item before each on its shortest path
    (after it, when `reverse`), `root` the root it belongs to.
    """
    n = dist.shape[0]
    plant_roots(roots, dist, key, least, pred, root)
    settled = 0
    while settled < n:
        u = take_nearest(key, least)
        if u < 0 or (settled >= limit and dist[u] > dist[order[limit - 1]]):
            break
        order[settled] = u
        settled += 1
        if settled == n:
            break
        mix_row(block, weights, u, reverse, m)
        relax(u, m, beta, link, dist, key, least, pred, root)
        if settled == 1 and limit < n and roots.shape[0] == 1:
            cap_beyond(limit, dist, key, least)
    return settled
