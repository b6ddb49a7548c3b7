"""Matrices as numpy stores them. Nothing is ever unpickled."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import MatrixFileError, TooLargeError
from metricmix.memory import check_fits, check_room
from metricmix.typing import Floats

__all__ = [
    "MatrixFile",
    "check_names",
    "check_size",
    "read_npy",
    "read_npz",
    "write_npy",
    "write_npz",
]


def read_npy(source: Path) -> MatrixFile:
    """Read the one array; its shape is looked at before the rest of it."""
    try:
        array = np.lib.format.open_memmap(source, mode="r")
    except (ValueError, EOFError, OverflowError) as error:
        raise _unreadable(source, "npy", error) from None
    return MatrixFile(_as_numbers(source, array), rounding=_rounding(array))


def read_npz(source: Path) -> MatrixFile:
    """Read the only array, or the one called matrix, and the names in items."""
    try:
        # numpy leaves a file open that it cannot make sense of.
        with open(source, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise MatrixFileError(f"{source}: expected an npz file, found a single array (npy)")
            with content:
                return _read_content(source, content)
    except (MatrixFileError, TooLargeError):
        raise
    except (ValueError, EOFError, OverflowError, BadZipFile, zlib.error, KeyError) as error:
        raise _unreadable(source, "npz", error) from None


def _read_content(source: Path, content: Any) -> MatrixFile:
    name = _matrix_in(source, content.files)
    size = sum(entry.file_size for entry in content.zip.infolist())
    check_room(2 * size, what="reading it", instead="take fewer items", argument=str(source))
    items = _names(source, content["items"]) if "items" in content.files else None
    array = content[name]
    if not isinstance(array, np.ndarray):
        raise MatrixFileError(f"{source}: expected an array, found a file {name!r} of another kind")
    return MatrixFile(_as_numbers(source, array), items, _rounding(array))


def write_npy(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    """Write the numbers; npy has no place for names."""
    np.save(file, values)


def write_npz(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    """Write the matrix and, if there are any, the names."""
    named: dict[str, Any] = {} if items is None else {"items": np.array(items, dtype=np.str_)}
    np.savez_compressed(file, matrix=values, **named)


def _matrix_in(source: Path, names: Sequence[str]) -> str:
    if "matrix" in names:
        return "matrix"
    if {"format", "shape", "data"} <= set(names):
        raise MatrixFileError(
            f"{source}: expected a dense array, found a scipy sparse matrix, in which 0 and "
            "unknown look alike; store its .toarray() with numpy.save, unknown entries as NaN"
        )
    arrays = [name for name in names if name != "items"]
    if len(arrays) != 1:
        raise MatrixFileError(
            f"{source}: expected one array, or one called 'matrix', found "
            f"{', '.join(map(repr, arrays)) or 'none'}"
        )
    return arrays[0]


def _names(source: Path, array: NDArray[Any]) -> tuple[str, ...]:
    if array.ndim != 1 or array.dtype.kind not in "USiu":
        raise MatrixFileError(
            f"{source}: expected a name per item in 'items', found dtype {array.dtype} with shape "
            f"{array.shape}"
        )
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    return tuple(str(item) for item in array.tolist())


def _as_numbers(source: Path, array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "biuf":
        raise MatrixFileError(f"{source}: expected real numbers, found dtype {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise MatrixFileError(f"{source}: expected a square matrix, found shape {array.shape}")
    check_size(source, len(array))
    return np.array(array, np.float64, order="C", subok=False)


def _rounding(array: NDArray[Any]) -> float:
    return 8 * float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0


def _unreadable(source: Path, kind: str, error: Exception) -> MatrixFileError:
    words = str(error).lower()
    if "pickle" in words or "python object" in words or "object array" in words:
        return MatrixFileError(
            f"{source}: expected numbers, found Python objects, which are not read since reading "
            "them could run any code; store plain numbers"
        )
    return MatrixFileError(f"{source}: expected an {kind} file, found none, or a damaged one")


# -- what is in a matrix file -------------------------------------------------------------------

ENTRY = 24
"""Bytes of memory per entry that reading takes: the rows, the matrix, and a copy of it."""


@dataclass(frozen=True)
class MatrixFile:
    """A square matrix, NaN where it is unknown, and the names of its items if the file has them.

    `rounding` is what the file's own numbers are rounded by, a few times over, relative to their
    size: more than float64 has if it holds float32.
    """

    values: NDArray[np.float64]
    items: tuple[str, ...] | None = None
    rounding: float = 0.0

    def name(self, i: int) -> str:
        """Return what item i is called: by its name, else by its number, from 0 on."""
        return str(i) if self.items is None else self.items[i]

    def key(self, i: int) -> str | int:
        """Return the same for programs: a number is a number."""
        return i if self.items is None else self.items[i]


def check_names(
    source: Path, items: Sequence[str], n: int, lines: Sequence[int] | None = None
) -> None:
    """Raise MatrixFileError unless every item has a name of its own."""
    if len(items) != n:
        raise MatrixFileError(f"{source}: expected {n} names, one per row, found {len(items)}")
    seen: dict[str, int] = {}
    for k, item in enumerate(items):
        if item in seen:
            where = (
                f"lines {lines[seen[item]]} and {lines[k]}"
                if lines is not None
                else f"items {seen[item]} and {k}, counted from 0"
            )
            raise MatrixFileError(f"{source}: expected every name once, found {item!r} at {where}")
        seen[item] = k


def check_size(source: Path, n: int) -> None:
    """Raise TooLargeError if a matrix of n items does not fit into memory."""
    check_fits(
        lambda items: ENTRY * items * items,
        n,
        what="reading the matrix",
        instead="take fewer items",
        argument=str(source),
    )
