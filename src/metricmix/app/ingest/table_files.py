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
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from metricmix.app.ingest.delimited_text import (
    TextTable,
    content_errors,
    open_text,
    read_bytes,
    read_delimited,
    suffix_of,
)
from metricmix.exceptions import MissingPackageError, TableFileError

__all__ = ["read_json", "read_parquet", "read_table", "read_workbook"]

JSON_BEGINS = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*(\{\s*[\"}]|\[\s*[\[{\"\]])")
"""How JSON begins, after a byte order mark and without the zeros of UTF-16."""
OTHER_FORMATS = (
    (rb"\xd0\xcf\x11\xe0", "a workbook of Excel 2003 or older", "save it as .xlsx or CSV"),
    (rb"%PDF-", "a PDF document", "save its table as CSV"),
    (
        rb"(?i)\s*<(!doctype html|html|head|body|table)\b",
        "a web page (HTML)",
        "download the data itself, or save the table as CSV",
    ),
)
"""How files of other formats begin, what they are, and what to do."""


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
    TooLargeError
        If it does not fit into memory.
    MissingPackageError
        If pyarrow or openpyxl is needed, and not installed.
    """
    source = Path(path)
    suffix, content = suffix_of(source), read_bytes(source)
    head = content[:1024]
    if suffix == ".parquet" or head.startswith(b"PAR1"):
        return read_parquet(source, content)
    if suffix in (".xlsx", ".xlsm") or head.startswith(b"PK\x03\x04"):
        return read_workbook(source, content)
    for beginning, what, remedy in OTHER_FORMATS:
        if re.match(beginning, head):
            raise TableFileError(f"{source}: expected a table, found {what}; {remedy}")
    if suffix in (".json", ".ndjson", ".jsonl") or JSON_BEGINS.match(head.replace(b"\0", b"")):
        return read_json(source, content)
    return read_delimited(source, content, ids_alone=ids_alone)


def _text_of(value: Any) -> str:
    """Return a value as a cell: null and NaN are empty, a date is written as 2024-05-31."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime):
        value = value.date() if value == datetime(value.year, value.month, value.day) else value
    if isinstance(value, date):
        return str(value)
    return str(value).strip()


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
    return _checked_table(source, [header, *rows], [0, *numbers], unit)


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
            value = ", ".join(map(_text_of, value))
        yield f"{above}{name}", _text_of(value).encode(errors="replace").decode()  # surrogates


# -- binary formats ------------------------------------------------------------------------------


def read_workbook(source: Path, content: bytes) -> TextTable:
    """Read the first sheet of an Excel workbook as text; cells with formulas have their values."""
    try:
        inside = ZipFile(io.BytesIO(content)).namelist()
    except content_errors():
        raise TableFileError(
            f"{source}: expected an Excel workbook (.xlsx), found something else"
        ) from None
    if not any(name.startswith("xl/") for name in inside):
        raise TableFileError(
            f"{source}: expected a table, found a zip archive or an OpenDocument sheet; unpack it, "
            "or save the sheet as .xlsx or CSV"
        )
    openpyxl = _import("openpyxl", source, "Excel workbooks need openpyxl")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            sheet = book.worksheets[0]
            rows = [[_text_of(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    except content_errors() as error:
        raise TableFileError(
            f"{source}: expected an Excel workbook (.xlsx), found it damaged "
            f"({' '.join(str(error).split())})"
        ) from None
    n_sheets = len(book.sheetnames)
    remark = f"the first of {n_sheets} sheets, {sheet.title!r}" if n_sheets > 1 else ""
    columns = [column for column in zip_longest(*rows, fillvalue="") if any(column)]
    filled = [(k, row) for k, row in enumerate(zip(*columns, strict=True), 1) if any(row)]
    numbers, cells = [k for k, _ in filled], [row for _, row in filled]
    return _checked_table(source, cells, numbers, "row", remark)


def read_parquet(source: Path, content: bytes) -> TextTable:
    """Read a Parquet file as text: null and NaN are empty, numbers read back as they were.

    The index of a pandas data frame, which Parquet stores last, becomes the first column.
    """
    parquet = _import("pyarrow.parquet", source, "Parquet needs pyarrow")
    try:
        table = parquet.read_table(io.BytesIO(content))
        names: list[str] = list(table.column_names)
        about = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
        index = [name for name in about.get("index_columns", []) if name in names]
        if len(index) == 1:
            names = index + [name for name in names if name not in index]
        columns = [list(map(_text_of, table.column(name).to_pylist())) for name in names]
    except (ValueError, OverflowError, OSError) as error:
        reason = " ".join(str(error).split())
        raise TableFileError(f"{source}: expected a Parquet file, but {reason[:80]}") from None
    rows = [tuple(names), *zip(*columns, strict=True)]
    return _checked_table(source, rows, range(len(rows)), "row")


def _import(package: str, source: Path, need: str) -> Any:
    """Return the module of a reader; MissingPackageError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingPackageError(
            f"{source}: {need}: pip install 'metricmix[tables]', or save the table as CSV (UTF-8)"
        ) from None


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
