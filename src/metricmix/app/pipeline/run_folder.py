"""The folder that a fit to files leaves: what is in it, and how to open it again.

::

    model.mm          the classifier with its sources, for metricmix.load
    inputs.json.gz    the cells and edges that new items are compared with
    predictions.csv   id, label, given, confidence, nearest labelled item, its distance, prefers
    weights.csv       source, weight, the interval around it, how sure its sign is, its effect
    metric.npy        all distances, in the order of predictions.csv (on request)
    report.html       the page to look at
    run.json          arguments, versions, seed, timings, checksums of the inputs
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.app.ingest.file_sources import NewItemData
from metricmix.app.ingest.new_items import FitInputs
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.model_files import load
from metricmix.exceptions import ModelFileError

if TYPE_CHECKING:
    from metricmix.app.ingest.new_items import FitInputs

__all__ = ["FILES", "RUN_FORMAT", "NewLabel", "RunFolder", "is_run", "open_run", "predict_files"]


MODEL, INPUTS, REPORT = "model.mm", "inputs.json.gz", "report.html"
PREDICTIONS, WEIGHTS, METRIC, RUN = "predictions.csv", "weights.csv", "metric.npy", "run.json"
RUN_FORMAT = "metricmix-run"
FILES = (MODEL, INPUTS, PREDICTIONS, WEIGHTS, METRIC, REPORT, RUN)


@dataclass(frozen=True)
class RunFolder:
    """A fitted classifier, and the folder it came from; None for a model file alone."""

    model: MetricMixtureClassifier
    folder: Path | None
    source: Path

    def inputs(self) -> FitInputs:
        """Return what new items are compared with; ModelFileError where nothing was kept."""
        from metricmix.app.ingest.new_items import load_inputs

        if self.folder is None:
            raise ModelFileError(
                f"{self.source}: expected a folder that metricmix fit wrote, found a model alone, "
                "which does not know how its sources were made"
            )
        kept = load_inputs(self.folder / INPUTS)
        stack = self.model.stack_
        names = tuple(source.spec.name for source in kept.sources)
        if names != stack.names or list(kept.items.ids) != [str(i) for i in stack.items.tolist()]:
            raise ModelFileError(
                f"{self.folder / INPUTS}: expected the inputs of {MODEL} beside it, found those of "
                "another fit; fit again"
            )
        return kept

    @property
    def page(self) -> Path | None:
        """The page of the run, if there is one."""
        file = None if self.folder is None else self.folder / REPORT
        return file if file is not None and file.is_file() else None


def is_run(folder: Path) -> bool:
    """Return whether a folder holds the record of a run."""
    try:
        content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == RUN_FORMAT


def open_run(path: str | os.PathLike[str], *, verify: bool = True) -> RunFolder:
    """Open a folder that :func:`~metricmix.app.pipeline.fit_files` wrote, or a file of ``mm.save``.

    Raises
    ------
    ModelFileError
        If there is no model, it is damaged, or it is no classifier.
    """
    source = Path(path)
    folder = source if source.is_dir() else None
    file = source / MODEL if folder is not None else source
    if not file.is_file():
        raise ModelFileError(
            f"{source}: expected a folder that metricmix fit wrote, or a saved model, found "
            f"{'no ' + MODEL + ' in it' if folder is not None else 'no such file'}"
        )
    try:
        model: Any = load(file, verify=verify)
    except OSError as error:
        raise ModelFileError(f"{file}: {error.strerror or error}") from None
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, MetricMixtureClassifier):
        raise ModelFileError(f"{file}: expected a classifier, found a {type(model).__name__}")
    return RunFolder(model, folder, source)


# -- labels for new items, by a model in a folder -----------------------------------------------

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
    model: MetricMixtureClassifier, kept: FitInputs, new: NewItemData
) -> Iterator[NewLabel]:
    """Yield a label for every new item, in their order.

    They are attached to the items of the fit, whose metric stays as it is
    (:mod:`metricmix.app.ingest.file_sources`); new items do not lie on each other's paths.
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
