"""The table of items: their ids, their labels, and what is known of each."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metricmix.dissimilarity.matrix_files.cells import is_unknown
from metricmix.exceptions import InputError, MissingPackageError, TableFileError
from metricmix.gathering.text import Cells, one_of, read_cells, readable

__all__ = ["ItemTable", "items_of", "read_items", "read_table"]

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
        raise InputError(f"label: expected another column than that of the ids, got {label!r}")
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
        raise InputError(f"{argument}: expected a column of {source}, {one_of(header, name)}")
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
