r"""Supervised sources of a numeric target: the difference between a regressor's predictions.

A regressor turns an item into a number f. The source is

.. math:: M[i, j] = |f(i) - f(j)|

a pseudo-metric. Items with a known target get *cross-fitted* numbers, from a model that has not
seen their target; all others those of the model of all targets. A source depends on the targets, so
each fold of a cross-validation computes it anew (:meth:`PredictionSource.relabelled`).

Targets are left out in folds, not one by one: two models that differ little would differ, for an
item that is left out alone, by a multiple of its own residual, and so give its target away.

A mean without an item's own target tells what that target was: the larger it is, the smaller the
mean of the others. So all held-out numbers are relative to the same mean, that of all targets. A
regressor whose held-out numbers are worse than that mean makes a source of zeros, which no weight
changes. Far targets are moved in first (:func:`~metricmix.dissimilarity.ridge.moved_in`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.forests import OutOfBagForest, grown_trees, out_of_bag_means
from metricmix.dissimilarity.matrix import SourceFacts, facts, states
from metricmix.dissimilarity.ridge import moved_in, ridge_path
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.supervised import (
    N_FOLDS,
    CrossFittedClassifier,
    LabelPropagation,
    Predictor,
    weight_option,
)
from metricmix.exceptions import InputError
from metricmix.kernels.threads import small_products
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "CrossFittedRegressor",
    "KernelRidgePredictor",
    "PredictionSource",
    "TargetPredictor",
    "check_regressor",
    "deal_targets",
    "for_targets",
    "prediction_differences",
]

FEWEST = 4
"""Known targets below which nothing is fitted."""
WIDTHS = (0.3, 1.0, 3.0)
"""Widths of a Gaussian kernel to choose from, in typical distances of two rows."""
COLUMNS_TRIED = 0.5
"""Share of the columns that a split of a tree is chosen from."""
ANCHORS = 1000
"""Rows that span the feature space of a kernel, at most."""


@states(SourceFacts("pseudo-metric", row_cost="O(n)"))
def prediction_differences(f: Floats, g: Floats) -> Floats:
    """Return |f - g|.

    >>> prediction_differences(np.array([1.0, 4.0]), np.array([3.0, 4.0]))
    array([2., 0.])
    """
    return np.asarray(np.abs(f - g))


class TargetPredictor(ABC):
    """A number for each of n items, from the targets of some."""

    n: int

    @abstractmethod
    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items (n,), and the model of all targets for new rows or None.

        Parameters
        ----------
        y : (n,) array
            Targets, NaN where unknown; those of known ones are cross-fitted.
        weights : (n,) array, optional
            How much each target counts; default: all alike.
        """

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> TargetPredictor:
        """Return the predictor for some of the items, which have all the targets there are."""
        return TargetsOfPart(self, items)


