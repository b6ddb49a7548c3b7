"""The paths that carry the flow between all pairs of nodes: found, kept, and loaded, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import clear, empty_ball
from metricmix.relaxations.graph_search import Adjacency, doubled, search_around, with_lengths
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "Paths",
    "add_loads",
    "add_paths",
    "find_shorter_paths",
    "path_scales",
    "split_evenly",
]


class Paths(NamedTuple):
    """The paths of the pairs (i, j), low <= i < high and j < i, pair by pair.

    Attributes
    ----------
    low, high : int
    first : (pairs + 1,) array
        Pair p has the paths ``first[p]`` to ``first[p + 1] - 1``.
    starts, edges : (paths + 1,) and (sum of sizes,) arrays
        Path r has the edges ``edges[starts[r]:starts[r + 1]]``.
    """

    low: int
    high: int
    first: Indices
    starts: Indices
    edges: Ints

    @classmethod
    def empty(cls, low: int, high: int) -> Paths:
        """Return pairs without any path."""
        pairs = (high * (high - 1) - low * (low - 1)) // 2
        first, starts = np.zeros(pairs + 1, np.int64), np.zeros(1, np.int64)
        return cls(low, high, first, starts, np.empty(0, np.int32))


@kernel
def find_shorter_paths(
    paths: Paths,
    low: int,
    high: int,
    graph: Adjacency,
    x: Floats,
    demand: Floats,
    tolerance: float,
    closed: Floats,
    total: float,
) -> tuple[Indices, Ints, Ints, float]:
    """Return the shortest paths of pairs (i, j), low <= i < high, whose paths are all longer.

    They must be shorter by more than the share `tolerance`. `closed` receives the distance between
    the ends of each edge (i, j), low <= i < high and j < i.

    Returns
    -------
    pairs : (T,) array
        The pair of every new path, ascending.
    counts, found : (T,) and (sum of counts,) arrays
        The edges of every new path.
    total : float
        The given total plus the sum of demand times distance over all these pairs.
    """
    n = graph.starts.shape[0] - 1
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    pairs, counts = np.empty(256, np.int64), np.empty(256, np.int32)
    found = np.empty(1024, np.int32)
    count, used = 0, 0
    p = (low * (low - 1) - paths.low * (paths.low - 1)) // 2
    for i in range(low, high):
        search_around(i, lengths, np.inf, ball)
        for t in range(graph.starts[i], graph.starts[i + 1]):
            if graph.ends[t] < i:
                closed[graph.edges[t]] = ball.dist[graph.ends[t]]
        row = 0.0
        for j in range(i):
            row += demand[j] * ball.dist[j]
            best = np.inf
            for r in range(paths.first[p], paths.first[p + 1]):
                length = 0.0
                for t in range(paths.starts[r], paths.starts[r + 1]):
                    length += x[paths.edges[t]]
                best = min(best, length)
            if ball.dist[j] < best * (1.0 - tolerance):
                hops, v = 0, j
                while v != i:
                    hops += 1
                    v = ball.pred[v]
                if count == counts.shape[0]:
                    pairs, counts = doubled(pairs), doubled(counts)
                while used + hops > found.shape[0]:
                    found = doubled(found)
                pairs[count], counts[count] = p, hops
                count += 1
                v = j
                while v != i:
                    found[used] = lengths.by[v]
                    used += 1
                    v = ball.pred[v]
            p += 1
        clear(ball)
        total += demand[i] * row
    return pairs[:count], counts[:count], found[:used], total


@kernel
def add_paths(
    paths: Paths, flow: Floats, pairs: Indices, counts: Ints, found: Ints
) -> tuple[Indices, Indices, Ints, Floats]:
    """Return `first`, `starts`, `edges` and the flow with new paths, each the last of its pair.

    `flow` has a column per path. New columns are 0; old paths whose column is 0 are dropped.
    """
    kept, size = pairs.shape[0], found.shape[0]
    for r in range(flow.shape[1]):
        if flow[:, r].any():
            kept += 1
            size += paths.starts[r + 1] - paths.starts[r]
    first, starts = np.zeros_like(paths.first), np.zeros(kept + 1, np.int64)
    edges, new_flow = np.empty(size, np.int32), np.zeros((flow.shape[0], kept))
    count, used, k, at = 0, 0, 0, 0
    for p in range(first.shape[0] - 1):
        for r in range(paths.first[p], paths.first[p + 1]):
            if not flow[:, r].any():
                continue
            for t in range(paths.starts[r], paths.starts[r + 1]):
                edges[used] = paths.edges[t]
                used += 1
            new_flow[:, count] = flow[:, r]
            count += 1
            starts[count] = used
        if k < pairs.shape[0] and pairs[k] == p:
            for _ in range(counts[k]):
                edges[used] = found[at]
                used += 1
                at += 1
            k += 1
            count += 1
            starts[count] = used
        first[p + 1] = count
    return first, starts, edges, new_flow


@kernel
def add_loads(paths: Paths, z: Floats, loads: Floats) -> None:
    """Add the flow z of every path to the loads of its edges."""
    for r in range(z.shape[0]):
        if z[r] != 0.0:
            for t in range(paths.starts[r], paths.starts[r + 1]):
                loads[paths.edges[t]] += z[r]


@kernel
def split_evenly(paths: Paths, demand: Floats, z: Floats) -> None:
    """Write the flow that splits the demand of each pair evenly over its paths."""
    p = 0
    for i in range(paths.low, paths.high):
        for j in range(i):
            first, last = paths.first[p], paths.first[p + 1]
            for r in range(first, last):
                z[r] = demand[i] * demand[j] / (last - first)
            p += 1


@kernel
def path_scales(paths: Paths, demand: Floats, z: Floats, amounts: Floats, scales: Floats) -> float:
    """Write D_p and h_p / D_p for every path; return the least share of its demand a pair sends."""
    least, p = 1.0, 0
    for i in range(paths.low, paths.high):
        for j in range(i):
            amount, hops, sent = demand[i] * demand[j], 0, 0.0
            for r in range(paths.first[p], paths.first[p + 1]):
                hops = max(hops, paths.starts[r + 1] - paths.starts[r])
                sent += z[r]
            for r in range(paths.first[p], paths.first[p + 1]):
                amounts[r], scales[r] = amount, hops / amount
            least = min(least, sent / amount)
            p += 1
    return least
