"""The table of items: their ids, their labels, and what is known of each."""

from __future__ import annotations

import csv
import difflib
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from metricmix.app.matrix_files.text_tables import is_unknown, opened
from metricmix.exceptions import InputError, MatrixFileError, MissingPackageError, TableFileError
from metricmix.memory import check_room

__all__ = [
    "Cells",
    "ItemTable",
    "items_of",
    "named",
    "one_of",
    "read_cells",
    "read_items",
    "read_table",
    "readable",
]


SEPARATORS = "\t;,"
LISTED = 10
"""Names that a sentence lists."""
WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
LOOKED_AT = 20
"""Lines that tell what stands between cells."""
PER_BYTE = 10
"""Bytes of memory per byte of text: a short cell is a Python object of about 50."""


@dataclass(frozen=True)
class Cells:
    """A table as text, stripped: rows of equal width, and the place of each in its file.

    `unit` is what places count: lines of a text, rows of a Parquet file. `decimal_commas` says
    that commas do not separate cells, so that 3,5 may be a number.
    """

    source: Path
    rows: tuple[tuple[str, ...], ...]
    places: tuple[int, ...]
    unit: str = "line"
    decimal_commas: bool = False

    def where(self, row: int, column: str | None = None) -> str:
        """Return the file, the line and the column, as an error begins."""
        at = f"{self.source}, {self.unit} {self.places[row]}"
        return at if column is None else f"{at}, column {column!r}"


def read_cells(source: Path) -> Cells:
    """Read a text in UTF-8 (with or without a mark), or in UTF-16 that says so.

    Cells are separated by tabs, semicolons or commas: by whichever is, outside of quotes, in all
    of the first lines. Blank lines are skipped; every other line has as many cells as the first.

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
    with readable(source), opened(source) as file:
        separator = _separator(source, file)
        file.seek(0)
        reader = csv.reader(file, delimiter=separator)
        rows: list[tuple[str, ...]] = []
        places: list[int] = []
        before = 0
        for cells in reader:
            if "\0" in "".join(cells):
                raise TableFileError(
                    f"{source}, line {before + 1}: expected text, found a NUL character"
                )
            if any(cell.strip() for cell in cells):
                rows.append(tuple(cell.strip() for cell in cells))
                places.append(before + 1)
            before = reader.line_num
    table = Cells(source, tuple(rows), tuple(places), decimal_commas=separator != ",")
    _check_widths(table)
    return table


@contextmanager
def readable(source: Path) -> Iterator[None]:
    """Turn whatever keeps a file from being read into one sentence about it."""
    try:
        check_room(
            PER_BYTE * os.stat(source).st_size,
            what="reading the file",
            instead="leave out rows or columns",
            argument=str(source),
        )
        yield
    except OSError as error:
        raise TableFileError(f"{source}: {error.strerror or error}") from None
    except MatrixFileError as error:  # the reader of matrices found bytes that are no text
        raise TableFileError(f"{error}; save the file as UTF-8") from None
    except csv.Error as error:
        raise TableFileError(f"{source}: expected a table, but {error}") from None


def _separator(source: Path, lines: Iterator[str]) -> str:
    first = [line for line in islice(lines, LOOKED_AT) if line.strip()]
    if not first:
        raise TableFileError(f"{source}: expected a table, found an empty file")
    if "\0" in "".join(first):
        raise TableFileError(f"{source}: expected a table of text, found a binary file")
    bare = ["".join(line.split('"')[::2]) for line in first]
    for mark in SEPARATORS:
        if all(mark in line for line in bare):
            return mark
    for mark in SEPARATORS:  # a quoted cell may go over lines that have no mark at all
        if mark in bare[0]:
            return mark
    raise TableFileError(
        f"{source}, line 1: expected cells separated by commas, semicolons or tabs, found one "
        f"column, {first[0].strip()[:40]!r}; save the table with one of these between its cells"
    )


def _check_widths(table: Cells) -> None:
    width = len(table.rows[0])
    for k, row in enumerate(table.rows):
        if len(row) != width:
            raise TableFileError(
                f"{table.where(k)}: expected {width} cells, as in line {table.places[0]}, found "
                f"{len(row)}; put cells that hold a separator into quotes"
            )


def one_of(names: Sequence[str], got: str) -> str:
    """Return what a name could be, in a sentence that ends with what was got.

    >>> one_of(["id", "segment"], "Segment")
    "one of 'id', 'segment', got 'Segment'; did you mean 'segment'?"
    """
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(got.casefold(), list(folded), n=1)
    meant = f"; did you mean {folded[close[0]]!r}?" if close else ""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"one of {named(names, LISTED)}{more}, got {got!r}{meant}"


def named(ids: Sequence[str], most: int = 3) -> str:
    """Return a few ids as examples in a sentence.

    >>> named(["a", "b", "c", "d"])
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, ids[:most]))


