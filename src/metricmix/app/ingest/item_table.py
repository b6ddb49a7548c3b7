"""The item table: ids, labels and attributes of the items, from delimited text or Parquet."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metricmix.app.ingest.delimited_text import (
    TextTable,
    did_you_mean,
    file_errors,
    is_missing,
    parse_number,
    read_delimited,
)
from metricmix.exceptions import InputError, MissingPackageError, TableFileError

__all__ = [
    "ItemTable",
    "check_class_labels",
    "items_from_table",
    "read_items",
    "read_parquet",
    "read_table",
]

CONTINUOUS = 0.8
"""Share of distinct values above which fractions are not classes."""
MANY, MOSTLY_DISTINCT = 20, 0.5
"""Number of classes, and their share of the labels, above which they are not classes."""
FEW = 5
"""Labels that are too few to tell."""


@dataclass(frozen=True)
class ItemTable:
    """n items: ids, labels ('' where unlabelled; None without a label column), attribute cells."""

    table: TextTable
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    attributes: dict[str, tuple[str, ...]]
    id_column: str = ""
    label_column: str | None = None

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.table.rows[0]

    @property
    def source(self) -> Path:
        """The file it was read from."""
        return self.table.source

    def where(self, item: int, column: str | None = None) -> str:
        """Return the place of an item in its file; the header is the first row."""
        return self.table.where(item + 1, column)


def read_items(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    label: str | None = None,
) -> ItemTable:
    r"""Read an item table: one row per item, below a row of column names.

    Parameters
    ----------
    path : path
        ``.parquet`` is Parquet; anything else is delimited text
        (:func:`~metricmix.app.ingest.delimited_text.read_delimited`).
    id : str, optional
        The column of ids. Default: the first one. Only the first column may have no name; if it is
        not the column of ids, it is left out.
    label : str, optional
        The column of labels; a cell that is empty, or says NA, NaN, N/A, null, none, ? or -, is an
        unlabelled item. All other columns are attributes.

    Raises
    ------
    TableFileError
        If it cannot be read; an id is missing or occurs twice; all labels are empty, or look
        continuous: fractions among them, and nearly all distinct. It says in which line.
    InputError
        If there is no such column.
    MissingPackageError
        If it is Parquet, and pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "towns.csv"
    >>> _ = file.write_text("town,coast,people\nAa,yes,300\nBo,,41\n")
    >>> table = read_items(file, label="coast")
    >>> table.ids, table.labels, table.attributes
    (('Aa', 'Bo'), ('yes', ''), {'people': ('300', '41')})
    """
    return items_from_table(read_table(path), id=id, label=label)


def read_table(path: str | os.PathLike[str]) -> TextTable:
    """Return the cells of Parquet or delimited text, the header first."""
    source = Path(path)
    return read_parquet(source) if source.suffix.lower() == ".parquet" else read_delimited(source)


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
    with file_errors(source):
        try:
            table = parquet.read_table(source)
            names: list[str] = list(table.column_names)
            about = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
            index = [name for name in about.get("index_columns", []) if name in names]
            if len(index) == 1:
                names = index + [name for name in names if name not in index]
            columns = [
                ["" if v is None or v != v else str(v).strip() for v in column.to_pylist()]
                for column in map(table.column, names)
            ]
        except (ValueError, OverflowError) as error:  # all of pyarrow's own are ValueErrors
            reason = str(error).splitlines()[0]
            raise TableFileError(f"{source}: expected a Parquet file, but {reason}") from None
    if not names:
        raise TableFileError(f"{source}: expected a table, found no columns")
    rows = (tuple(names), *zip(*columns, strict=True))
    return TextTable(source, rows, tuple(range(len(rows))), unit="row")


def items_from_table(
    table: TextTable, *, id: str | None = None, label: str | None = None, need_labels: bool = True
) -> ItemTable:
    """Return the items of a table; `need_labels` states that labels are required for learning.

    See :func:`read_items`.
    """
    header = table.rows[0]
    seen: set[str] = set()
    for k, name in enumerate(header):
        if not name and k > 0:  # the first may be an index without a name
            raise TableFileError(
                f"{table.where(0)}: expected a name for every column, found none for column "
                f"{k + 1}; if this is an item already, put a line of names above it"
            )
        if name in seen:
            raise TableFileError(
                f"{table.where(0)}: expected every column once, found {name!r} twice; rename one, "
                "or if this is an item already, put a line of names above it"
            )
        seen.add(name)
    columns = dict(zip(header, zip(*table.rows[1:], strict=True), strict=False))
    if not columns:
        raise TableFileError(
            f"{table.source}: expected at least one item under its header, found none"
        )
    id_column = header[0] if id is None else id
    for argument, column in (("id", id_column), ("label", label)):
        if column is not None and column not in header:
            raise InputError(
                argument=argument,
                expected=f"a column of {table.source}, {did_you_mean(header, column)}",
            )
    ids = columns.pop(id_column)
    row_of: dict[str, int] = {}
    for k, item in enumerate(ids, 1):
        if not item:
            raise TableFileError(
                f"{table.where(k, id_column)}: expected an id, found an empty cell"
            )
        if item in row_of:
            raise TableFileError(
                f"{table.source}, {table.unit}s {table.numbers[row_of[item]]} and "
                f"{table.numbers[k]}, column {id_column!r}: expected every id once, found "
                f"{item!r} twice; remove one, or name another column of ids"
            )
        row_of[item] = k
    columns.pop("", None)  # an index without a name, as pandas writes it, is no attribute
    if label is None:
        return ItemTable(table, ids, None, columns, id_column)
    if label == id_column:
        raise InputError(
            argument="label", expected="another column than that of the ids", found=f"{label!r}"
        )
    labels = tuple("" if is_missing(cell) else cell for cell in columns.pop(label))
    if need_labels:
        check_class_labels(table, labels, label)
    return ItemTable(table, ids, labels, columns, id_column, label)


def check_class_labels(table: TextTable, labels: Sequence[str], column: str) -> None:
    """Raise TableFileError unless there are labels, and few enough classes."""
    given = [label for label in labels if label]
    if not given:
        raise TableFileError(
            f"{table.source}, column {column!r}: expected some labels, found {len(labels)} empty "
            "cells; fill in a few, or name another column"
        )
    if "-1" in labels:  # estimators take -1 for unlabelled
        raise TableFileError(
            f"{table.where(labels.index('-1') + 1, column)}: expected a label, found -1, which "
            "stands for unlabelled; leave the cell empty, or call the class something else"
        )
    classes = set(given)
    numbers = {parse_number(label) for label in classes}
    has_fractions = any(x is not None and not x.is_integer() for x in numbers)
    is_numeric = len(given) >= FEW and None not in numbers
    continuous = is_numeric and has_fractions and len(numbers) > CONTINUOUS * len(given)
    if continuous or len(classes) > max(MANY, MOSTLY_DISTINCT * len(given)):
        raise TableFileError(
            f"{table.source}, column {column!r}: expected labels, a few classes, found "
            f"{len(classes)} different values in {len(given)} cells, such as {given[0]}; name "
            "another column, or put them into classes; numbers are predicted with --target number"
        )
