"""The page of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.compared import Comparison
from metricmix.gathering.joining import Gathered
from metricmix.gathering.tables import ItemTable
from metricmix.gathering.words import described, remarks
from metricmix.report.page import Accuracy, Confusion, gather, write_page
from metricmix.runs.settings import FitSettings

__all__ = ["write_report"]

NAMES = ("name", "title")
"""Columns that say what an item is called, where none is stated."""


def write_report(
    file: Path,
    model: MetricMixtureClassifier,
    gathered: Gathered,
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
        sources={source.name: described(source) for source in gathered.report.sources},
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
    model: MetricMixtureClassifier, gathered: Gathered, settings: FitSettings
) -> Iterator[tuple[str, str]]:
    """Yield what to know of a run: its files, what was left out, its settings."""
    items = gathered.items
    yield "Table", f"{items.source}, ids in column {items.id_column!r}"
    seen = set()
    for source in gathered.report.sources:
        told = "; ".join(remarks(source))
        if told and source.file not in seen:
            yield f"Source {source.name}", told
        seen.add(source.file)
    left = [column.name for column in gathered.columns if column.kind == "ignore"]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        yield "Columns left out", ", ".join(left[:5]) + more
    chosen = ", chosen by cross-validation" if settings.tune else ""
    rho = "the default" if model.rho is None else f"{model.rho:g}"
    yield "Settings", f"rule {model.rule}, rho {rho}{chosen}, seed {settings.seed}"
