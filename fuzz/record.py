"""What a campaign leaves: the counts in ``fuzz/results.json``, failures in ``tests/fuzz_cases``."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fuzz.cases import Instance

__all__ = ["KeptCase", "Results", "code_version", "kept_cases"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "fuzz" / "results.json"
KEPT = ROOT / "tests" / "fuzz_cases"
MOST_RUNS = 50
"""Runs that are listed; the counts are those of all."""
MOST_CASES = 10
"""Case numbers that are listed per kind of failure."""


def code_version() -> str:
    """Return version and commit of the library, with a "+" if the code is not that of the commit.

    Results and pages do not count: a campaign writes them.
    """
    commit = git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return version("metricmix")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "fuzz/*.py")
    return f"{version('metricmix')} ({commit}{'+' if changed else ''})"


def git(*arguments: str) -> str:
    """Return what a git command prints; nothing, if it fails."""
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


@dataclass
class AreaCounts:
    """Cases 0 .. cases - 1 of an area have run; so many failed, and they took so long."""

    cases: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass
class Results:
    """What was tried so far.

    Attributes
    ----------
    seed : int
        Of the campaign.
    areas : dict of AreaCounts
    failures : dict of dict
        By area and kind: how often, and the first case numbers.
    runs : list of dict
        Date, code, seconds, cases and failures of the last runs.
    """

    seed: int = 0
    areas: dict[str, AreaCounts] = field(default_factory=dict)
    failures: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path = RESULTS) -> Results:
        """Return the results in a file; empty ones if there is none."""
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text())
        areas = {name: AreaCounts(**counts) for name, counts in stored.pop("areas").items()}
        return cls(areas=areas, **stored)

    def write(self, path: Path = RESULTS) -> None:
        """Write all, in one step."""
        record = asdict(self) | {"runs": self.runs[-MOST_RUNS:]}
        for counts in record["areas"].values():
            counts["seconds"] = round(counts["seconds"], 1)
        write_atomically(path, json.dumps(record, indent=1, sort_keys=True) + "\n")

    def counts(self, area: str) -> AreaCounts:
        """Return the counts of an area, to be changed."""
        return self.areas.setdefault(area, AreaCounts())

    def add_failure(self, area: str, case: int, kind: str) -> bool:
        """Count a failure; return whether it is the first of its kind."""
        self.counts(area).failures += 1
        kinds = self.failures.setdefault(area, {})
        entry = kinds.setdefault(kind, {"times": 0, "cases": []})
        entry["times"] += 1
        if len(entry["cases"]) < MOST_CASES:
            entry["cases"].append(case)
        return bool(entry["times"] == 1)


def write_atomically(path: Path, text: str) -> None:
    """Write a file beside its final name and move it there."""
    from metricmix.atomic import replacing

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


@dataclass
class KeptCase:
    """A failure, kept for the tests.

    Attributes
    ----------
    area, case, seed, code : str, int, int, str
        Where it was found, and in which version of the library.
    kind : str
        Of the failure; see :class:`~fuzz.cases.Finding`.
    wrong : str
        A sentence that says what was wrong.
    mended : str
        The version in which it was mended; empty while it is open.
    instance : dict
    """

    area: str
    case: int
    seed: int
    code: str
    kind: str
    wrong: str
    instance: Instance
    mended: str = ""

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        kind = re.sub("[^a-z0-9]+", "-", self.kind.lower()).strip("-")[:60]
        return f"{self.area}-{kind}"

    def write(self, folder: Path = KEPT) -> Path:
        """Write the case to its file."""
        path = folder / f"{self.name}.json"
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n")
        return path


def kept_cases(folder: Path = KEPT) -> Iterator[KeptCase]:
    """Yield the kept cases, by name."""
    for path in sorted(folder.glob("*.json")):
        yield KeptCase(**json.loads(path.read_text()))
