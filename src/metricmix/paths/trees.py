r"""Shortest paths from some items, the roots, to all others: distances and trees.

.. math:: d(s, v) = \min_u \; d(s, u) + w_{uv}

Three algorithms compute them, and the number of roots decides which is used: Dijkstra's algorithm
from each root (:mod:`metricmix.paths.dijkstra`), O(n²) each; Bellman and Ford's rounds
:math:`D \leftarrow \min(D, D \otimes w)` from all roots together, each round one min-plus product
that lets every path grow by one edge (on a complete graph shortest paths have few edges, and the
product runs at the speed of the vector units); and, for many roots, the closure of all pairs, off
which the trees are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.kernels.blocks import Found, run_blocks
from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import lower_by_product, min_plus, pack_panels
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.mixture.edge_lengths import (
    FORMED_UP_TO,
    ROWS_AT_ONCE,
    EdgeLengths,
    edge_lengths,
    lengths_of,
)
from metricmix.paths.all_pairs import searches_pay
from metricmix.paths.dijkstra import CHUNK, dijkstra
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.paths.pair import Path, PathBundle
from metricmix.paths.sparse_rows import RootTrees, blocks_in_near_order, put_rows
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_index, check_indices, check_square_fits

__all__ = [
    "PathTrees",
    "any_predecessor",
    "bellman_ford",
    "bellman_ford_in_blocks",
    "dijkstra_trees",
    "distances_from",
    "find_predecessors",
    "grow_trees",
    "push_flow",
    "shortest_path_trees",
    "trees_from_closure",
]

ROOTS_PER_CLOSURE = 12
"""A closure costs about as much as n / 12 searches (n / 4 … n / 40, depending on the lengths)."""
FEW_ROOTS = 2
"""Up to this many roots, lengths are not formed but mixed row by row."""


@dataclass(frozen=True)
class PathTrees:
    """Shortest-path trees of some roots.

    Attributes
    ----------
    roots : (S,) array
    distances : (S, n) array
    predecessors : (S, n) array
        The item before each on the path from the root; -1 at the root itself, and where there is no
        path (the distance is inf).
    """

    roots: Indices
    distances: Floats
    predecessors: Ints

    def path(self, s: int, j: int) -> Path:
        """Return the shortest path from root number `s` to item `j`."""
        s = check_index(s, len(self.roots), name="s")
        nodes = [check_index(j, self.distances.shape[1], name="j")]
        if np.isinf(self.distances[s, nodes[0]]):
            return Path(np.inf, ())
        while nodes[-1] != self.roots[s]:
            nodes.append(int(self.predecessors[s, nodes[-1]]))
        return Path(float(self.distances[s, j]), tuple(reversed(nodes)))

    def paths(self, tree: Indices, end: Indices) -> PathBundle:
        """Return the shortest paths from root number ``tree[p]`` to item ``end[p]``."""
        lengths = self.distances[tree, end]
        there = np.isfinite(lengths)
        before = [np.where(there, end, -1)]  # the items of each path from its end, -1 beyond
        while (before[-1] >= 0).any():
            v = before[-1]
            before.append(np.where(v >= 0, self.predecessors[tree, v], -1).astype(np.int64))
        nodes = np.stack(before[::-1], axis=1)
        on_path = nodes >= 0
        indptr = np.append(0, np.cumsum(on_path.sum(axis=1)))
        none = np.zeros(len(tree), np.int32)
        return PathBundle(lengths, indptr, nodes[on_path].astype(np.int32), none)

    def edge_flow(self, demand: Floats, *, n_jobs: int | None = None) -> Floats:
        r"""Return the flow on the tree edges that carries `demand` from the roots to the items.

        Parameters
        ----------
        demand : (S, n) array
            :math:`c_{sj}`, what root s sends to item j; any sign.

        Returns
        -------
        (S, n) array
            :math:`f_{sj}`, the flow of tree s on its edge (predecessor of j, j), so that
            :math:`\sum_{sj} c_{sj} d_{sj} = \sum_{sj} f_{sj} w_{\mathrm{pred}_s(j), j}`.
        """
        flow = demand.copy()

        def push(share: Indices) -> None:
            for s in share:
                push_flow(int(self.roots[s]), self.predecessors[s], flow[s])

        threads = threads_for(demand.shape[1], n_jobs)
        in_threads(push, np.array_split(np.arange(len(flow)), 16), threads)
        return flow


def shortest_path_trees(
    stack: Any,
    mixture: Any = None,
    roots: ArrayLike | None = None,
    *,
    directed: bool = False,
    n_jobs: int | None = None,
) -> PathTrees:
    """Return the shortest paths from `roots` to every item.

    Parameters
    ----------
    stack : DissimilarityStack or (n, n) array
        The sources, or a matrix of edge lengths, inf where there is no edge (then `mixture` is
        None).
    mixture : Mixture or array of R weights
    roots : array of int, optional
        Default: all items, which is all pairs with path reconstruction.
    directed : bool
        For a matrix of lengths only; a stack says so itself.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths import shortest_path_trees
    >>> trees = shortest_path_trees(np.array([[0, 1, 5], [1, 0, 2], [5, 2, 0]]), roots=[0])
    >>> trees.distances
    array([[0., 1., 3.]])
    >>> trees.path(0, 2).nodes
    (0, 1, 2)
    """
    lengths = edge_lengths(stack, mixture, directed=directed)
    chosen = (
        np.arange(lengths.n) if roots is None else check_indices(roots, lengths.n, name="roots")
    )
    share = len(chosen) / lengths.n
    check_square_fits(
        lengths.n, 12 * share, what="the trees", argument="roots", instead="take fewer roots"
    )
    return grow_trees(lengths, chosen, n_jobs=n_jobs)


def grow_trees(lengths: EdgeLengths, roots: Indices, *, n_jobs: int | None = None) -> PathTrees:
    """Return the trees of valid roots, by the cheapest algorithm."""
    if lengths.edges is not None:
        dist, pred = np.empty((len(roots), lengths.n)), np.empty((len(roots), lengths.n), np.int32)

        def put(start: int, stop: int, found: Found) -> None:
            dist[start:stop], pred[start:stop] = found

        run_blocks(RootTrees.of(lengths, roots), put, n_jobs=threads_for(lengths.n, n_jobs))
        return PathTrees(roots, dist, pred)
    if lengths.is_metric:
        star = np.repeat(roots[:, None], lengths.n, axis=1).astype(np.int32)
        star[np.arange(len(roots)), roots] = -1
        return PathTrees(roots, lengths.rows(roots), star)
    if len(roots) * ROOTS_PER_CLOSURE >= lengths.n:
        w = lengths.matrix(n_jobs=n_jobs)
        return trees_from_closure(w, roots, directed=lengths.directed, n_jobs=n_jobs)
    if len(roots) > FEW_ROOTS:
        lengths = lengths.formed(n_jobs=n_jobs)
    return dijkstra_trees(lengths, roots, n_jobs)


def distances_from(
    lengths: EdgeLengths,
    roots: Indices,
    *,
    reverse: bool = False,
    dtype: str = "float64",
    n_jobs: int | None = None,
) -> AnyArray:
    """Return the (S, n) distances from valid roots, by the cheapest algorithm, without trees.

    With `reverse`, those from the items to the roots, stored root after root. `dtype` is the
    precision in which distances are kept that are searched for along sparse edges.
    """
    turned = reverse and lengths.directed
    if searches_pay(lengths, len(roots)):
        dist = np.empty((len(roots), lengths.n), dtype, order="F" if reverse else "C")
        for some, found in blocks_in_near_order(lengths, roots, reverse=turned, n_jobs=n_jobs):
            put_rows(found, lengths, some, dist, n_jobs)
        return dist
    if turned:
        matrix = lengths.formed(n_jobs=n_jobs)
        if matrix.block is None or not matrix.plain:
            searches = [dijkstra(matrix, root, reverse=True).distances for root in roots[:, None]]
            return np.array(searches).reshape(len(roots), lengths.n)
        lengths = lengths_of(matrix.block[0].T, directed=True)
    if lengths.edges is not None:
        w = lengths.matrix(n_jobs=n_jobs)
        return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)[roots]
    if lengths.is_metric:
        return lengths.rows(roots)
    formed = lengths.plain or lengths.n <= FORMED_UP_TO
    if len(roots) > FEW_ROOTS and (lengths.block is None or not formed):
        return bellman_ford_in_blocks(lengths, roots, n_jobs=n_jobs)
    if len(roots) * ROOTS_PER_CLOSURE >= lengths.n:
        w = lengths.matrix(n_jobs=n_jobs)
        return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)[roots]
    if len(roots) > FEW_ROOTS:
        lengths = lengths.formed(n_jobs=n_jobs)
        if lengths.plain and lengths.block is not None:
            near = bellman_ford(lengths.block[0], roots, n_jobs=n_jobs)
            if near is not None:
                return near
    return dijkstra_trees(lengths, roots, n_jobs).distances


def trees_from_closure(
    w: Floats, roots: Indices, *, directed: bool, n_jobs: int | None = None
) -> PathTrees:
    """Return trees over the (n, n) lengths `w`, with predecessors found from all distances."""
    closed = w.copy()
    close_in_place(closed, symmetric=not directed, n_jobs=n_jobs)
    d = closed[roots]
    into = np.ascontiguousarray(w.T) if directed else w
    pred = np.empty(d.shape, np.int32)
    rounding = 1e-12  # relative difference up to which two path lengths count as equal
    complete = in_threads(
        lambda s: find_predecessors(int(roots[s]), d[s], into, rounding, pred[s]),
        range(len(roots)),
        threads_for(len(w), n_jobs),
    )
    incomplete = np.flatnonzero(~np.array(complete, dtype=bool))
    if len(incomplete):  # edges of length 0: the distances do not determine the predecessors
        trees = dijkstra_trees(lengths_of(w, directed=directed), roots[incomplete], n_jobs)
        d[incomplete], pred[incomplete] = trees.distances, trees.predecessors
    return PathTrees(roots, d, pred)


def dijkstra_trees(lengths: EdgeLengths, roots: Indices, n_jobs: int | None) -> PathTrees:
    """Return trees by one search per root."""
    searches = in_threads(
        lambda s: dijkstra(lengths, roots[s : s + 1]),
        range(len(roots)),
        threads_for(lengths.n, n_jobs) if lengths.block is not None else 1,
    )
    dist = np.array([found.distances for found in searches]).reshape(len(roots), lengths.n)
    pred = np.array([found.predecessors for found in searches]).reshape(len(roots), lengths.n)
    return PathTrees(roots, dist, pred)


# -- trees read off distances --------------------------------------------------------------------


@kernel
def find_predecessors(i: int, d: Floats, w_into: Floats, tol: float, pred: Ints) -> bool:
    """Fill pred with the tree of root i; return False if zero-length edges leave it incomplete.

    d is row i of the distances; w_into[j] is the row of edge lengths *into* j (w itself when
    symmetric, its transpose otherwise). The predecessor must be strictly nearer than j, so that
    following predecessors always ends at i; the edge (i, j) wins ties, then the lowest number.
    Lengths that differ by the share `tol` count as equal. Items at an infinite distance have no
    predecessor.
    """
    n = d.shape[0]
    complete = True
    for j in range(n):
        pred[j] = i if d[j] < np.inf else -1
        if w_into[j, i] <= d[j]:
            continue
        row = w_into[j]
        before = -1
        for low in range(0, n, CHUNK):
            high = min(low + CHUNK, n)
            if any_predecessor(d[low:high], row[low:high], d[j], tol):
                before = low
                while not (d[before] < d[j] and d[before] + row[before] <= d[j] * (1.0 + tol)):
                    before += 1
                break
        pred[j] = before
        if before < 0:
            complete = False
    pred[i] = -1
    return complete


@kernel
def any_predecessor(d: Floats, row: Floats, length: float, tol: float) -> bool:
    """Return whether any item of a chunk lies on a path of that length; branch-free."""
    found = 0
    bound = length * (1.0 + tol)
    for k in range(d.shape[0]):
        found += 1 if (d[k] < length) & (d[k] + row[k] <= bound) else 0
    return found > 0


# -- Bellman and Ford's algorithm ----------------------------------------------------------------


def bellman_ford(
    w: AnyArray, roots: Indices, max_rounds: int = 12, *, n_jobs: int | None = None
) -> AnyArray | None:
    """Return the (S, n) distances from `roots` over the (n, n) lengths `w`.

    None where some shortest path has more than `max_rounds` edges.
    """
    panels = pack_panels(np.ascontiguousarray(w))
    d = w[roots]
    for _ in range(max_rounds):
        before = d.copy()
        lower_by_product(d, before, panels, n_jobs)
        if np.array_equal(d, before):
            return d
    return None


def bellman_ford_in_blocks(
    lengths: EdgeLengths, roots: Indices, *, n_jobs: int | None = None
) -> Floats:
    """Return the (S, n) distances from `roots` without forming the lengths.

    Every round requests all rows, a block at a time: memory O((S + 128 R) n). The search ends
    early when no path of more edges can be shorter, by the shortest edges out of and into items.
    """
    n = lengths.n
    d = lengths.rows(roots)
    out, into = np.full(n, np.inf), np.full(n, np.inf)
    edges = 2  # number of edges of the paths that are known after this round
    while True:
        before = d.copy()
        for start in range(0, n, ROWS_AT_ONCE):
            some = np.arange(start, min(n, start + ROWS_AT_ONCE))
            w = lengths.some_rows(start, start + len(some), n_jobs=n_jobs)
            np.minimum(d, min_plus(d[:, some], w, n_jobs=n_jobs), out=d)
            if edges == 2:
                w[np.arange(len(some)), some] = np.inf
                out[some] = w.min(axis=1)
                np.minimum(into, w.min(axis=0), out=into)
        longer = out[roots, None] + (edges - 1) * out.min() + into
        if np.array_equal(d, before) or (d <= longer).all():
            return d
        edges += 1


# -- flow on trees --------------------------------------------------------------------------------


@kernel
def push_flow(root: int, pred: Ints, flow: Floats) -> None:
    """Turn demands at the items into flow on the edges (pred[j], j) of the tree of `root`.

    The flow of an item is added to that of its predecessor once its own successors are done. (Items
    sorted by distance would not do: with edges of length 0, a predecessor is no nearer.)
    """
    n = pred.shape[0]
    waiting = np.zeros(n, np.int32)
    for j in range(n):
        if pred[j] >= 0:
            waiting[pred[j]] += 1
    for leaf in range(n):
        j = leaf
        while waiting[j] == 0 and pred[j] >= 0:
            waiting[j] = -1  # done
            before = pred[j]
            waiting[before] -= 1
            if before == root:
                break
            flow[before] += flow[j]
            j = before
    flow[root] = 0.0
