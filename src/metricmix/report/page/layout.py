r"""Places in the plane for items that have only distances.

Classical scaling of some landmarks, the others placed by their distances to them [1]_, says where
groups lie; from there neighbours are drawn together (:mod:`metricmix.report.page.neighbour_map`),
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
from threadpoolctl import threadpool_limits

from metricmix.report.page.neighbour_map import neighbour_map

__all__ = ["place", "turn_to"]

Floats = NDArray[np.float64]
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
