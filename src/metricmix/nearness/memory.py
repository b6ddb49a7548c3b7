"""Whether a problem fits into memory: asked before anything is allocated."""

from __future__ import annotations

import math
import os
from pathlib import Path

from metricmix.exceptions import InputError

__all__ = ["available_memory", "check_fits"]


def available_memory() -> int | None:
    """Return the bytes this process may use in all, or None where the system does not say."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def check_fits(n: int, bytes_per_entry: float) -> None:
    """Raise if n × n entries at that many bytes each do not fit.

    Raises
    ------
    InputError
        With the number of items that would.
    """
    there = available_memory()
    needed = bytes_per_entry * n * n
    if there is None or needed <= there:
        return
    fits = math.floor(math.sqrt(there / bytes_per_entry) / 100) * 100
    raise InputError(
        f"D: expected a problem that fits into memory, found {n} items, which take about "
        f"{needed / 2**30:.0f} GiB where {there / 2**30:.0f} GiB are there; about {fits} items fit"
    )
