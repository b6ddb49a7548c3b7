r"""The learned metric as an object: what a fit leaves, and what every query starts from.

.. math:: d(i, j) = \min_{\gamma : i \to j} \; \sum_{(u, v) \in \gamma} w_{uv}, \qquad
          w_{uv} = \mathrm{link}_\beta\Big(\sum_r \alpha_r M_r[u, v]\Big)

over all paths :math:`\gamma` along the edges of the stack: all pairs, or a sparse set. A
:class:`Metric` holds the sources M and the mixture :math:`\alpha`, and answers a query by the
search that it needs: a pair takes some rows of the sources, nearest items a ball around each, all
distances the closure. New items x are joined by edges of their own, and end no path but theirs:

.. math:: d(x, j) = \min_u \; w(x, u) + d(u, j).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.known import Known, known_mask
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stored_stack import StoredEdges, StoredMatrices, stored_stack
from metricmix.exceptions import InputError
from metricmix.metric import MetricViolations, metric_violations
from metricmix.mixture.edge_lengths import (
    EdgeLengths,
    check_finite_lengths,
    edge_lengths,
    lengths_of,
)
from metricmix.mixture.linear import Mixture
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.contributions import Contributions, item_position, path_contributions
from metricmix.paths.distance_files import write_distances
from metricmix.paths.geodesic import check_stored_edges, geodesic_stack
from metricmix.paths.joined_items import Joined, is_several, join_items
from metricmix.paths.neighbours import kneighbors, kneighbors_graph, nearest_labelled
from metricmix.paths.pair import Path, shortest_path, shortest_paths
from metricmix.paths.sampled_violations import SampledViolations, sampled_violations
from metricmix.paths.trees import distances_from
from metricmix.state import LoadOptions, checked_state, require, saved
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_square

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Metric", "nearest_others"]


PARTS: dict[str, Any] = {
    "stack": StoredMatrices | StoredEdges | None,
    "mixture": Mixture,
    "lengths": Floats | np.ndarray[Any, np.dtype[np.float32]] | None,
    "directed": bool,
    "edges": EdgeSet | None,
    "near": Mixture | None,
    "n_neighbors": int | None,
}
"""What model files hold of a metric."""


@saved("Metric")
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Metric:
    r"""A metric between n items, learned or given; immutable.

    .. math:: d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    with P the lengths of all shortest paths. Nothing is computed before it is asked for, and a
    query computes what it needs: distances, paths and nearest items form no n × n matrix.

    Parameters
    ----------
    stack : DissimilarityStack, EdgeLengths, (n, n) array or square DataFrame
        The sources; or a matrix of edge lengths, inf where there is no edge (then `mixture` is
        None).
    mixture : Mixture, solver result, array of R weights, or mapping of source names to weights
    directed : bool
        For a matrix of lengths only; a stack says so itself.
    n_jobs : int, optional
        Threads of the queries, whose results do not depend on it.
    near : (Metric, int), optional
        Of a geodesic metric: the one over all pairs by which items are near, and the number of
        nearest items that a new item gets edges to. :meth:`geodesic` sets it.

    Notes
    -----
    Items are their ids (their numbers, where the stack has no ids), in arguments and in results. A
    list or an array is several items, anything else one: a tuple is an id.

    Whatever the weights, d satisfies the triangle inequality, so ``mm.is_metric(metric)`` holds up
    to rounding. Items that are nowhere apart have distance 0 under the identity link only.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 3.0])
    >>> line = abs(place[:, None] - place)
    >>> stack = mm.DissimilarityStack({"line": line, "square": line**2}, items=["a", "b", "c"])
    >>> metric = mm.Metric(stack, mm.Mixture([1.0, 0.5], link="identity"))
    >>> metric
    Metric(n=3, sources=['line', 'square'], link='identity', needs_projection=True)
    >>> metric.distance("a", "c"), metric.distance("a", ["b", "c"])
    (5.5, array([1.5, 5.5]))
    >>> metric.path("a", "c")
    Path(length=5.5, nodes=('a', 'b', 'c'))
    >>> metric.kneighbors("c", n_neighbors=2)
    (array([4. , 5.5]), array(['b', 'a'], dtype='<U1'))
    >>> np.asarray(metric)
    array([[0. , 1.5, 5.5],
           [1.5, 0. , 4. ],
           [5.5, 4. , 0. ]])

    A new item, by its dissimilarities to the others, (1, n, R):

    >>> joined = metric.join(np.stack([[[1.0, 2.0, 4.0]], [[1.0, 4.0, 16.0]]], axis=-1))
    >>> joined.distances(), joined.path(0, "b").nodes
    (array([[1.5, 3. , 7. ]]), ('new item', 'a', 'b'))
    """

    lengths: EdgeLengths
    n_jobs: int | None
    near: tuple[Metric, int] | None

    def __init__(
        self,
        stack: Any,
        mixture: Any = None,
        *,
        directed: bool = False,
        n_jobs: int | None = None,
        near: tuple[Metric, int] | None = None,
    ) -> None:
        if mixture is None and table_items(stack) is not None:  # a matrix with ids
            stack = DissimilarityStack([stack], ["length"], directed)
            mixture = Mixture([1.0], link="identity")
        lengths = edge_lengths(stack, mixture, directed=directed)
        for name, value in (("lengths", lengths), ("n_jobs", n_jobs), ("near", near)):
            object.__setattr__(self, name, value)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def stack(self) -> DissimilarityStack:
        """The sources."""
        return self.lengths.stack

    @property
    def mixture(self) -> Mixture:
        """The weights and the link."""
        return self.lengths.mixture

    @property
    def ids(self) -> AnyArray:
        """The ids of the items, in order and read-only: 0 .. n - 1 where none were given."""
        return self.stack.items

    @property
    def n(self) -> int:
        """Number of items."""
        return self.lengths.n

    @property
    def shape(self) -> tuple[int, int]:
        """That of the matrix, ``(n, n)``."""
        return self.n, self.n

    @property
    def directed(self) -> bool:
        """Whether d(i, j) and d(j, i) may differ."""
        return self.lengths.directed

    @property
    def needs_projection(self) -> bool:
        """Whether a path may be shorter than the edge between its ends.

        If not, d = w: no weight is negative, and every source is known to be a metric.
        """
        return not self.lengths.is_metric

    @property
    def whole(self) -> Metric:
        """The same mixture over all pairs, where this metric is a geodesic one; else this one."""
        if self.near is None:
            return self
        return Metric(self.near[0].stack, self.mixture, n_jobs=self.n_jobs)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        edges = self.stack.edges
        about = [f"n={self.n}"] + ([] if edges is None else [f"edges={len(edges)}"])
        about += [f"sources={list(self.stack.names)}", f"link={self.mixture.link!r}"]
        about += ["directed=True"] * self.directed + [f"needs_projection={self.needs_projection}"]
        return f"Metric({', '.join(about)})"

    def positions(self, items: Any) -> Indices:
        """Return the numbers of items, in a new array."""
        return np.array(self.stack.positions(items if is_several(items) else [items]))

    def named(self, numbers: Indices) -> AnyArray:
        """Return the ids of items by their numbers; None for -1 where the stack has ids."""
        if not self.stack.has_items:
            return numbers
        names = self.ids[numbers]
        if (numbers < 0).any():
            names = names.astype(object)
            names[numbers < 0] = None
        return names

    # -- some distances ----------------------------------------------------------------------------

    def distance(self, i: Any, j: Any) -> Any:
        """Return the distance from item `i` to item `j`; of several, an array of distances.

        The distances of pairs ``(i[p], j[p])``, or from one item to several and the reverse. One
        bidirectional search per pair, O(R n) as a rule; :meth:`rows` has all from an item.
        """
        u, v = self.positions(i), self.positions(j)
        pairs = max(len(u), len(v)) if 1 in (len(u), len(v)) else 1
        u, v = (np.repeat(end, pairs) if len(end) == 1 else end for end in (u, v))
        found = shortest_paths(self.lengths, None, u, v, n_jobs=self.n_jobs).lengths
        return found if is_several(i) or is_several(j) else float(found[0])

    def path(self, i: Any, j: Any) -> Path:
        """Return the shortest path from item `i` to item `j`, by their ids."""
        ends = item_position(self.stack, i, "i"), item_position(self.stack, j, "j")
        found = shortest_path(self.lengths, None, *ends)
        return Path(found.length, tuple(self.ids[list(found.nodes)].tolist()))

    def contributions(self, i: Any, j: Any) -> Contributions:
        """Return how much each source contributes to the distance from item `i` to item `j`."""
        ends = item_position(self.stack, i, "i"), item_position(self.stack, j, "j")
        return path_contributions(self.lengths, *ends)

    def rows(self, items: Any) -> Floats:
        """Return the distances from some items to all, (S, n); those of a single item, (n,)."""
        found = distances_from(self.lengths, self.positions(items), n_jobs=self.n_jobs)
        return found if is_several(items) else found[0]

    def columns(self, items: Any) -> Floats:
        """Return the distances from all items to some, (S, n); those to a single item, (n,)."""
        if not self.directed:
            return self.rows(items)
        found = [nearest_labelled(self.lengths, None, [j])[0][:, 0] for j in self.positions(items)]
        return np.stack(found) if is_several(items) else found[0]

    # -- nearest items -----------------------------------------------------------------------------

    def kneighbors(self, i: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Return the nearest other items of some items.

        Parameters
        ----------
        i : item, or several, optional
            Default: all.
        n_neighbors : int
        return_distance : bool

        Returns
        -------
        distances, items : (S, k) arrays, or (k,) for a single item
            Nearest first; the items alone unless `return_distance`. Where fewer can be reached,
            None (-1 where the items have no ids) at an infinite distance follows.
        """
        chosen = None if i is None else self.positions(i)
        d, found = kneighbors(self.lengths, None, n_neighbors, chosen, n_jobs=self.n_jobs)
        if i is not None and not is_several(i):
            d, found = d[0], found[0]
        return (d, self.named(found)) if return_distance else self.named(found)

    def nearest_labelled(
        self, known: Known | ArrayLike, k: int = 1, *, others: bool = False
    ) -> tuple[Floats, AnyArray]:
        """Return the k nearest labelled items of every item.

        Parameters
        ----------
        known : Known, or array of n labels
            -1, NaN or None (among texts also "" or "-1") marks items without one; a boolean array
            says which are labelled.
        k : int
        others : bool
            Whether an item is left out of its own: a labelled one is its nearest, at 0, else.

        Returns
        -------
        distances, items : (n, k) arrays
            Nearest first. Where fewer can be reached, None (-1 where the items have no ids) at an
            infinite distance follows.
        """
        labelled = np.flatnonzero(known_mask(known, self.n))
        search = nearest_others if others else nearest_labelled
        d, found = search(self.lengths, None, labelled, k)
        return d, self.named(found)

    def kneighbors_graph(
        self, n_neighbors: int = 5, *, mode: str = "distance", symmetric: bool = False
    ) -> csr_array:
        """Return the neighbour graph in the order of `ids`: see :func:`metricmix.kneighbors_graph`.

        No n × n matrix is formed.
        """
        options: Any = {"mode": mode, "symmetric": symmetric, "n_jobs": self.n_jobs}
        return kneighbors_graph(self.lengths, None, n_neighbors, **options)

    # -- all distances -----------------------------------------------------------------------------

    def to_array(self, device: str = "cpu") -> Floats:
        """Return all distances, (n, n): see :func:`metricmix.path_metric`.

        One all-pairs computation, O(n³), unless the lengths are a metric already: then O(n² R).
        Computed anew every time.
        """
        return np.asarray(path_metric(self.lengths, n_jobs=self.n_jobs, device=device))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("the distances of a Metric are computed: pass copy=None")
        return self.to_array().astype(dtype or np.float64, copy=False)

    def write(
        self, path: str | os.PathLike[str], items: Any = None, *, dtype: str | None = None
    ) -> Any:
        """Write the distances from some items (default: all) to all, as a zarr array on disk.

        Row by row, and completely or not at all: see :func:`metricmix.write_distances`.
        """
        roots = None if items is None else self.positions(items)
        return write_distances(self.lengths, None, path, roots, dtype=dtype, n_jobs=self.n_jobs)

    def violations(self) -> MetricViolations:
        """Return how far all distances are from a metric, by rounding: O(n³)."""
        return metric_violations(self.to_array(), directed=self.directed)

    def sampled_violations(self, n_items: int = 512, **options: Any) -> SampledViolations:
        """Check triangles of sampled items: see :func:`metricmix.sampled_violations`."""
        return sampled_violations(self.lengths, n_items=n_items, n_jobs=self.n_jobs, **options)

    # -- other metrics, new items ------------------------------------------------------------------

    def geodesic(self, n_neighbors: int) -> Metric:
        r"""Return the metric of the same mixture along the edges to each item's nearest items.

        Its distances are lengths of paths through near items, and never below those of `whole`: see
        :mod:`metricmix.paths.geodesic`. O(n² R).
        """
        whole = self.whole
        if whole.stack.edges is not None:
            raise InputError("the edges of this metric are sparse already", argument="n_neighbors")
        along = geodesic_stack(whole.stack, self.mixture, n_neighbors)
        return Metric(along, self.mixture, n_jobs=self.n_jobs, near=(whole, n_neighbors))

    def join(self, new: Any, *, validate: bool = True) -> Joined:
        """Join M new items to the n items; no path leads through a new item.

        Parameters
        ----------
        new : (M, n, R) array, CrossDissimilarities or CrossEdges
            Their dissimilarities to the items: ``stack[np.ix_(new, old)]`` of a stack of both. In
            an array they are not divided by the scales of the stack, and over sparse edges inf is
            no edge. A geodesic metric takes those to all items, and chooses the nearest.
        validate : bool
            Whether to check the values of an array. Switch off only if they are known to be valid.

        Notes
        -----
        A new item whose row is that of an item *is* that item. The items and a new one together
        are a metric if no path through the new one would be shorter:
        :meth:`~metricmix.paths.Joined.is_metric` checks it.
        """
        return join_items(self, new, validate=validate)

    # -- files -------------------------------------------------------------------------------------

    def to_state(self, *, keep: bool = True) -> dict[str, dict[str, Any]]:
        """Return what it is made of: the sources and the mixture, or a matrix of lengths.

        Of a geodesic metric, the sources between all pairs and the edges. Without `keep`, checksums
        in place of the sources. Threads are not part of it.
        """
        require(self.n > 1, "expected a metric between two items at least")
        parts: dict[str, Any] = dict.fromkeys(PARTS)
        parts |= {"mixture": self.mixture, "directed": self.directed}
        whole = self.stack
        if self.near is not None:
            whole = self.near[0].stack
            known = self.stack.origin is whole
            require(known, "near: expected the sources of the metric between all pairs")
            parts |= {"edges": self.stack.edges, "near": self.near[0].mixture}
            parts["n_neighbors"] = self.near[1]
        if self.lengths.plain:
            assert self.lengths.block is not None
            parts["lengths"] = self.lengths.block[0]
        else:
            parts["stack"] = stored_stack(whole, keep=keep)
        return {"fitted": parts}

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        options: LoadOptions = LoadOptions(),  # noqa: B008  (immutable)
        *,
        n_jobs: int | None = None,
    ) -> Metric:
        """Return the metric of a state, if its parts are consistent."""
        (given,) = checked_state(state, {"fitted": dict}, cls.__name__).values()
        parts = checked_state(given, PARTS, cls.__name__)
        w, stack, mixture, near = (parts[name] for name in ("lengths", "stack", "mixture", "near"))
        require((w is None) != (stack is None), "expected sources, or a matrix of lengths")
        if w is not None:
            expected = "sources: expected None, since the file has the lengths"
            require(options.sources is None and near is None, expected)
            require(w.ndim == 2 and w.shape[0] == w.shape[1] > 1, "expected a square matrix")
            if options.verify:
                check_square(w, name="lengths", directed=parts["directed"], allow_infinite=True)
            return cls(lengths_of(w, directed=parts["directed"]), n_jobs=n_jobs)
        whole = stack.opened(options.sources, verify=options.verify)
        require(whole.directed == parts["directed"], "expected sources as directed as the metric")
        check_finite_lengths(whole, mixture, verify=options.verify)
        check_stored_edges(parts["edges"], near, whole, verify=options.verify)
        if near is None:
            return cls(EdgeLengths(whole, mixture), n_jobs=n_jobs)
        k = parts["n_neighbors"]
        require(k is not None and k > 0, "expected a number of nearest items for new ones")
        along = EdgeLengths(EdgeStack.of(whole, parts["edges"]), mixture)
        return cls(along, n_jobs=n_jobs, near=(cls(EdgeLengths(whole, near), n_jobs=n_jobs), k))


def nearest_others(
    stack: Any, mixture: Any, labelled: Indices, k: int = 1
) -> tuple[Floats, Indices]:
    """Return what :func:`nearest_labelled` does, an item itself not being among its own."""
    k = check_integer(k, name="k", low=1)
    more = k + 1 if k < len(labelled) else k
    d, found = nearest_labelled(stack, mixture, labelled, more)
    own = found == np.arange(len(found))[:, None]
    d, found = np.where(own, np.inf, d), np.where(own, -1, found)
    order = np.argsort(own, axis=1, kind="stable")[:, :k]  # its own number goes last
    return np.take_along_axis(d, order, 1), np.take_along_axis(found, order, 1)