# -- the table of items: their ids, their labels, and what is known of each ---------------------

CONTINUOUS = 0.8
"""Share of different values from which on fractions are no classes."""
MANY, MOSTLY_DIFFERENT = 20, 0.5
"""Classes, and their share in the labels, from which on they are no classes."""
FEW = 5
"""Labels that are too few to tell."""


@dataclass(frozen=True)
class ItemTable:
    """n items: ids, labels ('' where unlabelled; None without a label column), attribute cells."""

    cells: Cells
    ids: tuple[str, ...]
    labels: tuple[str, ...] | None
    attributes: dict[str, tuple[str, ...]]
    id_column: str = ""
    label_column: str | None = None

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.cells.rows[0]

    @property
    def source(self) -> Path:
        """The file it was read from."""
        return self.cells.source

    def where(self, item: int, column: str | None = None) -> str:
        """Return the place of an item in its file; its header is the first row."""
        return self.cells.where(item + 1, column)


def read_items(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    label: str | None = None,
) -> ItemTable:
    r"""Read a table of items: one row each, under a row of column names.

    Parameters
    ----------
    path : path
        ``.parquet`` is Parquet; anything else is a text as :func:`read_cells` reads it.
    id : str, optional
        The column of ids. Default: the first one, which alone may be without a name; if it is,
        and not the one of ids, it is left out.
    label : str, optional
        The column of labels; a cell that is empty, or says NA, NaN, N/A, null, none, ? or -, is an
        unlabelled item. All other columns are attributes.

    Raises
    ------
    TableFileError
        If it cannot be read; an id is missing or there twice; all labels are empty, or look
        continuous: fractions among them, and nearly all different. It says in which line.
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
    return items_of(read_table(path), id=id, label=label)


def read_table(path: str | os.PathLike[str]) -> Cells:
    """Return the cells of a table, its header first; see :func:`read_items`."""
    source = Path(path)
    return _parquet(source) if source.suffix.lower() == ".parquet" else read_cells(source)


def items_of(
    cells: Cells, *, id: str | None = None, label: str | None = None, labels_needed: bool = True
) -> ItemTable:
    """Return the items of a table of cells; `labels_needed` says that they are to be learned from.

    See :func:`read_items`.
    """
    source, header = cells.source, cells.rows[0]
    _check_header(cells)
    columns = dict(zip(header, zip(*cells.rows[1:], strict=True), strict=False))
    if not columns:
        raise TableFileError(f"{source}: expected at least one item under its header, found none")
    id_column = _check_column(source, header, header[0] if id is None else id, "id")
    ids = columns.pop(id_column)
    _check_ids(cells, ids, id_column)
    columns.pop("", None)  # the numbers of rows, as pandas writes them, say nothing of items
    if label is None:
        return ItemTable(cells, ids, None, columns, id_column)
    _check_column(source, header, label, "label")
    if label == id_column:
        raise InputError(
            argument="label", expected="another column than that of the ids", found=f"{label!r}"
        )
    cells_of_labels = columns.pop(label)
    labels = tuple("" if is_unknown(cell) else cell for cell in cells_of_labels)
    if labels_needed:
        _check_labels(cells, labels, label)
    return ItemTable(cells, ids, labels, columns, id_column, label)


def _parquet(source: Path) -> Cells:
    """Read a Parquet file as text: null and NaN are empty, numbers read back as they were."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError(
            f"{source}: Parquet needs pyarrow: pip install 'metricmix[tables]', or "
            "save the table as csv"
        ) from None
    with readable(source):
        try:
            table = parquet.read_table(source)
            names = _index_first(table)
            columns = [[_text(value) for value in table.column(name).to_pylist()] for name in names]
        except (ValueError, OverflowError) as error:  # all of pyarrow's own are ValueErrors
            reason = str(error).splitlines()[0]
            raise TableFileError(f"{source}: expected a Parquet file, but {reason}") from None
    if not names:
        raise TableFileError(f"{source}: expected a table, found no columns")
    rows = (tuple(names), *zip(*columns, strict=True))
    return Cells(source, rows, tuple(range(len(rows))), unit="row")


