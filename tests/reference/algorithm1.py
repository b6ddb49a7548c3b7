"""The paper's Algorithm 1, line by line."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np


def algorithm_1(metrics, y, start, step, rho, pairs):
    """Return the weights after one step per pair (i, j) of `pairs`."""
    D = len(y)
    alpha = np.array(start, dtype=float)
    for i, j in pairs:
        m = sum(a * M for a, M in zip(alpha, metrics, strict=True))
        graph = nx.DiGraph(nx.from_numpy_array(np.ones((D, D)) - np.eye(D)))
        for u, v in graph.edges:
            graph.edges[u, v]["weight"] = np.log(1 + np.exp(m[u, v]))
        path = nx.dijkstra_path(graph, i, j)
        sign = -1 if y[i] != y[j] else 1
        grad = np.zeros(len(alpha))
        for r in range(len(alpha)):
            for u, v in pairwise(path):
                grad[r] += D**-2 * sign * metrics[r][u, v] / (1 + np.exp(-m[u, v]))
        alpha = alpha - step * (grad + 2 * D**-2 * rho * alpha)
    return alpha
