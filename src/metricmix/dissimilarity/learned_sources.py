r"""Supervised sources of files: what classifiers or regressors say of two items, as a distance.

The source is the Hellinger distance of class probabilities
(:mod:`metricmix.dissimilarity.supervised`), or the difference of predicted numbers
(:mod:`metricmix.dissimilarity.predictions`):

====================  ============================================================================
``learned``           a logistic or ridge regression on the encoded columns
``forest``            a random forest on them, which finds interactions
``learned_graph``     a logistic or ridge regression on attributes smoothed along a graph, or on
                      memberships
``spread``            labels or targets spread over a graph, or over the items that share things
====================  ============================================================================

Every fold of a cross-validation computes them from the labels or targets that it may see. For new
items the models are fitted again, to the labels of the fit, with the same result: a folder holds
the cells and edges, and no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.features import GivenTable
from metricmix.dissimilarity.item_keys import RowPlaces
from metricmix.dissimilarity.item_sources import (
    ItemSource,
    NewItemData,
    SourceData,
    view_of,
)
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import (
    PredictedSource,
    ProbabilitySource,
    check_distributions,
)
from metricmix.dissimilarity.predictors import (
    N_FOLDS,
    CrossFitted,
    Predictor,
    TableModel,
    check_estimator,
    is_regressor,
)
from metricmix.dissimilarity.propagation import LabelPropagation, Spread
from metricmix.dissimilarity.relation_sources import Links, walked_graph
from metricmix.dissimilarity.smoothing import pagerank_smoothed
from metricmix.dissimilarity.specs import SourceSpec, TableSpec
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.exceptions import InputError
from metricmix.items.items import Items
from metricmix.items.relation import Memberships
from metricmix.labels import group_numbers
from metricmix.state import NotStored
from metricmix.typing import Floats
from metricmix.validation import check_integer

__all__ = [
    "ModelSource",
    "PredictionSource",
    "SpreadOverGraph",
    "SupervisedTable",
    "dense",
    "known_of",
    "supervised",
]


class PredictionSource(ItemSource):
    """Distances between what is predicted of two items, computed from labels or targets."""

    predictor: Predictor

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.data = data

    @cached_property
    def known(self) -> Known | None:
        """The labels or targets, with the keys that folds are dealt by."""
        found: Known = self.data.once(
            "known", lambda: replace(known_of(self.data.items), keys=self.data.keys)
        )
        return found

    def relabel(self, known: Known) -> ItemSource:
        """Return the source for the labels of a fit, to which new items are compared."""
        other = copy(self)
        other.__dict__.pop("_supervised", None)
        other.known = replace(known, keys=self.known.keys if self.known else known.keys)
        return other

    @property
    def supervised(self) -> PredictedSource:
        """The distances, by the probabilities or numbers of all items; computed once.

        Not a cached_property, whose lock in Python 3.11 lets one source at a time be computed.
        """
        if "_supervised" not in vars(self):
            self._supervised = self.predictions()
        return self._supervised

    def predictions(self) -> PredictedSource:
        """Return the distances, by the probabilities or numbers of all items."""
        return SupervisedSource(self.predictor, self.spec.name, self.known)

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        return np.asarray(self.supervised.rows(np.arange(self.n)))

    def by_pairs(self) -> PredictedSource:
        """Return the same by rows and pairs."""
        return self.supervised

    def cross(self, new: Any, known: Any = None) -> Floats:
        """Return the distances from what the model of all labels says of new items."""
        held = known if isinstance(known, PredictedSource) else self.supervised
        return held.cross(self.new_values(new, held))

    def new_values(self, new: Any, held: PredictedSource | None = None) -> Floats:
        """Return the class probabilities (m, C) or the predicted numbers (m,) of new items.

        `held` has the values of all items, for the labels of a fit; default: `supervised`.
        """
        raise NotImplementedError


class ModelSource(PredictionSource):
    """A model of the rows of a view: encoded columns, smoothed attributes or memberships.

    A new item with the row of an item of the fit gets its probabilities, or its number.
    """

    kernel = "linear"
    usual_view = "metric"

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        of_groups = isinstance(data.edges, Memberships)
        self.base = view_of(spec, data, "membership" if of_groups else self.usual_view)

    @property
    def links(self) -> Links | None:
        """The graph that attributes are smoothed along, or the memberships."""
        return self.base.links

    @cached_property
    def rows(self) -> Any:
        """The rows of all items, (n, d)."""
        return self.base.table

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The model, and how labelled items are judged without their label."""
        return KernelPredictor(self.rows, self.kernel)

    def new_values(self, new: Any, held: PredictedSource | None = None) -> Floats:
        """Return what the model of all labels says."""
        held = held or self.supervised
        rows = self.base.new_rows(new)
        rows = dense(rows) if isinstance(self.rows, np.ndarray) else type(self.rows)(rows)
        same = self.places(rows)
        values, unseen = held.values[same], np.flatnonzero(same < 0)
        if len(unseen):
            values[unseen] = self.predicted(rows[unseen], held)
        return np.asarray(values)

    @cached_property
    def places(self) -> RowPlaces:
        """Which of the rows another row equals."""
        return RowPlaces(self.rows)

    def predicted(self, rows: Any, held: PredictedSource) -> Floats:
        """Return what is predicted of rows that no item of the fit has."""
        assert isinstance(held, SupervisedSource)
        return held.predicted(rows)


