"""Matrices as numpy stores them. Nothing is ever unpickled."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.matrix_files.content import MatrixFile, check_size
from metricmix.exceptions import MatrixFileError, TooLargeError
from metricmix.memory import check_room

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]

Floats = NDArray[np.float64]


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
