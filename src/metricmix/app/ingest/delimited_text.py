"""Tables as text, delimited or JSON: encoding, compression, quoting, and line numbers for errors.

Item tables, edge lists and matrices are all read by the functions of this module.
"""

from __future__ import annotations

import codecs
import csv
import gc
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from metricmix.cached import cached_property
from metricmix.exceptions import TableFileError, array_file_errors
from metricmix.items.items import Origin
from metricmix.memory import check_room

__all__ = [
    "TextTable",
    "check_first_line",
    "check_width",
    "content_errors",
    "find_delimiter",
    "iterate_rows",
    "open_text",
    "read_bytes",
    "read_delimited",
    "read_json",
    "suffix_of",
    "text_of",
]

DELIMITERS = "\t;|,"
SPACE = " "
GZIP = b"\x1f\x8b"
CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""A character of UTF-8 beyond ASCII."""
SNIFFED_LINES = 20
"""Lines from which the delimiter of a table is inferred."""
MOST_COLUMNS, LONGEST_LINE = 100_000, 1 << 24
"""Columns of a table, and bytes of its first line, that are accepted."""
PER_BYTE_OF_TABLE, PER_BYTE_OF_TEXT = 10, 2
"""Bytes of memory per byte of a file: a short cell is a Python object of about 50 bytes."""


# -- files ---------------------------------------------------------------------------------------


def suffix_of(source: Path) -> str:
    """Return the ending of a file's name in lower case, without the ``.gz`` of a compressed file.

    >>> suffix_of(Path("items.CSV.gz"))
    '.csv'
    """
    return (source.with_suffix("") if source.suffix.lower() == ".gz" else source).suffix.lower()


def read_bytes(source: Path, memory_per_byte: int = PER_BYTE_OF_TABLE) -> bytes:
    """Return the content of a file, decompressed if it is gzip.

    Raises
    ------
    TableFileError
        If it cannot be read, or is a damaged gzip file.
    TooLargeError
        If so much memory per byte of the file is not available.
    """
    try:
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            compressed = file.read(2) == GZIP
            if compressed:  # ends with its size before compression
                file.seek(max(0, size - 4))
                size = max(size, int.from_bytes(file.read(4), "little"))
            check_room(
                memory_per_byte * size,
                what="reading the file",
                instead="leave out rows or columns",
                argument=str(source),
            )
            file.seek(0)
            return gzip.GzipFile(fileobj=file).read() if compressed else file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableFileError(f"{source}: expected a gzip file, but {error}") from None
    except OSError as error:
        raise TableFileError(f"{source}: {error.strerror or error}") from None


def content_errors() -> tuple[type[Exception], ...]:
    """Return what readers of binary formats may raise for damaged content that was read before."""
    return (OSError, *array_file_errors())


def open_text(source: Path, content: bytes | None = None) -> TextIO:
    """Return a text to read from, in UTF-16 with a byte order mark, UTF-8, or else Windows-1252.

    `content` is that of the file, if it was read before. Raises TableFileError as
    :func:`read_bytes` does, and with the line where UTF-8 is damaged or has a NUL character.
    """
    content = read_bytes(source, PER_BYTE_OF_TEXT) if content is None else content
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "utf-8-sig"
    if not (utf16 or content.isascii()) and CHARACTER.search(content) is None:
        encoding = "cp1252"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableFileError(
            f"{source}, line {line}: expected UTF-8 text, found invalid bytes; save the file as "
            "UTF-8"
        ) from None
    if "\0" in text:
        raise TableFileError(
            f"{source}, line {text[: text.index(chr(0))].count(chr(10)) + 1}: expected text, found "
            "a NUL character, as in binary files and in UTF-16 without a byte order mark; save the "
            "file as UTF-8 text"
        )
    return io.TextIOWrapper(io.BytesIO(content), encoding, newline="")


def find_delimiter(lines: Iterable[str]) -> str | None:
    r"""Return the tab, semicolon, bar or comma that all lines have outside of quotes, or None.

    >>> find_delimiter(["id;size", '"a,b";1,5'])
    ';'
    """
    unquoted = ["".join(line.split('"')[::2]) for line in lines]
    return next((mark for mark in DELIMITERS if all(mark in line for line in unquoted)), None)


def iterate_rows(source: Path, file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, as cells, each with its line number.

    A row with line breaks in quotes has the number of its first line. Several spaces or tabs in
    sequence count as one SPACE.
    """
    lines: Iterable[str] = file
    if delimiter == SPACE:
        lines = (line.strip().replace("\t", SPACE) for line in file)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == SPACE)
    previous = 0
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield previous + 1, cells
            previous = reader.line_num
    except csv.Error as error:
        raise TableFileError(
            f"{source}, line {previous + 1}: expected a table, but {error}; is a quote not closed?"
        ) from None


