"""Numbers and dates as people write them: 1,234.5 or 1.234,5, 12 kg, 30 %, 10/17/2024.

A column is read in one format. A cell that does not follow it is not a number; the other cells do
not change because of it. Where some cells have a unit and others have none, both are read if their
numbers are of the same order.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

import numpy as np

from metricmix.items.cells import LONGEST, NUMBERS, SPACES, parse_number
from metricmix.items.dates import iso_days, parse_date
from metricmix.state import require, stored
from metricmix.typing import Floats

__all__ = [
    "CellFormat",
    "Reading",
    "date_reading",
    "number_hint",
    "number_reading",
]

NEARLY_ALL = 0.9
"""Share of cells that follow a format, from which on the others look like mistakes."""
UNIT_CELLS, UNIT_SHARE = 3, 0.05
"""Cells, and their share, from which on some with a unit and some without one are no mistakes."""
SAME_ORDER = 30.0
"""Ratio of the medians with and without a unit, up to which both may be in the same unit."""
CURRENCY = (
    r"(?:US\$|[€$£¥₹₩₽₺]|(?:EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN)(?![A-Za-z]))"
)
QUANTITY = re.compile(
    rf"(?P<sign>[-+]?)\s?(?P<before>{CURRENCY}?)\s?"
    r"(?P<number>[-+]?[\d.,](?:[\d.,' ]*[\d.,])?(?:[eE][-+]?\d+)?)"
    r"(?P<space>\s?)(?P<after>(?:sq\.?|[km])\s(?:ft|m|in|[€$£])|[^\W\d_][^\s\d]{0,14}[23]?|[%‰°€$£¥₹µ][^\s\d]{0,8})?"
)
"""A number with a unit: a currency before it, or a word or sign behind it."""
MAYBE_QUANTITY = re.compile(
    rf"(?!\d{{4}}-\d\d-\d\d)[-+.,\s\d\u2212]|{CURRENCY}|inf|nan", re.IGNORECASE
)
"""How all cells begin that can be numbers or quantities: not as dates do."""
UNITS = frozenset(
    "mm cm m km in inch ft yd mi mg g kg t lb lbs oz ml cl dl l ms s sec min h hr hrs day days yr "  # noqa: SIM905
    "yrs w kw mw gw kwh mwh hz khz mhz ghz kb mb gb tb px pt kv ma mah pa kpa hpa mpa bar ppm mph "
    "km/h kmh m/s m2 km2 m3 cm2 cm3 kg/m2 g/l mg/l mg/dl ug/l ug ul um us ha kj kcal cal nm db rpm "
    "eur usd gbp chf keur k€ m€ k$ m$ k£ m£ sqft sqm".split()
)
"""Units, as they are compared, that may follow a number without a space; any word may with one."""
SPELLINGS = str.maketrans({"²": "2", "³": "3", "μ": "u", " ": "", ".": ""})
"""What does not make another unit, in lower case: µ is the Greek letter there."""
ORDERS = {"ymd": "year-month-day", "dmy": "day/month/year", "mdy": "month/day/year"}


@stored("CellFormat")
@dataclass(frozen=True)
class CellFormat:
    """How the numbers or dates of a column are written.

    Attributes
    ----------
    decimal : {".", ","}
        The decimal sign; the other one, spaces or apostrophes may keep thousands apart.
    unit : str
        What every number but 0 has with it, and is removed.
    bare : bool
        Whether numbers without the unit are read as well.
    order : {"", "ymd", "dmy", "mdy"}
        The order of year, month and day in dates; "" for numbers. Dates that begin with the year
        are read in any order.
    """

    decimal: str = "."
    unit: str = ""
    order: str = ""
    bare: bool = False

    def __post_init__(self) -> None:
        known = self.decimal in (".", ",") and self.order in ("", *ORDERS)
        require(known, "expected a known format of cells")

    def __str__(self) -> str:
        """Return what cells of this format hold."""
        if self.order:
            return f"a date ({ORDERS[self.order]})"
        if self.unit:
            return f"a number with the unit {self.unit}{' or without one' * self.bare}"
        return "a number with a decimal comma" if self.decimal == "," else "a finite number"

    def parse(self, cell: str) -> float | None:
        """Return a cell as a number, or as days since 1970; None if it is neither.

        >>> CellFormat(",", unit="kg").parse("1.740,5 kg")
        1740.5
        >>> CellFormat(order="mdy").parse("1/2/1970")
        1.0
        """
        if len(cell) > LONGEST:
            return None
        if self.order:
            return parse_date(cell, self.order)
        if not self.unit:
            return parse_number(cell, self.decimal)
        number, unit = split_unit(cell)
        value = parse_number(number, self.decimal)
        known = same_unit(unit) == same_unit(self.unit) or (self.bare and not unit)
        return value if known or value == 0 else None

    def parse_all(self, cells: Sequence[str], unknown: Collection[str] = ()) -> Floats:
        """Return many cells in the same way, NaN where they are neither; each different one once.

        `unknown` cells have no value.
        """
        values = iso_days(cells) if self.order else np.full(len(cells), np.nan)
        rest = np.flatnonzero(np.isnan(values)).tolist()
        parsed = {cell: self.parse(cell) for cell in {cells[k] for k in rest}.difference(unknown)}
        found = (parsed.get(cells[k]) for k in rest)
        values[rest] = [np.nan if value is None else value for value in found]
        return values


@dataclass(frozen=True)
class Reading:
    """A format that nearly all cells of a column follow.

    `notes` say what it is, if that is not plain; `question` names the other format that all cells
    follow as well, in the words of ``--kind``, and an example. `units` says how many cells have a
    unit, if others have none. `n_read` cells follow the format; None if they were not counted.
    """

    format: CellFormat
    notes: tuple[str, ...] = ()
    question: tuple[str, str] | None = None
    units: str = ""
    n_read: int | None = None


def is_nearly_all(read: int, total: int, least: float | None = None) -> bool:
    """Return whether the cells that were read are all but a few: one in ten, or a single one.

    With `least`, whether they are more than this share.
    """
    if least is not None:
        return read > least * total
    rest = total - read
    return rest <= max(1, total - NEARLY_ALL * total) and read >= 3 * rest and read > 0


# -- numbers -------------------------------------------------------------------------------------


def number_reading(
    cells: Mapping[str, int],
    *,
    commas: bool = False,
    decimal: str | None = None,
    least: float | None = None,
) -> Reading | None:
    """Return how the numbers of a column are written, None if it does not hold numbers.

    Parameters
    ----------
    cells : mapping of the known cells to how often they occur
    commas : bool
        Whether a comma is the decimal sign where cells such as 1,234 leave that open, and none
        is below a thousand without one.
    decimal : {".", ","}, optional
        The decimal sign, if it is known.
    least : float, optional
        The share of cells to read at least. Default: nearly all.

    Examples
    --------
    >>> number_reading({"1.740,5 kg": 1, "980 kg": 1}).notes
    ('decimal comma', 'thousands separators removed', 'unit kg removed')
    """
    total = sum(cells.values())
    if not commas and decimal != "," and "_" not in "".join(cells):
        with suppress(ValueError):  # plain numbers, as they nearly always are
            for cell in cells:
                float(cell)
            return Reading(CellFormat())
    if not is_nearly_all(n_maybe(cells), total, least):
        return None
    parts = {cell: split_unit(cell) for cell in cells if len(cell) <= LONGEST}
    signs = (decimal,) if decimal else (".", ",")
    unit, bare, units = unit_of(cells, parts, signs)
    formats = {sign: CellFormat(sign, unit, bare=bare) for sign in signs}
    values = {
        sign: {cell: value for cell in parts if (value := formats[sign].parse(cell)) is not None}
        for sign in signs
    }
    n_read = {sign: sum(cells[cell] for cell in read) for sign, read in values.items()}
    best = max(signs, key=lambda sign: n_read[sign])
    if not is_nearly_all(n_read[best], total, least):
        return None
    question = None
    if len(signs) == 2 and n_read["."] == n_read[","]:
        # Any cell with a sign, such as 1,234 or 1.234, is a number by both, and another one.
        differ = [cell for cell, value in values["."].items() if values[","].get(cell) != value]
        has_comma = any("," in cell for cell in differ)
        whole = [value for cell, value in values["."].items() if cell not in differ]
        # Beside 950, 1,200 is no fraction: who writes three decimals would write 950,000.
        grouped = bool(whole) and all(abs(value) < 1000 for value in whole)
        best = "," if has_comma and commas and not grouped else "."
        if differ and (has_comma or commas):
            question = ("decimal-point" if best == "," else "decimal-comma", differ[0])
    read = values[best]
    bodies = [parts[cell][0] for cell in read]
    notes = []
    if best == "," and any("," in body for body in bodies):
        notes.append("decimal comma")
    if any((match := NUMBERS[best].fullmatch(body)) and match[1] for body in bodies):
        notes.append("thousands separators removed")
    if unit:
        notes.append("percent signs removed" if unit == "%" else f"unit {unit} removed")
    return Reading(formats[best], tuple(notes), question, units, n_read[best])


def n_maybe(cells: Mapping[str, int]) -> int:
    """Return how many cells begin as numbers and quantities do: the others need no parsing."""
    return sum(count for cell, count in cells.items() if MAYBE_QUANTITY.match(cell))


def unit_of(
    cells: Mapping[str, int], parts: Mapping[str, tuple[str, str]], signs: Sequence[str]
) -> tuple[str, bool, str]:
    """Return the unit of a column, whether numbers without it are read too, and what to report.

    The unit is the most common one, in its most common spelling. It must be in most cells, or, like
    numbers without a unit, in three cells and 5 % of them; then both are read if their medians
    differ by a factor of 30 at most. Otherwise numbers without a unit may be in another one.

    Parameters
    ----------
    cells : mapping of the known cells to how often they occur
    parts : mapping of cells to their numbers and units
    signs : the decimal signs that are possible

    Examples
    --------
    >>> cells = dict.fromkeys(["5", "6", "7", "5 m2", "6 m2", "8 m²", "90 sqft"], 1)
    >>> unit_of(cells, {cell: split_unit(cell) for cell in cells}, ".")[:2]
    ('m2', True)
    """
    with_unit, spelt = Counter[str](), Counter[str]()
    for cell, (_, written) in parts.items():
        with_unit[same_unit(written)] += cells[cell]
        spelt[written] += cells[cell]
    common = max((name for name in with_unit if name), key=lambda u: with_unit[u], default="")
    if not common:
        return "", False, ""
    unit = max((name for name in spelt if same_unit(name) == common), key=lambda u: spelt[u])
    by_most = unit if with_unit[common] > with_unit[""] else ""
    known: dict[str, list[float]] = {"": [], common: []}
    for sign in signs:
        found: dict[str, list[float]] = {"": [], common: []}
        for cell, (number, written) in parts.items():
            value = parse_number(number, sign)
            if value is not None and same_unit(written) in found:
                found[same_unit(written)] += [abs(value)] * cells[cell]
        known = max(known, found, key=lambda some: sum(map(len, some.values())))
    n_with, n_without = len(known[common]), len(known[""])
    if min(n_with, n_without) < max(UNIT_CELLS, UNIT_SHARE * sum(cells.values())):
        return by_most, False, ""
    inside, outside = (
        median([value for value in some if value] or [0.0]) for some in (known[common], known[""])
    )
    if max(inside, outside) > SAME_ORDER * min(inside, outside) > 0:
        return (
            by_most,
            False,
            f"{n_with:,} cells have the unit {unit} (median {inside:.4g}) and {n_without:,} have "
            f"none (median {outside:.4g}), which may be in another unit",
        )
    others = {
        cell: written
        for cell, (number, written) in parts.items()
        if same_unit(written) not in known and any(parse_number(number, sign) for sign in signs)
    }
    told = (
        f"{n_with:,} cells have the unit {unit}, read as numbers like the {n_without:,} without one"
    )
    if others:
        n = sum(cells[cell] for cell in others)
        names = ", ".join(list(dict.fromkeys(others.values()))[:3])
        have, are = ("cells have", "are") if n > 1 else ("cell has", "is")
        told += f"; {n:,} {have} another unit ({names}) and {are} treated as missing"
    return unit, True, told


def number_hint(cells: Mapping[str, int], name: str = "COLUMN", *, commas: bool = False) -> str:
    """Return a remark on cells of which most are numbers, or which are written differently.

    >>> number_hint({"5 kg": 1, "300 g": 1})
    '; numbers in different units: kg, g'
    >>> number_hint({"5.5": 1, "3,25": 1})
    "; numbers, '5.5' with a decimal point and '3,25' with a decimal comma: write one of the two"
    """
    if n_maybe(cells) < 2 * UNIT_SHARE * sum(cells.values()):
        return ""
    point, comma = (
        [cell for cell in cells if parse_number(cell, sign) is not None] for sign in ".,"
    )
    if len({*point, *comma}) == len(cells) > max(len(point), len(comma)):
        first, second = (
            next(cell for cell in cells if cell not in other) for other in (comma, point)
        )
        return (
            f"; numbers, {first!r} with a decimal point and {second!r} with a decimal comma: write "
            "one of the two"
        )
    parts = [split_unit(cell) for cell in cells]
    units = list({same_unit(unit): unit for _, unit in reversed(parts) if unit}.values())[::-1]
    if len(units) > 1 and number_reading(Counter(number for number, _ in parts)) is not None:
        return f"; numbers in different units: {', '.join(units[:3])}"
    reading, stated = number_reading(cells, commas=commas, least=0.5), shlex.quote(f"{name}=number")
    *_, doubt = unit_of(cells, dict(zip(cells, parts, strict=True)), ".,")
    if doubt:
        treats = f" (--kind {stated} reads only the more common ones)" if reading else ""
        return f"; {doubt}{treats}"
    if reading is None:
        return ""
    odd = next(cell for cell in cells if reading.format.parse(cell) is None)
    return f"; most are numbers, but not {odd!r} (--kind {stated} treats that as missing)"


def split_unit(cell: str) -> tuple[str, str]:
    """Return the number in a cell and its unit; all of the cell if it has none.

    >>> split_unit("12,5 kg"), split_unit("-€5"), split_unit("Q1")
    (('12,5', 'kg'), ('-5', '€'), ('Q1', ''))
    """
    match = QUANTITY.fullmatch(cell.translate(SPACES))
    if match is None:
        return cell, ""
    sign, before, number, space, after = match.group("sign", "before", "number", "space", "after")
    after = after or ""
    attached = after and not space and after[0].isalpha() and same_unit(after) not in UNITS
    if attached or (before and after) or not (before or after):
        return cell, ""
    return sign + number, before or after


def same_unit(unit: str) -> str:
    """Return a unit as it is compared: days and day are one, so are m² and m2.

    >>> same_unit("Days") == same_unit("day"), same_unit("M²") == same_unit("m2")
    (True, True)
    """
    folded = unit.casefold().translate(SPELLINGS)
    return folded.removesuffix("s") if len(folded) > 3 else folded


# -- dates ---------------------------------------------------------------------------------------


def date_reading(
    cells: Mapping[str, int], *, order: str | None = None, least: float | None = None
) -> Reading | None:
    """Return how the dates of a column are written, None if it does not hold dates.

    Where 3/4/2024 could be read either way in all cells, it is month/day/year; with points or
    hyphens, day/month/year. The arguments are those of :func:`number_reading`.

    Examples
    --------
    >>> date_reading({"10/17/2024": 1, "1/2/2024": 1}).notes
    ('month/day/year',)
    """
    total = sum(cells.values())
    if order is None and not np.isnan(iso_days(list(cells))).any():
        return Reading(CellFormat(order="ymd"), n_read=total)
    maybe = [cell for cell in cells if cell[:1].isdigit()]
    if not is_nearly_all(sum(cells[cell] for cell in maybe), total, least):
        return None
    orders = (order,) if order else ("ymd", "dmy", "mdy")
    values: dict[str, dict[str, float]] = {}
    for one in orders:
        parse = CellFormat(order=one).parse
        values[one] = {cell: day for cell in maybe if (day := parse(cell)) is not None}
        if one == "ymd" and len(values[one]) == len(cells):  # no other order reads more
            orders = ("ymd",)
            break
    n_read = {one: sum(cells[cell] for cell in read) for one, read in values.items()}
    best = max(orders, key=lambda one: n_read[one])
    if not is_nearly_all(n_read[best], total, least):
        return None
    question = None
    if best == "dmy" and n_read.get("mdy") == n_read["dmy"]:
        differ = [cell for cell, day in values["dmy"].items() if values["mdy"].get(cell) != day]
        if any("/" in cell for cell in differ):
            best, question = "mdy", (ORDERS["dmy"], differ[0])
    notes = () if best == "ymd" else (ORDERS[best],)
    return Reading(CellFormat(order=best), notes, question, n_read=n_read[best])
