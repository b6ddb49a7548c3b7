"""Tables in files of any format, and their items: delimited text, JSON, Excel, Parquet; gzip."""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from metricmix.app.ingest.delimited_text import (
    TextTable,
    check_width,
    content_errors,
    read_bytes,
    read_delimited,
    read_json,
    suffix_of,
    text_of,
)
from metricmix.exceptions import InputError, MissingPackageError, TableFileError
from metricmix.items.cells import did_you_mean, parse_cell, unknown_cells
from metricmix.items.items import BY_ROW, Items, Origin, check_class_labels

__all__ = [
    "items_from_table",
    "read_items",
    "read_parquet",
    "read_table",
    "read_workbook",
]

ROWS_FROM = {BY_ROW: None, "row0": 0, "row1": 1}
"""The number of the first row, where it is stated; else 1, or 0 if edge files count from 0."""


def read_items(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    label: str | None = None,
    missing: Sequence[str] = (),
) -> Items:
    r"""Read an item table: one row per item, below a row of column names.

    Parameters
    ----------
    path : path
        See :func:`~metricmix.app.ingest.table_files.read_table` for the formats.
    id : str, optional
        The column of ids. Default: the first one. Only the first column may have no name; if it is
        not the column of ids, it is left out. ``"row"``, unless a column is called so, numbers the
        items instead: 1 is the first one, whatever its line (0 if edge files count from 0,
        :func:`numbered_like`). ``"row0"`` and ``"row1"`` state the first number.
    label : str, optional
        The column of labels; a cell that is empty, or says NA, NaN, N/A, null, none, ? or -, or is
        an error of a spreadsheet such as #REF!, is an unlabelled item. All other columns are
        attributes.
    missing : sequence of str
        More texts that stand for missing values in labels and attributes, such as ``"-999"``;
        equal numbers do, too (``-999.0``).

    Raises
    ------
    TableFileError
        If it cannot be read; an id is missing or occurs twice; all labels are empty, or look
        continuous: fractions among them, and nearly all distinct. It says in which line.
    InputError
        If there is no such column.
    MissingPackageError
        If pyarrow (for Parquet) or openpyxl (for Excel) is needed, and not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "towns.csv"
    >>> _ = file.write_text("town,coast,people\nAa,yes,300\nBo,,41\n")
    >>> table = read_items(file, label="coast")
    >>> table.ids, table.labels, table.columns
    (('Aa', 'Bo'), ('yes', ''), {'people': ('300', '41')})
    """
    return items_from_table(read_table(path), id=id, label=label, missing=missing)


def items_from_table(
    table: TextTable,
    *,
    id: str | None = None,
    label: str | None = None,
    need_labels: bool = True,
    first_row: int = 1,
    missing: Sequence[str] = (),
) -> Items:
    """Return the items of a table; `need_labels` states that labels are required for learning.

    See :func:`read_items`. Row numbers begin with `first_row`.
    """
    header = table.rows[0]
    seen: set[str] = set()
    for k, name in enumerate(header):
        if not name and k > 0:  # the first may be an index without a name
            raise TableFileError(
                f"{table.where(0)}: expected a name for every column, found none for column "
                f"{k + 1}; if this line is an item, add a header line above it"
            )
        if name in seen:
            raise TableFileError(
                f"{table.where(0)}: expected every column once, found {name!r} twice; rename one, "
                "or if this line is an item, add a header line above it"
            )
        seen.add(name)
    if len(table.rows) == 1:
        raise TableFileError(
            f"{table.source}: expected at least one item under its header, found none"
        )
    columns = {column[0]: column[1:] for column in table.columns}
    by_row = id in ROWS_FROM and id not in header
    id_column = None if by_row else header[0] if id is None else id
    for argument, column in (("id", id_column), ("label", label)):
        if column is not None and column not in header:
            raise InputError(
                argument=argument,
                expected=f"a column of {table.source}, {did_you_mean(header, column)}",
            )
    stated = ROWS_FROM[str(id)] if by_row else None
    if id_column is None:
        start = first_row if stated is None else stated
        ids = tuple(str(start + k) for k in range(len(table.rows) - 1))
    else:
        ids = columns.pop(id_column)
        _check_ids(table, ids, id_column)
    columns.pop("", None)  # an index without a name, as pandas writes it, is no attribute
    missing = tuple(missing)
    if missing:
        columns = {name: without(cells, missing) for name, cells in columns.items()}
    origin = replace(table.origin, numbers=table.origin.numbers[1:])
    about: Any = {
        "origin": origin,
        "id_column": id_column,
        "label_column": label,
        "first_row": stated,
        "missing": missing,
    }
    if label is None:
        return Items(ids, columns, **about)
    if label == id_column:
        raise InputError(
            argument="label", expected="another column than that of the ids", found=f"{label!r}"
        )
    labels = columns.pop(label)
    unknown = unknown_cells(labels)
    labels = tuple("" if cell in unknown else cell for cell in labels)
    if need_labels:
        check_class_labels(origin, labels, label)
    return Items(ids, columns, labels, **about)


