"""The k nearest items, labelled items or classes of every item in the path metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.mixing import DenseLengths, floor_of, length_of, mix_row, tangent_of
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, EdgeLengths, edge_lengths
from metricmix.paths.dijkstra import CHUNK, any_below, dijkstra, pop_nearest, refresh_chunk
from metricmix.paths.sparse_pairs import arcs_of, nearest_items, use_balls
from metricmix.paths.sparse_rows import nearest_labels_over_edges
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_choice, check_indices, check_integer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "LabelSearch",
    "insert_label",
    "kneighbors",
    "kneighbors_graph",
    "nearest_labelled",
    "nearest_labels",
    "nearest_labels_rows",
    "relax_label",
    "settle_next",
]


def kneighbors(
    stack: Any,
    mixture: Any = None,
    k: int = 5,
    items: ArrayLike | None = None,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
) -> tuple[Floats, Indices]:
    """Return the k nearest other items of each of `items` in the path metric.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths, inf where there is no edge (then `mixture` is
        None).
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
        Nearest first; ties by item number. Where fewer than k items can be reached, -1 at an
        infinite distance follows.

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
    distances = np.full((len(chosen), k), np.inf)
    neighbours = np.full((len(chosen), k), -1, np.int64)
    if lengths.edges is not None:
        nearest_over_edges(lengths, chosen, distances, neighbours, n_jobs)
        return distances, neighbours

    def fill(share: Indices) -> None:
        for position in share:
            item = chosen[position : position + 1]
            if lengths.is_metric:
                row = lengths.rows(item)[0]
                row[item] = np.inf
                nearest = np.argsort(row, kind="stable")[:k]
                neighbours[position], distances[position] = nearest, row[nearest]
                continue
            search = dijkstra(lengths, item, limit=k + 1)
            found = np.sort(search.settled[search.settled != item])
            nearest = found[np.argsort(search.distances[found], kind="stable")[:k]]
            neighbours[position, : len(nearest)] = nearest
            distances[position, : len(nearest)] = search.distances[nearest]

    threads = effective_threads(n_jobs) if lengths.block is not None else 1
    shares = np.array_split(np.arange(len(chosen)), max(1, min(len(chosen), 4 * threads)))
    in_threads(fill, shares, threads)
    return distances, neighbours


def nearest_over_edges(
    lengths: EdgeLengths,
    items: Indices,
    distances: Floats,
    neighbours: Indices,
    n_jobs: int | None,
) -> None:
    """Fill the k nearest items over a sparse edge set, a small search for each."""
    arcs = arcs_of(lengths, len(items))

    def fill(start: int) -> None:
        some = slice(start, start + ROWS_AT_ONCE)
        with use_balls(lengths) as (ball, _):
            nearest_items(arcs, items[some], ball, distances[some], neighbours[some])

    in_threads(fill, range(0, len(items), ROWS_AT_ONCE), effective_threads(n_jobs))


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
    :func:`sklearn.neighbors.kneighbors_graph`; fewer, if it reaches fewer items. It suits whatever
    takes a precomputed sparse graph, without an n × n matrix: DBSCAN and neighbours; t-SNE if k is
    at least three times its perplexity plus two; HDBSCAN if `symmetric`, and connected (take a
    larger k if it is not).

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
    n, found = len(distances), neighbours >= 0
    data = distances[found] if mode == "distance" else np.ones(int(found.sum()))
    indptr = np.append(0, np.cumsum(found.sum(axis=1)))
    graph = csr_array((data, neighbours[found], indptr), shape=(n, n))
    return csr_array(graph.maximum(graph.T)) if symmetric else graph


# -- the nearest labelled items of all items at once ----------------------------------------------


