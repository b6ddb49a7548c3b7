"""Signed graphs: which pairs attract each other, which repel, and how strongly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.graphs import EdgeList, Graph, read_edges
from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_choice, check_number

__all__ = [
    "SIGNS",
    "Neighbours",
    "SignedGraph",
    "WeightedGraph",
    "read_pairs",
    "read_signed",
    "read_weighted",
]


LARGEST = 1e100
"""Weights that can be added up and multiplied."""

SIGNS = ("auto", "given", "edges", "jaccard")
"""Rules that make weights of pairs out of a graph."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Pairs of items by item: i stands beside ``ends[starts[i]:starts[i + 1]]``, over `pairs`."""

    starts: Indices
    ends: Ints
    pairs: Ints

    @classmethod
    def of(cls, n: int, i: Ints, j: Ints) -> Neighbours:
        """Return the two sides of pairs (i, j), which are numbered in this order."""
        from scipy.sparse import coo_array

        numbers = np.arange(1, len(i) + 1, dtype=np.int32)  # scipy drops no entry that is not 0
        both = (np.concatenate([i, j]), np.concatenate([j, i]))
        matrix = coo_array((np.concatenate([numbers, numbers]), both), shape=(n, n)).tocsr()
        matrix.sort_indices()
        ends = matrix.indices.astype(np.int32, copy=False)
        return cls(matrix.indptr.astype(np.int64), ends, matrix.data - np.int32(1))

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, eq=False)
class SignedGraph:
    """Weights w_ij of pairs, positive where items attract each other and negative where they repel.

    Attributes
    ----------
    nodes : (n,) array
        Ids.
    listed : Neighbours
        The pairs whose weight is listed.
    weights : (pairs,) array
        Their weights.
    default : float
        The weight, <= 0, of all other pairs.
    edges : Neighbours
        The pairs that attract each other.
    attraction : (m,) array
        Their weights, > 0.
    ends : (m, 2) array
        Their items.
    """

    nodes: NDArray[Any]
    listed: Neighbours
    weights: Floats
    default: float
    edges: Neighbours
    attraction: Floats
    ends: Ints

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.nodes)


def read_signed(graph: Any, nodes: Any, signs: str, resolution: float | None) -> SignedGraph:
    """Return the weights of pairs that a graph stands for.

    Raises
    ------
    InputError
        If the graph is not acceptable, or says nothing about signs.
    """
    check_choice(signs, SIGNS, name="signs")
    edges = read_pairs(graph, nodes)
    rule = _rule_for(edges, signs)
    if rule == "given":
        if resolution is not None:
            raise InputError(
                argument="resolution",
                expected="None where the weights have signs of their own",
                found=f"{resolution!r}",
                remedy="it goes with signs='edges' or 'jaccard'",
            )
        return _built(edges, edges.weights, 0.0)
    if rule == "jaccard":
        threshold = 0.05 if resolution is None else resolution
        return _by_jaccard(edges, check_number(threshold, name="resolution", low=0, high=1))
    repulsion = check_number(1.0 if resolution is None else resolution, name="resolution", low=0)
    weights = edges.weights
    if weights is not None and weights.min(initial=0.0) < 0:
        raise InputError(
            argument="graph",
            expected=f"weights >= 0 with signs='edges', found {weights.min():g}",
            remedy="pass signs='given' if negative weights are meant to repel",
        )
    return _built(edges, weights, -repulsion)


