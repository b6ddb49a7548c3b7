"""Dissimilarity matrices in the files people keep them in, with the names of their items.

====================  ==========================================================================
``.npy``, ``.npz``    a square array; in an npz the only one there is, or the one called "matrix",
                      with its names in "items" if there are any
``.csv``, ``.tsv``    numbers, with or without names in the first row, the first column or both;
                      commas, semicolons or tabs; empty cells and "NA" are unknown
``.phy``, ``.dist``   PHYLIP: the number of items, then a name and its distances for each; square or
                      lower triangle
====================  ==========================================================================
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metricmix.atomic import replacing
from metricmix.exceptions import MatrixFileError

__all__ = ["MatrixFile", "read_matrix", "write_matrix"]

Floats = NDArray[np.float64]
UNKNOWN = {"", "na", "nan", "n/a", "null", "none", "?", "-"}


@dataclass(frozen=True)
class MatrixFile:
    """A square matrix, and the names of its items if the file has them."""

    values: Floats
    items: tuple[str, ...] | None = None

    def name(self, i: int) -> str:
        """Return what item i is called."""
        return str(i) if self.items is None else self.items[i]


def read_matrix(path: str | os.PathLike[str]) -> MatrixFile:
    """Read a square matrix; unknown entries are NaN.

    Raises
    ------
    MatrixFileError
        If there is no such file, or it is not what its name says: the sentence names file, line and
        column.
    """
    source = Path(path)
    reader = READERS.get(source.suffix.lower())
    if reader is None:
        raise MatrixFileError(
            f"{source}: expected one of {', '.join(READERS)} as the file's ending"
        )
    try:
        found = reader(source)
    except UnicodeDecodeError as error:
        raise MatrixFileError(
            f"{source}: expected text in UTF-8, found a byte that is none at position {error.start}"
        ) from None
    except OSError as error:
        raise MatrixFileError(f"{source}: {error.strerror or error}") from None
    shape = found.values.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise MatrixFileError(f"{source}: expected a square matrix, found shape {shape}")
    if found.items is not None:
        _check_names(source, found.items, shape[0])
    return found


def write_matrix(
    path: str | os.PathLike[str], values: NDArray[Any], items: Sequence[str] | None = None
) -> None:
    """Write a square matrix, whole or not at all, in the format that the file's ending names."""
    target = Path(path)
    writer = WRITERS.get(target.suffix.lower())
    if writer is None:
        raise MatrixFileError(
            f"{target}: expected one of {', '.join(WRITERS)} as the file's ending"
        )
    try:
        with replacing(target) as file:
            writer(file, np.asarray(values, np.float64), items)
    except OSError as error:
        raise MatrixFileError(f"{target}: {error.strerror or error}") from None


def _check_names(source: Path, items: Sequence[str], n: int) -> None:
    if len(items) != n:
        raise MatrixFileError(f"{source}: expected {n} names, one per row, found {len(items)}")
    seen: dict[str, int] = {}
    for k, item in enumerate(items):
        if item in seen:
            raise MatrixFileError(
                f"{source}: expected every name once, found {item!r} for items {seen[item]} and {k}"
            )
        seen[item] = k


# -- numpy ---------------------------------------------------------------------------------------


def _read_npy(source: Path) -> MatrixFile:
    try:
        return MatrixFile(_as_numbers(source, np.load(source, allow_pickle=False)))
    except (ValueError, EOFError):
        raise MatrixFileError(f"{source}: not an npy file of numbers, or a damaged one") from None


def _read_npz(source: Path) -> MatrixFile:
    try:
        with np.load(source, allow_pickle=False) as content:
            names = content.files
            wanted = [name for name in names if name != "items"]
            name = "matrix" if "matrix" in names else wanted[0] if len(wanted) == 1 else None
            if name is None:
                raise MatrixFileError(
                    f"{source}: expected one array, or one called 'matrix', found {wanted}"
                )
            items = tuple(map(str, content["items"])) if "items" in names else None
            return MatrixFile(_as_numbers(source, content[name]), items)
    except (ValueError, EOFError, BadZipFile):
        raise MatrixFileError(f"{source}: not an npz file of numbers, or a damaged one") from None


