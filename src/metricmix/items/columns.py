"""Column types: what each attribute is taken for."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import compress

import numpy as np

from metricmix.exceptions import InputError, TableFileError
from metricmix.items.cells import (
    MANY_COLUMNS,
    MOSTLY_ZERO,
    SPREADSHEET_ERRORS,
    did_you_mean,
    is_known,
    is_missing,
    is_plainly_numeric,
)
from metricmix.items.dates import iso_days
from metricmix.items.items import Items
from metricmix.items.number_formats import (
    ORDERS,
    CellFormat,
    Reading,
    date_reading,
    number_hint,
    number_reading,
    split_unit,
)
from metricmix.state import require, stored
from metricmix.typing import Floats
from metricmix.validation import check_choice

__all__ = [
    "Column",
    "are_counts",
    "infer_columns",
    "infer_kind",
    "is_block",
    "numbers_of",
    "unreadable_cells",
]

NUMERIC = ("number", "plain", "date", "count")
DECIMALS = {"decimal-point": ".", "decimal-comma": ","}
DATES = {name: order for order, name in ORDERS.items() if order != "ymd"}
KINDS = (*NUMERIC, "category", "text", "ignore", *DECIMALS, *DATES)
"""What may be stated; the last four are numbers and dates whose cells could be read in two ways."""
CODE = re.compile(r"0\d+")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
LARGEST_NUMBER = 1e150
"""Numbers whose squares are finite."""
CUT = 3.0
"""Spreads at which scaled columns are cut off."""
MOST_CATEGORIES = 50
SHOWN = 3
"""Cells of a column that are reported each."""
CODES = (-99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that often stand for missing values."""
CODE_AWAY = 2.0
"""How far such a number must be from the median of the others, in cut-off distances."""
FAR_SHARE = 0.02
"""Share of values that are cut off, from which on a column has a heavy tail."""


@stored("Column")
@dataclass(frozen=True)
class Column:
    """The kind of a column, why it was chosen, and how many cells are missing.

    Attributes
    ----------
    name, kind, why : str
    n_missing : int
        Cells without a value, those that cannot be read among them.
    format : CellFormat
        How its numbers or dates are written.
    centre, reach, spread : float
        Of a numeric column: its median, how far from it values are cut off, and the standard
        deviation of what is left.
    n_unreadable : int
        Cells that are neither empty nor what the column holds.
    unreadable : tuple of str
        Where the first of these are, and what they say.
    tail : str
        What is cut off of a heavy tail.
    units : str
        How many cells have a unit, if others have none.
    code : str
        A number that looks like a code for missing values, how often it occurs, and what to do.
    """

    name: str
    kind: str
    why: str
    n_missing: int
    format: CellFormat = field(default_factory=CellFormat)
    centre: float = 0.0
    reach: float = 0.0
    spread: float = 1.0
    n_unreadable: int = 0
    unreadable: tuple[str, ...] = ()
    tail: str = ""
    code: str = ""
    units: str = ""

    def __post_init__(self) -> None:
        scaled = math.isfinite(self.centre) and 0 <= self.reach < math.inf
        scaled = scaled and 0 < self.spread < math.inf
        scaled = scaled and self.reach <= LARGEST_NUMBER * self.spread
        require(scaled, "expected a column with a scale")

    def remarks(self) -> Iterator[str]:
        """Yield units of some cells, cells that cannot be read, codes, and what is cut off."""
        if self.units:
            yield f"column {self.name!r}: {self.units}"
        yield from self.unreadable
        if self.n_unreadable > len(self.unreadable):
            more = self.n_unreadable - len(self.unreadable)
            yield f"column {self.name!r}: {more:,} more cells of this kind"
        if self.code:
            yield f"column {self.name!r}: {self.code}"
        if self.tail:
            yield f"column {self.name!r}: {self.tail}"


