r"""Supervised sources: what a classifier says about two items, as a distance.

A classifier turns an item into class probabilities p. The source is the Hellinger distance

.. math:: M[i, j] = \sqrt{1 - \textstyle\sum_c \sqrt{p_c(i)\, p_c(j)}}

which is :math:`\lVert \sqrt{p(i)} - \sqrt{p(j)} \rVert / \sqrt 2`: a pseudo-metric in [0, 1].

Items with a label get *cross-fitted* probabilities, from a model that has not seen their label;
all others those of the model of all labels. Otherwise a classifier that knows its labels by heart
would look best, and get the largest weight. A supervised source depends on the labels, so each fold
of a cross-validation computes it anew from the labels that it may see (:meth:`relabelled`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from metricmix.dissimilarity.features import FeatureRows
from metricmix.dissimilarity.matrix import SourceFacts, facts, states
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "CrossFittedClassifier",
    "KernelLogisticRegression",
    "LabelPropagation",
    "Predictor",
    "SupervisedSource",
    "deal_folds",
    "hellinger",
    "regularisation_path",
]

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Inverse strengths C that a default classifier is chosen from."""
N_FOLDS, FEWER_FOLDS = 10, 5
KERNEL_VALUES_KEPT = 1 << 23
"""Kernel values that a predictor keeps: 64 MiB."""


class Predictor(ABC):
    """Class probabilities of all n items, from the labels of some."""

    n: int

    @abstractmethod
    def probabilities(self, codes: Indices, n_classes: int) -> Floats:
        """Return the probabilities (n, C); those of labelled items are cross-fitted.

        Parameters
        ----------
        codes : (n,) array
            Class numbers 0 .. C - 1; -1 for unlabelled items.
        n_classes : int
        """

    def narrowed(self) -> Predictor:
        """Return the predictor with the choice that it made last, if it has one to make."""
        return self


