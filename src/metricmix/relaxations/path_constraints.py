r"""The path constraints of correlation clustering, found by shortest paths and added as needed.

Edges between attracting pairs have lengths :math:`x_e \in [0, 1]`, and a repelling pair (i, j) a
slack :math:`y_{ij} \ge 0` that it pays for. The constraints are

.. math:: y_{ij} + \sum_{e \in \text{path}} x_e \ge 1 \qquad \text{for every path from i to j.}

Each search starts at one node and goes no farther than 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.heap import Ball, clear, empty_ball, reach, settle
from metricmix.kernels.threads import ThreadPool, row_ranges
from metricmix.memory import check_room
from metricmix.relaxations.graph_search import (
    PARTS,
    SLICE,
    Adjacency,
    PairWeights,
    doubled,
    hash_integer,
    in_slices,
    search_around,
    with_lengths,
)
from metricmix.relaxations.primal_dual import LinearProgram
from metricmix.relaxations.weighted_graphs import SignedGraph
from metricmix.typing import Floats, Indices, Ints, Keys

__all__ = [
    "PathProgram",
    "PathSearch",
    "Slacks",
    "ViolatedPaths",
    "find_violated_paths",
    "fractional_cost",
    "paths_per_pair",
    "truncated_distances",
]


MAX_PATHS, MAX_ROWS = 8, 4_000_000
"""Paths per pair at the start; fewer where these would be more rows than the second number."""


# -- kernels ------------------------------------------------------------------------------------


class Slacks(NamedTuple):
    """The pairs (i, j) that have a slack variable, and its value; all others have 0."""

    pairs: Adjacency
    values: Floats


class PathSearch(NamedTuple):
    """Settings of :func:`find_violated_paths`.

    Attributes
    ----------
    tolerance : float
        Return constraints that are violated by more than this.
    capacity : (m,) array
        Weights of the edges.
    penalty : float
        Added to the length of each edge of a path found, times the weight of the pair over the
        capacity of the edge (at most 1): paths spread over all edges, and searches from the same
        node find different ones.
    repeats : int
        Searches from every node.
    """

    tolerance: float
    capacity: Floats
    penalty: float
    repeats: int


class PenalisedLengths(NamedTuple):
    """A graph with lengths x + `extra`; `by` and `length` receive edges and lengths x of paths."""

    graph: Adjacency
    x: Floats
    extra: Floats
    by: Ints
    length: Floats


@kernel_step
def read_penalised(lengths: PenalisedLengths, u: int, radius: float, ball: Ball) -> None:
    """Reach nodes over the edges of u, just settled."""
    graph, x, length, dist = lengths.graph, lengths.x, lengths.length, ball.dist
    for t in range(graph.starts[u], graph.starts[u + 1]):
        v, e = graph.ends[t], graph.edges[t]
        reached = dist[u] + x[e] + lengths.extra[e]
        if reached < dist[v] and reached < radius:
            lengths.by[v], length[v] = e, length[u] + x[e]
            reach(v, reached, u, ball)


@kernel
def find_violated_paths(
    low: int,
    high: int,
    graph: Adjacency,
    x: Floats,
    extra: Floats,
    weights: PairWeights,
    slacks: Slacks,
    search: PathSearch,
    budget: int,
) -> tuple[Ints, Ints, Ints, Floats, Keys, float, int]:
    """Return violated path constraints from low <= i < high to j < i.

    The paths are shortest ones for the lengths x + `extra`; the penalties are added to `extra`. A
    search does not continue from the end of a violated path: no path returned is the beginning of
    another one, as the longer constraint is often satisfied once the shorter one is.

    Returns
    -------
    pairs : (2 T,) array
        i and j of every path.
    counts, path : (T,) and (sum of counts,) arrays
        The edges of every path, one path after another.
    costs : (T,) array
        Minus the weights of the pairs.
    keys : (T,) array
        A hash of every path.
    worst : float
        The largest violation.
    stop : int
        The node to go on from: `high`, or an earlier one if the searches reached more than `budget`
        nodes.
    """
    n = graph.starts.shape[0] - 1
    listed, default, known = weights.listed, weights.default, slacks.pairs
    row, slack, ball = np.full(n, default), np.zeros(n), empty_ball(n)
    lengths = PenalisedLengths(graph, x, extra, np.empty(n, np.int32), np.empty(n))
    before, by, length = ball.pred, lengths.by, lengths.length
    pairs, counts, path = np.empty(512, np.int32), np.empty(256, np.int32), np.empty(1024, np.int32)
    costs, keys = np.empty(256), np.empty(256, np.uint64)
    found, used, worst, nodes, stop = 0, 0, 0.0, 0, high
    for turn in range((high - low) * search.repeats):
        i = low + turn // search.repeats
        if nodes > budget and turn % search.repeats == 0:
            stop = i
            break
        for t in range(listed.starts[i], listed.starts[i + 1]):
            row[listed.ends[t]] = weights.values[listed.edges[t]]
        for t in range(known.starts[i], known.starts[i + 1]):
            slack[known.ends[t]] = slacks.values[known.edges[t]]
        length[i] = 0.0
        reach(i, 0.0, i, ball)
        while ball.counts[0] > 0:
            u: int = settle(ball)
            violation = 1.0 - length[u] - slack[u]
            if u != i and row[u] < 0.0 and violation > 0.0:
                worst = violation if violation > worst else worst
                if violation > search.tolerance:
                    if u < i:
                        steps, v = 0, u
                        while v != i:
                            steps += 1
                            v = before[v]
                        if found == counts.shape[0]:
                            pairs, counts = doubled(pairs), doubled(counts)
                            costs, keys = doubled(costs), doubled(keys)
                        while used + steps > path.shape[0]:
                            path = doubled(path)
                        pairs[2 * found], pairs[2 * found + 1], counts[found] = i, u, steps
                        key, v = hash_integer(i * n + u), u
                        while v != i:
                            path[used] = by[v]
                            share = -row[u] / search.capacity[by[v]]
                            extra[by[v]] += (
                                search.penalty * share if share < 1.0 else search.penalty
                            )
                            key += hash_integer(-1 - by[v])
                            used += 1
                            v = before[v]
                        costs[found], keys[found] = -row[u], key
                        found += 1
                    continue
            read_penalised(lengths, u, 1.0, ball)
        nodes += ball.counts[1]
        clear(ball)
        for t in range(listed.starts[i], listed.starts[i + 1]):
            row[listed.ends[t]] = default
        for t in range(known.starts[i], known.starts[i + 1]):
            slack[known.ends[t]] = 0.0
    pairs, counts, path = pairs[: 2 * found], counts[:found], path[:used]
    return pairs, counts, path, costs[:found], keys[:found], worst, stop


@kernel
def fractional_cost(
    low: int,
    high: int,
    graph: Adjacency,
    x: Floats,
    weights: PairWeights,
    total: float,
    budget: int,
) -> tuple[float, int]:
    """Add the cost of the distances d of lengths x, over pairs low <= i < high and j < i.

    That is w_ij min(1, d_ij) where w_ij > 0, and -w_ij max(0, 1 - d_ij) elsewhere. Only terms >= 0
    are added up: a small cost keeps its digits beside large weights that cost nothing.

    Return the total, and the node to go on from: `high`, or an earlier one if the searches reached
    more than `budget` nodes.
    """
    n = graph.starts.shape[0] - 1
    listed, row = weights.listed, np.full(n, weights.default)
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    nodes = 0
    for i in range(low, high):
        if nodes > budget:
            return total, i
        count = search_around(i, lengths, 1.0, ball)
        nodes += count
        for t in range(listed.starts[i], listed.starts[i + 1]):
            j, w = listed.ends[t], weights.values[listed.edges[t]]
            row[j] = w
            if j < i:
                total += max(0.0, w) * min(1.0, ball.dist[j])
        for t in range(count):
            j = ball.order[t]
            if j < i:
                total += max(0.0, -row[j]) * (1.0 - ball.dist[j])
        clear(ball)
        for t in range(listed.starts[i], listed.starts[i + 1]):
            row[listed.ends[t]] = weights.default
    return total, high


@kernel
def truncated_distances(low: int, high: int, graph: Adjacency, x: Floats, out: Floats) -> None:
    """Write min(1, d_ij) into rows low .. high - 1 of a matrix, up to the diagonal."""
    n = graph.starts.shape[0] - 1
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    for i in range(low, high):
        count = search_around(i, lengths, 1.0, ball)
        for j in range(i):
            out[i, j] = 1.0
        out[i, i] = 0.0
        for t in range(count):
            j = ball.order[t]
            if j < i:
                out[i, j] = ball.dist[j]
        clear(ball)


# -- the linear program -------------------------------------------------------------------------


def paths_per_pair(graph: SignedGraph) -> int:
    """Return how many paths to look for between every pair at the start.

    Raises
    ------
    TooLargeError
        If the linear program would not fit into memory.
    """
    m, degree = len(graph.attraction), np.diff(graph.edges.starts).astype(float)
    wedges = float(np.sum(degree * (degree - 1)) / 2)
    pairs = min(wedges, 0.5 * graph.n * (graph.n - 1) - m)
    repeats = int(np.clip(MAX_ROWS / max(pairs, 1.0), 1, MAX_PATHS))
    bytes_each = 200  # memory per row and per column, measured
    check_room(
        bytes_each * (m + pairs + min(wedges, repeats * pairs)) + 24 * len(graph.weights.values),
        what=f"a graph of {m} attracting pairs and {wedges:.3g} paths of two of them",
        instead="leave out edges, or items of very many edges",
    )
    return repeats


@dataclass(frozen=True)
class ViolatedPaths:
    """Paths whose constraints are violated; see :func:`find_violated_paths`."""

    pairs: Ints
    counts: Ints
    path: Ints
    costs: Floats
    keys: Keys
    worst: float


class PathProgram(LinearProgram):
    """The linear program: a column per attracting pair, then one per pair with a slack.

    Attributes
    ----------
    graph : SignedGraph
    m : int
        Number of attracting pairs.
    pairs : (columns - m, 2) array
        The repelling pairs that have a column, i > j.
    """

    def __init__(self, graph: SignedGraph) -> None:
        super().__init__(graph.attraction)
        self.graph, self.m = graph, len(graph.attraction)
        self.pairs = np.empty((0, 2), np.int32)
        self._known = Adjacency.from_edges(graph.n, *self.pairs.T)

    def search(
        self,
        v: Floats,
        extra: Floats,
        pool: ThreadPool,
        *,
        tolerance: float,
        penalty: float,
        repeats: int,
    ) -> ViolatedPaths:
        """Return paths whose constraints v violates by more than the tolerance.

        Parameters
        ----------
        v : (columns,) array
            Lengths and slacks.
        extra : (m,) array
            Added to the lengths in the search.
        pool : ThreadPool
        tolerance : float
        penalty : float
            As a multiple of 0.02; see :class:`PathSearch`.
        repeats : int
            Searches from every node.
        """
        graph, x = self.graph, v[: self.m]
        slacks = Slacks(self._known, v[self.m :])
        options = PathSearch(tolerance, graph.attraction, 0.02 * penalty, repeats)

        def search_from(low: int, high: int) -> list[Any]:
            arrays = graph.edges, x, extra.copy(), graph.weights, slacks, options
            return in_slices(lambda i: find_violated_paths(i, high, *arrays, SLICE), low, high)

        parts = pool.run(lambda r: search_from(*r), row_ranges(graph.n, 1, PARTS))
        *lists, worst = zip(*chain.from_iterable(parts), strict=True)
        pairs, counts, path, costs, keys = (np.concatenate(list(parts)) for parts in lists)
        return ViolatedPaths(pairs, counts, path, costs, keys, max(worst))

    def add_paths(self, found: ViolatedPaths, x: Floats) -> tuple[int, Floats]:
        """Add the constraints of new paths, and the columns of their pairs.

        Return the number of rows added, and the values for the new columns that satisfy these rows
        at the lengths x.
        """
        chosen = self.new_rows(found.keys)
        counts = found.counts[chosen].astype(np.int64)
        first = np.cumsum(found.counts)[chosen] - counts
        begin = np.cumsum(counts) - counts
        edges = found.path[np.arange(counts.sum()) + np.repeat(first - begin, counts)]
        pairs = found.pairs.reshape(-1, 2)[chosen]
        columns, new = self.columns_of(pairs)
        starts = np.concatenate([[0], np.cumsum(counts + 1)])
        terms = np.empty(starts[-1], np.int32)
        last = starts[1:] - 1
        inner = np.ones(len(terms), bool)
        inner[last] = False
        terms[inner], terms[last] = edges, self.m + columns
        fresh = columns - len(self.pairs)
        costs, lacking = np.empty(new), np.zeros(new)
        if len(chosen):
            costs[fresh[fresh >= 0]] = found.costs[chosen][fresh >= 0]
            lengths = np.add.reduceat(x[edges], starts[:-1] - np.arange(len(chosen)))
            np.maximum.at(lacking, fresh[fresh >= 0], 1.0 - lengths[fresh >= 0])
            self.add(costs, starts, terms, found.keys[chosen])
        if new:
            last_rows = np.unique(fresh, return_index=True)[1][-new:]
            self.pairs = np.concatenate([self.pairs, pairs[last_rows]])
            self._known = Adjacency.from_edges(self.graph.n, *self.pairs.T)
        return len(chosen), np.clip(lacking, 0.0, 1.0)

    def columns_of(self, pairs: Ints) -> tuple[Indices, int]:
        """Return the column of each pair, counted from m, and the number of new columns."""
        n, count = self.graph.n, len(self.pairs)
        keys = np.concatenate([self.pairs, pairs])
        keys = keys[:, 0].astype(np.int64) * n + keys[:, 1]
        found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        number = np.empty(len(found), np.int64)
        order = np.argsort(first)  # existing columns come first, in their order
        number[order] = np.arange(len(found))
        return number[inverse[count:]], len(found) - count
