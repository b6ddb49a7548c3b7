"""Fit to files: read, join, learn, evaluate, draw, and write a run folder."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.page.fit_page import run_page
from metricmix.app.page.html import write_page
from metricmix.app.pipeline.config import FitSettings, resolved
from metricmix.app.pipeline.run_folder import (
    FILES,
    ITEMS,
    METRIC,
    MODEL,
    PREDICTIONS,
    REPORT,
    RUN,
    RUN_FORMAT,
    WEIGHTS,
    end_checksum,
    is_run,
)
from metricmix.atomic import Reservation, reserved
from metricmix.dissimilarity.plan import Plan
from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.exceptions import InputError
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.new_items import FitInputs
from metricmix.fitting.outcome import FitOutcome, json_values
from metricmix.fitting.progress import OnProgress, StepProgress
from metricmix.labels import class_numbers
from metricmix.memory import in_words
from metricmix.paths.trees import distances_from
from metricmix.storage.models import save
from metricmix.typing import Floats, Indices

__all__ = [
    "as_csv",
    "check_output_folder",
    "fit_files",
    "prediction_rows",
    "reserved_folder",
    "write_run",
]


def fit_files(
    plan: Plan,
    settings: FitSettings,
    out: str | os.PathLike[str] | Reservation,
    *,
    storage: ValueStorage | None = None,
    command: str | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Fit to files that have been joined, and write the folder `out`, completely or not at all.

    Of the files that are in the folder already, only those of an earlier run are replaced. The
    folder is reserved from the beginning, unless `out` is a reservation of it already.
    :mod:`metricmix.app.pipeline.run_folder` lists its files. `command`, the command line that
    repeats the run, is stored. `storage` is what the sizes and settings say, by default.

    Raises
    ------
    InputError
        If an input file would be replaced, another fit is writing to the folder, or the sources do
        not fit into memory.
    FileExistsError
        If the files of the folder were changed in the meantime.
    """
    if not isinstance(out, Reservation):
        with reserved_folder(out) as reservation:
            return fit_files(
                plan,
                settings,
                reservation,
                storage=storage,
                command=command,
                on_progress=on_progress,
            )
    for file in settings.files:
        path = Path(file).resolve()
        if path.name in FILES and path.parent == Path(out).resolve():
            raise InputError(
                "would be replaced by the file of this name that a fit writes",
                argument=file,
                remedy="rename it, or write to another folder",
            )
    storage = storage or settings.storage(plan)
    progress = StepProgress(settings, storage, on_progress)
    outcome = fit_plan(plan, settings, progress, storage)
    return write_run(outcome, out, progress, command, plan)


def write_run(
    outcome: FitOutcome,
    out: Reservation,
    progress: StepProgress | None = None,
    command: str | None = None,
    plan: Plan | None = None,
) -> FitOutcome:
    """Write the files of a fit, completely or not at all; return it with their names.

    The `plan` has the sources that could not be used, too.
    """
    settings, model, gathered = outcome.settings, outcome.model, outcome.gathered
    progress = progress or StepProgress(settings, outcome.storage)
    with out.replacing() as folder:
        if settings.report:
            with progress.step("page") as report:
                write_page(folder / REPORT, run_page(outcome, command, report))
        with progress.step("writing"):
            save(model, folder / MODEL)
            save(FitInputs.of(gathered), folder / ITEMS)
            write_csv(folder / PREDICTIONS, prediction_rows(outcome))
            write_csv(folder / WEIGHTS, weight_rows(outcome.weights))
            if isinstance(settings, FitSettings) and settings.keep_metric:
                write_metric(folder / METRIC, outcome)
        asked = resolved(settings, plan or gathered)
        files = asked.files if isinstance(asked, FitSettings) else ()
        record = run_record(
            command, asdict(asked), files, progress.seconds, outcome.to_record(), folder
        )
        text = json.dumps(json_values(record), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / RUN).write_text(text + "\n", encoding="utf-8", errors="replace")
        written = tuple(name for name in FILES if (folder / name).exists())
    return replace(outcome, files=written)


def write_metric(path: Path, outcome: FitOutcome) -> None:
    """Write all distances; block by block where they are not in memory."""
    if outcome.metric is not None:
        np.save(path, outcome.metric)
        return
    learned = outcome.model.metric_
    n = learned.n
    free = shutil.disk_usage(path.parent).free
    if 8 * n * n > free:
        raise InputError(
            f"all distances need {in_words(8 * n * n)}, and {in_words(free)} are free on the disk",
            argument="--metric",
            remedy="leave it out",
        )
    written = np.lib.format.open_memmap(path, "w+", np.float64, (n, n))
    rows_at_once = 1024  # rows of the metric that are computed at a time
    for start in range(0, n, rows_at_once):
        some = np.arange(start, min(n, start + rows_at_once))
        written[some] = distances_from(learned.lengths, some)
    written.flush()


