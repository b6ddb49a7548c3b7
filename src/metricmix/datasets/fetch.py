"""Find data files, download those that are missing, and check them against known sha256 sums.

Files are looked for in this order: `data_home`, the folder in METRICMIX_DATA, the user's cache. A
file lies in one of these folders or in a subfolder (``mnist``, ``graphs``). A folder without the
file is passed over; a file with the wrong sha256 is an error, never passed over or replaced.

To add a data set, list its files as :class:`DataFile` in a module of its own, and write a
``fetch_*`` that calls :func:`obtain_files`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

from metricmix.exceptions import DatasetError, DatasetNotFoundError, InputError

__all__ = ["DataFile", "data_folders", "download", "obtain_files", "parse_checksums"]


VARIABLE = "METRICMIX_DATA"


@dataclass(frozen=True)
class DataFile:
    """A file of a data set: name, subfolder that it may lie in, sha256, addresses."""

    name: str
    folder: str = ""
    sha256: str | None = None
    urls: tuple[str, ...] = ()

    def find_in(self, folder: Path) -> Path | None:
        """Return its path in a folder; None if it is not there."""
        for path in (folder / self.folder / self.name, folder / self.name):
            if os.path.isfile(path):  # False, not an error, in folders that cannot be entered
                return path
        return None

    def read(self, path: Path) -> bytes:
        """Return the content, read once, so that what was checked is what is used.

        Raises
        ------
        DatasetError
            If it cannot be read, or does not have the known sha256.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DatasetError(
                f"{path}: expected a readable file, got {type(error).__name__} "
                f"({error.strerror}); change its permissions or remove it"
            ) from error
        found = hashlib.sha256(content).hexdigest()
        if self.sha256 is not None and found != self.sha256:
            raise DatasetError(
                f"{path}: expected sha256 {self.sha256[:12]}…, found {found[:12]}…, so it is "
                "damaged or another file of that name; remove it, and fetch again or put the "
                "original there"
            )
        return content


def parse_checksums(text: str) -> dict[str, str]:
    """Return sha256 sums by file name, from lines as ``sha256sum`` writes them.

    >>> parse_checksums("d2d2d2  one.npz")
    {'one.npz': 'd2d2d2'}
    """
    return {name: found for found, name in map(str.split, text.strip().splitlines())}


def obtain_files(
    forms: Sequence[Sequence[DataFile]], data_home: Any, *, download_if_missing: bool
) -> dict[str, bytes]:
    """Return the contents of the files of a data set, by name.

    A data set may be stored in several forms, each a list of files. The first folder with all files
    of a form is used. Otherwise the files of the last form are collected from all folders, and
    those still missing are downloaded to the first folder.

    Parameters
    ----------
    forms : sequence of sequences of DataFile
    data_home : path or None
        The folder to look into first.
    download_if_missing : bool

    Raises
    ------
    DatasetNotFoundError
        If a file is in none of the folders and was not, or could not be, downloaded.
    DatasetError
        If a file does not have the known sha256, or cannot be read or stored.
    """
    folders = data_folders(data_home)
    for folder in folders:
        for form in forms:
            there = {file: path for file in form if (path := file.find_in(folder))}
            if len(there) == len(form):
                return {file.name: file.read(path) for file, path in there.items()}
    found = {
        file: next((path for folder in folders if (path := file.find_in(folder))), None)
        for file in forms[-1]
    }
    searched = ", ".join(map(str, folders))
    put_it = f"put it into {folders[0]}, or set {VARIABLE} to a folder that has it"
    if missing := [file.name for file, path in found.items() if path is None]:
        others = [file.name for form in forms[:-1] for file in form]
        names = " or ".join([*others, ", ".join(missing)])
        if not download_if_missing:
            raise DatasetNotFoundError(
                f"{names}: not found in {searched}; {put_it}, or allow the download "
                "with download_if_missing=True"
            )
        if find_spec("pooch") is None:
            raise DatasetNotFoundError(
                f"{names}: not found in {searched}, and a download needs pooch; install "
                f"metricmix[data], {put_it}"
            )
    contents = {}
    for file, path in found.items():
        if path is None:
            path = folders[0] / file.folder / file.name
            remedy = f"it is not in {searched} either; {put_it}"
            download(file.urls, path, file.sha256, remedy=remedy)
        contents[file.name] = file.read(path)
    return contents


def data_folders(data_home: Any) -> list[Path]:
    """Return the folders to look into, in order: `data_home`, METRICMIX_DATA, the cache."""
    given = []
    if data_home is not None:
        if not isinstance(data_home, str | os.PathLike) or not os.fspath(data_home):
            raise InputError(
                argument="data_home", expected="a folder or None", found=f"{data_home!r}"
            )
        given.append(os.fspath(data_home))
    if os.environ.get(VARIABLE):
        given.append(os.environ[VARIABLE])
    folders = [Path(os.path.abspath(os.path.expanduser(folder))) for folder in given]
    try:
        import pooch

        cache = Path(pooch.os_cache("metricmix")).expanduser()
    except ImportError:
        parent = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        cache = Path(parent) / "metricmix"
    return list(dict.fromkeys([*folders, cache]))


def download(urls: Sequence[str], target: Path, sha256: str | None, *, remedy: str) -> None:
    """Store the first of `urls` that gives the right file as `target`, complete or not at all.

    pooch writes to a temporary name, checks the sha256, and renames.

    Raises
    ------
    DatasetError
        If the folder cannot be written to.
    DatasetNotFoundError
        If no address gives the right file; `remedy` ends the message.
    """
    import pooch

    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # fails before the download, not after it
            pass
    except OSError as error:
        raise DatasetError(
            f"{folder}: expected a folder to write downloads to, got {type(error).__name__} "
            f"({error.strerror}); pass data_home= with a folder of yours"
        ) from error
    reasons = []
    for url in urls:
        try:
            pooch.retrieve(
                url,
                known_hash=sha256 and f"sha256:{sha256}",
                fname=target.name,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=30),
            )
        except ValueError:  # raised by pooch for another hash; requests has errors of its own
            reasons.append(f"{url} gave a file with another sha256 than {(sha256 or '')[:12]}…")
        except OSError as error:  # those of requests are of this kind
            said = shorten(f"{type(error).__name__}: {error}", 120, placeholder="…")
            reasons.append(f"{url} failed with {said}")
        else:
            return
    raise DatasetNotFoundError(
        f"{target.name}: could not be downloaded ({'; '.join(reasons)}), and {remedy}"
    )
