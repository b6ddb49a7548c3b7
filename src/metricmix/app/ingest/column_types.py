"""Column types: what each attribute is taken for, and the features it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import did_you_mean, is_missing, parse_number, quoted
from metricmix.app.ingest.item_table import ItemTable
from metricmix.exceptions import InputError, TableFileError
from metricmix.typing import Floats
from metricmix.validation import check_choice

__all__ = [
    "Column",
    "Encoding",
    "are_counts",
    "column_transformer",
    "encode",
    "infer_columns",
    "infer_kind",
    "parse_date",
    "parse_decimal",
    "plain_numbers",
]

KINDS = ("number", "plain", "date", "count", "category", "text", "ignore")
NUMERIC = ("number", "plain", "date", "count")
DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].+)?")
DOTTED_DATE = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})")
GROUPED = re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)|[-+]?\d{1,3}(\.\d{3}){2,}")
"""Digits grouped by points, where a comma is the decimal point: 1.740,14."""
CODE = re.compile(r"0\d+")
SECONDS_PER_DAY = 86400.0
LARGEST_NUMBER = 1e150
"""Numbers whose squares are finite."""
MOST_CATEGORIES = 50
MOST_WORDS = 5000
NEARLY_ALL = 0.9
"""Share of numbers above which a cell of text looks like a mistake."""
MANY_COLUMNS = 20
"""Columns of whole numbers from which on they may be counts, as of words."""
MOSTLY_ZERO = 0.6


@dataclass(frozen=True)
class Column:
    """The kind of a column, why it was chosen, and how many cells are missing."""

    name: str
    kind: str
    why: str
    n_missing: int


@dataclass(frozen=True)
class Encoding:
    """Features (n, d), dense or sparse; the columns they come from; the fitted transformer."""

    features: Any
    columns: tuple[Column, ...]
    transformer: Any

    def transform(self, items: ItemTable) -> Any:
        """Return the features of other items, by the same medians, categories and words."""
        return self.transformer.transform(_cells(items, self.columns))


def infer_columns(items: ItemTable, kinds: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """Return the kind of every attribute.

    ============  =====================================  ======================================
    kind          a column of this kind has              and becomes
    ============  =====================================  ======================================
    ``number``    numbers in all cells that are known    itself, the median where missing, at
                                                         mean 0 and variance 1
    ``date``      dates as 2024-05-31, perhaps with a    days, the median where missing, at mean 0
                  time, or 31.5.2024, in all cells       and variance 1
                  that are known
    ``plain``     (only if stated)                       itself, the median where missing
    ``count``     with 20 such columns at least, whole   TF-IDF: those that few items have count
                  numbers, 60 % of all of them zero      more, at norm 1; 0 where missing
    ``text``      mostly different values, most with a   TF-IDF of its 5000 most frequent words,
                  space in them                          at norm 1; nothing where missing
    ``category``  anything else                          one 0/1 feature per value, the missing
                                                         one included; beyond 50 values the rare
                                                         ones share one
    ``ignore``    one value only, or values no two       nothing: all pairs of items would be
                  items share                            equally far
    ============  =====================================  ======================================

    Cells that are empty, or say NA, NaN, N/A, null, none, ? or -, are missing. Two items differ by
    about the same in columns of any kind: their expected squared distance is at most 2 in each.

    Parameters
    ----------
    items : ItemTable
    kinds : mapping of column names to kinds, optional
        Kinds that are stated: a number that is a code, say, is a category. ``p*`` stands for all
        columns that begin with p.
    """
    stated: dict[str, str] = {}
    for pattern, kind in (kinds or {}).items():
        check_choice(kind, KINDS, name=f"kinds[{pattern!r}]")
        names = [pattern] if pattern in items.attributes else []
        names = names or [name for name in items.attributes if fnmatchcase(name, pattern)]
        if not names:
            raise InputError(
                argument="kinds", expected=did_you_mean(list(items.attributes), pattern)
            )
        stated |= dict.fromkeys(names, kind)
    columns: list[Column] = []
    for name, cells in items.attributes.items():
        known = [cell for cell in cells if not is_missing(cell)]
        n_missing = len(cells) - len(known)
        if not known:
            columns.append(Column(name, "ignore", "no cell has a value", n_missing))
        elif name in stated:
            if stated[name] in NUMERIC:
                for item in range(len(cells)):  # report a mistake now, not in the computation
                    _parse_cell(items, item, name, stated[name])
            columns.append(Column(name, stated[name], "as stated", n_missing))
        else:
            kind, why = infer_kind(known, items.table.decimal_commas)
            columns.append(Column(name, kind, why, n_missing))
    numbers = {c.name for c in columns if c.kind == "number" and c.name not in stated}
    if len(numbers) >= MANY_COLUMNS and are_counts(items.attributes[name] for name in numbers):
        why = f"one of {len(numbers)} columns of whole numbers, most of them zero"
        columns = [replace(c, kind="count", why=why) if c.name in numbers else c for c in columns]
    return tuple(columns)


def infer_kind(cells: Sequence[str], decimal_commas: bool = False) -> tuple[str, str]:
    """Return the kind of a column with these known cells, and the reason.

    >>> infer_kind(["2024-05-31", "2024-06-01"])
    ('date', 'dates in all cells that are known')
    """
    distinct = len(set(cells))
    if plain_numbers(cells) is not None:
        numbers = len(cells)
    else:
        numbers = sum(parse_decimal(cell, decimal_commas) is not None for cell in cells)
    if distinct == 1:
        return "ignore", f"one value only, {cells[0]!r}"
    if numbers == len(cells):
        if any(CODE.fullmatch(cell) for cell in cells):
            return "category", f"{distinct} different values, some with zeros in front: codes"
        return "number", "numbers in all cells that are known"
    if all(parse_date(cell) is not None for cell in cells):
        return "date", "dates in all cells that are known"
    spaced = sum(" " in cell and re.search(r"\w", cell) is not None for cell in cells)
    if 2 * spaced > len(cells) and 2 * distinct > len(cells):
        return "text", f"{distinct} different values, most with spaces"
    if distinct == len(cells):
        return "ignore", f"{distinct} values that no two items share, such as {cells[0]!r}"
    why = f"{distinct} different values"
    if distinct > MOST_CATEGORIES and 2 * distinct > len(cells):
        why += ", hardly any of them shared"
    if numbers > NEARLY_ALL * len(cells):
        odd = next(cell for cell in cells if parse_decimal(cell, decimal_commas) is None)
        why += f"; nearly all are numbers, but not {odd!r}"
    return "category", why


def are_counts(columns: Iterable[Sequence[str]]) -> bool:
    """Return whether columns of numbers hold counts: whole, not negative, and most of them zero."""
    zeros = total = 0
    for cells in columns:
        values = plain_numbers(cells)
        if values is None:
            parsed = (0.0 if is_missing(cell) else parse_decimal(cell, True) for cell in cells)
            values = np.array([np.nan if value is None else value for value in parsed])
        if not (np.isfinite(values) & (values >= 0) & (values == np.floor(values))).all():
            return False
        zeros, total = zeros + int((values == 0).sum()), total + len(values)
    return zeros > MOSTLY_ZERO * total


def plain_numbers(cells: Sequence[str]) -> Floats | None:
    """Return cells as an array if all are finite numbers with decimal points, if any; else None.

    A hundred times as fast as one by one.

    >>> plain_numbers(["1", "2.5"]), plain_numbers(["1", "2,5"]), plain_numbers(["1", ""])
    (array([1. , 2.5]), None, None)
    """
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    if not (np.abs(values) <= LARGEST_NUMBER).all() or any("_" in cell for cell in cells):
        return None
    return values


def parse_decimal(cell: str, decimal_commas: bool) -> float | None:
    """Return a cell as a number, None if it is text.

    >>> parse_decimal("1.740,14", True), parse_decimal("1,5", False)
    (1740.14, None)
    """
    if decimal_commas and GROUPED.fullmatch(cell):
        cell = cell.replace(".", "")
    return None if "," in cell and not decimal_commas else parse_number(cell)


def parse_date(cell: str) -> float | None:
    """Return the days since 1970 of a date, with the time if it has one; None if it is no date."""
    if dotted := DOTTED_DATE.fullmatch(cell):
        cell = "{2}-{1:0>2}-{0:0>2}".format(*dotted.groups())
    if not DATE.fullmatch(cell):
        return None
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / SECONDS_PER_DAY


# -- features ------------------------------------------------------------------------------------


def encode(items: ItemTable, columns: Sequence[Column]) -> Encoding:
    """Return attributes as features, by the kinds of their columns; not all may be ignored."""
    columns = [column for column in columns if column.kind != "ignore"]
    transformer = column_transformer(columns)
    try:
        features = transformer.fit_transform(_cells(items, columns))
    except TableFileError:
        raise
    except ValueError as error:  # such as texts without a word
        names = quoted([column.name for column in columns])
        raise TableFileError(f"{items.source}, {names}: {error}") from None
    return Encoding(features, tuple(columns), transformer)


def _cells(items: ItemTable, columns: Sequence[Column]) -> NDArray[np.object_]:
    """Return the cells as the transformer takes them: numbers, NaN where missing, and text."""
    table = np.empty((len(items.ids), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        if column.name not in items.attributes:
            raise TableFileError(f"{items.source}: expected a column {column.name!r}, found none")
        cells = items.attributes[column.name]
        if column.kind in NUMERIC:
            numbers: Any = None if column.kind == "date" else plain_numbers(cells)
            if numbers is None:
                every = range(len(cells))
                numbers = [_parse_cell(items, i, column.name, column.kind) for i in every]
            table[:, k] = numbers
        else:
            table[:, k] = ["" if is_missing(cell) else cell for cell in cells]
    return table


def _parse_cell(items: ItemTable, item: int, column: str, kind: str) -> float:
    """Return a cell of a numeric column, NaN if it is missing; TableFileError if it is text."""
    cell = items.attributes[column][item]
    if is_missing(cell):
        return np.nan
    is_date = kind == "date"
    value = parse_date(cell) if is_date else parse_decimal(cell, items.table.decimal_commas)
    if value is None or not abs(value) <= LARGEST_NUMBER:
        expected = "a date such as 2024-05-31" if is_date else "a finite number"
        raise TableFileError(
            f"{items.where(item, column)}: expected {expected}, found {cell[:40]!r}; leave "
            "the cell empty if it is unknown"
        )
    return value


def column_transformer(columns: Sequence[Column]) -> Any:
    """Return the scikit-learn transformer of cells to features, not yet fitted."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def median() -> Any:
        return SimpleImputer(strategy="median")

    zero = SimpleImputer(strategy="constant", fill_value=0.0)
    by_kind = {
        "number": make_pipeline(median(), StandardScaler()),
        "date": make_pipeline(median(), StandardScaler()),
        "plain": median(),
        "count": make_pipeline(zero, TfidfTransformer()),
        "category": OneHotEncoder(
            max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist"
        ),
    }
    parts: list[tuple[str, Any, Any]] = []
    for kind, transformer in by_kind.items():
        places = [k for k, column in enumerate(columns) if column.kind == kind]
        parts += [(kind, transformer, places)] if places else []
    for k, column in enumerate(columns):
        if column.kind == "text":
            words = TfidfVectorizer(max_features=MOST_WORDS, token_pattern=r"(?u)\b\w+\b")
            parts.append((f"text {k}", words, k))
    return ColumnTransformer(parts)
