"""Small random graphs for the tests of kernels."""

from __future__ import annotations

import numpy as np

from metricmix.relaxations.graph_search import Adjacency


def random_edges(n, density, seed=0, *, connected=False):
    """Ends (m, 2) of the edges of a random graph, their adjacency, and lengths in [0, 1]."""
    rng = np.random.default_rng([n, seed])
    chosen = np.tril(rng.random((n, n)) < density, -1)
    if connected:
        for i in range(1, n):
            chosen[i, rng.integers(i)] = True
    ends = np.argwhere(chosen).astype(np.int32)
    return ends, Adjacency.from_edges(n, *ends.T), rng.random(len(ends))
