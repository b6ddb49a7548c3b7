"""From text to numbers, saying where it is none."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import MatrixFileError

__all__ = ["Numbers", "is_name", "is_unknown", "opened"]

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
