"""The folder of a fit: its files, and how to open it again.

It is the model, and what its items are compared by; the other files are for reading.

::

    model.mm          the classifier or regressor with its sources, for metricmix.load
    items.mm          the cells and edges that new items are compared with
    predictions.csv   id, label, given, confidence, nearest labelled item, its distance, prefers;
                      for a numeric target id, target, given, predicted, nearest, distance
    weights.csv       source, weight, its interval, share of resamples with its sign, its scale
    metric.npy        all distances, in the order of predictions.csv (on request)
    report.html       the page to look at
    run.json          arguments, versions, seed, timings, results, checksums of inputs and files
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metricmix.app.page.content import page_content
from metricmix.app.page.html import as_live, page_items
from metricmix.app.page.values import PageContent
from metricmix.cached import cached_property
from metricmix.dissimilarity.item_sources import known_shares, little_data
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.predictor import MixturePredictor
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.exceptions import InputError, ModelFileError
from metricmix.fitting.new_items import FitInputs
from metricmix.fitting.phrases import EdgePhrases
from metricmix.fitting.plan import name_column
from metricmix.paths.learned_metric import Metric
from metricmix.storage.models import load

__all__ = ["FILES", "RUN_FORMAT", "RunFolder", "end_checksum", "is_run", "open_run"]


MODEL, ITEMS, REPORT = "model.mm", "items.mm", "report.html"
PREDICTIONS, WEIGHTS, METRIC, RUN = "predictions.csv", "weights.csv", "metric.npy", "run.json"
RUN_FORMAT = "metricmix-run"
FILES = (MODEL, ITEMS, PREDICTIONS, WEIGHTS, METRIC, REPORT, RUN)
END = 1 << 16
"""Bytes at the end of a file that are compared with run.json: files of models have the checksums of
their contents there."""


# -- opening -------------------------------------------------------------------------------------


class MixedFilesError(ModelFileError):
    """The files of a folder were written by different runs."""


@dataclass(frozen=True)
class RunFolder:
    """A fitted estimator, and the folder it came from; None for a model file alone."""

    model: MixturePredictor
    folder: Path | None
    source: Path

    def inputs(self) -> FitInputs:
        """Return what new items are compared with; ModelFileError if it was not stored."""
        if self.folder is None:
            raise ModelFileError(
                f"{self.source}: expected a folder that metricmix fit wrote, found a model file "
                "alone, which does not contain the inputs of its sources"
            )
        file = self.folder / ITEMS
        try:
            kept = load(file)
        except OSError as error:
            raise ModelFileError(f"{file}: {error.strerror or error}") from None
        if not isinstance(kept, FitInputs):
            found = type(kept).__name__
            raise ModelFileError(f"{file}: expected the inputs of a fit, found a {found}")
        names = tuple(source.spec.name for source in kept.sources)
        if names != self.model.stack_.names or list(kept.items.ids) != self.item_ids:
            raise MixedFilesError(
                f"{file}: expected the inputs of {MODEL} beside it, found those of "
                "another fit; fit again"
            )
        return kept

    def readable_inputs(self) -> FitInputs | None:
        """Return the same; None if it was not stored or is damaged."""
        try:
            return self.inputs()
        except MixedFilesError:
            raise
        except ModelFileError:
            return None

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json; empty for a model file alone, or if it cannot be read."""
        return {} if self.folder is None else read_record(self.folder)

    @property
    def found(self) -> dict[str, Any]:
        """The results in run.json; empty if there are none."""
        found = self.record.get("found")
        return found if isinstance(found, dict) else {}

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the files in run.json; empty if there are none."""
        written = self.record.get("files")
        return written if isinstance(written, dict) else {}

    def check_written(self, *names: str) -> None:
        """Raise ModelFileError if a file is not that of the run, by the checksums in run.json."""
        for name in names:
            file = Path(self.folder or "") / name
            if file.is_file() and end_checksum(file) != self.checksums.get(name):
                raise MixedFilesError(
                    f"{file}: expected the file of the run that {RUN} describes, found that of "
                    "another run; fit again"
                )

    def check_one_run(self) -> None:
        """Raise ModelFileError if the model and its items are files of different runs."""
        if self.checksums:
            self.check_written(MODEL, ITEMS)
        elif self.folder is not None:
            self.readable_inputs()

    def prediction_rows(self) -> list[list[str]]:
        """Return the rows of predictions.csv; ModelFileError if it is not that of the model."""
        file = Path(self.folder or "") / PREDICTIONS
        self.check_written(PREDICTIONS)
        try:
            with open(file, newline="", encoding="utf-8") as opened:
                rows = list(csv.reader(opened))
        except (OSError, ValueError, csv.Error) as error:
            raise ModelFileError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
        if [row[0] for row in rows[1:] if row] != self.item_ids:
            raise MixedFilesError(f"{file}: expected a row per item of {MODEL}; fit again")
        return rows

    @property
    def item_ids(self) -> list[str]:
        """The ids of all items, as texts."""
        return [str(item) for item in self.model.stack_.items.tolist()]

    def find_item(self, text: str) -> Any:
        """Return the id written as `text`; InputError with similar ids if there is none.

        Trees have underscores where other files have blanks: either will do, if one id fits. The
        name of an item that the page shows will do, too, if no other item has it.
        """
        ids = dict(zip(self.item_ids, self.model.stack_.items.tolist(), strict=True))
        if text in ids:
            return ids[text]
        blanks = [one for one in ids if one.replace("_", " ") == text.replace("_", " ")]
        if len(blanks) == 1:
            return ids[blanks[0]]
        called = [
            item
            for item, name in zip(ids.values(), self.item_names(), strict=False)
            if name.casefold() == text.casefold()
        ]
        if len(called) == 1:
            return called[0]
        folded = text.casefold()
        alike = [one for one in ids if one.casefold() == folded]
        alike = alike or [one for one in ids if folded and folded in one.casefold()]
        if alike:
            others = f" (or {', '.join(map(repr, alike[1:3]))})" if alike[1:] else ""
            raise InputError(f"no item is called {text!r}; did you mean {alike[0]!r}{others}?")
        similar = difflib.get_close_matches(text, list(ids), n=3, cutoff=0.5) or list(ids)[:3]
        raise InputError(f"no item is called {text!r}; there are {', '.join(similar)} and others")

    def item_names(self) -> Sequence[str]:
        """Return what items are called, in their order; none if that was not stored."""
        kept, arguments = self.readable_inputs(), self.record.get("arguments")
        if kept is None or not isinstance(arguments, dict):
            return ()
        try:
            column = name_column(kept.items, arguments.get("name"))
        except InputError:
            return ()
        return kept.items.texts(column) if column else ()

    def labels_left_out(self) -> dict[str, str]:
        """Return given labels not used for learning, by item; none for a model file alone."""
        found = self.found.get("labels_left_out")
        return {item: label for label, item in found.items()} if isinstance(found, dict) else {}

    def accuracy(self) -> float | None:
        """Return the estimated accuracy; None without one, or for a model file alone."""
        try:
            methods = self.found["accuracy"]["methods"]
            return next(float(one["mean"]) for one in methods if one["kind"] == "learned")
        except (LookupError, ValueError, TypeError, StopIteration):
            return None

    def little_data(self, item: Any) -> Iterator[str]:
        """Yield a remark if little is known about an item; nothing for a model file alone."""
        kept = self.readable_inputs()
        if kept is not None:
            k = self.item_ids.index(str(item))
            share = known_shares(kept.sources, self.model.weights_)[k : k + 1]
            numbers = isinstance(self.model, MetricMixtureRegressor)
            yield from little_data([str(item)], share, numbers=numbers)

    @cached_property
    def metric(self) -> Metric:
        """The metric of the model."""
        return self.model.metric_

    def metric_along(self, geodesic: int | None) -> Metric:
        """Return the metric of the model; along the k nearest items if `geodesic` is k."""
        if geodesic is None:
            return self.metric
        if self.metric.whole.stack.edges is not None:
            raise InputError("the edges of this model are sparse already", argument="--geodesic")
        return self.metric.geodesic(geodesic)

    def phrases(self, metric: Metric) -> EdgePhrases:
        """Return the describer of edges; without the inputs of the fit, dissimilarities only."""
        kept = self.readable_inputs()
        sources = () if kept is None else kept.sources
        return EdgePhrases(metric.lengths, sources, self.model.learned_.task.class_names)

    @property
    def page(self) -> Path | None:
        """The page of the run, if there is one."""
        file = None if self.folder is None else self.folder / REPORT
        return file if file is not None and file.is_file() else None

    def copy_to(self, folder: Path, *, page: bool) -> None:
        """Copy the files of the run, the page unless `page` is False."""
        for name in FILES:
            file = Path(self.folder or "") / name
            if file.is_file() and (page or name != REPORT):
                shutil.copyfile(file, folder / name)

    def draw_page(self, on_progress: Callable[[str, float], None] | None = None) -> PageContent:
        """Return the content of a page of the model alone."""
        # A loaded stack over edges would be refitted through paths, a hundred times.
        resamples = None if self.model.stack_.edges is None else 0
        title = self.source.resolve().stem
        return page_content(self.model, title=title, n_bootstrap=resamples, on_progress=on_progress)

    def read_page(self) -> str | None:
        """Return the HTML of the page, if there is one and it shows the items of this model."""
        if self.page is None:
            return None
        try:
            html = self.page.read_text(encoding="utf-8")
            as_live(html)
            shown, total = page_items(html)
        except (OSError, UnicodeDecodeError, InputError):
            return None
        ids = self.item_ids
        if len(shown) < total == len(ids):  # a sample, in the order of the items
            there = set(shown)
            ids = [item for item in ids if item in there]
        return html if shown == ids else None


def is_run(folder: Path) -> bool:
    """Return whether a folder holds the record of a run."""
    return bool(read_record(folder))


def read_record(folder: Path) -> dict[str, Any]:
    """Return the content of run.json; empty if it is not the record of a run."""
    try:
        content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    known = isinstance(content, dict) and content.get("format") == RUN_FORMAT
    return content if known else {}


def open_run(path: str | os.PathLike[str], *, verify: bool = True) -> RunFolder:
    """Open a folder that :func:`~metricmix.app.pipeline.fit_files` wrote, or a file of ``mm.save``.

    Raises
    ------
    ModelFileError
        If there is no model, it is damaged, it predicts nothing, or the folder has files of
        different runs.
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
    if not isinstance(model, (MetricMixtureClassifier, MetricMixtureRegressor)):
        found = type(model).__name__
        raise ModelFileError(f"{file}: expected a classifier or regressor, found a {found}")
    run = RunFolder(model, folder, source)
    run.check_one_run()
    return run


def end_checksum(file: Path) -> str:
    """Return the SHA-256 of the last 64 KiB of a file."""
    with open(file, "rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - END))
        return hashlib.sha256(opened.read()).hexdigest()