class CrossFittedClassifier(Predictor):
    """A classifier on a table, cross-fitted.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    classifiers : classifier or sequence of classifiers
        With ``predict_proba``. Of several, the one with the highest cross-fitted accuracy is taken;
        among equal ones the first, so list the strongest penalty first.
    n_folds : int
        At most as many as there are labelled items.

    Notes
    -----
    Folds are dealt the same way every time, class by class. A class with one labelled item gets
    probability 0 for that item, which is what the others know of it.
    """

    def __init__(self, X: Any, classifiers: Any = None, n_folds: int = N_FOLDS) -> None:
        if classifiers is None:
            classifiers = regularisation_path()
        several = isinstance(classifiers, Sequence)
        self.classifiers = list(classifiers) if several else [classifiers]
        for classifier in self.classifiers:
            if not hasattr(classifier, "predict_proba"):
                raise InputError(
                    argument="classifier",
                    expected="a classifier with class probabilities, predict_proba",
                    found=type(classifier).__name__,
                    remedy="wrap it in sklearn.calibration.CalibratedClassifierCV",
                )
        self.X, self.n, self.n_folds = X, X.shape[0], n_folds
        self.chosen = self.classifiers[0]
        self._kernel: tuple[Indices, Floats] | None = None  # values with some items, (n, L)

    def narrowed(self) -> CrossFittedClassifier:
        """Return the predictor with the classifier that was chosen last, as the only one.

        It has fewer folds: what it is for, choosing settings, asks for less.
        """
        narrowed = CrossFittedClassifier(self.X, self.chosen, min(FEWER_FOLDS, self.n_folds))
        narrowed._kernel = self._kernel
        return narrowed

    def probabilities(self, codes: Indices, n_classes: int) -> Floats:
        """Return the probabilities (n, C) of all items."""
        labelled = np.flatnonzero(codes >= 0)
        y, X = codes[labelled], self.X
        table = X
        if all(isinstance(c, KernelLogisticRegression) for c in self.classifiers):
            table = self.kernel_table(labelled)
        folds = deal_folds(y, self.n_folds)
        best: tuple[float, Any, Floats] | None = None
        for classifier in self.classifiers:
            held_out = np.zeros((len(y), n_classes))
            for fold in range(int(folds.max()) + 1):
                test = folds == fold
                model = self._fitted(classifier, table, labelled, y, ~test)
                held_out[test] = self._predicted(model, table, labelled[test], n_classes, ~test)
            right = float((held_out.argmax(axis=1) == y).mean())
            if best is None or right > best[0] + 1e-9:
                best = right, classifier, held_out
        assert best is not None
        self.chosen = best[1]
        everyone = np.ones(len(y), dtype=bool)
        model = self._fitted(best[1], table, labelled, y, everyone)
        p = self._predicted(model, table, np.arange(self.n), n_classes, everyone)
        p[labelled] = best[2]
        return p

    def kernel_table(self, labelled: Indices) -> Floats:
        """Return the kernel values of all rows with the labelled ones, (n, L).

        Only these count. They are kept for folds, whose labelled items are some of them.
        """
        items, values = self._kernel or (labelled[:0], np.empty((0, 0)))
        if not np.isin(labelled, items).all():
            values = self.classifiers[0].kernel_rows(self.X, self.X[labelled])
            items = labelled
            self._kernel = (items, values) if values.size <= KERNEL_VALUES_KEPT else None
        return (
            values if len(items) == len(labelled) else values[:, np.searchsorted(items, labelled)]
        )

    def _fitted(
        self, classifier: Any, table: Any, labelled: Indices, y: Indices, train: AnyArray
    ) -> Any:
        """Return a classifier fitted to the labelled items of `train`; None for a single class."""
        if len(np.unique(y[train])) < 2:
            return int(y[train][0])
        rows = table[labelled[train]]
        if isinstance(classifier, KernelLogisticRegression):
            return copy(classifier).fit_gram(rows[:, train], y[train])
        from sklearn.base import clone

        model = clone(classifier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(rows, y[train])

    def _predicted(
        self, model: Any, table: Any, items: Indices, n_classes: int, train: AnyArray
    ) -> Floats:
        """Return the probabilities (len(items), C), 0 for classes that the model does not know."""
        p = np.zeros((len(items), n_classes))
        if isinstance(model, int):
            p[:, model] = 1.0
        elif isinstance(model, KernelLogisticRegression):
            p[:, model.classes_] = model.gram_probabilities(table[items][:, train])
        else:
            p[:, model.classes_] = model.predict_proba(table[items])
        return p


class LabelPropagation(Predictor):
    r"""Labels spread over a graph by PageRank.

    .. math:: p_c(i) \propto \mathrm{mean}_{s \in c}\, P_{is}

    P is the PageRank of the graph with a restart probability; class means, so that the numbers of
    labels do not count. Without its own label, a labelled item simply leaves the mean.

    Parameters
    ----------
    operator : (n, n) sparse array
        :math:`D^{-1/2} (A + I) D^{-1/2}`.
    restart : float
    """

    def __init__(self, operator: Any, restart: float = 0.1) -> None:
        self.operator, self.restart, self.n = operator, restart, operator.shape[0]

    def probabilities(self, codes: Indices, n_classes: int) -> Floats:
        """Return the probabilities (n, C) of all items, labelled ones without their own label."""
        from metricmix.dissimilarity.diffusion import pagerank_smoothed

        labelled = np.flatnonzero(codes >= 0)
        y = codes[labelled]
        start = np.zeros((self.n, len(labelled)))
        start[labelled, np.arange(len(labelled))] = 1.0
        reached = np.maximum(pagerank_smoothed(self.operator, start, self.restart, 1e-6), 0.0)
        reached[labelled, np.arange(len(labelled))] = 0.0
        of_class = y[:, None] == np.arange(n_classes)
        sizes = np.tile(of_class.sum(axis=0).astype(np.float64), (self.n, 1))
        sizes[labelled, y] -= 1.0
        share = reached @ of_class / np.maximum(sizes, 1.0)
        share += 1e-9  # an item that no label reaches knows nothing
        return np.asarray(share / share.sum(axis=1, keepdims=True))


class SupervisedSource(Source):
    """Hellinger distances between the class probabilities of a predictor.

    Parameters
    ----------
    predictor : Predictor
    name : str
    codes : (n,) array, optional
        Class numbers, -1 for unlabelled items.
    n_classes : int, optional

    Attributes
    ----------
    probabilities : (n, C) array
    """

    supervised = True

    def __init__(self, predictor: Predictor, name: str, codes: Indices, n_classes: int) -> None:
        self.predictor, self.name, self.n = predictor, name, predictor.n
        self.codes, self.n_classes = codes.copy(), n_classes
        self.facts = facts("hellinger")
        self.probabilities = predictor.probabilities(codes, n_classes)
        self._distances = FeatureRows(
            np.sqrt(np.maximum(self.probabilities, 0.0) / 2.0), "euclidean", {}
        )
        self.narrowed = predictor.narrowed()

    def relabelled(
        self, codes: Indices, n_classes: int, *, keep_choice: bool = False
    ) -> SupervisedSource:
        """Return the same source computed from other labels.

        Choose the classifier anew, unless `keep_choice`.
        """
        if n_classes == self.n_classes and np.array_equal(codes, self.codes):
            return self
        assert self.name is not None
        predictor = self.narrowed if keep_choice else self.predictor
        return SupervisedSource(predictor, self.name, codes, n_classes)

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
        return hellinger(self.probabilities[i], self.probabilities[j])


@states(SourceFacts("pseudo-metric", bound=1.0, row_cost="O(n C)"))
def hellinger(p: Floats, q: Floats) -> Floats:
    """Return the Hellinger distances of the rows of `p` and `q`.

    >>> hellinger(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    difference = np.sqrt(p) - np.sqrt(q)
    return np.asarray(np.sqrt((difference * difference).sum(axis=-1) / 2.0))


class KernelLogisticRegression:
    r"""Multinomial logistic regression in the feature space of a kernel.

    .. math:: \min_W \; C \sum_i -\log p_{y_i}(x_i) + \tfrac12 \lVert W \rVert^2, \qquad
              p_c(x) \propto e^{w_c \cdot \phi(x) + b_c}

    The solution lies in the span of the L labelled rows, so with the L × L matrix of their kernel
    values it costs the same however many columns the table has. With the linear kernel this is
    :class:`~sklearn.linear_model.LogisticRegression`.

    Parameters
    ----------
    kernel : {"linear", "rbf"}
    C : float
        Inverse strength of the penalty.
    gamma : float, optional
        Of ``exp(-gamma ||x - y||^2)``; default 1 / (d var(X)) over the rows of the fit.
    """

    def __init__(self, kernel: str = "linear", C: float = 1.0, gamma: float | None = None) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma

    def fit(self, X: Any, y: Any) -> KernelLogisticRegression:
        """Fit to the rows X (n, d) with classes y."""
        self.rows_ = X
        self.gamma_ = self._gamma(X)
        return self.fit_gram(self.kernel_rows(X, X), y)

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities (n, C) of the rows X."""
        return self.gram_probabilities(self.kernel_rows(X, self.rows_))

    def predict(self, X: Any) -> AnyArray:
        """Return the classes of the rows X."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _gamma(self, X: Any) -> float:
        if self.gamma is not None:
            return self.gamma
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        spread = float(dense.var())
        return 1.0 / (dense.shape[1] * spread) if spread > 0 else 1.0

    def kernel_rows(self, X: Any, anchors: Any) -> Floats:
        """Return the kernel values of the rows X with the rows `anchors`, (n, L)."""
        product = X @ anchors.T
        values = np.asarray(product.toarray() if hasattr(product, "toarray") else product)
        if self.kernel == "linear":
            return values.astype(np.float64, copy=False)
        gamma = getattr(self, "gamma_", None) or self._gamma(anchors)
        left, right = row_squares(X), row_squares(anchors)
        return np.exp(-gamma * np.maximum(left[:, None] + right - 2.0 * values, 0.0))

    def fit_gram(self, gram: Floats, y: Indices) -> KernelLogisticRegression:
        """Fit to classes y, given the kernel values of the rows with each other, (L, L)."""
        from sklearn.linear_model import LogisticRegression

        values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
        kept = values > 1e-10 * max(float(values[-1]), 1e-300)
        self.basis_ = vectors[:, kept] / np.sqrt(values[kept])
        model = LogisticRegression(C=self.C, max_iter=300, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(gram @ self.basis_, y)
        self.classes_, self.model_ = model.classes_, model
        return self

    def gram_probabilities(self, gram: Floats) -> Floats:
        """Return class probabilities, given the kernel values with the rows of the fit, (n, L)."""
        return np.asarray(self.model_.predict_proba(gram @ self.basis_))


def regularisation_path(
    kernel: str = "linear", penalties: Sequence[float] = PENALTIES
) -> list[KernelLogisticRegression]:
    """Return logistic regressions to choose from, the strongest penalty first."""
    return [KernelLogisticRegression(kernel, C) for C in penalties]


def row_squares(X: Any) -> Floats:
    """Return the squared length of each row."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()


def deal_folds(y: Indices, n_folds: int) -> Indices:
    """Return the fold of each labelled item: class by class, in a fixed random order.

    >>> deal_folds(np.array([0, 0, 1, 1]), 2)
    array([0, 1, 0, 1])
    """
    shuffled = np.random.default_rng(0).permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.arange(len(y)) % min(n_folds, len(y))
    return folds
