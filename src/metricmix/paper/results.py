"""The results file, with the versions and the machine behind it; means and their intervals.

One JSON file holds every finished cell. It is written under a temporary name and moved into place,
so that an interruption or a full disk leaves the last good file.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.atomic import replacing
from metricmix.exceptions import ResultsError
from metricmix.paper.experiment import Cell, CellResult, Experiment, fingerprint, installed

__all__ = ["Interval", "Results", "growth_exponent", "mean_interval", "solved_cells"]


FORMAT = "metricmix results 1"
MUST_AGREE = ("data", "seed", "metricmix")
"""What a file must have in common with a run that continues it."""


class Results:
    """Cells by experiment and key, kept in the file `path`.

    `head` has the data, seed, versions and machine that they were computed with; `now` the same of
    this run, for what it adds.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self.head = self.now = head
        self.settings: dict[str, Any] = {}
        self._cells: dict[str, dict[str, dict[str, Any]]] = {}

    @classmethod
    def begin(cls, path: Path, data: str, seed: int, *, fresh: bool = False) -> Results:
        """Read the file of an earlier run with the same data and seed, or start without results.

        With `fresh`, an existing file is ignored, and replaced by the first write.

        Raises
        ------
        ResultsError
            If the file is damaged, or of other data, another seed or another version.
        """
        head = {"data": data, "seed": seed, **provenance()}
        if fresh or not path.exists():
            return cls(path, head)
        results = cls.read(path)
        for name in MUST_AGREE:
            if results.head.get(name) != head[name]:
                raise ResultsError(
                    f"{path}: holds results with {name} {results.head.get(name)}, not "
                    f"{head[name]}; choose another folder, or start afresh with --fresh"
                )
        results.now = head
        return results

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a results file."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise KeyError("format")
            results = cls(path, content["head"])
            results.settings = content["settings"]
            for name, records in content["cells"].items():
                results._cells[name] = {_key(record["cell"]): record for record in records}
        except FileNotFoundError:
            raise ResultsError(f"{path}: no results yet; run `metricmix reproduce`") from None
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ResultsError(
                f"{path}: not a results file, or a damaged one; start afresh with --fresh"
            ) from None
        return results

    def write(self) -> None:
        """Write the file atomically."""
        content = {
            "format": FORMAT,
            "head": self.head,
            "settings": self.settings,
            "cells": {
                name: [records[key] for key in sorted(records)]
                for name, records in sorted(self._cells.items())
            },
        }
        text = json.dumps(content, separators=(",", ":"))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as file:
            # A line per cell keeps differences readable.
            file.write(text.replace('{"cell":', '\n{"cell":').encode())

    def missing(self, experiment: Experiment) -> list[Cell]:
        """Return the cells to be run: those of other settings, code or versions are dropped."""
        settings = self.settings_of(experiment)
        if self.settings.get(experiment.name) != settings:
            self._cells.pop(experiment.name, None)
        self.settings[experiment.name] = settings
        known = self._cells.setdefault(experiment.name, {})
        return [cell for cell in experiment.cells() if _key(cell) not in known]

    def settings_of(self, experiment: Experiment) -> dict[str, Any]:
        """Return all that the results of an experiment depend on, as the file holds it."""
        found = {**experiment.depends_on, **fingerprint(type(experiment), *experiment.packages)}
        return dict(json.loads(json.dumps(found, default=str)))

    def is_outdated(self, kind: type[Experiment]) -> bool:
        """Return whether the cells of an experiment were run by other code or package versions."""
        stored = self.settings.get(kind.name, {})
        now = fingerprint(kind, *kind.packages)
        return self.has(kind.name) and any(stored.get(name) != now[name] for name in now)

    def add(self, experiment: Experiment, cell: Cell, found: CellResult) -> None:
        """Store the result of a cell, and in the head what it was computed with.

        Of a file without other cells the head becomes that of this run; else the commit is added.
        """
        if not any(self._cells.values()):
            self.head = dict(self.now)
        commits, commit = str(self.head.get("commit")).split(", "), self.now.get("commit")
        if commit is not None and commit not in commits:
            self.head["commit"] = ", ".join([*commits, commit])
        record: dict[str, Any] = {"cell": dict(cell), "values": found.values}
        if found.seconds:
            record["seconds"] = found.seconds
        self._cells.setdefault(experiment.name, {})[_key(cell)] = record

    def has(self, name: str) -> bool:
        """Return whether an experiment has any finished cell."""
        return bool(self._cells.get(name))

    def records(self, name: str, **where: int | str) -> Iterator[dict[str, Any]]:
        """Yield the cells of an experiment that agree with `where`, in the order of their keys."""
        for _, record in sorted(self._cells.get(name, {}).items()):
            if all(record["cell"].get(key) == value for key, value in where.items()):
                yield record

    def sizes(self, name: str, **where: int | str) -> list[int]:
        """Return the sizes D of the finished cells, smallest first."""
        return sorted({int(record["cell"]["D"]) for record in self.records(name, **where)})