def infer_columns(items: Items, kinds: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """Return the kind of every attribute.

    ============  =====================================  ======================================
    kind          a column of this kind has              and becomes
    ============  =====================================  ======================================
    ``number``    numbers in nearly all cells that are   itself less its median, without far
                  known, perhaps with a unit, decimal    values, at variance 1; 0 where missing
                  commas or thousands separators
    ``date``      dates as 2024-05-31, perhaps with a    days, scaled as numbers are
                  time, 31.5.2024 or 5/31/2024, in
                  nearly all cells that are known
    ``plain``     (only if stated)                       itself, the median where missing
    ``count``     with 20 such columns at least, whole   TF-IDF: those that few items have count
                  numbers, 60 % of all of them zero,     more, at norm 1; 0 where missing
                  half of the others below 10
    ``text``      mostly different values, most with a   TF-IDF of its 5000 most frequent words,
                  space in them                          at norm 1; nothing where missing
    ``category``  anything else                          one 0/1 feature per value, the missing
                                                         one included; beyond 50 values the rare
                                                         ones share one
    ``ignore``    one value only, or values no two       nothing: all pairs of items would be
                  items share                            equally far
    ============  =====================================  ======================================

    Cells that are empty, or say NA, NaN, N/A, null, none, ? or -, are missing; so are errors of
    spreadsheets such as #REF!, and cells of a numeric column that are no finite number, which are
    reported. Far values are those more than three times the distance between quartiles over 1.349
    (for normal data, the standard deviation) from the median: they are moved in to there, so that
    one of them does not stretch the column. Two items differ by about the same in columns of any
    kind: their expected squared distance is about 2 at most in each.

    Parameters
    ----------
    items : Items
    kinds : mapping of column names to kinds, optional
        Kinds that are stated: a number that is a code, say, is a category. ``p*`` stands for all
        columns that begin with p. ``decimal-comma``, ``decimal-point``, ``day/month/year`` and
        ``month/day/year`` are numbers and dates that are written so.

    Raises
    ------
    InputError
        If there is no such column, or no such kind.
    TableFileError
        If fewer than half of the cells are what was stated.
    """
    stated = dict(items.dtypes)
    for pattern, kind in (kinds or {}).items():
        check_choice(kind, KINDS, name=f"kinds[{pattern!r}]")
        names = [pattern] if pattern in items.columns else []
        names = names or [name for name in items.columns if fnmatchcase(name, pattern)]
        if not names:
            none = f"no name without columns, got {pattern!r}"
            expected = did_you_mean(list(items.columns), pattern) if items.columns else none
            raise InputError(argument="kinds", expected=expected)
        stated |= dict.fromkeys(names, kind)
    columns: list[Column] = []
    commas = items.origin.decimal_commas
    for name, values in items.columns.items():
        if not isinstance(values, tuple | np.ndarray):
            kind, why = stated.get(name, "count"), f"a sparse table of {values.shape[1]} columns"
            check_choice(kind, ("count", "ignore"), name=f"kinds[{name!r}], {why}")
            columns.append(Column(name, kind, why, 0))
            continue
        mask = items.known(name)
        n_missing = len(values) - int(mask.sum())
        if not mask.any():
            columns.append(Column(name, "ignore", "no cell has a value", n_missing))
            continue
        if not isinstance(values, tuple):
            columns.append(typed_column(items, name, stated.get(name), n_missing))
            continue
        known = list(compress(values, mask.tolist())) if n_missing else values
        if name in stated:
            column = _stated_column(items, name, stated[name], known)
        else:
            plain = items.plain_numbers(name) is not None
            kind, why, reading = infer_kind(known, commas, name, plain=plain)
            found = reading or Reading(CellFormat())
            notes = [why, *found.notes]
            if found.question is not None:
                other, example = found.question
                stating = shlex.quote(f"{name}={other}")
                notes.append(f"to read {example!r} otherwise, pass --kind {stating}")
            column = Column(name, kind, "; ".join(notes), 0, found.format, units=found.units)
        columns.append(replace(column, n_missing=n_missing))
    single = [c for c in columns if not is_block(items, c)]
    numbers = {c.name: numbers_of(items, c) for c in single if c.kind in NUMERIC}
    inferred = {c.name for c in columns if c.kind == "number" and c.name not in stated}
    if len(inferred) >= MANY_COLUMNS and are_counts(numbers[name] for name in inferred):
        why = f"one of {len(inferred)} columns of whole numbers, most of them zero"
        columns = [replace(c, kind="count", why=why) if c.name in inferred else c for c in columns]
    scaled = []
    for column in columns:
        messages = tuple(unreadable_cells(items, [column], numbers))
        column = replace(column, n_unreadable=len(messages), unreadable=messages[:SHOWN])
        is_numeric = column.name in numbers
        scaled.append(_scaled(column, numbers[column.name]) if is_numeric else column)
    return tuple(scaled)


def order_values(items: Items, name: str, stated: str | None = None) -> Floats:
    """Return a column of numbers or dates, NaN where missing; InputError if it is neither.

    >>> items = Items(("a", "b", "c"), {"seen": ("2024-05-31", "", "2023-01-01")})
    >>> order_values(items, "seen").tolist()
    [19874.0, nan, 19358.0]
    """
    alone = replace(items, columns={name: items.columns[name]})
    (column,) = infer_columns(alone, {name: stated} if stated else None)
    formats, unread = (CellFormat(), CellFormat(order="dmy")), None
    if column.kind in NUMERIC:
        numbers = numbers_of(alone, column)
        cells = [items.texts(name)[k] for k in np.flatnonzero(np.isnan(numbers))[:1000]]
        unread = next((cell for cell in cells if is_known(cell)), None)
        if unread is None:
            return numbers
    else:
        cells = [cell for cell in items.texts(name) if is_known(cell)]
        unread = next((c for c in cells if all(one.parse(c) is None for one in formats)), None)
    why = column.why if unread is None else f"{unread[:40]!r} is neither"
    raise InputError(
        argument="--order",
        expected="a column of numbers or dates that differ",
        found=f"{name!r}: {why}",
        remedy="" if unread is None else "leave the cell empty if it is unknown",
    )


def typed_column(items: Items, name: str, stated: str | None, n_missing: int) -> Column:
    """Return a column of numbers: its type, or what was stated, says what it is taken for."""
    values = np.asarray(items.columns[name])
    known = values[~np.isnan(values)]
    kind, why = items.dtypes.get(name, "number"), "by its type"
    if stated is not None:
        kind, why = ("number" if stated in DECIMALS else stated), "as stated"
        kind = "date" if stated in DATES else kind
    elif known.min() == known.max():
        kind, why = "ignore", f"one value only, {known[0]:g}"
    order = "ymd" if kind == "date" else ""  # how new items may have it in a file
    return Column(name, kind, why, n_missing, CellFormat(order=order))


def infer_kind(
    cells: Sequence[str], decimal_commas: bool = False, name: str = "COLUMN", *, plain: bool = False
) -> tuple[str, str, Reading | None]:
    """Return the kind of a column with these known cells, the reason, and how they are written.

    `name` is what the column is called in the reason. `plain` says that all cells are plain
    numbers, which saves parsing them again.

    >>> infer_kind(["2024-05-31", "2024-06-01"])[:2]
    ('date', 'dates in all cells that are known')
    """
    if plain and is_plainly_numeric(cells, decimal_commas):
        return "number", "numbers in all cells that are known", Reading(CellFormat())
    counts = Counter(cells)
    distinct = len(counts)
    if distinct == 1:
        return "ignore", f"one value only, {cells[0]!r}", None
    kinds = ("number", "date")
    for kind in kinds if np.isnan(iso_days(cells[:1])[0]) else kinds[::-1]:
        if kind == "number":
            reading = number_reading(counts, commas=decimal_commas)
        else:
            reading = date_reading(counts)
        if reading is not None:
            n_read = reading.n_read
            if n_read is None:
                n_read = sum(counts[c] for c in counts if reading.format.parse(c) is not None)
            if kind == "number" and any(CODE.fullmatch(cell) for cell in counts):
                why = f"{distinct} different values, some with zeros in front: codes"
                return "category", why, None
            many = "all" if n_read == len(cells) else f"{n_read:,} of {len(cells):,}"
            return kind, f"{kind}s in {many} cells that are known", reading
    hint = number_hint(counts, name, commas=decimal_commas)
    spaced = sum(" " in cell and re.search(r"\w", cell) is not None for cell in cells)
    if 2 * spaced > len(cells) and 2 * distinct > len(cells):
        return "text", f"{distinct} different values, most with spaces{hint}", None
    if distinct == len(cells):
        why = f"{distinct} values that no two items share, such as {cells[0]!r}"
        return "ignore", why + hint, None
    why = f"{distinct} different values"
    if distinct > MOST_CATEGORIES and 2 * distinct > len(cells):
        why += ", hardly any of them shared"
    return "category", why + hint, None


def _stated_column(items: Items, name: str, kind: str, known: Sequence[str]) -> Column:
    """Return a column of a stated kind; TableFileError if half of its cells are not."""
    counts, reading = Counter(known), None
    if kind in DATES or kind == "date":
        reading = date_reading(counts, order=DATES.get(kind), least=0.5)
        kind = "date"
    elif kind in DECIMALS or kind in NUMERIC:
        commas, decimal = items.origin.decimal_commas, DECIMALS.get(kind)
        reading = number_reading(counts, commas=commas, decimal=decimal, least=0.5)
        kind = "number" if kind in DECIMALS else kind
    if kind in NUMERIC and reading is None:
        plain = CellFormat(order="dmy" if kind == "date" else "")
        cells = items.texts(name)
        item = next(
            (k for k, cell in enumerate(cells) if is_known(cell) and plain.parse(cell) is None), 0
        )
        expected = "a date such as 2024-05-31" if kind == "date" else "a finite number"
        raise TableFileError(
            f"{items.where(item, name)}: expected {expected}, found {cells[item][:40]!r}; leave "
            "the cell empty if it is unknown"
        )
    found = reading or Reading(CellFormat())
    why = "; ".join(["as stated", *found.notes])
    return Column(name, kind, why, 0, found.format, units=found.units)


def is_block(items: Items, column: Column) -> bool:
    """Return whether a column is a sparse table of counts."""
    return hasattr(items.values(column.name), "indptr")


def numbers_of(items: Items, column: Column) -> Floats:
    """Return the values of a numeric column, NaN where there is no finite number."""
    cells = items.values(column.name)
    if not isinstance(cells, tuple):
        return np.where(np.abs(cells) <= LARGEST_NUMBER, cells, np.nan)
    values = items.plain_numbers(column.name) if column.format == CellFormat() else None
    if values is None:
        values = items.formatted_numbers(column.name, column.format)
    return np.where(np.abs(values) <= LARGEST_NUMBER, values, np.nan)


def _scaled(column: Column, values: Floats) -> Column:
    """Return a numeric column with its scale and its heavy tail."""
    known = values[~np.isnan(values)]
    column = replace(column, n_missing=len(values) - len(known))
    if column.kind == "count" or not len(known):
        return column
    centre, reach, spread = scale_of(known)
    tail = "" if column.kind == "plain" else _heavy_tail(known, centre, reach)
    code = "" if column.kind == "date" else code_for_missing(known)
    return replace(column, centre=centre, reach=reach, spread=spread, tail=tail, code=code)


def code_for_missing(known: Floats) -> str:
    """Return which number looks like a code for missing values, and what to do; "" if none does.

    That is one of -99, -999, 9999 and the like that lies twice as far from the median of the other
    values as these are cut off, beyond all of them; 99 and -99 must occur twice.

    >>> code_for_missing(np.array([1.2, 3.4, 2.2, 1.9, -999.0]))
    '-999 in 1 cell looks like a code for missing values; if so, pass --missing -999'
    """
    for code in CODES:
        times = int((known == code).sum())
        others = known[known != code]
        if times < (2 if abs(code) < 100 else 1) or len(np.unique(others)) < 3:
            continue
        centre, reach, _ = scale_of(others)
        beyond = code < others.min() or code > others.max()
        if beyond and abs(code - centre) > CODE_AWAY * reach:
            cells = f"{times:,} cell{'s look' if times > 1 else ' looks'}"
            return (
                f"{code:g} in {cells} like a code for missing values; if so, pass --missing "
                f"{code:g}"
            )
    return ""


def scale_of(values: Floats) -> tuple[float, float, float]:
    """Return the median of values, how far from it they are cut off, and their deviation then.

    They are cut off at three spreads, told from the quartiles; the standard deviation of what
    remains is that of the values themselves where none lies so far.
    """
    middle, spread, _ = centre_and_spread(values[:, None])
    centre, reach = float(middle[0]), CUT * float(spread[0])
    deviation = float(np.std(np.clip(values - centre, -reach, reach)))
    return centre, reach, deviation or 1.0


def centre_and_spread(X: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the median and spread of each column, and its spread without rare values.

    The spread is the distance between quartiles, as a multiple of that of the normal distribution;
    where half of the values are equal, the standard deviation of what lies within three of them,
    and where these are all equal, of all (the last result is then 0).
    """
    middle = np.median(X, axis=0)
    low, high = np.percentile(X, [25, 75], axis=0)
    spread = (high - low) / 1.349
    common = spread.copy()
    flat = np.flatnonzero(spread == 0)
    if len(flat):
        off = X[:, flat] - middle[flat]
        off /= np.maximum(np.abs(off).max(axis=0), 1e-300)
        size = np.maximum(np.abs(X[:, flat] - middle[flat]).max(axis=0), 0.0)
        spread[flat] = off.std(axis=0)
        for _ in range(3):  # a single far value must not set the spread of the others
            rest = np.where(np.abs(off) > CUT * spread[flat], 0.0, off).std(axis=0)
            spread[flat] = np.where(rest > 0, rest, spread[flat])
        common[flat] = rest * size
        spread[flat] *= size
    return middle, spread, common


def _heavy_tail(known: Floats, centre: float, reach: float) -> str:
    """Return how many values are cut off, if these are many or far; two values have no tail."""
    away = np.abs(known - centre)
    far = int((away > reach).sum())
    if (far <= FAR_SHARE * len(known) and away.max() <= 2 * reach) or len(np.unique(known)) < 3:
        return ""
    return (
        f"heavy tail: {far:,} of {len(known):,} values lie more than {CUT:g} spreads from the "
        f"median, up to {known[away.argmax()]:g}, and are cut off there"
    )


def unreadable_cells(
    items: Items, columns: Iterable[Column], values: Mapping[str, Floats] | None = None
) -> Iterator[str]:
    """Yield where cells are neither empty nor what their columns hold, and what they say.

    `values` are those of numeric columns, if they are known.
    """
    for column in columns:
        cells = items.columns.get(column.name, ())
        if not isinstance(cells, tuple):
            continue
        expected = "a value"
        if column.kind in NUMERIC and cells:
            expected = str(column.format)
            found = numbers_of(items, column) if values is None else values[column.name]
            missing = np.flatnonzero(np.isnan(found)).tolist()
            where = [k for k in missing if cells[k] and not is_missing(cells[k])]
        else:
            where = [k for k, cell in enumerate(cells) if cell in SPREADSHEET_ERRORS]
        units = {k: "" if column.format.order else split_unit(cells[k])[1] for k in where}
        alone = sum(map(bool, units.values())) == 1 and len(cells) > 1
        for k in where:
            problem = f"is not {expected}"
            if units[k] and column.format.bare:
                problem = f"has another unit ({units[k]}) than {column.format.unit}"
            elif units[k] and not column.format.unit:
                others = "the other cells have" if alone else "the column is read as numbers with"
                problem = f"has a unit ({units[k]}), {others} none"
            if column.format == CellFormat() and DECIMAL_COMMA.fullmatch(cells[k]):
                point = cells[k].replace(",", ".")
                problem = f"has a decimal comma, the other cells a point (write {point})"
            yield f"{items.where(k, column.name)}: {cells[k][:40]!r} {problem}; treated as missing"


def are_counts(columns: Iterable[Floats]) -> bool:
    """Return whether columns of numbers hold counts: whole, not negative, and most of them zero.

    Half of the others have one digit: grey values of images, which may be as sparse, do not.

    >>> words, pixels = np.eye(4), 90.0 * np.eye(4)
    >>> are_counts(words), are_counts(pixels)
    (True, False)
    """
    zeros = total = small = 0
    for column in columns:
        values = np.nan_to_num(column)
        if (values < 0).any() or (values != np.floor(values)).any():
            return False
        zeros, total = zeros + int((values == 0).sum()), total + len(values)
        small += int(((values > 0) & (values < 10)).sum())
    return zeros > MOSTLY_ZERO * total and 2 * small >= total - zeros
