"""Matrices as tables of text: csv, tsv, and columns with spaces between."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from metricmix.app.matrix_files.arrays import MatrixFile, check_names, check_size
from metricmix.exceptions import MatrixFileError
from metricmix.typing import Floats

__all__ = [
    "Layout",
    "Numbers",
    "Row",
    "is_empty",
    "is_name",
    "is_unknown",
    "most_plausible_layout",
    "opened",
    "read_table",
    "write_table",
]


UNKNOWN = {"", "na", "nan", "n/a", "#n/a", "null", "none", "?", "-"}


@contextmanager
def opened(source: Path) -> Iterator[TextIO]:
    """Open a text in UTF-8, or in UTF-16 if it says so, as spreadsheets do."""
    with open(source, "rb") as raw:
        marked = raw.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        with open(source, encoding="utf-16" if marked else "utf-8-sig", newline="") as file:
            yield file
    except UnicodeError:
        where = "" if marked else f", line {_first_undecodable(source)}"
        raise MatrixFileError(
            f"{source}{where}: expected text in UTF-8, found bytes that are none"
        ) from None


def _first_undecodable(source: Path) -> int:
    with open(source, "rb") as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def is_unknown(cell: str) -> bool:
    """Return whether a cell says that its entry is unknown."""
    return cell.strip().lower() in UNKNOWN


def is_name(cell: str) -> bool:
    """Return whether a cell is neither unknown nor a number, decimal commas allowed."""
    if is_unknown(cell):
        return False
    if "_" in cell:  # which Python takes for 10_000, and people for a name
        return True
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return True
    return False


class Numbers:
    """Reads cells as numbers, unknown ones as NaN.

    Where commas do not separate cells they may be decimal ones; but 1,234 beside 0.5 could as well
    be more than a thousand, and is refused.
    """

    def __init__(self, source: Path, *, decimal_commas: bool) -> None:
        self.source, self.decimal_commas = source, decimal_commas
        self._comma: tuple[str, str] | None = None
        self._point = False

    def read(self, line: int, cells: Sequence[str], offset: int) -> NDArray[np.float64]:
        """Return cells as numbers; the first one is in column `offset` + 1.

        Raises
        ------
        MatrixFileError
            If one is no finite number; it says in which line and column.
        """
        if self.decimal_commas and not self._point:
            self._point = any("." in cell for cell in cells)
        try:
            if any("_" in cell for cell in cells):
                raise ValueError
            found = np.array(cells, dtype=np.float64)
        except ValueError:
            found = np.array(
                [self._number(line, k + 1 + offset, cell) for k, cell in enumerate(cells)]
            )
        infinite = np.isinf(found)
        if infinite.any():
            k = int(infinite.argmax())
            raise MatrixFileError(
                f"{self.source}, line {line}, column {k + 1 + offset}: expected a finite number, "
                f"found {cells[k].strip()!r}; leave the cell empty if it is unknown"
            )
        if self._comma is not None and self._point:
            where, text = self._comma
            raise MatrixFileError(
                f"{self.source}, {where}: expected either decimal commas or decimal points, found "
                f"both, as in {text!r}"
            )
        return found

    def _number(self, line: int, column: int, cell: str) -> float:
        text = cell.strip()
        if is_unknown(text):
            return np.nan
        where = f"line {line}, column {column}"
        if not is_name(text):
            if "," not in text:
                return float(text)
            if self.decimal_commas:
                self._comma = self._comma or (where, text)
                return float(text.replace(",", "."))
        raise MatrixFileError(f"{self.source}, {where}: expected a number, found {text[:40]!r}")


# -- matrices as tables of text: csv, tsv, and columns with spaces between ----------------------

SPACE = " "


def read_table(source: Path) -> MatrixFile:
    """Read a table; its shape and its first row tell whether rows and columns are named."""
    try:
        with opened(source) as file:
            separator = _separator(source, file)
            numbers = Numbers(source, decimal_commas=separator != ",")
            lines = _lines(file, separator)
            head_line, head, after = _head(source, lines, separator)
            rows: list[Row] = []
            for line, cells in after:
                if not rows:
                    check_size(source, len(cells))
                rows.append(Row(line, cells[0], numbers.read(line, cells[1:], 1)))
    except csv.Error as error:
        raise MatrixFileError(f"{source}: expected a table, but {error}") from None
    return _matrix(source, (head_line, head), rows, numbers)


def write_table(separator: str) -> Callable[[BinaryIO, Floats, Sequence[str] | None], None]:
    """Return a function that writes a table; its numbers read back as they were."""

    def write(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(text, delimiter=separator, lineterminator="\n")
        if items is not None:
            table.writerow(["", *items])
        for k, row in enumerate(values):
            numbers = [repr(value) for value in row.tolist()]
            table.writerow(numbers if items is None else [items[k], *numbers])
        text.detach()

    return write


# -- lines ---------------------------------------------------------------------------------------


def _separator(source: Path, file: TextIO) -> str:
    """Return what stands between cells: what is in the second line and the third, not in quotes.

    Other than the first, they hold numbers however the table is laid out.
    """
    text = (line for line in file if line.strip() and not line.startswith("#"))
    first = [line.rstrip("\r\n") for line in islice(text, 3)]
    file.seek(0)
    if not first:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    bare = ["".join(line.split('"')[::2]) for line in first[1:] or first]
    return next((mark for mark in "\t;," if all(mark in line for line in bare)), SPACE)


def _lines(file: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, as cells."""
    if separator == SPACE:
        stripped = (line.strip().replace("\t", " ") for line in file)
        reader = csv.reader(stripped, delimiter=SPACE, skipinitialspace=True)
    else:
        reader = csv.reader(file, delimiter=separator)
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield reader.line_num, cells


