"""Matrices in delimited text, with or without names."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from metricmix.app.ingest.delimited_text import (
    PER_BYTE_OF_TEXT,
    SPACE,
    check_first_line,
    find_delimiter,
    iterate_rows,
    open_text,
    read_bytes,
)
from metricmix.exceptions import MatrixFileError, TableFileError
from metricmix.items.cells import is_text, parse_cell
from metricmix.items.relation import Matrix
from metricmix.memory import check_fits
from metricmix.typing import Floats

__all__ = [
    "NumberParser",
    "check_names",
    "check_size",
    "find_names",
    "read_delimited_matrix",
    "write_delimited_matrix",
]

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
            raise MatrixFileError(
                f"{source}: expected every name once, found {item!r} at {where}; rename one of them"
            )
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


# -- rows of numbers -----------------------------------------------------------------------------


class NumberParser:
    """Parses rows of numbers, missing cells as NaN.

    Where commas do not delimit cells they are decimal signs; but 1,234 beside 0.5 could as well be
    more than a thousand, and is refused. `line` is the line of the last cells.
    """

    def __init__(self, source: Path, *, decimal_commas: bool) -> None:
        self.source, self.decimal_commas, self.line = source, decimal_commas, 0
        self._comma = ""
        self._has_point = False

    def parse(self, line: int, cells: Sequence[str], first_column: int) -> Floats:
        """Return cells as numbers; TableFileError with line and column if one is not finite."""
        self.line, text = line, "".join(cells)
        try:
            if "_" in text:  # Python would read 10_000 as a number
                raise ValueError
            numbers = np.array(cells, dtype=np.float64)
        except ValueError:
            signs = ",." if self.decimal_commas else "."
            numbers = np.array([parse_cell(cell, signs) for cell in cells])
        where = f"{self.source}, line {line}, column "
        for k in np.flatnonzero(np.isinf(numbers))[:1].tolist():
            cell = cells[k].strip()[:40]
            kind = "a finite number" if "inf" in cell.lower() else "a number"
            raise TableFileError(
                f"{where}{first_column + k}: expected {kind}, found {cell!r}; leave the cell empty "
                "if it is unknown"
            )
        if self.decimal_commas:
            self._has_point |= "." in text
            if "," in text and not self._comma:
                k = next(k for k, cell in enumerate(cells) if "," in cell)
                self._comma = f"{where}{first_column + k}: found {cells[k].strip()[:40]!r}"
            if self._comma and self._has_point:
                raise TableFileError(
                    f"{self._comma} beside numbers with decimal points; write either decimal "
                    "commas or decimal points"
                )
        return numbers


# -- delimited text ------------------------------------------------------------------------------


def read_delimited_matrix(source: Path) -> Matrix:
    """Read a table; its shape and its texts tell whether rows and columns have names.

    Columns are put into the order of the rows.
    """
    content = read_bytes(source, PER_BYTE_OF_TEXT)
    check_first_line(source, content)
    file = open_text(source, content)
    lines = (line for line in file if line.strip() and not line.startswith("#"))
    delimiter = _find_matrix_delimiter([line.rstrip("\r\n") for line in islice(lines, 3)])
    file.seek(0)
    parser = NumberParser(source, decimal_commas=delimiter != ",")
    table = _skip_comments(iterate_rows(source, file, delimiter), delimiter)
    line, header = next(table, (0, []))
    if not header:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    numbers, first = [line], [header[0]]
    rows: list[Floats] = []
    for line, cells in table:
        if not rows:
            check_size(source, len(cells))
        numbers.append(line)
        first.append(cells[0])
        rows.append(parser.parse(line, cells[1:], 2))
    widths = Counter([*(len(row) + 1 for row in rows), len(header)])
    width = max(widths, key=lambda length: (widths[length], length))
    names = sorted(map(str.strip, header))
    if len(header) == width - 1 and (
        any(map(is_text, header))
        or (all(map(str.isdecimal, names)) and names == sorted(map(str.strip, first[1:])))
    ):
        header = ["", *header]  # without a corner, as R writes it; fractions are no names
    for line, length in zip(numbers, [len(header), *(len(row) + 1 for row in rows)], strict=True):
        if length != width:
            raise MatrixFileError(
                f"{source}, line {line}: expected {width} cells, as in other lines, found {length}"
            )
    values = np.empty((len(numbers), width))
    if rows:
        values[1:, 1:] = rows
    values[:, 0] = list(map(parse_cell, first))
    values[0] = list(map(parse_cell, header))
    header, first = [cell.strip() for cell in header], [cell.strip() for cell in first]
    in_row, in_column, n = find_names(header, first, values)
    if not n:
        raise MatrixFileError(
            f"{source}: expected a square matrix, found {len(numbers)} lines of {width} cells"
        )
    if not in_row:
        parser.parse(numbers[0], header[in_column:], 1 + in_column)
    if not in_column:
        for line, cell in zip(numbers[in_row:], first[in_row:], strict=True):
            parser.parse(line, [cell], 1)
    above, beside = header[in_column:][:n], first[in_row:][:n]
    values = values[in_row:, in_column:][:n, :n].copy()
    if not in_column:
        return Matrix(values, tuple(above) if in_row else None)
    check_names(source, beside, n, numbers[in_row:])
    if in_row and above != beside:
        column_of = {name: k for k, name in enumerate(above)}
        for name in beside:
            if name not in column_of:
                raise MatrixFileError(
                    f"{source}: expected the same names in the first row and in the first column, "
                    f"found {name!r} in the first column only"
                )
        values = values[:, [column_of[name] for name in beside]]
    return Matrix(values, tuple(beside))


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


def find_names(
    header: Sequence[str], first: Sequence[str], values: Floats
) -> tuple[bool, bool, int]:
    """Return whether the first row and the first column hold names, and the number of items.

    A column of separators behind the table and lines of separators below it are dropped. Of all
    ways to a square these are preferred, in this order: no text is an entry, and no number the
    corner above the names; the diagonal is 0, else missing; no name is missing, both places have
    the same ones, and no item without numbers is last; names in both places count from 0 or 1.

    Parameters
    ----------
    header, first : sequence of str
        The first row and the first column.
    values : ndarray (lines, cells)
        All cells as numbers, NaN where missing, inf where they are texts.
    """
    missing = np.isnan(values)
    best, found = (False, 0, False, False), (False, False, 0)
    for in_row, in_column in ((False, False), (True, True), (True, False), (False, True)):
        for dropped in (0, 1) if missing[:, -1].all() else (0,):
            n = len(header) - in_column - dropped
            entries = values[in_row:, in_column:][:n, :n]
            if not 0 < n == len(entries) or not missing[in_row + n :].all():
                continue
            diagonal, both = np.diagonal(entries), in_row and in_column
            above, beside = list(header[in_column:][:n]), list(first[in_row:][:n])
            is_complete = not (in_row and "" in above) and not (in_column and "" in beside)
            if both:
                is_complete &= set(above) == set(beside)
            elif n > 1:
                is_complete &= not np.isnan([*entries[-1], *entries[:, -1]]).all()
            order = (
                not (np.isinf(entries).any() or (both and np.isfinite(values[0, 0]))),
                2 * int(not diagonal.any()) or int(np.isnan(diagonal).all()),
                is_complete,
                both and n > 2 and above in ([str(k + m) for k in range(n)] for m in (0, 1)),
            )
            if not found[2] or order > best:
                best, found = order, (in_row, in_column, n)
    return found


def write_delimited_matrix(
    file: BinaryIO, values: Floats, items: Sequence[str] | None, delimiter: str = ","
) -> None:
    """Write a table; its numbers read back as they were."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if items is not None:
        table.writerow(["", *items])
    for k, row in enumerate(values):
        numbers = [repr(value) for value in row.tolist()]
        table.writerow(numbers if items is None else [items[k], *numbers])
    text.detach()
