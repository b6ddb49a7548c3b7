"""Matrices in delimited text, with or without names."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from metricmix.app.ingest.delimited_text import (
    SPACE,
    NumberParser,
    find_delimiter,
    is_text,
    iterate_rows,
    open_text,
    parse_number,
)
from metricmix.exceptions import MatrixFileError
from metricmix.items.cells import is_missing
from metricmix.memory import check_fits
from metricmix.typing import Floats

__all__ = [
    "Layout",
    "MatrixRow",
    "NamedMatrix",
    "check_names",
    "check_size",
    "find_layout",
    "matrix_from_rows",
    "read_delimited_matrix",
    "write_delimited_matrix",
]

NamedMatrix = tuple[Floats, tuple[str, ...] | None]
"""Entries, NaN where they are missing, and the names of the items, if the file has them."""
ENTRY = 24
"""Bytes of memory per entry: the rows, the matrix, and a copy of it."""


def check_names(
    source: Path, items: Sequence[str], n: int, lines: Sequence[int] | None = None
) -> None:
    """Raise MatrixFileError unless the n items have n different names."""
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


# -- delimited text ------------------------------------------------------------------------------


class MatrixRow(NamedTuple):
    """A line of a table: its first cell, which may be a name, and the others as numbers."""

    line: int
    first: str
    others: Floats

    @property
    def is_empty(self) -> bool:
        """Whether all cells are missing."""
        return is_missing(self.first) and bool(np.isnan(self.others).all())

    @property
    def is_blank(self) -> bool:
        """Whether it starts with a blank cell, and all cells are missing."""
        return not self.first.strip() and self.is_empty


def read_delimited_matrix(source: Path) -> NamedMatrix:
    """Read a table; its shape and its first row tell whether rows and columns have names."""
    with open_text(source) as file:
        text = (line for line in file if line.strip() and not line.startswith("#"))
        first = [line.rstrip("\r\n") for line in islice(text, 3)]
        if not first:
            raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
        delimiter = _find_matrix_delimiter(first)
        file.seek(0)
        parser = NumberParser(source, decimal_commas=delimiter != ",")
        table = _skip_comments(iterate_rows(file, delimiter), delimiter)
        header = next(table, None)
        if header is None:
            raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
        rows: list[MatrixRow] = []
        for line, cells in table:
            if not rows:
                check_size(source, len(cells))
            rows.append(MatrixRow(line, cells[0], parser.parse(line, cells[1:], 2)))
    return matrix_from_rows(header, rows, parser)


def _find_matrix_delimiter(first: Sequence[str]) -> str:
    """Return the delimiter of a matrix from its first lines; spaces only where they fit.

    The second and the third line hold numbers, whether or not the first one holds names. Where no
    mark is in both, commas may be decimal and spaces delimit: then lines have as many words. If
    they have not, one of the lines is too short, and the mark in the others delimits.
    """
    lines = first[1:] or first
    delimiter = find_delimiter(lines)
    if delimiter is not None:
        return delimiter
    n_words = {len(line.split()) for line in lines}
    if len(n_words) == 1 and n_words != {1}:
        return SPACE
    return next((mark for line in first if (mark := find_delimiter([line]))), SPACE)


def _skip_comments(
    rows: Iterator[tuple[int, list[str]]], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Drop rows before the header that start with #.

    A header may start with # too, in the corner above the names; then the next row has as many
    cells, or one more. Spaces delimit the words of a comment, so they prove nothing.
    """
    found = next(rows, None)
    for after in rows:
        assert found is not None
        is_header = delimiter != SPACE and len(after[1]) - len(found[1]) in (0, 1)
        if is_header or not found[1][0].startswith("#"):
            return chain([found, after], rows)
        found = after
    return iter([] if found is None else [found])


