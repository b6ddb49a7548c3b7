"""How things are timed, and how tables are written."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from metricmix.paper.page import table
from metricmix.paper.results import cpu_name, mean_interval
from metricmix.paper.results import provenance as computed_with

__all__ = [
    "HEADLINES",
    "MEASURED",
    "best_time",
    "bold_best",
    "check_committed",
    "clear_sign",
    "cpu_name",
    "headline",
    "plus_minus",
    "provenance",
    "real_data",
    "single_thread",
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


# -- means and paired differences ------------------------------------------------------------------


def plus_minus(values: ArrayLike, form: str = "+z.1f") -> str:
    """Return the mean of values and half of its 95 % t interval, as text.

    >>> plus_minus([1.0, 2.0, 3.0])
    '+2.0 ± 2.5'
    """
    found = mean_interval(values)
    half = "" if found.count < 2 else f" ± {found.high - found.mean:{form.removeprefix('+')}}"
    return f"{found.mean:{form}}{half}"


def clear_sign(differences: ArrayLike) -> int:
    """Return the sign of the mean of differences; 0 if their 95 % t interval has both signs.

    >>> clear_sign([1.0, 2.0, 1.5]), clear_sign([-1.0, 2.0])
    (1, 0)
    """
    found = mean_interval(differences)
    return int(found.low > 0) - int(found.high < 0)


def bold_best(values: Sequence[float], form: str = ".1f", *, least: bool = False) -> list[str]:
    """Return numbers as text, with the largest (or the least) in bold; NaN as a dash.

    >>> bold_best([1.0, 2.0, float("nan")])
    ['1.0', '**2.0**', '–']
    """
    known = [value for value in values if not np.isnan(value)]
    best = (min if least else max)(known, default=None)
    texts = ["–" if np.isnan(value) else f"{value:{form}}" for value in values]
    return [
        f"**{text}**" if value == best else text for value, text in zip(values, texts, strict=True)
    ]


def single_thread() -> None:
    """Limit this process, a worker beside others, to one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


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
