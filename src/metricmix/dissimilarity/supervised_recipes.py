"""Supervised sources of a feature table: a classifier or regressor, to be fitted in a fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_fitting import (
    CrossFitted,
    TableModel,
    check_estimator,
    is_regressor,
)
from metricmix.dissimilarity.feature_rows import row_digests
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.predictions import (
    PredictedSource,
    ProbabilitySource,
    check_distributions,
)
from metricmix.dissimilarity.predictors import N_FOLDS
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.exceptions import InputError
from metricmix.state import NotStored, checked_state, stored
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer

__all__ = ["AppliedSupervised", "RowPlaces", "SupervisedRecipe", "supervised"]


def supervised(
    classifier: Any = None, *, n_folds: int = N_FOLDS, probabilities: ArrayLike | None = None
) -> SupervisedRecipe:
    r"""Distance between the predictions of a classifier or regressor: a recipe for a table.

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
    SupervisedRecipe
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
    return SupervisedRecipe(classifier, n_folds, probabilities)


@stored("supervised")
class SupervisedRecipe(Recipe):
    """:func:`~metricmix.dissimilarity.supervised` of a later table and later labels."""

    kind = "supervised"
    usual: ClassVar[dict[str, Any]] = {"n_folds": N_FOLDS, "probabilities": None}

    def __init__(
        self, classifier: Any = None, n_folds: int = N_FOLDS, probabilities: Any = None
    ) -> None:
        self.for_numbers = probabilities is None and is_regressor(classifier)
        known = isinstance(classifier, NotStored)
        if not known and not self.for_numbers and (classifier is not None or probabilities is None):
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
        super().__init__(
            {"classifier": classifier, "n_folds": n_folds, "probabilities": probabilities}
        )
        self.classifier = self.arguments["classifier"]
        self.n_folds: int = n_folds
        self.probabilities: Floats | None = self.arguments["probabilities"]

    @property
    def name(self) -> str:
        """The name of the classifier's class."""
        if isinstance(self.classifier, NotStored):
            return self.classifier.name
        return "probabilities" if self.classifier is None else type(self.classifier).__name__

    def to_state(self) -> dict[str, Any]:
        """Return the arguments; a classifier that was fitted elsewhere is left out."""
        state = dict(self.arguments)
        if self.probabilities is not None and self.classifier is not None:
            state["classifier"] = NotStored(type(self.classifier).__name__)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SupervisedRecipe:
        """Return the recipe with these arguments."""
        table = {"classifier": Any, "n_folds": int, "probabilities": Floats | None}
        return cls(**checked_state(state, table, "supervised"))

    def apply(self, X: ArrayLike | Any) -> AppliedSupervised:
        """Return the source of the rows of X, whose distances are known when labels are."""
        return AppliedSupervised(self, X)


class AppliedSupervised(AppliedRecipe):
    """A classifier or regressor and n rows."""

    recipe: SupervisedRecipe

    def __init__(self, recipe: SupervisedRecipe, X: ArrayLike | Any) -> None:
        super().__init__(recipe, X)
        given = recipe.probabilities
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
    def source(self) -> PredictedSource:
        """The distances; all 0 where they depend on labels, until its `relabel` has them."""
        recipe = self.recipe
        if recipe.probabilities is None and isinstance(recipe.classifier, NotStored):
            raise InputError(
                argument="sources",
                expected="classifiers and regressors that can be fitted",
                found=f"{recipe.classifier!r}",
            )
        if recipe.probabilities is not None:
            return ProbabilitySource(recipe.probabilities, name=self.name)
        predictor = CrossFitted(self._table, recipe.classifier, recipe.n_folds)
        return SupervisedSource(predictor, self.name)

    @property
    def matrix(self) -> DissimilarityMatrix:
        """The distances among the rows, if they do not depend on labels."""
        self.check_known()
        rows = self.source.rows(np.arange(self.n))
        return as_dissimilarity(np.minimum(rows, rows.T), self.name, facts=self.source.facts)

    def compute_cross(self, Y: Any) -> Floats:
        """Return the distances from the rows of Y, if they do not depend on labels."""
        self.check_known()
        return self.source.cross(self.new_values(self.source, Y))

    def cross_to(self, source: Source, Y: ArrayLike | Any) -> Floats:
        """Return the distances from new rows, by the model of all labels of `source`."""
        assert isinstance(source, PredictedSource)
        return source.cross(self.new_values(source, self.checked(Y)))

    def extended(self, source: Source, table: Any) -> PredictedSource:
        """Return the source with the last row of a table as one item more, without a label."""
        assert isinstance(source, PredictedSource)
        return source.extended(self.new_values(source, self.checked(table[-1:])))

    def check_known(self) -> None:
        """Raise if distances depend on labels."""
        if self.source.supervised:
            given = "targets" if self.recipe.for_numbers else "labels"
            raise InputError(
                f"source {self.name!r} is computed from {given}",
                argument="sources",
                remedy=f"pass it to an estimator, which is fitted to {given}",
            )

    def new_values(self, source: PredictedSource, Y: Any) -> Floats:
        """Return what is predicted of new rows: that of an equal row of the fit, if any.

        `source` is that of the n rows, as a fit has made it.
        """
        same = self.places(Y)
        values, new = source.values[same], np.flatnonzero(same < 0)
        if len(new):
            if isinstance(self.recipe.classifier, NotStored):
                raise InputError(
                    f"source {source.name!r} has predictions for the rows of the fit only: the "
                    f"file does not hold its {self.recipe.classifier.name}",
                    argument="X",
                    remedy="fit the model again, with a classifier of scikit-learn",
                )
            if isinstance(source, SupervisedSource):
                values[new] = source.predicted(Y[new])
            else:
                values[new] = self.given(source).predict(Y[new])
        return values

    def given(self, source: PredictedSource) -> TableModel:
        """Return the classifier that was trained elsewhere."""
        classifier, n_classes = self.recipe.classifier, source.values.shape[1]
        if classifier is None:
            raise InputError(
                f"source {source.name!r} has probabilities for the rows of the fit only",
                argument="X",
                remedy="pass the classifier as well, supervised(classifier, probabilities=...)",
            )
        return TableModel(classifier, np.arange(n_classes), n_classes)

    @cached_property
    def places(self) -> RowPlaces:
        """Which of the n rows a row equals."""
        return RowPlaces(self._table)


class RowPlaces:
    """Where rows are found in a table.

    >>> RowPlaces(np.array([[1.0, 2.0], [3.0, 4.0]]))(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([ 1, -1])
    """

    def __init__(self, table: Any) -> None:
        self._places = {digest: i for i, digest in reversed(list(enumerate(digests(table))))}

    def __call__(self, rows: Any) -> Indices:
        """Return the first equal row of the table for each of some rows, -1 where there is none."""
        found = [self._places.get(digest, -1) for digest in digests(rows)]
        return np.array(found, dtype=np.int64)


def digests(table: Any) -> list[bytes]:
    """Return one digest per row of a table, equal for equal rows."""
    if isinstance(table, np.ndarray):
        return row_digests(np.asarray(table, dtype=np.float64))
    found: list[bytes] = []
    for start in range(0, table.shape[0], 1024):  # as many rows are made dense at a time
        found += row_digests(table[start : start + 1024].toarray().astype(np.float64))
    return found
