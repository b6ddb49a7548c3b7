"""Tables in files of any format, as text cells: delimited text, JSON, Excel, Parquet; gzip."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from metricmix.app.ingest.delimited_text import (
    TextTable,
    file_errors,
    open_bytes,
    open_text,
    read_delimited,
    suffix_of,
)
from metricmix.exceptions import MissingPackageError, TableFileError, array_file_errors

__all__ = ["read_json", "read_parquet", "read_table", "read_workbook"]

JSON_BEGINS = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*(\{\s*[\"}]|\[\s*[\[{\"\]])")
"""How JSON begins, after a byte order mark and without the zeros of UTF-16."""
OTHER_FORMATS = (
    (b"\xd0\xcf\x11\xe0", "a workbook of Excel 2003 or older", "save it as .xlsx or CSV"),
    (b"%PDF-", "a PDF document", "save its table as CSV"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"ARROW1", "an Arrow (Feather) file", "save it as Parquet or CSV"),
    (b"\x89HDF", "an HDF5 file", "save the table as Parquet or CSV"),
    (b"RDX3\n", "an R data file", "save the table with write.csv"),
    (b"BZh91AY", "a bzip2 file", "unpack it"),
    (b"\xfd7zXZ", "an xz file", "unpack it"),
    (b"(\xb5/\xfd", "a zstd file", "unpack it"),
)
"""How files of other formats begin, what they are, and what to do."""
WEB_PAGE = re.compile(rb"\s*<(!doctype html|html|head|body|table)\b", re.IGNORECASE)


def read_table(path: str | os.PathLike[str], *, ids_alone: bool = False) -> TextTable:
    """Return the cells of a table, the header first, from a file that may be compressed by gzip.

    ====================  ======================================================================
    Parquet               by pyarrow
    Excel (``.xlsx``)     the first sheet, by openpyxl
    JSON                  a list of records, an object of columns, or one record per line (NDJSON)
    anything else         delimited text
                          (:func:`~metricmix.app.ingest.delimited_text.read_delimited`)
    ====================  ======================================================================

    The content decides, not the ending of the name. `ids_alone` says that one column will do.

    Raises
    ------
    TableFileError
        If it cannot be read, or is something else: a web page, an old workbook.
    MissingPackageError
        If pyarrow or openpyxl is needed, and not installed.
    """
    source = Path(path)
    suffix = suffix_of(source)
    with file_errors(source), open_bytes(source) as file:
        head = file.read(1024)
    if suffix == ".parquet" or head.startswith(b"PAR1"):
        return read_parquet(source)
    if suffix in (".xlsx", ".xlsm") or head.startswith(b"PK\x03\x04"):
        return read_workbook(source)
    for beginning, what, remedy in OTHER_FORMATS:
        if head.startswith(beginning):
            raise TableFileError(f"{source}: expected a table, found {what}; {remedy}")
    if WEB_PAGE.match(head):
        raise TableFileError(
            f"{source}: expected a table, found a web page (HTML); download the data itself, or "
            "save the table as CSV"
        )
    if suffix in (".json", ".ndjson", ".jsonl") or JSON_BEGINS.match(head.replace(b"\0", b"")):
        return read_json(source)
    return read_delimited(source, ids_alone=ids_alone)


def _text_of(value: Any) -> str:
    """Return a value as a cell: null and NaN are empty, a date is written as 2024-05-31."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime):
        value = value.date() if value == datetime(value.year, value.month, value.day) else value
    if isinstance(value, date):
        return str(value)
    return str(value).strip()


def read_json(source: Path) -> TextTable:
    """Read JSON as text, numbers as they are written.

    Records may lack keys. Objects in them become columns (``{"size": {"x": 1}}`` is ``size.x``),
    and lists of words or numbers become texts.
    """
    with file_errors(source), open_text(source) as file:
        text = file.read().removeprefix("\ufeff")
    numbers: Sequence[int] | None = None
    try:
        content = _parse_json(text)
    except ValueError as error:
        lines = [(k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip()]
        content, numbers = [], [k for k, _ in lines]
        for k, line in lines:
            try:
                content.append(_parse_json(line))
            except ValueError as wrong:
                if content:
                    message = f"line {k}: expected JSON in every line, but {wrong}"
                    raise TableFileError(f"{source}, {message}") from None
                raise TableFileError(
                    f"{source}: this is JSON, not CSV, and damaged: {error}"
                ) from None
    except RecursionError:
        raise TableFileError(f"{source}: expected records, found JSON nested too deeply") from None
    if isinstance(content, dict):
        content = _records_in(source, content)
    if not (isinstance(content, list) and content):
        raise TableFileError(f"{source}: expected a list of records, found other JSON")
    unit = "row" if numbers is None else "line"
    if all(isinstance(row, list) for row in content):  # the header is the first
        if len({len(row) for row in content}) > 1:
            raise TableFileError(f"{source}: expected lists of equal length, found different ones")
        rows = [[_json_cell(source, value) for value in row] for row in content]
        numbers = numbers or range(1, len(rows) + 1)
        return TextTable(source, tuple(map(tuple, rows)), tuple(numbers), unit)
    records = []
    for k, record in enumerate(content):
        if not isinstance(record, dict):
            number = k + 1 if numbers is None else numbers[k]
            raise TableFileError(
                f"{source}, {unit} {number}: expected a record such as "
                f'{{"id": "a", "size": 1}}, found {str(record)[:40]!r}'
            )
        records.append(dict(_flattened(source, record)))
    header = tuple(dict.fromkeys(name for record in records for name in record))
    cells = [tuple(record.get(name, "") for name in header) for record in records]
    numbers = [0, *(numbers or range(1, len(cells) + 1))]
    return _checked_table(source, [header, *cells], numbers, unit)


def _parse_json(text: str) -> Any:
    """Return JSON with its numbers as texts."""
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)


