"""How things are timed, and how tables are written."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metricmix.paper.page import table
from metricmix.paper.results import cpu_name
from metricmix.paper.results import provenance as computed_with

__all__ = [
    "HEADLINES",
    "MEASURED",
    "best_time",
    "check_committed",
    "cpu_name",
    "headline",
    "provenance",
    "real_data",
    "table",
]

ROOT = Path(__file__).parent.parent
MEASURED = ("src", "benchmarks")
"""Folders whose code decides what is measured."""
HEADLINES: list[list[str]] = []
"""Rows of the first table of docs/benchmarks.md, in the order they were measured."""


def headline(what: str, ours: str, ratio: str) -> None:
    """Add a row to the first table of the page."""
    HEADLINES.append([what, ours, ratio])


def best_time(function: Callable[[], Any], repeats: int = 5, at_least: float = 0.0) -> float:
    """Return the shortest of several runs, in seconds; short jobs are repeated within a run.

    The first call, which may compile, is not timed.
    """
    function()
    inner = 1
    while True:
        started = time.perf_counter()
        for _ in range(inner):
            function()
        once = time.perf_counter() - started
        if once >= at_least:
            break
        inner *= 2
    best = once
    for _ in range(repeats - 1):
        started = time.perf_counter()
        for _ in range(inner):
            function()
        best = min(best, time.perf_counter() - started)
    return best / inner


def real_data(name: str) -> Path | None:
    """Return a file of real data if METRICMIX_DATA points to a folder that has it."""
    folder = os.environ.get("METRICMIX_DATA")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def provenance() -> str:
    """Say where the figures come from: machine, versions, commit."""
    from metricmix.kernels.threads import effective_threads

    found = computed_with()
    versions = ", ".join(f"{name} {found[name]}" for name in ("numpy", "scipy", "numba"))
    return (
        f"{found['date']}, commit {found['commit'] or 'unknown'}, "
        f"{effective_threads()} threads of {found['cpu']}, Python {found['python']}, {versions}"
    )


def check_committed(root: Path = ROOT) -> None:
    """Exit with a sentence unless all code that is measured is committed.

    A page cites a commit, which has to contain the code that its figures come from.
    """
    command = ["git", "status", "--porcelain", "--", *MEASURED]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(
            "nothing was measured: expected a git checkout, whose commit the page cites, found none"
        ) from None
    changed = [line[3:] for line in asked.stdout.splitlines()]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise SystemExit(
            "nothing was measured: expected all changes committed, since the page cites a commit, "
            f"found changes in {', '.join(changed[:3])}{more}; commit or stash them"
        )