def read_pairs(graph: Any, nodes: Any) -> EdgeList:
    """Return every pair that a graph lists once, sources > targets, in order.

    Raises
    ------
    InputError
        If two entries give a pair different weights, or a weight is not finite.
    """
    if isinstance(graph, Graph):
        if graph.weighted:
            raise InputError(
                argument="graph",
                expected="weights that say how close two items are",
                found="a Graph, which holds lengths",
                remedy="pass the weights themselves",
            )
        graph, nodes = graph.adjacency, graph.nodes if nodes is None else nodes
    if hasattr(graph, "tocsr"):
        graph = graph.tocsr()  # which adds up what is listed twice
    if np.iscomplexobj(graph):
        raise InputError(argument="graph", expected="real weights, found complex ones")
    if isinstance(graph, np.ndarray) and graph.dtype.kind == "f" and not np.isfinite(graph).all():
        i, j = np.argwhere(~np.isfinite(graph))[0].tolist()
        raise InputError(
            argument="graph",
            expected=f"finite weights, found {graph[i, j]} at ({i}, {j})",
            remedy="0 is no edge",
        )
    given = read_edges(graph, nodes, None)
    apart = given.sources != given.targets
    high = np.maximum(given.sources, given.targets)[apart]
    low = np.minimum(given.sources, given.targets)[apart]
    keys = high * len(given.nodes) + low
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    weights = None
    if given.weights is not None:
        weights = given.weights[apart][order]
        if not np.isfinite(weights).all():
            e = int(np.argmin(np.isfinite(weights)))
            raise InputError(
                argument="graph",
                expected=(
                    f"finite weights, found {weights[e]} between "
                    f"{given.nodes[high[order[e]]]!s} and {given.nodes[low[order[e]]]!s}"
                ),
            )
        if np.abs(weights).max(initial=0.0) > LARGEST:
            raise InputError(
                argument="graph",
                expected=f"weights up to {LARGEST:g}, found {np.abs(weights).max():.6g}",
                remedy="take another unit",
            )
        again = np.concatenate([[False], (keys[1:] == keys[:-1]) & (weights[1:] != weights[:-1])])
        if again.any():
            e = int(again.argmax())
            raise InputError(
                argument="graph",
                expected=(
                    f"one weight per pair, found {weights[e - 1]:g} and {weights[e]:g} "
                    f"between {given.nodes[high[order[e]]]!s} and "
                    f"{given.nodes[low[order[e]]]!s}"
                ),
                remedy="symmetrise it, or add up parallel edges",
            )
        weights = weights[first]
    return EdgeList(given.nodes, high[order[first]], low[order[first]], weights, True)


def _rule_for(edges: EdgeList, signs: str) -> str:
    """Return the rule that `signs` stands for; "auto" looks at the weights."""
    weights = edges.weights
    if signs == "given" and weights is None:
        raise InputError(
            argument="graph", expected="weights with signs='given', found edges without any"
        )
    if signs != "auto":
        return signs
    if weights is None or (weights == 1).all():
        return "edges"
    if (weights < 0).any():
        return "given"
    raise InputError(
        argument="graph",
        expected=(f"negative weights or none but 1, found {weights.min():g} .. {weights.max():g}"),
        remedy=(
            "pass signs='edges' (pairs that are not joined repel each other), "
            "'jaccard' (so do those with few neighbours in common) or 'given' "
            "(no pair does)"
        ),
    )


def _by_jaccard(edges: EdgeList, threshold: float) -> SignedGraph:
    """Return a graph whose weights are made of Jaccard coefficients of neighbourhoods."""
    from scipy.sparse import csr_array, tril

    n = len(edges.nodes)
    both = (np.r_[edges.sources, edges.targets], np.r_[edges.targets, edges.sources])
    joined = csr_array((np.ones(len(both[0])), both), shape=(n, n))
    degree = np.diff(joined.indptr)
    common = tril(joined @ joined, -1).tocoo()
    i, j = common.row.astype(np.int64), common.col.astype(np.int64)
    alike = common.data / (degree[i] + degree[j] - common.data)
    weights = np.log((1.0 + alike - threshold) / (1.0 - alike + threshold))
    default = float(np.log((1.0 - threshold) / (1.0 + threshold))) if threshold < 1 else -np.inf
    if not np.isfinite(default) or not np.isfinite(weights).all():
        raise InputError(
            argument="resolution",
            expected="a Jaccard coefficient > 0 and < 1",
            found=f"{threshold!r}",
        )
    return _built(EdgeList(edges.nodes, i, j, weights, True), weights, default)


def _built(edges: EdgeList, weights: Floats | None, default: float) -> SignedGraph:
    n = len(edges.nodes)
    i, j = edges.sources.astype(np.int32), edges.targets.astype(np.int32)
    values = np.ones(len(i)) if weights is None else weights
    attracting = values > 0
    ends = np.stack([i[attracting], j[attracting]], axis=1)
    return SignedGraph(
        nodes=edges.nodes,
        listed=Neighbours.of(n, i, j),
        weights=values,
        default=default,
        edges=Neighbours.of(n, *ends.T),
        attraction=values[attracting],
        ends=ends,
    )


# -- weighted graphs to cut: their pairs with weights that are not 0 ----------------------------


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
