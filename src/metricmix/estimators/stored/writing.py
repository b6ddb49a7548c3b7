"""The container of a saved model: one zip file of plain numbers, and nothing that could run.

::

    model.mm                    a zip file, every member stored as it is (not compressed)
    ├── arrays/NAME.npy         an array in numpy's own format, C order, little endian; its data
    │                           start at a multiple of 64 bytes of the file
    └── manifest.json           written last:
        ├── format              "metricmix-model"
        ├── format_version      1
        ├── metricmix           the version of metricmix that wrote it
        ├── content             whatever the caller wants to have back, in terms of JSON
        ├── arrays              by NAME: dtype, shape, crc32 of the member
        └── sha256              of all of the above: a manifest is not edited by hand

Since members are stored and aligned, large arrays can be mapped into memory straight from the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.atomic import replacing
from metricmix.exceptions import ModelFileError

__all__ = [
    "PendingArray",
    "member_name",
    "npy_header",
    "pending",
    "row_chunks",
    "seal",
    "write_model",
]

FORMAT = "metricmix-model"
VERSION = 1
MANIFEST = "manifest.json"
ALIGNMENT = 64
CHUNK = 1 << 22
"""Bytes written, or read for a checksum, at a time."""
NUMBERS = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]")
"""Dtypes of the arrays: numbers in little endian."""
PADDING = 0xD935
"""Number of the zip extra field that other tools use for alignment too."""


class PendingArray(NamedTuple):
    """An array still to be written: its chunks, one after the other, are its data in C order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: Iterable[NDArray[Any]]


def pending(array: NDArray[Any]) -> PendingArray:
    """Return an array of numbers as one to be written, a few rows at a time."""
    return PendingArray(array.dtype, array.shape, row_chunks(array))


def row_chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield an array in pieces of a few MiB, so that no whole copy of it is ever made."""
    if array.ndim > 2:
        for layer in array:
            yield from row_chunks(layer)
        return
    step = max(1, CHUNK // max(1, array.itemsize * math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        yield array[start : start + step]


def write_model(
    path: str | os.PathLike[str], content: Any, arrays: Mapping[str, PendingArray]
) -> None:
    """Write a model beside its final name and move it there: never half a file."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder to write {target.name} to")
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        listed = {name: _write_array(archive, name, arrays[name]) for name in arrays}
        manifest = {
            "format": FORMAT,
            "format_version": VERSION,
            "metricmix": version("metricmix"),
            "content": content,
            "arrays": listed,
        }
        manifest["sha256"] = seal(manifest)
        _write_member(archive, MANIFEST, [as_text(manifest)])


def as_text(manifest: Any) -> bytes:
    """Return a manifest as JSON, the same for equal ones."""
    return json.dumps(manifest, allow_nan=False, sort_keys=True).encode()


def seal(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of all entries of a manifest but the checksum itself."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(as_text(rest)).hexdigest()


def member_name(name: str) -> str:
    """Return what the array called `name` is called in the zip file."""
    return f"arrays/{name}.npy"


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a version 1.0 npy file, of a length that is a multiple of 64."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % ALIGNMENT) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def _write_array(archive: zipfile.ZipFile, name: str, array: PendingArray) -> dict[str, Any]:
    little = array.dtype.newbyteorder("<")
    if not NUMBERS.fullmatch(little.str):
        raise ModelFileError(f"{name}: expected numbers, got dtype {array.dtype}")

    def data() -> Iterator[Any]:
        yield npy_header(little.str, array.shape)
        for chunk in array.chunks:
            yield np.ascontiguousarray(chunk, dtype=little).reshape(-1).view(np.uint8).data

    crc = _write_member(archive, member_name(name), data())
    return {"dtype": little.str, "shape": list(array.shape), "crc32": crc}


def _write_member(archive: zipfile.ZipFile, name: str, data: Iterable[Any]) -> int:
    """Write a member whose data start at a multiple of the alignment; return its checksum."""
    assert archive.fp is not None
    info = zipfile.ZipInfo(name)  # dated 1980: equal models are equal files
    sizes = 20  # of the field for large files, which comes after the padding
    padding = -(archive.fp.tell() + 30 + len(name) + sizes + 6) % ALIGNMENT
    info.extra = struct.pack("<HHH", PADDING, 2 + padding, ALIGNMENT) + bytes(padding)
    with archive.open(info, "w", force_zip64=True) as member:
        for part in data:
            member.write(part)
    return info.CRC
