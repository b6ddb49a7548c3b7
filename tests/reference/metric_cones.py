"""Instances for solvers that keep a mixture a metric: with constraints that really bind."""

from __future__ import annotations

import numpy as np

import metricmix as mm

KINDS = ("perturbed", "negative", "conflicting", "whole", "random")


def cone_instance(seed, kind, n=9, R=4, *, directed=False):
    """Return (stack, target), symmetric unless directed.

    perturbed    metrics with noise that breaks some triangles; the target is far from all
    negative     metrics; the best fit subtracts some of them until triangles bind
    conflicting  metrics with noise that sums to zero: only some mixtures are metrics
    whole        path lengths of graphs: small whole numbers, full of ties and parallel rows
    random       no structure at all: as a rule only weights 0 give a metric
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])

    def symmetric(M):
        M = M if directed else (M + M.T) / 2
        np.fill_diagonal(M, 0.0)
        return M

    def noise(size):
        return symmetric(rng.uniform(0.0, size, (n, n)))

    metrics = [mm.dissimilarity.features(rng.normal(size=(n, 3))) for _ in range(R)]
    target = symmetric(metrics[0] + noise(2.0))
    if kind == "perturbed":
        sources = [M + noise(0.6) for M in metrics]
        target = symmetric(sources[0] ** 2 + noise(1.0))
    elif kind == "negative":
        sources = [M + symmetric(np.full((n, n), 0.5)) for M in metrics]
        signs = np.where(np.arange(R) % 2, -1.0, 2.0)
        target = symmetric(np.tensordot(signs, sources, 1) + noise(0.3))
    elif kind == "conflicting":
        wave = symmetric(rng.uniform(-1.0, 1.0, (n, n)))
        sources = [
            np.maximum(symmetric(M + 1.0 + s * wave), 0.0)
            for M, s in zip(metrics, np.linspace(-2.0, 2.0, R), strict=True)
        ]
        target = symmetric(sources[-1] ** 2)
    elif kind == "whole":
        D = mm.dissimilarity.features(rng.normal(size=(n, 2)))
        sources = mm.dissimilarity.threshold_graphs(D, R + 2, normalize=False)[1 : R + 1]
        sources = [np.asarray(M) for M in sources]
        target = symmetric(2.0 * sources[0] - sources[-1] + noise(0.5))
    else:
        sources = [symmetric(np.triu(u) + np.triu(u).T) for u in rng.random((R, n, n)) ** 4]
    return mm.DissimilarityStack(sources, directed=directed), np.abs(target)


def label_instance(seed, kind, n=9, R=4):
    """Return (stack, labels) over the same sources."""
    stack, _ = cone_instance(seed, kind, n, R)
    return stack, np.arange(n) % 3
