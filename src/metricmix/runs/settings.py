"""What to fit, to which files, and what to leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from metricmix.exceptions import InputError, TableFileError
from metricmix.gathering.joining import Plan, plan
from metricmix.gathering.specs import SourceSpec
from metricmix.gathering.tables import read_items
from metricmix.gathering.text import one_of

__all__ = ["FitSettings", "plan_files"]


@dataclass(frozen=True)
class FitSettings:
    """What to fit, to which files, and what to leave.

    Attributes
    ----------
    table, label, id : str
        The table of items, its column of labels, and that of ids (default: the first).
    sources : tuple of SourceSpec
        Besides those that the table is worth by itself, unless `defaults` is False.
    kinds : mapping of column names to kinds
        See :func:`~metricmix.gathering.decide`.
    rule, objective, rho, constraint
        Of :class:`~metricmix.MetricMixtureClassifier`; what is None is its own default.
    tune : bool
        Whether rule and rho are chosen by cross-validation.
    n_bootstrap, n_splits : int
        Resamples for the intervals of the weights, folds for accuracies; 0 leaves them out.
    seed : int
    keep_metric, report : bool
        Whether to write all distances, and the page.
    title : str, optional
        Of the page.
    name : str, optional
        The column that says what an item is called, to be shown on the page. Default: one called
        name or title, if there is one; "" for none.
    """

    table: str
    label: str
    id: str | None = None
    sources: tuple[SourceSpec, ...] = ()
    defaults: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    rule: str | None = None
    objective: str | None = None
    rho: float | None = None
    constraint: str | None = None
    tune: bool = False
    n_bootstrap: int = 100
    n_splits: int = 5
    seed: int = 0
    keep_metric: bool = False
    report: bool = True
    title: str | None = None
    name: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it reads."""
        return (self.table, *(spec.file for spec in self.sources if spec.file))


def plan_files(settings: FitSettings) -> Plan:
    """Read all files and join them, without computing anything."""
    items = read_items(settings.table, id=settings.id, label=settings.label)
    sizes = Counter(label for label in items.labels or () if label)
    where = f"{settings.table}, column {settings.label!r}"
    if len(sizes) < 2:
        raise TableFileError(
            f"{where}: expected labels of two classes at least, found {next(iter(sizes))!r} only"
        )
    if max(sizes.values()) < 2:
        raise TableFileError(
            f"{where}: expected a class with two labelled items at least, to compare them, found "
            f"one item in each of {len(sizes)} classes; label a few more"
        )
    if settings.name and settings.name not in items.attributes:
        raise InputError(f"name: expected {one_of(list(items.attributes), settings.name)}")
    return plan(items, settings.sources, kinds=settings.kinds, defaults=settings.defaults)