def _records_in(source: Path, content: Mapping[str, Any]) -> list[Any]:
    """Return the records of a JSON object: of columns, or of one list."""
    lists = {name: value for name, value in content.items() if isinstance(value, list)}
    tables = [name for name in lists if lists[name] and isinstance(lists[name][0], dict)]
    if len(tables) == 1:
        return list(lists[tables[0]])
    if len(tables) > 1:
        raise TableFileError(
            f"{source}: expected one list of records, found {len(tables)}: {', '.join(tables)}; "
            "save one of them as a separate file"
        )
    if {"columns", "data"} <= set(lists):  # as pandas writes it with orient="split"
        return [lists["columns"], *lists["data"]]
    if content and all(isinstance(value, dict) for value in content.values()):
        rows = list(dict.fromkeys(key for column in content.values() for key in column))
        numbered = rows == [str(k) for k in range(len(rows))]
        return [
            ({} if numbered else {"": key})
            | {name: column.get(key) for name, column in content.items()}
            for key in rows
        ]
    if len(lists) < len(content) or len({len(column) for column in lists.values()}) != 1:
        if all(not isinstance(value, list | dict) for value in content.values()):
            return [content]
        raise TableFileError(
            f"{source}: expected a list of records, or columns of equal length, found other JSON"
        )
    return [dict(zip(content, row, strict=True)) for row in zip(*content.values(), strict=True)]


def _flattened(
    source: Path, record: Mapping[str, Any], above: str = ""
) -> Iterable[tuple[str, str]]:
    """Yield the cells of a record by their names, those of inner objects with dots."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flattened(source, value, f"{above}{name}.")
        else:
            yield f"{above}{name}", _json_cell(source, value)


def _json_cell(source: Path, value: Any) -> str:
    """Return a JSON value as a cell; TableFileError if it is nested."""
    if isinstance(value, list):
        if any(isinstance(part, list | dict) for part in value):
            raise TableFileError(
                f"{source}: expected words and numbers in records, found lists in lists"
            )
        value = ", ".join(map(_text_of, value))
    return _text_of(value).encode(errors="replace").decode()  # halves of characters


def read_workbook(source: Path) -> TextTable:
    """Read the first sheet of an Excel workbook as text; cells with formulas have their values."""
    with file_errors(source), open_bytes(source) as file:
        content = io.BytesIO(file.read())
    try:
        inside = ZipFile(content).namelist()
    except array_file_errors():
        raise TableFileError(
            f"{source}: expected an Excel workbook (.xlsx), found something else"
        ) from None
    if not any(name.startswith("xl/") for name in inside):
        raise TableFileError(
            f"{source}: expected a table, found a zip archive or an OpenDocument sheet; unpack it, "
            "or save the sheet as .xlsx or CSV"
        )
    try:
        openpyxl: Any = importlib.import_module("openpyxl")
    except ImportError:
        raise MissingPackageError(
            f"{source}: this is an Excel workbook, which needs openpyxl: "
            "pip install 'metricmix[tables]', or save its sheet as CSV (UTF-8)"
        ) from None
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles
            book = openpyxl.load_workbook(content, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                row = [_text_of(value) for value in cells]
                if any(row):
                    rows.append(row)
                    numbers.append(number)
    except array_file_errors() as error:
        raise TableFileError(
            f"{source}: expected an Excel workbook (.xlsx), found it damaged "
            f"({' '.join(str(error).split())})"
        ) from None
    n_sheets = len(book.sheetnames)
    remark = f"the first of {n_sheets} sheets, {sheet.title!r}" if n_sheets > 1 else ""
    width = max(map(len, rows), default=0)
    rows = [row + [""] * (width - len(row)) for row in rows]
    used = [k for k in range(width) if any(row[k] for row in rows)]  # columns that hold something
    table = [tuple(row[k] for k in used) for row in rows]
    return _checked_table(source, table, numbers, "row", remark)


def read_parquet(source: Path) -> TextTable:
    """Read a Parquet file as text: null and NaN are empty, numbers read back as they were.

    The index of a pandas data frame, which Parquet stores last, becomes the first column.
    """
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError(
            f"{source}: Parquet needs pyarrow: pip install 'metricmix[tables]', or "
            "save the table as csv"
        ) from None
    with file_errors(source), open_bytes(source) as file:
        try:
            table = parquet.read_table(io.BytesIO(file.read()))
            names: list[str] = list(table.column_names)
            about = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
            index = [name for name in about.get("index_columns", []) if name in names]
            if len(index) == 1:
                names = index + [name for name in names if name not in index]
            columns = [
                [_text_of(value) for value in column.to_pylist()]
                for column in map(table.column, names)
            ]
        except (ValueError, OverflowError) as error:  # all of pyarrow's own are ValueErrors
            reason = str(error).splitlines()[0]
            raise TableFileError(f"{source}: expected a Parquet file, but {reason}") from None
    rows = [tuple(names), *zip(*columns, strict=True)]
    return _checked_table(source, rows, range(len(rows)), "row")


def _checked_table(
    source: Path,
    rows: Sequence[tuple[str, ...]],
    numbers: Sequence[int],
    unit: str,
    remark: str = "",
) -> TextTable:
    """Return rows of cells as a table; TableFileError without columns."""
    if not (rows and rows[0]):
        raise TableFileError(f"{source}: expected a table, found no columns")
    return TextTable(source, tuple(rows), tuple(numbers), unit, remark=remark)
