r"""Geodesic edges: each item's nearest items and the given links, in place of all pairs.

Where the lengths w are a metric already, every shortest path over all pairs is the edge itself, and
says nothing of the items between. With

.. math:: E = \{(i, j) : j \in N_k(i) \text{ or } i \in N_k(j)\} \cup \text{links}

in place of all pairs, :math:`N_k(i)` the k items at the smallest :math:`w_{ij}`, the distance

.. math:: d(i, j) = \min_{\text{paths } i \to j \text{ in } E} \; \sum_{(u, v)} w_{uv}

is a metric that follows the items, as a geodesic follows a surface. It is never below the one over
all pairs. Components are joined by their shortest edges, so that it is finite.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_building import EdgeReport
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.threads import check_time
from metricmix.mixture.edge_lengths import EdgeLengths, check_finite_lengths
from metricmix.mixture.linear import Mixture
from metricmix.paths.out_of_sample import NewItems, find_same_items
from metricmix.state import require
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_integer

__all__ = ["check_stored_edges", "geodesic_edges", "geodesic_stack", "join_nearest"]

ROWS_AT_ONCE = 256


def geodesic_stack(stack: DissimilarityStack, mixture: Mixture, k: int) -> EdgeStack:
    """Return the sources of a stack on the edges to each item's k nearest and along its links.

    Parameters
    ----------
    stack : DissimilarityStack
        Over all pairs; ``stack.links`` are edges too.
    mixture : Mixture
        By whose lengths items are near.
    k : int
        All pairs are edges from n - 1 on.

    Notes
    -----
    O(n² R): all rows of the lengths once, and again those of components to be joined.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.array([0.0, 1.0, 2.0, 3.0])
    >>> stack = mm.DissimilarityStack({"line": abs(x[:, None] - x)})
    >>> chain = geodesic_stack(stack, mm.Mixture([1.0]), k=1)
    >>> mm.shortest_path(stack, [1.0], 0, 3).nodes, mm.shortest_path(chain, [1.0], 0, 3).nodes
    ((0, 3), (0, 1, 2, 3))
    """
    edges, report = geodesic_edges(EdgeLengths(stack, mixture), k, stack.links)
    return EdgeStack.of(stack, edges, report=report)


def geodesic_edges(
    lengths: EdgeLengths, k: int, links: Indices | None = None
) -> tuple[EdgeSet, EdgeReport]:
    """Return the edges to each item's k nearest items, and `links` (E, 2); and a report.

    Of items at the same length those with the smallest number are taken. Directed edges lead both
    ways. Every component but the largest is joined by its shortest edge to another one, until there
    is one component.
    """
    n = lengths.n
    k = min(check_integer(k, name="k", low=1), n - 1)
    near = np.empty((n, k), np.int64)
    for start in range(0, n, ROWS_AT_ONCE):
        check_time()
        rows = np.arange(start, min(n, start + ROWS_AT_ONCE))
        w = lengths.rows(rows)
        w[np.arange(len(rows)), rows] = np.inf
        near[rows] = smallest(w, k)
    ends = {"nearest": np.column_stack([np.repeat(np.arange(n), k), near.ravel()])}
    if links is not None:
        ends["links"] = links
    pairs = np.concatenate(list(ends.values()))
    edges = both_ways(n, pairs, lengths.directed)
    report = EdgeReport(
        n,
        len(edges),
        by_origin={name: len(EdgeSet(n, *part.T)) for name, part in ends.items()},
        components=edges.components[0],
    )
    before = len(edges)
    while edges.components[0] > 1:
        more = joining_edges(lengths, edges.components[1])
        joined = both_ways(n, more, lengths.directed)
        edges = edges.with_edges(joined.tails, joined.heads)
    return edges, replace(report, n_edges=len(edges), bridging=len(edges) - before)


def smallest(w: AnyArray, k: int) -> Indices:
    """Return the places of the k smallest values of each row; of equal ones, the first."""
    return np.argsort(w, axis=1, kind="stable")[:, :k] if k > 64 else few_smallest(w, k)


def few_smallest(w: AnyArray, k: int) -> Indices:
    """Return the same where k is small: those below the k-th value, and the first at it."""
    bound = np.partition(w, k - 1, axis=1)[:, k - 1 : k]
    below, at = w < bound, w == bound
    missing = k - below.sum(axis=1, keepdims=True)
    chosen = below | (at & (at.cumsum(axis=1) <= missing))
    return np.nonzero(chosen)[1].reshape(len(w), k)


def both_ways(n: int, pairs: AnyArray, directed: bool) -> EdgeSet:
    """Return pairs of items as edges; each of them in both directions, if directed."""
    u, v = pairs[:, 0], pairs[:, 1]
    if directed:
        u, v = np.concatenate([u, v]), np.concatenate([v, u])
    return EdgeSet(n, u, v, directed=directed)


def joining_edges(lengths: EdgeLengths, component: AnyArray) -> Indices:
    """Return the shortest edge from each component, but the largest, to any other, (C - 1, 2)."""
    largest = int(np.bincount(component).argmax())
    found = []
    for c in range(int(component.max()) + 1):
        if c == largest:
            continue
        own, others = np.flatnonzero(component == c), np.flatnonzero(component != c)
        best = (np.inf, -1, -1)
        for start in range(0, len(own), ROWS_AT_ONCE):
            check_time()
            rows = own[start : start + ROWS_AT_ONCE]
            w = lengths.rows(rows)[:, others]
            place = int(w.argmin())
            i, j = divmod(place, len(others))
            best = min(best, (float(w[i, j]), int(rows[i]), int(others[j])))
        found.append(best[1:])
    return np.array(found, dtype=np.int64)


def join_nearest(
    lengths: EdgeLengths, near: EdgeLengths, rows: AnyArray, k: int, *, n_jobs: int | None = None
) -> NewItems:
    """Join new items by edges to their k nearest items.

    Parameters
    ----------
    lengths : EdgeLengths
        Over geodesic edges.
    near : EdgeLengths
        Over all pairs, by which items are near.
    rows : (M, n, R) array
        Raw dissimilarities of the new items. One whose row is that of an item is that item, and
        has no other edge.
    k : int
    """
    n = near.n
    m = np.asarray(rows @ near.raw_weights, dtype=np.float64)
    same = find_same_items(near, rows, m)
    chosen = np.zeros((len(rows), n), dtype=bool)
    np.put_along_axis(chosen, smallest(m, min(k, n)), True, axis=1)
    chosen[same >= 0] = False
    chosen[same >= 0, same[same >= 0]] = True
    row, ends = np.nonzero(chosen)
    values = rows[row, ends].T
    cross = CrossEdges.of_sorted(row, ends, values, near.stack.names, (len(rows), n))
    return replace(NewItems.from_rows(lengths, cross, n_jobs=n_jobs), same=same)


def check_stored_edges(
    edges: EdgeSet | None, near: Mixture | None, stack: DissimilarityStack, *, verify: bool
) -> None:
    """Raise unless the edges of a geodesic metric, if there are some, join the items of a stack.

    `near` is the mixture by whose lengths they were chosen.
    """
    require((edges is None) == (near is None), "expected edges and the lengths they are chosen by")
    if edges is None or near is None:
        return
    fits = stack.edges is None and (edges.n, edges.directed) == (len(stack), stack.directed)
    require(fits, "expected edges between the items of its stack")
    check_finite_lengths(stack, near, verify=verify)
    require(edges.components[0] == 1, "expected edges that join all items")
