r"""Pairs that a source does not know, and items that it does not have.

An unknown value of source r is estimated from the other sources,

.. math:: \hat M_r(i, j) = \frac{1}{|Q_{ij}|} \sum_{q \in Q_{ij}} c_{rq}\, M_q(i, j), \qquad
          c_{rq} = \frac{\sum_K M_r}{\sum_K M_q},

where :math:`Q_{ij}` are the sources that know the pair, and K are pairs that both r and q know (at
most 16 384 of them, drawn at random). If no source knows the pair, the estimate is the largest
known value of r. It is then clipped to what the triangle inequality leaves open, given the known
pairs :math:`K_r` of the source,

.. math:: \max_{uv \in K_r} M_r(u, v) - P_r(u, i) - P_r(j, v) \;\le\; \hat M_r(i, j)
          \;\le\; P_r(i, j),

with the lengths :math:`P_r` of shortest paths along known pairs. If most pairs are known, this
interval is short, and other sources hardly matter; if few are, they decide.

So :math:`\sum_r \alpha_r M_r` remains linear in the weights, whatever their signs, and solvers need
no change. With equal weights, an edge to an item that a source does not have gets the mean length
by the sources that know it, as in Gower's coefficient. Estimates may violate triangle inequalities;
the shortest-path projection repairs these. Sources that predict labels are not used for estimates,
since they change with the labels.

Over sparse edges, K are edges, and the bounds are those of the common neighbours of i and j alone,

.. math:: \max_k\, |M_r(i, k) - M_r(k, j)| \;\le\; \hat M_r(i, j)
          \;\le\; \min_k\, \bigl(M_r(i, k) + M_r(k, j)\bigr),

which take :math:`\min(\deg i, \deg j) \log \deg` steps an edge, where bounds by all paths take a
search. On edges between near items they matter more than among all pairs: what joins two items by
one source may be far by another, so that estimates without bounds are worse than the mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_set import Arcs, EdgeSet
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.minplus import min_plus
from metricmix.memory import check_room
from metricmix.metric import smallest_entries
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import symmetrized

if TYPE_CHECKING:
    from metricmix.dissimilarity.edge_stack import EdgeStack
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = [
    "fill_new_edges",
    "fill_new_rows",
    "filled",
    "filled_on_edges",
    "known_both_ways",
    "with_unknown_filled",
]

SAMPLE = 1 << 14
"""Pairs by which two sources are compared."""
ROWS_AT_ONCE = 1 << 22
"""Values that are filled together: of whole rows, or those of all sources on some edges."""


def known_both_ways(matrix: Any, name: str, *, directed: bool) -> AnyArray:
    """Return a matrix with NaN where neither of two mirrored entries is known, 0 on the diagonal.

    InputError if nothing else is known.
    """
    known = np.array(matrix, copy=True)
    if not directed:
        known = np.where(np.isnan(known), known.T, known)
    np.fill_diagonal(known, 0.0)
    if len(known) > 1 and np.isnan(known).sum() == known.size - len(known):
        raise InputError(argument=name, expected="a pair that is known", found="NaN for all")
    return known


def with_unknown_filled(parts: Sequence[Source], *, directed: bool) -> list[Source]:
    """Return sources with values for all pairs; those that know all of them as they are."""
    complete = list(parts)
    for r, part in enumerate(parts):
        if isinstance(part, DenseSource) and part.n_unknown:
            others = [one for q, one in enumerate(parts) if q != r]
            complete[r] = filled(part, others, directed=directed)
    return complete


def filled(source: DenseSource, others: Sequence[Source], *, directed: bool) -> DenseSource:
    """Return a source with values for the pairs that it does not know."""
    matrix = source.matrix
    others = [one for one in others if not one.supervised]
    factors = ratios_to(source, others)
    lower, upper = bounds(matrix, directed=directed)
    largest, found = float(np.nanmax(matrix)), matrix.copy()
    step = max(1, ROWS_AT_ONCE // len(matrix))
    for start in range(0, len(matrix), step):
        part = np.arange(start, min(start + step, len(matrix)))
        unknown = np.isnan(matrix[part])
        if unknown.any():
            mean = mean_of_known([one.rows(part) for one in others], factors, largest)
            estimate = np.clip(mean, lower[part], upper[part])
            found[part] = np.where(unknown, estimate, matrix[part])
    np.fill_diagonal(found, 0.0)
    if not directed:
        found = symmetrized(found)
    return DenseSource(found, directed=directed, like=source)


def bounds(matrix: AnyArray, *, directed: bool) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value that the triangle inequality allows, (n, n)."""
    from metricmix.paths.floyd_warshall import close_in_place  # its package imports this one

    unknown = np.isnan(matrix)
    upper = np.where(unknown, np.inf, matrix).astype(np.float64)
    close_in_place(upper, symmetric=not directed)
    lower = smallest_entries(np.where(unknown, 0.0, matrix), upper, directed)
    return np.clip(lower, 0.0, upper), upper


