r"""Shortest paths between all pairs: the largest metric below given lengths.

.. math:: d_{ij} = \min_{i = v_0, v_1, \dots, v_m = j} \; \sum_{l=1}^{m} w_{v_{l-1} v_l}

is the shortest-path closure P(w), the largest matrix below `w` that satisfies every triangle
inequality: by Floyd and Warshall's recursion (:mod:`metricmix.paths.floyd_warshall`), or by a
search from every item where edges are sparse (:mod:`metricmix.paths.sparse_rows`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.devices import in_torch, resolve_device
from metricmix.kernels.minplus import fold
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.threads import in_threads, row_ranges
from metricmix.mixture.edge_lengths import FORMED_UP_TO, EdgeLengths, edge_lengths
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.paths.sparse_rows import distances_in_blocks
from metricmix.typing import AnyArray, Floats
from metricmix.validation import (
    as_float_array,
    check_copies_fit,
    check_square,
    check_square_fits,
)

__all__ = [
    "closed_copy",
    "impute_missing",
    "path_metric",
    "project",
    "searches_pay",
]

PER_ARC = 100
"""Entries that the closure updates while a search reads an edge for one root."""


def project(
    W: ArrayLike, directed: bool = False, *, n_jobs: int | None = None, device: str = "cpu"
) -> AnyArray:
    r"""Return the largest metric below the lengths `W`: all shortest-path lengths.

    .. math:: P(W) = \max \{ d : d_{ij} \le W_{ij},\; d_{ij} \le d_{ik} + d_{kj} \}

    Idempotent, never above its input, and the input itself where that is a metric already.

    Parameters
    ----------
    W : array of shape (n, n)
        Non-negative lengths with a zero diagonal, symmetric unless `directed`. 0 is an edge of
        length 0 (not a missing one); inf is no edge, and stays inf where there is no path.
    directed : bool
        Whether ``W[i, j]`` and ``W[j, i]`` may differ.
    n_jobs : int or None
        Threads; None means all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" computes on a GPU, through PyTorch; "auto" does so if there is one. The results of
        both agree to a few roundings of the longest path.

    Returns
    -------
    array of shape (n, n)
        A new array of the same dtype (float32 or float64; other input becomes float64), with a
        zero diagonal, exactly symmetric unless `directed`.

    Raises
    ------
    InputError
        If `W` is not such a matrix.

    Notes
    -----
    At most n^3 / 2 pairs of additions and minima (n^3 if directed), and up to one more n x n array.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.all_pairs import project
    >>> project(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]))
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """
    check_copies_fit(W, 1, what="the metric", argument="W")
    where = resolve_device(device)
    if where != "cpu":
        return np.asarray(
            in_torch("shortest_paths", "closure", where, W, name="W", directed=directed)
        )
    lengths = check_square(W, name="W", directed=directed, allow_infinite=True, n_jobs=n_jobs)
    return closed_copy(lengths, directed=directed, n_jobs=n_jobs)


def closed_copy(lengths: AnyArray, *, directed: bool, n_jobs: int | None = None) -> AnyArray:
    """Return the closure of valid lengths as a new array."""
    d = np.empty(lengths.shape, lengths.dtype)
    parts = [slice(*r) for r in row_ranges(len(d), 1, 64)]
    in_threads(lambda rows: np.copyto(d[rows], lengths[rows]), parts, n_jobs)
    if not directed:  # entries that differ by rounding: the smaller one counts
        in_threads(lambda r: fold(d, *r), row_ranges(len(d), STRIP, 64, triangle=True), n_jobs)
    return close_in_place(d, symmetric=not directed, n_jobs=n_jobs)


def path_metric(
    stack: Any,
    mixture: Any = None,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> AnyArray:
    r"""Return the metric of a mixture of sources, as an (n, n) array.

    .. math:: d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    Parameters
    ----------
    stack : DissimilarityStack
    mixture : Mixture or array of R weights
    directed : bool
        For a matrix of lengths in place of a stack only.
    n_jobs : int or None
        Threads; None means all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where the closure is computed, as in :func:`project`; lengths are mixed on the CPU.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.array([0.0, 1.0, 4.0])
    >>> stack = mm.DissimilarityStack([abs(x[:, None] - x), (x[:, None] - x) ** 2])
    >>> mm.path_metric(stack, [0.5, 0.1]).round(3)
    array([[0.   , 1.037, 3.524],
           [1.037, 0.   , 2.487],
           [3.524, 2.487, 0.   ]])
    """
    where = resolve_device(device)
    lengths = edge_lengths(stack, mixture, directed=directed)
    if searches_pay(lengths, lengths.n):
        check_square_fits(
            lengths.n, 8, what="the metric", argument="stack", instead="take fewer items"
        )
        d = np.empty((lengths.n, lengths.n))
        for some, found in distances_in_blocks(lengths, np.arange(lengths.n), n_jobs=n_jobs):
            d[some] = found
        return d if lengths.directed else np.minimum(d, d.T, out=d)
    w = lengths.matrix(n_jobs=n_jobs)
    if lengths.is_metric and (lengths.block is None or lengths.block.dtype == np.float64):
        return w  # nothing to project but the rounding of single precision
    if where != "cpu":
        options = {"directed": lengths.directed, "validate": False}
        return np.asarray(in_torch("shortest_paths", "closure", where, w, name="stack", **options))
    return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)


def searches_pay(lengths: EdgeLengths, roots: int) -> bool:
    """Return whether edges are sparse, and searches from so many roots cost less than the closure.

    The closure of n <= `FORMED_UP_TO` items updates n³ entries; searches read all arcs.
    """
    n, edges = lengths.n, lengths.edges
    if edges is None:
        return False
    arcs = len(edges) * (1 if lengths.directed else 2)
    return n > FORMED_UP_TO or n**3 >= PER_ARC * roots * arcs


def impute_missing(D: ArrayLike, directed: bool = False, *, n_jobs: int | None = None) -> Floats:
    """Return `D` with shortest-path lengths over its known entries in place of NaN.

    Pairs that no path joins get the largest of all path lengths, which violates no triangle
    inequality. Negative entries count as edges of length 0 and are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.all_pairs import impute_missing
    >>> impute_missing([[0, 1, np.nan], [1, 0, 4], [np.nan, 4, 0]])
    array([[0., 1., 5.],
           [1., 0., 4.],
           [5., 4., 0.]])
    """
    check_copies_fit(D, 4, what="imputing missing entries", argument="D")
    given = np.array(as_float_array(D, name="D"), np.float64)
    missing = np.isnan(given)
    lengths = np.where(missing, np.inf, np.maximum(given, 0.0))
    np.fill_diagonal(lengths, 0.0)
    paths = project(lengths, directed, n_jobs=n_jobs)
    longest = float(np.max(paths, where=np.isfinite(paths), initial=0.0))
    return np.where(missing, np.minimum(paths, longest), given)