def _head(
    source: Path, lines: Iterator[tuple[int, list[str]]], separator: str
) -> tuple[int, list[str], Iterator[tuple[int, list[str]]]]:
    """Return the first line that is no remark, and an iterator over those after it.

    A remark starts with #. That could also be a corner with names; but then the next line is as
    long, and not by chance as among words with spaces between.
    """
    found = next(lines, None)
    if found is None:
        raise MatrixFileError(f"{source}: expected a matrix, found an empty file")
    line, cells = found
    for after in lines:
        alike = separator != SPACE and len(after[1]) - len(cells) in (0, 1)
        if alike or not cells[0].startswith("#"):
            return line, cells, chain([after], lines)
        line, cells = after
    return line, cells, iter(())


# -- matrix --------------------------------------------------------------------------------------


def _matrix(
    source: Path, head: tuple[int, list[str]], rows: list[Row], numbers: Numbers
) -> MatrixFile:
    line, cells = head
    width = _width(cells, rows)
    while rows and is_empty(rows[-1]) and len(rows[-1].others) + 1 != width:
        rows.pop()
    for row in rows:
        if len(row.others) + 1 != width:
            raise MatrixFileError(
                f"{source}, line {row.line}: expected {width} cells, as in other lines, found "
                f"{len(row.others) + 1}"
            )
    if len(cells) == width - 1:
        cells = ["", *cells]  # a header without a corner, as some programs write it
    if len(cells) != width:
        raise MatrixFileError(
            f"{source}, line {line}: expected {width} cells, as in other lines, found {len(cells)}"
        )
    layout = most_plausible_layout(cells, rows)
    if layout is None:
        raise MatrixFileError(
            f"{source}: expected a square matrix, found {len(rows) + 1} lines of {width} cells"
        )
    rows = rows[: len(rows) - layout.left_behind]
    columns = None
    if layout.header:
        columns = [cell.strip() for cell in cells[layout.named : width - layout.trailing]]
    else:
        rows = [Row(line, cells[0], numbers.read(line, cells[1:], 1)), *rows]
    n = len(rows)
    values = np.empty((n, n))
    for k, row in enumerate(rows):
        if layout.named:
            values[k] = row.others[:n]
        else:
            values[k, :1] = numbers.read(row.line, [row.first], 0)
            values[k, 1:] = row.others[: n - 1]
    if not layout.named:
        return MatrixFile(values, None if columns is None else tuple(columns))
    names = [row.first.strip() for row in rows]
    check_names(source, names, n, [row.line for row in rows])
    if columns is not None and columns != names:
        values = values[:, _places(source, names, columns)]
    return MatrixFile(values, tuple(names))