def ratios_to(source: DenseSource, others: Sequence[Source]) -> Floats:
    """Return how many times as large a source is as each other one, where both know pairs."""
    places = np.flatnonzero(~np.isnan(source.matrix.ravel()))
    places = places[places // source.n != places % source.n]
    if len(places) > SAMPLE:
        places = np.sort(np.random.default_rng(0).choice(places, SAMPLE, replace=False))
    i, j = places // source.n, places % source.n
    return ratios(source.pairs(i, j), [one.pairs(i, j) for one in others])


def ratios(own: AnyArray, others: Sequence[AnyArray]) -> Floats:
    """Return the ratios of sums over what is known of both; NaN where nothing is.

    >>> ratios(np.array([2.0, 4.0, 9.0]), [np.array([1.0, 2.0, np.nan]), np.full(3, np.nan)])
    array([ 2., nan])
    """
    found = np.full(len(others), np.nan)
    for q, other in enumerate(others):
        both = ~np.isnan(other)
        if other[both].sum() > 0:
            found[q] = own[both].sum() / other[both].sum()
    return found


def fill_new_rows(rows: Sequence[AnyArray], stack: DissimilarityStack) -> list[AnyArray]:
    """Return the rows (m, n) of new items by every source of a stack, with values for all pairs."""
    if not any(np.isnan(given).any() for given in rows):
        return list(rows)
    n = stack.n_items
    i, j = np.random.default_rng(0).integers(n, size=(2, SAMPLE))
    values = stack.raw_pairs(i, j)
    others = [q for q in range(stack.n_sources) if stack.names[q] not in stack.supervised]
    complete = list(rows)
    for r, given in enumerate(rows):
        unknown = np.isnan(given)
        if unknown.any():
            own = stack.select([r]).raw_rows(np.arange(n))[0].astype(np.float64)
            row, minus = np.where(unknown, np.inf, given), np.where(unknown, np.inf, -given)
            upper = min_plus(row, own)
            lower = np.maximum(-min_plus(minus, own), -min_plus(row, -own))
            factors = ratios(values[r], [values[q] for q in others])
            mean = mean_of_known([rows[q] for q in others], factors, float(values[r].max()))
            estimate = np.clip(mean, np.minimum(lower, upper), upper)
            complete[r] = np.where(unknown, estimate, given)
    return complete


def mean_of_known(values: Sequence[AnyArray], factors: ArrayLike, otherwise: float) -> Floats:
    """Return the mean of several arrays, each times a factor, over those that are not NaN.

    >>> mean_of_known([np.array([1.0, 2.0, np.nan]), np.array([5.0, np.nan, np.nan])], [1, 2], 9.0)
    array([5.5, 2. , 9. ])
    """
    total, count = np.zeros(()), np.zeros(())
    for array, factor in zip(values, np.asarray(factors), strict=True):
        scaled = np.asarray(array, np.float64) * factor
        known = ~np.isnan(scaled)
        total, count = total + np.where(known, scaled, 0.0), count + known
    return np.where(count > 0, total / np.maximum(count, 1), otherwise)


# -- sparse edges ----------------------------------------------------------------------------------


def filled_on_edges(
    values: AnyArray, edges: EdgeSet, supervised: Collection[int] = ()
) -> tuple[AnyArray, tuple[int, ...]]:
    """Return values on edges (R, E) without NaN, and how many of them each source did not know.

    `supervised` are the numbers of sources that predict labels. Values that are all known are
    returned as they are, others as a copy; in memory then, also if they were a memory map.

    Raises
    ------
    InputError
        If a source knows no edge.
    TooLargeError
        If the copy does not fit into memory.
    """
    counts = tuple(int(np.isnan(row).sum()) for row in values)
    if not any(counts):
        return values, counts
    check_room(
        float(values.nbytes),
        what="values with estimates of the unknown ones",
        instead="pass values without NaN, which are used without a copy",
        argument="values",
    )
    found = np.array(values)
    for r in np.flatnonzero(counts).tolist():
        own = values[r]
        places = np.flatnonzero(~np.isnan(own))
        if not len(places):
            raise InputError(
                argument=f"values[{r}]", expected="a value that is known", found="NaN for all"
            )
        if len(places) > SAMPLE:
            places = np.sort(np.random.default_rng(0).choice(places, SAMPLE, replace=False))
        others = [q for q in range(len(values)) if q != r and q not in supervised]
        factors = ratios(own[places], [values[q][places] for q in others])
        largest, unknown = float(np.nanmax(own)), np.flatnonzero(np.isnan(own))
        step = max(1, ROWS_AT_ONCE // len(values))
        for start in range(0, len(unknown), step):
            part = unknown[start : start + step]
            mean = mean_of_known([values[q][part] for q in others], factors, largest)
            lower, upper = np.empty((2, len(part)))
            two_hop_bounds(part, edges.tails, edges.heads, edges.out, edges.into, own, lower, upper)
            found[r, part] = np.clip(mean, np.minimum(lower, upper), upper)
    return found, counts


def fill_new_edges(cross: CrossEdges, stack: EdgeStack) -> CrossEdges:
    """Return the edges of new items to those of a stack, with values for all of them."""
    values = cross.values
    if not np.isnan(values).any():
        return cross
    supervised = {stack.position_of(name) for name in stack.supervised}
    others = [q for q in range(len(values)) if q not in supervised]
    some, found = np.arange(stack.values.shape[1]), values.copy()
    if len(some) > SAMPLE:
        some = np.sort(np.random.default_rng(0).choice(some, SAMPLE, replace=False))
    row = np.repeat(np.arange(len(cross)), np.diff(cross.indptr))
    arcs = Arcs(cross.indptr, cross.ends.astype(np.int32), np.arange(len(cross.ends)))
    edges = stack.edges
    for r in np.flatnonzero(np.isnan(values).any(axis=1)).tolist():
        own, given = stack.values[r], values[r]
        part = np.flatnonzero(np.isnan(given))
        factors = ratios(own[some], [stack.values[q][some] for q in others])
        mean = mean_of_known([values[q][part] for q in others], factors, float(own.max()))
        lower, upper = np.empty((2, len(part)))
        new_bounds(
            row[part],
            cross.ends[part],
            arcs,
            given,
            edges.out,
            edges.into,
            own,
            edges.directed,
            lower,
            upper,
        )
        found[r, part] = np.clip(mean, np.minimum(lower, upper), upper)
    return CrossEdges(
        cross.indptr, cross.ends, found, cross.names, cross.shape[1], cross.column_items
    )


@kernel_step
def least(
    first: Arcs, u: int, a: AnyArray, second: Arcs, v: int, b: AnyArray, sign: float
) -> float:
    """Return the smallest a_k + sign b_k over the items k to which both u and v have an arc."""
    best = np.inf
    low, end = first.indptr[u], first.indptr[u + 1]
    start, stop = second.indptr[v], second.indptr[v + 1]
    few = end - low <= stop - start
    if few:
        x, last, y, behind = low, end, start, stop
    else:
        x, last, y, behind = start, stop, low, end
    one = first.ends if few else second.ends
    other = second.ends if few else first.ends
    while x < last and y < behind:
        k = one[x]
        high = behind
        while y < high:  # where k is among the others, of which there are more
            middle = (y + high) // 2
            if other[middle] < k:
                y = middle + 1
            else:
                high = middle
        if y < behind and other[y] == k:
            p, q = (x, y) if few else (y, x)
            length = a[first.edge[p]] + sign * b[second.edge[q]]
            if length < best:  # not where one of them is NaN
                best = length
        x += 1
    return best


@kernel
def two_hop_bounds(
    some: Indices,
    tails: AnyArray,
    heads: AnyArray,
    out: Arcs,
    into: Arcs,
    values: AnyArray,
    lower: Floats,
    upper: Floats,
) -> None:
    """Fill in what the known values of two edges over a common neighbour allow, for some edges."""
    for x in range(some.shape[0]):
        u, v = tails[some[x]], heads[some[x]]
        upper[x] = least(out, u, values, into, v, values, 1.0)
        low = min(
            least(out, v, values, out, u, values, -1.0),
            least(into, u, values, into, v, values, -1.0),
        )
        lower[x] = max(0.0, -low)


@kernel
def new_bounds(
    row: Indices,
    ends: AnyArray,
    arcs: Arcs,
    given: AnyArray,
    out: Arcs,
    into: Arcs,
    own: AnyArray,
    directed: bool,
    lower: Floats,
    upper: Floats,
) -> None:
    """Fill in the same for edges from new items, which have `arcs` with the values `given`."""
    for x in range(row.shape[0]):
        u, v = row[x], ends[x]
        upper[x] = least(arcs, u, given, into, v, own, 1.0)
        low = least(out, v, own, arcs, u, given, -1.0)
        if not directed:
            low = min(low, least(arcs, u, given, into, v, own, -1.0))
        lower[x] = max(0.0, -low)
