"""Delimited text: encoding, delimiter, quoting, numbers, and the line numbers for error messages.

Item tables, edge lists and matrices are all read by the functions of this module.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from metricmix.exceptions import TableFileError
from metricmix.memory import check_room
from metricmix.typing import Floats

__all__ = [
    "NumberParser",
    "TextTable",
    "did_you_mean",
    "file_errors",
    "find_delimiter",
    "is_missing",
    "is_text",
    "iterate_rows",
    "open_text",
    "parse_number",
    "quoted",
    "read_delimited",
]

DELIMITERS = "\t;,"
SPACE = " "
MISSING = {"", "na", "nan", "n/a", "#n/a", "null", "none", "?", "-"}
WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
SNIFFED_LINES = 20
"""Lines from which the delimiter of a table is inferred."""
MEMORY_PER_BYTE = 10
"""Bytes of memory per byte of text: a short cell is a Python object of about 50 bytes."""


# -- files ---------------------------------------------------------------------------------------


@contextmanager
def file_errors(source: Path) -> Iterator[None]:
    """Turn errors of the operating system into TableFileError.

    Raises TooLargeError first if a file of this size does not fit into memory.
    """
    try:
        check_room(
            MEMORY_PER_BYTE * os.stat(source).st_size,
            what="reading the file",
            instead="leave out rows or columns",
            argument=str(source),
        )
        yield
    except OSError as error:
        raise TableFileError(f"{source}: {error.strerror or error}") from None


@contextmanager
def open_text(source: Path) -> Iterator[TextIO]:
    """Open a text file in UTF-8, or in UTF-16 with a byte order mark, as spreadsheets write it.

    Raises TableFileError where bytes cannot be decoded, or quotes do not match.
    """
    with open(source, "rb") as raw:
        is_utf16 = raw.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        with open(source, encoding="utf-16" if is_utf16 else "utf-8-sig", newline="") as file:
            yield file
    except UnicodeError:
        where = str(source)
        if not is_utf16:
            with open(source, "rb") as raw:
                damaged = (
                    number
                    for number, line in enumerate(raw, 1)
                    if line.decode("utf-8", "ignore").encode() != line
                )
                where += f", line {next(damaged, 1)}"
        raise TableFileError(
            f"{where}: expected text in UTF-8, found bytes that are none; save the file as UTF-8"
        ) from None
    except csv.Error as error:
        raise TableFileError(f"{source}: expected a table, but {error}") from None


def find_delimiter(lines: Iterable[str]) -> str | None:
    r"""Return the tab, semicolon or comma that all lines have outside of quotes, None if none is.

    >>> find_delimiter(["id;size", '"a,b";1,5'])
    ';'
    """
    unquoted = ["".join(line.split('"')[::2]) for line in lines]
    return next((mark for mark in DELIMITERS if all(mark in line for line in unquoted)), None)


def iterate_rows(file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, as cells, each with its line number.

    A row with line breaks in quotes has the number of its first line. Several spaces or tabs in
    sequence count as one SPACE.
    """
    if delimiter == SPACE:
        lines: Iterable[str] = (line.strip().replace("\t", SPACE) for line in file)
    else:
        lines = file
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == SPACE)
    previous = 0
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield previous + 1, cells
        previous = reader.line_num


# -- tables of cells -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TextTable:
    """A table of stripped cells: rows of equal width, and the number of each in its file.

    `unit` is what `numbers` count: lines of a text, rows of a Parquet file. `decimal_commas` states
    that commas do not delimit cells, so that 3,5 may be a number.
    """

    source: Path
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    unit: str = "line"
    decimal_commas: bool = False

    def where(self, row: int, column: str | None = None) -> str:
        """Return the file, the line and the column, for the beginning of an error message."""
        at = f"{self.source}, {self.unit} {self.numbers[row]}"
        return at if column is None else f"{at}, column {column!r}"


