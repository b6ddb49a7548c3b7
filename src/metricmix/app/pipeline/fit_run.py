"""Fit to files: read, join, learn, evaluate, draw, and write a run folder."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import encode
from metricmix.app.ingest.file_sources import known_shares, little_data, lowered
from metricmix.app.ingest.graph_file_sources import graph_from_edges
from metricmix.app.ingest.join import JoinedData, Plan
from metricmix.app.ingest.new_items import save_inputs
from metricmix.app.ingest.source_specs import graph_names
from metricmix.app.page import write_page
from metricmix.app.page.html import json_values
from metricmix.app.page.page_paths import nearest_labelled_item
from metricmix.app.pipeline import run_folder as names
from metricmix.app.pipeline.outcome import FitOutcome, run_page
from metricmix.app.pipeline.progress import OnProgress, StepProgress, expected_seconds, storage_of
from metricmix.app.pipeline.run_folder import (
    prediction_rows,
    reserved_folder,
    run_record,
    weight_rows,
    write_csv,
)
from metricmix.app.pipeline.settings import FitSettings, resolved
from metricmix.app.pipeline.storage import SEARCHED_UP_TO, ValueStorage, build, pairs_to_compare
from metricmix.atomic import Reservation
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_data import ItemData
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.predictor import MixturePredictor
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.learning.bootstrap import weight_columns
from metricmix.learning.findings import diagnose
from metricmix.learning.learned import Learned
from metricmix.learning.rules import as_rule
from metricmix.learning.verdict import Comparison
from metricmix.memory import in_words
from metricmix.paths.learned_metric import nearest_others
from metricmix.paths.stretch import Stretch, stretch
from metricmix.paths.trees import distances_from
from metricmix.storage.models import save
from metricmix.typing import Floats

__all__ = ["fit_files", "fit_plan", "learn"]


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
    model = outcome.model
    with out.replacing() as folder:
        if settings.report:
            with progress.step("page") as report:
                write_page(folder / names.REPORT, run_page(outcome, command, report))
        with progress.step("writing"):
            save(model, folder / names.MODEL)
            save_inputs(folder / names.INPUTS, outcome.gathered)
            left_out = outcome.gathered.report.labels_left_out
            rows = prediction_rows(model, outcome.nearest, outcome.probabilities, left_out)
            write_csv(folder / names.PREDICTIONS, rows)
            write_csv(folder / names.WEIGHTS, weight_rows(outcome.weights))
            if settings.keep_metric:
                write_metric(folder / names.METRIC, outcome)
        asked = resolved(settings, plan)
        record = run_record(
            command, asdict(asked), asked.files, progress.seconds, outcome.to_record(), folder
        )
        text = json.dumps(json_values(record), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / names.RUN).write_text(text + "\n", encoding="utf-8", errors="replace")
        written = tuple(name for name in names.FILES if (folder / name).exists())
    return replace(outcome, files=written)


def fit_plan(
    plan: Plan, settings: FitSettings, progress: StepProgress, storage: ValueStorage
) -> FitOutcome:
    """Build the sources, learn and evaluate: all that a run folder holds, except the page."""
    comparison, metric, apart = None, None, None
    told = ConvergenceWarning if plan.report.target is None else UserWarning  # far targets too
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", told)
        with progress.step("sources") as report:
            gathered = build(plan, storage, report)
            data = item_data(plan)
            for source in gathered.stack.between_any.sources:
                source.made_from = data
        with progress.step("learning"):
            model = learn(gathered, settings)
            learned = model.learned_
        if settings.n_bootstrap and model.result_.objective_kind != "none":
            with progress.step("intervals") as report:
                weights = weight_columns(
                    learned, settings.n_bootstrap, random_state=settings.seed, on_resample=report
                )
        else:
            weights = weight_columns(learned, 0)
        known, task = model.known_, learned.task
        if settings.n_splits != 0 and len(known.items) >= task.fewest:
            with progress.step("accuracy") as report:
                comparison = model.compare(
                    n_splits=settings.n_splits, random_state=settings.seed, on_fold=report
                )
        if storage.kind == "matrices":
            with progress.step("metric"):
                metric = model.compute_metric()
                items = nearest_labelled_item(metric, known.mask)
                nearest = items, metric[np.arange(len(items)), items]
                probabilities = held_out_answers(learned, comparison)
        else:
            with progress.step("nearest"):
                distances, items = nearest_others(learned.lengths, None, known.items)
                nearest = items[:, 0], distances[:, 0]
                probabilities = held_out_answers(learned, comparison)
        shares = known_shares(gathered.sources)
        if not task.is_numeric:
            probabilities = lowered(probabilities, shares)
        findings = diagnose(learned, answers=probabilities)
        if isinstance(gathered.stack, EdgeStack):
            with progress.step("stretch"):
                apart = measured_stretch(model)
    return FitOutcome(
        settings=settings,
        model=model,
        gathered=gathered,
        weights=weights,
        storage=storage,
        metric=metric,
        nearest=nearest,
        probabilities=probabilities,
        comparison=comparison,
        notes=(
            *little_data(gathered.items.ids, shares, numbers=task.is_numeric),
            *dict.fromkeys(str(warning.message) for warning in caught),
        ),
        seconds=progress.seconds,
        stretch=apart,
        findings=findings,
    )


def item_data(plan: Plan) -> ItemData:
    """Return the columns of the table as numbers, and the links of each graph and of all together.

    Links count by their strength, each graph as much as any other on average.
    """
    columns = [column for column in plan.report.columns if column.kind != "ignore"]
    table = encode(plan.items, columns).features if columns else None
    graphs = {
        source.links.spec.file: source.links.edges
        for source in plan.sources
        if source.links is not None
    }
    names = graph_names([source.spec for source in plan.sources])
    links, single = None, {}
    for file, edges in graphs.items():
        lengths = graph_from_edges(edges, len(plan.items.ids), directed=False).adjacency
        strengths = lengths.copy()
        strengths.data = 1.0 / lengths.data if lengths.data.all() else np.ones(lengths.nnz)
        strengths.data /= max(float(strengths.data.mean()), 1e-300) if lengths.nnz else 1.0
        links = strengths if links is None else links + strengths
        single[names[file or ""]] = strengths
    if table is not None and not isinstance(table, np.ndarray):
        table = table.tocsr()
    complete = not any(source.spec.kind == "matrix" for source in plan.sources)
    return ItemData(table, links, complete, single)


def held_out_answers(learned: Learned, comparison: Comparison | None) -> Floats:
    """Return what the rule says of all items; of labelled ones, by refits without their labels.

    Those of the comparison, where there is one.
    """
    if comparison is None:
        return learned.held_out.among_all(learned)
    assert learned.known is not None
    answers = learned.answers.copy()
    answers[learned.known.items] = comparison.answers[0]
    return answers


def measured_stretch(model: MixturePredictor) -> Stretch:
    """Return how far distances along the edges lie above those over all pairs, on some pairs.

    For more than 5000 items, a bound of it.
    """
    stack = model.stack_
    assert isinstance(stack, EdgeStack)
    n = stack.n_items
    searched = n <= SEARCHED_UP_TO
    return stretch(stack, model.mixture_, n_pairs=pairs_to_compare(n), exact=searched)


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


def learn(gathered: JoinedData, settings: FitSettings) -> MixturePredictor:
    """Fit the estimator, its rule and rho chosen by cross-validation if `settings.tune`."""
    options: dict[str, Any] = {
        "objective": settings.objective,
        "constraint": settings.constraint,
        "random_state": settings.seed,
        "geodesic": settings.geodesic if gathered.stack.edges is None else None,
    }
    if settings.tune:
        if settings.rule is not None:
            rule: Any = as_rule(settings.rule)
            more = (replace(rule, n_neighbors=10),) if hasattr(rule, "n_neighbors") else ()
            options["rules"] = (rule, *more)
        options["rhos"] = None if settings.rho is None else (settings.rho,)
    else:
        options["rule"], options["rho"] = settings.rule, settings.rho
    stated = {name: value for name, value in options.items() if value is not None}
    if settings.constraint == "signed":
        stated["constraint"] = None
    X: Any = gathered.stack
    if gathered.stack.supervised:  # every fold computes these from its own labels
        stated["sources"], X = gathered.stack, gathered.stack.items
    if gathered.items.targets is not None:
        return MetricMixtureRegressor(**stated).fit(X, gathered.items.targets)
    labels = np.array(gathered.items.labels)
    if settings.tune:
        return MetricMixtureClassifierCV(**stated).fit(X, labels).best_estimator_
    return MetricMixtureClassifier(**stated).fit(X, labels)
