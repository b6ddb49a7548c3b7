"""Fit to files: read, join, learn, judge, draw, and leave a folder."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.join import JoinedData, Plan
from metricmix.app.ingest.new_items import save_inputs
from metricmix.app.page import Accuracy, Confusion, gather, write_page
from metricmix.app.pipeline import run_folder as names
from metricmix.app.pipeline.run_record import (
    FitSettings,
    found_record,
    prediction_rows,
    run_record,
    weight_rows,
    write_csv,
)
from metricmix.atomic import replacing_in
from metricmix.estimators.bootstrap import weight_columns
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.comparison import Comparison, compare
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV, held_out_probabilities
from metricmix.estimators.model_files import save
from metricmix.estimators.rules import as_rule
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.paths.all_pairs import path_metric

__all__ = ["FitOutcome", "OnProgress", "Stages", "expected_seconds", "fit_files", "write_report"]


OnProgress = Callable[[str, float], None]
"""Called with the name of a stage, and the share of all work that is done."""


def expected_seconds(plan: Plan, settings: FitSettings) -> dict[str, float]:
    """Return about how long each stage takes: a guess of the right order, measured on two cores."""
    n, R = plan.report.n_items, len(plan.sources)
    labelled = plan.report.n_labelled
    learning = 1.0 + 2e-6 * R * labelled**2
    costs = {
        "sources": 0.5 + plan.report.seconds,
        "learning": learning * (8 if settings.tune else 1),
    }
    if settings.n_bootstrap:
        costs["intervals"] = 0.5 + settings.n_bootstrap * 2e-7 * R * min(labelled, 1000) ** 2
    if settings.n_splits:
        costs["accuracy"] = 0.5 + (settings.n_splits + R + 1) * 2e-8 * n * (n + 20 * labelled)
    costs["metric"] = 0.2 + 2e-11 * n**3
    if settings.report:
        costs["page"] = 1.0 + (R + 1) * 1.2e-3 * n
    costs["writing"] = 0.3 + 2e-9 * R * n * n
    return costs


class Stages:
    """Where a run is: its stage, and the share of all work that is done."""

    def __init__(self, costs: Mapping[str, float], on_progress: OnProgress | None) -> None:
        self.costs, self.on_progress = dict(costs), on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Tell of a stage, and time it; gives a function to call with (done, all)."""
        before = sum(self.costs[other] for other in self.costs if other in self.seconds)
        total, began = sum(self.costs.values()), time.perf_counter()

        def tell(done: int, all_: int) -> None:
            if self.on_progress is not None:
                share = done / max(1, all_)
                self.on_progress(name, (before + self.costs.get(name, 0.0) * share) / total)

        tell(0, 1)
        yield tell
        self.seconds[name] = time.perf_counter() - began


# -- the page of a run --------------------------------------------------------------------------

NAMES = ("name", "title")
"""Columns that say what an item is called, where none is stated."""


def write_report(
    file: Path,
    model: MetricMixtureClassifier,
    gathered: JoinedData,
    metric: NDArray[Any],
    members: NDArray[Any],
    weights: Mapping[str, Any],
    comparison: Comparison | None,
    how_judged: str,
    settings: FitSettings,
    command: str | None,
    tell: Callable[[int, int], None],
) -> None:
    """Write what was learned, and how good it is, as one page."""
    accuracies: tuple[Accuracy, ...] = ()
    confusion = None
    if comparison is not None:
        accuracies = tuple(
            Accuracy(
                method.name, method.mean, method.standard_error, single=method.kind == "single"
            )
            for method in comparison.methods
        )
        confusion = Confusion(comparison.confusion, how_judged)
    page = gather(
        model,
        title=settings.title or f"{Path(settings.table).stem}: one metric for {settings.label}",
        accuracies=accuracies,
        confusion=confusion,
        metric=metric,
        members=members,
        weights=weights,
        n_bootstrap=settings.n_bootstrap,
        command=command,
        about=_names(gathered.items, settings),
        sources={source.name: source.describe() for source in gathered.report.sources},
        facts=tuple(_facts(model, gathered, settings)),
        on_stage=lambda _, share: tell(round(1000 * share), 1000),
    )
    write_page(file, page)


def _names(items: ItemTable, settings: FitSettings) -> tuple[str, ...]:
    """Return what the items are called besides their ids, if anything."""
    by_name = {name.casefold(): name for name in items.attributes}
    usual = (by_name[name] for name in NAMES if name in by_name)
    column = next(usual, "") if settings.name is None else settings.name
    return items.attributes[column] if column else ()


def _facts(
    model: MetricMixtureClassifier, gathered: JoinedData, settings: FitSettings
) -> Iterator[tuple[str, str]]:
    """Yield what to know of a run: its files, what was left out, its settings."""
    items = gathered.items
    yield "Table", f"{items.source}, ids in column {items.id_column!r}"
    seen = set()
    for source in gathered.report.sources:
        told = "; ".join(source.remarks())
        if told and source.file not in seen:
            yield f"Source {source.name}", told
        seen.add(source.file)
    left = [column.name for column in gathered.columns if column.kind == "ignore"]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        yield "Columns left out", ", ".join(left[:5]) + more
    chosen = ", chosen by cross-validation" if settings.tune else ""
    rho = "the default" if model.rho is None else f"{model.rho:g}"
    yield "Settings", f"rule {as_rule(model.rule).name}, rho {rho}{chosen}, seed {settings.seed}"


