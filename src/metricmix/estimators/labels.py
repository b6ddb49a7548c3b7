"""Labels as estimators take them: some items have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from metricmix.exceptions import InputError
from metricmix.typing import Indices
from metricmix.validation import check_integer

__all__ = ["LabelledKFold", "encode", "is_unlabelled"]


def is_unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels stand for "unlabelled": -1, or among texts "" and "-1".

    >>> is_unlabelled(np.array([0, -1, 2]))
    array([False,  True, False])
    >>> is_unlabelled(np.array(["tea", "", "-1"]))
    array([False,  True,  True])
    """
    if y.dtype.kind in "OUS":
        return np.array([label in ("", "-1", -1) for label in y.tolist()], dtype=bool)
    return np.asarray(y == -1)


def encode(estimator: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the class number of every item, -1 for unlabelled ones."""
    if y is None:
        raise InputError(
            f"This {type(estimator).__name__} estimator requires y to be passed, "
            "but the target y is None; only an objective of your own, or objective=None in a "
            "MetricMixture, does without labels"
        )
    _refuse_missing(y)
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    unlabelled = is_unlabelled(labels)
    if unlabelled.all():
        raise InputError(
            argument="y",
            expected=(
                "labelled items of two classes at least, found every item unlabelled "
                "(-1, or an empty text among texts)"
            ),
        )
    known = labels[~unlabelled]
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        hint = (
            "; -1 marks unlabelled items: call a class something else" if unlabelled.any() else ""
        )
        raise InputError(
            argument="y",
            expected=f"two classes at least, found only the class {classes[0]!s}{hint}",
        )
    codes = np.full(len(labels), -1, dtype=np.int64)
    codes[~unlabelled] = numbers
    return classes, codes


def _refuse_missing(y: Any) -> None:
    """Raise if labels are missing: None, NaN, or pandas' NA."""
    values = y.tolist() if hasattr(y, "tolist") else y
    if not isinstance(values, (list, tuple)):
        return
    for k, label in enumerate(values):
        is_nan = isinstance(label, float) and label != label
        if label is None or is_nan or type(label).__name__ == "NAType":
            raise InputError(
                argument="y",
                expected=f"a label for every item, found {label!r} at item {k}",
                remedy="mark unlabelled items with -1, or an empty text among texts",
            )


# -- cross-validation when labels are few -------------------------------------------------------


class LabelledKFold(BaseCrossValidator):
    """Cross-validation that splits the labelled items only, and keeps the others in training.

    Each class is dealt out evenly over the folds, at random; an item that is unlabelled (-1; among
    texts "" or "-1") is in every training set and in no test set.

    Parameters
    ----------
    n_splits : int
    n_repeats : int
        How often to deal anew.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from metricmix.estimators import LabelledKFold
    >>> for train, test in LabelledKFold(2, random_state=0).split(None, [0, 0, 1, 1, -1]):
    ...     print(train, test)
    [0 3 4] [1 2]
    [1 2 4] [0 3]
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        self.n_splits = check_integer(n_splits, name="n_splits", low=2)
        self.n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test items of each fold; only y is looked at."""
        if y is None:
            raise InputError(
                argument="y",
                expected="labels, of which only the known ones are split",
                found="None",
            )
        labels = np.asarray(y)
        known = np.flatnonzero(~is_unlabelled(labels))
        if len(known) < self.n_splits:
            raise InputError(
                argument="n_splits",
                expected=f"at most {len(known)}, the number of labelled items",
                found=self.n_splits,
            )
        given = self.random_state
        rng = given if isinstance(given, np.random.Generator) else check_random_state(given)
        _, codes = np.unique(labels[known], return_inverse=True)
        for _ in range(self.n_repeats):
            # Shuffle, put class by class in a row, and deal the row out like cards.
            shuffled = rng.permutation(len(known))
            row = shuffled[np.argsort(codes[shuffled], kind="stable")]
            fold = np.empty(len(known), dtype=np.int64)
            fold[row] = np.arange(len(known)) % self.n_splits
            for number in range(self.n_splits):
                test = known[fold == number]
                yield np.setdiff1d(np.arange(len(labels)), test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds, repeats included."""
        return int(self.n_splits * self.n_repeats)
