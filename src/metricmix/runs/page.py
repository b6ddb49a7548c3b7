"""The page of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.comparison import Comparison
from metricmix.report.page import Accuracy, Confusion, gather, write_page
from metricmix.runs.settings import FitSettings

__all__ = ["write_report"]


def write_report(
    file: Path,
    model: MetricMixtureClassifier,
    metric: NDArray[Any],
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
        weights=weights,
        n_bootstrap=settings.n_bootstrap,
        command=command,
        on_stage=lambda _, share: tell(round(1000 * share), 1000),
    )
    write_page(file, page)
