"""The file format of a saved model: one zip file of JSON and arrays, and nothing that could run.

::

    model.mm                    a zip file, every member stored as it is (not compressed)
    ├── arrays/NAME.npy         an array in numpy's own format, C order, little endian; its data
    │                           start at a multiple of 64 bytes of the file
    └── manifest.json           written last:
        ├── format              "metricmix-model"
        ├── format_version      2
        ├── metricmix           the version of metricmix that wrote it
        ├── content             whatever the caller wants to have back, in terms of JSON
        ├── arrays              by NAME: dtype, shape, crc32 of the member
        └── sha256              of all of the above: a manifest is not edited by hand

Since members are stored and aligned, large arrays can be mapped into memory straight from the file.
On reading, everything the file claims is compared with what is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metricmix.atomic import replacing
from metricmix.exceptions import ModelFileError
from metricmix.typing import AnyArray

__all__ = ["ModelFile", "PendingArray", "pending", "row_chunks", "write_model"]

FORMAT = "metricmix-model"
VERSION = 2
MANIFEST = "manifest.json"
ALIGNMENT = 64
CHUNK = 1 << 22
"""Bytes written, or read for a checksum, at a time."""
NUMBERS = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]")
"""Dtypes of the arrays: numbers in little endian."""
PADDING = 0xD935
"""Number of the zip extra field that other tools use for alignment too."""
KEYS = {"format", "format_version", "metricmix", "content", "arrays", "sha256"}
MAPPED_FROM = 1 << 20
"""Bytes from which an array is mapped, not read."""
LOCAL_HEADER = struct.Struct("<4s22xHH")


class PendingArray(NamedTuple):
    """An array still to be written: its chunks, one after the other, are its data in C order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: Iterable[AnyArray]


def pending(array: AnyArray) -> PendingArray:
    """Return an array of numbers as one to be written, a few rows at a time."""
    return PendingArray(array.dtype, array.shape, row_chunks(array))


def row_chunks(array: AnyArray) -> Iterator[AnyArray]:
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
        listed = {}
        for name, array in arrays.items():
            dtype = array.dtype.newbyteorder("<")
            if not NUMBERS.fullmatch(dtype.str):
                raise ModelFileError(f"{name}: expected numbers, got dtype {array.dtype}")
            chunks = (
                np.ascontiguousarray(chunk, dtype=dtype).reshape(-1).view(np.uint8).data
                for chunk in array.chunks
            )
            data = chain([npy_header(dtype.str, array.shape)], chunks)
            crc = write_member(archive, member_name(name), data)
            listed[name] = {"dtype": dtype.str, "shape": list(array.shape), "crc32": crc}
        manifest = {
            "format": FORMAT,
            "format_version": VERSION,
            "metricmix": version("metricmix"),
            "content": content,
            "arrays": listed,
        }
        manifest["sha256"] = seal(manifest)
        write_member(archive, MANIFEST, [as_text(manifest)])


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


def write_member(archive: zipfile.ZipFile, name: str, data: Iterable[Any]) -> int:
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


class Member(NamedTuple):
    """Where the data of a member are in the file, and their checksum."""

    start: int
    size: int
    crc: int


