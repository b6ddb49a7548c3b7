"""The k nearest items of an item, by a search that stops when it has found them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import floor_of, length_of, mix_row, tangent_of
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.paths.forest import CHUNK, any_below, refresh_chunk, search_forest, take_nearest
from metricmix.typing import Floats, Ints
from metricmix.validation import check_choice, check_indices, check_integer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "kneighbors",
    "kneighbors_graph",
    "nearest_labelled",
    "offer",
    "settle_next",
    "spread",
    "spread_rows",
]


def kneighbors(
    stack: Any,
    mixture: Any = None,
    k: int = 5,
    items: ArrayLike | None = None,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
) -> tuple[Floats, NDArray[np.int64]]:
    """Return the k nearest other items of each of `items` in the path metric.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths (then `mixture` is None).
    mixture : Mixture or array of R weights
    k : int
        1 .. n - 1; an item is not its own neighbour.
    items : array of int, optional
        Default: all.
    directed : bool
        For a matrix of lengths only. Distances run from the item to its neighbours.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    distances, neighbours : (len(items), k) arrays
        Nearest first; ties by item number.

    Notes
    -----
    k + 1 rows are mixed per item (more only for ties), and no n × n matrix is formed.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths import kneighbors
    >>> place = np.array([0.0, 1.0, 2.5, 10.0])
    >>> kneighbors(abs(place[:, None] - place), k=2, items=[3])[1]
    array([[2, 1]])
    """
    lengths = edge_lengths(stack, mixture, directed=directed)
    n = lengths.n
    check_integer(k, name="k", low=1)
    if k > n - 1:
        raise InputError(argument="k", expected=f"1 .. {n - 1}, the number of other items", found=k)
    chosen = np.arange(n) if items is None else check_indices(items, n, name="items")
    distances = np.empty((len(chosen), k))
    neighbours = np.empty((len(chosen), k), np.int64)

    def fill(share: NDArray[np.int64]) -> None:
        for position in share:
            item = chosen[position : position + 1]
            forest = search_forest(lengths, item, limit=k + 1)
            found = np.sort(forest.settled[forest.settled != item])
            nearest = found[np.argsort(forest.distances[found], kind="stable")[:k]]
            neighbours[position], distances[position] = nearest, forest.distances[nearest]

    threads = effective_threads(n_jobs) if lengths.block is not None else 1
    shares = np.array_split(np.arange(len(chosen)), max(1, min(len(chosen), 4 * threads)))
    in_threads(fill, shares, threads)
    return distances, neighbours


def kneighbors_graph(
    stack: Any,
    mixture: Any = None,
    k: int = 5,
    *,
    mode: str = "distance",
    symmetric: bool = False,
    directed: bool = False,
    n_jobs: int | None = None,
) -> csr_array:
    """Return the k-nearest-neighbour graph of the path metric as a sparse (n, n) array.

    Row v holds the distances from v to its k nearest items, as in
    :func:`sklearn.neighbors.kneighbors_graph`. It serves whatever takes a precomputed sparse graph,
    without an n × n matrix: DBSCAN and neighbours as it is; t-SNE if k is at least three times its
    perplexity plus two; HDBSCAN if `symmetric`, and connected (take a larger k if it is not).

    Parameters
    ----------
    stack, mixture, k, directed, n_jobs
        As in :func:`kneighbors`.
    mode : {"distance", "connectivity"}
        What the entries are: distances, or ones.
    symmetric : bool
        Whether v and u are joined if either is among the k nearest of the other; rows then have k
        entries or more.
    """
    from scipy.sparse import csr_array

    check_choice(mode, ("distance", "connectivity"), name="mode")
    distances, neighbours = kneighbors(stack, mixture, k, directed=directed, n_jobs=n_jobs)
    n = len(distances)
    data = distances.ravel() if mode == "distance" else np.ones(n * k)
    graph = csr_array((data, neighbours.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return csr_array(graph.maximum(graph.T)) if symmetric else graph


# -- the nearest labelled items of all items at once --------------------------------------------


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
        raise InputError(
            argument="labelled", expected="the labelled items, as numbers or as a mask"
        )
    chosen = check_indices(labelled, lengths.n, name="labelled")
    roots = np.unique(chosen)
    if len(roots) == 0:
        raise InputError(argument="labelled", expected="at least one item", found="none")
    if len(roots) < len(chosen):
        raise InputError(
            argument="labelled",
            expected="each item once, found some again",
            remedy="pass item numbers or a mask such as y >= 0, not the labels",
        )
    check_integer(k, name="k", low=1)
    if k > len(roots):
        raise InputError(
            argument="k", expected=f"1 .. {len(roots)}, the number of labelled items", found=k
        )
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


# -- the k nearest roots of every item, by one search that settles each item at most k times ----


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
