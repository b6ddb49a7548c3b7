"""The item table: ids, labels and attributes of the items."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metricmix.app.ingest.delimited_text import (
    SPREADSHEET_ERRORS,
    TextTable,
    did_you_mean,
    is_missing,
    parse_number,
)
from metricmix.app.ingest.table_files import read_table
from metricmix.exceptions import InputError, TableFileError
from metricmix.typing import Floats

__all__ = ["BY_ROW", "ItemTable", "check_class_labels", "items_from_table", "read_items"]

BY_ROW = "row"
"""What stands for row numbers instead of a column of ids."""
CONTINUOUS = 0.8
"""Share of distinct values above which fractions are not classes."""
MANY, MOSTLY_DISTINCT = 20, 0.5
"""Number of classes, and their share of the labels, above which they are not classes."""
FEW = 5
"""Labels that are too few to tell."""


@dataclass(frozen=True)
class ItemTable:
    """n items: ids, labels ('' where unlabelled; None without a label column), attribute cells.

    `labels_left_out` are labels that count as unlabelled, each with the id of its item. `targets`
    are the labels as numbers, NaN where unknown, if they are a numeric target.
    """

    table: TextTable
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    attributes: dict[str, tuple[str, ...]]
    id_column: str | None = ""
    label_column: str | None = None
    labels_left_out: tuple[tuple[str, str], ...] = ()
    targets: Floats | None = None

    @property
    def named_by(self) -> str:
        """What the ids are: a column, or (where `id_column` is None) row numbers."""
        return "row number" if self.id_column is None else repr(self.id_column)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.table.rows[0]

    @property
    def source(self) -> Path:
        """The file it was read from."""
        return self.table.source

    def without_single_labels(self) -> ItemTable:
        """Return the items with the labels left out that only one of them has."""
        labels = self.labels or ()
        sizes = Counter(labels)
        pairs = zip(labels, self.ids, strict=False)
        single = tuple((label, item) for label, item in pairs if label and sizes[label] == 1)
        if not single:
            return self
        kept = tuple(label if sizes[label] > 1 else "" for label in labels)
        return replace(self, labels=kept, labels_left_out=single)

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
        See :func:`~metricmix.app.ingest.table_files.read_table` for the formats.
    id : str, optional
        The column of ids. Default: the first one. Only the first column may have no name; if it is
        not the column of ids, it is left out. ``"row"``, unless a column is called so, numbers the
        items instead: 1 is the first one, whatever its line.
    label : str, optional
        The column of labels; a cell that is empty, or says NA, NaN, N/A, null, none, ? or -, or is
        an error of a spreadsheet such as #REF!, is an unlabelled item. All other columns are
        attributes.

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
    >>> table.ids, table.labels, table.attributes
    (('Aa', 'Bo'), ('yes', ''), {'people': ('300', '41')})
    """
    return items_from_table(read_table(path), id=id, label=label)


def items_from_table(
    table: TextTable,
    *,
    id: str | None = None,
    label: str | None = None,
    need_labels: bool = True,
    first_row: int = 1,
) -> ItemTable:
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
    by_row = id == BY_ROW and id not in header
    id_column = None if by_row else header[0] if id is None else id
    for argument, column in (("id", id_column), ("label", label)):
        if column is not None and column not in header:
            raise InputError(
                argument=argument,
                expected=f"a column of {table.source}, {did_you_mean(header, column)}",
            )
    if id_column is None:
        ids = tuple(str(first_row + k) for k in range(len(table.rows) - 1))
    else:
        ids = columns.pop(id_column)
        _check_ids(table, ids, id_column)
    columns.pop("", None)  # an index without a name, as pandas writes it, is no attribute
    if label is None:
        return ItemTable(table, ids, None, columns, id_column)
    if label == id_column:
        raise InputError(
            argument="label", expected="another column than that of the ids", found=f"{label!r}"
        )
    labels = tuple(
        "" if is_missing(cell) or cell in SPREADSHEET_ERRORS else cell
        for cell in columns.pop(label)
    )
    if need_labels:
        check_class_labels(table, labels, label)
    return ItemTable(table, ids, labels, columns, id_column, label)


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