def check_output_folder(folder: Path) -> None:
    """Raise InputError if a run cannot be written to `folder`, or would replace other files."""
    other = "name another folder with -o"
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "expected a folder to write, found a file",
            argument=folder,
            remedy="name another with -o",
        )
    if folder.is_symlink() and not folder.exists():
        raise InputError("expected a folder to write, found a broken link", argument=folder)
    parent = folder if folder.exists() else folder.absolute().parent
    if not parent.is_dir():
        raise InputError("the folder does not exist", argument=parent)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError("no permission to write there", argument=parent, remedy=other)
    foreign = [name for name in FILES if (folder / name).exists()]
    if foreign and not is_run(folder):
        raise InputError(
            f"contains {foreign[0]}, but no {RUN} of an earlier run",
            argument=folder,
            remedy=other,
        )


@contextmanager
def reserved_folder(out: str | os.PathLike[str]) -> Iterator[Reservation]:
    """Reserve a folder for a run, until its files are written; InputError if another run has."""
    with ExitStack() as held:
        try:
            reservation = held.enter_context(reserved(out, FILES))
        except BlockingIOError:
            raise InputError(
                "another fit is writing to this folder",
                argument=out,
                remedy="wait until it ends, or name another folder with -o",
            ) from None
        yield reservation


def prediction_rows(outcome: FitOutcome) -> Iterator[Sequence[Any]]:
    """Yield the header and a row per item of predictions.csv.

    ``nearest`` is the nearest other labelled item, ``confidence`` the probability of the label
    without an item's own label (:mod:`metricmix.learning.held_out`), ``prefers`` the predicted
    class where it is not the given one. Labels that were left out of learning are given as well,
    with confidence 0. The only label of a class that is kept cannot be judged without itself:
    ``confidence`` is empty. A numeric target is predicted without an item's own target.
    """
    model, nearest, probabilities = outcome.model, outcome.nearest, outcome.probabilities
    if isinstance(model, MetricMixtureRegressor):
        yield from target_rows(model, nearest, probabilities)
        return
    yield "id", "label", "given", "confidence", "nearest", "distance", "prefers"
    given = model.known_.mask
    labels = class_numbers(model.classes_, model.transduction_)
    predicted = probabilities.argmax(axis=1)
    others, distances = nearest
    single = {item: label for label, item in outcome.gathered.report.labels_left_out}
    alone = given & (np.bincount(labels[given], minlength=len(model.classes_))[labels] == 1)
    for i, item in enumerate(model.stack_.items.tolist()):
        is_left_out = item in single
        misfit = is_left_out or (given[i] and predicted[i] != labels[i] and not alone[i])
        confidence = 0.0 if is_left_out else probabilities[i, labels[i]]
        yield (
            item,
            single[item] if is_left_out else model.classes_[labels[i]],
            "yes" if given[i] or is_left_out else "no",
            "" if alone[i] else f"{confidence:.4f}",
            model.stack_.items[others[i]],
            f"{distances[i]:.6g}",
            model.classes_[predicted[i]] if misfit else "",
        )


def target_rows(
    model: MetricMixtureRegressor, nearest: tuple[Indices, Floats], predicted: Floats
) -> Iterator[Sequence[Any]]:
    """Yield the header and a row per item of predictions.csv, for a numeric target."""
    yield "id", "target", "given", "predicted", "nearest", "distance"
    given, (others, distances) = model.known_.mask, nearest
    for i, item in enumerate(model.stack_.items.tolist()):
        yield (
            item,
            f"{model.transduction_[i]:.10g}",
            "yes" if given[i] else "no",
            f"{predicted[i]:.10g}",
            model.stack_.items[others[i]],
            f"{distances[i]:.6g}",
        )


def weight_rows(columns: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield the header and a row per source of weights.csv, from the columns of the weights.

    Cells of intervals are empty where there are none. The effect of a source is its weight here:
    files are scaled by the means of their sources.
    """
    numbers = ("weight", "lower", "upper", "same_sign", "scale")
    yield "source", *numbers
    for name, *values in zip(*(columns[key] for key in ("name", *numbers)), strict=True):
        yield (name, *("" if value != value else f"{value:.6g}" for value in values))


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as a CSV file in UTF-8."""
    path.write_text(as_csv(rows), encoding="utf-8", newline="")


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    table = [[str(cell) for cell in row] for row in rows]
    has_return = any("\r" in cell for row in table for cell in row)  # csv would not quote it
    quoting: Any = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(table)
    return text.getvalue()


def run_record(
    command: str | None,
    arguments: Mapping[str, Any],
    files: Iterable[str],
    seconds: Mapping[str, float],
    found: Mapping[str, Any],
    written: Path,
) -> dict[str, Any]:
    """Return the content of run.json: settings, input files, results and the files `written`."""
    inputs = []
    for file in dict.fromkeys(files):
        with open(file, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            size = os.fstat(opened.fileno()).st_size
        inputs.append({"file": file, "bytes": size, "sha256": digest})
    packages = ("metricmix", "numpy", "scipy", "scikit-learn", "numba")
    return {
        "format": RUN_FORMAT,
        "version": 1,
        "command": command,
        "arguments": dict(arguments),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "platform": platform.platform(),
        "inputs": inputs,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "found": dict(found),
        "files": {
            name: end_checksum(written / name) for name in FILES if (written / name).is_file()
        },
    }