def _index_first(table: Any) -> list[str]:
    """Return the names of the columns, that of a pandas index, which is stored last, first."""
    names: list[str] = list(table.column_names)
    about = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in about.get("index_columns", []) if name in names]
    return index + [name for name in names if name not in index] if len(index) == 1 else names


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()


def _check_header(cells: Cells) -> None:
    seen: set[str] = set()
    for k, name in enumerate(cells.rows[0]):
        if not name:
            if k == 0:  # an index without a name
                continue
            raise TableFileError(
                f"{cells.where(0)}: expected a name for every column, found none for column "
                f"{k + 1}; if this is an item already, put a line of names above it"
            )
        if name in seen:
            raise TableFileError(
                f"{cells.where(0)}: expected every column once, found {name!r} twice; rename one, "
                "or if this is an item already, put a line of names above it"
            )
        seen.add(name)


def _check_column(source: Path, header: Sequence[str], name: str, argument: str) -> str:
    if name not in header:
        raise InputError(
            argument=argument, expected=f"a column of {source}, {one_of(header, name)}"
        )
    return name


def _check_ids(cells: Cells, ids: Sequence[str], column: str) -> None:
    seen: dict[str, int] = {}
    for k, item in enumerate(ids, 1):
        if not item:
            raise TableFileError(f"{cells.where(k, column)}: expected an id, found an empty cell")
        if item in seen:
            raise TableFileError(
                f"{cells.source}, {cells.unit}s {cells.places[seen[item]]} and {cells.places[k]}, "
                f"column {column!r}: expected every id once, found {item!r} twice; remove one, or "
                "name another column of ids"
            )
        seen[item] = k


def _check_labels(cells: Cells, labels: Sequence[str], column: str) -> None:
    source = cells.source
    given = [label for label in labels if label]
    if not given:
        raise TableFileError(
            f"{source}, column {column!r}: expected some labels, found {len(labels)} empty cells; "
            "fill in a few, or name another column"
        )
    if "-1" in labels:  # which estimators take for unlabelled
        raise TableFileError(
            f"{cells.where(labels.index('-1') + 1, column)}: expected a label, found -1, which "
            "stands for unlabelled; leave the cell empty, or call the class something else"
        )
    if _looks_continuous(given) or _hardly_classes(given):
        raise TableFileError(
            f"{source}, column {column!r}: expected labels, a few classes, found "
            f"{len(set(given))} different values in {len(given)} cells, such as {given[0]}; name "
            "another column, or put them into classes"
        )


def _looks_continuous(labels: Sequence[str]) -> bool:
    try:
        numbers = [float(label.replace(",", ".", 1)) for label in labels]
    except ValueError:
        return False
    fractions = any(not number.is_integer() for number in numbers)
    return fractions and len(labels) >= FEW and len(set(numbers)) > CONTINUOUS * len(labels)


def _hardly_classes(labels: Sequence[str]) -> bool:
    """Return whether there are many labels, and most of them are there once or so."""
    return len(set(labels)) > max(MANY, MOSTLY_DIFFERENT * len(labels))
