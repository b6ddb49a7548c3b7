r"""Edge lengths of the complete graph on which shortest paths are searched.

.. math:: w_{uv} = \mathrm{link}_\beta\Big(\sum_r \alpha_r M_r[u, v]\Big), \qquad w_{uu} = 0

or another mixture of the sources (:mod:`metricmix.mixture.local`,
:mod:`metricmix.mixture.network`).
:class:`EdgeLengths` gives them by rows, and never forms the matrix unless asked to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.edge_set import NearOrder
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import EdgeSource
from metricmix.exceptions import InputError
from metricmix.kernels.locality import copy_rows
from metricmix.kernels.mixing import DenseLengths, form_lengths, link_in_place, tangent_of
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.mixture.linear import (
    LINKS,
    Mixture,
    as_mixture,
    link_derivative,
)
from metricmix.state import require
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_square, check_square_fits, symmetrized

__all__ = [
    "FORMED_UP_TO",
    "ROWS_AT_ONCE",
    "EdgeLengths",
    "SparseLengths",
    "check_finite_lengths",
    "edge_lengths",
    "lengths_of",
]

FORMED_UP_TO = 8000
"""Largest n for which all lengths are formed where that saves time: half a gigabyte."""
EDGES_AT_ONCE = 1 << 20
"""Edges of a sparse set that are mixed together."""
ROWS_AT_ONCE = 128
"""Rows of computed sources that are requested together."""


class SparseLengths(NamedTuple):
    """The lengths of the arcs out of every item, or into it, where the edge set is sparse.

    Attributes
    ----------
    indptr : (n + 1,) array of int64
        Item u has the arcs ``indptr[u] .. indptr[u + 1] - 1``.
    ends : (A,) array of int32
        The other end of each arc, increasing within an item.
    lengths : (A,) array, float32 or float64 as the stack has its values
    """

    indptr: Indices
    ends: Ints
    lengths: AnyArray


class EdgeLengths:
    r"""Lengths of the edges of a graph over n items: a stack seen through a mixture.

    The graph is complete, unless the stack is an :class:`~metricmix.EdgeStack`.

    Attributes
    ----------
    stack : DissimilarityStack
    mixture : Mixture
    raw_weights : (R,) array
        Weights of the raw sources, scales divided in; of a local mixture their mean over the items.
    is_linear : bool
        Whether all edges have the same weights: the mixture is neither local nor a network.
    block : (R, n, n) array or None
        The raw sources, where kernels can mix rows themselves. Of a mixture that is not linear: its
        values m, as a single source of weight 1, formed when first needed.
    dense : DenseLengths or None
        What such kernels need: `block`, its weights, `beta` and `link`.
    edges : EdgeSet or None
        The edges of a sparse set; None for a complete graph.
    is_metric : bool
        Whether the lengths are known to be a metric already, so that every shortest path is the
        edge itself: no weight is negative, there is no network, and every source obeys the triangle
        inequality. Both links are increasing and subadditive, :math:`\mathrm{link}(a + b) \le
        \mathrm{link}(a) + \mathrm{link}(b)`, and so keep it.
    """

    def __init__(self, stack: DissimilarityStack, mixture: Mixture) -> None:
        self.stack, self.mixture = stack, mixture
        self.mixed = mixture.on(stack)
        self.raw_weights, self.is_linear = self.mixed.weights, self.mixed.is_linear
        self.n = stack.n_items
        self.directed = stack.directed
        self.edges = stack.edges
        self._arcs: dict[tuple[bool, bool], SparseLengths] = {}
        self.beta = mixture.beta
        self.link = LINKS.index(mixture.link)
        self.plain = False  # True for a matrix of lengths, perhaps used for one query only
        self.is_metric = (
            self.edges is None
            and self.mixed.keeps_metrics
            and all(known is not None and known.triangle_inequality for known in stack.facts)
        )

    @cached_property
    def block(self) -> AnyArray | None:
        """The raw sources, or the values of a mixture; None if they are not in memory."""
        if self.is_linear or self.stack.block is None or self.n > FORMED_UP_TO:
            return self.stack.block if self.is_linear else None
        m = np.empty((self.n, self.n))
        for start in range(0, self.n, ROWS_AT_ONCE):
            items = np.arange(start, min(self.n, start + ROWS_AT_ONCE))
            m[items] = self.mixed_rows(items)
        return m[None]

    @cached_property
    def dense(self) -> DenseLengths | None:
        """What kernels need that mix rows themselves; None if these are not in memory."""
        if self.block is None:
            return None
        weights = self.raw_weights if self.is_linear else np.ones(1)
        return DenseLengths(self.block, weights, self.beta, self.link)

    @cached_property
    def edge_values(self) -> AnyArray | None:
        """The lengths of the edges of a sparse set, in their order; None for a complete graph."""
        if not isinstance(self.stack, EdgeStack):
            return None
        w = np.empty(len(self.stack.edges), self.stack.values.dtype)
        for start in range(0, len(w), EDGES_AT_ONCE):
            some = slice(start, start + EDGES_AT_ONCE)
            w[some] = self._of_edges(some)
        return w

    def _of_edges(self, chosen: slice | Indices) -> AnyArray:
        """Return the lengths of some edges of a sparse set, formed before or not."""
        formed = self.__dict__.get("edge_values")
        if formed is not None:
            return np.asarray(formed[chosen])
        m = self._mixed_edges(chosen)
        link_in_place(m, self.beta, self.link)
        w = m.astype(self.stack.values.dtype)  # type: ignore[attr-defined]
        if self.link == 1:  # positive in single precision too
            np.maximum(w, np.finfo(w.dtype).tiny, out=w)
        return w

    def _mixed_edges(self, chosen: slice | Indices) -> Floats:
        """Return m of some edges of a sparse set, before the link."""
        stack = self.stack
        assert isinstance(stack, EdgeStack)
        u, v = (ends[chosen].astype(np.int64) for ends in (stack.edges.tails, stack.edges.heads))
        return self.mixed.values(stack.values[:, chosen], u, v)

    @property
    def near_order(self) -> NearOrder:
        """The order of the items in which near items of a sparse edge set have near numbers."""
        assert self.edges is not None
        return self.edges.near_order

    def arcs(self, *, reverse: bool = False, near: bool = False) -> SparseLengths:
        """Return the lengths of the arcs of a sparse edge set, out of items or into them.

        Into items if `reverse`; with `near`, the items are in `near_order`. Formed once.
        """
        key = (reverse and self.directed, near)
        if key in self._arcs:
            return self._arcs[key]
        edges, w = self.edges, self.edge_values
        assert edges is not None
        assert w is not None
        if not near:
            indptr, ends, edge = edges.into if key[0] else edges.out
            arcs = SparseLengths(indptr, ends, w[edge])
        else:
            arcs = self.arcs(reverse=reverse)
            indptr, ends = edges.near_order.into if key[0] else edges.near_order.out
            if ends is not arcs.ends:
                lengths = np.empty_like(arcs.lengths)
                copy_rows(arcs.indptr, arcs.lengths, edges.near_order.order, lengths)
                arcs = SparseLengths(indptr, ends, lengths)
        self._arcs[key] = arcs
        return arcs

    def mixed_rows(self, items: Indices, *, reverse: bool = False) -> Floats:
        """Return m[items, :] before the link, or m[:, items].T when `reverse`; (len(items), n)."""
        if not self.is_linear or self.edges is not None:
            raw = self.stack.raw_rows(items, reverse=reverse)
            return self.mixed.values(raw, items[:, None], np.arange(self.n)[None])
        m = np.zeros((len(items), self.n))
        for weight, source in zip(self.raw_weights, self.stack.sources, strict=True):
            if weight != 0.0:  # source by source: together they take R times the memory
                values = source.columns(items) if reverse else source.rows(items)
                m += weight * values.astype(np.float64, copy=False)
        return m

    def mixed_blocks(self) -> Iterator[Floats]:
        """Yield m before the link, of all edges: some at a time."""
        if self.edges is not None:
            for start in range(0, len(self.edges), EDGES_AT_ONCE):
                yield self._mixed_edges(slice(start, start + EDGES_AT_ONCE))
        else:
            for start in range(0, self.n, ROWS_AT_ONCE):
                yield self.mixed_rows(np.arange(start, min(self.n, start + ROWS_AT_ONCE)))

    def rows(self, items: Indices, *, reverse: bool = False) -> Floats:
        """Return w[items, :], or w[:, items].T when `reverse`; shape (len(items), n).

        inf where a sparse set has no edge.
        """
        if self.edges is not None and self.edge_values is not None:
            known = EdgeSource(self.edges, self.edge_values)
            return np.asarray(known.columns(items) if reverse else known.rows(items))
        w = self.mixed_rows(items, reverse=reverse)
        link_in_place(w, self.beta, self.link)
        w[np.arange(len(items)), items] = 0.0
        return w

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return w[i, j] elementwise; inf where a sparse set has no edge."""
        if self.edges is not None:
            number = self.edges.find(i, j)
            known = number >= 0
            w = np.full(number.shape, np.inf)
            w[known] = self._of_edges(number[known])
        else:
            w = self.mixed.values(self.stack.raw_pairs(i, j), i, j)
            link_in_place(w, self.beta, self.link)
        w[i == j] = 0.0
        return w

    def floors(self) -> Floats:
        """Return lower bounds of the edges out of each item (row 0) and into it (row 1).

        Shape (2, n). The bounds follow from the range of every row of the sources, which a stack in
        memory computes once: O(R n) per mixture, no exponentials. Zeros for other stacks.
        """
        bounds = np.zeros((2, self.n))
        for side, reverse in enumerate((False, True) if self.directed else (False,)):
            searched = self.plain or not self.is_linear
            known = None if searched else self.stack.raw_range(reverse=reverse)
            if known is None:
                return bounds
            low, high = known
            m = np.maximum(self.raw_weights, 0.0) @ low + np.minimum(self.raw_weights, 0.0) @ high
            m -= 1e-12 * (np.abs(self.raw_weights) @ high)  # rounding must not lift a bound
            shift, slope = tangent_of(self.beta, self.link)
            bounds[side:] = np.maximum(np.maximum(m, shift + slope * m), 0.0)
        return bounds

    def edge_gradient(self, u: Indices, v: Indices, flow: Floats) -> Floats:
        r"""Return :math:`\sum_e f_e \, \sigma(\beta m_e) M_r[e] / s_r` over edges e, per weight.

        Of a local mixture by the common weights, then region by region.
        """
        sources = self.stack.raw_pairs(u, v)
        slope = link_derivative(self.mixed.values(sources, u, v), self.beta, self.mixture.link)
        gradient = self.mixed.gradient(sources, u, v, flow * slope)
        return self.in_mixture_order(gradient / self.stack.scales).ravel()

    def in_mixture_order(self, gradient: Floats) -> Floats:
        """Return derivatives by (scaled) source as derivatives by the mixture's own weights."""
        mixture, stack = self.mixture, self.stack
        scales = stack.scales
        if mixture.names is not None and mixture.names != stack.names:
            order = [stack.names.index(name) for name in mixture.names]
            gradient, scales = gradient[..., order], scales[order]
        own = mixture.scaling
        same = own is not None and np.array_equal(own, scales)
        return gradient if own is None or same else np.asarray(gradient * scales / own)

    def formed(self, *, n_jobs: int | None = None) -> EdgeLengths:
        """Return the same lengths as a matrix, for algorithms that read rows several times.

        Returns itself if it is a matrix already, if the sources are not in memory, or if the
        matrix would be too large.
        """
        if self.plain or self.block is None or self.n > FORMED_UP_TO:
            return self
        return lengths_of(self.matrix(n_jobs=n_jobs), directed=self.directed)

    def some_rows(self, start: int, stop: int, *, n_jobs: int | None = None) -> Floats:
        """Return w[start:stop, :]; by the kernel, on threads, where the sources are in memory."""
        dense = self.dense
        if dense is None:  # computed sources may not be safe to call from several threads
            return self.rows(np.arange(start, stop))
        w = np.empty((stop - start, self.n))
        threads = threads_for(self.n, n_jobs)
        step = max(1, -(-(stop - start) // (4 * threads)))

        def fill(first: int) -> None:
            part = w[first - start : first - start + step]
            form_lengths(*dense, first, part)

        in_threads(fill, range(start, stop, step), threads)
        return w

    def matrix(self, *, n_jobs: int | None = None) -> Floats:
        """Return all lengths as an (n, n) array; symmetric ones exactly so."""
        what, instead = "the matrix of all lengths", "take fewer items"
        check_square_fits(self.n, 8, what=what, argument="stack", instead=instead)
        if self.block is not None:
            w = self.some_rows(0, self.n, n_jobs=n_jobs)
        else:
            w = np.empty((self.n, self.n))
            for start in range(0, self.n, ROWS_AT_ONCE):
                stop = min(self.n, start + ROWS_AT_ONCE)
                w[start:stop] = self.some_rows(start, stop)
        if not self.directed:  # rows and columns of a source may differ by rounding
            np.minimum(w, w.T, out=w)
        return w


def edge_lengths(
    lengths: EdgeLengths | DissimilarityStack | ArrayLike,
    mixture: Mixture | ArrayLike | None = None,
    *,
    directed: bool = False,
) -> EdgeLengths:
    """Return edge lengths from a stack with weights, or from a matrix of lengths.

    Parameters
    ----------
    lengths : DissimilarityStack, (n, n) array, or EdgeLengths
        In a matrix, inf is no edge.
    mixture : Mixture, solver result, array of R weights, or mapping of source names to weights
        Needed for a stack (bare weights mean softplus, beta = 1); refused for a matrix, whose
        entries are the lengths.
    directed : bool
        For a matrix only; a stack says so itself.
    """
    if isinstance(lengths, EdgeLengths):
        return lengths
    if isinstance(lengths, DissimilarityStack):
        if mixture is None:
            raise InputError(
                argument="mixture", expected="a Mixture or weights for the stack", found="None"
            )
        made = EdgeLengths(lengths, as_mixture(mixture))
        if made.mixture.link == "identity":
            check_nonnegative(made)
        return made
    if mixture is not None:
        raise InputError(
            "weights go with a DissimilarityStack",
            argument="mixture",
            remedy="a matrix of edge lengths takes none",
        )
    w = check_square(lengths, name="lengths", directed=directed, allow_infinite=True)
    return lengths_of(w if directed else symmetrized(w), directed=directed)


def check_nonnegative(lengths: EdgeLengths) -> None:
    """Raise if the mixture is negative for some edge: such values are not edge lengths."""
    if lengths.mixed.keeps_metrics:
        return
    before = 0
    for m in lengths.mixed_blocks():
        if m.size and m.min() < -1e-9 * np.abs(m).max():
            at, edges = before + int(m.argmin()), lengths.edges
            i, j = divmod(at, lengths.n) if edges is None else (edges.tails[at], edges.heads[at])
            raise InputError(
                "link='identity' needs a mixture that is nowhere negative, found "
                f"{m.min():.6g} at ({i}, {j})",
                argument="mixture",
                remedy="use link='softplus'",
            )
        before += m.size


def check_finite_lengths(
    stack: DissimilarityStack, mixture: Mixture, *, verify: bool = True
) -> None:
    """Raise unless a stored mixture gives finite lengths >= 0, and paths of finite length.

    `verify` says whether to read all values; without it sources count as at most 1.
    """
    largest = [largest_value(source) if verify else 1.0 for source in stack.sources]
    lengths = EdgeLengths(stack, mixture)
    longest = np.log(2) / mixture.beta + lengths.mixed.bound(np.array(largest, np.float64))
    sound = np.isfinite(stack.n_items * longest) and np.isfinite(lengths.raw_weights).all()
    require(sound, "expected finite edge lengths >= 0")
    if mixture.link == "identity" and verify and not lengths.mixed.keeps_metrics:
        least = min(float(m.min(initial=0.0)) for m in lengths.mixed_blocks())
        require(least >= -1e-9 * longest, "expected finite edge lengths >= 0")


def largest_value(source: Source) -> float:
    """Return the largest value of a source in memory, or of predictions; 1 for others."""
    if isinstance(source, EdgeSource):
        return float(source.values.max(initial=0.0))
    if isinstance(source, PredictedSource) and source.is_numeric:
        return float(np.ptp(source.values))
    return float(source.matrix.max()) if isinstance(source, DenseSource) else 1.0


def lengths_of(w: AnyArray, *, directed: bool) -> EdgeLengths:
    """Return a valid matrix of lengths as :class:`EdgeLengths`, without copying it."""
    stack = DissimilarityStack.from_block(np.ascontiguousarray(w)[None], ["length"], directed)
    lengths = EdgeLengths(stack, Mixture([1.0], link="identity"))
    lengths.plain = True
    return lengths
