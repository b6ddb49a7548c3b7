r"""Places in the plane for items that have only distances.

Classical scaling of some landmarks, the others placed by their distances to them [1]_, says where
groups lie; from there neighbours are drawn together (:mod:`metricmix.app.page.layout`),
since one plane cannot keep all distances and near ones are what a reader looks at. Of very many
items only some are laid out that way, and the others put amidst the nearest of these.

References
----------
.. [1] V. de Silva, J. B. Tenenbaum: Sparse multidimensional scaling using landmark points, 2004.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from metricmix.kernels.compile import kernel
from metricmix.typing import Floats

__all__ = ["descend", "neighbour_map", "place", "turn_to"]


LANDMARKS = 300
FEWEST = 12
"""Fewer items than this have no neighbourhoods to speak of."""
LAID_OUT = 6000
"""Items whose neighbours are drawn together; a round over so many takes 10 ms."""
AMIDST = 3
FAR = 1.2
"""Where there is no way between items, in units of the largest distance."""


def place(distances: Floats) -> Floats:
    """Return (n, 2) coordinates for an (n, n) matrix of distances, centred, of unit size.

    Distances that differ there and back are averaged; infinite ones are taken for somewhat larger
    than all others.
    """
    n = len(distances)
    chosen = np.arange(n)
    if n > LAID_OUT:
        chosen = np.sort(np.random.default_rng(0).permutation(n)[:LAID_OUT])
    d = _both_ways(distances, chosen)
    with threadpool_limits(1, user_api="blas"):  # maps run side by side
        points = _scaled(d)
        if len(chosen) >= FEWEST:
            points = neighbour_map(d, points)
    if n > LAID_OUT:
        points = _amidst(distances, chosen, points)
    return _normed(points)


def turn_to(points: Floats, model: Floats) -> Floats:
    """Return the points turned or mirrored to lie as near to `model` as they can."""
    rotation, _ = orthogonal_procrustes(points, model)
    return np.asarray(points @ rotation)


def _both_ways(distances: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Return the distances between chosen items, finite, the same there and back."""
    d = distances[np.ix_(chosen, chosen)]
    d = (d + d.T) / 2.0
    far = ~np.isfinite(d)
    if far.any():
        d[far] = FAR * d[~far].max(initial=0.0) or 1.0
    return d


def _scaled(d: Floats) -> Floats:
    """Return where classical scaling by landmarks puts the items."""
    n = len(d)
    marks = np.sort(np.random.default_rng(0).permutation(n)[:LANDMARKS])
    squares = d[np.ix_(marks, marks)] ** 2
    means = squares.mean(axis=0)
    gram = -0.5 * (squares - means - means[:, None] + means.mean())
    values, vectors = (found[..., -2:] for found in np.linalg.eigh(gram))
    scale = np.sqrt(np.maximum(values, 1e-12 * max(values.max(), 1e-300)))
    points = -0.5 * (d[:, marks] ** 2 - means) @ (vectors / scale)
    if points.shape[1] < 2:
        points = np.column_stack([np.zeros(n), points])
    return np.asarray(points[:, ::-1])


def _amidst(distances: Floats, chosen: NDArray[np.int64], points: Floats) -> Floats:
    """Return places of all items: those of the chosen, and the middle of the nearest of these."""
    everyone = np.empty((len(distances), 2))
    for i, row in enumerate(distances):
        nearest = np.argpartition(row[chosen], AMIDST)[:AMIDST]
        everyone[i] = points[nearest].mean(axis=0)
    everyone[chosen] = points
    return everyone


def _normed(points: Floats) -> Floats:
    points = points - points.mean(axis=0)
    size = float(np.sqrt((points**2).sum(axis=1).mean()))
    return points / (size if size > 0 else 1.0)


# -- places in the plane that keep neighbours: t-distributed stochastic neighbours [1]_ ---------

PERPLEXITY = 30.0
GATHERING, SETTLING = 80, 220
"""Rounds with exaggeration, and after it: enough for 5000 items to settle in groups."""
EXAGGERATION = 12.0
LEAST_RATE = 3.0
START = 1e-2
"""Spread of the first places: so small that neighbours find each other, whoever is between."""
HALVINGS = 50


