"""Shortest paths from some items to all others, with their trees.

Few roots are searched one by one (:mod:`metricmix.paths.forest`), O(n²) each. From many roots on,
all distances by one closure are cheaper, and the trees are read off it
(:mod:`metricmix.paths.trees`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.mixture.edge_lengths import FORMED_UP_TO, EdgeLengths, edge_lengths, lengths_of
from metricmix.paths.all_pairs import close_in_place
from metricmix.paths.forest import CHUNK, search_forest
from metricmix.paths.min_plus import distances_by_rounds, distances_streamed
from metricmix.paths.pair import Path
from metricmix.typing import Floats, Ints
from metricmix.validation import check_index, check_indices

__all__ = ["PathTrees", "any_tight", "push_flow", "shortest_path_trees", "tight_tree"]


ROOTS_PER_CLOSURE = 12
"""A closure is taken to cost n / 12 single searches: n / 4 … n / 40, depending on the lengths."""
FEW_ROOTS = 2
"""Up to so many roots, lengths are not formed but mixed row by row."""
TIGHT_TOLERANCE = 1e-12


@dataclass(frozen=True)
class PathTrees:
    """Shortest-path trees of some roots.

    Attributes
    ----------
    roots : (S,) array
    distances : (S, n) array
    predecessors : (S, n) array
        The item before each on the path from the root; -1 at the root itself.
    """

    roots: NDArray[np.int64]
    distances: Floats
    predecessors: NDArray[np.int32]

    def path(self, s: int, j: int) -> Path:
        """Return the shortest path from root number `s` to item `j`."""
        s = check_index(s, len(self.roots), name="s")
        nodes = [check_index(j, self.distances.shape[1], name="j")]
        while nodes[-1] != self.roots[s]:
            nodes.append(int(self.predecessors[s, nodes[-1]]))
        return Path(float(self.distances[s, j]), tuple(reversed(nodes)))

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

        def push(share: NDArray[np.int64]) -> None:
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
        The sources, or a matrix of edge lengths (then `mixture` is None).
    mixture : Mixture or array of R weights
    roots : array of int, optional
        Default: all items, which is all pairs with path reconstruction.
    directed : bool
        For a matrix of lengths only; a stack knows.
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
    return grow_trees(lengths, chosen, n_jobs=n_jobs)


def grow_trees(
    lengths: EdgeLengths, roots: NDArray[np.int64], *, n_jobs: int | None = None
) -> PathTrees:
    """Return trees of roots known to be sound, by whichever way is cheaper."""
    if len(roots) * ROOTS_PER_CLOSURE >= lengths.n:
        w = lengths.matrix(n_jobs=n_jobs)
        return trees_from_closure(w, roots, directed=lengths.directed, n_jobs=n_jobs)
    if len(roots) > FEW_ROOTS:
        lengths = lengths.formed(n_jobs=n_jobs)
    return _search(lengths, roots, n_jobs)


def distances_from(
    lengths: EdgeLengths, roots: NDArray[np.int64], *, n_jobs: int | None = None
) -> Floats:
    """Return the (S, n) distances from roots known to be sound, without their trees."""
    formed = lengths.plain or lengths.n <= FORMED_UP_TO
    if len(roots) > FEW_ROOTS and (lengths.block is None or not formed):
        return distances_streamed(lengths, roots, n_jobs=n_jobs)
    if len(roots) * ROOTS_PER_CLOSURE >= lengths.n:
        w = lengths.matrix(n_jobs=n_jobs)
        return close_in_place(w, symmetric=not lengths.directed, n_jobs=n_jobs)[roots]
    if len(roots) > FEW_ROOTS:
        lengths = lengths.formed(n_jobs=n_jobs)
        if lengths.plain and lengths.block is not None:
            found = distances_by_rounds(lengths.block[0], roots, n_jobs=n_jobs)
            if found is not None:
                return found
    return _search(lengths, roots, n_jobs).distances


def trees_from_closure(
    w: Floats, roots: NDArray[np.int64], *, directed: bool, n_jobs: int | None = None
) -> PathTrees:
    """Return trees over the (n, n) lengths `w`, read off their closure."""
    closed = w.copy()
    close_in_place(closed, symmetric=not directed, n_jobs=n_jobs)
    d = closed[roots]
    into = np.ascontiguousarray(w.T) if directed else w
    pred = np.empty(d.shape, np.int32)
    sound = in_threads(
        lambda s: tight_tree(int(roots[s]), d[s], into, TIGHT_TOLERANCE, pred[s]),
        range(len(roots)),
        threads_for(len(w), n_jobs),
    )
    doubtful = np.flatnonzero(~np.array(sound, dtype=bool))
    if len(doubtful):  # items at distance 0 of each other: let a search decide
        trees = _search(lengths_of(w, directed=directed), roots[doubtful], n_jobs)
        d[doubtful], pred[doubtful] = trees.distances, trees.predecessors
    return PathTrees(roots, d, pred)


def _search(lengths: EdgeLengths, roots: NDArray[np.int64], n_jobs: int | None) -> PathTrees:
    forests = in_threads(
        lambda s: search_forest(lengths, roots[s : s + 1]),
        range(len(roots)),
        threads_for(lengths.n, n_jobs) if lengths.block is not None else 1,
    )
    dist = np.array([forest.distances for forest in forests]).reshape(len(roots), lengths.n)
    pred = np.array([forest.predecessors for forest in forests]).reshape(len(roots), lengths.n)
    return PathTrees(roots, dist, pred)


# -- shortest-path trees read off a closure -----------------------------------------------------


@kernel
def tight_tree(i: int, d: Floats, w_into: Floats, tol: float, pred: Ints) -> bool:
    """Fill pred with the tree of root i; return False if zero-length edges leave it in doubt.

    d is row i of the distances; w_into[j] is the row of edge lengths *into* j (w itself when
    symmetric, its transpose otherwise). The predecessor must be strictly nearer than j, so that
    following predecessors always ends at i; the edge (i, j) wins ties, then the lowest number.
    Lengths that differ by the share `tol` count as equal.
    """
    n = d.shape[0]
    sound = True
    for j in range(n):
        pred[j] = i
        if w_into[j, i] <= d[j]:
            continue
        row = w_into[j]
        before = -1
        for low in range(0, n, CHUNK):
            high = min(low + CHUNK, n)
            if any_tight(d[low:high], row[low:high], d[j], tol):
                before = low
                while not (d[before] < d[j] and d[before] + row[before] <= d[j] * (1.0 + tol)):
                    before += 1
                break
        pred[j] = before
        if before < 0:
            sound = False
    pred[i] = -1
    return sound


@kernel
def any_tight(d: Floats, row: Floats, length: float, tol: float) -> bool:
    """Return whether any item of a chunk is on a way of that length; vectorised."""
    found = 0
    bound = length * (1.0 + tol)
    for k in range(d.shape[0]):
        found += 1 if (d[k] < length) & (d[k] + row[k] <= bound) else 0
    return found > 0


@kernel
def push_flow(root: int, pred: Ints, flow: Floats) -> None:
    """Turn demands at the items into flow on the edges (pred[j], j) of the tree of `root`.

    The flow of an item is added to that of its predecessor once all flows behind it are in. (The
    order of distances would not do: with edges of length 0, a predecessor is no nearer.)
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
