"""Where data files are found, and that they are what they should be.

The places, in this order: `data_home`, the folder in METRICMIX_DATA, the user's cache. A file lies
in a place itself or in a folder of it (``mnist``, ``planetoid``). A place without the file is
passed over; a file with the wrong sha256 is an error, never passed over or replaced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metricmix.datasets.downloading import download
from metricmix.exceptions import DatasetError, DatasetNotFoundError, InputError

__all__ = ["DataFile", "obtain"]

VARIABLE = "METRICMIX_DATA"


@dataclass(frozen=True)
class DataFile:
    """A file that is known by name: the folder it may lie in, its checksum, where to get it."""

    name: str
    folder: str = ""
    sha256: str | None = None
    urls: tuple[str, ...] = ()


def obtain(
    forms: Sequence[Sequence[DataFile]], data_home: Any, *, download_if_missing: bool
) -> dict[str, bytes]:
    """Return the content of all files of one form of a data set, by their names.

    The first place with a whole form gives it. If there is none, the files of the last form are
    gathered from all places, and those still missing downloaded to the first place.
    """
    places = _places(data_home)
    for place in places:
        for form in forms:
            paths = [_find(file, place) for file in form]
            if None not in paths:
                return {f.name: _checked(p, f) for f, p in zip(form, paths, strict=True) if p}
    found = {file: _find_anywhere(file, places) for file in forms[-1]}
    missing = [file for file, path in found.items() if path is None]
    if missing:
        _check_may_download(forms, missing, places, download_if_missing)
    contents = {}
    for file, path in found.items():
        if path is None:
            path = places[0] / file.folder / file.name
            remedy = f"it is not in {_listed(places)} either; {_put_it(places)}"
            download(file.urls, path, file.sha256, remedy=remedy)
        contents[file.name] = _checked(path, file)
    return contents


def _check_may_download(
    forms: Sequence[Sequence[DataFile]],
    missing: Sequence[DataFile],
    places: Sequence[Path],
    allowed: bool,
) -> None:
    others = [file.name for form in forms[:-1] for file in form]
    names = " or ".join([*others, ", ".join(file.name for file in missing)])
    if not allowed:
        raise DatasetNotFoundError(
            f"{names}: not found in {_listed(places)}; {_put_it(places)}, or allow the download "
            "with download_if_missing=True"
        )
    if find_spec("pooch") is None:
        raise DatasetNotFoundError(
            f"{names}: not found in {_listed(places)}, and a download needs pooch; install "
            f"metricmix[data], {_put_it(places)}"
        )


def _put_it(places: Sequence[Path]) -> str:
    return f"put it into {places[0]}, or set {VARIABLE} to a folder that has it"


def _places(data_home: Any) -> list[Path]:
    """Return the folders to look at, in order."""
    given = []
    if data_home is not None:
        if not isinstance(data_home, str | os.PathLike) or not os.fspath(data_home):
            raise InputError(f"data_home: expected a folder or None, got {data_home!r}")
        given.append(os.fspath(data_home))
    if os.environ.get(VARIABLE):
        given.append(os.environ[VARIABLE])
    places = [Path(os.path.abspath(os.path.expanduser(folder))) for folder in given]
    return list(dict.fromkeys([*places, _cache()]))


def _cache() -> Path:
    """Return the user's cache, where the platform has it."""
    try:
        import pooch
    except ImportError:
        parent = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(parent) / "metricmix"
    return Path(pooch.os_cache("metricmix")).expanduser()


def _find(file: DataFile, place: Path) -> Path | None:
    for path in (place / file.folder / file.name, place / file.name):
        if os.path.isfile(path):  # False, not an error, in folders that cannot be entered
            return path
    return None


def _find_anywhere(file: DataFile, places: Sequence[Path]) -> Path | None:
    return next((path for place in places if (path := _find(file, place))), None)


def _checked(path: Path, file: DataFile) -> bytes:
    """Return the content, read once, so that what was checked is what is used."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{path}: expected a readable file, got {type(error).__name__} "
            f"({error.strerror}); change its permissions or remove it"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise DatasetError(
            f"{path}: expected sha256 {file.sha256[:12]}…, found {found[:12]}…, so it is damaged "
            "or another file of that name; remove it, and fetch again or put the original there"
        )
    return content


def _listed(places: Sequence[Path]) -> str:
    return ", ".join(map(str, places))
