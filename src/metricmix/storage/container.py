"""The file format of a saved model: one zip file of JSON and arrays, and nothing that could run.

::

    model.mm                    a zip file, every member stored as it is (not compressed)
    ├── arrays/NAME.npy         an array in numpy's own format, C order, little endian; its data
    │                           start at a multiple of 64 bytes of the file
    └── manifest.json           written last:
        ├── format              "metricmix-model"
        ├── format_version      5
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
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.atomic import replacing
from metricmix.exceptions import ModelFileError
from metricmix.state import PendingArray, require
from metricmix.typing import AnyArray

__all__ = ["NUMBERS", "ModelFile", "as_text", "npy_header", "seal", "write_model"]

FORMAT, VERSION = "metricmix-model", 5
KEYS = {"format", "format_version", "metricmix", "content", "arrays", "sha256"}
CLAIMS = ("dtype", "shape", "crc32")
MANIFEST = "manifest.json"
ALIGNMENT = 64
CHUNK = 1 << 22
"""Bytes written, or read for a checksum, at a time."""
NUMBERS = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]")
"""Dtypes of the arrays: numbers in little endian."""
PADDING = 0xD935
"""Number of the zip extra field that other tools use for alignment too."""
MAPPED_FROM = 1 << 20
"""Bytes from which an array is mapped, not read."""
DAMAGE = (EOFError, OSError, RuntimeError, ValueError, struct.error, zipfile.BadZipFile)
"""What reading a damaged zip file may raise."""


def write_model(
    path: str | os.PathLike[str], content: Any, arrays: Mapping[str, AnyArray | PendingArray]
) -> None:
    """Write a model beside its final name and move it there: never half a file.

    Arrays are written a few MiB at a time; no whole copy of them is made.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: the folder does not exist")
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        listed = {}
        for name, array in arrays.items():
            dtype = array.dtype.newbyteorder("<")
            numbers = NUMBERS.fullmatch(dtype.str)
            require(numbers, f"{name}: expected numbers, got dtype {array.dtype}")
            chunks: Any = array.chunks if isinstance(array, PendingArray) else chunks_of(array)
            data = (np.ascontiguousarray(part, dtype) for part in chunks)
            parts = chain([npy_header(dtype.str, array.shape)], data)
            crc = write_member(archive, f"arrays/{name}.npy", parts)
            listed[name] = dict(zip(CLAIMS, (dtype.str, array.shape, crc), strict=True))
        manifest = {"format": FORMAT, "format_version": VERSION, "metricmix": version("metricmix")}
        manifest |= {"content": content, "arrays": listed}
        manifest["sha256"] = seal(manifest)
        write_member(archive, MANIFEST, [as_text(manifest)])


