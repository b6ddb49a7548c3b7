"""Predictors: what models say of all items, from the labels or targets of some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import check_distributions
from metricmix.exceptions import InputError
from metricmix.kernels.process_settings import ignored_warnings
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "FEWER_FOLDS",
    "N_FOLDS",
    "CrossFitted",
    "FittedModel",
    "Predicted",
    "Predictor",
    "TableModel",
    "Training",
    "check_estimator",
    "is_regressor",
]

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
    groups : (L,) array or None
        Items that are held out together; None: each by itself.
    """

    items: Indices
    y: AnyArray
    classes: Indices
    n_classes: int
    weights: Floats | None
    folds: Indices
    groups: Indices | None = None

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
        groups = None if known.item_groups is None or known.groups is None else known.groups[items]
        return cls(items, y, classes, known.n_classes, own, folds[items], groups)

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
            shift = np.empty(len(self.y))  # of the mean of all targets from that of the other folds
            for test in self.tests():
                others = None if self.weights is None else self.weights[~test]
                shift[test] = self.mean - np.average(self.y[~test], weights=others)
            return held_out + shift
        p = self.full(held_out)
        for test in self.tests():
            p[test & ~np.isin(self.y, self.y[~test])] = 1.0 / self.n_classes
        return p

    @property
    def mean(self) -> float:
        """The mean of the targets."""
        return float(np.average(self.y, weights=self.weights))


@dataclass(frozen=True)
class TableModel:
    """A fitted model of rows, and what its classes stand for.

    Attributes
    ----------
    model : classifier, regressor or None
        A classifier is fitted to class numbers 0, 1, …; None if there was one class only.
    classes : array
        What these numbers stand for among 0 .. C - 1; none for a regressor.
    n_classes : int
        C; 0 for a regressor.
    """

    model: Any
    classes: Indices
    n_classes: int

    def predict(self, X: Any) -> Floats:
        """Return the probabilities (m, C) of rows, 0 for classes without labels; or numbers."""
        if not self.n_classes:
            return np.asarray(self.model.predict(X), dtype=np.float64).ravel()
        p = np.zeros((X.shape[0], self.n_classes))
        if self.model is None:
            p[:, self.classes] = 1.0
            return p
        name = f"predict_proba of {type(self.model).__name__}"
        found = check_distributions(self.model.predict_proba(X), name=name)
        if found.shape != (len(p), len(self.classes)):
            expected = f"shape {(len(p), len(self.classes))}, a column per class"
            raise InputError(argument=name, expected=expected, found=found.shape)
        p[:, self.classes] = found
        return p