def matrix_from_rows(
    header: tuple[int, list[str]], rows: list[MatrixRow], parser: NumberParser
) -> NamedMatrix:
    """Return the square of numbers in a table, and the names around it.

    `header` is the first row with its line number. Columns are put into the order of the rows.
    """
    source, (line, cells) = parser.source, header
    widths = Counter([*(len(row.others) + 1 for row in rows), len(cells)])
    width = max(widths, key=lambda length: (widths[length], length))
    while rows and rows[-1].is_blank and len(rows[-1].others) + 1 != width:
        rows.pop()
    if len(cells) == width - 1:
        # A header without a corner, as R writes it; but fractions are no names, nor are numbers
        # that the first column does not have: then a cell of the first row is missing.
        numbers = {cell.strip() for cell in cells}
        if any(map(is_text, cells)) or (
            all(map(str.isdecimal, numbers)) and numbers == {row.first.strip() for row in rows}
        ):
            cells = ["", *cells]
    lengths = [(row.line, len(row.others) + 1) for row in rows]
    for number, length in [*lengths, (line, len(cells))]:
        if length != width:
            raise MatrixFileError(
                f"{source}, line {number}: expected {width} cells, as in other lines, found "
                f"{length}"
            )
    layout = find_layout(cells, rows)
    if layout is None:
        raise MatrixFileError(
            f"{source}: expected a square matrix, found {len(rows) + 1} lines of {width} cells"
        )
    rows = rows[: len(rows) - layout.empty_rows]
    columns = None
    if layout.header:
        columns = [cell.strip() for cell in cells[layout.row_names : width - layout.empty_column]]
    else:
        rows = [MatrixRow(line, cells[0], parser.parse(line, cells[1:], 2)), *rows]
    n = len(rows)
    values = np.empty((n, n))
    for k, row in enumerate(rows):
        if layout.row_names:
            values[k] = row.others[:n]
        else:
            values[k, :1] = parser.parse(row.line, [row.first], 1)
            values[k, 1:] = row.others[: n - 1]
    if not layout.row_names:
        return values, None if columns is None else tuple(columns)
    names = [row.first.strip() for row in rows]
    check_names(source, names, n, [row.line for row in rows])
    if columns is not None and columns != names:
        column_of = {name: k for k, name in enumerate(columns)}
        for name in names:
            if name not in column_of:
                raise MatrixFileError(
                    f"{source}: expected the same names in the first row and in the first column, "
                    f"found {name!r} in the first column only"
                )
        values = values[:, [column_of[name] for name in names]]
    return values, tuple(names)


@dataclass(frozen=True)
class Layout:
    """What a table has around its numbers."""

    header: bool
    """Whether the first row has the names of the columns."""
    row_names: bool
    """Whether the first column has the names of the rows."""
    empty_column: bool = False
    """Whether all lines end with a delimiter."""
    empty_rows: int = 0
    """Number of lines of delimiters only below the matrix, as spreadsheets write them."""

    def plausibility(
        self, header: Sequence[str], rows: Sequence[MatrixRow]
    ) -> tuple[bool, int, bool, bool]:
        """Return a key that is larger for a more plausible layout, by these criteria in order.

        1. No number is text, and no corner is a number.
        2. The diagonal is zero (2), else missing (1).
        3. All names are there, the same in both places; no item lacks all numbers.
        4. The names count from 0 or 1: 1, 2, 3 is rather a header than a row.
        """
        rows = rows[: len(rows) - self.empty_rows]
        first = [header[0], *(row.first for row in rows)]
        no_text = True
        if not self.header:
            no_text = not any(map(is_text, header[self.row_names :]))
        elif self.row_names:
            no_text = is_missing(header[0]) or is_text(header[0])
        if not self.row_names:
            no_text = no_text and not any(map(is_text, first[self.header :]))
        diagonal: list[float | None] = []
        for k in range(self.header, len(first)):
            column = k - self.header + self.row_names
            if k == 0 or column == 0:
                diagonal.append(parse_number(first[k] if column == 0 else header[column]))
            else:
                diagonal.append(float(rows[k - 1].others[column - 1]))
        zeros = 2 * all(value == 0 for value in diagonal)
        missing = all(value is not None and np.isnan(value) for value in diagonal)
        above = [cell.strip() for cell in header[self.row_names : len(header) - self.empty_column]]
        beside = [cell.strip() for cell in first[self.header :]]
        complete = not (self.header and "" in above) and not (self.row_names and "" in beside)
        if self.header and self.row_names:
            complete = complete and set(above) == set(beside)
        elif rows and not self.empty_column and not self.empty_rows and len(header) > 1:
            # The last item has no number: rather a line of delimiters only.
            last = rows[-1].is_empty and all(np.isnan(row.others[-1]) for row in rows)
            complete = complete and not last
        counts = [[str(k + start) for k in range(len(above))] for start in (0, 1)]
        counting = self.header and self.row_names and len(above) > 2 and above in counts
        return no_text, zeros or int(missing), complete, counting


def find_layout(header: Sequence[str], rows: Sequence[MatrixRow]) -> Layout | None:
    """Return the most plausible layout that makes the numbers a square, None if there is none."""
    width = len(header)
    empty = 0
    while empty < len(rows) and rows[len(rows) - 1 - empty].is_empty:
        empty += 1
    ends_empty = (
        width > 1 and is_missing(header[-1]) and all(np.isnan(row.others[-1]) for row in rows)
    )
    square = [
        layout
        for empty_rows in range(empty + 1)
        for empty_column in ((False, True) if ends_empty else (False,))
        for has_header, named in ((False, False), (True, True), (True, False), (False, True))
        for layout in [Layout(has_header, named, empty_column, empty_rows)]
        if width - empty_column - named == len(rows) + 1 - empty_rows - has_header > 0
    ]
    return max(square, key=lambda layout: layout.plausibility(header, rows), default=None)


def write_delimited_matrix(
    delimiter: str,
) -> Callable[[BinaryIO, Floats, Sequence[str] | None], None]:
    """Return a function that writes a table; its numbers read back as they were."""

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
