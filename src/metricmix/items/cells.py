"""Cells and names: which texts stand for missing values, and names in error messages."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "SPREADSHEET_ERRORS",
    "did_you_mean",
    "is_known",
    "is_missing",
    "quoted",
    "shorten",
    "stem_of",
]

MANY_COLUMNS, MOSTLY_ZERO = 20, 0.6
"""Columns of numbers from which on they may be counts, as of words, and the share of zeros."""
MISSING = {"", "na", "nan", "n/a", "#n/a", "null", "none", "?", "-"}
SPREADSHEET_ERRORS = {"#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!"}


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty, or stands for a missing value: NA, NaN, null, ?, -."""
    return cell.strip().lower() in MISSING


def is_known(cell: str) -> bool:
    """Return whether a cell has a value."""
    return not (is_missing(cell) or cell in SPREADSHEET_ERRORS)


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Return the first names in quotes, as examples in a message.

    >>> quoted(["a", "b", "c", "d"])
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, names[:most]))


def did_you_mean(names: Sequence[str], got: str, most: int = 10) -> str:
    """Return the names that exist, the one that was given, and the one that may be meant.

    >>> did_you_mean(["id", "segment"], "Segment")
    "one of 'id', 'segment', got 'Segment'; did you mean 'segment'?"
    """
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(got.casefold(), list(folded), n=1)
    suggestion = f"; did you mean {folded[close[0]]!r}?" if close else ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"one of {quoted(names, most)}{more}, got {got!r}{suggestion}"


def shorten(names: Sequence[str], separator: str = ", ", most: int = 4) -> str:
    """Return the first names in a list.

    >>> shorten("abcdef")
    'a, b, c, d, ...'
    """
    return separator.join(names[:most]) + (", ..." if len(names) > most else "")


def stem_of(path: str | os.PathLike[str]) -> str:
    """Return a file's name without its ending.

    >>> stem_of("data/items.csv.gz")
    'items'
    """
    stem = Path(path).stem
    return Path(stem).stem if Path(path).suffix.lower() == ".gz" else stem
