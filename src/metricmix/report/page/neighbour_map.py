r"""Places in the plane that keep neighbours: t-distributed stochastic neighbours [1]_.

Each item spreads a share of 1 over its nearest items, by a normal law as wide as gives a fixed
perplexity; p is that, symmetrised. The places minimise the divergence

.. math:: \sum_{ij} p_{ij} \log \frac{p_{ij}}{q_{ij}}, \qquad
          q_{ij} \propto \frac{1}{1 + \lVert y_i - y_j \rVert^2}

by descent with momentum, attraction exaggerated in the first rounds. They start from given places,
nothing is drawn by chance, and one map runs on one thread: equal distances give equal maps.

References
----------
.. [1] L. van der Maaten, G. Hinton: Visualizing data using t-SNE, JMLR 9, 2008.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from metricmix.kernels.repulsion import descend

__all__ = ["neighbour_map"]

Floats = NDArray[np.float64]
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
