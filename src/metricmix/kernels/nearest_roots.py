"""The k nearest roots of every item, by one search that settles each item at most k times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.frontier import CHUNK, any_below, refresh_chunk, take_nearest
from metricmix.kernels.mixing import floor_of, length_of, mix_row, tangent_of

__all__ = ["offer", "settle_next", "spread", "spread_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@kernel
def offer(v: int, reached: float, label: int, dist: Floats, root: Ints, settled: Ints) -> bool:
    """Offer item v a way of length `reached` from the root `label`; return whether it was taken.

    Each item keeps its k best roots, all different, in increasing distance; the first `settled[v]`
    are final.
    """
    k = dist.shape[1]
    last = k - 1
    for slot in range(k):
        if root[v, slot] == label:
            if slot < settled[v] or dist[v, slot] <= reached:
                return False
            last = slot  # a better way from a root that is known already
            break
    slot = last
    while slot > settled[v] and dist[v, slot - 1] > reached:
        dist[v, slot] = dist[v, slot - 1]
        root[v, slot] = root[v, slot - 1]
        slot -= 1
    dist[v, slot] = reached
    root[v, slot] = label
    return True


@kernel
def settle_next(dist: Floats, settled: Ints, key: Floats, least: Floats) -> int:
    """Make the nearest open (item, root) final; return the item, or -1 at the end."""
    u: int = take_nearest(key, least)
    if u >= 0:
        settled[u] += 1
        if settled[u] < dist.shape[1]:
            key[u] = dist[u, settled[u]]
            refresh_chunk(u // CHUNK, key, least)
    return u


@kernel
def spread(
    u: int,
    m: Floats,
    beta: float,
    link: int,
    dist: Floats,
    root: Ints,
    settled: Ints,
    worst: Floats,
    key: Floats,
    least: Floats,
) -> None:
    """Offer the root just settled at item u to every other item, over the edges out of u."""
    n, k = dist.shape
    slot = settled[u] - 1
    du, label = dist[u, slot], root[u, slot]
    shift, slope = tangent_of(beta, link)
    for c in range(least.shape[0]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        if not any_below(du, m[low:high], shift, slope, worst[low:high]):
            continue
        changed = False
        for v in range(low, high):
            hopeful = du + floor_of(m[v], shift, slope) < worst[v]
            if hopeful and v != u and settled[v] < k:
                reached = du + length_of(m[v], beta, link)
                if reached < worst[v] and offer(v, reached, label, dist, root, settled):
                    worst[v] = dist[v, k - 1]
                    key[v] = dist[v, settled[v]]
                    changed = True
        if changed:
            refresh_chunk(c, key, least)


@kernel
def spread_rows(
    block: NDArray[Any],
    weights: Floats,
    beta: float,
    link: int,
    reverse: bool,
    dist: Floats,
    root: Ints,
    settled: Ints,
    worst: Floats,
    key: Floats,
    least: Floats,
    m: Floats,
) -> None:
    """Run the search to its end on sources in memory."""
    while True:
        u = settle_next(dist, settled, key, least)
        if u < 0:
            return
        mix_row(block, weights, u, reverse, m)
        spread(u, m, beta, link, dist, root, settled, worst, key, least)
