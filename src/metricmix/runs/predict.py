"""Labels for new items, by a model in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.gathering.keeping import KeptInputs
from metricmix.gathering.sources import Arrivals

__all__ = ["NewLabel", "predict_files"]

VALUES_AT_ONCE = 1 << 24
"""Dissimilarities that are handed to the model at a time."""


@dataclass(frozen=True)
class NewLabel:
    """The label of a new item, how likely it is, and the labelled item it is nearest to."""

    id: str
    label: str
    confidence: float
    nearest: str
    distance: float


def predict_files(
    model: MetricMixtureClassifier, kept: KeptInputs, new: Arrivals
) -> Iterator[NewLabel]:
    """Yield a label for every new item, in their order.

    They are attached to the items of the fit, whose metric stays as it is
    (:mod:`metricmix.gathering.sources`); new items do not lie on each other's paths.
    """
    stack = model.stack_
    rows = np.stack(
        [
            source.cross(new, np.asarray(stack._sources[r].rows(np.arange(stack.n_items))))
            for r, source in enumerate(kept.sources)
        ],
        axis=-1,
    )
    labelled = model._codes >= 0
    step = max(1, VALUES_AT_ONCE // (rows.shape[1] * rows.shape[2]))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        probabilities = model.predict_proba(some)
        distances, nearest = model._join_rows(some).nearest(labelled, 1)
        for k, p in enumerate(probabilities):
            yield NewLabel(
                new.items.ids[start + k],
                str(model.classes_[p.argmax()]),
                float(p.max()),
                str(stack.items[nearest[k, 0]]),
                float(distances[k, 0]),
            )