def _as_numbers(source: Path, array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "biuf":
        raise MatrixFileError(f"{source}: expected real numbers, found dtype {array.dtype}")
    return array.astype(np.float64)


def _write_npy(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    np.save(file, values)


def _write_npz(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    named: dict[str, Any] = {} if items is None else {"items": np.array(items)}
    np.savez_compressed(file, matrix=values, **named)


# -- tables --------------------------------------------------------------------------------------


def _read_table(source: Path) -> MatrixFile:
    """Read a table; whether rows and columns are named is told by its shape and its corner."""
    with open(source, encoding="utf-8-sig", newline="") as file:
        delimiter = max("\t;,", key=file.readline().count)
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    if not lines:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    height, width = len(lines), len(lines[-1][1])
    header: list[str] | None = None
    if height == width + 1 or (height == width and _has_corner(lines)):
        header, lines = lines[0][1], lines[1:]
    n = len(lines)
    named = width == n + 1
    values = np.empty((n, n))
    for k, (number, row) in enumerate(lines):
        if len(row) != n + named:
            raise MatrixFileError(
                f"{source}, line {number}: expected {n} distances, as many as there are rows, "
                f"found {len(row) - named}"
            )
        values[k] = _numbers(source, number, row[named:], named)
    rows = tuple(row[0].strip() for _, row in lines) if named else None
    columns = tuple(cell.strip() for cell in header[-n:]) if header else None
    if rows and columns and rows != columns:
        at = next(k for k in range(n) if k >= len(columns) or rows[k] != columns[k])
        raise MatrixFileError(
            f"{source}: expected the same names in the first row and in the first column, found "
            f"{columns[at] if at < len(columns) else 'nothing'!r} and {rows[at]!r} for item {at}"
        )
    return MatrixFile(values, rows or columns)


def _has_corner(lines: Sequence[tuple[int, Sequence[str]]]) -> bool:
    """Tell names around a matrix from a matrix without: its corner is no number.

    An empty corner may be a diagonal left out; then the next one is empty too.
    """
    first, second = lines[0][1], lines[min(1, len(lines) - 1)][1]
    if len(first) < len(second):  # names without a corner, as some programs write them
        return True
    if first[0].strip().lower() not in UNKNOWN:
        return _is_name(first[0])
    return len(second) < 2 or second[1].strip().lower() not in UNKNOWN


def _is_name(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _numbers(source: Path, line: int, cells: Sequence[str], offset: int) -> Floats:
    """Return cells as numbers, unknown ones as NaN."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    found = np.empty(len(cells))
    for k, cell in enumerate(cells):
        text = cell.strip()
        if text.lower() in UNKNOWN:
            found[k] = np.nan
            continue
        try:
            found[k] = float(text)
        except ValueError:
            raise MatrixFileError(
                f"{source}, line {line}, column {k + 1 + offset}: expected a number, found {text!r}"
            ) from None
    return found


def _write_table(delimiter: str) -> Callable[[BinaryIO, Floats, Sequence[str] | None], None]:
    def write(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if items is not None:
            table.writerow(["", *items])
        for k, row in enumerate(values):
            numbers = [repr(value) for value in row.tolist()]
            table.writerow(numbers if items is None else [items[k], *numbers])
        text.detach()

    return write


# -- PHYLIP --------------------------------------------------------------------------------------


def _read_phylip(source: Path) -> MatrixFile:
    """Read names and distances; a row may go on over several lines."""
    lines = source.read_text(encoding="utf-8-sig").splitlines()
    words = [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    if not words or len(words[0][1]) != 1 or not words[0][1][0].isdigit():
        raise MatrixFileError(f"{source}, line 1: expected the number of items, as PHYLIP has it")
    n = int(words[0][1][0])
    rows: list[list[float]] = []
    items: list[str] = []
    for number, parts in words[1:]:
        if len(items) == 0 or _is_name(parts[0]) or _complete(rows, n):
            items.append(parts[0])
            rows.append([])
            parts = parts[1:]
        rows[-1] += _numbers(source, number, parts, 1).tolist()
    lengths = [len(row) for row in rows]
    if len(rows) != n:
        raise MatrixFileError(
            f"{source}: expected {n} items, as its first line says, found {len(rows)}"
        )
    if lengths == [n] * n:
        return MatrixFile(np.array(rows).reshape(n, n), tuple(items))
    diagonal = lengths == list(range(1, n + 1))
    if not diagonal and lengths != list(range(n)):
        at = next(k for k in range(n) if lengths[k] not in (n, k, k + 1))
        raise MatrixFileError(
            f"{source}: expected {n} distances of {items[at]!r}, or {at} in a lower triangle, "
            f"found {lengths[at]}"
        )
    values = np.zeros((n, n))
    for k, row in enumerate(rows):
        values[k, : len(row)] = row
    return MatrixFile(np.where(np.tri(n, dtype=bool), values, values.T), tuple(items))


def _complete(rows: Sequence[Sequence[float]], n: int) -> bool:
    return bool(rows) and len(rows[-1]) >= n


def _write_phylip(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    names = [str(k) for k in range(len(values))] if items is None else list(items)
    for name in names:
        if not name or len(name.split()) != 1:
            raise MatrixFileError(f"items: PHYLIP names have no spaces in them, found {name!r}")
    width = max(10, *(len(name) + 1 for name in names)) if names else 10
    file.write(f"{len(values)}\n".encode())
    for name, row in zip(names, values.tolist(), strict=True):
        file.write((name.ljust(width) + " ".join(map(repr, row)) + "\n").encode())


READERS: dict[str, Callable[[Path], MatrixFile]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".txt": _read_table,
    ".phy": _read_phylip,
    ".phylip": _read_phylip,
    ".dist": _read_phylip,
}
WRITERS: dict[str, Callable[[BinaryIO, Floats, Sequence[str] | None], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": _write_table(","),
    ".tsv": _write_table("\t"),
    ".txt": _write_table("\t"),
    ".phy": _write_phylip,
    ".phylip": _write_phylip,
    ".dist": _write_phylip,
}
