"""The search behind trees, nearest labelled items and nearest neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import floor_of, length_of, mix_row, tangent_of
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import Floats, Ints

__all__ = [
    "CHUNK",
    "Forest",
    "any_below",
    "cap_beyond",
    "chunk_count",
    "forget",
    "grow_forest",
    "open_item",
    "plant_roots",
    "relax",
    "search_forest",
    "take_nearest",
]


CHUNK = 64


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


# -- the search behind trees, nearest labelled items and nearest neighbours ---------------------


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


# -- shortest paths from a set of roots to everything: Dijkstra's algorithm on rows -------------


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
