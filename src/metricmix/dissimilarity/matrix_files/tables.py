"""Matrices as tables of text: csv, tsv, and columns with spaces between."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.matrix_files.cells import Numbers, opened
from metricmix.dissimilarity.matrix_files.content import MatrixFile, check_names, check_size
from metricmix.dissimilarity.matrix_files.layouts import Row, is_empty, most_plausible_layout
from metricmix.exceptions import MatrixFileError

__all__ = ["read_table", "write_table"]

Floats = NDArray[np.float64]
SPACE = " "


def read_table(source: Path) -> MatrixFile:
    """Read a table; its shape and its first row tell whether rows and columns are named."""
    try:
        with opened(source) as file:
            separator = _separator(source, file)
            numbers = Numbers(source, decimal_commas=separator != ",")
            lines = _lines(file, separator)
            head_line, head, after = _head(source, lines, separator)
            rows: list[Row] = []
            for line, cells in after:
                if not rows:
                    check_size(source, len(cells))
                rows.append(Row(line, cells[0], numbers.read(line, cells[1:], 1)))
    except csv.Error as error:
        raise MatrixFileError(f"{source}: expected a table, but {error}") from None
    return _matrix(source, (head_line, head), rows, numbers)


def write_table(separator: str) -> Callable[[BinaryIO, Floats, Sequence[str] | None], None]:
    """Return a function that writes a table; its numbers read back as they were."""

    def write(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(text, delimiter=separator, lineterminator="\n")
        if items is not None:
            table.writerow(["", *items])
        for k, row in enumerate(values):
            numbers = [repr(value) for value in row.tolist()]
            table.writerow(numbers if items is None else [items[k], *numbers])
        text.detach()

    return write


# -- lines ---------------------------------------------------------------------------------------


def _separator(source: Path, file: TextIO) -> str:
    """Return what stands between cells: what is in the second line and the third, not in quotes.

    Other than the first, they hold numbers however the table is laid out.
    """
    text = (line for line in file if line.strip() and not line.startswith("#"))
    first = [line.rstrip("\r\n") for line in islice(text, 3)]
    file.seek(0)
    if not first:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    bare = ["".join(line.split('"')[::2]) for line in first[1:] or first]
    return next((mark for mark in "\t;," if all(mark in line for line in bare)), SPACE)


def _lines(file: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, as cells."""
    if separator == SPACE:
        stripped = (line.strip().replace("\t", " ") for line in file)
        reader = csv.reader(stripped, delimiter=SPACE, skipinitialspace=True)
    else:
        reader = csv.reader(file, delimiter=separator)
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield reader.line_num, cells


def _head(
    source: Path, lines: Iterator[tuple[int, list[str]]], separator: str
) -> tuple[int, list[str], Iterator[tuple[int, list[str]]]]:
    """Return the first line that is no remark, and an iterator over those after it.

    A remark starts with #. That could also be a corner with names; but then the next line is as
    long, and not by chance as among words with spaces between.
    """
    found = next(lines, None)
    if found is None:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    line, cells = found
    for after in lines:
        alike = separator != SPACE and len(after[1]) - len(cells) in (0, 1)
        if alike or not cells[0].startswith("#"):
            return line, cells, chain([after], lines)
        line, cells = after
    return line, cells, iter(())


# -- matrix --------------------------------------------------------------------------------------


def _matrix(
    source: Path, head: tuple[int, list[str]], rows: list[Row], numbers: Numbers
) -> MatrixFile:
    line, cells = head
    width = _width(cells, rows)
    while rows and is_empty(rows[-1]) and len(rows[-1].others) + 1 != width:
        rows.pop()
    for row in rows:
        if len(row.others) + 1 != width:
            raise MatrixFileError(
                f"{source}, line {row.line}: expected {width} cells, as in other lines, found "
                f"{len(row.others) + 1}"
            )
    if len(cells) == width - 1:
        cells = ["", *cells]  # a header without a corner, as some programs write it
    if len(cells) != width:
        raise MatrixFileError(
            f"{source}, line {line}: expected {width} cells, as in other lines, found {len(cells)}"
        )
    layout = most_plausible_layout(cells, rows)
    if layout is None:
        raise MatrixFileError(
            f"{source}: expected a square matrix, found {len(rows) + 1} lines of {width} cells"
        )
    rows = rows[: len(rows) - layout.left_behind]
    columns = None
    if layout.header:
        columns = [cell.strip() for cell in cells[layout.named : width - layout.trailing]]
    else:
        rows = [Row(line, cells[0], numbers.read(line, cells[1:], 1)), *rows]
    n = len(rows)
    values = np.empty((n, n))
    for k, row in enumerate(rows):
        if layout.named:
            values[k] = row.others[:n]
        else:
            values[k, :1] = numbers.read(row.line, [row.first], 0)
            values[k, 1:] = row.others[: n - 1]
    if not layout.named:
        return MatrixFile(values, None if columns is None else tuple(columns))
    names = [row.first.strip() for row in rows]
    check_names(source, names, n, [row.line for row in rows])
    if columns is not None and columns != names:
        values = values[:, _places(source, names, columns)]
    return MatrixFile(values, tuple(names))


def _width(head: Sequence[str], rows: Sequence[Row]) -> int:
    """Return how many cells most lines have."""
    counts = Counter(len(row.others) + 1 for row in rows)
    counts[len(head)] += 1
    return counts.most_common(1)[0][0]


def _places(source: Path, names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return where the columns of the rows' names are: their order may be another one."""
    place = {name: k for k, name in enumerate(columns)}
    for name in names:
        if name not in place:
            raise MatrixFileError(
                f"{source}: expected the same names in the first row and in the first column, "
                f"found {name!r} in the first column only"
            )
    return [place[name] for name in names]
