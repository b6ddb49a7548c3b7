r"""The k nearest rows of a table.

.. math:: N(i) = \operatorname{arg\,min}^{(k)}_{j \ne i} \lVert x_i - x_j \rVert

exactly where that is cheap, else nearly:

==============  ==================================================================================
``"blocks"``    all pairs, block by block at the speed of a matrix product: O(n^2 d), exact
``"kd-tree"``   :class:`sklearn.neighbors.KDTree`, for at most 8 columns, exact
``"descent"``   nearest neighbour descent by pynndescent, if that is installed
``"cells"``     the rows are divided into about :math:`\sqrt n` cells around some of them, and each
                row is compared with those of the cells nearest to its own; as many as find 95 % of
                the nearest on a sample, while that takes fewer than 2e10 comparisons
==============  ==================================================================================

Sparse tables are searched exactly, by multiplying only what is stored, while that costs less than
5e10 operations; beyond, in a random projection, whose best candidates are compared again exactly.
`recall` is the share of the true nearest that was found for a sample of 200 rows. Working memory
stays below 1 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.nearest_blocks import (
    BLOCK,
    TREE_ROWS,
    AllRows,
    NearCells,
    NearestCentres,
    TreeRows,
    empty_places,
    keep_nearest,
)
from metricmix.dissimilarity.squared_distances import (
    FEW_OPERATIONS,
    Products,
    half_squares,
    sparse_operations,
    squared_distances,
)
from metricmix.dissimilarity.symmetric_search import symmetric_search
from metricmix.exceptions import MissingPackageError
from metricmix.kernels.blocks import Found, run_blocks
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import effective_threads
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_choice, check_integer, check_table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "METHODS",
    "NearestItems",
    "joined",
    "nearest_items",
]

METHODS = ("auto", "blocks", "kd-tree", "descent", "cells")
EXACT_UP_TO = SYMMETRIC_UP_TO = 30_000
"""Rows up to which all pairs are compared, and up to which each product serves both of its rows:
by this process, since no worker of a cluster sees all rows."""
SAMPLE, GOOD = 200, 0.95
MOST_CELLS, COMPARISONS = 256, 2e10
"""Cells that a row is compared with, and pairs of rows that are compared, at most."""
CELLS_UP_TO = 200_000
"""Rows up to which cells are taken even where pynndescent is installed. For 100 000 rows and k = 10
on one thread, recall and seconds: 100 columns in clusters 0.97 in 3 (pynndescent 0.68 in 21), 50
independent normal columns 0.95 in 31 (0.28 in 9), 12 dimensions 0.95 in 23 (0.93 in 8)."""
SPARSE_OPERATIONS = 5e10
PROJECTED, CANDIDATES = 256, 6
"""Columns of the projection of a sparse table, and how many candidates it gives for each place."""
UNLIKE = 1 - 1e-6
"""Cosine distance from which on, up to rounding, two rows have nothing in common."""
SINGLE_FROM = 1 << 22
"""Numbers from which on a dense table is searched in single precision."""


@dataclass(frozen=True)
class NearestItems:
    """The nearest items of every item.

    Attributes
    ----------
    items : (n, k) array of int32
        Nearest first.
    distances : (n, k) array
        Euclidean, or one minus the cosine.
    metric : {"euclidean", "cosine"}
    method : str
        How they were found.
    recall : float
        Share of the true nearest items that was found, on a sample of 200 rows; 1 if exact.
    """

    items: Ints
    distances: Floats
    method: str
    recall: float
    metric: str = "euclidean"

    def ends(self, k: int | None = None) -> tuple[Ints, Ints]:
        """Return the two ends of edges from each item to its k nearest (default: all of them).

        Items at cosine distance 1 have nothing in common, and no edge.
        """
        items, distances = self.items[:, :k], self.distances[:, :k]
        u = np.repeat(np.arange(len(items), dtype=np.int32), items.shape[1])
        v = items.ravel()
        if self.metric == "cosine":
            close = distances.ravel() < UNLIKE
            u, v = u[close], v[close]
        return u, v


def nearest_items(
    X: Any, k: int, metric: str = "euclidean", *, method: str = "auto", n_jobs: int | None = None
) -> NearestItems:
    """Return the k nearest other rows of every row of a table.

    Parameters
    ----------
    X : array or scipy sparse (n, d)
    k : int
        At most n - 1; more are reduced to that.
    metric : {"euclidean", "cosine"}
        A row of zeros is at cosine distance 1 from all others.
    method : {"auto", "blocks", "kd-tree", "descent", "cells"}
        "auto" takes blocks up to 30 000 rows, the tree up to 8 columns, cells up to 200 000 rows,
        and beyond pynndescent if it is installed (``pip install metricmix[scale]``), else cells.
    n_jobs : int, optional
        Threads. The matrix products inside each of them use one.

    Examples
    --------
    >>> found = nearest_items(np.array([[0.0], [1.0], [3.0]]), 1)
    >>> found.items.ravel(), found.distances.ravel(), found.recall
    (array([1, 0, 1], dtype=int32), array([1., 1., 2.]), 1.0)
    """
    check_choice(metric, ("euclidean", "cosine"), name="metric")
    check_choice(method, METHODS, name="method")
    k = check_integer(k, name="k", low=1)
    known = getattr(X, "dtype", None) in (np.float32, np.float64) and X.ndim == 2
    Z = X if known else check_table(X)
    Z = Z if isinstance(Z, np.ndarray) else Z.tocsr()
    n = Z.shape[0]
    k = min(k, n - 1)
    if k == 0:
        nothing = np.empty((n, 0))
        return NearestItems(nothing.astype(np.int32), nothing, "blocks", 1.0, metric)
    if metric == "cosine":
        Z = unit_table(Z)
    threads = effective_threads(n_jobs)
    with blas_threads(1):
        chosen = chosen_method(Z, metric) if method == "auto" else method
        # In a column of their own, rows of zeros are as far from unit rows as unlike ones are.
        table = with_zeros_apart(Z) if metric == "cosine" else Z
        found, recall = search(table, k, chosen, threads)
        distances = pair_distances(Z, found, metric)
        order = np.argsort(distances, axis=1, kind="stable")
        found = np.take_along_axis(found, order, axis=1)
        distances = np.take_along_axis(distances, order, axis=1)
    return NearestItems(found, distances, chosen, recall, metric)


def chosen_method(Z: Any, metric: str) -> str:
    """Return the method that suits a table."""
    n, d = Z.shape
    if n <= EXACT_UP_TO:
        return "blocks"
    few_columns = 8
    if metric == "euclidean" and d <= few_columns and isinstance(Z, np.ndarray):
        return "kd-tree"
    many = n > CELLS_UP_TO and find_spec("pynndescent") is not None
    return "descent" if many else "cells"


def search(Z: Any, k: int, method: str, threads: int) -> tuple[Ints, float]:
    """Return the nearest rows in Euclidean distance, (n, k), and the recall."""
    n = Z.shape[0]
    if not isinstance(Z, np.ndarray):
        exact = sparse_operations(Z) <= SPARSE_OPERATIONS
        if exact and method in ("blocks", "cells"):
            single = sparse_operations(Z) > FEW_OPERATIONS
            return by_blocks(Z.astype(np.float32) if single else Z, k, threads), 1.0
        candidates, _ = search(projected(Z), min(n - 1, CANDIDATES * k), method, threads)
        found = best_of(Z, candidates, k)
        return found, recall_of(Z, found)
    if Z.size > SINGLE_FROM:
        Z = Z.astype(np.float32, copy=False)
    if method == "kd-tree":
        near = np.empty((n, k + 1), np.int32)
        run_blocks(TreeRows(Z, k + 1), placing(near, TREE_ROWS), n_jobs=threads)
        return without_own(near, k), 1.0
    if method == "descent":
        found = by_descent(Z, k, threads)
        return found, recall_of(Z, found)
    Z = Z - Z.mean(axis=0)  # products of large numbers would lose the digits that tell rows apart
    if method == "blocks":
        return by_blocks(Z, k, threads), 1.0
    return by_cells(Z, k, threads)


# -- all pairs ------------------------------------------------------------------------------------


def placing(found: Ints, step: int) -> Any:
    """Return a function that puts the rows of a block, `step` of them a unit, into `found`."""

    def put(start: int, stop: int, arrays: Found) -> None:
        found[start * step : stop * step] = arrays[0]

    return put


def by_blocks(Z: Any, k: int, threads: int) -> Ints:
    """Return the k nearest rows of all rows of a dense or sparse table."""
    if Z.shape[0] <= SYMMETRIC_UP_TO:
        return symmetric_search(Z, k, threads)
    job = AllRows(Z, half_squares(Z), k)
    found = np.empty((Z.shape[0], k), np.int32)
    run_blocks(job, placing(found, job.step), n_jobs=threads)
    return found


# -- cells ----------------------------------------------------------------------------------------


def by_cells(Z: Floats, k: int, threads: int) -> tuple[Ints, float]:
    """Return the k nearest rows among those of the cells around their own, and the recall."""
    n = len(Z)
    rng = np.random.default_rng(0)
    centres = Z[np.sort(rng.choice(n, max(1, int(np.sqrt(n))), replace=False))]
    rows_of_mean = 64  # of each cell, at most, from which its centre is computed
    some = Z[np.sort(rng.choice(n, min(n, rows_of_mean * len(centres)), replace=False))]
    for _ in range(2):  # means of the cells cut the rows better than rows do
        cell = nearest_cells(some, centres, 1, threads)[:, 0]
        counts = np.bincount(cell, minlength=len(centres))
        means = sums_of_cells(some, cell, len(centres)) / np.maximum(counts, 1)[:, None]
        centres = np.where(counts[:, None] > 0, means, centres).astype(Z.dtype, copy=False)
    cell = nearest_cells(Z, centres, 1, threads)[:, 0]
    most = int(min(MOST_CELLS, len(centres), max(8, COMPARISONS * len(centres) / n**2)))
    around = nearest_cells(centres, centres, min(most, len(centres)), threads)
    sample = np.sort(rng.choice(n, min(SAMPLE, n), replace=False))
    truth = true_nearest(Z, sample, k)
    at = around[cell[sample]][:, :, None] == cell[truth][:, None, :]
    reached = np.cumsum(at.sum(axis=(0, 2))) / truth.size
    p = min(int(np.searchsorted(reached, GOOD)) + 1, len(reached))
    members = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[members], np.arange(len(centres) + 1))
    ordered = Z[members]  # rows of a cell beside each other
    job = NearCells(ordered, half_squares(ordered), first, np.ascontiguousarray(around[:, :p]), k)
    found = np.empty((n, k), np.int32)

    def put(start: int, stop: int, arrays: Found) -> None:
        found[first[start] : first[stop]] = arrays[0]

    run_blocks(job, put, n_jobs=threads)
    lacking = np.flatnonzero(found[:, -1] < 0)  # fewer than k rows in these cells
    if len(lacking):
        found[lacking] = true_nearest(ordered, lacking, k)
    nearest = np.empty_like(found)
    nearest[members] = members[found]
    return nearest, float(reached[p - 1])


def sums_of_cells(Z: Floats, cell: Ints, n_cells: int) -> Floats:
    """Return the sum of the rows of each cell."""
    from scipy.sparse import csr_array

    each_in_one = np.ones(len(Z), Z.dtype), cell, np.arange(len(Z) + 1)
    return np.asarray(csr_array(each_in_one, shape=(len(Z), n_cells)).T @ Z)


def nearest_cells(Z: Floats, centres: Floats, p: int, threads: int) -> Ints:
    """Return the p nearest centres of each row, nearest first, (n, p)."""
    job = NearestCentres(Z, centres, half_squares(centres), p)
    found = np.empty((len(Z), p), np.int32)
    run_blocks(job, placing(found, job.step), n_jobs=threads)
    return found


# -- other searches -------------------------------------------------------------------------------


def by_descent(Z: Floats, k: int, threads: int) -> Ints:
    """Return the k nearest rows by pynndescent."""
    if find_spec("pynndescent") is None:
        raise MissingPackageError(
            "method='descent' needs pynndescent: pip install metricmix[scale]"
        )
    from pynndescent import NNDescent

    single = np.ascontiguousarray(Z, np.float32)
    index = NNDescent(single, n_neighbors=k + 1, random_state=0, n_jobs=threads)
    return without_own(np.asarray(index.neighbor_graph[0], np.int32), k)


def without_own(near: Ints, k: int) -> Ints:
    """Return k of the k + 1 nearest rows of each row, which itself is mostly among them."""
    own = near == np.arange(len(near), dtype=near.dtype)[:, None]
    own[~own.any(axis=1), -1] = True  # equal rows took its place
    return np.asarray(near[~own].reshape(len(near), k))


def projected(Z: Any) -> Floats:
    """Return a random projection of a sparse table, which keeps distances up to about 1 / 16."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((Z.shape[1], PROJECTED), dtype=np.float32)
    return np.asarray(Z.astype(np.float32) @ (directions / np.float32(np.sqrt(PROJECTED))))


