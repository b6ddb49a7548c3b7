"""Predictors: what models say of all items, from the labels or targets of some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["FEWER_FOLDS", "N_FOLDS", "FittedModel", "Predicted", "Predictor", "Training"]

N_FOLDS, FEWER_FOLDS = 10, 5
"""Folds that items are cross-fitted in, and those in which settings are chosen."""


class FittedModel(Protocol):
    """A model of all labels or targets, for new items."""

    def predict(self, X: Any) -> Floats:
        """Return the class probabilities (m, C) or the numbers (m,) of m rows."""


class Predicted(NamedTuple):
    """What a predictor says of all items.

    Attributes
    ----------
    values : (n, C) or (n,) array
        Class probabilities, or numbers; those of items of known value are cross-fitted.
    choice : int or None
        Which of several models was taken, where there is a choice.
    """

    values: Floats
    choice: int | None = None


class Predictor(ABC):
    """Class probabilities or numbers of all n items, from the labels or targets of some.

    Attributes
    ----------
    n : int
    is_numeric : bool or None
        Whether it predicts numbers; None if it does both.
    n_folds : int
        In how many folds at most it cross-fits.
    """

    n: int
    is_numeric: bool | None = None
    n_folds: int

    def predict(
        self,
        known: Known,
        weights: Floats | None = None,
        *,
        n_folds: int | None = None,
        choice: int | None = None,
    ) -> Predicted:
        """Return what is predicted of all items.

        Parameters
        ----------
        known : Known
        weights : (n,) array, optional
            How much each label counts; default: all the same.
        n_folds : int, optional
            Fewer folds than the predictor's own.
        choice : int, optional
            Which of several models to take; default: the one with the best cross-fitted values.
        """
        training = Training.of(known, weights, min(n_folds or self.n_folds, self.n_folds))
        return self.predicted(training, known, choice)

    def model(
        self, known: Known, weights: Floats | None = None, *, choice: int | None = None
    ) -> FittedModel:
        """Return the model of all labels, fitted again, for new items."""
        return self.fitted_model(Training.of(known, weights, self.n_folds), choice)

    @abstractmethod
    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all items by models fitted to those of `training`."""

    @abstractmethod
    def fitted_model(self, training: Training, choice: int | None) -> FittedModel:
        """Return the model fitted to all items of `training`."""

    @abstractmethod
    def part(self, items: Indices, n_folds: int) -> Predictor:
        """Return the predictor for some of the items, which have all the labels there are.

        `n_folds` are at most as many as it cross-fits in now.
        """


@dataclass(frozen=True, eq=False)
class Training:
    """What models are fitted to: the L items of known value, in the order of their keys.

    Attributes
    ----------
    items : (L,) array
    y : (L,) array
        Numbers of the classes among `classes`, or targets.
    classes : (c,) array
        The classes that have labels, in an order that does not depend on their names.
    n_classes : int
        C; 0 for targets.
    weights : (L,) array or None
    folds : (L,) array
    """

    items: Indices
    y: AnyArray
    classes: Indices
    n_classes: int
    weights: Floats | None
    folds: Indices

    @classmethod
    def of(cls, known: Known, weights: Floats | None, n_folds: int) -> Training:
        """Return the items of known value, dealt to folds."""
        items, y, classes = known.canonical, known.values[known.canonical], np.arange(0)
        if not known.is_numeric:
            classes = known.class_order
            place = np.zeros(known.n_classes, dtype=np.int64)
            place[classes] = np.arange(len(classes))
            y = place[y]
        folds = np.empty(known.n, dtype=np.int64)
        folds[known.items] = known.folds(n_folds, keep_shares=True)
        own = None if weights is None else weights[items]
        return cls(items, y, classes, known.n_classes, own, folds[items])

    @property
    def is_numeric(self) -> bool:
        """Whether values are targets."""
        return self.n_classes == 0

    @property
    def everyone(self) -> AnyArray:
        """The mask of all L items."""
        return np.ones(len(self.y), dtype=bool)

    def tests(self) -> Iterator[AnyArray]:
        """Yield the mask of each fold."""
        for fold in range(int(self.folds.max()) + 1):
            yield self.folds == fold

    def shape(self, m: int) -> tuple[int, ...]:
        """Return the shape of what is said of m items: (m, c), or (m,) of numbers."""
        return (m,) if self.is_numeric else (m, len(self.classes))

    def full(self, values: Floats) -> Floats:
        """Return probabilities (m, c) as those of all classes (m, C), numbers as they are."""
        if self.is_numeric:
            return values
        p = np.zeros((len(values), self.n_classes))
        p[:, self.classes] = values
        return p

    def best(self, held_out: Floats) -> int:
        """Return which of several held-out values (K, L, c) or (K, L) are best: the first of them.

        By accuracy, or by their squared error.
        """
        if self.is_numeric:
            errors = np.average(np.square(held_out - self.y), axis=1, weights=self.weights)
            return int(np.argmin(errors))
        right = (held_out.argmax(axis=2) == self.y).mean(axis=1)
        return int((right > right.max() - 1e-9).argmax())

    def judged(self, held_out: Floats) -> Floats:
        """Return what counts of held-out values: (L, C), or numbers relative to one mean (L,).

        Equal probabilities where a class has no label in the other folds.
        """
        if self.is_numeric:
            return held_out + self.mean_shift
        p = self.full(held_out)
        for test in self.tests():
            p[test & ~np.isin(self.y, self.y[~test])] = 1.0 / self.n_classes
        return p

    @property
    def mean(self) -> float:
        """The mean of the targets."""
        return float(np.average(self.y, weights=self.weights))

    @property
    def mean_shift(self) -> Floats:
        """The mean of all targets less that of the targets outside the fold of each item."""
        shift = np.empty(len(self.y))
        for test in self.tests():
            others = None if self.weights is None else self.weights[~test]
            shift[test] = self.mean - np.average(self.y[~test], weights=others)
        return shift
