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
from metricmix.exceptions import InputError
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.new_items import FitInputs
from metricmix.fitting.outcome import FitOutcome, json_values
from metricmix.fitting.plan import OnProgress, name_column
from metricmix.items.cells import safe_cell
from metricmix.labels import class_numbers
from metricmix.memory import in_words
from metricmix.paths.trees import distances_from
from metricmix.storage.models import save

__all__ = [
    "as_csv",
    "check_output_folder",
    "fit_files",
    "prediction_columns",
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
    outcome = fit_plan(plan, settings, storage=storage, on_progress=on_progress)
    return write_run(outcome, out, command=command, plan=plan)


def write_run(
    outcome: FitOutcome,
    out: Reservation,
    *,
    page: bool | None = None,
    command: str | None = None,
    plan: Plan | None = None,
) -> FitOutcome:
    """Write the files of a fit, completely or not at all; return it with their names.

    `page` says whether report.html is written, by default as the settings say. The `plan` has the
    sources that could not be used, too.
    """
    settings, gathered, progress = outcome.settings, outcome.gathered, outcome.progress
    with out.replacing() as folder:
        if settings.report if page is None else page:
            with progress.step("page") as report:
                write_page(folder / REPORT, run_page(outcome, command, report))
        with progress.step("writing"):
            save(outcome.model, folder / MODEL)
            named = name_column(gathered.items, settings.name)
            save(FitInputs.of(gathered, named), folder / ITEMS)
            safe = isinstance(settings, FitSettings) and settings.safe_csv
            write_csv(folder / PREDICTIONS, prediction_columns(outcome), safe=safe)
            write_csv(folder / WEIGHTS, weight_columns(outcome), safe=safe)
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


# -- tables ----------------------------------------------------------------------------------------

FORMATS = {"confidence": ".4f", "target": ".10g", "predicted": ".10g"}
"""Digits of numbers in CSV files, if not six."""


def prediction_columns(outcome: FitOutcome) -> dict[str, list[Any]]:
    """Return the columns of predictions.csv, a row per item.

    ``nearest`` is the nearest other labelled item, ``confidence`` the probability of the label
    without an item's own label (:mod:`metricmix.learning.held_out`), ``prefers`` the predicted
    class where it is not the given one. Labels that were left out of learning are given as well,
    with confidence 0. The only label of a class that is kept cannot be judged without itself:
    ``confidence`` is NaN. A numeric target is predicted without an item's own target.
    """
    model, answers, (others, distances) = outcome.model, outcome.probabilities, outcome.nearest
    items, given = model.stack_.items, model.known_.mask
    near = {"nearest": items[others].tolist(), "distance": distances.tolist()}
    if model.is_numeric:
        targets = {"target": model.transduction_.tolist(), "given": given.tolist()}
        return {"id": items.tolist(), **targets, "predicted": answers.tolist(), **near}
    labels, predicted = class_numbers(model.classes_, model.transduction_), answers.argmax(axis=1)
    single = {item: label for label, item in outcome.gathered.report.labels_left_out}
    left_out = np.array([item in single for item in items.tolist()], dtype=bool)
    alone = given & (np.bincount(labels[given], minlength=len(model.classes_))[labels] == 1)
    confidence = np.where(left_out, 0.0, answers[np.arange(len(labels)), labels])
    misfit = left_out | (given & (predicted != labels) & ~alone)
    found = zip(items.tolist(), model.classes_[labels].tolist(), strict=True)
    return {
        "id": items.tolist(),
        "label": [single.get(item, label) for item, label in found],
        "given": (given | left_out).tolist(),
        "confidence": np.where(alone, np.nan, confidence).tolist(),
        **near,
        "prefers": np.where(misfit, model.classes_[predicted], "").tolist(),
    }


def weight_columns(outcome: FitOutcome) -> dict[str, Any]:
    """Return the columns of weights.csv: intervals are NaN where there are none.

    The effect of a source is its weight here: files are scaled by the means of their sources.
    """
    names = ("weight", "lower", "upper", "same_sign", "scale")
    return {"source": outcome.weights["name"]} | {name: outcome.weights[name] for name in names}


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]], *, safe: bool = False) -> None:
    """Write columns as a CSV file in UTF-8."""
    path.write_text(as_csv(columns, safe=safe), encoding="utf-8", newline="")


def as_csv(columns: Mapping[str, Sequence[Any]], *, safe: bool = False) -> str:
    """Return columns as CSV: numbers rounded, NaN as an empty cell, truth values as yes and no.

    `safe` puts an apostrophe before texts that spreadsheets take for formulas.
    """

    def cell(name: str, value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return "" if value != value else format(value, FORMATS.get(name, ".6g"))
        return safe_cell(str(value)) if safe else str(value)

    rows = [[cell(name, value) for value in values] for name, values in columns.items()]
    table = [list(columns), *zip(*rows, strict=True)]
    has_return = any("\r" in text for row in table for text in row)  # csv would not quote it
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