def read_delimited(source: Path) -> TextTable:
    """Read a table in UTF-8 (with or without a byte order mark), or in UTF-16 with one.

    Cells are delimited by tabs, semicolons or commas: by whichever all of the first lines have
    outside of quotes. Blank lines are skipped; every other line has as many cells as the first.

    Raises
    ------
    TableFileError
        If it cannot be read, is empty, has one column only, or lines of different lengths.
    TooLargeError
        If it does not fit into memory.
    """
    if source.suffix.lower() in WORKBOOKS:
        raise TableFileError(
            f"{source}: expected a table of text, found a workbook; save its sheet as CSV (UTF-8)"
        )
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    with file_errors(source), open_text(source) as file:
        first = [line for line in islice(file, SNIFFED_LINES) if line.strip()]
        if not first:
            raise TableFileError(f"{source}: expected a table, found an empty file")
        if "\0" in "".join(first):
            raise TableFileError(f"{source}: expected a table of text, found a binary file")
        # A quoted cell may extend over lines without a delimiter: then the first line decides.
        delimiter = find_delimiter(first) or find_delimiter(first[:1])
        if delimiter is None:
            raise TableFileError(
                f"{source}, line 1: expected cells separated by commas, semicolons or tabs, found "
                f"one column, {first[0].strip()[:40]!r}; save the table with one of these between "
                "its cells"
            )
        file.seek(0)
        for number, cells in iterate_rows(file, delimiter):
            if "\0" in "".join(cells):
                raise TableFileError(
                    f"{source}, line {number}: expected text, found a NUL character"
                )
            if any(cell.strip() for cell in cells):
                rows.append(tuple(cell.strip() for cell in cells))
                numbers.append(number)
    table = TextTable(source, tuple(rows), tuple(numbers), decimal_commas=delimiter != ",")
    width = len(rows[0])
    for k, row in enumerate(rows):
        if len(row) != width:
            raise TableFileError(
                f"{table.where(k)}: expected {width} cells, as in line {numbers[0]}, found "
                f"{len(row)}; put cells that hold a separator into quotes"
            )
    return table


# -- cells ---------------------------------------------------------------------------------------


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty, or stands for a missing value: NA, NaN, null, ?, -."""
    return cell.strip().lower() in MISSING


def is_text(cell: str) -> bool:
    """Return whether a cell is neither missing nor a number."""
    return parse_number(cell) is None


def parse_number(cell: str) -> float | None:
    """Return a cell as a number, NaN if it is missing, None if it is text.

    >>> parse_number("2,5"), parse_number("NA"), parse_number("1_000")
    (2.5, nan, None)
    """
    if is_missing(cell):
        return np.nan
    if "_" in cell:  # Python would read 10_000 as a number
        return None
    try:
        return float(cell.replace(",", ".", 1))
    except ValueError:
        return None


class NumberParser:
    """Parses rows of numbers, missing cells as NaN.

    Where commas do not delimit cells they may be decimal; but 1,234 beside 0.5 could as well be
    more than a thousand, and is refused. `line` is the line of the last cells.
    """

    def __init__(self, source: Path, *, decimal_commas: bool) -> None:
        self.source, self.decimal_commas, self.line = source, decimal_commas, 0
        self._first_comma: tuple[str, str] | None = None
        self._has_point = False

    def parse(self, line: int, cells: Sequence[str], first_column: int) -> Floats:
        """Return cells as numbers; TableFileError with line and column if one is not finite."""
        self.line = line
        if self.decimal_commas and not self._has_point:
            self._has_point = any("." in cell for cell in cells)
        try:
            if any("_" in cell for cell in cells):
                raise ValueError
            numbers = np.array(cells, dtype=np.float64)
        except ValueError:
            numbers = np.empty(len(cells))
            for k, cell in enumerate(cells):
                value, text = parse_number(cell), cell.strip()
                has_comma = "," in text
                where = f"line {line}, column {first_column + k}"
                if value is None or (has_comma and not self.decimal_commas):
                    raise TableFileError(
                        f"{self.source}, {where}: expected a number, found {text[:40]!r}"
                    ) from None
                if has_comma:
                    self._first_comma = self._first_comma or (where, text)
                numbers[k] = value
        infinite = np.isinf(numbers)
        if infinite.any():
            k = int(infinite.argmax())
            raise TableFileError(
                f"{self.source}, line {line}, column {first_column + k}: expected a finite number, "
                f"found {cells[k].strip()!r}; leave the cell empty if it is unknown"
            )
        if self._first_comma is not None and self._has_point:
            where, text = self._first_comma
            raise TableFileError(
                f"{self.source}, {where}: expected either decimal commas or decimal points, found "
                f"both, as in {text!r}"
            )
        return numbers


# -- names in error messages ---------------------------------------------------------------------


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Return the first names in quotes, as examples in a message.

    >>> quoted(["a", "b", "c", "d"])
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, names[:most]))


def did_you_mean(names: Sequence[str], got: str, most: int = 10) -> str:
    """Return the names that exist, the one that was given, and the one that may be meant.

    >>> did_you_mean(["id", "segment"], "Segment")
    "one of 'id', 'segment', got 'Segment'; did you mean 'segment'?"
    """
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(got.casefold(), list(folded), n=1)
    suggestion = f"; did you mean {folded[close[0]]!r}?" if close else ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"one of {quoted(names, most)}{more}, got {got!r}{suggestion}"