class CrossFitted(Predictor):
    """A classifier or regressor on a table, cross-fitted.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    estimators : estimator or sequence of estimators
        Of scikit-learn: classifiers with ``predict_proba``, or regressors. Of several, the one with
        the highest cross-fitted accuracy or the smallest squared error is taken; among equal ones
        the first, so list the strongest penalty first. Copies are fitted, with 0 in place of a
        `random_state` of None: what is fitted again is the same.
    n_folds : int
        At most as many as a class has labels on average; for numbers at most half as many as there
        are targets, each with small and large ones.
    """

    def __init__(self, X: Any, estimators: Any, n_folds: int = N_FOLDS) -> None:
        several = isinstance(estimators, Sequence)
        self.estimators = list(estimators) if several else [estimators]
        self.is_numeric = is_regressor(self.estimators[0])
        for estimator in self.estimators:
            check_estimator(estimator, is_numeric=self.is_numeric)
        self.X, self.n, self.n_folds = X, X.shape[0], n_folds

    def part(self, items: Indices, n_folds: int) -> CrossFitted:
        """Return the predictor for some rows of the table."""
        return CrossFitted(self.X[items], self.estimators, min(n_folds, self.n_folds))

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all rows."""
        tried = range(len(self.estimators)) if choice is None else [choice]
        held_out = self.held_out(training, list(tried))
        best = training.best(held_out)
        values = np.empty((self.n, *training.full(held_out[best]).shape[1:]))
        if len(training.items) < self.n:
            values = training.full(self.of_all(training, tried[best]))
        values[training.items] = training.judged(held_out[best])
        return Predicted(values, tried[best])

    def held_out(self, training: Training, tried: list[int]) -> Floats:
        """Return what each estimator says of the items without their fold, (K, L, c) or (K, L)."""
        found = np.zeros((len(tried), *training.shape(len(training.y))))
        for test in training.tests():
            rows = self.X[training.items[test]]
            for k, values in zip(tried, found, strict=True):
                values[test] = self.fitted(training, ~test, k).predict(rows)
        return found

    def of_all(self, training: Training, choice: int) -> Floats:
        """Return what the model of all labels says of all rows, (n, c) or (n,)."""
        return self.fitted(training, training.everyone, choice).predict(self.X)

    def fitted_model(self, training: Training, choice: int | None) -> TableModel:
        """Return the model of all labels."""
        found = self.fitted(training, training.everyone, choice or 0)
        numbers = found.classes
        return TableModel(found.model, training.classes[numbers], training.n_classes)

    def fitted(self, training: Training, train: AnyArray, choice: int) -> TableModel:
        """Return an estimator fitted to some of the items, its classes numbered as they are."""
        y, classes, c = training.y[train], np.arange(0), 0
        if not training.is_numeric:
            classes, y = np.unique(y, return_inverse=True)
            c = len(training.classes)
            if len(classes) < 2:
                return TableModel(None, classes, c)
        weights = None if training.weights is None else training.weights[train]
        rows = self.X[training.items[train]]
        if isinstance(rows, np.ndarray):
            rows = np.ascontiguousarray(rows)  # products round differently by rows and by columns
        model = fitted_copy(self.estimators[choice], rows, y, weights)
        return TableModel(model, classes, c)


def fitted_copy(estimator: Any, rows: Any, y: AnyArray, weights: Floats | None) -> Any:
    """Return a copy of an estimator, fitted to rows, with a fixed seed."""
    from sklearn.base import clone

    model = clone(estimator)
    open_seeds = [
        name
        for name, value in model.get_params().items()
        if value is None and name.split("__")[-1] == "random_state"
    ]
    if open_seeds:
        model.set_params(**dict.fromkeys(open_seeds, 0))
    options = {} if weights is None else weight_option(model, weights)
    try:
        with ignored_warnings():
            return model.fit(rows, y, **options)
    except ValueError as error:
        numeric = y.dtype.kind == "f"
        what = "targets" if numeric else f"labels of {len(np.unique(y))} classes"
        raise InputError(
            f"{type(estimator).__name__} cannot be fitted to {len(y)} {what} "
            f"({' '.join(str(error).split())})",
            argument="regressor" if numeric else "classifier",
            remedy="label more items, or use another one",
        ) from error


def weight_option(estimator: Any, weights: Floats) -> dict[str, Any]:
    """Return how `fit` of an estimator takes weights of its rows; nothing if it takes none."""
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)  # a pipeline passes them to its last step
    prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", estimator)
    known = has_fit_parameter(last, "sample_weight")
    return {f"{prefix}sample_weight": weights} if known else {}


def is_regressor(model: Any) -> bool:
    """Return whether an object is a scikit-learn regressor."""
    if model is None or isinstance(model, type):
        return False
    from sklearn.base import is_regressor as found

    complete = all(hasattr(model, name) for name in ("fit", "predict", "__sklearn_tags__"))
    return bool(complete and found(model))


def check_estimator(estimator: Any, *, is_numeric: bool = False) -> None:
    """Raise unless an object is a classifier with class probabilities, or a regressor."""
    if is_numeric:
        if not is_regressor(estimator):
            raise InputError(
                argument="regressor",
                expected="a scikit-learn regressor, such as Ridge()",
                found=f"{estimator!r}",
            )
        return
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        found = f"the class {estimator.__name__}" if isinstance(estimator, type) else estimator
        raise InputError(
            argument="classifier",
            expected="a classifier with fit and predict_proba",
            found=f"{found!s}",
            remedy="pass one such as LogisticRegression()",
        )
    if not hasattr(estimator, "predict_proba"):
        raise InputError(
            argument="classifier",
            expected="a classifier with class probabilities, predict_proba",
            found=type(estimator).__name__,
            remedy="wrap it in sklearn.calibration.CalibratedClassifierCV",
        )