class SpreadOverGraph(PredictionSource):
    """Labels or targets spread by PageRank, over a given graph or over near items."""

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.graph, self.base = walked_graph(spec, data)

    @property
    def links(self) -> Links | None:
        """The graph, if it was given."""
        return self.graph if isinstance(self.graph, Links) else None

    @cached_property
    def predictor(self) -> LabelPropagation:  # type: ignore[override]
        """PageRank of the labels of each class, or of the targets."""
        return LabelPropagation(self.graph.operator, self.spec.restart)

    def reached(self, new: NewItemData, start: Floats) -> Floats:
        """Return what of `start` (n, d) walks from new items reach, (m, d)."""
        spread = pagerank_smoothed(self.graph.operator, start, self.spec.restart, 1e-6)
        nothing = np.zeros((len(new.items.ids), start.shape[1]))
        return self.graph.attached(new, self.spec.restart, nothing, spread)

    def new_values(self, new: NewItemData, held: PredictedSource | None = None) -> Floats:
        """Return what is made of the labels or targets that walks from new items reach."""
        held = held or self.supervised
        assert isinstance(held, SupervisedSource)
        if held.is_constant:
            return held.predicted(np.zeros((len(new.items.ids), 0)))
        model = held.model
        assert isinstance(model, Spread)
        return model.predict(self.reached(new, model.start))


# -- models on a feature table ---------------------------------------------------------------------


def supervised(
    classifier: Any = None, *, n_folds: int = N_FOLDS, probabilities: ArrayLike | None = None
) -> TableSpec:
    r"""Distance between what a classifier or regressor predicts of the rows of a later table.

    .. math:: M[i, j] = \sqrt{1 - \textstyle\sum_c \sqrt{p_c(x_i)\, p_c(x_j)}}

    the Hellinger distance of class probabilities p, a pseudo-metric in [0, 1]. An estimator fits
    the classifier to the labels y of its own fit, and so does every fold of a cross-validation and
    every resample. Labelled rows get probabilities from models that have not seen their label
    (cross-fitted), unlabelled and new ones those of the model of all labels. A new row that equals
    one of the fit gets the probabilities of that one.

    For a numeric target, the difference of what a regressor predicts,
    :math:`M[i, j] = |f(x_i) - f(x_j)|`, cross-fitted in the same way
    (:mod:`metricmix.dissimilarity.supervised`).

    Parameters
    ----------
    classifier : scikit-learn classifier or regressor
        A classifier needs ``predict_proba``. A copy is fitted; it stays as it is.
    n_folds : int
        For the labelled rows; at most as many as a class has labels on average.
    probabilities : (n, C) array, optional
        For a classifier that was trained elsewhere: its *out-of-fold* probabilities of the n rows
        of the fit. Nothing is fitted then, whatever y is, and `classifier`, which is taken as
        fitted, only serves new rows; None, if there are none.

    Returns
    -------
    TableSpec
        For the parameter `sources` of an estimator.

    Raises
    ------
    InputError
        If the classifier has no probabilities, or rows of `probabilities` are not distributions.

    See Also
    --------
    metricmix.dissimilarity.ProbabilitySource : the same of a table of probabilities, in a stack.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> learned = mm.dissimilarity.supervised(LogisticRegression(max_iter=300))
    >>> model = mm.MetricMixtureClassifier({"plain": "euclidean", "learned": learned})
    >>> model.fit(X, y).predict([[5.0, 3.4, 1.5, 0.2]])
    array([0])
    """
    if probabilities is None and not isinstance(classifier, NotStored):
        check_estimator(classifier, is_numeric=is_regressor(classifier))
    elif classifier is not None and not isinstance(classifier, NotStored):
        check_estimator(classifier)
    n_folds = check_integer(n_folds, name="n_folds", low=2)
    if probabilities is not None:
        probabilities = check_distributions(probabilities, name="probabilities")
        found = len(getattr(classifier, "classes_", ())) or probabilities.shape[1]
        if found != probabilities.shape[1]:
            raise InputError(
                argument="probabilities",
                expected=f"{found} columns, one per class of the classifier",
                found=probabilities.shape[1],
            )
    name = "probabilities" if classifier is None else type(classifier).__name__
    name = classifier.name if isinstance(classifier, NotStored) else name
    arguments = {"classifier": classifier, "n_folds": n_folds, "probabilities": probabilities}
    return TableSpec(SupervisedTable, name, arguments)