def best_of(Z: Any, candidates: Ints, k: int) -> Ints:
    """Return the k nearest of some candidates for each row."""
    distances = pair_distances(Z, candidates, "euclidean")
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(candidates, order, axis=1)


def true_nearest(Z: Any, rows: Indices, k: int) -> Ints:
    """Return the k nearest rows of some rows, by all distances."""
    halves = half_squares(Z)
    found, best = empty_places(len(rows), k, Z.dtype)
    step = max(1, BLOCK // Z.shape[0])
    multiply, everyone = Products(Z), np.arange(Z.shape[0], dtype=np.int32)
    for start in range(0, len(rows), step):
        some, own = rows[start : start + step], slice(start, start + step)
        keep_nearest(multiply(some), halves, some.astype(np.int32), everyone, found[own], best[own])
    return found


def recall_of(Z: Any, found: Ints) -> float:
    """Return the share of the true nearest rows among those found, for a sample of rows.

    A row that is as near as the last of them counts as found.
    """
    n, k = found.shape
    sample = np.sort(np.random.default_rng(0).choice(n, min(SAMPLE, n), replace=False))
    truth = true_nearest(Z, sample, k)
    limit = pair_distances(Z, truth, "euclidean", sample).max(axis=1) * (1 + 1e-6)
    reached = pair_distances(Z, found[sample], "euclidean", sample) <= limit[:, None]
    return float(reached.mean())


def pair_distances(Z: Any, found: Ints, metric: str, rows: Indices | None = None) -> Floats:
    """Return the distances of rows (all of them by default) to those found for them."""
    own = np.arange(len(found)) if rows is None else rows
    k = found.shape[1]
    squares = squared_distances(Z, np.repeat(own, k), found.ravel().astype(np.int64)).reshape(
        found.shape
    )
    if metric == "euclidean":
        return np.sqrt(squares)
    zero = half_squares(Z) == 0
    squares = squares / 2
    squares[zero[own][:, None] | zero[found]] = 1.0
    return squares


def unit_table(Z: Any) -> Any:
    """Return the rows at length 1 (or 0)."""
    from sklearn.preprocessing import normalize

    return normalize(Z)


def with_zeros_apart(Z: Any) -> Any:
    """Return unit rows with one more column, 1 in rows of zeros; the same table without any."""
    zero = half_squares(Z) == 0
    if not zero.any():
        return Z
    column = zero[:, None].astype(Z.dtype)
    if isinstance(Z, np.ndarray):
        return np.hstack([Z, column])
    from scipy.sparse import csr_array, hstack

    return hstack([Z, csr_array(column)], format="csr")


def joined(found: NearestItems, k: int | None = None) -> csr_array[Any, Any]:
    """Return the graph that joins each item to its k nearest, (n, n), symmetric, entries 1."""
    from scipy.sparse import csr_array

    n = len(found.items)
    ends = found.ends(k)
    graph = csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    return csr_array(graph.maximum(graph.T))
