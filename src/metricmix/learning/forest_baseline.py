r"""The baseline "forest": a random forest on the table and on columns computed from the links.

The columns of an item, all computed once and without labels:

- its row of the table; of a sparse table with more than 50 columns, or a dense one with more than
  256, the 50 leading singular vectors;
- of each file of memberships: a column per group, reduced in the same way;
- of each graph with strengths A: its degree :math:`\sum_j A_{ij}`, the mean row of its neighbours
  :math:`\sum_j A_{ij} x_j / \sum_j A_{ij}`, and its entries in the 8 leading eigenvectors of
  :math:`D^{-1/2} (A + I) D^{-1/2}`, for up to 20 000 items.

The trees (:mod:`metricmix.dissimilarity.forests`) are those of
:class:`~sklearn.ensemble.RandomForestClassifier` with its defaults, or of the regressor with a
third of the columns tried at each split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import normalised
from metricmix.dissimilarity.forests import grown_trees
from metricmix.dissimilarity.sources import ItemData
from metricmix.kernels.process_settings import blas_threads
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["RandomForest", "forest_features"]

TREES = 100
DIRECTIONS, WIDE_FROM = 50, 256
"""Singular vectors that a wide table is reduced to, and columns from which on a dense one is."""
COORDINATES, SPECTRAL_UP_TO = 8, 20_000
"""Eigenvectors of each graph, and up to how many items."""


class RandomForest:
    """A random forest on the features of the labelled items.

    Parameters
    ----------
    features : (L, d) array
    learned_from : (L,) array of bool
        Which of them may be learned from.
    numeric : bool
        Whether targets are numbers.
    """

    def __init__(self, features: Floats, learned_from: Any, *, numeric: bool) -> None:
        self.features = np.ascontiguousarray(features, dtype=np.float64)
        self.learned_from, self.numeric = learned_from, numeric

    def predict(self, train: Indices, y: AnyArray, test: Indices) -> AnyArray:
        """Return the classes, or the numbers, that the trees predict on average."""
        kept, d = self.learned_from[train], self.features.shape[1]
        rows, y = self.features[train[kept]], y[kept]
        if self.numeric:
            trees = grown_trees(rows, y.astype(np.float64), d // 3, n_trees=TREES)
            return np.asarray(trees.mean(self.features[test])[:, 0])
        classes, codes = np.unique(y, return_inverse=True)
        tried, C = int(np.sqrt(d)), len(classes)
        trees = grown_trees(rows, codes, tried, n_trees=TREES, n_classes=C)
        return np.asarray(classes[trees.mean(self.features[test]).argmax(axis=1)])


def forest_features(data: ItemData) -> Floats | None:
    """Return the table and the columns computed from the links, (n, d); None without data."""
    graphs = data.graphs or ({} if data.links is None else {"links": data.links})
    tables = [] if data.table is None else [data.table]
    parts = [reduced(table) for table in (*tables, *data.memberships.values())]
    own = parts[: len(tables)]
    for strengths in graphs.values():
        degree = np.asarray(strengths.sum(axis=1), dtype=np.float64).reshape(-1, 1)
        parts.append(degree)
        parts += [np.asarray(strengths @ rows) / np.maximum(degree, 1e-300) for rows in own]
        if len(degree) <= SPECTRAL_UP_TO:
            parts.append(spectral_coordinates(strengths))
    return np.nan_to_num(np.hstack(parts)) if parts else None


def reduced(table: Any) -> Floats:
    """Return a table as an array, by its leading singular vectors if it is wide."""
    dense = isinstance(table, np.ndarray)
    if table.shape[1] > (WIDE_FROM if dense else DIRECTIONS):
        from sklearn.decomposition import TruncatedSVD

        kept = min(DIRECTIONS, *table.shape)
        rows = np.nan_to_num(table) if dense else table
        with blas_threads(1):
            return np.asarray(TruncatedSVD(kept, random_state=0).fit_transform(rows))
    return np.asarray(table if dense else table.toarray(), dtype=np.float64)


def spectral_coordinates(strengths: Any) -> Floats:
    """Return the leading eigenvectors of the normalised adjacency, (n, 8); fewer of a small graph.

    Those that do not converge in 1000 restarts are left out.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    operator = normalised(strengths)
    n = operator.shape[0]
    if n <= 2 * COORDINATES:
        return np.asarray(np.linalg.eigh(operator.toarray())[1][:, ::-1][:, :COORDINATES])
    start = np.random.default_rng(0).normal(size=n)
    try:
        found = eigsh(operator, COORDINATES, which="LA", v0=start, tol=1e-4, maxiter=1000)[1]
    except ArpackNoConvergence as error:
        found = error.eigenvectors
    return np.asarray(found)