def without(cells: Iterable[str], missing: Sequence[str]) -> tuple[str, ...]:
    """Return cells with those empty that say one of `missing`, or the same number.

    >>> without(["3", "-999.0", "unknown"], ["-999", "unknown"])
    ('3', '', '')
    """
    texts = {text.strip() for text in missing}
    numbers = {x for text in texts if not math.isinf(x := parse_cell(text))}
    empty = {cell for cell in set(cells) if cell in texts or parse_cell(cell) in numbers}
    return tuple("" if cell in empty else cell for cell in cells)


def _check_ids(table: TextTable, ids: Sequence[str], column: str) -> None:
    """Raise TableFileError unless every item has an id of its own."""
    remedy = (
        f"pass --id {BY_ROW} to number the items 1 to {len(ids)} (edge files then refer to these "
        "numbers)"
    )
    different = set(ids)
    if len(different) == len(ids) and "" not in different:
        return
    row_of: dict[str, int] = {}
    for k, item in enumerate(ids, 1):
        if not item:
            raise TableFileError(
                f"{table.where(k, column)}: expected an id, found an empty cell; fill it in, name "
                f"another column of ids, or {remedy}"
            )
        if item in row_of:
            raise TableFileError(
                f"{table.source}, {table.origin.unit}s {table.origin.numbers[row_of[item]]} and "
                f"{table.origin.numbers[k]}, column {column!r}: expected every id once, found "
                f"{item!r} twice; remove one, name another column of ids, or {remedy}"
            )
        row_of[item] = k


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
    for beginning, what, remedy in OTHER_FORMATS:
        if re.match(beginning, head):
            raise TableFileError(f"{source}: expected a table, found {what}; {remedy}")
    if suffix == ".parquet" or head.startswith(b"PAR1"):
        table = read_parquet(source, content)
    elif suffix in (".xlsx", ".xlsm") or head.startswith(b"PK\x03\x04"):
        table = read_workbook(source, content)
    elif suffix in (".json", ".ndjson", ".jsonl") or JSON_BEGINS.match(head.replace(b"\0", b"")):
        table = read_json(source, content)
    else:
        table = read_delimited(source, content, ids_alone=ids_alone)
    if not any(table.rows[:1]):
        raise TableFileError(f"{source}: expected a table, found no columns")
    check_width(source, table.rows[0])
    return table


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
            rows = [[text_of(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    except content_errors() as error:
        raise TableFileError(
            f"{source}: expected an Excel workbook (.xlsx), found it damaged "
            f"({' '.join(str(error).split())})"
        ) from None
    n_sheets = len(book.sheetnames)
    remark = f"the first of {n_sheets} sheets, {sheet.title!r}" if n_sheets > 1 else ""
    columns = [column for column in zip_longest(*rows, fillvalue="") if any(column)]
    filled = [(k, row) for k, row in enumerate(zip(*columns, strict=True), 1) if any(row)]
    numbers, cells = tuple(k for k, _ in filled), tuple(row for _, row in filled)
    return TextTable(cells, Origin(source, numbers, remark=remark))


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
        columns = [list(map(text_of, table.column(name).to_pylist())) for name in names]
    except (ValueError, OverflowError, OSError) as error:
        reason = " ".join(str(error).split())
        raise TableFileError(f"{source}: expected a Parquet file, but {reason[:80]}") from None
    rows = (tuple(names), *zip(*columns, strict=True))
    return TextTable(rows, Origin(source, tuple(range(len(rows)))))


def _import(package: str, source: Path, need: str) -> Any:
    """Return the module of a reader; MissingPackageError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingPackageError(
            f"{source}: {need}: pip install 'metricmix[tables]', or save the table as CSV (UTF-8)"
        ) from None
