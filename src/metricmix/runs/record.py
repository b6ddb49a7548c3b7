"""The record of a run: what was asked, of which files, by which versions, how long it took."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.compared import Comparison
from metricmix.gathering.joining import Gathered
from metricmix.runs.folder import RUN_FORMAT

__all__ = ["found_record", "run_record"]

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
    gathered: Gathered,
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
        "rule": model.rule,
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
