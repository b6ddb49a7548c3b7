"""The tables of a run: a label for every item, a weight for every source."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["prediction_rows", "weight_rows", "write_csv"]

PREDICTION = ("id", "label", "given", "confidence", "nearest", "distance", "prefers")
WEIGHT = ("source", "weight", "lower", "upper", "same_sign", "scale", "effect")


def prediction_rows(
    model: MetricMixtureClassifier, metric: NDArray[Any], members: NDArray[Any]
) -> Iterable[Sequence[Any]]:
    """Yield a row per item, after a row of names.

    ``confidence`` is the probability of the label by `members`, (n, C), where an item's own label
    does not count (:func:`~metricmix.estimators.held_out.blind_members`); ``prefers`` is the rule's
    choice where it is not the label that was given.
    """
    yield PREDICTION
    given = model._codes >= 0
    labels = np.searchsorted(model.classes_, model.transduction_)
    chosen = members.argmax(axis=1)
    labelled = np.flatnonzero(given)
    to_labelled = np.array(metric[:, labelled], dtype=np.float64)
    to_labelled[labelled, np.arange(len(labelled))] = np.inf
    near = to_labelled.argmin(axis=1)
    for i, item in enumerate(model.stack_.items.tolist()):
        misfit = given[i] and chosen[i] != labels[i]
        yield (
            item,
            model.classes_[labels[i]],
            "yes" if given[i] else "no",
            f"{members[i, labels[i]]:.4f}",
            model.stack_.items[labelled[near[i]]],
            f"{to_labelled[i, near[i]]:.6g}",
            model.classes_[chosen[i]] if misfit else "",
        )


def weight_rows(columns: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """Yield a row per source, after a row of names, from the columns of the weights' table."""
    yield WEIGHT
    names = ("name", *WEIGHT[1:])
    for name, *numbers in zip(*(columns[key] for key in names), strict=True):
        yield (name, *(f"{number:.6g}" for number in numbers))


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as a CSV file in UTF-8."""
    path.write_text(as_csv(rows), encoding="utf-8", newline="")


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    table = [[str(cell) for cell in row] for row in rows]
    odd = any("\r" in cell for row in table for cell in row)  # which would not be quoted
    text = io.StringIO()
    quoting: Any = csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(table)
    return text.getvalue()
