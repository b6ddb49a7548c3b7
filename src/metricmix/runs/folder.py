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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.persistence import load
from metricmix.exceptions import ModelFileError

if TYPE_CHECKING:
    from metricmix.gathering.keeping import KeptInputs

__all__ = ["FILES", "RUN_FORMAT", "RunFolder", "is_run", "open_run"]

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

    def inputs(self) -> KeptInputs:
        """Return what new items are compared with; ModelFileError where nothing was kept."""
        from metricmix.gathering.keeping import load_inputs

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
    """Open a folder that :func:`~metricmix.runs.fit_files` wrote, or a file of ``mm.save``.

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
