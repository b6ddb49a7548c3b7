r"""How far the path metric over sparse edges lies above the one over all pairs.

.. math:: s_{ij} = d^{E}_{ij} / d_{ij} \ge 1

where :math:`d^E` is the length of the shortest path along the edges of a set, and d the one between
any two items, for the same weights. A search for d asks for many rows of all sources. Two of them
are enough for a bound: a path of several edges is as long as its first and its last one at least,

.. math:: d_{ij} \ge \min\Big(w_{ij},\; \min_{u \ne i} w_{iu} + \min_{v \ne j} w_{vj}\Big)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE, EdgeLengths, edge_lengths
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.pair import shortest_paths
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer

__all__ = ["Stretch", "stretch"]

SAMPLE = 1000
"""Items beside those of the pairs that paths between any two items may lead through."""


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
