"""Attributes as features: what each column is taken for, and the numbers it becomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import did_you_mean, is_missing, is_text, quoted
from metricmix.app.ingest.item_table import ItemTable
from metricmix.exceptions import InputError, TableFileError
from metricmix.validation import check_choice

__all__ = ["Column", "Encoding", "decide", "encode"]

KINDS = ("number", "plain", "date", "count", "category", "text", "ignore")
NUMERIC = ("number", "plain", "date", "count")
DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].+)?")
DOTTED_DATE = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})")
GROUPED = re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)|[-+]?\d{1,3}(\.\d{3}){2,}")
"""Thousands apart, where a comma is the decimal point: 1.740,14."""
CODE = re.compile(r"0\d+")
DAY = 86400.0
LARGEST = 1e150
"""Numbers whose squares are still numbers."""
MOST_CATEGORIES = 50
MOST_WORDS = 5000
NEARLY_ALL = 0.9
"""Share of numbers from which on a cell that is none looks like a mistake."""
MANY = 20
"""Columns of whole numbers from which on they may be counts, as of words."""
MOSTLY_ZERO = 0.6
STATED = "as stated"


@dataclass(frozen=True)
class Column:
    """What was decided about a column: its kind, why, and how many of its cells are missing."""

    name: str
    kind: str
    why: str
    n_missing: int


@dataclass(frozen=True)
class Encoding:
    """Features (n, d), dense or sparse; the decisions behind them; the fitted transformer."""

    features: Any
    columns: tuple[Column, ...]
    transformer: Any

    def transform(self, items: ItemTable) -> Any:
        """Return the features of other items, by the same medians, categories and words."""
        return self.transformer.transform(_cells(items, self.columns))


def decide(items: ItemTable, kinds: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """Return what every attribute is taken for.

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
        What is known better: a number that is a code, say, is a category. ``p*`` stands for all
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
    return _find_counts(
        items, [_decided(items, name, stated.get(name)) for name in items.attributes]
    )


def encode(items: ItemTable, columns: Sequence[Column]) -> Encoding:
    """Return attributes as features, as decided; one at least must not be ignored."""
    columns = [column for column in columns if column.kind != "ignore"]
    transformer = _transformer(columns)
    try:
        features = transformer.fit_transform(_cells(items, columns))
    except TableFileError:
        raise
    except ValueError as error:  # such as texts without a word
        names = quoted([column.name for column in columns])
        raise TableFileError(f"{items.source}, {names}: {error}") from None
    return Encoding(features, tuple(columns), transformer)


# -- what a column is ----------------------------------------------------------------------------


def _decided(items: ItemTable, name: str, stated: str | None) -> Column:
    cells = items.attributes[name]
    known = [cell for cell in cells if not is_missing(cell)]
    missing = len(cells) - len(known)
    if not known:
        return Column(name, "ignore", "no cell has a value", missing)
    if stated is not None:
        if stated in NUMERIC:
            for item in range(len(cells)):  # all of them now, not when it comes to computing
                _number(items, item, name, stated)
        return Column(name, stated, STATED, missing)
    return Column(name, *_kind(items, known, len(set(known))), missing)


def _kind(items: ItemTable, known: Sequence[str], distinct: int) -> tuple[str, str]:
    numbers = sum(_is_number(items, cell) for cell in known)
    if distinct == 1:
        return "ignore", f"one value only, {known[0]!r}"
    if numbers == len(known):
        if any(CODE.fullmatch(cell) for cell in known):
            return "category", f"{distinct} different values, some with zeros in front: codes"
        return "number", "numbers in all cells that are known"
    if all(_as_date(cell) is not None for cell in known):
        return "date", "dates in all cells that are known"
    spaced = sum(" " in cell and re.search(r"\w", cell) is not None for cell in known)
    if 2 * spaced > len(known) and 2 * distinct > len(known):
        return "text", f"{distinct} different values, most with spaces"
    if distinct == len(known):
        return "ignore", f"{distinct} values that no two items share, such as {known[0]!r}"
    why = f"{distinct} different values"
    if distinct > MOST_CATEGORIES and 2 * distinct > len(known):
        why += ", hardly any of them shared"
    if numbers > NEARLY_ALL * len(known):
        odd = next(cell for cell in known if not _is_number(items, cell))
        why += f"; nearly all are numbers, but not {odd!r}"
    return "category", why


def _find_counts(items: ItemTable, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Take many columns of whole numbers, most of them zero, for counts."""
    numbers = [column for column in columns if column.kind == "number" and column.why != STATED]
    if len(numbers) < MANY:
        return tuple(columns)
    cells = Counter[str]()
    for column in numbers:
        cells.update(items.attributes[column.name])
    values = {cell: 0.0 if is_missing(cell) else _as_number(cell) for cell in cells}
    zeros = sum(cells[cell] for cell, value in values.items() if value == 0)
    whole = all(value >= 0 and value.is_integer() for value in values.values())
    if not whole or zeros <= MOSTLY_ZERO * cells.total():
        return tuple(columns)
    why = f"one of {len(numbers)} columns of whole numbers, most of them zero"
    counted = {column.name for column in numbers}
    return tuple(replace(c, kind="count", why=why) if c.name in counted else c for c in columns)


def _as_number(cell: str) -> float:
    if GROUPED.fullmatch(cell):
        cell = cell.replace(".", "")
    return float(cell.replace(",", ".", 1))


def _as_date(cell: str) -> float | None:
    """Return the days since 1970 of a date, with the time if it has one; None if it is none."""
    if dotted := DOTTED_DATE.fullmatch(cell):
        cell = "{2}-{1:0>2}-{0:0>2}".format(*dotted.groups())
    if not DATE.fullmatch(cell):
        return None
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / DAY


def _is_number(items: ItemTable, cell: str) -> bool:
    if items.table.decimal_commas and GROUPED.fullmatch(cell):
        return True
    return not is_text(cell) and (items.table.decimal_commas or "," not in cell)


# -- what it becomes -----------------------------------------------------------------------------


def _cells(items: ItemTable, columns: Sequence[Column]) -> NDArray[np.object_]:
    """Return the cells as the transformer takes them: numbers, NaN where missing, and text."""
    table = np.empty((len(items.ids), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        if column.name not in items.attributes:
            raise TableFileError(f"{items.source}: expected a column {column.name!r}, found none")
        cells = items.attributes[column.name]
        if column.kind in NUMERIC:
            table[:, k] = [_number(items, i, column.name, column.kind) for i in range(len(cells))]
        else:
            table[:, k] = ["" if is_missing(cell) else cell for cell in cells]
    return table


def _number(items: ItemTable, item: int, column: str, kind: str) -> float:
    cell = items.attributes[column][item]
    if is_missing(cell):
        return np.nan
    value = _as_date(cell) if kind == "date" else None
    if kind != "date" and _is_number(items, cell):
        value = _as_number(cell)
    if value is None or not abs(value) <= LARGEST:
        expected = "a date such as 2024-05-31" if kind == "date" else "a finite number"
        raise TableFileError(
            f"{items.where(item, column)}: expected {expected}, found {cell[:40]!r}; leave "
            "the cell empty if it is unknown"
        )
    return value


def _transformer(columns: Sequence[Column]) -> Any:
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