def neighbour_map(distances: Floats, start: Floats) -> Floats:
    """Return (n, 2) places for symmetric, finite distances (n, n), from the places `start`."""
    n = len(distances)
    shares = _shares(distances, min(PERPLEXITY, (n - 1) / 2.0))
    spread = float(start.std(axis=0).max())
    first = start.T * (START / (spread if spread > 0 else 1.0))
    places = np.ascontiguousarray(first, dtype=np.float32)
    graph = (shares.indptr.astype(np.int32), shares.indices.astype(np.int32), shares.data)
    rate = max(n / EXAGGERATION, LEAST_RATE)
    descend(places, *graph, GATHERING, EXAGGERATION, 0.5, rate)
    descend(places, *graph, SETTLING, 1.0, 0.8, rate)
    return places.T.astype(np.float64)


def _shares(distances: Floats, perplexity: float) -> csr_array:
    """Return p as a sparse matrix, over the 3 · perplexity nearest items of each."""
    n = len(distances)
    k = min(n - 1, int(3 * perplexity) + 1)
    near = np.empty((n, k), np.int64)
    for i, row in enumerate(distances):
        others = row.copy()
        others[i] = np.inf
        near[i] = np.argpartition(others, k - 1)[:k]
    squares = np.take_along_axis(distances, near, axis=1) ** 2
    p = _of_perplexity(squares, perplexity)
    one_way = csr_array((p.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    both = csr_array(one_way + one_way.T)
    both.data = (both.data / (2.0 * n)).astype(np.float32)
    return both


def _of_perplexity(squares: Floats, perplexity: float) -> Floats:
    r"""Return :math:`p_{ik} \propto e^{-b_i s_{ik}}`, rows of sum 1 and entropy log perplexity."""
    rows = squares - squares.min(axis=1, keepdims=True)
    width = rows.mean(axis=1, keepdims=True)
    rows = rows / np.where(width > 0, width, 1.0)
    low, high = np.full((len(rows), 1), -20.0), np.full((len(rows), 1), 20.0)  # of log b
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        p = np.exp(-np.exp(middle) * rows)
        p /= p.sum(axis=1, keepdims=True)
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1, keepdims=True)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    return np.asarray(p)


# -- the forces between places in the plane that t-distributed neighbours ask for ---------------

BLOCK = 256
LEAST_GAIN = 0.01


@kernel
def repel(x: NDArray[np.float32], y: NDArray[np.float32], force: NDArray[np.float32]) -> float:
    """Write the sums of q² (y_i - y_j) to `force`, (2, n), and return Z."""
    n = len(x)
    zero = np.float32(0.0)
    one = np.float32(1.0)
    total = 0.0
    sums = np.empty((3, BLOCK), np.float32)
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        sums[:] = zero
        own_x, own_y = x[start : start + count], y[start : start + count]
        along, up, near = sums[0, :count], sums[1, :count], sums[2, :count]
        for j in range(n):
            there_x, there_y = x[j], y[j]
            for i in range(count):
                dx, dy = own_x[i] - there_x, own_y[i] - there_y
                q = one / (one + dx * dx + dy * dy)
                square = q * q
                near[i] += q
                along[i] += square * dx
                up[i] += square * dy
        for i in range(count):
            force[0, start + i] = along[i]
            force[1, start + i] = up[i]
            total += near[i]
    return total - n


@kernel
def attract(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    p: NDArray[np.float32],
    force: NDArray[np.float32],
) -> None:
    """Write the sums of p q (y_i - y_j) to `force`, (2, n); p is sparse, by rows."""
    one = np.float32(1.0)
    for i in range(len(x)):
        along = up = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            dx, dy = x[i] - x[j], y[i] - y[j]
            pull = p[e] / (one + dx * dx + dy * dy)
            along += pull * dx
            up += pull * dy
        force[0, i] = along
        force[1, i] = up


@kernel
def descend(
    places: NDArray[np.float32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    p: NDArray[np.float32],
    rounds: int,
    exaggeration: float,
    momentum: float,
    rate: float,
) -> None:
    """Move `places`, (2, n), down the divergence for some rounds, with momentum and gains."""
    n = places.shape[1]
    x, y = places[0], places[1]
    pull, push = np.empty((2, n), np.float32), np.empty((2, n), np.float32)
    speed, gain = np.zeros((2, n), np.float32), np.ones((2, n), np.float32)
    for _ in range(rounds):
        attract(x, y, indptr, indices, p, pull)
        z = repel(x, y, push)
        for axis in range(2):
            for i in range(n):
                slope = 4.0 * (exaggeration * pull[axis, i] - push[axis, i] / z)
                if slope * speed[axis, i] < 0.0:
                    gain[axis, i] += 0.2
                else:
                    gain[axis, i] = max(0.8 * gain[axis, i], LEAST_GAIN)
                speed[axis, i] = momentum * speed[axis, i] - rate * gain[axis, i] * slope
                places[axis, i] += speed[axis, i]
