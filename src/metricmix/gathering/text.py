"""Tables of text: cells as they stand in a file, and where they stand."""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from metricmix.dissimilarity.matrix_files.cells import opened
from metricmix.exceptions import MatrixFileError, TableFileError
from metricmix.memory import check_room

__all__ = ["Cells", "named", "one_of", "read_cells", "readable"]

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
