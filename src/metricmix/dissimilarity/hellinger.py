"""Hellinger distances between class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.features import FeatureRows
from metricmix.dissimilarity.matrix import SourceFacts, facts, states
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array

__all__ = ["ProbabilitySource", "check_distributions", "hellinger"]

SUM_TOLERANCE = 1e-3
"""How far from 1 the sum of probabilities may be; they are then divided by it."""
ROUNDING = 1e-12
"""How far the sum may be from 1 to count as 1."""


@states(SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n C)"))
def hellinger(p: Floats, q: Floats) -> Floats:
    """Return the Hellinger distances of the rows of `p` and `q`.

    >>> hellinger(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    difference = np.sqrt(p) - np.sqrt(q)
    return np.asarray(np.sqrt((difference * difference).sum(axis=-1) / 2.0))


class ProbabilitySource(Source):
    """Hellinger distances between class probabilities, computed on demand.

    For a classifier that was trained elsewhere. Labelled items need *out-of-fold* probabilities,
    such as ``sklearn.model_selection.cross_val_predict(classifier, X, y, method="predict_proba")``
    returns: from models that have not seen their label. The table stays as it is, also where a
    cross-validation holds labels out that it knows; :func:`~metricmix.dissimilarity.supervised`
    fits the classifier in every fold.

    Parameters
    ----------
    probabilities : (n, C) array
        A row per item, >= 0 and of sum 1.
    name : str, optional

    Raises
    ------
    InputError
        If a row is not a distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.dissimilarity import ProbabilitySource
    >>> ProbabilitySource([[1, 0], [0.5, 0.5], [0, 1]]).rows(np.array([0])).round(3)
    array([[0.   , 0.541, 1.   ]])
    """

    def __init__(self, probabilities: ArrayLike, *, name: str | None = "probabilities") -> None:
        self.name = name
        self._hold(check_distributions(probabilities, name="probabilities"))

    def _hold(self, probabilities: Floats) -> None:
        self.probabilities, self.n = probabilities, len(probabilities)
        self.facts = facts("hellinger")
        self._distances = FeatureRows(np.sqrt(probabilities / 2.0), "euclidean", {})

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return self._distances.rows(indices)

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return self._distances.between(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        return self._distances.pairs(i, j)

    def cross(self, probabilities: Floats) -> Floats:
        """Return the distances from m items with other probabilities (m, C), (m, n)."""
        return self._distances.cross(np.sqrt(probabilities / 2.0))

    def extended(self, probabilities: Floats) -> ProbabilitySource:
        """Return the source with more items, of given probabilities (m, C)."""
        return ProbabilitySource(np.vstack([self.probabilities, probabilities]), name=self.name)


def check_distributions(probabilities: Any, *, name: str) -> Floats:
    """Return class probabilities (n, C) as float64, if every row is >= 0 and of sum 1.

    >>> check_distributions([[0.25, 0.75]], name="probabilities")
    array([[0.25, 0.75]])
    """
    table = as_float_array(probabilities, name=name).astype(np.float64)
    if table.ndim != 2 or 0 in table.shape:
        expected = "a row per item and a column per class"
        raise InputError(argument=name, expected=expected, found=f"shape {table.shape}")
    sums = table.sum(axis=1)
    wrong = ~(np.isfinite(sums) & (table.min(axis=1) >= 0) & (np.abs(sums - 1) <= SUM_TOLERANCE))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InputError(
            argument=name,
            expected="rows that are distributions, >= 0 and of sum 1",
            found=f"{np.array2string(table[first], precision=4, threshold=8)} in row {first}",
        )
    rounded = np.abs(sums - 1).max() > ROUNDING  # dividing again would change the last digits
    return np.asarray(table / sums[:, None]) if rounded else table
