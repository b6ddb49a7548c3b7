r"""What is predicted of items, and how far apart two predictions are.

====================  ============================================================================
class probabilities   the Hellinger distance :math:`\sqrt{1 - \sum_c \sqrt{p_c(i)\, p_c(j)}}`, in
                      [0, 1]
numbers               the difference :math:`|f(i) - f(j)|`
====================  ============================================================================

Both are pseudo-metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.feature_rows import FeatureRows
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts, facts, states
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.state import checked_state, require, stored
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array

__all__ = [
    "PredictedSource",
    "ProbabilitySource",
    "check_distributions",
    "check_predictions",
    "corner_distances",
    "hellinger",
    "is_useful",
    "moved_in",
    "prediction_differences",
    "prepared",
    "unknown_values",
]

FEWEST_TARGETS = 4
"""Known targets below which nothing is fitted."""
STATE = {"name": str | None, "values": Floats}
"""What is stored of a source."""


@states(SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n C)"))
def hellinger(p: Floats, q: Floats) -> Floats:
    """Return the Hellinger distances of the rows of `p` and `q`.

    >>> hellinger(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    difference = np.sqrt(p) - np.sqrt(q)
    return np.asarray(np.sqrt((difference * difference).sum(axis=-1) / 2.0))


def corner_distances(p: Floats) -> Floats:
    r"""Return the Hellinger distances from distributions to certainty of each class, (m, C).

    .. math:: \sqrt{1 - \sqrt{p_c}}

    The nearest corner is that of the likeliest class.

    >>> corner_distances(np.array([[1.0, 0.0], [0.25, 0.75]])).round(3)
    array([[0.   , 1.   ],
           [0.707, 0.366]])
    """
    return np.asarray(np.sqrt(np.maximum(1.0 - np.sqrt(p), 0.0)))


@states(SourceFacts("pseudo-metric", row_cost="O(n)"))
def prediction_differences(f: Floats, g: Floats) -> Floats:
    """Return |f - g|.

    >>> prediction_differences(np.array([1.0, 4.0]), np.array([3.0, 4.0]))
    array([2., 0.])
    """
    return np.asarray(np.abs(f - g))


# -- what a model is fitted to, and whether it helps -----------------------------------------------


def unknown_values(n: int, n_classes: int) -> Floats:
    """Return the values of n items of which nothing is known: equal probabilities, or zeros."""
    return np.full((n, n_classes), 1.0 / n_classes) if n_classes else np.zeros(n)


def prepared(known: Known) -> Known | None:
    """Return what models are fitted to, None where too little is known.

    That is also so where all labels are of one group, without which there is none. Far targets are
    clipped first (:func:`moved_in`).
    """
    if known.n_groups < 2 <= len(known.items):
        return None
    if not known.is_numeric:
        return known if known.mask.any() else None
    if len(known.items) < FEWEST_TARGETS:
        return None
    values = known.values.copy()
    values[known.items] = moved_in(known.y)
    return known.with_values(values)


def moved_in(known: Floats) -> Floats:
    r"""Return targets with far ones replaced by the smallest or largest that is not far.

    Those outside

    .. math:: [\, q_1 - 10\,(q_3 - q_1),\; q_3 + 10\,(q_3 - q_1) \,]

    are far, with the quartiles :math:`q_1, q_3`. Where half of the targets are equal, the quartiles
    are those of the others, as long as these are a tenth of all.

    >>> moved_in(np.array([1.0, 2.0, 3.0, 4.0, 1e6]))
    array([1., 2., 3., 4., 4.])
    """
    low, high = np.percentile(known, [25, 75])
    if low == high:
        others = known[known != low]
        if len(others) < 0.1 * len(known):
            return known
        first, last = np.percentile(others, [25, 75])
        low, high = min(low, first), max(high, last)
    far = 10.0 * (high - low)
    near = known[(known >= low - far) & (known <= high + far)]
    return np.asarray(np.clip(known, near.min(), near.max()))


def is_useful(values: Floats, known: Known, weights: Floats | None) -> bool:
    """Return whether cross-fitted values say more than the same of all items.

    Class probabilities always do: weights are learned by how well they tell classes apart. Numbers
    do if those of held-out items are nearer to the targets than their mean is.
    """
    if not known.is_numeric:
        return True
    y, own = known.y, None if weights is None else weights[known.items]
    errors = np.square(values[known.items] - y)
    spread = np.square(y - np.average(y, weights=own))
    smaller = np.average(errors, weights=own) < np.average(spread, weights=own)
    return bool(smaller and np.isfinite(values).all())


ROUNDING = 1e-9
"""Differences of probabilities that say nothing: scaled, they would count like any others."""


def without_rounding(p: Floats) -> Floats:
    """Return distributions, equal ones if they differ by rounding only."""
    rounded = bool((np.ptp(p, axis=0) <= ROUNDING).all())
    return np.repeat(p[:1], len(p), axis=0) if rounded else p


# -- sources ---------------------------------------------------------------------------------------


@stored("PredictedSource")
class PredictedSource(Source):
    """Distances between what is predicted of two items, computed on demand.

    Parameters
    ----------
    values : (n, C) or (n,) array
        Class probabilities, or numbers.
    name : str or None

    Attributes
    ----------
    is_numeric : bool
        Whether numbers are predicted.
    """

    in_class_order = False
    """Whether columns are known to be the classes of the labels, in their order."""

    def __init__(self, values: Floats, name: str | None) -> None:
        self.name, self.n, self.is_numeric = name, len(values), values.ndim == 1
        self.facts = facts("prediction_differences" if self.is_numeric else "hellinger")
        self.values = values if self.is_numeric else np.maximum(values, 0.0)
        if not self.is_numeric:
            self._distances = FeatureRows(np.sqrt(self.values / 2.0), "euclidean", {})

    @cached_property
    def to_corners(self) -> Floats | None:  # type: ignore[override]
        """How far each item is from certainty of each class, (n, C); None for numbers."""
        known = self.in_class_order and not self.is_numeric
        return corner_distances(self.values) if known else None

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        if self.is_numeric:
            return np.abs(self.values[indices][:, None] - self.values)
        return self._distances.rows(indices)

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        if self.is_numeric:
            return np.abs(self.values[i][:, None] - self.values[j])
        return self._distances.between(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        if self.is_numeric:
            return np.abs(self.values[i] - self.values[j])
        return self._distances.pairs(i, j)

    def cross(self, values: Floats) -> Floats:
        """Return the distances from m items with other values, (m, n)."""
        if self.is_numeric:
            return np.abs(values[:, None] - self.values)
        return self._distances.cross(np.sqrt(values / 2.0))

    def to_state(self) -> dict[str, Any]:
        """Return the predictions."""
        return {"name": self.name, "values": self.values}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> PredictedSource:
        """Return the source of stored predictions."""
        name, values = checked_state(state, STATE, "a source").values()
        return PredictedSource(check_predictions(values, name), name)

    def extended(self, values: Floats) -> PredictedSource:
        """Return the source with more items, of given values."""
        longer = PredictedSource(np.concatenate([self.values, values]), self.name)
        longer.in_class_order = self.in_class_order
        return longer


@stored("ProbabilitySource")
class ProbabilitySource(PredictedSource):
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
        table = check_distributions(probabilities, name="probabilities")
        super().__init__(table, name)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ProbabilitySource:
        """Return the source of stored probabilities."""
        name, values = checked_state(state, STATE, "a source").values()
        return cls(values, name=name)


def check_predictions(values: Floats, name: str | None) -> Floats:
    """Return predictions that a file holds: rows that are distributions, or finite numbers."""
    if values.ndim == 2:
        return check_distributions(values, name=f"probabilities of {name!r}")
    sound = values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all())
    require(sound, f"expected a prediction for every item, of source {name!r}")
    return values


def check_distributions(probabilities: Any, *, name: str) -> Floats:
    """Return class probabilities (n, C) as float64, if every row is >= 0 and of sum 1.

    Sums may be 0.001 from 1; rows are then divided by them.

    >>> check_distributions([[0.25, 0.75]], name="probabilities")
    array([[0.25, 0.75]])
    """
    table = as_float_array(probabilities, name=name).astype(np.float64)
    if table.ndim != 2 or 0 in table.shape:
        expected = "a row per item and a column per class"
        raise InputError(argument=name, expected=expected, found=f"shape {table.shape}")
    sums = table.sum(axis=1)
    wrong = ~(np.isfinite(sums) & (table.min(axis=1) >= 0) & (np.abs(sums - 1) <= 1e-3))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InputError(
            argument=name,
            expected="rows that are distributions, >= 0 and of sum 1",
            found=f"{np.array2string(table[first], precision=4, threshold=8)} in row {first}",
        )
    rounded = np.abs(sums - 1).max() > 1e-12  # dividing again would change the last digits
    return np.asarray(table / sums[:, None]) if rounded else table
