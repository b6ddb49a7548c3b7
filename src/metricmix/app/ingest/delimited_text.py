"""Delimited text: encoding, compression, delimiter, quoting, numbers, and line numbers for errors.

Item tables, edge lists and matrices are all read by the functions of this module.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TextIO

import numpy as np

from metricmix.exceptions import TableFileError
from metricmix.items.cells import is_missing
from metricmix.memory import check_room
from metricmix.typing import Floats

__all__ = [
    "NumberParser",
    "TextTable",
    "file_errors",
    "find_delimiter",
    "is_text",
    "iterate_rows",
    "open_bytes",
    "open_text",
    "parse_number",
    "read_delimited",
    "suffix_of",
    "text_encoding",
]

DELIMITERS = "\t;,"
SPACE = " "
GZIP = b"\x1f\x8b"
CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""A character of UTF-8 beyond ASCII."""
CHUNK = 1 << 20
SNIFFED_LINES = 20
"""Lines from which the delimiter of a table is inferred."""
MEMORY_PER_BYTE = 10
"""Bytes of memory per byte of text: a short cell is a Python object of about 50 bytes."""


# -- files ---------------------------------------------------------------------------------------


def suffix_of(source: Path) -> str:
    """Return the ending of a file's name in lower case, without the ``.gz`` of a compressed file.

    >>> suffix_of(Path("items.CSV.gz"))
    '.csv'
    """
    return (source.with_suffix("") if source.suffix.lower() == ".gz" else source).suffix.lower()


@contextmanager
def file_errors(source: Path) -> Iterator[None]:
    """Turn errors of the operating system into TableFileError.

    Raises TooLargeError first if a file of this size does not fit into memory.
    """
    try:
        size = os.stat(source).st_size
        with open(source, "rb") as raw:
            if raw.read(2) == GZIP and size > 4:  # ends with its size before compression
                raw.seek(-4, os.SEEK_END)
                size = max(size, int.from_bytes(raw.read(4), "little"))
        check_room(
            MEMORY_PER_BYTE * size,
            what="reading the file",
            instead="leave out rows or columns",
            argument=str(source),
        )
        yield
    except OSError as error:
        raise TableFileError(f"{source}: {error.strerror or error}") from None


@contextmanager
def open_bytes(source: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if it is gzip; TableFileError if that is damaged."""
    with open(source, "rb") as raw:
        compressed = raw.read(2) == GZIP
        raw.seek(0)
        if not compressed:
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableFileError(f"{source}: expected a gzip file, but {error}") from None


def text_encoding(source: Path) -> str:
    """Return the encoding of a text: UTF-8, UTF-16, or else Windows-1252.

    UTF-16 is told by its byte order mark, or by zeros in every other byte. Bytes that are not UTF-8
    are Windows-1252 unless some characters beyond ASCII are UTF-8, or the last one is cut off: then
    the text is UTF-8, and damaged.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    found_character = False
    with open_bytes(source) as file:
        head = file.read(256)
        if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        even, odd = head[::2].count(0), head[1::2].count(0)
        if len(head) >= 4 and min(even, odd) == 0 and 4 * max(even, odd) > len(head):
            return "utf-16-le" if odd else "utf-16-be"
        chunk = head
        while chunk:
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                break
            found_character |= CHARACTER.search(chunk) is not None
            chunk = file.read(CHUNK)
        if not chunk:  # all of it is UTF-8, unless the last character is incomplete
            return "utf-8-sig"
        while chunk and not found_character:
            found_character = CHARACTER.search(chunk) is not None
            try:
                chunk.decode("cp1252")
            except UnicodeDecodeError:  # five bytes have no character there
                return "utf-8-sig"
            chunk = file.read(CHUNK)
    return "utf-8-sig" if found_character else "cp1252"


@contextmanager
def open_text(source: Path) -> Iterator[TextIO]:
    """Open a text in UTF-8, UTF-16 or Windows-1252, compressed by gzip or not.

    Raises TableFileError where bytes cannot be decoded, or quotes do not match.
    """
    encoding = text_encoding(source)
    try:
        with (
            open_bytes(source) as raw,
            io.TextIOWrapper(raw, encoding=encoding, newline="") as file,
        ):
            yield file
    except UnicodeError:
        where = str(source)
        if not encoding.startswith("utf-16"):
            with open_bytes(source) as raw:
                damaged = (
                    number
                    for number, line in enumerate(raw, 1)
                    if line.decode("utf-8", "ignore").encode() != line
                )
                where += f", line {next(damaged, 1)}"
        raise TableFileError(
            f"{where}: expected UTF-8 text, found invalid bytes; save the file as UTF-8"
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
    that commas do not delimit cells, so that 3,5 may be a number. `remark` says what was chosen in
    reading it, if the file could have been meant otherwise.
    """

    source: Path
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    unit: str = "line"
    decimal_commas: bool = False
    remark: str = ""

    def where(self, row: int, column: str | None = None) -> str:
        """Return the file, the line and the column, for the beginning of an error message."""
        at = f"{self.source}, {self.unit} {self.numbers[row]}"
        return at if column is None else f"{at}, column {column!r}"


def read_delimited(source: Path, *, ids_alone: bool = False) -> TextTable:
    """Read a table in UTF-8, UTF-16 or Windows-1252, compressed by gzip or not.

    Cells are delimited by tabs, semicolons or commas: by whichever all of the first lines have
    outside of quotes. Blank lines are skipped; every other line has as many cells as the first.
    `ids_alone` says that one column will do.

    Raises
    ------
    TableFileError
        If it cannot be read, is empty, has one column only, or lines of different lengths.
    TooLargeError
        If it does not fit into memory.
    """
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
        if delimiter is None and not ids_alone:
            raise TableFileError(
                f"{source}, line 1: expected cells separated by commas, semicolons or tabs, found "
                f"one column, {first[0].strip()[:40]!r}; save the table with one of these between "
                "its cells"
            )
        file.seek(0)
        for number, cells in iterate_rows(file, delimiter or "\t"):
            if "\0" in "".join(cells):
                raise TableFileError(
                    f"{source}, line {number}: expected text, found a NUL character"
                )
            if any(cell.strip() for cell in cells):
                rows.append(tuple(cell.strip() for cell in cells))
                numbers.append(number)
        remark = "read as Windows-1252, since it is not UTF-8" * (file.encoding == "cp1252")
    commas = delimiter != ","
    table = TextTable(source, tuple(rows), tuple(numbers), decimal_commas=commas, remark=remark)
    width = len(rows[0])
    for k, row in enumerate(rows):
        if len(row) != width:
            commas_too = delimiter == "," and len(row) > width and any(map(str.isdigit, row))
            or_else = "; if commas are decimal signs, separate cells by semicolons" * commas_too
            raise TableFileError(
                f"{table.where(k)}: expected {width} cells, as in line {numbers[0]}, found "
                f"{len(row)}; put cells that hold a separator into quotes{or_else}"
            )
    return table


# -- cells ---------------------------------------------------------------------------------------


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
