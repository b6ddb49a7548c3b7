"""Where data files are found, and that they are what they should be.

The places, in this order: `data_home`, the folder in METRICMIX_DATA, the user's cache. A file lies
in a place itself or in a folder of it (``mnist``, ``planetoid``). A place without the file is
passed over; a file with the wrong sha256 is an error, never passed over or replaced.
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

__all__ = ["CONTENT", "MNIST", "PARTS", "PLAIN", "RAW", "DataFile", "download", "obtain"]


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
            raise InputError(
                argument="data_home", expected="a folder or None", found=f"{data_home!r}"
            )
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


# -- downloads, by pooch: to a temporary name beside the target, checked, then renamed ----------

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


# -- every file that is fetched: its name, its sha256, and where the internet has it ------------

MNIST_URLS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PLANETOID_URL = "https://github.com/kimiyoung/planetoid/raw/master/data/"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

SUMS = """
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
00f398fa8736321310a54fc5be13545c0916cdc4757e0800e65f1b8bebc08d4b  citeseer.npz
686330a6f75f8ad9bc627cb4216769891646e8bdcb9057312cb76c4d1bf9798d  cora.npz
5585b4a91b2b5bf52ce5df97ef93ebb181c8b486d320dc0aa7d9b247de492ee0  pubmed.npz
2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668  ind.citeseer.allx
f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95  ind.citeseer.ally
d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7  ind.citeseer.graph
2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4  ind.citeseer.test.index
539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21  ind.citeseer.tx
55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce  ind.citeseer.ty
d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6  ind.citeseer.x
8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924  ind.citeseer.y
9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543  ind.cora.allx
2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71  ind.cora.ally
58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d  ind.cora.graph
297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875  ind.cora.test.index
b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a  ind.cora.tx
41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad  ind.cora.ty
23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab  ind.cora.x
94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1  ind.cora.y
"""
"""As sha256sum writes them."""
SHA256 = {name: found for found, name in map(str.split, SUMS.strip().splitlines())}

MNIST = tuple(
    DataFile(name, "mnist", SHA256[name], tuple(url + name for url in MNIST_URLS))
    for name in (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
)
NETWORKS = ("citeseer", "cora", "pubmed")
PLAIN = {name: DataFile(f"{name}.npz", sha256=SHA256[f"{name}.npz"]) for name in NETWORKS}
RAW = {
    name: tuple(
        DataFile(file, "planetoid", SHA256.get(file), (PLANETOID_URL + file,))
        for file in (f"ind.{name}.{part}" for part in PARTS)
    )
    for name in NETWORKS
}
CONTENT = {
    "citeseer": "3262dc8d36a1fea32251f4d7b794bf340d7b5633709db9c9e55740d9d400aadb",
    "cora": "2e734e40f683f22cc3dfcf0dbccbe11e69fa13ad7c8b779ff28027fe4d2fd366",
    "pubmed": "c49718c2ecc0a20fe98752a47b758e049d21e3114037945944211f2d4e3a40f9",
}
"""sha256 of a network's arrays, as :func:`~metricmix.datasets.planetoid.content_sum` takes it."""