def chunks_of(array: AnyArray) -> Any:
    """Return an iterator over an array in C order, a few MiB at a time."""
    flags: Any = ["external_loop", "buffered", "zerosize_ok", "refs_ok"]
    return np.nditer(array, flags, order="C", buffersize=CHUNK // max(1, array.itemsize))


def as_text(manifest: Any) -> bytes:
    """Return a manifest as JSON, the same for equal ones."""
    return json.dumps(manifest, allow_nan=False, sort_keys=True).encode()


def seal(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of all entries of a manifest but the checksum itself."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(as_text(rest)).hexdigest()


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


class ModelFile:
    """A saved model, for reading.

    Parameters
    ----------
    stream : file, open for reading
        May be closed afterwards; maps into it remain.
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
        Unless it is the whole of a file that :func:`write_model` wrote; of an array, when it is
        read.
    """

    def __init__(self, stream: Any, *, verify: bool = True) -> None:
        self.verify, self._stream = verify, stream
        is_zip = stream.read(4) == b"PK\x03\x04"
        try:
            self._zip = zipfile.ZipFile(stream)
        except DAMAGE:
            require(not is_zip, "the file is damaged or cut short")
            raise ModelFileError("not a metricmix model (not a zip file)") from None
        names = self._zip.namelist()
        known = MANIFEST in names
        require(known, f"a zip file, but not a metricmix model: it has no {MANIFEST}")
        manifest = self._read_manifest()
        self.content, self._arrays = manifest["content"], manifest["arrays"]
        self._unread = {f"arrays/{name}.npy" for name in self._arrays}
        listed = sorted(names) == sorted({MANIFEST, *self._unread})
        require(listed, f"contains {sorted(names)}, which are not the members its manifest lists")

    def _read_manifest(self) -> dict[str, Any]:
        """Return the manifest, if it is whole and of this version."""
        text, _ = self._read(MANIFEST)
        try:
            manifest: dict[str, Any] = json.loads(text)
            known = manifest["format"] == FORMAT
        except (LookupError, RecursionError, TypeError, ValueError):
            known = False
        require(known, f"{MANIFEST} is not that of a metricmix model")
        writer, found = (manifest.get(key) for key in ("metricmix", "format_version"))
        message = f"written by metricmix {writer}, format {found}; this one reads format {VERSION}"
        require(type(found) is int and found == VERSION, message)
        complete = manifest.keys() == KEYS and isinstance(manifest["arrays"], dict)
        require(complete, f"{MANIFEST} has missing or unknown entries")
        unchanged = seal(manifest) == manifest["sha256"]
        require(unchanged, f"{MANIFEST} was changed after it was written")
        return manifest

    def _read(self, name: str, size: int = -1, *, verify: bool = True) -> tuple[bytes, int]:
        """Return the first bytes of a member, and where in the file its data start."""
        info = self._zip.getinfo(name)
        stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
        require(stored, f"{name!r} is compressed or encrypted; members are stored as they are")
        whole = info.file_size == info.compress_size < self._zip.start_dir - info.header_offset
        require(whole, f"{name!r} is damaged")
        try:
            with self._zip.open(info) as member:  # compares names, and checksums at the end
                first = member.read(size)
                while verify and member.read(CHUNK):
                    pass
            self._stream.seek(info.header_offset + 26)
            lengths = struct.unpack("<HH", self._stream.read(4))
        except DAMAGE:
            raise ModelFileError(f"{name!r} is damaged") from None
        return first, info.header_offset + 30 + sum(lengths)

    def array(self, name: str, *, mapped: bool = False) -> AnyArray:
        """Return an array; large ones are mapped, and small ones if `mapped`."""
        require(name in self._arrays, f"lacks the array {name!r}")
        member = f"arrays/{name}.npy"
        self._unread.discard(member)
        claim: Any = self._arrays[name] if isinstance(self._arrays[name], dict) else {}
        dtype, shape, crc = (claim.get(key) for key in CLAIMS)
        known = isinstance(dtype, str) and NUMBERS.fullmatch(dtype) and isinstance(shape, list)
        known = known and len(shape) < 32 and all(type(k) is int and 0 <= k < 2**63 for k in shape)
        require(known, f"{member!r}: expected the dtype and shape of an array of numbers")
        header, count = npy_header(dtype, tuple(shape)), math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        mapped = size > 0 and (mapped or size >= MAPPED_FROM)
        first, start = self._read(member, len(header), verify=self.verify or not mapped)
        info, start = self._zip.getinfo(member), start + len(header)
        same = first == header and info.file_size == len(header) + size and crc == info.CRC
        require(same, f"{member!r}: expected {dtype} of shape {shape}, found another array")
        # Compiled loops take aligned arrays only; this one is aligned unless it was zipped anew.
        if mapped and start % ALIGNMENT == 0:
            return np.asarray(np.memmap(self._stream, dtype, "r", start, tuple(shape)))
        self._stream.seek(start)
        return np.fromfile(self._stream, dtype, count).reshape(shape)

    def check_all_read(self) -> None:
        """Raise if the file contains unexpected arrays."""
        require(not self._unread, f"contains unexpected arrays {sorted(self._unread)}")
