"""Where names and numbers are in a table that does not say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.matrix_files.cells import is_name, is_unknown

__all__ = ["Layout", "Row", "is_empty", "most_plausible_layout"]


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