def _key(cell: Cell) -> str:
    """Return a cell's key as text; padded numbers make it sort by size."""
    return ",".join(
        f"{name}={value:06d}" if isinstance(value, int) else f"{name}={value}"
        for name, value in cell.items()
    )


# -- what several readers of the results need ----------------------------------------------------


def solved_cells(results: Results, method: str, **where: int) -> list[dict[str, Any]]:
    """Return the stored cells of a method, those left out for lack of memory aside."""
    found = results.records("complexity", method=method, **where)
    return [record for record in found if "error" in record["values"]]


def growth_exponent(results: Results, way: str) -> float:
    """Return the exponent of n in the operations of a step, from the smallest to the largest n."""
    found = {
        int(record["cell"]["n"]): record["values"]["operations"][way]
        for record in results.records("step-cost")
    }
    low, high = min(found), max(found)
    return float(np.log(found[high] / found[low]) / np.log(high / low)) if low < high else np.nan


# -- provenance: versions, machine, commit, date ------------------------------------------------

PACKAGES = ("metricmix", "numpy", "scipy", "numba", "scikit-learn", "cvxpy", "clarabel")


def provenance() -> dict[str, Any]:
    """Return the versions of the packages, the machine, the commit and the date."""
    found: dict[str, Any] = {}
    for package in PACKAGES:
        found[package] = installed(package)
    return found | {
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": memory_gib(),
        "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def cpu_name() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float | None:
    """Return the machine's memory; None if unknown."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def commit() -> str | None:
    """Return the commit of the checkout that this runs from; None outside of one.

    "-dirty" marks uncommitted changes of the package.
    """
    name = _git("rev-parse", "--short", "HEAD")
    return f"{name}-dirty" if name and _git("status", "--porcelain", "--", "..") else name


def _git(*arguments: str) -> str | None:
    try:
        asked = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip() or None


# -- means with 95 % confidence intervals -------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A mean, its 95 % confidence interval, and the standard deviation and number of values.

    The interval of a single value is unbounded.
    """

    mean: float
    low: float
    high: float
    std: float
    count: int

    def text(self, form: str = ".3f") -> str:
        """Return mean and interval as text.

        >>> mean_interval([1.0, 2.0, 3.0]).text(".1f")
        '2.0 [-0.5, 4.5]'
        """
        if self.count < 2:
            return f"{self.mean:{form}}"
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def mean_interval(values: Iterable[float] | ArrayLike) -> Interval:
    """Return the mean with Student's interval."""
    from scipy.stats import t

    x = np.asarray(list(values) if isinstance(values, Iterable) else values, dtype=np.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, -np.inf, np.inf, 0.0, len(x))
    std = float(x.std(ddof=1))
    half = float(t.ppf(0.975, len(x) - 1)) * std / np.sqrt(len(x))
    return Interval(mean, mean - half, mean + half, std, len(x))


def difference_interval(first: Interval, second: Interval) -> Interval:
    """Return the second mean minus the first, of independent samples, with Welch's interval."""
    from scipy.stats import t

    apart, count = second.mean - first.mean, first.count + second.count
    if min(first.count, second.count) < 2:
        return Interval(apart, -np.inf, np.inf, 0.0, count)
    a, b = first.std**2 / first.count, second.std**2 / second.count
    if a + b == 0:
        return Interval(apart, apart, apart, 0.0, count)
    freedom = (a + b) ** 2 / (a**2 / (first.count - 1) + b**2 / (second.count - 1))
    half = float(t.ppf(0.975, freedom)) * float(np.sqrt(a + b))
    return Interval(apart, apart - half, apart + half, 0.0, count)


def geometric_interval(values: Iterable[float]) -> Interval:
    """Return the geometric mean of positive values with its interval: for ratios and times.

    >>> round(geometric_interval([1.0, 100.0]).mean, 6)
    10.0
    """
    logs = mean_interval(np.log(list(values)))
    return Interval(
        float(np.exp(logs.mean)),
        float(np.exp(logs.low)),
        float(np.exp(logs.high)),
        logs.std,
        logs.count,
    )