class SupervisedTable(ModelSource):
    """Distances between what a classifier or regressor predicts of the rows of a feature table."""

    function = "supervised"
    usual: ClassVar[Mapping[str, Any]] = {"n_folds": N_FOLDS, "probabilities": None}
    spec: TableSpec  # type: ignore[assignment]

    def __init__(self, spec: TableSpec, X: Any) -> None:
        self.spec, self.base, self.known = spec, GivenTable(spec, X), None
        self.n = self.base.n
        self.classifier, given = spec.arguments["classifier"], spec.arguments["probabilities"]
        if given is not None and len(given) != self.n:
            raise InputError(
                argument="probabilities",
                expected=f"{self.n} rows, one per row of X",
                found=len(given),
                remedy=(
                    "where X is split, pass a stack with a ProbabilitySource as sources=, and ids "
                    "of its items as X"
                ),
            )

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The model, cross-fitted."""
        if isinstance(self.classifier, NotStored):
            raise InputError(
                argument="sources",
                expected="classifiers and regressors that can be fitted",
                found=f"{self.classifier!r}",
            )
        return CrossFitted(self.rows, self.classifier, self.spec.arguments["n_folds"])

    def predictions(self) -> PredictedSource:
        """Return the distances; all 0 where they depend on labels, until `relabel` has them."""
        given = self.spec.arguments["probabilities"]
        if given is not None:
            return ProbabilitySource(given, name=self.spec.name)
        return SupervisedSource(self.predictor, self.spec.name)

    def matrix(self) -> Floats:
        """Return the distances among the rows, if they do not depend on labels."""
        self.check_labels(None)
        return super().matrix()

    def cross(self, new: Any, known: Any = None) -> Floats:
        """Return the distances from new rows, by the model of all labels that a fit holds."""
        self.check_labels(known)
        return super().cross(new, known)

    def check_labels(self, known: Any) -> None:
        """Raise if distances depend on labels, and no fit has any."""
        if known is None and self.spec.arguments["probabilities"] is None:
            given = "targets" if is_regressor(self.classifier) else "labels"
            raise InputError(
                f"source {self.spec.name!r} is computed from {given}",
                argument="sources",
                remedy=f"pass it to an estimator, which is fitted to {given}",
            )

    def predicted(self, rows: Any, held: PredictedSource) -> Floats:
        """Return what is predicted of rows that no row of the fit equals."""
        if isinstance(self.classifier, NotStored):
            raise InputError(
                f"source {held.name!r} has predictions for the rows of the fit only: the file does "
                f"not hold its {self.classifier.name}",
                argument="X",
                remedy="fit the model again, with a classifier of scikit-learn",
            )
        if isinstance(held, SupervisedSource):
            return held.predicted(rows)
        if self.classifier is None:
            raise InputError(
                f"source {held.name!r} has probabilities for the rows of the fit only",
                argument="X",
                remedy="pass the classifier as well, supervised(classifier, probabilities=...)",
            )
        n_classes = held.values.shape[1]
        return TableModel(self.classifier, np.arange(n_classes), n_classes).predict(rows)


def known_of(items: Items) -> Known:
    """Return the labels or targets of items; classes in the order of their names."""
    groups = None
    if items.groups is not None:
        groups = group_numbers(items.groups, len(items.ids))
    if items.targets is not None:
        return Known(items.targets, 0, groups=groups)
    labels = items.labels or ("",) * len(items.ids)
    classes = sorted({label for label in labels if label})
    number = {label: c for c, label in enumerate(classes)}
    codes = np.array([number.get(label, -1) for label in labels])
    return Known(codes, max(1, len(classes)), groups=groups)


def dense(table: Any) -> Floats:
    """Return a table as an array."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())
