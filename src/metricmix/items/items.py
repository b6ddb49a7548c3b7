"""Items: what is known of n items, whatever it was read from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import TableFileError
from metricmix.items.cells import is_known, parse_number, plain_numbers, unknown_cells
from metricmix.items.number_formats import CellFormat
from metricmix.items.relation import Matrix, Relation
from metricmix.state import arguments, checked_state, conforms, require, stored
from metricmix.typing import Floats

__all__ = [
    "BY_ROW",
    "Items",
    "Origin",
    "Values",
    "check_class_labels",
    "id_hint",
    "numbered_like",
    "row_start",
]

BY_ROW = "row"
"""What stands for row numbers instead of a column of ids."""
CONTINUOUS = 0.8
"""Share of distinct values above which fractions are not classes."""
MANY, MOSTLY_DISTINCT = 20, 0.5
"""Number of classes, and their share of the labels, above which they are not classes."""
FEW = 5
"""Labels that are too few to tell."""
Values = tuple[str, ...] | Floats | Any
"""The values of a column: texts, "" where missing; numbers, NaN where missing; or a sparse table of
counts, CSR (n, d), which counts as one column."""


@stored("Origin")
@dataclass(frozen=True)
class Origin:
    """Where values come from, for messages.

    Attributes
    ----------
    source : Path or str
        A file, or what an argument is called.
    numbers : tuple of int
        The number of each item in the file; empty: its position, from 0.
    unit : str
        What these numbers count: lines of a text, rows of a table.
    decimal_commas : bool
        Whether commas do not delimit cells, so that 3,5 may be a number.
    remark : str
        What was chosen in reading it, if it could have been meant otherwise.
    """

    source: Path | str = "data"
    numbers: tuple[int, ...] = ()
    unit: str = "row"
    decimal_commas: bool = False
    remark: str = ""

    def where(self, item: int, column: str | None = None) -> str:
        """Return the file, the line and the column, for the beginning of a message."""
        number = self.numbers[item] if self.numbers else item
        at = f"{self.source}, {self.unit} {number}"
        return at if column is None else f"{at}, column {column!r}"


@stored("Items")
@dataclass(frozen=True, eq=False)
class Items:
    """What is known of n items: ids, columns, labels or a target, relations and matrices.

    Items of a fit and new items are the same type. Values are those that were given; what a column
    is taken for, and the features it becomes, is decided once, in :mod:`metricmix.items.columns`.

    Attributes
    ----------
    ids : tuple of str
    columns : mapping of str to Values
        The attributes.
    labels : tuple of str, optional
        "" where unlabelled; None without labels.
    targets : (n,) array, optional
        The labels as numbers, NaN where unknown, if they are a numeric target.
    relations : mapping of str to Relation
        Graphs and memberships. Their ends may be ids of others: items that are not among these, or
        groups.
    matrices : mapping of str to Matrix
        Precomputed dissimilarities.
    origin : Origin
        Where the table comes from, for messages.
    dtypes : mapping of str to str
        Kinds that the types of columns state: "date" or "category".
    id_column, label_column : str, optional
        Names of the columns; `id_column` is None where ids are row numbers.
    labels_left_out : tuple of pairs
        Labels that count as unlabelled, each with the id of its item.
    first_row : int, optional
        The number of the first row, where ids are row numbers and it was stated.
    numbering : str
        Why row numbers begin with 0, where that was not stated.
    missing : tuple of str
        Texts that were stated to be missing values.
    label_type : {"", "int", "bool", "float"}
        What labels were before they became texts, if not texts.
    id_type : {"", "int", "bool", "float"}
        What ids were before they became texts, if not texts.
    groups : tuple of str, optional
        The group of each item, "" for one of its own: items that are held out together.
    order : (n,) array, optional
        Where an item comes in time, NaN where unknown: later ones are predicted from earlier ones.
    """

    ids: tuple[str, ...]
    columns: Mapping[str, Values]
    labels: tuple[str, ...] | None = None
    targets: Floats | None = None
    relations: Mapping[str, Relation] = field(default_factory=dict)
    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    id_column: str | None = ""
    label_column: str | None = None
    labels_left_out: tuple[tuple[str, str], ...] = ()
    first_row: int | None = None
    numbering: str = ""
    missing: tuple[str, ...] = ()
    label_type: str = ""
    id_type: str = ""
    groups: tuple[str, ...] | None = None
    order: Floats | None = None
    _plain: dict[str, Floats | None] = field(default_factory=dict, init=False, repr=False)
    _read: dict[tuple[str, Any], Floats] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.ids)
        given = [*self.columns.values(), self.labels, self.targets, self.groups, self.order]
        lengths = {
            one.shape[0] if hasattr(one, "shape") else len(one) for one in given if one is not None
        }
        require(lengths <= {n}, f"expected columns of {n} items, found {sorted(lengths)}")

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Items:
        """Return items from what a file holds; of columns, texts, finite numbers or counts."""
        items = cls(**checked_state(state, arguments(cls), "Items"))
        values: Any
        for name, values in items.columns.items():
            if isinstance(values, np.ndarray):
                sound = conforms(values, Floats) and values.ndim == 1 and not np.isinf(values).any()
            elif hasattr(values, "indptr"):
                sound = values.has_canonical_format and values.dtype == np.float64
                sound = sound and bool(np.all((values.data > 0) & (values.data < np.inf)))
            else:
                sound = conforms(values, tuple[str, ...])
            sound = sound and isinstance(name, str)
            require(sound, f"expected texts, finite numbers or counts in column {name!r}")
        for matrix in items.matrices.values():
            n = len(matrix.values if matrix.items is None else matrix.items)
            require(matrix.values.shape == (n, n), "expected a square matrix and its names")
        return items

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def named_by(self) -> str:
        """What the ids are: a column, or (where `id_column` is None) row numbers."""
        if self.id_column is None:
            return "row number, from 0" if self.ids[0] == "0" else "row number"
        return repr(self.id_column)

    @property
    def id_option(self) -> str:
        """What ``--id`` takes to name the items so."""
        if self.id_column is not None:
            return self.id_column
        if self.first_row is not None:
            return f"{BY_ROW}{self.first_row}"
        return "row0" if self.ids[0] == "0" else BY_ROW

    @property
    def source(self) -> Path | str:
        """The file, or the argument, that the table comes from."""
        return self.origin.source

    def take(self, positions: Any) -> Items:
        """Return the items at some positions as the only ones there are.

        Relations lose the edges of the other items, matrices their entries. Ids stay, also row
        numbers.

        >>> edges = Relation("roads", 3, ("a", "b", "c"), np.array([[0, 1], [1, 2]]))
        >>> items = Items(("a", "b", "c"), {"size": np.arange(3.0)}, relations={"roads": edges})
        >>> some = items.take([0, 1])
        >>> some.ids, some.columns["size"].tolist(), some.relations["roads"].ends.tolist()
        (('a', 'b'), [0.0, 1.0], [[0, 1]])
        """
        kept = np.asarray(positions)

        def of(values: Any) -> Any:
            if values is None or not isinstance(values, tuple):
                return None if values is None else values[kept]
            return tuple(values[k] for k in kept.tolist())

        chosen = set(kept.tolist())
        others = {item for k, item in enumerate(self.ids) if k not in chosen}
        return replace(
            self,
            ids=of(self.ids),
            columns={name: of(values) for name, values in self.columns.items()},
            labels=of(self.labels),
            targets=of(self.targets),
            groups=of(self.groups),
            order=of(self.order),
            relations={
                name: relation.named(self.ids).without(others)
                for name, relation in self.relations.items()
            },
            matrices={name: one.without(others, self.ids) for name, one in self.matrices.items()},
            origin=replace(self.origin, numbers=of(self.origin.numbers or tuple(range(len(self))))),
            id_column="" if self.id_column is None else self.id_column,
            first_row=None,
        )

    def without_single_labels(self) -> Items:
        """Return the items with the labels left out that only one of them has."""
        labels = self.labels or ()
        sizes = Counter(labels)
        pairs = zip(labels, self.ids, strict=False)
        single = tuple((label, item) for label, item in pairs if label and sizes[label] == 1)
        if not single:
            return self
        kept = tuple(label if sizes[label] > 1 else "" for label in labels)
        return replace(self, labels=kept, labels_left_out=single)

    def where(self, item: int, column: str | None = None) -> str:
        """Return the place of an item in its file."""
        return self.origin.where(item, column)

    def values(self, column: str) -> Values:
        """Return the values of a column; TableFileError if there is no such column."""
        if column not in self.columns:
            raise TableFileError(f"{self.source}: expected a column {column!r}, found none")
        return self.columns[column]

    def texts(self, column: str) -> tuple[str, ...]:
        """Return the values of a column as texts, "" where they are missing."""
        values = self.values(column)
        if isinstance(values, tuple):
            unknown = unknown_cells(values) - {""}
            return tuple("" if cell in unknown else cell for cell in values) if unknown else values
        return tuple("" if np.isnan(x) else f"{x:.15g}" for x in values.tolist())

    def known(self, column: str) -> NDArray[np.bool_]:
        """Return which items have a value in a column, (n,); none if there is no such column."""
        values = self.columns.get(column)
        if values is None:
            return np.zeros(len(self.ids), dtype=bool)
        if isinstance(values, tuple):
            plain = self.plain_numbers(column)
            if plain is None:
                unknown = unknown_cells(values)
                if not unknown:
                    return np.ones(len(values), dtype=bool)
                return np.array([cell not in unknown for cell in values], dtype=bool)
            mask = ~np.isnan(plain)
            doubtful = np.flatnonzero(~mask).tolist()
            mask[[k for k in doubtful if values[k] and is_known(values[k])]] = True  # such as +nan
            return mask
        if hasattr(values, "indptr"):
            return np.ones(len(self.ids), dtype=bool)
        return ~np.isnan(values)

    def plain_numbers(self, column: str) -> Floats | None:
        """Return a column of texts as plain numbers, NaN where missing, or None; parsed once."""
        if column not in self._plain:
            cells: Any = self.values(column)
            self._plain[column] = plain_numbers(cells)
        return self._plain[column]

    def formatted_numbers(self, column: str, written: CellFormat) -> Floats:
        """Return a column of texts as numbers, NaN where they are not `written` so; parsed once."""
        if (column, written) not in self._read:
            cells: Any = self.values(column)
            self._read[column, written] = written.parse_all(cells, unknown_cells(cells))
        return self._read[column, written]


# -- row numbers ---------------------------------------------------------------------------------


def row_start(ids: Iterable[str], n: int) -> int | None:
    """Return whether ids count n rows from 0 or from 1; None if they do not tell.

    From 0: 0 is among them, n is not. From 1: n is among them, 0 is not.

    >>> row_start(["0", "2"], 3), row_start(["3", "2"], 3), row_start(["1", "2"], 3)
    (0, 1, None)
    """
    names = set(ids)
    first, last = "0" in names, str(n) in names
    return None if first == last else 0 if first else 1


def numbered_like(items: Items, files: Mapping[str, Sequence[str]]) -> Items:
    """Return the items with the row numbers that edge files use, from 0 or from 1.

    Parameters
    ----------
    items : Items
    files : mapping of files to the ids in them

    Raises
    ------
    TableFileError
        If files count from different numbers, or from another one than the ids of the table,
        which are 0 to n - 1 or 1 to n: all edges would be one row off.
    """
    n, ids = len(items.ids), set(items.ids)
    ours = row_start(ids, n)
    if ours is None or ids != {str(ours + k) for k in range(n)}:
        return items
    starts = {file: row_start(names, n) for file, names in files.items()}
    from_0, from_1 = ([file for file in starts if starts[file] == k] for k in (0, 1))
    if from_0 and from_1:
        raise TableFileError(
            f"{from_0[0]}: expected row numbers from 1, as in {from_1[0]}, which has {n} and not "
            f"0, found numbers from 0: it has 0 and not {n}; renumber one of the two"
        )
    other = (from_1 if ours == 0 else from_0)[:1]
    if not other:
        return items
    theirs = 1 - ours
    found = f"ids from {theirs}: it has {theirs * n} and not {(1 - theirs) * n}"
    if items.id_column is None and items.first_row is None:
        sentence = f"items are numbered 0 to {n - 1}, since {other[0]} has {found}"
        new = {item: str(int(item) - 1) for item in items.ids}
        left_out = tuple((label, new[item]) for label, item in items.labels_left_out)
        renumbered = replace(items, ids=tuple(new.values()), labels_left_out=left_out)
        return replace(renumbered, numbering=sentence)
    remedy = (
        f"pass --id row{theirs}"
        if items.id_column is None
        else f"renumber one of the two, or, if {theirs * n} is no item, remove its edges"
    )
    raise TableFileError(
        f"{other[0]}: expected ids of {items.source}, {ours} to {ours + n - 1}, found {found}, as "
        f"if all were one off; {remedy}"
    )


def id_hint(items: Items, names: Sequence[str], by_row: str = BY_ROW) -> str:
    """Return which ``--id`` may match the ids in a file that does not match; "" if none does.

    Another column that has most of them, else `by_row` if all are row numbers, from 0 or from 1.
    """
    theirs, n = set(names), len(items.ids)
    if items.id_column is None or not theirs:
        return ""
    for column, cells in items.columns.items():
        if not isinstance(cells, tuple):
            continue
        ours = set(cells)
        if len(ours) == n and 2 * len(theirs & ours) > len(theirs):
            return f"pass --id {shlex.quote(column)}, the column that has them"
    rows = {str(k) for k in range(n + 1)}
    return f"if these are row numbers, pass --id {by_row}" if theirs <= rows else ""


def check_class_labels(origin: Origin, labels: Sequence[str], column: str) -> None:
    """Raise TableFileError unless there are labels, and few enough classes."""
    given = [label for label in labels if label]
    if not given:
        raise TableFileError(
            f"{origin.source}, column {column!r}: expected some labels, found {len(labels)} empty "
            "cells; fill in a few, or name another column"
        )
    if "-1" in labels:  # estimators take -1 for unlabelled
        raise TableFileError(
            f"{origin.where(labels.index('-1'), column)}: expected a label, found -1, which "
            "stands for unlabelled; leave the cell empty, or call the class something else"
        )
    classes = set(given)
    numbers = {parse_number(label) for label in classes}
    has_fractions = any(x is not None and not x.is_integer() for x in numbers)
    is_numeric = len(given) >= FEW and None not in numbers
    continuous = is_numeric and has_fractions and len(numbers) > CONTINUOUS * len(given)
    if continuous or len(classes) > max(MANY, MOSTLY_DISTINCT * len(given)):
        raise TableFileError(
            f"{origin.source}, column {column!r}: expected labels, a few classes, found "
            f"{len(classes)} different values in {len(given)} cells, such as {given[0]}; name "
            "another column, or put them into classes; numbers are predicted with --target number"
        )
