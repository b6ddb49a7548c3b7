"""Graphs that relaxations take: signed graphs, weighted graphs, networks with demands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.graphs import EdgeList, Graph, read_edges
from metricmix.exceptions import InputError
from metricmix.relaxations.graph_search import Adjacency, PairWeights
from metricmix.typing import AnyArray, Floats, Ints
from metricmix.validation import check_choice, check_number, unmasked

__all__ = [
    "LARGEST",
    "SIGNS",
    "DemandNetwork",
    "SignedGraph",
    "WeightedGraph",
    "infer_signs",
    "jaccard_weights",
    "read_pairs",
    "read_signed_graph",
    "read_weighted_graph",
    "separation",
]


LARGEST = 1e100
"""Largest weight: sums and products of weights stay finite."""

SIGNS = ("auto", "given", "edges", "jaccard")
"""Rules that derive the weights of pairs from a graph."""


def separation(ends: Ints, labels: Ints) -> Floats:
    """Return 1 for the pairs (m, 2) whose items have different labels, and 0 for the others."""
    i, j = ends.T
    return np.where(labels[i] != labels[j], 1.0, 0.0)


# -- reading pairs ------------------------------------------------------------------------------


def read_pairs(graph: Any, nodes: Any) -> EdgeList:
    """Return the pairs of a graph, each once, sources > targets, sorted; self-loops are dropped.

    Raises
    ------
    InputError
        If two entries give a pair different weights, or a weight is not finite.
    """
    graph = unmasked(graph)
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
        graph = graph.tocsr()  # sums duplicate entries
    if np.iscomplexobj(graph):
        raise InputError(argument="graph", expected="real weights", found="complex ones")
    if isinstance(graph, np.ndarray) and graph.dtype.kind == "f" and not np.isfinite(graph).all():
        i, j = np.argwhere(~np.isfinite(graph))[0].tolist()
        raise InputError(
            argument="graph",
            expected="finite weights",
            found=f"{graph[i, j]} at ({i}, {j})",
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

        def between(e: int) -> str:
            return f"between {given.nodes[high[order[e]]]!s} and {given.nodes[low[order[e]]]!s}"

        finite = np.isfinite(weights)
        if not finite.all():
            e = int(finite.argmin())
            raise InputError(
                argument="graph", expected="finite weights", found=f"{weights[e]} {between(e)}"
            )
        largest = np.abs(weights).max(initial=0.0)
        if largest > LARGEST:
            raise InputError(
                argument="graph",
                expected=f"weights up to {LARGEST:g}",
                found=f"{largest:.6g}",
                remedy="take another unit",
            )
        differs = np.concatenate([[False], (keys[1:] == keys[:-1]) & (weights[1:] != weights[:-1])])
        if differs.any():
            e = int(differs.argmax())
            raise InputError(
                argument="graph",
                expected="one weight per pair",
                found=f"{weights[e - 1]:g} and {weights[e]:g} {between(e)}",
                remedy="symmetrise it, or add up parallel edges",
            )
        weights = weights[first]
    return EdgeList(given.nodes, high[order[first]], low[order[first]], weights, True)


# -- signed graphs ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SignedGraph:
    """Weights of all pairs: positive where items attract each other, negative where they repel.

    Attributes
    ----------
    nodes : (n,) array
        Ids.
    weights : PairWeights
        The weights of all pairs; those that are not listed have a weight <= 0.
    edges : Adjacency
        The pairs that attract each other.
    ends, attraction : (m, 2) and (m,) arrays
        Their items and their weights, > 0.
    """

    nodes: AnyArray
    weights: PairWeights
    edges: Adjacency
    ends: Ints
    attraction: Floats

    @classmethod
    def from_pairs(cls, pairs: EdgeList, default: float) -> SignedGraph:
        """Return a graph with the weights of the pairs (1 if there are none), else `default`."""
        n = len(pairs.nodes)
        i, j = pairs.sources.astype(np.int32), pairs.targets.astype(np.int32)
        values = np.ones(len(i)) if pairs.weights is None else pairs.weights
        attracting = values > 0
        ends = np.stack([i[attracting], j[attracting]], axis=1)
        return cls(
            nodes=pairs.nodes,
            weights=PairWeights(Adjacency.from_edges(n, i, j), values, default),
            edges=Adjacency.from_edges(n, *ends.T),
            ends=ends,
            attraction=values[attracting],
        )

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.nodes)


def read_signed_graph(graph: Any, nodes: Any, signs: str, resolution: float | None) -> SignedGraph:
    """Return the weights of pairs that a graph defines.

    Raises
    ------
    InputError
        If the graph is not valid, or `signs` does not fit its weights.
    """
    check_choice(signs, SIGNS, name="signs")
    pairs = read_pairs(graph, nodes)
    rule = infer_signs(pairs.weights) if signs == "auto" else signs
    if rule == "given":
        if pairs.weights is None:
            raise InputError(
                argument="graph",
                expected="weights with signs='given'",
                found="edges without weights",
            )
        if resolution is not None:
            raise InputError(
                argument="resolution",
                expected="None where the weights have signs of their own",
                found=f"{resolution!r}",
                remedy="it goes with signs='edges' or 'jaccard'",
            )
        return SignedGraph.from_pairs(pairs, 0.0)
    if rule == "jaccard":
        threshold = 0.05 if resolution is None else resolution
        threshold = check_number(threshold, name="resolution", low=0, high=1)
        return SignedGraph.from_pairs(*jaccard_weights(pairs, threshold))
    repulsion = check_number(1.0 if resolution is None else resolution, name="resolution", low=0)
    if pairs.weights is not None and pairs.weights.min(initial=0.0) < 0:
        raise InputError(
            argument="graph",
            expected="weights >= 0 with signs='edges'",
            found=f"{pairs.weights.min():g}",
            remedy="pass signs='given' if negative weights are meant to repel",
        )
    return SignedGraph.from_pairs(pairs, -repulsion)


def infer_signs(weights: Floats | None) -> str:
    """Return the rule for weights of pairs: "edges" if all are 1, "given" if some are negative.

    Raises
    ------
    InputError
        If neither holds.
    """
    if weights is None or (weights == 1).all():
        return "edges"
    if (weights < 0).any():
        return "given"
    raise InputError(
        argument="graph",
        expected="some negative weights, or all weights 1",
        found=f"{weights.min():g} .. {weights.max():g}",
        remedy=(
            "pass signs='edges' (pairs without an edge repel each other), 'jaccard' (so do pairs "
            "with few common neighbours) or 'given' (no pair does)"
        ),
    )


def jaccard_weights(pairs: EdgeList, threshold: float) -> tuple[EdgeList, float]:
    r"""Return the pairs with common neighbours and their weights, and the weight of all others.

    A pair with the Jaccard coefficient J of its neighbourhoods has the weight
    :math:`\log \frac{1 + J - \delta}{1 - J + \delta}`, with :math:`\delta` the threshold.
    """
    from scipy.sparse import csr_array, tril

    n = len(pairs.nodes)
    both = (np.r_[pairs.sources, pairs.targets], np.r_[pairs.targets, pairs.sources])
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
    return EdgeList(pairs.nodes, i, j, weights, True), default


# -- weighted graphs ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """Pairs of items and their weights.

    Attributes
    ----------
    nodes : (n,) array
        Ids.
    edges : Adjacency
        The pairs whose weight is not 0.
    ends : (m, 2) array
        Their items.
    weights : (m,) array
    """

    nodes: AnyArray
    edges: Adjacency
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


def read_weighted_graph(graph: Any, nodes: Any) -> WeightedGraph:
    """Return the pairs of a graph whose weight is not 0; edges without weights have 1.

    Raises
    ------
    InputError
        If the graph is not valid.
    """
    pairs = read_pairs(graph, nodes)
    weights = np.ones(len(pairs.sources)) if pairs.weights is None else pairs.weights
    listed = weights != 0.0
    ends = np.stack([pairs.sources[listed], pairs.targets[listed]], axis=1).astype(np.int32)
    edges = Adjacency.from_edges(len(pairs.nodes), *ends.T)
    return WeightedGraph(pairs.nodes, edges, ends, weights[listed].astype(np.float64))


# -- networks with demands ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DemandNetwork:
    r"""A graph with capacities and with demands :math:`\delta_i \delta_j` between all nodes.

    Capacities and demands are scaled to a mean of 1.

    Attributes
    ----------
    graph : WeightedGraph
        With the original capacities as weights, > 0.
    original_demand : (n,) array
    capacity, demand : (m,) and (n,) arrays
        Scaled.
    capacity_mean, demand_mean : float
        Means before scaling.
    component : (n,) array
        The connected component of every node.
    """

    graph: WeightedGraph
    original_demand: Floats
    capacity: Floats
    demand: Floats
    capacity_mean: float
    demand_mean: float
    component: Ints

    @classmethod
    def from_graph(cls, graph: WeightedGraph, demand: Floats) -> DemandNetwork:
        """Return the network of a graph whose weights are capacities > 0."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        pairs = (np.ones(len(graph.weights)), tuple(graph.ends.T))
        matrix: Any = coo_array(pairs, shape=(graph.n, graph.n))
        component = connected_components(matrix, directed=False)[1]
        mean = float(graph.weights.mean()) if len(graph.weights) else 1.0
        size = float(demand.mean())
        return cls(graph, demand, graph.weights / mean, demand / size, mean, size, component)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.graph.n

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.capacity)

    @property
    def nodes(self) -> AnyArray:
        """Ids of the nodes."""
        return self.graph.nodes

    @property
    def ends(self) -> Ints:
        """Both ends of each edge."""
        return self.graph.ends

    @property
    def unit(self) -> float:
        """The ratio of a cut before scaling, over that after it."""
        return self.capacity_mean / self.demand_mean**2

    @property
    def is_connected(self) -> bool:
        """Whether there is a path between any two nodes."""
        return bool(self.component.max() == 0)

    def mean_path_edges(self) -> float:
        """Return the mean number of edges of the shortest paths from the first node."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import shortest_path

        edges = (np.ones(2 * self.m), self.graph.edges.ends, self.graph.edges.starts)
        matrix = csr_array(edges, shape=(self.n, self.n))
        return float(shortest_path(matrix, unweighted=True, indices=[0]).mean())

    def cut_ratio(self, labels: Ints) -> float:
        """Return the capacity cut over the product of the demands on both sides, unscaled."""
        one, other = (float(self.demand[labels == side].sum()) for side in (0, 1))
        return self.graph.weight_between(labels) / (one * other * self.demand_mean**2)
