r"""Pairs that a source does not know, and items that it does not have.

In the place of an unknown value stands what the other sources say,

.. math:: \hat M_r(i, j) = \frac{1}{|Q_{ij}|} \sum_{q \in Q_{ij}} c_{rq}\, M_q(i, j), \qquad
          c_{rq} = \frac{\sum_K M_r}{\sum_K M_q},

where :math:`Q_{ij}` are the sources that know the pair, and K are pairs that both r and q know (at
most 16 384 of them, drawn at random); the largest known value of r if no source knows the pair. It
is then brought within what the known pairs of the source leave open by triangle inequalities,

.. math:: \max_k \, |M_r(i, k) - P_r(k, j)| \;\le\; \hat M_r(i, j) \;\le\; P_r(i, j),

P_r being the lengths of shortest paths along its known pairs. Where much is known, these bounds are
near each other; where little is, the others decide.

So :math:`\sum_r \alpha_r M_r` remains linear in the weights, whatever their signs, and solvers need
nothing else. With equal weights, an edge to an item that a source does not have gets the mean
length by the sources that know it, as in Gower's coefficient. Such values may violate triangle
inequalities: the shortest-path projection takes ways through other items where these are shorter.
Predictions from labels do not count as knowing a pair: they change with the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import min_plus
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
    judges = [one for one in others if not one.supervised]
    of_judges = ratios_to(source, judges)
    lower, upper = bounds(matrix, directed=directed)
    largest, found = float(np.nanmax(matrix)), matrix.copy()
    step = max(1, ROWS_AT_ONCE // len(matrix))
    for start in range(0, len(matrix), step):
        part = np.arange(start, min(start + step, len(matrix)))
        unknown = np.isnan(matrix[part])
        if unknown.any():
            said = mean_of_known([one.rows(part) for one in judges], of_judges, largest)
            said = np.clip(said, lower[part], upper[part])
            found[part] = np.where(unknown, said, matrix[part])
    np.fill_diagonal(found, 0.0)
    if not directed:
        found = symmetrized(found)
    return DenseSource(found, directed=directed, like=source)


def bounds(matrix: AnyArray, *, directed: bool) -> tuple[Floats, Floats]:
    """Return what known pairs leave open by triangle inequalities: the ends, (n, n) each."""
    from metricmix.paths.floyd_warshall import close_in_place  # its package imports this one

    unknown = np.isnan(matrix)
    known = np.where(unknown, np.inf, matrix).astype(np.float64)
    upper = known.copy()
    close_in_place(upper, symmetric=not directed)
    minus = np.where(unknown, np.inf, -known)
    lower = -min_plus(minus, upper.T)
    lower = np.maximum(lower, (lower if not directed else -min_plus(minus.T, upper)).T)
    return np.clip(lower, 0.0, upper), upper


def ratios_to(source: DenseSource, judges: Sequence[Source]) -> Floats:
    """Return how many times as large a source is as each other one, where both know pairs."""
    places = np.flatnonzero(~np.isnan(source.matrix.ravel()))
    places = places[places // source.n != places % source.n]
    if len(places) > SAMPLE:
        places = np.sort(np.random.default_rng(0).choice(places, SAMPLE, replace=False))
    i, j = places // source.n, places % source.n
    return ratios(source.pairs(i, j), [judge.pairs(i, j) for judge in judges])


def ratios(own: AnyArray, others: Sequence[AnyArray]) -> Floats:
    """Return the ratios of sums over what is known of both; NaN where nothing is.

    >>> ratios(np.array([2.0, 4.0, 9.0]), [np.array([1.0, 2.0, np.nan]), np.full(3, np.nan)])
    array([ 2., nan])
    """
    found = np.full(len(others), np.nan)
    for q, theirs in enumerate(others):
        both = ~np.isnan(theirs)
        if theirs[both].sum() > 0:
            found[q] = own[both].sum() / theirs[both].sum()
    return found


def fill_new_rows(rows: Sequence[AnyArray], stack: DissimilarityStack) -> list[AnyArray]:
    """Return the rows (m, n) of new items by every source of a stack, with values for all pairs."""
    if not any(np.isnan(given).any() for given in rows):
        return list(rows)
    n = stack.n_items
    i, j = np.random.default_rng(0).integers(n, size=(2, SAMPLE))
    values = stack.raw_pairs(i, j)
    judges = [q for q in range(stack.n_sources) if stack.names[q] not in stack.supervised]
    complete = list(rows)
    for r, given in enumerate(rows):
        unknown = np.isnan(given)
        if unknown.any():
            own = stack.select([r]).raw_rows(np.arange(n))[0].astype(np.float64)
            row, minus = np.where(unknown, np.inf, given), np.where(unknown, np.inf, -given)
            upper = min_plus(row, own)
            lower = np.maximum(-min_plus(minus, own), -min_plus(row, -own))
            factors = ratios(values[r], [values[q] for q in judges])
            said = mean_of_known([rows[q] for q in judges], factors, float(values[r].max()))
            complete[r] = np.where(unknown, np.clip(said, np.minimum(lower, upper), upper), given)
    return complete


def mean_of_known(values: Sequence[AnyArray], factors: ArrayLike, otherwise: float) -> Floats:
    """Return the mean of what several sources say, each times a factor, where one knows it.

    >>> mean_of_known([np.array([1.0, 2.0, np.nan]), np.array([5.0, np.nan, np.nan])], [1, 2], 9.0)
    array([5.5, 2. , 9. ])
    """
    total, count = np.zeros(()), np.zeros(())
    for theirs, factor in zip(values, np.asarray(factors), strict=True):
        said = np.asarray(theirs, np.float64) * factor
        known = ~np.isnan(said)
        total, count = total + np.where(known, said, 0.0), count + known
    return np.where(count > 0, total / np.maximum(count, 1), otherwise)
