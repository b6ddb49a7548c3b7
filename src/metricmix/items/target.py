"""Whether a column of labels holds classes or numbers to predict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from metricmix.exceptions import TableFileError
from metricmix.items.columns import CODE, LARGEST_NUMBER, code_for_missing
from metricmix.items.items import Items
from metricmix.items.number_formats import Reading, is_nearly_all, number_reading
from metricmix.typing import Floats
from metricmix.validation import check_choice

__all__ = ["TARGETS", "TargetColumn", "target_column", "target_values"]

TARGETS = ("classes", "number")
MOST_CLASSES = 20
"""Different whole numbers up to which they are classes."""
FEWEST = 5
"""Numbers below which a column is not taken for a target by itself."""
EXAMPLES = 3


@dataclass(frozen=True)
class TargetColumn:
    """A numeric target.

    Attributes
    ----------
    why : str
        Why the column is taken for numbers, in a few words.
    n_known : int
    low, median, high : float
        Of the known numbers.
    not_numbers : tuple of str
        Examples of cells that are no numbers, with their places; these targets are unknown.
    n_not_numbers : int
    code : str
        A number that looks like a code for missing values, and what to do.
    """

    why: str
    n_known: int
    low: float
    median: float
    high: float
    not_numbers: tuple[str, ...] = ()
    n_not_numbers: int = 0
    code: str = ""

    def describe(self) -> str:
        """Return its range in words."""
        return f"{self.low:.4g} to {self.high:.4g}, median {self.median:.4g}"


def target_reading(items: Items) -> Reading | None:
    """Return how the labels are written as numbers; None unless more than half of them are."""
    cells = Counter(cell for cell in items.labels or () if cell)
    return number_reading(cells, commas=items.origin.decimal_commas, least=0.5) if cells else None


def target_values(items: Items) -> Floats:
    """Return the targets, or the labels of a table as numbers; NaN where missing or no numbers."""
    if items.targets is not None:
        return items.targets
    reading = target_reading(items)
    y = np.full(len(items.ids), np.nan)
    for k, cell in enumerate(items.labels or () if reading is not None else ()):
        assert reading is not None
        value = reading.format.parse(cell) if cell else None
        if value is not None and abs(value) <= LARGEST_NUMBER:
            y[k] = value
    return y


def target_column(items: Items, stated: str | None = None) -> TargetColumn | None:
    """Return what is known of a numeric target, or None where the labels are classes.

    Numbers are a target if more than half of them differ and some are fractions, or if there are
    more than 20 different ones; codes with zeros in front are classes.

    Parameters
    ----------
    items : Items
    stated : {"classes", "number"}, optional
        What the user says.

    Raises
    ------
    TableFileError
        If numbers are stated, and fewer than three cells hold one, or all are equal.
    """
    if stated is not None:
        check_choice(stated, TARGETS, name="target")
    given = [cell for cell in items.labels or () if cell]
    if stated == "classes" or (not given and items.targets is None):
        return None
    y = target_values(items)
    known = y[~np.isnan(y)]
    why = "as stated"
    if stated is None:
        distinct = len(np.unique(known))
        fractions = bool((known != np.round(known)).any())
        many = distinct > MOST_CLASSES or (fractions and 2 * distinct > len(known))
        codes = any(CODE.fullmatch(cell) for cell in given)
        enough = len(known) >= FEWEST and is_nearly_all(len(known), len(given))
        if codes or not (many and enough):
            return None
        why = f"{distinct} different numbers in {len(known)} cells"
    reading = target_reading(items)
    if reading is not None:
        why = "; ".join([why, *reading.notes, *filter(None, [reading.units])])
    where = f"{items.source}, column {items.label_column!r}"
    if len(known) < 3 or known.min() == known.max():
        found = f"{len(known)}" if len(known) < 3 else f"only {known[0]:g}"
        raise TableFileError(
            f"{where}: expected at least three numbers, not all equal, found {found}; fill in a "
            "few more, or name another column"
        )
    odd = [k for k, cell in enumerate(items.labels or ()) if cell and np.isnan(y[k])]
    examples = tuple(
        f"{items.where(k, items.label_column)}: {(items.labels or ())[k][:40]!r}"
        for k in odd[:EXAMPLES]
    )
    low, median, high = np.percentile(known, [0, 50, 100]).tolist()
    code = code_for_missing(known)
    return TargetColumn(why, len(known), low, median, high, examples, len(odd), code)
