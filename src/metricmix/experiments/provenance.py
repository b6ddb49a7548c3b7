"""What results were computed with: versions, machine, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["commit", "cpu_name", "provenance"]

PACKAGES = ("metricmix", "numpy", "scipy", "numba", "scikit-learn", "cvxpy", "clarabel")


def provenance() -> dict[str, Any]:
    """Return versions of what matters, the machine, the commit and the date."""
    found: dict[str, Any] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
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
    """Return the machine's memory, where the system tells."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def commit() -> str | None:
    """Return the commit of the checkout that this runs from; None where there is none.

    It is called dirty if the package itself was changed since.
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
