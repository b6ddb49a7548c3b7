r"""Supervised sources: the distance between a classifier's predictions for two items.

A classifier turns an item into class probabilities p. The source is the Hellinger distance

.. math:: M[i, j] = \sqrt{1 - \textstyle\sum_c \sqrt{p_c(i)\, p_c(j)}}

which is :math:`\lVert \sqrt{p(i)} - \sqrt{p(j)} \rVert / \sqrt 2`: a pseudo-metric in [0, 1].

Items with a label get *cross-fitted* probabilities, from a model that has not seen their label;
all others those of the model of all labels. Otherwise a classifier that knows its labels by heart
would look best, and get the largest weight. A supervised source depends on the labels, so each fold
of a cross-validation computes it anew from the labels that it may see (:meth:`relabelled`).

Where labels are scarce: an item whose class has no other label, or none in the folds that judge it,
gets equal probabilities for all classes: nothing is known of its class without it. Identical items
with different labels get the probabilities of their folds. A classifier that says the same of all
items makes a source of zeros, which no weight changes.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.hellinger import ProbabilitySource, check_distributions
from metricmix.dissimilarity.kernel_logistic import (
    KernelLogisticRegression,
    gram_basis,
    regularisation_path,
)
from metricmix.exceptions import InputError
from metricmix.kernels.threads import small_products
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "CrossFittedClassifier",
    "FittedClassifier",
    "KernelLogisticRegression",
    "LabelPropagation",
    "Predictor",
    "SupervisedSource",
    "check_classifier",
    "deal_folds",
    "regularisation_path",
]

N_FOLDS, FEWER_FOLDS = 10, 5
KERNEL_VALUES_KEPT = 1 << 23
"""Kernel values that a predictor keeps: 64 MiB."""


class Predictor(ABC):
    """Class probabilities of all n items, from the labels of some."""

    n: int

    @abstractmethod
    def probabilities(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> Floats:
        """Return the probabilities (n, C); those of labelled items are cross-fitted.

        Parameters
        ----------
        codes : (n,) array
            Class numbers 0 .. C - 1; -1 for unlabelled items.
        n_classes : int
        item_weights : (n,) array, optional
            How much each label counts; default: all the same.
        """

    def fit(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> tuple[Floats, FittedClassifier | None]:
        """Return the probabilities, and the classifier of all labels where new items may follow."""
        return self.probabilities(codes, n_classes, item_weights), None

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> Predictor:
        """Return the predictor for some of the items, which have all the labels there are.

        `n_folds` are at most as many as it cross-fits in now.
        """
        return PartOfItems(self, items)

    def narrowed(self) -> Predictor:
        """Return the predictor with the choice that it made last, if it has one to make."""
        return self


class PartOfItems(Predictor):
    """A predictor for some of its items, asked for the others as well."""

    def __init__(self, whole: Predictor, items: Indices) -> None:
        self.whole, self.items, self.n = whole, items, len(items)

    def probabilities(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> Floats:
        """Return the probabilities of these items, the others being unlabelled."""
        everyone, weights = np.full(self.whole.n, -1), None
        everyone[self.items] = codes
        if item_weights is not None:
            weights = np.zeros(self.whole.n)
            weights[self.items] = item_weights
        return self.whole.probabilities(everyone, n_classes, weights)[self.items]


@dataclass(frozen=True)
class FittedClassifier:
    """A classifier of some of C classes.

    Attributes
    ----------
    model : classifier or None
        Fitted to class numbers 0, 1, …; None if there was one class only.
    classes : array
        What these numbers stand for among 0 .. C - 1.
    n_classes : int
        C.
    """

    model: Any
    classes: Indices
    n_classes: int

    def probabilities(self, X: Any) -> Floats:
        """Return the probabilities (m, C) of the rows X, 0 for classes that it does not know."""
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


class CrossFittedClassifier(Predictor):
    """A classifier on a table, cross-fitted.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    classifiers : classifier or sequence of classifiers
        With ``predict_proba``. Of several, the one with the highest cross-fitted accuracy is taken;
        among equal ones the first, so list the strongest penalty first.
    n_folds : int
        At most as many as a class has labels on average.
    new_items : bool
        Whether to keep the classifier of all labels, for rows that are not in the table.

    Notes
    -----
    Folds are dealt the same way every time, class by class.
    """

    def __init__(
        self,
        X: Any,
        classifiers: Any = None,
        n_folds: int = N_FOLDS,
        *,
        new_items: bool = False,
    ) -> None:
        if classifiers is None:
            classifiers = regularisation_path()
        several = isinstance(classifiers, Sequence)
        self.classifiers = list(classifiers) if several else [classifiers]
        for classifier in self.classifiers:
            check_classifier(classifier)
        self.X, self.n, self.n_folds = X, X.shape[0], n_folds
        self.new_items = new_items
        self.chosen = self.classifiers[0]
        self._kernel: tuple[Indices, Floats] | None = None  # values with some items, (n, L)

    def narrowed(self) -> CrossFittedClassifier:
        """Return the predictor with the classifier that was chosen last, as the only one.

        It has fewer folds: what it is for, choosing settings, asks for less.
        """
        narrowed = CrossFittedClassifier(self.X, self.chosen, min(FEWER_FOLDS, self.n_folds))
        narrowed._kernel = self._kernel
        return narrowed

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> CrossFittedClassifier:
        """Return the predictor for some rows of the table."""
        folds = min(n_folds, self.n_folds)
        return CrossFittedClassifier(self.X[items], self.classifiers, folds)

    def probabilities(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> Floats:
        """Return the probabilities (n, C) of all items."""
        return self.fit(codes, n_classes, item_weights)[0]

    def fit(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> tuple[Floats, FittedClassifier | None]:
        """Return the probabilities, and the classifier of all labels if `new_items`."""
        labelled = np.flatnonzero(codes >= 0)
        y, X = codes[labelled], self.X
        weights = None if item_weights is None else item_weights[labelled]
        table = X
        by_kernel = all(isinstance(c, KernelLogisticRegression) for c in self.classifiers)
        in_parts = by_kernel and self.n * len(labelled) > KERNEL_VALUES_KEPT
        if in_parts:
            own = self.classifiers[0].kernel_rows(X[labelled], X[labelled])
        else:
            table = self.kernel_table(labelled) if by_kernel else X
            own = table[labelled]
        folds = deal_folds(y, self.n_folds)
        held_out = np.zeros((len(self.classifiers), len(y), n_classes))
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            basis = gram_basis(own[np.ix_(~test, ~test)]) if by_kernel else None
            for classifier, p in zip(self.classifiers, held_out, strict=True):
                model = fitted(classifier, own, y, ~test, n_classes, weights, basis)
                p[test] = predicted(model, own[test], ~test)
                p[test & ~np.isin(y, model.classes)] = 1.0 / n_classes
        right = (held_out.argmax(axis=2) == y).mean(axis=1)
        best = int((right > right.max() - 1e-9).argmax())
        self.chosen = self.classifiers[best]
        p, everyone = np.zeros((self.n, n_classes)), np.ones(len(y), dtype=bool)
        kept = None
        if self.new_items or len(labelled) < self.n:
            kept = fitted(self.chosen, own, y, everyone, n_classes, weights)
            p = self.in_parts(kept, labelled) if in_parts else predicted(kept, table, everyone)
            if self.new_items and isinstance(kept.model, KernelLogisticRegression):
                items = labelled if self._kernel is None else self._kernel[0]
                kept.model.keep_rows(X[labelled], kept.model.gamma_of(X[items]))
        p[labelled] = held_out[best]
        return p, kept if self.new_items else None

    def in_parts(self, model: FittedClassifier, labelled: Indices) -> Floats:
        """Return the probabilities of all items where their kernel values are too many to keep."""
        p = np.empty((self.n, model.n_classes))
        step = max(1, KERNEL_VALUES_KEPT // len(labelled))
        everyone = np.ones(len(labelled), dtype=bool)
        anchors = self.X[labelled]
        for start in range(0, self.n, step):
            values = self.classifiers[0].kernel_rows(self.X[start : start + step], anchors)
            p[start : start + step] = predicted(model, values, everyone)
        return p

    def kernel_table(self, labelled: Indices) -> Floats:
        """Return the kernel values of all rows with the labelled ones, (n, L).

        Only these count. They are kept for folds, whose labelled items are some of them.
        """
        items, values = self._kernel or (labelled[:0], np.empty((0, 0)))
        if not np.isin(labelled, items).all():
            values = self.classifiers[0].kernel_rows(self.X, self.X[labelled])
            items = labelled
            self._kernel = (items, values)
        return (
            values if len(items) == len(labelled) else values[:, np.searchsorted(items, labelled)]
        )


def fitted(
    classifier: Any,
    table: Any,
    y: Indices,
    train: AnyArray,
    n_classes: int,
    weights: Floats | None,
    basis: Floats | None = None,
) -> FittedClassifier:
    """Return a classifier fitted to the labelled rows of `train`.

    `table` holds the rows of the labelled items, or for a :class:`KernelLogisticRegression` their
    kernel values with each other, of which `basis` is the :func:`gram_basis` if it is known.
    """
    classes, numbers = np.unique(y[train], return_inverse=True)
    if len(classes) < 2:
        return FittedClassifier(None, classes, n_classes)
    rows = table[train]
    own = None if weights is None else weights[train]
    if isinstance(classifier, KernelLogisticRegression):
        model: Any = copy(classifier).fit_gram(rows[:, train], numbers, own, basis)
        return FittedClassifier(model, classes, n_classes)
    from sklearn.base import clone

    model = clone(classifier)
    options = {} if own is None else weight_option(model, own)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, numbers, **options)
    except ValueError as error:
        raise InputError(
            f"{type(classifier).__name__} cannot be fitted to {len(numbers)} labels of "
            f"{len(classes)} classes ({' '.join(str(error).split())})",
            argument="classifier",
            remedy="label more items, or use another classifier",
        ) from error
    return FittedClassifier(model, classes, n_classes)


def predicted(model: FittedClassifier, table: Any, train: AnyArray) -> Floats:
    """Return the probabilities (m, C) of rows, or of kernel values with all labelled items."""
    if isinstance(model.model, KernelLogisticRegression):
        p = np.zeros((table.shape[0], model.n_classes))
        p[:, model.classes] = model.model.gram_probabilities(table[:, train])
        return p
    return model.probabilities(table)


def weight_option(classifier: Any, weights: Floats) -> dict[str, Any]:
    """Return how `fit` of a classifier takes weights of its rows; nothing if it takes none."""
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(classifier, "steps", None)  # a pipeline passes them to its last step
    prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", classifier)
    known = has_fit_parameter(last, "sample_weight")
    return {f"{prefix}sample_weight": weights} if known else {}


def check_classifier(classifier: Any) -> None:
    """Raise unless an object is a classifier with class probabilities."""
    if isinstance(classifier, type) or not hasattr(classifier, "fit"):
        found = f"the class {classifier.__name__}" if isinstance(classifier, type) else classifier
        raise InputError(
            argument="classifier",
            expected="a classifier with fit and predict_proba",
            found=f"{found!s}",
            remedy="pass one such as LogisticRegression()",
        )
    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            argument="classifier",
            expected="a classifier with class probabilities, predict_proba",
            found=type(classifier).__name__,
            remedy="wrap it in sklearn.calibration.CalibratedClassifierCV",
        )


class LabelPropagation(Predictor):
    r"""Labels spread over a graph by PageRank.

    .. math:: p_c(i) \propto \mathrm{mean}_{s \in c}\, P_{is}

    P is the PageRank of the graph with a restart probability; class means, so that the numbers of
    labels do not count. Without its own label, a labelled item simply leaves the mean; where
    items times labels are more than 8 million, all labels of one of five folds do.

    Parameters
    ----------
    operator : (n, n) sparse array
        :math:`D^{-1/2} (A + I) D^{-1/2}`.
    restart : float
    """

    def __init__(self, operator: Any, restart: float = 0.1) -> None:
        self.operator, self.restart, self.n = operator, restart, operator.shape[0]
        self._known: Floats | None = None  # P between the items of a part

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> LabelPropagation:
        """Return the predictor for some nodes of the graph."""
        small = copy(self)
        small.n, small._known = len(items), self.reached(items)[items]
        return small

    def reached(self, labelled: Indices) -> Floats:
        """Return the columns of P that belong to the labelled items, (n, L)."""
        from metricmix.dissimilarity.diffusion import pagerank_smoothed

        if self._known is not None:
            return self._known[:, labelled]
        start = np.zeros((self.n, len(labelled)))
        start[labelled, np.arange(len(labelled))] = 1.0
        return np.maximum(pagerank_smoothed(self.operator, start, self.restart, 1e-6), 0.0)

    def probabilities(
        self, codes: Indices, n_classes: int, item_weights: Floats | None = None
    ) -> Floats:
        """Return the probabilities (n, C) of all items, labelled ones without their own label."""
        labelled = np.flatnonzero(codes >= 0)
        y = codes[labelled]
        own = np.ones(len(y)) if item_weights is None else item_weights[labelled]
        of_class = (y[:, None] == np.arange(n_classes)) * own[:, None]
        sizes = np.tile(of_class.sum(axis=0), (self.n, 1))
        if self._known is None and self.n * len(labelled) > KERNEL_VALUES_KEPT:
            share = self.cross_fitted(labelled, y, of_class, sizes)
        else:
            reached = self.reached(labelled)
            reached[labelled, np.arange(len(labelled))] = 0.0
            sizes[labelled, y] -= own
            share = reached @ of_class
        none = sizes <= 1e-12 * own.sum()
        share /= np.where(none, 1.0, sizes)
        share[labelled[none[labelled, y]]] = 0.0  # nothing is known of its class without it
        share += 1e-9  # an item that no label reaches knows nothing
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    def cross_fitted(
        self, labelled: Indices, y: Indices, of_class: Floats, sizes: Floats
    ) -> Floats:
        """Return the sums of P over each class, (n, C), for labelled items without their fold.

        Five columns of P a class instead of one a label, for graphs where these are too many.
        The labels of its fold also leave the `sizes` of an item.
        """
        from metricmix.dissimilarity.diffusion import pagerank_smoothed

        folds, C = deal_folds(y, FEWER_FOLDS), of_class.shape[1]
        share = np.zeros((self.n, C))
        of_fold = []
        for fold in range(int(folds.max()) + 1):
            mine = folds == fold
            start = np.zeros((self.n, C), np.float32)
            start[labelled[mine]] = of_class[mine]
            reached = np.maximum(pagerank_smoothed(self.operator, start, self.restart, 1e-6), 0.0)
            share += reached
            sizes[labelled[mine]] -= of_class[mine].sum(axis=0)
            of_fold.append(reached[labelled[mine]])
        for fold, own in enumerate(of_fold):
            share[labelled[folds == fold]] -= own
        return np.maximum(share, 0.0)


# -- sources ---------------------------------------------------------------------------------------


class SupervisedSource(ProbabilitySource):
    """Hellinger distances between the class probabilities of a predictor.

    Parameters
    ----------
    predictor : Predictor
    name : str
    codes : (n,) array, optional
        Class numbers, -1 for unlabelled items. Without any label all distances are 0, until labels
        are known (:meth:`relabelled`).
    n_classes : int, optional
    item_weights : (n,) array, optional
        How much each label counts.

    Attributes
    ----------
    probabilities : (n, C) array
    classifier : FittedClassifier or None
        That of all labels, if the predictor keeps it for new items.
    """

    supervised = True

    def __init__(
        self,
        predictor: Predictor,
        name: str,
        codes: Indices | None = None,
        n_classes: int = 1,
        item_weights: Floats | None = None,
    ) -> None:
        self.predictor: Predictor | None = predictor
        self.codes = np.full(predictor.n, -1) if codes is None else codes.copy()
        self.name, self.n_classes, self.classifier = name, n_classes, None
        p = np.full((predictor.n, n_classes), 1.0 / n_classes)
        labelled = int((self.codes >= 0).sum())
        if labelled:
            with small_products(labelled):
                p, self.classifier = predictor.fit(self.codes, n_classes, item_weights)
        self._hold(np.maximum(p, 0.0))
        self.narrowed: Predictor | None = predictor.narrowed()

    @classmethod
    def restored(
        cls,
        name: str,
        probabilities: Floats,
        codes: Indices,
        classifier: FittedClassifier | None = None,
    ) -> SupervisedSource:
        """Return a source with the probabilities that were computed before, without a predictor."""
        source = cls.__new__(cls)
        source.predictor = source.narrowed = None
        source.name, source.codes, source.classifier = name, codes, classifier
        source.n_classes = probabilities.shape[1]
        source._hold(probabilities)
        return source

    def relabelled(
        self, codes: Indices, n_classes: int, *, keep_choice: bool = False
    ) -> SupervisedSource:
        """Return the same source computed from other labels.

        Choose the classifier anew, unless `keep_choice`.
        """
        if not n_classes:
            raise InputError(
                f"source {self.name!r} predicts classes, and there are numbers to predict",
                argument="sources",
                remedy="make the stack with target= for a regressor",
            )
        if n_classes == self.n_classes and np.array_equal(codes, self.codes):
            return self
        predictor = self.narrowed if keep_choice else self.predictor
        if predictor is None:
            raise InputError(
                f"source {self.name!r} was loaded with the probabilities of its fit, and cannot be "
                "computed from other labels",
                argument="sources",
                remedy="make the stack again, and fit to it",
            )
        return SupervisedSource(predictor, str(self.name), codes, n_classes)


def deal_folds(y: Indices, n_folds: int) -> Indices:
    """Return the fold of each labelled item: class by class, in a fixed random order.

    There are at most as many folds as a class has labels on average, so that classes keep their
    shares when a fold is left out: where they do not, an item's class is the rarer one among those
    that judge it, and a classifier that knows nothing else would say the contrary of its label.

    >>> deal_folds(np.array([0, 0, 1, 1]), 2)
    array([0, 1, 0, 1])
    """
    shuffled = np.random.default_rng(0).permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.arange(len(y)) % min(n_folds, max(2, len(y) // len(np.unique(y))))
    return folds
