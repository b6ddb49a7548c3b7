"""Downloads, by pooch: to a temporary name beside the target, checked, then renamed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from metricmix.exceptions import DatasetError, DatasetNotFoundError

__all__ = ["download"]

TIMEOUT = 30
"""Seconds without an answer after which a server is given up."""


def download(urls: Sequence[str], target: Path, sha256: str | None, *, remedy: str) -> None:
    """Write the first of `urls` that gives the right file to `target`, whole or not at all."""
    import pooch

    _check_writable(target.parent)
    reasons = []
    for url in urls:
        try:
            pooch.retrieve(
                url,
                known_hash=sha256 and f"sha256:{sha256}",
                fname=target.name,
                path=target.parent,
                downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
            )
        except ValueError:  # pooch's word for another hash; requests has errors of its own
            reasons.append(f"{url} gave a file with another sha256 than {(sha256 or '')[:12]}…")
        except OSError as error:  # those of requests are of this kind
            said = shorten(f"{type(error).__name__}: {error}", 120, placeholder="…")
            reasons.append(f"{url} failed with {said}")
        else:
            return
    raise DatasetNotFoundError(
        f"{target.name}: could not be downloaded ({'; '.join(reasons)}), and {remedy}"
    )


def _check_writable(folder: Path) -> None:
    """Say so before the download if nothing can be stored."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DatasetError(
            f"{folder}: expected a folder to write downloads to, got {type(error).__name__} "
            f"({error.strerror}); pass data_home= with a folder of yours"
        ) from error
