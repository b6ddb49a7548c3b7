"""Cells and names: texts that stand for numbers or missing values, and names in error messages."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from metricmix.typing import Floats

__all__ = [
    "SPREADSHEET_ERRORS",
    "did_you_mean",
    "is_known",
    "is_missing",
    "is_plainly_numeric",
    "is_text",
    "parse_cell",
    "parse_number",
    "plain_numbers",
    "quoted",
    "safe_cell",
    "shorten",
    "stem_of",
    "suggestion",
    "unknown_cells",
]

MANY_COLUMNS, MOSTLY_ZERO = 20, 0.6
"""Columns of numbers from which on they may be counts, as of words, and the share of zeros."""
MISSING = {"", "na", "nan", "n/a", "#n/a", "null", "none", "?", "-"}
CODES_INSIDE = re.compile(r"\x000\d+\x00")
LONGEST = 40
"""Characters of a cell that may be a number or a date."""
LONGEST_MISSING = max(map(len, MISSING))
SPREADSHEET_ERRORS = {"#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!"}

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How cells begin that spreadsheets take for formulas."""
LONGEST_UNKNOWN = max(map(len, MISSING | SPREADSHEET_ERRORS))

SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-", "\u2019": "'"})
NUMBERS = {
    ".": re.compile(
        r"[-+]?(?:\d+|[1-9]\d{0,2}([,' ])\d{3}(?:\1\d{3})*)(?:\.\d*)?(?:[eE][-+]?\d+)?"
    ),
    ",": re.compile(r"[-+]?(?:\d+|[1-9]\d{0,2}([.' ])\d{3}(?:\1\d{3})*)(?:,\d*)?(?:[eE][-+]?\d+)?"),
}
"""Numbers by their decimal sign; thousands may be apart."""


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty, or stands for a missing value: NA, NaN, null, ?, -."""
    cell = cell.strip()
    return len(cell) <= LONGEST_MISSING and cell.lower() in MISSING


def is_known(cell: str) -> bool:
    """Return whether a cell has a value."""
    return not (is_missing(cell) or cell in SPREADSHEET_ERRORS)


def unknown_cells(cells: Sequence[str]) -> set[str]:
    """Return the different cells that have no value.

    >>> unknown_cells(["3", "NA", "NA"])
    {'NA'}
    """
    doubtful = compress(cells, map(LONGEST_UNKNOWN.__ge__, map(len, map(str.strip, cells))))
    return {cell for cell in set(doubtful) if not is_known(cell)}


def plain_numbers(cells: Sequence[str]) -> Floats | None:
    """Return cells as numbers, NaN where missing; None unless all others are written plainly.

    Plain numbers have a decimal point, no thousands separators and no unit. A column of a million
    takes about 0.2 s.

    >>> plain_numbers(["1.5", "NA", "2e3"]), plain_numbers(["1.5", "2 kg"])
    (array([1.5e+00,     nan, 2.0e+03]), None)
    """
    if "_" in "".join(cells):  # Python would read 10_000 as a number
        return None
    try:
        return np.array([cell or "nan" for cell in cells], dtype=np.float64)
    except ValueError:
        unknown = unknown_cells(cells)
    if not unknown - {""}:
        return None
    try:
        return np.array(["nan" if cell in unknown else cell for cell in cells], dtype=np.float64)
    except ValueError:
        return None


def is_plainly_numeric(cells: Sequence[str], decimal_commas: bool) -> bool:
    """Return whether plain numbers can only be numbers: not codes, and not read otherwise.

    They differ, none has zeros in front, and where 1.234 could be a thousand, one has no such form.
    """
    text = "\0".join(["", *cells, ""])
    if cells.count(cells[0]) == len(cells) or CODES_INSIDE.search(text):
        return False
    if max(map(len, cells)) > LONGEST:
        return False
    return (
        not decimal_commas
        or "." not in text
        or any("." in cell and not NUMBERS[","].fullmatch(cell) for cell in cells)
    )


def parse_number(cell: str, decimal: str = ".", *, thousands: bool = True) -> float | None:
    """Return a number, perhaps an infinite one; None if it is not written so.

    All numbers in text are parsed here: cells of tables, weights of edges, entries of matrices.
    Where a comma could be either sign and no column decides, `thousands` is False.

    >>> parse_number("1,234.5"), parse_number("1.234,5", ","), parse_number("1.5", ",")
    (1234.5, 1234.5, None)
    >>> parse_number("1,234", thousands=False), parse_number("1,234", ",", thousands=False)
    (None, 1.234)
    """
    if "_" in cell:  # Python would read 10_000 as a number
        return None
    if decimal == "." or "." not in cell:
        try:
            return float(cell if decimal == "." else cell.replace(",", ".", 1))
        except ValueError:
            pass
    if not thousands:
        return None
    cell = cell.translate(SPACES)
    match = NUMBERS[decimal].fullmatch(cell)
    if match is None:
        return None
    return float(cell.replace(match[1] or " ", "").replace(decimal, "."))


def parse_cell(cell: str, signs: str = ",.") -> float:
    """Return a number with one of the decimal signs, NaN if it is missing, inf if it is a text.

    >>> parse_cell("2,5"), parse_cell("NA"), parse_cell("1_000"), parse_cell("2,5", ".")
    (2.5, nan, inf, inf)
    """
    if is_missing(cell):
        return math.nan
    parsed = (parse_number(cell, sign, thousands=False) for sign in signs)
    return next((value for value in parsed if value is not None), math.inf)


def is_text(cell: str) -> bool:
    """Return whether a cell is neither missing nor a finite number."""
    return math.isinf(parse_cell(cell))


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Return the first names in quotes, as examples in a message.

    >>> quoted(["a", "b", "c", "d"])
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, names[:most]))


def safe_cell(text: str) -> str:
    """Return a cell that spreadsheets do not take for a formula: with an apostrophe before it.

    >>> safe_cell("=1+1"), safe_cell("-2.5"), safe_cell("tea")
    ("'=1+1", '-2.5', 'tea')
    """
    return f"'{text}" if text.startswith(FORMULA) and parse_number(text) is None else text


def did_you_mean(names: Sequence[str], got: str, most: int = 10) -> str:
    """Return the names that exist, the one that was given, and the one that may be meant.

    >>> did_you_mean(["id", "segment"], "Segment")
    "one of 'id', 'segment', got 'Segment'; did you mean 'segment'?"
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"one of {quoted(names, most)}{more}, got {got!r}{suggestion(names, got)}"


def suggestion(names: Iterable[str], got: str) -> str:
    """Return the name that may be meant, as the end of a message; "" if none is close.

    >>> suggestion(["fruit", "tool"], "friut")
    "; did you mean 'fruit'?"
    """
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(got.casefold(), list(folded), n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


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
