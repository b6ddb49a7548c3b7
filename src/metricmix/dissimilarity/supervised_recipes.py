"""Supervised sources of a feature table: a classifier or regressor, to be fitted in a fit."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.features import row_digests
from metricmix.dissimilarity.hellinger import ProbabilitySource, check_distributions
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe
from metricmix.dissimilarity.regressors import CrossFittedRegressor, PredictionSource
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.supervised import (
    N_FOLDS,
    CrossFittedClassifier,
    FittedClassifier,
    SupervisedSource,
    check_classifier,
)
from metricmix.exceptions import InputError
from metricmix.typing import Floats
from metricmix.validation import check_integer

__all__ = ["AppliedRegressor", "AppliedSupervised", "SupervisedRecipe", "supervised"]

ROWS = 1024
"""Rows of a sparse table that are made dense at a time."""


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
    (:mod:`metricmix.dissimilarity.regressors`).

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


class SupervisedRecipe(Recipe):
    """:func:`~metricmix.dissimilarity.supervised` of a later table and later labels."""

    kind = "supervised"
    usual: ClassVar[dict[str, Any]] = {"n_folds": N_FOLDS, "probabilities": None}

    def __init__(
        self, classifier: Any = None, n_folds: int = N_FOLDS, probabilities: Any = None
    ) -> None:
        self.for_numbers = probabilities is None and is_regressor(classifier)
        if not self.for_numbers and (classifier is not None or probabilities is None):
            check_classifier(classifier)
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
        return "probabilities" if self.classifier is None else type(self.classifier).__name__

    def apply(self, X: ArrayLike | Any) -> AppliedSupervised | AppliedRegressor:
        """Return the source of the rows of X, whose distances are known when labels are."""
        return AppliedRegressor(self, X) if self.for_numbers else AppliedSupervised(self, X)


class AppliedSupervised(AppliedRecipe):
    """A classifier and n rows."""

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
    def source(self) -> ProbabilitySource:
        """The distances; all 0 where they depend on labels, until its `relabelled` has them."""
        recipe, table = self.recipe, self._table
        if recipe.probabilities is not None:
            return ProbabilitySource(recipe.probabilities, name=self.name)
        predictor = CrossFittedClassifier(table, recipe.classifier, recipe.n_folds, new_items=True)
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
        return self.source.cross(self.new_probabilities(self.source, Y))

    def cross_to(self, source: Source, Y: ArrayLike | Any) -> Floats:
        """Return the distances from new rows, by the classifier that a fit has left in `source`."""
        assert isinstance(source, ProbabilitySource)
        return source.cross(self.new_probabilities(source, self.checked(Y)))

    def extended(self, source: Source, table: Any) -> ProbabilitySource:
        """Return the source with the last row of a table as one item more, without a label."""
        assert isinstance(source, ProbabilitySource)
        return source.extended(self.new_probabilities(source, self.checked(table[-1:])))

    def check_known(self) -> None:
        """Raise if distances depend on labels."""
        if self.source.supervised:
            raise InputError(
                f"source {self.name!r} is computed from labels",
                argument="sources",
                remedy="pass it to an estimator, which is fitted to labels",
            )

    def new_probabilities(self, source: ProbabilitySource, Y: Any) -> Floats:
        """Return the probabilities (m, C) of new rows: those of an equal row of the fit, if any.

        `source` is that of the n rows, with the classifier that was fitted to their labels.
        """
        places = [self.places.get(digest, -1) for digest in digests(Y)]
        same = np.array(places, dtype=np.int64)
        p, new = source.probabilities[same], np.flatnonzero(same < 0)
        if len(new):
            p[new] = self.fitted(source).probabilities(Y[new])
        return p

    def fitted(self, source: ProbabilitySource) -> FittedClassifier:
        """Return the classifier of all labels."""
        if isinstance(source, SupervisedSource):
            assert source.classifier is not None
            return source.classifier
        classifier, n_classes = self.recipe.classifier, source.probabilities.shape[1]
        if classifier is None:
            raise InputError(
                f"source {source.name!r} has probabilities for the rows of the fit only",
                argument="X",
                remedy="pass the classifier as well, supervised(classifier, probabilities=...)",
            )
        return FittedClassifier(classifier, np.arange(n_classes), n_classes)

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The first of the n rows with a digest."""
        known = digests(self._table)
        return {digest: i for i, digest in reversed(list(enumerate(known)))}


class AppliedRegressor(AppliedRecipe):
    """A regressor and n rows."""

    recipe: SupervisedRecipe

    @cached_property
    def source(self) -> PredictionSource:
        """The distances; all 0, until its `relabelled` has targets."""
        recipe = self.recipe
        predictor = CrossFittedRegressor(
            self._table, recipe.classifier, recipe.n_folds, new_items=True
        )
        return PredictionSource(predictor, self.name)

    @property
    def matrix(self) -> DissimilarityMatrix:
        """Raise: distances depend on targets."""
        raise self.unknown()

    def compute_cross(self, Y: Any) -> Floats:
        """Raise: distances depend on targets."""
        raise self.unknown()

    def unknown(self) -> InputError:
        """Return what is wrong where there are no targets."""
        return InputError(
            f"source {self.name!r} is computed from targets",
            argument="sources",
            remedy="pass it to an estimator, which is fitted to targets",
        )

    def cross_to(self, source: Source, Y: ArrayLike | Any) -> Floats:
        """Return the distances from new rows, by the regressor that a fit has left in `source`."""
        assert isinstance(source, PredictionSource)
        return source.cross(self.new_values(source, self.checked(Y)))

    def extended(self, source: Source, table: Any) -> PredictionSource:
        """Return the source with the last row of a table as one item more, without a target."""
        assert isinstance(source, PredictionSource)
        return source.extended(self.new_values(source, self.checked(table[-1:])))

    def new_values(self, source: PredictionSource, Y: Any) -> Floats:
        """Return the numbers of new rows: those of an equal row of the fit, if any."""
        same = np.array([self.places.get(digest, -1) for digest in digests(Y)], dtype=np.int64)
        values, new = source.values[same], np.flatnonzero(same < 0)
        if len(new):
            values[new] = source.new_values(Y[new])
        return values

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The first of the n rows with a digest."""
        known = digests(self._table)
        return {digest: i for i, digest in reversed(list(enumerate(known)))}


def is_regressor(model: Any) -> bool:
    """Return whether an object is a scikit-learn regressor."""
    if model is None or isinstance(model, type):
        return False
    from sklearn.base import is_regressor as found

    complete = all(hasattr(model, name) for name in ("fit", "predict", "__sklearn_tags__"))
    return bool(complete and found(model))


def digests(table: Any) -> list[bytes]:
    """Return one digest per row of a table, equal for equal rows."""
    if isinstance(table, np.ndarray):
        return row_digests(np.asarray(table, dtype=np.float64))
    found: list[bytes] = []
    for start in range(0, table.shape[0], ROWS):
        found += row_digests(table[start : start + ROWS].toarray().astype(np.float64))
    return found
