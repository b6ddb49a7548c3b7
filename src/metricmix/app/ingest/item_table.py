"""The item table: ids, labels and attributes of the items."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

__all__ = [
    "BY_ROW",
    "ItemTable",
    "check_class_labels",
    "id_hint",
    "items_from_table",
    "numbered_like",
    "read_items",
    "row_start",
]

BY_ROW = "row"
"""What stands for row numbers instead of a column of ids."""
ROWS_FROM = {BY_ROW: None, "row0": 0, "row1": 1}
"""The number of the first row, where it is stated; else 1, or 0 if edge files count from 0."""
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
    are the labels as numbers, NaN where unknown, if they are a numeric target. `first_row` is the
    number of the first row, where ids are row numbers and it was stated; `numbering` says why they
    begin with 0, where it was not. `missing` are texts that were stated to be missing values.
    """

    table: TextTable
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    attributes: dict[str, tuple[str, ...]]
    id_column: str | None = ""
    label_column: str | None = None
    labels_left_out: tuple[tuple[str, str], ...] = ()
    targets: Floats | None = None
    first_row: int | None = None
    numbering: str = ""
    missing: tuple[str, ...] = ()

    @property
    def named_by(self) -> str:
        """What the ids are: a column, or (where `id_column` is None) row numbers."""
        if self.id_column is None:
            return "row number, from 0" if self.ids[0] == "0" else "row number"
        return repr(self.id_column)

    @property
    def id_option(self) -> str:
        """What ``--id`` takes to name the items so."""
        if self.id_column is not None:
            return self.id_column
        if self.first_row is not None:
            return f"{BY_ROW}{self.first_row}"
        return "row0" if self.ids[0] == "0" else BY_ROW

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
    missing: Sequence[str] = (),
) -> ItemTable:
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
    >>> table.ids, table.labels, table.attributes
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
    about: Any = {"first_row": stated, "missing": missing}
    if label is None:
        return ItemTable(table, ids, None, columns, id_column, **about)
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
    return ItemTable(table, ids, labels, columns, id_column, label, **about)


def without(cells: Iterable[str], missing: Sequence[str]) -> tuple[str, ...]:
    """Return cells with those empty that say one of `missing`, or the same number.

    >>> without(["3", "-999.0", "unknown"], ["-999", "unknown"])
    ('3', '', '')
    """
    texts = {text.strip() for text in missing}
    numbers = {x for text in texts if (x := parse_number(text)) is not None}
    empty = {
        cell: cell in texts or (bool(numbers) and parse_number(cell) in numbers)
        for cell in set(cells)
    }
    return tuple("" if empty[cell] else cell for cell in cells)


# -- row numbers ---------------------------------------------------------------------------------


def row_start(ids: Iterable[str], n: int) -> int | None:
    """Return whether ids count n rows from 0 or from 1; None if they do not tell.

    From 0: 0 is among them, n is not. From 1: n is among them, 0 is not.

    >>> row_start(["0", "2"], 3), row_start(["3", "2"], 3), row_start(["1", "2"], 3)
    (0, 1, None)
    """
    names = set(ids)
    first, last = "0" in names, str(n) in names
    return None if first == last else 0 if first else 1


def numbered_like(items: ItemTable, files: Mapping[str, Sequence[str]]) -> ItemTable:
    """Return the items with the row numbers that edge files use, from 0 or from 1.

    Parameters
    ----------
    items : ItemTable
    files : mapping of files to the ids in them

    Raises
    ------
    TableFileError
        If files count from different numbers, or from another one than the ids of the table,
        which are 0 to n - 1 or 1 to n: all edges would be one row off.
    """
    n, ids = len(items.ids), set(items.ids)
    ours = row_start(ids, n)
    if ours is None or ids != {str(ours + k) for k in range(n)}:
        return items
    starts = {file: row_start(names, n) for file, names in files.items()}
    from_0, from_1 = ([file for file in starts if starts[file] == k] for k in (0, 1))
    if from_0 and from_1:
        raise TableFileError(
            f"{from_0[0]}: expected row numbers from 1, as in {from_1[0]}, which has {n} and not "
            f"0, found numbers from 0: it has 0 and not {n}; renumber one of the two"
        )
    other = (from_1 if ours == 0 else from_0)[:1]
    if not other:
        return items
    theirs = 1 - ours
    found = f"ids from {theirs}: it has {theirs * n} and not {(1 - theirs) * n}"
    if items.id_column is None and items.first_row is None:
        sentence = f"items are numbered 0 to {n - 1}, since {other[0]} has {found}"
        new = {item: str(int(item) - 1) for item in items.ids}
        left_out = tuple((label, new[item]) for label, item in items.labels_left_out)
        renumbered = replace(items, ids=tuple(new.values()), labels_left_out=left_out)
        return replace(renumbered, numbering=sentence)
    remedy = (
        f"pass --id row{theirs}"
        if items.id_column is None
        else f"renumber one of the two, or, if {theirs * n} is no item, remove its edges"
    )
    raise TableFileError(
        f"{other[0]}: expected ids of {items.source}, {ours} to {ours + n - 1}, found {found}, as "
        f"if all were one off; {remedy}"
    )


def id_hint(items: ItemTable, names: Sequence[str], by_row: str = BY_ROW) -> str:
    """Return which ``--id`` may match the ids in a file that does not match; "" if none does.

    Another column that has most of them, else `by_row` if all are row numbers, from 0 or from 1.
    """
    theirs, n = set(names), len(items.ids)
    if items.id_column is None or not theirs:
        return ""
    for column, cells in items.attributes.items():
        ours = set(cells)
        if len(ours) == n and 2 * len(theirs & ours) > len(theirs):
            return f"pass --id {shlex.quote(column)}, the column that has them"
    rows = {str(k) for k in range(n + 1)}
    return f"if these are row numbers, pass --id {by_row}" if theirs <= rows else ""


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
