"""Fit to files: read, join, learn, evaluate, draw, and write a run folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from metricmix.app.ingest.new_items import save_inputs
from metricmix.app.page import (
    Accuracy,
    Annotations,
    ConfusionMatrix,
    PageContent,
    Precomputed,
    page_content,
    write_page,
)
from metricmix.app.pipeline import run_folder as names
from metricmix.app.pipeline.run_folder import (
    prediction_rows,
    reserved_folder,
    run_record,
    weight_rows,
    write_csv,
)
from metricmix.app.pipeline.settings import FitSettings, resolved
from metricmix.atomic import Reservation
from metricmix.dissimilarity.plan import Plan
from metricmix.exceptions import InputError
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.outcome import FitOutcome, json_values
from metricmix.fitting.phrases import EdgePhrases
from metricmix.fitting.plan import label_remarks
from metricmix.fitting.progress import OnProgress, StepProgress, expected_seconds, storage_of
from metricmix.fitting.storage import ValueStorage
from metricmix.items.cells import stem_of
from metricmix.items.items import Items
from metricmix.memory import in_words
from metricmix.paths.trees import distances_from
from metricmix.storage.models import save

__all__ = ["fit_files", "run_page", "write_run"]

FOUND = {
    "hub": "Hub",
    "collapse": "Collapse",
    "twins": "Twins",
    "majority": "One class dominates",
}
"""What findings are called on the page."""


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
    repeats the run, is stored. `storage` is what :func:`storage_of` returns, by default.

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
        if path.name in names.FILES and path.parent == Path(out).resolve():
            raise InputError(
                "would be replaced by the file of this name that a fit writes",
                argument=file,
                remedy="rename it, or write to another folder",
            )
    storage = storage or storage_of(plan, settings)
    progress = StepProgress(expected_seconds(plan, settings, storage), on_progress)
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
    progress = progress or StepProgress({}, None)
    with out.replacing() as folder:
        if settings.report:
            with progress.step("page") as report:
                write_page(folder / names.REPORT, run_page(outcome, command, report))
        with progress.step("writing"):
            save(model, folder / names.MODEL)
            save_inputs(folder / names.INPUTS, gathered)
            write_csv(folder / names.PREDICTIONS, prediction_rows(outcome))
            write_csv(folder / names.WEIGHTS, weight_rows(outcome.weights))
            if isinstance(settings, FitSettings) and settings.keep_metric:
                write_metric(folder / names.METRIC, outcome)
        asked = resolved(settings, plan or gathered)
        files = asked.files if isinstance(asked, FitSettings) else ()
        record = run_record(
            command, asdict(asked), files, progress.seconds, outcome.to_record(), folder
        )
        text = json.dumps(json_values(record), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / names.RUN).write_text(text + "\n", encoding="utf-8", errors="replace")
        written = tuple(name for name in names.FILES if (folder / name).exists())
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


# -- the page --------------------------------------------------------------------------------------


def item_titles(items: Items, column: str) -> Sequence[str]:
    """Return what the page says beside each id: a cell, and a given label that was left out."""
    titles = items.texts(column) if column else ()
    if not items.labels_left_out:
        return titles
    told = {
        item: f"given label {label}, left out of learning" for label, item in items.labels_left_out
    }
    parts = zip(titles or [""] * len(items.ids), items.ids, strict=True)
    return ["; ".join(filter(None, (title, told.get(item)))) for title, item in parts]


def run_page(
    outcome: FitOutcome, command: str | None, report: Callable[[int, int], None]
) -> PageContent:
    """Return the content of the page of a run."""
    settings, model, gathered = outcome.settings, outcome.model, outcome.gathered
    items, sources = gathered.items, gathered.report.sources
    accuracies: tuple[Accuracy, ...] = ()
    confusion = None
    for method in outcome.comparison.methods if outcome.comparison is not None else ():
        single = method.kind == "single"
        accuracies += (Accuracy(method.name, method.mean, method.standard_error, single=single),)
    if outcome.comparison is not None and outcome.comparison.classes is not None:
        confusion = ConfusionMatrix(outcome.comparison.confusion, outcome.how_evaluated)
    title_column = settings.name
    if title_column is None:
        by_name = {name.casefold(): name for name in items.columns}
        title_column = by_name.get("name", by_name.get("title", ""))
    facts: list[tuple[str, str]] = [("Table", f"{items.source}, items by {items.named_by}")]
    facts += [("Read", text) for text in (items.origin.remark, items.numbering) if text]
    joined = gathered.report
    facts += [("Labels", line) for line in label_remarks(joined.classes, joined.labels_left_out)]
    target = joined.target
    if target is not None:
        facts.append((f"Target {items.label_column}", f"{target.describe()} ({target.why})"))
        if outcome.comparison is not None:
            learned = outcome.comparison["learned"]
            error = f"{learned.mean_absolute_error:.4g} mean absolute error, R² {learned.mean:.3f}"
            facts.append(("On held-out targets", f"{error}; {outcome.how_evaluated}"))
    first_of_file = {source.file: source for source in reversed(sources)}
    facts += [
        (f"Source {source.name}", text)
        for source in sources
        if source is first_of_file[source.file] and (text := "; ".join(source.remarks()))
    ]
    ignored = [column.name for column in gathered.columns if column.kind == "ignore"]
    if ignored:
        more = f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""
        facts.append(("Columns left out", ", ".join(ignored[:5]) + more))
    remarks = [line for column in gathered.columns for line in column.remarks()]
    most_remarks = 10  # remarks on columns that the page shows
    facts += [("Columns", line) for line in remarks[:most_remarks]]
    if len(remarks) > most_remarks:
        facts.append(
            ("Columns", f"{len(remarks) - most_remarks} more remarks; --dry-run lists all")
        )
    why = "chosen by cross-validation" if settings.tune else model.selection_.reason
    facts.append(("Settings", f"{model.selection_.best}, seed {settings.seed}: {why}"))
    skipped = (line.removeprefix("not compared: ") for line in model.selection_.skipped)
    facts += [("Not compared", line) for line in skipped]
    facts += [("Note", note) for note in outcome.notes]
    facts += [(FOUND[finding.kind], finding.sentence) for finding in outcome.findings]
    facts += outcome.storage_facts()
    facts.append(("Changed by the projection", f"{model.moved_share_:.1%} of the distances"))
    return page_content(
        model,
        title=settings.title or f"{stem_of(items.source)}: one metric for {items.label_column}",
        n_bootstrap=settings.n_bootstrap,
        accuracies=accuracies,
        confusion=confusion,
        precomputed=Precomputed(
            outcome.metric, outcome.probabilities, outcome.weights, outcome.nearest[0]
        ),
        annotations=Annotations(
            items=item_titles(items, title_column),
            sources={source.name: source.describe() for source in sources},
            command=command,
            facts=facts,
            phrases=EdgePhrases(
                model.metric_.whole.lengths,
                gathered.sources,
                getattr(model, "classes_", np.empty(0)).tolist(),
            ).sentence,
            headline=outcome.headline,
        ),
        on_progress=lambda _, fraction: report(round(1000 * fraction), 1000),
    )
