r"""Shortest paths between all pairs: the largest metric below given lengths.

.. math:: d_{ij} = \min_{i = v_0, v_1, \dots, v_m = j} \; \sum_{l=1}^{m} w_{v_{l-1} v_l}

is the shortest-path closure P(w), the largest matrix below `w` that keeps every triangle
inequality. Floyd and Warshall's recursion computes it, block by block: for each block K of items,
with D the closure of the block itself,

.. math:: P = w_{:K} \otimes D, \quad Q = D \otimes w_{K:}, \quad w \leftarrow \min(w, P \otimes Q)

where :math:`\otimes` is the min-plus product of :mod:`metricmix.kernels.minplus`. Symmetric lengths
have :math:`Q = P^T` and need the lower triangle only: half of the work.

The product leaves out what cannot lower anything, and leaves out the more the better neighbours
stand side by side. So items are first put in the order of a walk that always goes on to the nearest
item not yet seen, where a sample says that this saves more than moving the matrix costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import (
    CHUNK,
    STRIP,
    Packed,
    pack_columns,
    pack_rows,
    panel_width,
    tile_maxima,
    update,
)
from metricmix.kernels.symmetric import close_block, fold, mirror, take_columns, take_rows
from metricmix.kernels.threads import Crew, effective_threads, in_threads, row_ranges
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.validation import check_square

__all__ = [
    "close_in_place",
    "fill_along_paths",
    "path_metric",
    "project",
    "reorder",
    "saving_order",
]


WORTHWHILE = 250
"""Items times the share of the work saved from which another order pays.

The saving grows with n^3, walking and moving with n^2; measured where the two meet.
"""


def saving_order(matrix: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return an order of the items in which the closure takes less time, if that pays."""
    n = len(matrix)
    as_given = _share_done(matrix, np.arange(n))
    if n * as_given < WORTHWHILE:
        return None
    order: NDArray[np.int64] = _walk(matrix)
    return order if n * (as_given - _share_done(matrix, order)) > WORTHWHILE else None


def _share_done(matrix: NDArray[Any], order: NDArray[np.int64]) -> float:
    """Estimate from a few tiles which share of the product cannot be left out in this order."""
    n, width = len(matrix), panel_width(matrix.dtype)
    strips = np.linspace(0, n - STRIP, 8).astype(int)[:, None] + np.arange(STRIP)
    panels = np.linspace(0, n - width, 2).astype(int)[:, None] + np.arange(width)
    chosen = order[np.concatenate([strips.ravel(), panels.ravel()])]
    rows = np.take(matrix[chosen], order, axis=1)
    lows = np.minimum.reduceat(rows, np.arange(0, n, CHUNK), axis=1)
    strip_lows = lows[: strips.size].reshape(*strips.shape, -1).min(axis=1)
    panel_lows = lows[strips.size :].reshape(*panels.shape, -1).min(axis=1)
    tiles = rows[: strips.size, panels.ravel()].reshape(*strips.shape, *panels.shape)
    highs = tiles.max(axis=(1, 3))
    return float(np.mean(strip_lows[:, None] + panel_lows[None] < highs[:, :, None]))