class ModelFile:
    """A saved model, open for reading; a context manager.

    Parameters
    ----------
    path : path
    verify : bool
        Whether to compare the checksums of arrays that are to be mapped, which reads all of them.

    Attributes
    ----------
    content : Any
        As it was written.
    verify : bool

    Raises
    ------
    ModelFileError
        Unless it is the whole of a file that :func:`write_model` wrote.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True) -> None:
        self.verify = verify
        self._file = open(path, "rb")  # noqa: SIM115 (closed by __exit__)
        try:
            members = self._read_directory()
            manifest = self._read_manifest(members[MANIFEST])
            self.content = manifest["content"]
            self._arrays = {
                name: self._check_array(name, claim, members)
                for name, claim in manifest["arrays"].items()
            }
            surplus = members.keys() - {MANIFEST} - {member_name(name) for name in self._arrays}
            if surplus:
                raise ModelFileError(f"holds {min(surplus)!r}, which its manifest does not list")
            self._unread = set(self._arrays)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ModelFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # maps into it remain

    def array(self, name: str, *, mapped: bool = False) -> AnyArray:
        """Return an array; large ones are mapped, and small ones if `mapped`."""
        if name not in self._arrays:
            raise ModelFileError(f"lacks the array {name!r}")
        self._unread.discard(name)
        dtype, shape, offset = self._arrays[name]
        size = math.prod(shape) * np.dtype(dtype).itemsize
        # Compiled loops take aligned arrays only; this one is aligned unless it was zipped anew.
        if (size >= MAPPED_FROM or mapped) and size and offset % ALIGNMENT == 0:
            return np.asarray(np.memmap(self._file, dtype, "r", offset, shape))
        array = np.empty(shape, dtype)
        self._file.seek(offset)
        self._file.readinto(array.reshape(-1).view(np.uint8).data)
        return array

    def check_all_read(self) -> None:
        """Raise if there are arrays that nobody asked for."""
        if self._unread:
            raise ModelFileError(f"holds the array {min(self._unread)!r}, which has no use")

    def _read_directory(self) -> dict[str, Member]:
        """Return where the data of each member are."""
        start = self._file.read(4)
        try:
            archive = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error):
            if start == b"PK\x03\x04":
                raise ModelFileError("the file is damaged or cut short") from None
            raise ModelFileError("not a metricmix model, nor any other zip file") from None
        members: dict[str, Member] = {}
        for info in archive.infolist():
            name, at = info.filename, info.header_offset
            if name in members:
                raise ModelFileError(f"holds {name!r} more than once")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                raise ModelFileError(
                    f"{name!r} is compressed or encrypted; a model's members are stored as they are"
                )
            if 0 <= at <= archive.start_dir - LOCAL_HEADER.size:
                self._file.seek(at)
                signature, *lengths = LOCAL_HEADER.unpack(self._file.read(LOCAL_HEADER.size))
                at += LOCAL_HEADER.size + sum(lengths)
                whole = info.file_size == info.compress_size
                inside = at + info.file_size <= archive.start_dir
                if signature == b"PK\x03\x04" and whole and inside:
                    members[name] = Member(at, info.file_size, info.CRC)
                    continue
            raise ModelFileError(f"{name!r} is damaged")
        if MANIFEST not in members:
            raise ModelFileError(f"a zip file, but not a metricmix model: it has no {MANIFEST}")
        return members

    def _read_manifest(self, member: Member) -> dict[str, Any]:
        """Return the manifest, if it is whole and of this version."""
        self._check_sum(MANIFEST, member)
        self._file.seek(member.start)
        try:
            manifest = json.loads(self._file.read(member.size))
            if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
                raise ValueError
        except (ValueError, RecursionError):
            raise ModelFileError(f"{MANIFEST} is not that of a metricmix model") from None
        version = manifest.get("format_version")
        if not isinstance(version, int) or version != VERSION:
            raise ModelFileError(
                f"written by metricmix {manifest.get('metricmix')}, format {version}; "
                f"this one reads format {VERSION}"
            )
        arrays = manifest.get("arrays")
        if manifest.keys() != KEYS or not isinstance(arrays, dict):
            raise ModelFileError(f"{MANIFEST} has missing or unknown entries")
        try:
            sealed = seal(manifest) == manifest["sha256"]
        except (ValueError, RecursionError):  # NaN, which is not JSON
            sealed = False
        if not sealed:
            raise ModelFileError(f"{MANIFEST} was changed after it was written")
        return manifest

    def _check_array(
        self, name: str, claim: Any, members: Mapping[str, Member]
    ) -> tuple[str, tuple[int, ...], int]:
        """Return dtype, shape and offset of an array, if it is what the manifest claims."""
        place = member_name(name)
        if place not in members:
            raise ModelFileError(f"lacks {place!r}, which its manifest lists")
        member = members[place]
        claim = claim if isinstance(claim, dict) else {}
        dtype, shape = claim.get("dtype"), claim.get("shape")
        known = isinstance(dtype, str) and NUMBERS.fullmatch(dtype) and isinstance(shape, list)
        if not known or not all(type(k) is int and k >= 0 for k in shape):
            raise ModelFileError(f"{place!r}: expected the dtype and shape of an array of numbers")
        header = npy_header(dtype, tuple(shape))
        size = len(header) + math.prod(shape) * np.dtype(dtype).itemsize
        self._file.seek(member.start)
        if size != member.size or self._file.read(len(header)) != header:
            raise ModelFileError(f"{place!r}: expected {dtype} of shape {shape}, found another")
        if claim.get("crc32") != member.crc:
            raise ModelFileError(f"{place!r} is not the array its manifest lists")
        if self.verify or size < MAPPED_FROM:
            self._check_sum(place, member)
        return dtype, tuple(shape), member.start + len(header)

    def _check_sum(self, name: str, member: Member) -> None:
        self._file.seek(member.start)
        left, crc = member.size, 0
        while left and (part := self._file.read(min(left, CHUNK))):
            left -= len(part)
            crc = zlib.crc32(part, crc)
        if crc != member.crc:
            raise ModelFileError(f"{name!r} is damaged")
