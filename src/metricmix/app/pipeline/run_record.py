"""The record of a run: what was asked, of which files, by which versions, how long it took."""

from __future__ import annotations

import csv
import hashlib
import io
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import did_you_mean
from metricmix.app.ingest.item_table import read_items
from metricmix.app.ingest.join import JoinedData, Plan, plan
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.app.pipeline.run_folder import RUN_FORMAT
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.comparison import Comparison
from metricmix.estimators.rules import as_rule
from metricmix.exceptions import InputError, TableFileError

__all__ = [
    "FitSettings",
    "found_record",
    "plan_files",
    "prediction_rows",
    "run_record",
    "weight_rows",
    "write_csv",
]


PACKAGES = ("metricmix", "numpy", "scipy", "scikit-learn", "numba")
CHUNK = 1 << 22


def _versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _checksums(files: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Return size and checksum of every file, so that a changed one is noticed."""
    return [_checksum(Path(file)) for file in dict.fromkeys(map(str, files))]


def _checksum(file: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"file": str(file), "bytes": size, "sha256": digest.hexdigest()}


def run_record(
    command: str | None,
    arguments: Mapping[str, Any],
    files: Iterable[str | Path],
    seconds: Mapping[str, float],
    found: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all of it, in terms of JSON."""
    return {
        "format": RUN_FORMAT,
        "version": 1,
        "command": command,
        "arguments": dict(arguments),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "platform": platform.platform(),
        "inputs": _checksums(files),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "found": dict(found),
    }


def found_record(
    model: MetricMixtureClassifier,
    gathered: JoinedData,
    weights: Mapping[str, Any],
    comparison: Comparison | None,
) -> dict[str, Any]:
    """Return what came out, in terms of JSON."""
    table = {name: np.asarray(column).tolist() for name, column in weights.items()}
    rows = zip(*(table[key] for key in ("name", "weight", "lower", "upper")), strict=True)
    report = gathered.report
    return {
        "items": report.n_items,
        "labelled": report.n_labelled,
        "classes": report.classes,
        "directed": report.directed,
        "sources": [str(source.spec) for source in gathered.sources],
        "weights": [
            {
                "source": name,
                **dict(zip(("weight", "lower", "upper"), map(_finite, v), strict=True)),
            }
            for name, *v in rows
        ],
        "rule": as_rule(model.rule).name,
        "rho": model.rho,
        "status": model.result_.status.value,
        "accuracy": None
        if comparison is None
        else {
            "how": comparison.how,
            "methods": [
                {"name": m.name, "kind": m.kind, "mean": m.mean, "standard_error": m.standard_error}
                for m in comparison.methods
            ],
        },
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- what to fit, to which files, and what to leave ---------------------------------------------


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
        See :func:`~metricmix.app.ingest.infer_columns`.
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
        raise InputError(
            argument="name", expected=did_you_mean(list(items.attributes), settings.name)
        )
    return plan(items, settings.sources, kinds=settings.kinds, defaults=settings.defaults)


# -- the tables of a run: a label for every item, a weight for every source ---------------------

PREDICTION = ("id", "label", "given", "confidence", "nearest", "distance", "prefers")
WEIGHT = ("source", "weight", "lower", "upper", "same_sign", "scale", "effect")


def prediction_rows(
    model: MetricMixtureClassifier, metric: NDArray[Any], members: NDArray[Any]
) -> Iterable[Sequence[Any]]:
    """Yield a row per item, after a row of names.

    ``confidence`` is the probability of the label by `members`, (n, C), where an item's own label
    does not count (:func:`~metricmix.estimators.cross_validation.held_out_probabilities`);
    ``prefers`` is the rule's choice where it is not the label that was given.
    """
    yield PREDICTION
    given = model._codes >= 0
    labels = np.searchsorted(model.classes_, model.transduction_)
    chosen = members.argmax(axis=1)
    labelled = np.flatnonzero(given)
    to_labelled = np.array(metric[:, labelled], dtype=np.float64)
    to_labelled[labelled, np.arange(len(labelled))] = np.inf
    near = to_labelled.argmin(axis=1)
    for i, item in enumerate(model.stack_.items.tolist()):
        misfit = given[i] and chosen[i] != labels[i]
        yield (
            item,
            model.classes_[labels[i]],
            "yes" if given[i] else "no",
            f"{members[i, labels[i]]:.4f}",
            model.stack_.items[labelled[near[i]]],
            f"{to_labelled[i, near[i]]:.6g}",
            model.classes_[chosen[i]] if misfit else "",
        )


def weight_rows(columns: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """Yield a row per source, after a row of names, from the columns of the weights' table."""
    yield WEIGHT
    names = ("name", *WEIGHT[1:])
    for name, *numbers in zip(*(columns[key] for key in names), strict=True):
        yield (name, *(f"{number:.6g}" for number in numbers))


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as a CSV file in UTF-8."""
    path.write_text(as_csv(rows), encoding="utf-8", newline="")


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    table = [[str(cell) for cell in row] for row in rows]
    odd = any("\r" in cell for row in table for cell in row)  # which would not be quoted
    text = io.StringIO()
    quoting: Any = csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(table)
    return text.getvalue()
