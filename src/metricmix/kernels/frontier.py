"""The frontier of a search on a complete graph: relax a row, take the nearest open item.

A heap is the wrong tool here: on a complete graph every settled item relaxes n edges, of which
all but a few improve nothing. The frontier is therefore a plain array of tentative distances in
chunks. Relaxing tests a whole chunk at once with vector instructions and looks closer only where
something improves; the smallest key of each chunk is kept, so that taking the nearest item reads
n / 64 numbers.

``dist`` holds tentative distances, ``key`` the same but inf once an item is settled. Ties go to the
item with the lowest number, always.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import floor_of, length_of, tangent_of

__all__ = ["CHUNK", "any_below", "chunk_count", "forget", "open_item", "relax", "take_nearest"]

CHUNK = 64
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def chunk_count(n: int) -> int:
    """Return the number of chunks that n items make."""
    return -(-n // CHUNK)


@kernel
def forget(dist: Floats, key: Floats, least: Floats, pred: Ints) -> None:
    """Start anew: nothing is known of any item."""
    for v in range(dist.shape[0]):  # loops compile ten times faster than assignments to slices
        dist[v] = np.inf
        key[v] = np.inf
        pred[v] = -1
    for c in range(least.shape[0]):
        least[c] = np.inf


@kernel
def open_item(v: int, distance: float, dist: Floats, key: Floats, least: Floats) -> None:
    """Give item v a tentative distance."""
    dist[v] = distance
    key[v] = distance
    c = v // CHUNK
    if distance < least[c]:
        least[c] = distance


@kernel
def refresh_chunk(c: int, key: Floats, least: Floats) -> None:
    """Recompute the smallest key of chunk c."""
    smallest = np.inf
    for v in range(c * CHUNK, min(c * CHUNK + CHUNK, key.shape[0])):
        if key[v] < smallest:
            smallest = key[v]
    least[c] = smallest


@kernel
def take_nearest(key: Floats, least: Floats) -> int:
    """Close and return the open item with the smallest key, or return -1 if none is open."""
    best = np.inf
    chunk = -1
    for c in range(least.shape[0]):
        if least[c] < best:
            best = least[c]
            chunk = c
    if chunk < 0:
        return -1
    u = chunk * CHUNK
    while key[u] != best:
        u += 1
    key[u] = np.inf
    refresh_chunk(chunk, key, least)
    return u


@kernel
def relax(
    u: int,
    m: Floats,
    beta: float,
    link: int,
    dist: Floats,
    key: Floats,
    least: Floats,
    pred: Ints,
    root: Ints,
) -> None:
    """Try every edge out of the settled item u; m is its row of the mixture, before the link.

    The link is only evaluated where its lower bound leaves hope. Settled items never
    improve: their distance is at most that of u.
    """
    n = dist.shape[0]
    du = dist[u]
    shift, slope = tangent_of(beta, link)
    for c in range(least.shape[0]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        if not any_below(du, m[low:high], shift, slope, dist[low:high]):
            continue
        for v in range(low, high):
            if v != u and du + floor_of(m[v], shift, slope) < dist[v]:
                reached = du + length_of(m[v], beta, link)
                if reached < dist[v]:
                    pred[v] = u
                    root[v] = root[u]
                    open_item(v, reached, dist, key, least)


@kernel
def any_below(start: float, m: Floats, shift: float, slope: float, bound: Floats) -> bool:
    """Return whether any edge of a chunk may lead from `start` to below its bound.

    Counted without a branch, so that it is vectorised.
    """
    hopes = 0
    for k in range(m.shape[0]):
        hopes += 1 if start + floor_of(m[k], shift, slope) < bound[k] else 0
    return hopes > 0