class TargetsOfPart(TargetPredictor):
    """A predictor for some of its items, asked for the others as well."""

    def __init__(self, whole: TargetPredictor, items: Indices) -> None:
        self.whole, self.items, self.n = whole, items, len(items)

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of these items, the others having no target."""
        everyone, of_all = np.full(self.whole.n, np.nan), None
        everyone[self.items] = y
        if weights is not None:
            of_all = np.zeros(self.whole.n)
            of_all[self.items] = weights
        return self.whole.predict(everyone, of_all)[0][self.items], None


class CrossFittedRegressor(TargetPredictor):
    """A scikit-learn regressor on a table, cross-fitted.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    regressor : scikit-learn regressor
    n_folds : int
        At most half as many as there are known targets. Each has small and large ones.
    new_items : bool
        Whether to keep the regressor of all targets, for rows that are not in the table.
    """

    def __init__(
        self, X: Any, regressor: Any, n_folds: int = N_FOLDS, *, new_items: bool = False
    ) -> None:
        check_regressor(regressor)
        self.X, self.regressor, self.n, self.n_folds = X, regressor, X.shape[0], n_folds
        self.new_items = new_items

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> CrossFittedRegressor:
        """Return the predictor for some rows of the table."""
        return CrossFittedRegressor(self.X[items], self.regressor, min(n_folds, self.n_folds))

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items, and the regressor of all targets if `new_items`."""
        known = np.flatnonzero(~np.isnan(y))
        target, own = y[known], None if weights is None else weights[known]
        folds = deal_targets(target, self.n_folds)
        held_out = mean_shift(target, folds, own)
        for fold in range(int(folds.max()) + 1):
            test, train = folds == fold, folds != fold
            part = None if own is None else own[train]
            model = self.fitted(known[train], target[train], part)
            held_out[test] += np.asarray(
                model.predict(self.X[known[test]]), dtype=np.float64
            ).ravel()
        model = self.fitted(known, target, own) if self.new_items or len(known) < self.n else None
        values = np.empty(self.n)
        if model is not None:
            values = np.asarray(model.predict(self.X), dtype=np.float64).ravel()
        values[known] = held_out
        return values, model if self.new_items else None

    def fitted(self, items: Indices, y: Floats, weights: Floats | None) -> Any:
        """Return a copy of the regressor fitted to some rows."""
        from sklearn.base import clone

        model = clone(self.regressor)
        options = {} if weights is None else weight_option(model, weights)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(self.X[items], y, **options)
        except ValueError as error:
            raise InputError(
                f"{type(self.regressor).__name__} cannot be fitted to {len(y)} targets "
                f"({' '.join(str(error).split())})",
                argument="regressor",
                remedy="give more targets, or use another regressor",
            ) from error
        return model


class KernelRidgePredictor(TargetPredictor):
    r"""Ridge regression on a table, or in the feature space of a Gaussian kernel.

    Leave-one-out errors choose penalty and width; held-out numbers are those of ten folds. Both are
    exact, without refits: :func:`~metricmix.dissimilarity.ridge.ridge_path`. The feature space is
    spanned by at most 1000 rows.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    kernel : {"linear", "rbf"}
    """

    def __init__(self, X: Any, kernel: str = "linear", n_folds: int = N_FOLDS) -> None:
        self.X, self.kernel, self.n, self.n_folds = X, kernel, X.shape[0], n_folds

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> KernelRidgePredictor:
        """Return the predictor for some rows of the table."""
        return KernelRidgePredictor(self.X[items], self.kernel, min(n_folds, self.n_folds))

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items."""
        known = np.flatnonzero(~np.isnan(y))
        target, own = y[known], None if weights is None else weights[known] / weights[known].mean()
        folds = deal_targets(target, self.n_folds)
        shift = mean_shift(target, folds, own)
        best: tuple[float, Floats] | None = None
        for features in self.tables(known):
            fit = ridge_path(features[known], target, weights=own, folds=folds)
            error = float(np.average(np.square(fit.held_out - target), weights=own))
            if best is None or error < best[0]:
                values = fit.intercept + features @ fit.coefficients
                values[known] = fit.held_out + shift
                best = error, values
        assert best is not None
        return best[1], None

    def tables(self, known: Indices) -> list[Floats]:
        """Return the features of all rows, a table for each width of the kernel."""
        X = self.X
        if self.kernel == "linear" and X.shape[1] <= len(known):
            dense = X if isinstance(X, np.ndarray) else X.toarray()
            centred = dense - dense[known].mean(axis=0)
            size = np.sqrt(np.square(centred[known]).sum(axis=1).mean())
            return [np.asarray(centred / (size or 1.0), dtype=np.float64)]
        anchors = known
        if len(known) > ANCHORS:
            anchors = np.random.default_rng(0).choice(known, ANCHORS, replace=False)
        product = X @ X[anchors].T
        G: Floats = np.asarray(
            product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float64
        )
        if self.kernel == "linear":
            means = G[anchors].mean(axis=0)
            grams = [G - G.mean(axis=1, keepdims=True) - means + means.mean()]
        else:
            lengths = X * X if isinstance(X, np.ndarray) else X.multiply(X)
            squares = np.asarray(lengths.sum(axis=1), dtype=np.float64).ravel()
            D = np.maximum(squares[:, None] + squares[anchors] - 2.0 * G, 0.0)
            typical = float(np.median(D[anchors])) or 1.0
            grams = [np.exp(-D / (2.0 * typical * width**2)) for width in WIDTHS]
        return [features_of(gram, anchors) for gram in grams]


def features_of(gram: Floats, anchors: Indices) -> Floats:
    """Return features whose products are the kernel values with the anchors, (n, p)."""
    scale = float(np.diag(gram[anchors]).mean()) or 1.0
    values, vectors = np.linalg.eigh(gram[anchors] / scale)
    kept = values > 1e-8 * max(float(values[-1]), 1e-300)
    return np.asarray(gram / scale @ (vectors[:, kept] / np.sqrt(values[kept])))


class TargetForest(TargetPredictor):
    """A random forest, in which items are judged by the trees not grown on them.

    Parameters
    ----------
    X : (n, d) array
    n_trees : int
    """

    def __init__(self, X: Floats, n_trees: int) -> None:
        self.X, self.n, self.n_trees = X, len(X), n_trees

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> ResampledTargetForest:
        """Return the predictor for some rows of the table, of as many trees."""
        return ResampledTargetForest(self.X[items], self.n_trees)

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items."""
        from sklearn.tree import DecisionTreeRegressor

        known = np.flatnonzero(~np.isnan(y))
        own = None if weights is None else weights[known]
        X = np.ascontiguousarray(self.X, dtype=np.float32)
        grown = grown_trees(
            lambda seed: DecisionTreeRegressor(max_features=COLUMNS_TRIED, random_state=seed),
            X[known],
            y[known],
            self.n_trees,
            own,
        )
        values = grown.predict(X)[:, 0] if len(known) < self.n else np.empty(self.n)
        held_out = grown.out_of_bag(X[known])[:, 0]
        mean = np.average(y[known], weights=own)
        values[known] = np.where(np.isnan(held_out), mean, held_out)  # all trees have seen it
        return values, None


