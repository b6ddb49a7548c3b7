"""Fit to files: read, join, learn, judge, draw, and leave a folder."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.atomic import replacing_in
from metricmix.estimators.bootstrap import weight_columns
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.compared import Comparison
from metricmix.estimators.comparison import compare
from metricmix.estimators.held_out import blind_members
from metricmix.estimators.persistence import save
from metricmix.estimators.selection import MetricMixtureClassifierCV
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.gathering.joining import Gathered, Plan
from metricmix.gathering.keeping import keep_inputs
from metricmix.paths.all_pairs import path_metric
from metricmix.runs import folder as names
from metricmix.runs.record import found_record, run_record
from metricmix.runs.settings import FitSettings
from metricmix.runs.stages import OnProgress, Stages, expected_seconds
from metricmix.runs.tables import prediction_rows, weight_rows, write_csv

__all__ = ["FitOutcome", "fit_files"]

FEWEST_TO_JUDGE = 3
"""Labelled items from which on some can be held out."""


@dataclass(frozen=True)
class FitOutcome:
    """What came out: the model, its weights with intervals, accuracies, and what to know."""

    settings: FitSettings
    model: MetricMixtureClassifier
    gathered: Gathered
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
    :mod:`metricmix.runs.folder` says what is in it. `command` is what to type to get the same
    again; it is kept.
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
            members = blind_members(model, metric)
        notes = tuple(dict.fromkeys(str(w.message) for w in caught))
    with replacing_in(out, names.FILES) as inside:
        if settings.report:
            from metricmix.runs.page import write_report

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
            keep_inputs(inside / names.INPUTS, gathered)
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
                f"{file}: would be replaced by the file of this name that a fit writes; rename it, "
                "or write to another folder"
            )


def how_judged(comparison: Comparison | None, settings: FitSettings) -> str:
    """Return how accuracies were found; that settings were chosen on the same labels, if so."""
    if comparison is None:
        return ""
    chosen = "; rule and rho were chosen on all labels, these included" if settings.tune else ""
    return comparison.how + chosen


def _learn(gathered: Gathered, settings: FitSettings) -> MetricMixtureClassifier:
    chosen = {
        name: getattr(settings, name)
        for name in ("objective", "constraint")
        if getattr(settings, name) is not None
    }
    labels = np.array(gathered.items.labels)
    if settings.tune:
        for name in ("rule", "rho"):
            if getattr(settings, name) is not None:
                chosen[f"{name}s"] = (getattr(settings, name),)
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
