r"""What is predicted of items, and how far apart two predictions are.

Two implementations of one idea, :class:`Prediction`:

============================  ====================================================================
:class:`ClassProbabilities`   p: the Hellinger distance
                              :math:`\sqrt{1 - \sum_c \sqrt{p_c(i)\, p_c(j)}}`, in [0, 1]
:class:`PredictedNumbers`     f: the difference :math:`|f(i) - f(j)|`
============================  ====================================================================

Both are pseudo-metrics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.feature_rows import FeatureRows
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts, facts, states
from metricmix.dissimilarity.ridge import moved_in
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.state import checked_state, require, stored
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array

__all__ = [
    "ClassProbabilities",
    "PredictedNumbers",
    "PredictedSource",
    "Prediction",
    "ProbabilitySource",
    "check_distributions",
    "checked_prediction",
    "hellinger",
    "prediction_differences",
]

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


@states(SourceFacts("pseudo-metric", row_cost="O(n)"))
def prediction_differences(f: Floats, g: Floats) -> Floats:
    """Return |f - g|.

    >>> prediction_differences(np.array([1.0, 4.0]), np.array([3.0, 4.0]))
    array([2., 0.])
    """
    return np.asarray(np.abs(f - g))


class Prediction(ABC):
    """What is predicted of n items.

    Parameters
    ----------
    values : (n, C) or (n,) array
        Class probabilities, or numbers.

    Attributes
    ----------
    is_numeric : bool
    distance : str
        The function that states the facts of the distance.
    """

    is_numeric: ClassVar[bool]
    distance: ClassVar[str]

    def __init__(self, values: Floats) -> None:
        self.values = values

    @abstractmethod
    def block(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of the items i from the items j, (len(i), len(j))."""

    @abstractmethod
    def rows(self, i: Indices) -> Floats:
        """Return the distances of the items i from all items, (len(i), n)."""

    @abstractmethod
    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of pairs of items, (len(i),)."""

    @abstractmethod
    def cross(self, values: Floats) -> Floats:
        """Return the distances from m items with other values, (m, n)."""

    @staticmethod
    @abstractmethod
    def unknown(n: int, n_classes: int) -> Floats:
        """Return the values of n items of which nothing is known: all the same."""

    @staticmethod
    @abstractmethod
    def prepared(known: Known) -> Known | None:
        """Return what models are fitted to, None where too little is known."""

    @staticmethod
    @abstractmethod
    def is_useful(values: Floats, known: Known, weights: Floats | None) -> bool:
        """Return whether cross-fitted values say more than the same of all items."""


class ClassProbabilities(Prediction):
    """Class probabilities (n, C), by their Hellinger distance."""

    is_numeric = False
    distance = "hellinger"

    def __init__(self, values: Floats) -> None:
        super().__init__(np.maximum(values, 0.0))
        self._distances = FeatureRows(np.sqrt(self.values / 2.0), "euclidean", {})

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of the items i from the items j."""
        return self._distances.between(i, j)

    def rows(self, i: Indices) -> Floats:
        """Return the distances of the items i from all items."""
        return self._distances.rows(i)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return the distances of pairs of items."""
        return self._distances.pairs(i, j)

    def cross(self, values: Floats) -> Floats:
        """Return the distances from m items with other probabilities."""
        return self._distances.cross(np.sqrt(values / 2.0))

    @staticmethod
    def unknown(n: int, n_classes: int) -> Floats:
        """Return equal probabilities."""
        return np.full((n, n_classes), 1.0 / n_classes)

    @staticmethod
    def prepared(known: Known) -> Known | None:
        """Return the labels, if there are any."""
        return known if known.mask.any() else None

    @staticmethod
    def is_useful(values: Floats, known: Known, weights: Floats | None) -> bool:
        """Return True: weights are learned by how well probabilities tell classes apart."""
        return True


class PredictedNumbers(Prediction):
    """Numbers (n,), by their differences.

    A regressor whose held-out numbers are worse than the mean is not useful. Far targets are
    clipped first (:func:`~metricmix.dissimilarity.ridge.moved_in`).
    """

    is_numeric = True
    distance = "prediction_differences"
    fewest = 4
    """Known targets below which nothing is fitted."""

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return the differences of the items i from the items j."""
        return np.abs(self.values[i][:, None] - self.values[j])

    def rows(self, i: Indices) -> Floats:
        """Return the differences of the items i from all items."""
        return np.abs(self.values[i][:, None] - self.values)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return the differences of pairs of items."""
        return np.abs(self.values[i] - self.values[j])

    def cross(self, values: Floats) -> Floats:
        """Return the differences from m items with other numbers."""
        return np.abs(values[:, None] - self.values)

    @staticmethod
    def unknown(n: int, n_classes: int) -> Floats:
        """Return zeros."""
        return np.zeros(n)

    @staticmethod
    def prepared(known: Known) -> Known | None:
        """Return the targets, far ones clipped."""
        if len(known.items) < PredictedNumbers.fewest:
            return None
        values = known.values.copy()
        values[known.items] = moved_in(known.y)
        return known.with_values(values)

    @staticmethod
    def is_useful(values: Floats, known: Known, weights: Floats | None) -> bool:
        """Return whether held-out numbers are nearer to the targets than their mean is."""
        y, own = known.y, None if weights is None else weights[known.items]
        errors = np.square(values[known.items] - y)
        spread = np.square(y - np.average(y, weights=own))
        smaller = np.average(errors, weights=own) < np.average(spread, weights=own)
        return bool(smaller and np.isfinite(values).all())


@stored("PredictedSource")
class PredictedSource(Source):
    """Distances between what is predicted of two items, computed on demand.

    Parameters
    ----------
    prediction : Prediction
    name : str or None
    """

    def __init__(self, prediction: Prediction, name: str | None) -> None:
        self.prediction, self.name = prediction, name
        self.n = len(prediction.values)
        self.facts = facts(prediction.distance)

    @property
    def values(self) -> Floats:
        """Class probabilities (n, C), or numbers (n,)."""
        return self.prediction.values

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return self.prediction.rows(indices)

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return self.prediction.block(i, j)

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        return self.prediction.pairs(i, j)

    def cross(self, values: Floats) -> Floats:
        """Return the distances from m items with other values, (m, n)."""
        return self.prediction.cross(values)

    def to_state(self) -> dict[str, Any]:
        """Return the predictions."""
        return {"name": self.name, "values": self.values}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> PredictedSource:
        """Return the source of stored predictions."""
        name, values = checked_state(state, STATE, "a source").values()
        return PredictedSource(checked_prediction(values, name), name)

    def extended(self, values: Floats) -> PredictedSource:
        """Return the source with more items, of given values."""
        everyone = np.concatenate([self.values, values])
        return PredictedSource(type(self.prediction)(everyone), self.name)


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
        super().__init__(ClassProbabilities(table), name)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ProbabilitySource:
        """Return the source of stored probabilities."""
        name, values = checked_state(state, STATE, "a source").values()
        return cls(values, name=name)


def checked_prediction(values: Floats, name: str | None) -> Prediction:
    """Return predictions that a file holds: rows that are distributions, or finite numbers."""
    if values.ndim == 2:
        return ClassProbabilities(check_distributions(values, name=f"probabilities of {name!r}"))
    sound = values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all())
    require(sound, f"expected a prediction for every item, of source {name!r}")
    return PredictedNumbers(values)


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
