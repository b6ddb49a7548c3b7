r"""Label spreading (Zhou et al., NIPS 2003): :math:`(I - \alpha S) F = Y`.

:math:`S = D^{-1/2} A D^{-1/2}`, Y has a 1 for the class of each labelled item, and an item gets the
class with the largest entry of its row of F. A joins linked items, or without a graph each item
and its k nearest ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import cg
from sklearn.neighbors import kneighbors_graph

from benchmarks.accuracy.data import Case, Indices
from benchmarks.accuracy.peers.features import tables
from benchmarks.accuracy.peers.smoothing import adjacency, normalised

Variants = Iterator[tuple[str, Indices]]

ALPHAS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
TABLE_ALPHA, NEIGHBOURS = 0.99, (5, 10, 20)


def label_spreading(case: Case) -> Variants:
    """Return what label spreading says."""
    if case.edges is not None:
        S = normalised(adjacency(case))
        for alpha in ALPHAS:
            yield f"alpha {alpha:g}", spread(case, S, alpha)
        return
    for name, X in tables(case).items():
        for k in NEIGHBOURS:
            near = csr_array(kneighbors_graph(X, k))
            S = normalised(csr_array(near.maximum(near.T)))
            yield f"{name}, k {k}", spread(case, S, TABLE_ALPHA)


def spread(case: Case, S: Any, alpha: float) -> Indices:
    """Return the class of every item."""
    system = eye_array(case.n) - alpha * S.astype(np.float64)
    scores = np.empty((case.n, case.n_classes))
    for c in range(case.n_classes):
        y = (case.known == c).astype(np.float64)
        scores[:, c] = cg(system, y, rtol=1e-8, maxiter=2000)[0]
    return scores.argmax(axis=1)
