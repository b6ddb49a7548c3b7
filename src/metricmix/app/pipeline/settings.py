"""What to fit, to which files; and what those files hold, joined but not yet computed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from metricmix.app.ingest.given_files import with_files
from metricmix.app.ingest.item_table import items_from_table
from metricmix.app.ingest.table_files import read_table
from metricmix.dissimilarity.plan import JoinedData, Plan
from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.fitting.options import FitRequest
from metricmix.fitting.plan import plan_items

__all__ = ["FitSettings", "plan_files", "plan_record", "resolved"]


Options = TypeVar("Options", bound=FitRequest)


@dataclass(frozen=True)
class FitSettings(FitRequest):
    """What to fit, to which files, and what to write.

    Attributes
    ----------
    table, label, id : str
        The table of items, its column of labels, and that of ids (default: the first).
    keep_metric, report : bool
        Whether to write all distances, and the page.
    missing : tuple of str
        Texts that stand for missing values, besides the usual ones.

    The others are those of :class:`~metricmix.fitting.options.FitRequest`.
    """

    table: str
    label: str
    id: str | None = None
    report: bool = field(default=True, kw_only=True)
    keep_metric: bool = field(default=False, kw_only=True)
    missing: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (self.table, *(spec.file for spec in self.sources if spec.file))


def plan_files(settings: FitSettings) -> Plan:
    """Read all files and join them, without computing anything.

    Raises
    ------
    TableFileError
        If a file cannot be read or does not fit the table, or there are too few labels.
    InputError
        If a setting names no column.
    """
    cells = read_table(settings.table)
    items = items_from_table(
        cells,
        id=settings.id,
        label=settings.label,
        need_labels=False,
        missing=settings.missing,
    )
    return plan_items(with_files(items, settings.sources), settings)


def resolved(settings: Options, plan: Plan | JoinedData) -> Options:
    """Return the settings with all that was chosen filled in: ids, columns, target, sources."""
    kinds = {column.name: column.kind for column in plan.report.columns}
    for pattern, kind in settings.kinds.items():  # how cells are written is part of what was stated
        for name in kinds:
            if (name == pattern or fnmatchcase(name, pattern)) and kinds[name] != "ignore":
                kinds[name] = kind
    if isinstance(settings, FitSettings):
        settings = replace(settings, id=plan.items.id_option)
    return replace(
        settings,
        sources=tuple(source.spec for source in plan.sources),
        defaults=False,
        only=(),
        kinds=kinds,
        target="classes" if plan.report.target is None else "number",
    )


def plan_record(plan: Plan, storage: ValueStorage) -> dict[str, Any]:
    """Return what would be joined, and how values would be stored, for JSON."""
    return {
        "table": str(plan.items.source),
        "id_column": plan.items.id_column,
        **asdict(plan.report),
        "storage": storage.to_record(),
    }
