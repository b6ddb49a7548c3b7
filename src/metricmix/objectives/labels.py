"""What objectives over labelled items share: who is labelled, as what, and with what weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import Floats, Objective
from metricmix.validation import as_float_array, check_labels

__all__ = ["LabelObjective"]

NEGLIGIBLE = 1e-12
"""Item weights up to this share of the largest count as 0; their squares would be lost anyway."""


class LabelObjective(Objective):
    """Base of the objectives over labels.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them.
    rho : float
        Weight of the ridge.
    item_weights : array of n numbers >= 0, optional
        How much each item counts, as in a Bayesian bootstrap; only their ratios matter, those of
        unlabelled items not at all. Weight 0, or next to it, is the same as no label. Default: all
        alike.

    Attributes
    ----------
    y : (n,) array
        Labels as 0, 1, ... and -1.
    labelled : (L,) array
        Items with a label and a weight.
    codes : (L,) array
        Their classes, 0 .. n_classes - 1: those of `y`, less the classes without any weight.
    n_classes : int
    item_weights : (n,) array or None
    """

    def __init__(self, y: ArrayLike, rho: float, *, item_weights: ArrayLike | None = None) -> None:
        super().__init__(rho)
        self.y = check_labels(y)
        self.item_weights = None
        counts = self.y >= 0
        if item_weights is not None:
            self.item_weights = _checked_weights(item_weights, len(self.y))
            largest = self.item_weights.max(where=counts, initial=0.0)
            counts &= self.item_weights > NEGLIGIBLE * largest
        self.labelled = np.flatnonzero(counts)
        classes, self.codes = np.unique(self.y[self.labelled], return_inverse=True)
        self.n_classes = len(classes)
        if self.n_classes < 2:
            raise InputError(
                "item_weights: expected positive weights in at least two classes, "
                f"found them in {self.n_classes}"
            )
        # Per labelled item, with mean 1; exactly 1 if all are alike, so that equal weights give
        # the same bits as none.
        self._weights: Floats = np.ones(len(self.labelled))
        self._alike = True
        if self.item_weights is not None:
            weights = self.item_weights[self.labelled]
            self._alike = bool(weights.min() == weights.max())
            if not self._alike:
                weights = weights / weights.max()
                self._weights = weights / weights.mean()

    def check(self, n: int) -> None:
        """Raise InputError unless there is a label for each of the n items."""
        if len(self.y) != n:
            raise InputError(f"y: expected {n} labels, one per item, got {len(self.y)}")


def _checked_weights(item_weights: ArrayLike, n: int) -> Floats:
    weights = as_float_array(item_weights, name="item_weights")
    if weights.shape != (n,):
        raise InputError(
            f"item_weights: expected {n} numbers, one per label, got shape {weights.shape}"
        )
    sound = np.isfinite(weights) & (weights >= 0)
    if not sound.all():
        k = int(np.argmin(sound))
        raise InputError(
            f"item_weights: expected finite numbers >= 0, found {weights[k]:g} at item {k}"
        )
    return weights.astype(np.float64)