class ResampledTargetForest(TargetPredictor):
    """A random forest that is only asked for the rows that its trees were not grown on.

    See :func:`~metricmix.dissimilarity.forests.out_of_bag_means`.
    """

    def __init__(self, X: Floats, n_trees: int) -> None:
        self.X, self.n, self.n_trees = X, len(X), n_trees

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items."""
        known = ~np.isnan(y)
        own = known * (1.0 if weights is None else weights)
        mean = float(np.average(y[known], weights=own[known]))
        centred = np.where(known, y - mean, 0.0)[:, None]
        columns = max(1, int(COLUMNS_TRIED * self.X.shape[1]))
        found = out_of_bag_means(self.X, centred, own, self.n_trees, columns)[:, 0]
        return np.where(np.isnan(found), mean, mean + found), None


class TargetPropagation(TargetPredictor):
    r"""Targets spread over a graph by PageRank.

    .. math:: f(i) = \bar y + \frac{\sum_s P_{is}\, (y_s - \bar y)}
              {\sum_s P_{is} + \varepsilon}

    with :math:`\varepsilon` a tenth of the mean of the sums: items that hardly any target reaches
    get the mean. For an item of known target, all targets of its fold leave the sums.

    Parameters
    ----------
    labels : LabelPropagation
        Of the same graph.
    n_folds : int
    new_items : bool
        Whether to keep what new nodes need: :class:`SpreadTargets`.
    """

    def __init__(
        self, labels: LabelPropagation, n_folds: int = N_FOLDS, *, new_items: bool = False
    ) -> None:
        self.labels, self.n, self.n_folds = labels, labels.n, n_folds
        self.new_items = new_items

    def part(self, items: Indices, n_folds: int = N_FOLDS) -> TargetPropagation:
        """Return the predictor for some nodes of the graph."""
        return TargetPropagation(self.labels.part(items, n_folds), min(n_folds, self.n_folds))

    def predict(self, y: Floats, weights: Floats | None = None) -> tuple[Floats, Any]:
        """Return the numbers of all items, and what new nodes need if `new_items`."""
        known = np.flatnonzero(~np.isnan(y))
        own = np.ones(len(known)) if weights is None else weights[known] / weights[known].mean()
        mean = float(np.average(y[known], weights=own))
        reached = self.labels.reached(known).copy()
        folds = deal_targets(y[known], self.n_folds)
        reached[known] = np.where(folds[:, None] == folds, 0.0, reached[known])
        total = reached @ own
        spread = reached @ (own * (y[known] - mean))
        few = 0.1 * max(float(total.mean()), 1e-12)
        model = None
        if self.new_items:
            start = np.zeros((self.n, 2))
            start[known] = np.column_stack([own, own * (y[known] - mean)])
            model = SpreadTargets(mean, few, start)
        return mean + spread / (total + few), model


@dataclass(frozen=True, eq=False)
class SpreadTargets:
    r"""Targets to be spread to new nodes.

    Attributes
    ----------
    mean : float
        :math:`\bar y`.
    few : float
        :math:`\varepsilon`.
    start : (n, 2) array
        Of each item of known target 1 and :math:`y - \bar y`, of all others 0: what is spread.
    """

    mean: float
    few: float
    start: Floats

    def predict(self, reached: Floats) -> Floats:
        """Return the numbers of m nodes, (m,), of `reached`, what of `start` reaches them."""
        return np.asarray(self.mean + reached[:, 1] / (np.maximum(reached[:, 0], 0.0) + self.few))


def for_targets(predictor: Predictor) -> TargetPredictor:
    """Return the counterpart of a predictor of classes for a numeric target."""
    if isinstance(predictor, LabelPropagation):
        return TargetPropagation(predictor)
    if isinstance(predictor, OutOfBagForest):
        return TargetForest(predictor.X, predictor.n_trees)
    assert isinstance(predictor, CrossFittedClassifier)
    return KernelRidgePredictor(predictor.X, predictor.classifiers[0].kernel)


def check_regressor(regressor: Any) -> None:
    """Raise unless an object is a regressor."""
    from sklearn.base import is_regressor

    wrong = isinstance(regressor, type) or not hasattr(regressor, "__sklearn_tags__")
    if wrong or not is_regressor(regressor):
        raise InputError(
            argument="regressor",
            expected="a scikit-learn regressor, such as Ridge()",
            found=f"{regressor!r}",
        )


def deal_targets(y: Floats, n_folds: int, random_state: int = 0) -> Indices:
    """Return the fold of each item: in the order of the targets, so that each has all sizes.

    There are at most half as many folds as items. Among equal targets the order is random.

    >>> deal_targets(np.array([5.0, 1.0, 2.0, 8.0]), 2)
    array([0, 0, 1, 1])
    """
    rng = np.random.default_rng(random_state)
    shuffled = rng.permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    k = min(n_folds, max(2, len(y) // 2))
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.arange(len(y)) % k
    return folds


def mean_shift(y: Floats, folds: Indices, weights: Floats | None) -> Floats:
    """Return the mean of all targets less that of the targets outside the fold of each item."""
    shift = np.empty(len(y))
    for fold in range(int(folds.max()) + 1):
        test = folds == fold
        others = None if weights is None else weights[~test]
        shift[test] = np.average(y, weights=weights) - np.average(y[~test], weights=others)
    return shift


class PredictionSource(Source):
    """Differences between the numbers that a predictor says of two items.

    Parameters
    ----------
    predictor : TargetPredictor
    name : str
    y : (n,) array, optional
        Targets, NaN where unknown. Without any all distances are 0, until targets are known
        (:meth:`relabelled`).
    weights : (n,) array, optional
        How much each target counts.

    Attributes
    ----------
    values : (n,) array
        The numbers.
    y : (n,) array
    model
        The regressor of all targets, if the predictor keeps it for new items.
    constant : bool
        Whether it says the same of all items, also of new ones.
    """

    supervised = True

    def __init__(
        self,
        predictor: TargetPredictor,
        name: str,
        y: Floats | None = None,
        weights: Floats | None = None,
    ) -> None:
        self.predictor: TargetPredictor | None = predictor
        self.y = np.full(predictor.n, np.nan) if y is None else y.copy()
        values, model, constant = np.zeros(predictor.n), None, True
        known = ~np.isnan(self.y)
        if known.sum() >= FEWEST:
            target = self.y.copy()
            target[known] = moved_in(target[known])
            with small_products(int(known.sum())):
                values, model = predictor.predict(target, weights)
            own = None if weights is None else weights[known]
            errors = np.square(values[known] - target[known])
            spread = np.square(target[known] - np.average(target[known], weights=own))
            useful = np.average(errors, weights=own) < np.average(spread, weights=own)
            constant = not (useful and np.isfinite(values).all())
        self._hold(name, np.zeros(predictor.n) if constant else values, model, constant)

    def _hold(self, name: str, values: Floats, model: Any, constant: bool) -> None:
        self.name, self.values, self.n = name, values, len(values)
        self.model, self.constant = model, constant
        self.facts = facts("prediction_differences")

    @classmethod
    def restored(
        cls, name: str, values: Floats, y: Floats, model: Any = None, constant: bool = False
    ) -> PredictionSource:
        """Return a source with the numbers that were computed before, without a predictor."""
        source = cls.__new__(cls)
        source.predictor, source.y = None, y
        source._hold(name, values, model, constant)
        return source

    def relabelled(
        self, codes: AnyArray, n_classes: int, *, keep_choice: bool = False
    ) -> PredictionSource:
        """Return the same source computed from other targets, `codes`; `n_classes` is 0."""
        if n_classes:
            raise InputError(
                f"source {self.name!r} predicts numbers, and there are classes to predict",
                argument="sources",
                remedy="make the stack with labels= for a classifier",
            )
        if np.array_equal(codes, self.y, equal_nan=True):
            return self
        if self.predictor is None:
            raise InputError(
                f"source {self.name!r} was loaded with the numbers of its fit, and cannot be "
                "computed from other targets",
                argument="sources",
                remedy="make the stack again, and fit to it",
            )
        return PredictionSource(self.predictor, str(self.name), codes)

    def rows(self, indices: Indices) -> Floats:
        """Return ``M[indices, :]``."""
        return np.abs(self.values[indices][:, None] - self.values)

    def columns(self, indices: Indices) -> Floats:
        """Return the same: the distance is symmetric."""
        return self.rows(indices)

    def block(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[np.ix_(i, j)]``."""
        return np.abs(self.values[i][:, None] - self.values[j])

    def pairs(self, i: Indices, j: Indices) -> Floats:
        """Return ``M[i, j]`` elementwise."""
        return np.abs(self.values[i] - self.values[j])

    def cross(self, values: Floats) -> Floats:
        """Return the distances from m items with these numbers, (m, n)."""
        return np.abs(values[:, None] - self.values)

    def new_values(self, X: Any) -> Floats:
        """Return the numbers of new rows, by the regressor of all targets."""
        if self.constant:
            return np.zeros(X.shape[0])
        assert self.model is not None
        return np.asarray(self.model.predict(X), dtype=np.float64).ravel()

    def extended(self, values: Floats) -> PredictionSource:
        """Return the source with more items, of given numbers."""
        y = np.append(self.y, np.full(len(values), np.nan))
        everyone = np.append(self.values, values)
        return PredictionSource.restored(str(self.name), everyone, y, self.model, self.constant)
