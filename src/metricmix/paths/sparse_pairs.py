r"""Shortest paths over a sparse edge set that explore a ball around one item, or two.

.. math:: d_{ij} = \min_{\gamma : i \to j} \sum_{(u,v) \in \gamma} w_{uv}

Dijkstra's algorithm with a heap, from one item or from both ends of a pair. A search costs what it
explores, whatever n is: its arrays are reset where it has been, and reused; and the lengths of
edges are computed as they are met, if those of all edges are not known yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.heap import Ball, clear, empty_ball, reach, search, settle
from metricmix.kernels.mixing import length_of
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "ArcLengths",
    "Ball",
    "arc_length",
    "arcs_of",
    "find_sparse_paths",
    "grow_ball",
    "meet",
    "nearest_items",
    "read_mixed",
    "use_balls",
]


class ArcLengths(NamedTuple):
    """The arcs out of every item, or into it, with their lengths or with what these are made of.

    Attributes
    ----------
    indptr, ends : (n + 1,) and (A,) arrays
    formed : bool
        Whether ``values[0, a]`` is the length of arc a. Else arc a belongs to edge ``edge[a]``, and
        ``values`` (R, E) holds the sources.
    values : (1, A) or (R, E) array
    edge : (A,) array, or empty if formed
    weights : (R, n) array, or (R, 1) if all items have the same
    beta : float
    link : int
    tiny : float
        The smallest length, if it must be positive.
    """

    indptr: Indices
    ends: Ints
    formed: bool
    values: AnyArray
    edge: Indices
    weights: Floats
    beta: float
    link: int
    tiny: float


def arcs_of(lengths: EdgeLengths, searches: int, *, reverse: bool = False) -> ArcLengths:
    """Return the arcs for so many searches, with lengths if they are known or worth knowing."""
    stack = lengths.stack
    assert isinstance(stack, EdgeStack)
    arcs = stack.edges.into if reverse else stack.edges.out
    # Edges that a search is expected to meet. More than all edges: they are computed beforehand.
    arcs_per_ball = 20_000
    formed = "edge_values" in lengths.__dict__ or searches * arcs_per_ball > len(arcs.ends)
    formed = formed or not lengths.is_linear
    weights = np.ascontiguousarray(lengths.raw_weights, np.float64)
    tiny = float(np.finfo(stack.values.dtype).tiny) if lengths.link == 1 else 0.0
    if formed:
        values, edge = lengths.arcs(reverse=reverse).lengths[None], np.empty(0, np.int64)
    else:
        values, edge = stack.values, arcs.edge
    # Formed or not, the arrays are of the same types: one compiled version for both.
    values = np.ascontiguousarray(values).view()
    values.flags.writeable = False
    return ArcLengths(
        arcs.indptr, arcs.ends, formed, values, edge, weights, lengths.beta, lengths.link, tiny
    )


_unused: WeakKeyDictionary[EdgeSet, list[tuple[Ball, Ball]]] = WeakKeyDictionary()


@contextmanager
def use_balls(lengths: EdgeLengths) -> Iterator[tuple[Ball, Ball]]:
    """Provide two balls, those of an earlier search over the same edges if available."""
    edges = lengths.edges
    assert edges is not None
    unused = _unused.setdefault(edges, [])
    try:
        balls = unused.pop()
    except IndexError:
        balls = empty_ball(edges.n), empty_ball(edges.n)
    yield balls
    unused.append(balls)  # not after an error, which may have left them dirty


# -- kernels: one ball ---------------------------------------------------------------------------


@kernel_step
def arc_length(arcs: ArcLengths, a: int) -> float:
    """Return the length of arc a."""
    if arcs.formed:
        return float(arcs.values[0, a])
    values, weights, e = arcs.values, arcs.weights, arcs.edge[a]
    m = 0.0
    for r in range(values.shape[0]):
        m += weights[r] * values[r, e]
    rounded = values.dtype.type(length_of(m, arcs.beta, arcs.link))
    return max(float(rounded), arcs.tiny)


@kernel_step
def read_mixed(arcs: ArcLengths, u: int, radius: float, ball: Ball) -> None:
    """Reach items over the arcs of u, just settled; no length is computed in vain."""
    ends, dist, du = arcs.ends, ball.dist, ball.dist[u]
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        v = ends[a]
        if du < dist[v]:
            reached = du + arc_length(arcs, a)
            if reached < dist[v] and reached < radius:
                reach(v, reached, u, ball)


@kernel
def grow_ball(arcs: ArcLengths, limit: int, ball: Ball) -> None:
    """Settle the `limit` nearest items and all at the same distance as the last.

    The ball is clear but for the roots, which are open.
    """
    search(read_mixed, arcs, limit, np.inf, ball)


@kernel
def nearest_items(
    arcs: ArcLengths, items: Indices, ball: Ball, distances: Floats, neighbours: Indices
) -> None:
    """Fill row p with the k nearest other items of items[p], ties by number.

    `distances` (P, k) holds inf and `neighbours` (P, k) -1 at first.
    """
    k = distances.shape[1]
    for p in range(items.shape[0]):
        item = items[p]
        reach(item, 0.0, -1, ball)
        grow_ball(arcs, k + 1, ball)
        best, who = distances[p], neighbours[p]
        found = 0
        for s in range(ball.counts[1]):
            v = ball.order[s]
            d = ball.dist[v]
            if v == item or (found == k and d > best[k - 1]):
                continue
            if found == k and v > who[k - 1]:
                continue
            slot = min(found, k - 1)
            while slot > 0 and best[slot - 1] == d and who[slot - 1] > v:
                best[slot] = best[slot - 1]
                who[slot] = who[slot - 1]
                slot -= 1
            best[slot] = d
            who[slot] = v
            found = min(found + 1, k)
        clear(ball)


# -- kernels: pairs ------------------------------------------------------------------------------


@kernel_step
def meet(
    out: ArcLengths, into: ArcLengths, i: int, j: int, ahead: Ball, back: Ball
) -> tuple[float, int]:
    """Search from i ahead and from j back; return the distance, and where the halves meet.

    They meet at -1 if the edge from i to j is as short as any path, or if there is no path. Both
    balls are clear at first.
    """
    best = np.inf
    where = -1
    for a in range(out.indptr[i], out.indptr[i + 1]):
        if out.ends[a] == j:
            best = arc_length(out, a)
    reach(i, 0.0, -1, ahead)
    reach(j, 0.0, -1, back)
    while ahead.counts[0] > 0 and back.counts[0] > 0:
        if ahead.dist[ahead.heap[0]] + back.dist[back.heap[0]] >= best:
            break
        if ahead.counts[0] <= back.counts[0]:
            best, where = expand_side(out, best, where, ahead, back)
        else:
            best, where = expand_side(into, best, where, back, ahead)
    return best, where


@kernel_step
def expand_side(
    arcs: ArcLengths, best: float, where: int, mine: Ball, other: Ball
) -> tuple[float, int]:
    """Settle the nearest open item of one side; return the best length and its meeting item."""
    indptr, ends = arcs.indptr, arcs.ends
    u = settle(mine)
    du = mine.dist[u]
    radius = other.dist[other.heap[0]]
    for a in range(indptr[u], indptr[u + 1]):
        v = ends[a]
        if du >= mine.dist[v] or du + min(other.dist[v], radius) >= best:
            continue
        reached = du + arc_length(arcs, a)
        if reached < mine.dist[v] and reached + min(other.dist[v], radius) < best:
            reach(v, reached, u, mine)
            if reached + other.dist[v] < best:
                best = reached + other.dist[v]
                where = v
    return best, where


@kernel
def find_sparse_paths(
    out: ArcLengths,
    into: ArcLengths,
    i: Indices,
    j: Indices,
    ahead: Ball,
    back: Ball,
    lengths: Floats,
    indptr: Indices,
    settled: Ints,
) -> Ints:
    """Find the shortest path of every pair (i[p], j[p]); return all their items in one array.

    Path p is ``nodes[indptr[p]:indptr[p + 1]]``, of length ``lengths[p]``: no items where there is
    no path. `settled` counts the items that its search has settled.
    """
    nodes = np.empty(16 * i.shape[0], np.int32)
    indptr[0] = 0
    for p in range(i.shape[0]):
        start, end = i[p], j[p]
        length, where = 0.0, start
        if start != end:
            length, where = meet(out, into, start, end, ahead, back)
        lengths[p] = length
        settled[p] = ahead.counts[1] + back.counts[1]
        if where >= 0:
            first = 1
            v = where
            while v != start:
                v = ahead.pred[v]
                first += 1
            count = first
            v = where
            while v != end:
                v = back.pred[v]
                count += 1
        else:
            first = 1
            count = 2 if length < np.inf else 0
        at = indptr[p]
        indptr[p + 1] = at + count
        if at + count > nodes.shape[0]:
            larger = np.empty(2 * nodes.shape[0] + count, np.int32)
            for k in range(at):  # loops compile ten times faster than assignments to slices
                larger[k] = nodes[k]
            nodes = larger
        if where >= 0:
            v = where
            for k in range(first - 1, -1, -1):
                nodes[at + k] = v
                v = ahead.pred[v]
            v = where
            for k in range(first, count):
                v = back.pred[v]
                nodes[at + k] = v
        elif count == 2:
            nodes[at] = start
            nodes[at + 1] = end
        clear(ahead)
        clear(back)
    return nodes[: indptr[i.shape[0]]]
