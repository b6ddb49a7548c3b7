"""Files of computations in blocks: inputs that workers map into memory, and finished blocks.

====================================  ============================================================
``arrays/DIGEST.npy``                 a large array of a job, mapped into memory where it is read
``jobs/DIGEST.pickle``                the job itself, which names its arrays
``blocks/DIGEST/START-STOP.block``    what was found for a block: npy files one after the other
``blocks/DIGEST/START-STOP.spare``    a block that has been used, for a later one to write over
====================================  ============================================================

The digest of a job covers its arrays and settings, and the version of metricmix: the same
computation finds its finished blocks again, another one does not. Arrays that are mapped from a
file already are named, not copied. All files are written atomically. Jobs are pickled, as Dask
itself does: do not read a folder that others can write to.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.atomic import create_file, remove_leftovers, temporary_entry
from metricmix.exceptions import array_file_errors
from metricmix.kernels.compile import digest_of_kernels
from metricmix.typing import AnyArray

__all__ = ["BlockFolder", "KeptBlocks", "read_job"]

ALIGNED = 64
"""Arrays of a block begin at multiples of this many bytes."""


class BlockFolder:
    """A folder for jobs and their finished blocks.

    Parameters
    ----------
    path : path
        Made if it is not there.
    durable : bool
        Whether blocks must survive a power failure, not just the end of a process.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.path, self.durable = Path(os.path.abspath(path)), durable
        for name in ("arrays", "jobs", "blocks"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.path / name, ".")

    def store(self, job: Any) -> tuple[Path, int]:
        """Write a job and its arrays; return its path, and the size of all of it."""
        buffer = io.BytesIO()
        pickler = ArrayPickler(buffer, self)
        pickler.dump(job)
        small = buffer.getvalue()
        path = self.path / "jobs" / f"{digest_of(small, digest_of_kernels().encode())}.pickle"
        if not path.exists():
            with replacing_quickly(path, self.durable) as file:
                file.write(small)
        return path, pickler.nbytes + len(small)

    @contextmanager
    def job(self, job: Any) -> Iterator[KeptBlocks]:
        """Store a job, and give its finished blocks."""
        path, nbytes = self.store(job)
        kept = KeptBlocks(self.path / "blocks" / path.stem, path, nbytes, self.durable)
        kept.folder.mkdir(exist_ok=True)
        remove_leftovers(kept.folder, ".")
        try:
            yield kept
        finally:
            remove_leftovers(kept.folder, ".")


class KeptBlocks:
    """The finished blocks of one job.

    Attributes
    ----------
    folder, job : Path
    nbytes : int
        Size of the inputs.
    """

    def __init__(self, folder: Path, job: Path, nbytes: int, durable: bool = True) -> None:
        self.folder, self.job, self.nbytes, self.durable = folder, job, nbytes, durable

    def file(self, start: int, stop: int) -> Path:
        """Return the path of a block."""
        return self.folder / f"{start}-{stop}.block"

    def read(self, start: int, stop: int) -> tuple[AnyArray, ...] | None:
        """Return a finished block; None if it is not there, or damaged."""
        found = self.read_timed(start, stop, verify=True)
        return None if found is None else found[1]

    def read_timed(
        self, start: int, stop: int, *, verify: bool = False
    ) -> tuple[float, tuple[AnyArray, ...]] | None:
        """Return the seconds that a finished block took, and what was found.

        `verify` compares it with its checksum, which one need not do right after it was written.
        """
        path = self.file(start, stop)
        try:
            (seconds, checksum), *found = map_arrays(path)
        except FileNotFoundError:
            return None
        except array_file_errors():
            path.unlink(missing_ok=True)
            return None
        if verify and checksum_of(found) != checksum:
            path.unlink(missing_ok=True)
            return None
        return float(seconds), tuple(found)

    def write(
        self, start: int, stop: int, found: tuple[AnyArray, ...], seconds: float = 0.0
    ) -> tuple[AnyArray, ...]:
        """Write a finished block, and return it."""
        arrays = [np.asarray(array, order="C") for array in found]
        # Blocks that are not kept are read once, and not compared.
        about = np.array([seconds, checksum_of(arrays) if self.durable else np.nan])
        with replacing_quickly(self.file(start, stop), self.durable, take_spare) as file:
            for array in (about, *arrays):
                np.save(file, array, allow_pickle=False)
                file.write(bytes(-file.tell() % ALIGNED))
        return found

    def free(self, start: int, stop: int, *, in_use: bool) -> None:
        """Let a later block write over the file of this one; remove it if its arrays are in use.

        Writing to memory that the system has to find first takes several times as long.
        """
        path = self.file(start, stop)
        with suppress(PermissionError, FileNotFoundError):  # Windows keeps files that are mapped
            if in_use:
                path.unlink()
            else:
                path.replace(path.with_suffix(".spare"))


