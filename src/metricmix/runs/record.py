"""The record of a run: what was asked for, of which files, with which versions, how long it took."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["checksums", "versions"]

PACKAGES = ("metricmix", "numpy", "scipy", "scikit-learn", "numba")
CHUNK = 1 << 22


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def checksums(files: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Return size and checksum of every file, so that a changed one is noticed."""
    return [_checksum(Path(file)) for file in dict.fromkeys(map(str, files))]


def _checksum(file: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"file": str(file), "bytes": size, "sha256": digest.hexdigest()}


def record(
    command: str | None,
    arguments: Mapping[str, Any],
    files: Iterable[str | Path],
    seconds: Mapping[str, float],
    found: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all of it, in terms of JSON."""
    return {
        "format": "metricmix-run",
        "version": 1,
        "command": command,
        "arguments": dict(arguments),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": platform.platform(),
        "inputs": checksums(files),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "found": dict(found),
    }