# -- tables of cells -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TextTable:
    """A table of stripped cells: rows of equal width, the header among them, and where each was."""

    rows: tuple[tuple[str, ...], ...]
    origin: Origin

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The cells by columns, each with its name first."""
        with garbage_collection_paused():
            return tuple(zip(*self.rows, strict=True))

    @property
    def source(self) -> Path:
        """The file."""
        return Path(self.origin.source)

    def where(self, row: int, column: str | None = None) -> str:
        """Return the file, the line and the column, for the beginning of an error message."""
        return self.origin.where(row, column)


def read_delimited(source: Path, content: bytes, *, ids_alone: bool = False) -> TextTable:
    """Return the table in the content of a file.

    Cells are delimited by tabs, semicolons, bars or commas: by whichever all of the first lines
    have outside of quotes. Blank lines are skipped; every other line has as many cells as the
    first. `ids_alone` says that one column will do.

    Raises
    ------
    TableFileError
        If it is empty, has one column only, or lines of different lengths.
    """
    check_first_line(source, content)
    file = open_text(source, content)
    first = [line for line in islice(file, SNIFFED_LINES) if line.strip()]
    # A quoted cell may extend over lines without a delimiter: then the first line decides.
    delimiter = find_delimiter(first) or find_delimiter(first[:1])
    if delimiter is None and not ids_alone:
        raise TableFileError(
            f"{source}, line 1: expected cells separated by commas, semicolons, tabs or |, found "
            f"one column, {first[0].strip()[:40]!r}; save the table with one of these between "
            "its cells"
        )
    check_width(source, next(csv.reader(first[:1], delimiter=delimiter or "\t"), []))
    remark = "read as Windows-1252, since it is not UTF-8" * (file.encoding == "cp1252")
    origin = Origin(source, (), "line", delimiter != ",", remark)
    file.seek(0)
    regular = regular_table(file, delimiter or "\t", origin)
    if regular is not None:
        return regular
    file.seek(0)
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    for number, cells in iterate_rows(source, file, delimiter or "\t"):
        row = tuple(map(str.strip, cells))
        if not any(row):
            continue
        if rows and len(row) != len(rows[0]):
            commas_too = delimiter == "," and len(row) > len(rows[0]) and any(map(str.isdigit, row))
            or_else = "; if commas are decimal signs, separate cells by semicolons" * commas_too
            raise TableFileError(
                f"{source}, line {number}: expected {len(rows[0])} cells, as in line {numbers[0]}, "
                f"found {len(row)}; put cells that hold a separator into quotes{or_else}"
            )
        rows.append(row)
        numbers.append(number)
    if not rows:
        raise TableFileError(f"{source}: expected a table, found an empty file")
    return TextTable(tuple(rows), replace(origin, numbers=tuple(numbers)))


def regular_table(file: TextIO, delimiter: str, origin: Origin) -> TextTable | None:
    """Return the table of a text that has a row in every line, all of the same width.

    None for other texts, such as with blank lines: these are read row by row.
    """
    reader = csv.reader(file, delimiter=delimiter)
    with garbage_collection_paused():
        try:
            rows = tuple(map(tuple, reader))
        except csv.Error:
            return None
        if reader.line_num != len(rows) or len(set(map(len, rows))) != 1 or not rows[0]:
            return None
        table = TextTable(rows, replace(origin, numbers=tuple(range(1, len(rows) + 1))))
        stripped = tuple(tuple(map(str.strip, column)) for column in table.columns)
        if "" in stripped[0][1:] or not any(rows[0]):  # perhaps a row without any value
            return None
        if stripped != table.columns:
            table = replace(table, rows=tuple(zip(*stripped, strict=True)))
        return table


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the search for cycles, which takes most of the time while millions of cells are made.

    Cells are not part of any cycle.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def check_first_line(source: Path, content: bytes) -> None:
    """Raise TableFileError if the first line is too long for the names of columns."""
    ends = (content.find(mark, 0, LONGEST_LINE) for mark in (b"\n", b"\r"))
    if len(content) > LONGEST_LINE and max(ends) < 0:
        raise TableFileError(
            f"{source}, line 1: expected column names, at most {MOST_COLUMNS:,} of them, found a "
            f"line of more than {LONGEST_LINE >> 20} MiB; put every item on a line of its own"
        )


def check_width(source: Path, header: Sequence[str]) -> None:
    """Raise TableFileError if a table has more columns than a fit takes."""
    if len(header) > MOST_COLUMNS:
        raise TableFileError(
            f"{source}: expected at most {MOST_COLUMNS:,} columns, found {len(header):,}; "
            "transpose the table if its columns are the items, or compute distances from them and "
            "pass these with --matrix"
        )


# -- JSON ----------------------------------------------------------------------------------------


def read_json(source: Path, content: bytes) -> TextTable:
    """Read JSON as text, numbers as they are written.

    Records may lack keys. Objects in them become columns (``{"size": {"x": 1}}`` is ``size.x``),
    and lists of words or numbers become texts.
    """
    text = open_text(source, content).read()
    unit = "row"
    try:
        records = _records_in(source, _parse_json(text))
        numbers = list(range(1, len(records) + 1))
    except RecursionError:
        raise TableFileError(f"{source}: expected records, found JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        unit, records, numbers = "line", [], []
        for k, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                records.append(_parse_json(line))
            except (json.JSONDecodeError, RecursionError) as wrong:
                at, reason = (f", line {k}", wrong) if records else ("", error)
                raise TableFileError(
                    f"{source}{at}: expected JSON, a list of records or one in every line, but "
                    f"{reason}"
                ) from None
            numbers.append(k)
    cells: list[dict[str, str]] = []
    for number, record in zip(numbers, records, strict=True):
        try:
            cells.append(dict(_flattened(record)))
        except (AttributeError, TypeError):
            raise TableFileError(
                f"{source}, {unit} {number}: expected a record of words and numbers such as "
                f'{{"id": "a", "size": 1}}, found {str(record)[:40]!r}'
            ) from None
    header = tuple(dict.fromkeys(name for record in cells for name in record))
    rows = [tuple(record.get(name, "") for name in header) for record in cells]
    return TextTable((header, *rows), Origin(source, (0, *numbers), unit))


def _parse_json(text: str) -> Any:
    """Return JSON with its numbers as texts."""
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)


def _records_in(source: Path, content: Any) -> list[Any]:
    """Return the records of JSON: a list of them, alone or in an object, or columns, or one."""
    if not isinstance(content, dict):
        return content if isinstance(content, list) else [content]
    if content and all(isinstance(column, dict) for column in content.values()):
        keys = list(dict.fromkeys(key for column in content.values() for key in column))
        index = {} if keys == [str(k) for k in range(len(keys))] else {"": keys}
        content = index | {name: list(map(content[name].get, keys)) for name in content}
    lists = [value for value in content.values() if isinstance(value, list)]
    tables = [value for value in lists if value and isinstance(value[0], dict)]
    if len(tables) == 1:
        return tables[0]
    if not tables and len(lists) < len(content):
        return [content]
    split = {"columns", "data"} <= set(content)  # of pandas: its lists are not columns
    if tables or split or len(set(map(len, lists))) != 1:
        raise TableFileError(
            f"{source}: expected a list of records, or columns of equal length, found other JSON; "
            "save one list of records in the file"
        )
    return [dict(zip(content, row, strict=True)) for row in zip(*lists, strict=True)]


def _flattened(record: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Yield the cells of a record by their names, those of inner objects with dots.

    Raises AttributeError or TypeError if it is no record, or has lists in lists.
    """
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{above}{name}.")
            continue
        if isinstance(value, list):
            if any(isinstance(part, list | dict) for part in value):
                raise TypeError("lists in lists")
            value = ", ".join(map(text_of, value))
        yield f"{above}{name}", text_of(value).encode(errors="replace").decode()  # surrogates


def text_of(value: Any) -> str:
    """Return a value as a cell: null and NaN are empty, a date is written as 2024-05-31."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime):
        value = value.date() if value == datetime(value.year, value.month, value.day) else value
    if isinstance(value, date):
        return str(value)
    return str(value).strip()