def checksum_of(arrays: Iterable[AnyArray]) -> int:
    """Return a checksum of contiguous arrays, of 32 bits."""
    found = 0
    for array in arrays:
        found = zlib.crc32(array.reshape(-1).view(np.uint8).data, found)
    return found


def map_arrays(path: Path) -> list[AnyArray]:
    """Return the arrays of a block, mapped into memory; what is written to them stays there."""
    arrays: list[AnyArray] = []
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        while file.tell() < len(mapped):
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            arrays.append(np.ndarray(shape, dtype, mapped, file.tell()))
            file.seek(file.tell() + arrays[-1].nbytes)
            file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
    return arrays


def read_job(path: str) -> Any:
    """Return the job of a file; its arrays are mapped into memory, and shared by all callers."""
    return _read_job(path)


@lru_cache(maxsize=4)
def _read_job(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def take_spare(path: Path) -> None:
    """Rename a file that is no longer needed to `path`; create one if there is none."""
    for spare in path.parent.glob("*.spare"):
        with suppress(FileNotFoundError):  # taken by another worker meanwhile
            spare.rename(path)
            return
    create_file(path)


@contextmanager
def replacing_quickly(
    path: Path, durable: bool, create: Callable[[Path], None] = create_file
) -> Iterator[Any]:
    """Write a file atomically, as :func:`metricmix.atomic.replacing` does.

    It does not list the folder for leftovers, which may hold many thousand blocks.
    """
    with temporary_entry(path.parent, f".{path.name}.", create) as temporary:
        with open(temporary, "wb", opener=open_as_it_is) as file:
            yield file
            file.truncate()
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)


def open_as_it_is(path: str, flags: int) -> int:
    """Open a file to be written over, which keeps its memory.

    As ``open(path, "r+b")`` does; but numpy writes arrays at once to files that are not read too.
    """
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


def digest_of(*parts: Any) -> str:
    """Return a short hash of bytes and buffers."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.hexdigest()


class ArrayPickler(pickle.Pickler):
    """Pickles an object whose large arrays become files."""

    def __init__(self, file: io.BytesIO, folder: BlockFolder) -> None:
        super().__init__(file, protocol=5)
        self.folder, self.nbytes = folder, 0

    def reducer_override(self, obj: Any) -> Any:
        """Return how an array is restored; leave all else to pickle."""
        large = 1 << 16  # bytes from which on an array gets a file of its own
        if not isinstance(obj, np.ndarray) or obj.nbytes < large or obj.dtype.hasobject:
            return NotImplemented
        self.nbytes += obj.nbytes
        known = place_in_file(obj)
        if known is not None:
            path, offset = known
            state = os.stat(path)
            as_it_is = (state.st_size, state.st_mtime_ns)
            return map_part, (path, offset, obj.dtype.str, obj.shape, as_it_is)
        array = np.ascontiguousarray(obj).view(np.ndarray)
        about = f"{array.dtype.str}{array.shape}".encode()
        digest = digest_of(about, array.reshape(-1).view(np.uint8))
        stored = self.folder.path / "arrays" / f"{digest}.npy"
        if not stored.exists():
            with replacing_quickly(stored, self.folder.durable) as file:
                np.save(file, array, allow_pickle=False)
        return map_array, (str(stored),)


def place_in_file(array: AnyArray) -> tuple[str, int] | None:
    """Return the file that a contiguous array is mapped from, and where it begins there."""
    mapped: Any = None
    base: Any = array
    while isinstance(base, np.ndarray):
        mapped = base if isinstance(base, np.memmap) else mapped
        base = base.base
    if not isinstance(base, mmap.mmap) or mapped is None or mapped.filename is None:
        return None
    if not array.flags.c_contiguous or mapped.mode not in ("r", "c"):
        return None
    offset = array.ctypes.data - mapped.ctypes.data + mapped.offset
    return os.path.abspath(mapped.filename), int(offset)


@lru_cache(maxsize=256)
def map_array(path: str) -> AnyArray:
    """Return the array of a file, mapped into memory."""
    mapped: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped.view(np.ndarray)


@lru_cache(maxsize=256)
def map_part(
    path: str, offset: int, dtype: str, shape: tuple[int, ...], as_it_is: tuple[int, int]
) -> AnyArray:
    """Return a part of a file as an array, mapped into memory."""
    state = os.stat(path)
    if (state.st_size, state.st_mtime_ns) != as_it_is:
        raise OSError(f"{path} has changed since the job was stored; start it again")
    return np.memmap(path, np.dtype(dtype), "r", offset, shape).view(np.ndarray)
