"""Labels and numeric targets of items: which are missing, and input checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_number, unmasked

__all__ = [
    "as_labels",
    "check_groups",
    "check_label_order",
    "check_labels",
    "check_targets",
    "class_numbers",
    "group_numbers",
    "is_unlabelled",
    "plain_labels",
    "weights_by_label",
]


def as_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array in which missing ones are still missing.

    numpy would turn the NaN of ``["tea", nan]`` into the text "nan", and pandas the whole numbers
    of a categorical column into floats.

    >>> as_labels(["tea", float("nan")])
    array(['tea', nan], dtype=object)
    """
    if str(getattr(y, "dtype", "")) == "category":
        y = y.astype(object)
    if isinstance(y, (list, tuple)) and any(map(is_missing, y)):
        array = np.empty(len(y), dtype=object)
        array[:] = y
        return array
    return np.asarray(y)


def class_numbers(classes: AnyArray, labels: AnyArray) -> Indices:
    """Return the position of each label among the classes, whatever their order.

    >>> class_numbers(np.array([1, 10, 2]), np.array([2, 1])).tolist()
    [2, 0]
    """
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, labels, sorter=order)])


def group_numbers(groups: Any, n: int, *, name: str = "groups") -> Indices:
    """Return a number for the group of each of n items; a missing one is a group of its own.

    >>> group_numbers(["a", None, "b", "a", ""], 5).tolist()
    [0, 1, 2, 0, 3]
    """
    values = as_labels(groups)
    if values.shape != (n,):
        expected = f"a group for each of {n} items"
        raise InputError(argument=name, expected=expected, found=f"shape {values.shape}")
    numbers: dict[Any, int] = {}
    listed = enumerate(values.tolist())
    keys = [(k, None) if is_missing(value) or value == "" else value for k, value in listed]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def check_groups(groups: Indices, known: NDArray[np.bool_]) -> None:
    """Raise unless the items of known label or target are of two groups at least."""
    if len(np.unique(groups[known])) < 2:
        raise InputError(
            argument="groups",
            expected="labelled items of at least two groups, to hold one out and learn from others",
            found="one group",
        )


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, or pandas' NA or NaT.

    >>> [is_missing(label) for label in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if isinstance(label, (float, np.floating, np.datetime64)):
        return bool(label != label)
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def is_unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels stand for "unlabelled".

    These are -1, NaN, None, pandas' NA and NaT; among texts also "" and "-1".

    >>> is_unlabelled(np.array([0, -1, 2]))
    array([False,  True, False])
    >>> is_unlabelled(np.array(["tea", "", "-1", None, np.nan], dtype=object))
    array([False,  True,  True,  True,  True])
    """
    if labels.dtype.kind in "OUS":
        found = [is_missing(one) or one in ("", "-1", -1) for one in labels.ravel().tolist()]
        return np.array(found, dtype=bool).reshape(labels.shape)
    missing = np.isnat(labels) if labels.dtype.kind in "mM" else labels != labels
    return np.asarray(missing | (labels == -1) if labels.dtype.kind in "biuf" else missing)


def plain_labels(known: NDArray[Any]) -> NDArray[Any]:
    """Return known labels, numbers that stood beside None or NA as an array of numbers."""
    if known.dtype.kind != "O":
        return known
    plain = np.array(known.tolist())
    return plain if plain.dtype.kind in "biuf" else known


def check_labels(y: ArrayLike, *, n: int | None = None, name: str = "y") -> NDArray[np.int64]:
    """Return labels coded as 0, 1, ... with -1 kept for unlabelled items.

    At least two different labels must be there. Labels may be integers or strings; see
    :func:`is_unlabelled` for what marks an unlabelled item.
    """
    labels = as_labels(y)
    if labels.ndim != 1:
        raise InputError(
            argument=name, expected="one label per item", found=f"shape {labels.shape}"
        )
    if n is not None and len(labels) != n:
        raise InputError(argument=name, expected=f"{n} labels, one per item", found=len(labels))
    unlabelled = is_unlabelled(labels)
    known = plain_labels(labels[~unlabelled])
    if known.dtype.kind == "f":
        if not np.all(np.isfinite(known) & (known == np.round(known))):
            raise InputError(
                argument=name,
                expected="classes, found continuous values",
                remedy="a numeric target is for MetricMixtureRegressor",
            )
        known = known.astype(np.int64)
    if known.dtype.kind in "OUS":
        known = known.astype(str)
    classes, codes = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        found = f"only {classes[0].item()!r}" if len(classes) else "no labelled item"
        raise InputError(argument=name, expected=f"at least two different labels, found {found}")
    coded = np.full(len(labels), -1, dtype=np.int64)
    coded[~unlabelled] = codes
    return coded


def check_targets(y: Any, *, n: int | None = None, name: str = "y") -> NDArray[np.float64]:
    """Return numeric targets as float64, NaN where they are unknown (NaN, None or pandas' NA).

    >>> check_targets([1, None, 3])
    array([ 1., nan,  3.])
    """
    values = as_labels(unmasked(y))
    if values.ndim != 1:
        raise InputError(
            argument=name, expected="one target per item", found=f"shape {values.shape}"
        )
    if n is not None and len(values) != n:
        raise InputError(argument=name, expected=f"{n} targets, one per item", found=len(values))
    if values.dtype.kind == "O":
        values = np.array([np.nan if is_missing(one) else one for one in values.tolist()])
    if values.dtype.kind not in "biuf":
        raise InputError(
            argument=name,
            expected="numbers, NaN where the target is unknown",
            found=f"dtype {values.dtype}",
            remedy="classes are for MetricMixtureClassifier",
        )
    targets = values.astype(np.float64)
    if np.isinf(targets).any():
        first = int(np.isinf(targets).argmax())
        raise InputError(
            argument=name, expected=f"finite numbers or NaN, found infinity at item {first}"
        )
    return targets


def weights_by_label(given: Any) -> dict[Any, float]:
    """Return class weights from a mapping or a Series by label; InputError unless numbers > 0."""
    if not hasattr(given, "keys") or not hasattr(given, "items"):
        raise InputError(
            argument="class_weight",
            expected="None, 'balanced' or a number > 0 by label: a dictionary or Series",
            found=f"{given!r}",
        )
    found: dict[Any, float] = {}
    for label, weight in given.items():
        if label in found:
            raise InputError(
                argument="class_weight", expected="every label once", found=f"{label!r} twice"
            )
        name = f"class_weight[{label!r}]"
        found[label] = float(check_number(weight, name=name, low=0.0, open_low=True))
    return found


def check_label_order(X: Any, y: Any) -> None:
    """Raise if labels are indexed by what X holds or is indexed by, in another order."""
    index = getattr(y, "index", None)
    own = getattr(X, "index", X)
    if index is None or callable(index) or callable(own) or np.ndim(own) != 1:
        return
    of_labels, of_items = list(index), list(own)
    same_length = len(of_labels) == len(of_items)
    if same_length and of_labels != of_items and set(of_labels) == set(of_items):
        raise InputError(
            argument="y",
            expected=(
                "labels in the order of X, found its index to hold the same ids in another order"
            ),
            remedy="pass y.loc[ids]",
        )
