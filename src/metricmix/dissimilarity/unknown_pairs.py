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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import min_plus
from metricmix.metric import smallest_entries
from metricmix.typing import AnyArray, Floats
from metricmix.validation import symmetrized

if TYPE_CHECKING:
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = ["fill_new_rows", "filled", "known_both_ways", "with_unknown_filled"]

SAMPLE = 1 << 14
"""Pairs by which two sources are compared."""
ROWS_AT_ONCE = 1 << 22
"""Values of whole rows that are filled together."""


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
