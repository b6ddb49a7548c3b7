"""Labels as estimators take them: some items have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from metricmix.exceptions import InputError

__all__ = ["encode", "is_unlabelled"]


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
            "y: expected labelled items of two classes at least, found every item unlabelled "
            "(-1, or an empty text among texts)"
        )
    known = labels[~unlabelled]
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        hint = (
            "; -1 marks unlabelled items: call a class something else" if unlabelled.any() else ""
        )
        raise InputError(
            f"y: expected two classes at least, found only the class {classes[0]!s}{hint}"
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
                f"y: expected a label for every item, found {label!r} at item {k}; mark unlabelled "
                "items with -1, or an empty text among texts"
            )