# -- fit to files: read, join, learn, judge, draw, and leave a folder ---------------------------

FEWEST_TO_JUDGE = 3
"""Labelled items from which on some can be held out."""


@dataclass(frozen=True)
class FitOutcome:
    """What came out: the model, its weights with intervals, accuracies, and what to know."""

    settings: FitSettings
    model: MetricMixtureClassifier
    gathered: JoinedData
    weights: dict[str, Any]
    comparison: Comparison | None
    how_judged: str
    notes: tuple[str, ...]
    seconds: dict[str, float]
    files: tuple[str, ...]


def fit_files(
    plan: Plan,
    settings: FitSettings,
    out: str | os.PathLike[str],
    *,
    command: str | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Fit to files that fit together, and write the folder `out`, whole or not at all.

    Of what is in the folder already, only the files of an earlier run are replaced.
    :mod:`metricmix.app.pipeline.run_folder` lists its files. `command`, the command line that
    repeats the run, is stored.
    """
    _refuse_own_inputs(settings, Path(out))
    stages = Stages(expected_seconds(plan, settings), on_progress)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        with stages.stage("sources") as tell:
            gathered = plan.build(tell)
        with stages.stage("learning"):
            model = _learn(gathered, settings)
        weights = _weights(model, settings, stages)
        comparison = _judge(model, settings, stages)
        how = how_judged(comparison, settings)
        with stages.stage("metric"):
            metric = path_metric(model.stack_, model.mixture_)
            members = held_out_probabilities(model, metric)
        notes = tuple(dict.fromkeys(str(w.message) for w in caught))
    with replacing_in(out, names.FILES) as inside:
        if settings.report:
            from metricmix.app.pipeline.fit_run import write_report

            with stages.stage("page") as tell:
                write_report(
                    inside / names.REPORT,
                    model,
                    gathered,
                    metric,
                    members,
                    weights,
                    comparison,
                    how,
                    settings,
                    command,
                    tell,
                )
        with stages.stage("writing"):
            save(model, inside / names.MODEL)
            save_inputs(inside / names.INPUTS, gathered)
            write_csv(inside / names.PREDICTIONS, prediction_rows(model, metric, members))
            write_csv(inside / names.WEIGHTS, weight_rows(weights))
            if settings.keep_metric:
                np.save(inside / names.METRIC, metric)
        found = found_record(model, gathered, weights, comparison)
        content = run_record(command, asdict(settings), settings.files, stages.seconds, found)
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        (inside / names.RUN).write_text(text + "\n", encoding="utf-8", errors="replace")
        written = tuple(name for name in names.FILES if (inside / name).exists())
    return FitOutcome(
        settings, model, gathered, weights, comparison, how, notes, stages.seconds, written
    )


def _refuse_own_inputs(settings: FitSettings, out: Path) -> None:
    """Raise if writing the folder would replace a file that it is made of."""
    for file in settings.files:
        path = Path(file).resolve()
        if path.name in names.FILES and path.parent == out.resolve():
            raise InputError(
                "would be replaced by the file of this name that a fit writes",
                argument=file,
                remedy="rename it, or write to another folder",
            )


def how_judged(comparison: Comparison | None, settings: FitSettings) -> str:
    """Return how accuracies were found; that settings were chosen on the same labels, if so."""
    if comparison is None:
        return ""
    chosen = "; rule and rho were chosen on all labels, these included" if settings.tune else ""
    return comparison.how + chosen


def _learn(gathered: JoinedData, settings: FitSettings) -> MetricMixtureClassifier:
    chosen = {
        name: getattr(settings, name)
        for name in ("objective", "constraint")
        if getattr(settings, name) is not None
    }
    labels = np.array(gathered.items.labels)
    if settings.tune:
        if settings.rho is not None:
            chosen["rhos"] = (settings.rho,)
        if settings.rule is not None:
            rule: Any = as_rule(settings.rule)
            more = (replace(rule, n_neighbors=10),) if hasattr(rule, "n_neighbors") else ()
            chosen["rules"] = (rule, *more)
        search = MetricMixtureClassifierCV(random_state=settings.seed, **chosen)
        return search.fit(gathered.stack, labels).best_estimator_
    if settings.rule is not None:
        chosen["rule"] = settings.rule
    model = MetricMixtureClassifier(rho=settings.rho, random_state=settings.seed, **chosen)
    return model.fit(gathered.stack, labels)


def _weights(
    model: MetricMixtureClassifier, settings: FitSettings, stages: Stages
) -> dict[str, Any]:
    """Return the columns of the table of weights; without intervals where none are asked for."""
    if not settings.n_bootstrap:
        return weight_columns(model, 0)
    with stages.stage("intervals") as tell:
        return weight_columns(
            model, settings.n_bootstrap, random_state=settings.seed, on_resample=tell
        )


def _judge(
    model: MetricMixtureClassifier, settings: FitSettings, stages: Stages
) -> Comparison | None:
    """Return accuracies on held-out labels; None if there are too few labels, or none asked for."""
    if not settings.n_splits or (model._codes >= 0).sum() < FEWEST_TO_JUDGE:
        return None
    with stages.stage("accuracy") as tell:
        return compare(model, n_splits=settings.n_splits, random_state=settings.seed, on_fold=tell)
