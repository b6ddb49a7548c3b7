"""Weighted graphs to cut: their pairs with weights that are not 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.relaxations.signed_graph import Neighbours, read_pairs

__all__ = ["WeightedGraph", "read_weighted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """Pairs of items and their weights.

    Attributes
    ----------
    nodes : (n,) array
        Ids.
    edges : Neighbours
        The pairs whose weight is not 0.
    ends : (m, 2) array
        Their items.
    weights : (m,) array
    """

    nodes: NDArray[Any]
    edges: Neighbours
    ends: Ints
    weights: Floats

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.nodes)

    def weight_between(self, labels: Ints) -> float:
        """Return the weight of the pairs whose items have different labels."""
        i, j = self.ends.T
        return float(self.weights[labels[i] != labels[j]].sum())


def read_weighted(graph: Any, nodes: Any) -> WeightedGraph:
    """Return the pairs that a graph lists; without weights they have 1.

    Raises
    ------
    InputError
        If the graph is not acceptable.
    """
    pairs = read_pairs(graph, nodes)
    weights = np.ones(len(pairs.sources)) if pairs.weights is None else pairs.weights
    listed = weights != 0.0
    ends = np.stack([pairs.sources[listed], pairs.targets[listed]], axis=1).astype(np.int32)
    edges = Neighbours.of(len(pairs.nodes), *ends.T)
    return WeightedGraph(pairs.nodes, edges, ends, weights[listed].astype(np.float64))
