"""The k nearest items of an item, by a search that stops when it has found them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.mixture.lengths import edge_lengths
from metricmix.paths.forest import search_forest
from metricmix.validation import check_choice, check_indices, check_integer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["kneighbors", "kneighbors_graph"]

Floats = NDArray[np.float64]


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
        raise InputError(f"k: expected 1 .. {n - 1}, the number of other items, got {k}")
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
