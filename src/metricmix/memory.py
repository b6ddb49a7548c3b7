"""Checks that a computation fits into memory, made before it starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from metricmix.exceptions import TooLargeError

__all__ = ["available_bytes", "check_fits", "check_room", "in_words", "resident_bytes"]

MEMINFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/statm")


def available_bytes() -> int | None:
    """Return the bytes that the process may still allocate, or None if the system does not say."""
    found = [system_bytes(), container_bytes()]
    return min((amount for amount in found if amount is not None), default=None)


def resident_bytes() -> int:
    """Return the bytes that the process holds now; 0 if the system does not say.

    >>> resident_bytes() >= 0
    True
    """
    try:
        return int(OWN.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def check_fits(
    needed: Callable[[int], float],
    n: int,
    *,
    what: str,
    instead: str,
    argument: str = "stack",
    available: int | None = None,
) -> None:
    """Raise TooLargeError if ``needed(n)`` bytes are more than available.

    The message says how much is needed and available, how many items would fit, and `instead`.
    `available` are the bytes of another device; None: those of the machine.
    """
    available = available_bytes() if available is None else available
    if available is None or needed(n) <= available:
        return
    fits, too_many = 0, n
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if needed(middle) <= available else (fits, middle)
    raise TooLargeError(
        f"{what} needs about {_gibibytes(needed(n))} for {n} items and "
        f"{_gibibytes(available)} are available, enough for {fits} items",
        argument=argument,
        remedy=instead,
    )


def check_room(needed: float, *, what: str, instead: str, argument: str = "graph") -> None:
    """Raise TooLargeError if `needed` bytes are more than available; `instead` is the remedy."""
    available = available_bytes()
    if available is not None and needed > available:
        raise TooLargeError(
            f"{what} needs about {_gibibytes(needed)} and {_gibibytes(available)} are available",
            argument=argument,
            remedy=instead,
        )


def system_bytes() -> int | None:
    """Return the free memory of the machine."""
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):  # free memory, else all memory
        try:
            return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            continue
    return None


def container_bytes() -> int | None:
    """Return what the limit of the control group leaves, if there is one."""
    try:
        limit, used = (
            int((CONTAINER / name).read_text()) for name in ("memory.max", "memory.current")
        )
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return None
    return max(0, limit - used)


def in_words(size: float) -> str:
    """Return a number of bytes.

    >>> in_words(3 * 2**30), in_words(10)
    ('3.0 GiB', '1 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size > 2**29 else f"{max(1, size / 2**20):.0f} MiB"


def _gibibytes(amount: float) -> str:
    return f"{amount / 2**30:.3g} GiB"