@kernel
def _walk(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """Return the items as met on a walk to the nearest item not yet seen."""
    n = matrix.shape[0]
    order = np.empty(n, np.int64)
    left = np.arange(n)
    current = 0
    for step in range(n):
        order[step] = left[current]
        row = matrix[left[current]]
        last = n - 1 - step
        left[current] = left[last]
        current, nearest = 0, np.inf
        for place in range(last):
            length = row[left[place]]
            if length < nearest:
                current, nearest = place, length
    return order


@kernel
def reorder(
    matrix: NDArray[Any], order: NDArray[np.int64], low: int, high: int, out: NDArray[Any]
) -> None:
    """Fill rows low .. high - 1 of out with the matrix in the given order of items."""
    for i in range(low, high):
        row = matrix[order[i]]
        target = out[i]
        for j in range(len(order)):
            target[j] = row[order[j]]


# -- shortest paths between all pairs: the largest metric below given lengths -------------------

Range = tuple[int, int]
Task = Callable[[Range], None]
Runner = Callable[[Task, list[Range]], Any]

BLOCK = 64
"""Items per block K: a panel (16 KiB) and a strip of the product stay in the first cache."""

SMALL = 512
"""Below this many items neither threads nor another order of the items pay."""


def project(W: ArrayLike, directed: bool = False, *, n_jobs: int | None = None) -> NDArray[Any]:
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
    lengths = check_square(W, name="W", directed=directed, allow_infinite=True)
    d = np.array(lengths, order="C", copy=True, subok=False)
    if not directed:  # what validation took for rounding: the smaller one counts
        in_threads(lambda r: fold(d, *r), row_ranges(len(d), STRIP, 8, triangle=True), n_jobs)
    return close_in_place(d, symmetric=not directed, n_jobs=n_jobs)


def path_metric(
    stack: Any, mixture: Any = None, *, directed: bool = False, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Return the metric of a mixture of sources, as an (n, n) array.

    .. math:: d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    Parameters
    ----------
    stack : DissimilarityStack
    mixture : Mixture or array of R weights
    directed : bool
        For a matrix of lengths in place of a stack only; a stack knows.
    n_jobs : int or None
        Threads; None means all cores. The result does not depend on it.

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
    lengths = edge_lengths(stack, mixture, directed=directed)
    w = lengths.matrix(n_jobs=n_jobs)
    return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)


def close_in_place(
    matrix: NDArray[Any], *, symmetric: bool, n_jobs: int | None = None
) -> NDArray[Any]:
    """Replace lengths by their shortest-path closure, unchecked, and return the same array.

    `matrix` is C-contiguous, float32 or float64, non-negative. Its diagonal becomes 0. If
    `symmetric`, what it says below the diagonal counts for both sides.
    """
    n = len(matrix)
    np.fill_diagonal(matrix, 0)
    threads = effective_threads(n_jobs) if n >= SMALL else 1
    with Crew(threads) as crew:
        run = crew.run
        order = saving_order(matrix) if n >= SMALL else None
        if order is None:
            _Closure(matrix, symmetric, run, threads).close()
            return matrix
        rows = row_ranges(n, 1, 4 * threads)
        ordered = np.empty_like(matrix)
        run(lambda r: reorder(matrix, order, *r, ordered), rows)
        _Closure(ordered, symmetric, run, threads).close()
        back = np.argsort(order)
        run(lambda r: reorder(ordered, back, *r, matrix), rows)
    return matrix


class _Closure:
    """The rounds of the recursion on one matrix, and the room they work in."""

    def __init__(self, matrix: NDArray[Any], symmetric: bool, run: Runner, threads: int) -> None:
        n, dtype = len(matrix), matrix.dtype
        self.matrix, self.symmetric, self.run = matrix, symmetric, run
        self.width = panel_width(dtype)
        # A range's strips fit in the second cache; several ranges per thread even out the load.
        self.rows = row_ranges(n, STRIP, max(4 * threads, n // 384), triangle=symmetric)
        self.legs_rows = row_ranges(n, int(np.lcm(STRIP, self.width)), max(threads, n // 768))
        self.highs = np.empty((-(-n // STRIP), -(-n // self.width)), dtype)

    def close(self) -> None:
        n = len(self.matrix)
        self.run(self._bound, self.rows)
        for start in range(0, n, BLOCK):
            self._begin(start, min(start + BLOCK, n))
            self.run(self._find_legs, self.legs_rows)
            self.run(self._go_through, self.rows)
        if self.symmetric:
            self.run(lambda r: mirror(self.matrix, *r), self.rows)

    def _bound(self, r: Range) -> None:
        tile_maxima(self.matrix, *r, self.highs[r[0] // STRIP : -(-r[1] // STRIP)])

    def _begin(self, start: int, stop: int) -> None:
        """Close the block of items start .. stop - 1."""
        n, depth, dtype = len(self.matrix), stop - start, self.matrix.dtype
        if start == 0 or depth < BLOCK:
            self.legs = np.empty((n, depth), dtype)
            self.strips = Packed.empty(n, depth, STRIP, dtype)
            self.panels = Packed.empty(n, depth, self.width, dtype)
            self.unbounded = np.full((-(-n // STRIP), -(-depth // self.width)), np.inf, dtype)
            self.inner = Packed.empty(depth, depth, self.width, dtype)
            self.inner_reversed = Packed.empty(depth, depth, self.width, dtype)
        self.start, self.stop = start, stop
        block = self.matrix[start:stop, start:stop].copy()
        if self.symmetric:
            block = np.tril(block)
            block = np.maximum(block, block.T)
        close_block(block)
        self.block = block
        pack_columns(block, 0, depth, self.inner)
        if not self.symmetric:
            pack_rows(block, 0, depth, self.inner_reversed)

    def _find_legs(self, r: Range) -> None:
        """Shortest ways through the block from the rows' items into it, and out of it to them."""
        low, high = r
        start, stop = self.start, self.stop
        if self.symmetric:
            take_rows(self.matrix, start, low, min(high, start), self.legs)
            take_columns(self.matrix, start, max(low, stop), high, self.legs)
            inside = slice(max(low, start), max(low, start, min(high, stop)))
            self.legs[inside] = self.block[inside.start - start : inside.stop - start]
        else:
            take_rows(self.matrix, start, low, high, self.legs)
            self._shorten(r, self.inner_reversed)
            pack_rows(self.legs, low, high, self.panels.between(low, high))
            take_columns(self.matrix, start, low, high, self.legs)
        self._shorten(r, self.inner)
        pack_rows(self.legs, low, high, self.strips.between(low, high))
        if self.symmetric:
            pack_rows(self.legs, low, high, self.panels.between(low, high))

    def _shorten(self, r: Range, inner: Packed) -> None:
        strips = self.strips.between(*r)
        pack_rows(self.legs, *r, strips)
        update(self.legs, *r, strips, inner, self.unbounded[: len(strips.parts)].copy())

    def _go_through(self, r: Range) -> None:
        """Lower the lengths from the rows' items by going through the block."""
        highs = self.highs[r[0] // STRIP : -(-r[1] // STRIP)]
        diagonal = r[0] if self.symmetric else None
        update(self.matrix, *r, self.strips.between(*r), self.panels, highs, diagonal)


# -- unknown dissimilarities, filled along shortest ways over known ones ------------------------


def fill_along_paths(
    D: ArrayLike, directed: bool = False, *, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Return `D` with shortest ways over its known entries in place of NaN.

    Items without a way between them get the longest of all ways, which breaks no triangle. Entries
    below 0 are ways of length 0 and stay what they are.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.all_pairs import fill_along_paths
    >>> fill_along_paths([[0, 1, np.nan], [1, 0, 4], [np.nan, 4, 0]])
    array([[0., 1., 5.],
           [1., 0., 4.],
           [5., 4., 0.]])
    """
    given = np.array(D, np.float64)
    unknown = np.isnan(given)
    lengths = np.where(unknown, np.inf, np.maximum(given, 0.0))
    np.fill_diagonal(lengths, 0.0)
    ways = project(lengths, directed, n_jobs=n_jobs)
    longest = float(np.max(ways, where=np.isfinite(ways), initial=0.0))
    return np.where(unknown, np.minimum(ways, longest), given)
