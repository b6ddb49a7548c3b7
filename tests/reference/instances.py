"""Random instances that many tests share."""

from __future__ import annotations

import numpy as np

import metricmix as mm


def random_sources(rng, n, R, *, directed=False, dtype=np.float64):
    """R dissimilarities with continuous random entries: no ties, many broken triangles."""
    sources = []
    for _ in range(R):
        M = rng.uniform(0.1, 2.0, (n, n))
        if not directed:
            M = np.triu(M, 1) + np.triu(M, 1).T
        np.fill_diagonal(M, 0.0)
        sources.append(M.astype(dtype))
    return sources


def random_lengths(rng, n, *, directed=False, dtype=np.float64):
    """Edge lengths over several orders of magnitude, so that most shortest paths are detours."""
    w = 10.0 ** rng.uniform(-2.0, 1.0, (n, n))
    if not directed:
        w = np.triu(w, 1) + np.triu(w, 1).T
    np.fill_diagonal(w, 0.0)
    return w.astype(dtype)


def whole_lengths(rng, n, low=0, high=4, *, directed=False):
    """Integer edge lengths, zeros among them: full of ties."""
    w = rng.integers(low, high, (n, n)).astype(float)
    if not directed:
        w = np.triu(w, 1) + np.triu(w, 1).T
    np.fill_diagonal(w, 0.0)
    return w


def on_demand(stack):
    """The same stack with its sources computed row by row."""
    raw = [np.asarray(stack.source(r)) * stack.scales[r] for r in range(stack.n_sources)]
    sources = [
        mm.dissimilarity.ComputedSource(
            stack.n_items,
            lambda i, M=M: M[i],
            columns=(lambda i, M=M: M[:, i].T) if stack.directed else None,
        )
        for M in raw
    ]
    return mm.DissimilarityStack(sources, stack.names, stack.directed, scaling=stack.scales)
