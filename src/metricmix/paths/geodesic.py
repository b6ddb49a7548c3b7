r"""Geodesic edges: each item's nearest items and the given links, in place of all pairs.

Where the lengths w are a metric already, every shortest path over all pairs is the edge itself, and
says nothing of the items between. With

.. math:: E = \{(i, j) : j \in N_k(i) \text{ or } i \in N_k(j)\} \cup \text{links}

in place of all pairs, :math:`N_k(i)` the k items at the smallest :math:`w_{ij}`, the distance

.. math:: d(i, j) = \min_{\text{paths } i \to j \text{ in } E} \; \sum_{(u, v)} w_{uv}

is a metric that follows the items, as a geodesic follows a surface. It is never below the one over
all pairs. Components are joined by their shortest edges, so that it is finite.

By how much it lies above that one is a ratio per pair, its stretch, for any sparse edges:

.. math:: s_{ij} = d^{E}_{ij} / d_{ij} \ge 1

A search for the distance d over all pairs asks for many rows of all sources. Two of them are enough
for a bound: a path of several edges is as long as its first and its last one at least,

.. math:: d_{ij} \ge \min\Big(w_{ij},\; \min_{u \ne i} w_{iu} + \min_{v \ne j} w_{vj}\Big)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges, find_same_items
from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import check_time
from metricmix.mixture.edge_lengths import (
    ROWS_AT_ONCE,
    EdgeLengths,
    check_finite_lengths,
    edge_lengths,
)
from metricmix.mixture.linear import Mixture
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.pair import shortest_paths
from metricmix.state import require
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer

__all__ = [
    "Stretch",
    "check_stored_edges",
    "geodesic_edges",
    "geodesic_stack",
    "join_nearest",
    "stretch",
]

NEAR_ROWS = 256
"""Rows in which nearest items are found together."""
SAMPLE = 1000
"""Items beside those of the pairs that paths between any two items may lead through."""


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
    for start in range(0, n, NEAR_ROWS):
        check_time()
        rows = np.arange(start, min(n, start + NEAR_ROWS))
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
        for start in range(0, len(own), NEAR_ROWS):
            check_time()
            rows = own[start : start + NEAR_ROWS]
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
    same = find_same_items(near.stack, rows, m, near.raw_weights)
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


# -- how much longer paths are -------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Ratios of two path metrics on a sample of pairs.

    Attributes
    ----------
    over_edges, over_all_pairs : (P,) arrays
        The two distances of each pair.
    exact : bool
        Whether the latter are distances; else lower bounds of them, and ratios are upper bounds.
    over_sample : (P,) array, optional
        Distances over all pairs of a sample of items, where these are not exact: upper bounds.
    """

    over_edges: Floats
    over_all_pairs: Floats
    exact: bool = True
    over_sample: Floats | None = None

    @property
    def ratios(self) -> Floats:
        """The ratio of the two distances of each pair; 1 where both are 0."""
        both_zero = (self.over_edges == 0) & (self.over_all_pairs == 0)
        below = np.where(both_zero, 1.0, self.over_all_pairs)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(both_zero, 1.0, self.over_edges) / below)

    def __str__(self) -> str:
        low, middle, high = np.percentile(self.ratios, [50, 95, 100])
        bound = "" if self.exact else "at most "
        if self.over_sample is not None:
            least = float(np.median(self.over_edges / self.over_sample))
            bound = f"at least {least:.3g} and at most "
        return (
            f"distances over the edges are {bound}{low:.3g} times those over all pairs (median of "
            f"{len(self.ratios)} pairs; {middle:.3g} for 95 %, {high:.3g} at most)"
        )


def stretch(
    stack: EdgeStack,
    mixture: Any,
    *,
    n_pairs: int = 1000,
    random_state: int = 0,
    exact: bool = True,
) -> Stretch:
    """Return by how much distances over the edges exceed those over all pairs, on a sample.

    Parameters
    ----------
    stack : EdgeStack
        With an `origin`, which has the values between any two items.
    mixture : Mixture or array of R weights
    n_pairs : int
        About as many pairs of items: those between each of some random items and as many others.
    random_state : int
    exact : bool
        Whether to search the paths between any two items. Else there are bounds of their lengths:
        from below from two rows of the sources per pair, from above over a sample of 1000 items.

    Returns
    -------
    Stretch
        Costs a search over the edges per pair. Between any two items, metrics with weights >= 0
        cost one value per pair, other sources a search by rows, O(R n) or more.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.linspace(0, 1, 20)
    >>> dense = mm.DissimilarityStack([abs(x[:, None] - x)], ["line"])
    >>> chain = mm.dissimilarity.EdgeSet(20, np.arange(19), np.arange(1, 20))
    >>> stack = mm.EdgeStack.of(dense, chain)
    >>> mixture = mm.Mixture([1.0], link="identity")
    >>> print(mm.paths.stretch(stack, mixture, n_pairs=50))
    distances over the edges are 1 times those over all pairs (median of 49 pairs; 1 for 95 %, ...
    """
    check_integer(n_pairs, name="n_pairs", low=1)
    if not isinstance(stack, EdgeStack) or stack.origin is None or stack.n_items < 2:
        raise InputError(
            argument="stack",
            expected="an EdgeStack with an origin, which has the values between any two items",
        )
    rng = np.random.default_rng(random_state)
    n = stack.n_items
    n_roots = max(1, min(n, int(np.sqrt(n_pairs))))
    roots = rng.choice(n, n_roots, replace=False)
    i = np.repeat(roots, max(1, n_pairs // n_roots))
    j = (i + rng.integers(1, n, size=len(i))) % n
    whole = stack.origin.rescaled(stack.scales)
    over_edges = shortest_paths(stack, mixture, i, j).lengths
    if not exact:
        lengths = edge_lengths(whole, mixture)
        least = least_lengths(lengths, i, j)
        if not lengths.is_linear or not least.all():
            return Stretch(over_edges, least, exact=False)
        some = np.unique(np.concatenate([i, j, rng.choice(n, min(n, SAMPLE), replace=False)]))
        among = path_metric(whole.part(some), mixture)
        sample = among[np.searchsorted(some, i), np.searchsorted(some, j)]
        return Stretch(over_edges, least, exact=False, over_sample=sample)
    return Stretch(over_edges, shortest_paths(whole, mixture, i, j).lengths)


def least_lengths(lengths: EdgeLengths, i: Indices, j: Indices) -> Floats:
    """Return lower bounds of the path metric of pairs, from the shortest edges at their ends."""
    direct = lengths.pairs(i, j)
    ends = np.zeros(len(i))
    for items, reverse in ((i, False), (j, True)):
        different, place = np.unique(items, return_inverse=True)
        nearest = np.empty(len(different))
        for start in range(0, len(different), ROWS_AT_ONCE):
            some = different[start : start + ROWS_AT_ONCE]
            rows = lengths.rows(some, reverse=reverse)
            rows[np.arange(len(some)), some] = np.inf
            nearest[start : start + ROWS_AT_ONCE] = rows.min(axis=1)
        ends += nearest[place]
    return np.minimum(direct, ends)
