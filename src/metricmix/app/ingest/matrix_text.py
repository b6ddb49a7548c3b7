"""Matrices as text: delimited tables with or without names, and PHYLIP."""

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
    is_missing,
    is_text,
    iterate_rows,
    open_text,
    parse_number,
)
from metricmix.exceptions import MatrixFileError, TableFileError
from metricmix.memory import check_fits
from metricmix.typing import Floats

__all__ = [
    "Layout",
    "MatrixRow",
    "NamedMatrix",
    "check_names",
    "check_phylip_names",
    "check_size",
    "find_layout",
    "looks_like_phylip",
    "matrix_from_rows",
    "matrix_from_triangle",
    "read_delimited_matrix",
    "read_phylip",
    "write_delimited_matrix",
    "write_phylip",
]

NamedMatrix = tuple[Floats, tuple[str, ...] | None]
"""Entries, NaN where they are missing, and the names of the items, if the file has them."""
ENTRY = 24
"""Bytes of memory per entry: the rows, the matrix, and a copy of it."""
NAME_LENGTH = 10
"""Characters of a name in strict PHYLIP."""


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


def read_delimited_matrix(source: Path) -> NamedMatrix:
    """Read a table; its shape and its first row tell whether rows and columns have names."""
    with open_text(source) as file:
        text = (line for line in file if line.strip() and not line.startswith("#"))
        first = [line.rstrip("\r\n") for line in islice(text, 3)]
        if not first:
            raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
        # The second and the third line hold numbers, whether or not the first one holds names.
        delimiter = find_delimiter(first[1:] or first) or SPACE
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
    width = widths.most_common(1)[0][0]
    while rows and rows[-1].is_empty and len(rows[-1].others) + 1 != width:
        rows.pop()
    if len(cells) == width - 1:
        cells = ["", *cells]  # a header without a corner, as some programs write it
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


# -- PHYLIP --------------------------------------------------------------------------------------


def read_phylip(source: Path) -> NamedMatrix:
    """Read names and distances, square or a triangle; a row may extend over several lines.

    A name ends at the first space. Where nothing fits that way it is the first ten characters of
    its line, as in strict PHYLIP.
    """
    with open_text(source) as file:
        lines = [(k, line.rstrip()) for k, line in enumerate(file, 1) if line.strip()]
    if not lines or not _is_count(lines[0][1]):
        number = lines[0][0] if lines else 1
        raise MatrixFileError(
            f"{source}, line {number}: expected the number of items, as PHYLIP has it"
        )
    n = int(lines[0][1])
    check_size(source, min(n, len(lines)))
    try:
        return _read_phylip_rows(source, n, lines[1:], strict=False)
    except (MatrixFileError, TableFileError) as error:
        if not any(_has_space_in_name(line) for _, line in lines[1:]):
            raise
        try:
            return _read_phylip_rows(source, n, lines[1:], strict=True)
        except (MatrixFileError, TableFileError):
            raise error from None


def looks_like_phylip(source: Path) -> bool:
    """Return whether a text starts with a number of items, and continues."""
    with open_text(source) as file:
        text = (line for line in file if line.strip())
        return _is_count(next(text, "")) and next(text, None) is not None


def _is_count(line: str) -> bool:
    text = line.strip()
    return text.isascii() and text.isdigit() and len(text) < 10


def _has_space_in_name(line: str) -> bool:
    """Return whether the first ten characters are a name that does not end at its first space."""
    return any(is_text(word) for word in line[:NAME_LENGTH].split()[1:])


def _read_phylip_rows(
    source: Path, n: int, lines: Sequence[tuple[int, str]], *, strict: bool
) -> NamedMatrix:
    parser = NumberParser(source, decimal_commas=False)
    names: list[str] = []
    rows: list[Floats] = []
    for number, line in lines:
        words = line.split()
        starts_row = (
            len(lines) == n  # one line per item
            or not rows
            or len(rows[-1]) >= n
            or is_text(words[0])
            or (strict and not line[0].isspace())
        )
        if starts_row:
            name, cells = (
                (line[:NAME_LENGTH], line[NAME_LENGTH:].split())
                if strict
                else (words[0], words[1:])
            )
            names.append(name.strip())
            rows.append(parser.parse(number, cells, 2))
        else:
            rows[-1] = np.concatenate([rows[-1], parser.parse(number, words, 1)])
    if len(rows) != n:
        raise MatrixFileError(
            f"{source}: expected {n} items, as its first line says, found {len(rows)}"
        )
    return matrix_from_triangle(source, names, rows), tuple(names)


def matrix_from_triangle(source: Path, names: Sequence[str], rows: Sequence[Floats]) -> Floats:
    """Return rows as a symmetric matrix: all of full length, or the lengths of a triangle.

    A triangle may be the lower or the upper one, with or without its diagonal.
    """
    n = len(rows)
    lengths = [len(row) for row in rows]
    growing = list(range(n)), list(range(1, n + 1))
    shrinking = growing[0][::-1], growing[1][::-1]
    if lengths == [n] * n:
        return np.array(rows).reshape(n, n)
    values = np.zeros((n, n))
    if lengths in growing:
        for k, row in enumerate(rows):
            values[k, : len(row)] = row
        return np.where(np.tri(n, dtype=bool), values, values.T)
    if lengths in shrinking:
        for k, row in enumerate(rows):
            values[k, n - len(row) :] = row
        return np.where(np.tri(n, dtype=bool), values.T, values)
    # The length of the first row tells which of these was intended.
    by_first = {n: [n] * n, 0: growing[0], 1: growing[1], n - 1: shrinking[0]}
    expected = by_first.get(lengths[0], [n] * n)
    at = next(k for k in range(n) if lengths[k] != expected[k])
    raise MatrixFileError(
        f"{source}: expected {expected[at]} distances of {names[at]!r}, item {at + 1} of {n}, "
        f"found {lengths[at]}"
    )


def write_phylip(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    """Write a square; its numbers read back as they were.

    Names with spaces take ten characters, as in strict PHYLIP; others what they need.
    """
    names = [str(k) for k in range(len(values))] if items is None else list(items)
    width = max([NAME_LENGTH, *(len(name) + 1 for name in names)])
    if any(map(_has_space_in_name, names)):
        width = NAME_LENGTH + 1
    file.write(f"{len(values)}\n".encode())
    for name, row in zip(names, values.tolist(), strict=True):
        file.write((name.ljust(width) + " ".join(map(repr, row)) + "\n").encode())


def check_phylip_names(target: Path, items: Sequence[str] | None) -> None:
    """Raise MatrixFileError if names would not be read back."""
    names = list(items or ())
    strict = any(map(_has_space_in_name, names)) and max(map(len, names)) <= NAME_LENGTH
    for name in names:
        if name.split() != [name] and not (strict and name == name.strip() != ""):
            raise MatrixFileError(
                f"{target}: expected names without spaces for PHYLIP, or none with more than "
                f"{NAME_LENGTH} characters, found {name!r}; write csv, tsv or npz"
            )
