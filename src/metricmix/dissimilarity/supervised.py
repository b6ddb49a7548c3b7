r"""Supervised sources: the distance between what a model predicts of two items.

A classifier turns an item into class probabilities, a regressor into a number; the distances of
both are in :mod:`metricmix.dissimilarity.predictions`.

Items of known label or target get *cross-fitted* values, from a model that has not seen it; all
others those of the model of all labels. Otherwise a model that knows its labels by heart would look
best, and get the largest weight. A supervised source depends on the labels, so each fold of a
cross-validation computes it anew from the labels that it may see
(:meth:`SupervisedSource.relabel`).

Where labels are scarce: an item whose class has no other label, or none in the folds that judge it,
gets equal probabilities for all classes: nothing is known of its class without it. Identical items
with different labels get the probabilities of their folds. A model that says the same of all items
makes a source of zeros, which no weight changes.

Targets are left out in folds, not one by one: two models that differ little would differ, for an
item that is left out alone, by a multiple of its own residual, and so give its target away. A mean
without an item's own target tells what that target was: the larger it is, the smaller the mean of
the others. So all held-out numbers are relative to the same mean, that of all targets.

Neither the order of the items nor the numbers of the classes change a source, up to rounding:
models are fitted to the items in the order of their keys, with classes numbered in it
(:class:`~metricmix.dissimilarity.known.Known`). Without keys, positions count in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import (
    PredictedSource,
    check_predictions,
    is_useful,
    prepared,
    unknown_values,
    without_rounding,
)
from metricmix.dissimilarity.predictors import FEWER_FOLDS, FittedModel, Predictor
from metricmix.exceptions import InputError
from metricmix.kernels.process_settings import small_products
from metricmix.state import checked_state, require, stored
from metricmix.typing import Floats, Indices

__all__ = ["SupervisedSource"]


@stored("SupervisedSource")
class SupervisedSource(PredictedSource):
    """Distances between what a predictor says of two items.

    Parameters
    ----------
    predictor : Predictor
    name : str
    known : Known, optional
        Labels or targets. Without any all distances are 0, until some are known (:meth:`relabel`).
    weights : (n,) array, optional
        How much each label counts.
    folds : int, optional
        Fewer folds than those of the predictor.
    choice : int, optional
        Which of the predictor's models to take.

    Attributes
    ----------
    values : (n, C) or (n,) array
        Class probabilities, or numbers.
    known : Known
    choice : int or None
        Which of the predictor's models was taken.
    is_constant : bool
        Whether the same is said of all items, also of new ones.
    """

    supervised = True
    in_class_order = True

    def __init__(
        self,
        predictor: Predictor,
        name: str,
        known: Known | None = None,
        *,
        weights: Floats | None = None,
        folds: int | None = None,
        choice: int | None = None,
    ) -> None:
        if known is None:
            numeric = bool(predictor.is_numeric)
            known = Known(np.full(predictor.n, np.nan if numeric else -1), int(not numeric))
        self.predictor: Predictor | None = predictor
        self.known, self.weights, self.choice = known, weights, choice
        values, training = unknown_values(known.n, known.n_classes), prepared(known)
        self.is_constant = True
        if training is not None:
            with small_products(len(training.items)):
                found = predictor.predict(training, weights, n_folds=folds, choice=choice)
            self.choice = found.choice
            self.is_constant = not is_useful(found.values, training, weights)
            values = values if self.is_constant else found.values
            values = values if known.is_numeric else without_rounding(values)
        super().__init__(values, name)

    @classmethod
    def restored(
        cls,
        name: str,
        values: Floats,
        known: Known,
        predictor: Predictor | None = None,
        *,
        choice: int | None = None,
        is_constant: bool = False,
    ) -> SupervisedSource:
        """Return a source with values that were computed before.

        Without a predictor it stays as it is.
        """
        source = cls.__new__(cls)
        source.predictor, source.known, source.weights = predictor, known, None
        source.choice, source.is_constant = choice, is_constant
        PredictedSource.__init__(source, values, name)
        return source

    def to_state(self) -> dict[str, Any]:
        """Return the predictions and what they were computed from, but not by what."""
        return {
            "name": self.name,
            "values": self.values,
            "known": self.known,
            "choice": self.choice,
            "is_constant": self.is_constant,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SupervisedSource:
        """Return the source of stored predictions; its specification fits a model again."""
        table = {
            "name": str,
            "values": Floats,
            "known": Known,
            "choice": int | None,
            "is_constant": bool,
        }
        name, values, known, choice, is_constant = checked_state(state, table, "a source").values()
        check_predictions(values, name)
        sound = len(values) == known.n and (values.ndim == 1) == known.is_numeric
        sound = sound and (known.is_numeric or values.shape[1] == known.n_classes)
        sound = sound and (choice is None or choice >= 0)
        require(sound, f"expected the labels that source {name!r} is computed from")
        return cls.restored(name, values, known, choice=choice, is_constant=is_constant)

    @property
    def can_relabel(self) -> bool:
        """Whether :meth:`relabel` works: not for a source that was loaded."""
        return self.predictor is not None

    def relabel(
        self, known: Known, *, weights: Floats | None = None, keep_choice: bool = False
    ) -> SupervisedSource:
        """Return the same source computed from other labels or targets.

        Parameters
        ----------
        known : Known
            Of the same n items; without keys, with those of this source.
        weights : (n,) array, optional
            How much each label counts.
        keep_choice : bool
            Whether to take the model that this source has chosen among several, in five folds at
            most: what that is for, choosing other settings, needs no more.
        """
        if known.is_numeric != self.is_numeric:
            here, there = ("numbers", "classes")[:: 1 if self.is_numeric else -1]
            raise InputError(
                f"source {self.name!r} predicts {here}, and there are {there} to predict",
                argument="sources",
                remedy=f"make the stack with {'target' if known.is_numeric else 'labels'}=",
            )
        if known.keys is None:  # those of the items, whatever their labels
            known = replace(known, keys=self.known.keys)
        if weights is None and self.weights is None and same(self.known, known):
            return self
        if self.predictor is None:
            raise InputError(
                f"source {self.name!r} was loaded with the predictions of its fit, and cannot be "
                f"computed from other {'targets' if known.is_numeric else 'labels'}",
                argument="sources",
                remedy="make the stack again, and fit to it",
            )
        return SupervisedSource(
            self.predictor,
            str(self.name),
            known,
            weights=weights,
            folds=FEWER_FOLDS if keep_choice else None,
            choice=self.choice if keep_choice else None,
        )

    def part(self, items: Indices, n_folds: int) -> SupervisedSource:
        """Return the source of some items that have all the labels there are.

        Its models are fitted to these items alone, in at most `n_folds` folds: what resamples of
        the labels ask for, by ``part.relabel(known, weights=..., keep_choice=True)``.
        """
        return SupervisedSource.restored(
            str(self.name),
            self.values[items],
            self.known.take(items),
            None if self.predictor is None else self.predictor.part(items, n_folds),
            choice=self.choice,
            is_constant=self.is_constant,
        )

    @cached_property
    def model(self) -> FittedModel:
        """The model of all labels, for new items; fitted when it is first asked for."""
        training = prepared(self.known)
        if self.predictor is None or training is None:
            raise InputError(
                f"source {self.name!r} has predictions for the items of the fit only",
                argument="X",
                remedy="fit it to a feature table",
            )
        with small_products(len(training.items)):
            return self.predictor.model(training, self.weights, choice=self.choice)

    def predicted(self, X: Any) -> Floats:
        """Return what is predicted of new rows X, (m, C) or (m,)."""
        if self.is_constant:
            return unknown_values(X.shape[0], self.known.n_classes)
        return self.model.predict(X)


def same(one: Known, other: Known) -> bool:
    """Return whether two know the same of items with the same keys."""
    return one.same_as(other) and np.array_equal(one.item_keys, other.item_keys)
