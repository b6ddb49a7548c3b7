"""Item tables in files: a row per item."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from metricmix.app.ingest.delimited_text import TextTable
from metricmix.app.ingest.table_files import read_table
from metricmix.exceptions import InputError, TableFileError
from metricmix.items.cells import SPREADSHEET_ERRORS, did_you_mean, is_missing
from metricmix.items.items import BY_ROW, Items, Origin, check_class_labels
from metricmix.items.number_formats import parse_cell

__all__ = ["items_from_table", "read_items"]

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
    columns = dict(zip(header, zip(*table.rows[1:], strict=True), strict=False))
    if not columns:
        raise TableFileError(
            f"{table.source}: expected at least one item under its header, found none"
        )
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
    origin = Origin(table.source, table.numbers[1:], table.unit, table.decimal_commas, table.remark)
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
    labels = tuple(
        "" if is_missing(cell) or cell in SPREADSHEET_ERRORS else cell
        for cell in columns.pop(label)
    )
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
    row_of: dict[str, int] = {}
    for k, item in enumerate(ids, 1):
        if not item:
            raise TableFileError(
                f"{table.where(k, column)}: expected an id, found an empty cell; fill it in, name "
                f"another column of ids, or {remedy}"
            )
        if item in row_of:
            raise TableFileError(
                f"{table.source}, {table.unit}s {table.numbers[row_of[item]]} and "
                f"{table.numbers[k]}, column {column!r}: expected every id once, found "
                f"{item!r} twice; remove one, name another column of ids, or {remedy}"
            )
        row_of[item] = k