def _width(head: Sequence[str], rows: Sequence[Row]) -> int:
    """Return how many cells most lines have."""
    counts = Counter(len(row.others) + 1 for row in rows)
    counts[len(head)] += 1
    return counts.most_common(1)[0][0]


def _places(source: Path, names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return where the columns of the rows' names are: their order may be another one."""
    place = {name: k for k, name in enumerate(columns)}
    for name in names:
        if name not in place:
            raise MatrixFileError(
                f"{source}: expected the same names in the first row and in the first column, "
                f"found {name!r} in the first column only"
            )
    return [place[name] for name in names]


# -- where names and numbers are in a table that does not say so --------------------------------


class Row(NamedTuple):
    """A line of the table: its first cell, which may be a name, and the others as numbers."""

    line: int
    first: str
    others: NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """What a table has around its numbers."""

    header: bool
    named: bool
    trailing: bool = False
    """Whether all lines end with a separator."""

    left_behind: int = 0
    """Lines of separators only after the last row, as spreadsheets leave them."""


def most_plausible_layout(head: Sequence[str], rows: Sequence[Row]) -> Layout | None:
    """Return the layout that makes the numbers a square, or None if there is none.

    Of several, it is the one in which no name is a number gone wrong, the diagonal is one, and
    every item has a name, the same in both places, or some number.
    """
    width = len(head)
    empty = 0
    while empty < len(rows) and is_empty(rows[len(rows) - 1 - empty]):
        empty += 1
    ends_empty = (
        width > 1 and is_unknown(head[-1]) and all(np.isnan(row.others[-1]) for row in rows)
    )
    fitting = [
        layout
        for left in range(empty + 1)
        for trailing in ((False, True) if ends_empty else (False,))
        for header, named in ((False, False), (True, True), (True, False), (False, True))
        for layout in [Layout(header, named, trailing, left)]
        if width - trailing - named == len(rows) + 1 - left - header > 0
    ]
    return max(fitting, key=lambda layout: _plausibility(layout, head, rows), default=None)


def is_empty(row: Row) -> bool:
    """Return whether nothing is known of a row."""
    return is_unknown(row.first) and bool(np.isnan(row.others).all())


def _plausibility(
    layout: Layout, head: Sequence[str], rows: Sequence[Row]
) -> tuple[bool, int, bool, bool]:
    rows = rows[: len(rows) - layout.left_behind]
    first = [head[0], *(row.first for row in rows)]
    sound = True
    if not layout.header:
        sound = not any(map(is_name, head[layout.named :]))
    elif layout.named:  # the corner may be empty or a word
        sound = is_unknown(head[0]) or is_name(head[0])
    if not layout.named:
        sound = sound and not any(map(is_name, first[layout.header :]))
    diagonal = [
        (first[k] if column == 0 else head[column])
        if k == 0 or column == 0
        else rows[k - 1].others[column - 1]
        for k in range(layout.header, len(first))
        for column in [k - layout.header + layout.named]
    ]
    above = [cell.strip() for cell in head[layout.named : len(head) - layout.trailing]]
    beside = [cell.strip() for cell in first[layout.header :]]
    full = not (layout.header and "" in above) and not (layout.named and "" in beside)
    if layout.header and layout.named:
        full = full and set(above) == set(beside)
    elif rows and not layout.trailing and not layout.left_behind and len(head) > 1:
        # An item without any number: rather separators that were left behind.
        full = full and not (is_empty(rows[-1]) and all(np.isnan(row.others[-1]) for row in rows))
    # Where all else is alike: 1, 2, 3 are rather the names of rows than a row.
    count = len(above)
    counting = layout.header and layout.named and count > 2
    counting = counting and above in ([str(k + start) for k in range(count)] for start in (0, 1))
    return sound, _is_diagonal(diagonal), full, counting


def _is_diagonal(cells: Sequence[str | float]) -> int:
    """Return 2 if cells, or numbers, are all 0, 1 if they are all unknown, and 0 otherwise."""
    if any(isinstance(cell, str) and is_name(cell) for cell in cells):
        return 0
    values = [
        (np.nan if is_unknown(cell) else float(cell.replace(",", ".", 1)))
        if isinstance(cell, str)
        else cell
        for cell in cells
    ]
    if all(value == 0 for value in values):
        return 2
    return int(all(np.isnan(value) for value in values))
