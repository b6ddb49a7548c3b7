r"""Shortest-path searches over sparse graphs, compiled.

A graph has n nodes and m edges with lengths :math:`x_e \ge 0`. Searches start at one node and cost
:math:`O(k \log k)` for the k edges that they reach; their work arrays are allocated once for many
searches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.deadline import check_time
from metricmix.kernels.heap import Ball, reach, search
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "PARTS",
    "SLICE",
    "Adjacency",
    "Lengths",
    "PairWeights",
    "doubled",
    "hash_integer",
    "in_slices",
    "read_edges",
    "search_around",
    "with_lengths",
]


PARTS = 64
"""Ranges of start nodes that threads share; fixed, so that no result depends on their number."""

SLICE = 1 << 17
"""Nodes that the searches of one kernel call reach, about: a tenth of a second."""


def in_slices(search: Callable[[int], tuple[Any, ...]], low: int, high: int) -> list[Any]:
    """Call ``search(low)`` for results and the number to go on from, and so on up to `high`.

    The clock is read before every call. Returns the results of all calls, without the numbers.
    """
    results = []
    while True:
        check_time()
        *result, low = search(low)
        results.append(result)
        if low >= high:
            return results


class Adjacency(NamedTuple):
    """The edges at every node, in CSR form.

    Attributes
    ----------
    starts : (n + 1,) array
        Node i has the entries ``starts[i]`` to ``starts[i + 1] - 1`` of the other arrays.
    ends, edges : (2 m,) arrays
        The neighbour, and the number of the edge to it.
    """

    starts: Indices
    ends: Ints
    edges: Ints

    @classmethod
    def from_edges(cls, n: int, i: Ints, j: Ints) -> Adjacency:
        """Return the adjacency of the edges (i, j), numbered in this order."""
        from scipy.sparse import coo_array

        numbers = np.arange(1, len(i) + 1, dtype=np.int32)  # from 1: scipy may drop zeros
        both = (np.concatenate([i, j]), np.concatenate([j, i]))
        matrix = coo_array((np.concatenate([numbers, numbers]), both), shape=(n, n)).tocsr()
        matrix.sort_indices()
        ends = matrix.indices.astype(np.int32, copy=False)
        return cls(matrix.indptr.astype(np.int64), ends, matrix.data - np.int32(1))


class PairWeights(NamedTuple):
    """Weights of all pairs of nodes: some are listed, all others have the same weight.

    Attributes
    ----------
    listed : Adjacency
        The listed pairs.
    values : (pairs,) array
        Their weights.
    default : float
        The weight of all other pairs.
    """

    listed: Adjacency
    values: Floats
    default: float


class Lengths(NamedTuple):
    """A graph with a length for every edge; `by` receives the edge that each node is reached by."""

    starts: Indices
    ends: Ints
    edges: Ints
    x: Floats
    by: Ints


@kernel
def with_lengths(graph: Adjacency, x: Floats) -> Lengths:
    """Return a graph with lengths x, for :func:`search_around`."""
    by = np.empty(graph.starts.shape[0] - 1, np.int32)
    return Lengths(graph.starts, graph.ends, graph.edges, x, by)


@kernel_step
def read_edges(graph: Lengths, u: int, radius: float, ball: Ball) -> None:
    """Reach nodes over the edges of u, just settled."""
    dist, du = ball.dist, ball.dist[u]
    for t in range(graph.starts[u], graph.starts[u + 1]):
        v = graph.ends[t]
        reached = du + graph.x[graph.edges[t]]
        if reached < dist[v] and reached < radius:
            graph.by[v] = graph.edges[t]
            reach(v, reached, u, ball)


@kernel
def search_around(i: int, graph: Lengths, radius: float, ball: Ball) -> int:
    """Find the nodes nearer to i than the radius, in order of distance; return their number.

    `ball.pred` and `graph.by` receive the node before each node on its shortest path, and the edge
    between them. The caller clears the ball.
    """
    reach(i, 0.0, i, ball)
    search(read_edges, graph, ball.order.shape[0], radius, ball)
    return int(ball.counts[1])


@kernel
def doubled(array: AnyArray) -> AnyArray:
    """Return a copy of a 1-d array with twice the length; the second half is not initialised."""
    more = np.empty(2 * array.shape[0], array.dtype)
    more[: array.shape[0]] = array
    return more


@kernel
def hash_integer(number: int) -> np.uint64:
    """Return a 64-bit hash of an integer (splitmix64); sums of hashes identify sets."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