def nearest_labelled(
    stack: Any,
    mixture: Any = None,
    labelled: ArrayLike | None = None,
    k: int = 1,
    *,
    directed: bool = False,
) -> tuple[Floats, Indices]:
    r"""Return, for every item v, its k nearest labelled items :math:`\arg\min_{s} d(v, s)`.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths, inf where there is no edge (then `mixture` is
        None).
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
        Nearest first. Where fewer than k labelled items can be reached, -1 at an infinite distance
        follows.

    Notes
    -----
    Cost O(k R n²) in time and O(k n) in memory, with rows mixed on demand; for k > 1 and up to
    some thousands of items, all lengths are formed once instead.

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
    if k == 1 and not lengths.is_metric:
        found = dijkstra(lengths, roots, reverse=lengths.directed)
        return found.distances[:, None], found.roots[:, None].astype(np.int64)
    return nearest_labels(lengths, roots, roots, k)


def nearest_labels(
    lengths: EdgeLengths, items: Indices, labels: Indices, k: int
) -> tuple[Floats, Indices]:
    """Return, for every item, the k nearest different labels and their distances.

    ``labels[a]`` >= 0 is the label of ``items[a]``: its class, or its own number for the nearest
    labelled items. Where there are fewer than k different labels, -1 at an infinite distance
    follows. One search settles every item at most k times, once per label.
    """
    n = lengths.n
    if lengths.edges is not None:
        return nearest_labels_over_edges(lengths, items, labels, k)
    if lengths.is_metric:
        return nearest_by_rows(lengths, items, labels, k)
    lengths = lengths.formed()  # an item needs its row every time it is settled
    dist = np.full((n, k), np.inf)
    label = np.full((n, k), -1, np.int32)
    dist[items, 0], label[items, 0] = 0.0, labels
    key = dist[:, 0].copy()
    chunk_min = np.array([key[c : c + CHUNK].min() for c in range(0, n, CHUNK)])
    settled, worst = np.zeros(n, np.int32), dist[:, k - 1].copy()
    state = LabelSearch(dist, label, settled, worst, key, chunk_min)
    if lengths.dense is not None:
        nearest_labels_rows(lengths.dense, lengths.directed, state)
    else:
        while (u := settle_next(state)) >= 0:
            m = lengths.mixed_rows(np.array([u]), reverse=lengths.directed)[0]
            relax_label(u, m, lengths.beta, lengths.link, state)
    return dist, label.astype(np.int64)


def nearest_by_rows(
    lengths: EdgeLengths, items: Indices, labels: Indices, k: int
) -> tuple[Floats, Indices]:
    """Return what :func:`nearest_labels` does, where the lengths are a metric: no path is searched.

    The rows of the labelled items, grouped by label, are all that is needed: O(L R n).
    """
    unique, group = np.unique(labels, return_inverse=True)
    nearest = np.full((len(unique), lengths.n), np.inf)
    for start in range(0, len(items), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        rows = lengths.rows(items[some], reverse=lengths.directed)
        np.minimum.at(nearest, group[some], rows)
    order = np.argsort(nearest, axis=0, kind="stable")[:k]
    dist = np.full((lengths.n, k), np.inf)
    label = np.full((lengths.n, k), -1, np.int64)
    dist[:, : len(order)] = np.take_along_axis(nearest, order, axis=0).T
    label[:, : len(order)] = unique[order].T
    return dist, label


class LabelSearch(NamedTuple):
    """The arrays of a search for the k nearest labels of n items.

    Attributes
    ----------
    dist, label : (n, k) arrays
        The k best labels of each item, all different, in increasing distance.
    settled : (n,) array
        How many of them are final.
    worst : (n,) array
        The last distance of each row of `dist`.
    key : (n,) array
        The first distance that is not final; inf if there is none.
    chunk_min : (chunks,) array
        The smallest key of every chunk of items.
    """

    dist: Floats
    label: Ints
    settled: Ints
    worst: Floats
    key: Floats
    chunk_min: Floats


@kernel_step
def insert_label(v: int, reached: float, label: int, state: LabelSearch) -> bool:
    """Insert a label into the list of item v; return whether the list improved.

    Its distance, `reached`, is below the last one of the list.
    """
    dist, labels, settled = state.dist, state.label, state.settled
    k = dist.shape[1]
    last = k - 1
    for slot in range(k):
        if labels[v, slot] == label:
            if slot < settled[v] or dist[v, slot] <= reached:
                return False
            last = slot  # a shorter path to a label that is in the list
            break
    slot = last
    while slot > settled[v] and dist[v, slot - 1] > reached:
        dist[v, slot] = dist[v, slot - 1]
        labels[v, slot] = labels[v, slot - 1]
        slot -= 1
    dist[v, slot] = reached
    labels[v, slot] = label
    return True


@kernel_step
def settle_next(state: LabelSearch) -> int:
    """Make the nearest open (item, label) final; return the item, or -1 at the end."""
    dist, settled, key = state.dist, state.settled, state.key
    u: int = pop_nearest(key, state.chunk_min)
    if u >= 0:
        settled[u] += 1
        if settled[u] < dist.shape[1]:
            key[u] = dist[u, settled[u]]
            refresh_chunk(u // CHUNK, key, state.chunk_min)
    return u


@kernel_step
def relax_label(u: int, m: Floats, beta: float, link: int, state: LabelSearch) -> None:
    """Relax the edges of item u for the label just settled there; m is its row of the mixture."""
    dist, settled, worst, key = state.dist, state.settled, state.worst, state.key
    n, k = dist.shape
    slot = settled[u] - 1
    du, label = dist[u, slot], state.label[u, slot]
    shift, slope = tangent_of(beta, link)
    for c in range(state.chunk_min.shape[0]):
        low = c * CHUNK
        high = min(low + CHUNK, n)
        if not any_below(du, m[low:high], shift, slope, worst[low:high]):
            continue
        changed = False
        for v in range(low, high):
            promising = du + floor_of(m[v], shift, slope) < worst[v]
            if promising and v != u and settled[v] < k:
                reached = du + length_of(m[v], beta, link)
                if reached < worst[v] and insert_label(v, reached, label, state):
                    worst[v] = dist[v, k - 1]
                    key[v] = dist[v, settled[v]]
                    changed = True
        if changed:
            refresh_chunk(c, key, state.chunk_min)


@kernel
def nearest_labels_rows(lengths: DenseLengths, reverse: bool, state: LabelSearch) -> None:
    """Run the search to its end on sources in memory."""
    m = np.empty(state.dist.shape[0])
    while True:
        u = settle_next(state)
        if u < 0:
            return
        mix_row(lengths.block, lengths.weights, u, reverse, m)
        relax_label(u, m, lengths.beta, lengths.link, state)
