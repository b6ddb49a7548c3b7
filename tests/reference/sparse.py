"""Random sparse graphs, with the lengths of their edges also as a matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture


class SparseGraph(NamedTuple):
    """Edge lengths over a sparse set, the same as a matrix, and how exact distances are."""

    lengths: EdgeLengths
    w: Any
    rtol: float


def random_graph(seed: int, *, largest: int = 30, directed: bool | None = None) -> SparseGraph:
    """Return a graph of some kind: a single item, no edges, ties, lengths 0, parts, directed …"""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, largest + 1))
    directed = bool(rng.integers(2)) if directed is None else directed
    u, v = rng.integers(n, size=(2, int(rng.integers(0, 4 * n + 1))))
    if rng.random() < 0.2 and n > 3:  # two parts without an edge between them
        u, v = u % (n // 2), v % (n // 2)
    edges = EdgeSet(n, u, v, directed=directed)
    dtype = (np.float32, np.float64)[rng.integers(2)]
    kind = rng.integers(3)
    values = rng.random((2, len(edges)))
    if kind == 1:  # ties and zeros
        values = np.round(3 * values)
    elif kind == 2:  # of very different sizes
        values = 10.0 ** (8 * values - 6)
    link = ("identity", "softplus")[rng.integers(2)]
    weights = [1.0, 0.5] if link == "identity" else [1.0, -0.5]
    stack = EdgeStack(edges, values.astype(dtype))
    lengths = EdgeLengths(stack, Mixture(weights, link=link))
    return SparseGraph(lengths, lengths.matrix(), 1e-5 if dtype == np.float32 else 1e-12)


def fresh(graph: SparseGraph) -> EdgeLengths:
    """Return the same lengths before anything is known of them."""
    return EdgeLengths(graph.lengths.stack, graph.lengths.mixture)


def arcs(w: Any, dtype: Any = np.float64) -> Any:
    """Return the finite entries of a matrix of lengths as arcs out of the items."""
    from metricmix.mixture.edge_lengths import SparseLengths

    there = np.isfinite(w) & ~np.eye(len(w), dtype=bool)
    indptr = np.append(0, np.cumsum(there.sum(axis=1)))
    return SparseLengths(indptr, np.nonzero(there)[1].astype(np.int32), w[there].astype(dtype))
