"""PHYLIP distance files: the number of items, then a name and distances for each item.

The format does not state its variant. A name ends at the first blank (relaxed), or takes ten
characters (strict), which may hold blanks and need no separator behind them. The distances are a
square matrix, or the lower or the upper triangle, with or without the diagonal; rows extend over
any number of lines; each distance may be followed by its number of replicates (PHYLIP's option S),
0 where it is unknown. Every variant fixes how many numbers each row has, so few of them fit a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import BinaryIO

import numpy as np

from metricmix.app.ingest.delimited_text import NumberParser, is_text, open_text
from metricmix.app.ingest.matrix_text import NamedMatrix, check_size
from metricmix.exceptions import MatrixFileError, TableFileError
from metricmix.items.cells import is_missing
from metricmix.typing import Floats

__all__ = [
    "PhylipReading",
    "PhylipVariant",
    "check_phylip_names",
    "choose_reading",
    "explain_misfit",
    "looks_like_phylip",
    "read_phylip",
    "read_variant",
    "write_phylip",
]

RUNS_INTO_NUMBER = re.compile(r"[^\d.]\d*\.\d+(?:[eE][-+]?\d+)?$")
"""The end of a word that is a text with a decimal number right behind it."""
NAME_LENGTH = 10
"""Characters of a name in strict PHYLIP."""
Lines = Sequence[tuple[int, str]]
"""Lines that are not blank, with their numbers."""


# -- variants ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhylipVariant:
    """How names end, which part of the matrix is stored, and whether counts follow distances."""

    strict: bool
    part: str
    """"square", "lower" or "upper"."""
    diagonal: bool
    replicates: bool

    def row_length(self, k: int, n: int) -> int:
        """Return how many numbers row k of n has."""
        if self.part == "square":
            entries = n
        else:
            entries = (k if self.part == "lower" else n - 1 - k) + self.diagonal
        return entries * (1 + self.replicates)

    def split(self, line: str) -> tuple[str, list[str]]:
        """Return the name at the beginning of a line, and the words after it."""
        if self.strict:
            return line[:NAME_LENGTH].strip(), line[NAME_LENGTH:].split()
        name, *words = line.split()
        return name, words

    def find_rows(self, n: int, after_name: Sequence[int], words: Sequence[int]) -> list[int]:
        """Return the first line of each row, and the end; [] if the lines are not such rows.

        Line k has `words[k]` words, `after_name[k]` of them after a name.
        """
        starts, line = [0], 0
        for row in range(n):
            if line == len(words):
                return []
            length, found = self.row_length(row, n), after_name[line]
            line += 1
            while found < length and line < len(words):
                found += words[line]
                line += 1
            if found != length:
                return []
            starts.append(line)
        return starts if line == len(words) else []

    def __str__(self) -> str:
        names = "names of ten characters" if self.strict else "names up to the first blank"
        part = "a square matrix" if self.part == "square" else f"a {self.part} triangle"
        if self.part != "square":
            part += f" with{'' if self.diagonal else 'out'} its diagonal"
        return f"{names} and {part}{' with replicate counts' if self.replicates else ''}"


VARIANTS = tuple(
    PhylipVariant(strict, part, diagonal, replicates)
    for strict, replicates, (part, diagonal) in product(
        (False, True),
        (False, True),
        (
            ("square", True),
            ("lower", False),
            ("lower", True),
            ("upper", False),
            ("upper", True),
        ),
    )
)


@dataclass(frozen=True)
class PhylipReading:
    """A file read as one PHYLIP variant; `numbers_in_names`: some names contain numbers."""

    variant: PhylipVariant
    names: tuple[str, ...]
    values: Floats
    numbers_in_names: bool

    def equals(self, other: PhylipReading) -> bool:
        """Return whether the names and the matrix are the same."""
        same = np.array_equal(self.values, other.values, equal_nan=True)
        return self.names == other.names and same

    @property
    def has_zero_diagonal(self) -> bool:
        """Whether diagonal entries are 0, or not known."""
        return not np.nan_to_num(np.diagonal(self.values)).any()

    @property
    def is_consistent(self) -> bool:
        """Whether a triangle has a zero diagonal and nothing negative; a square may be anything."""
        if self.variant.part == "square":
            return True
        return self.has_zero_diagonal and not bool((self.values < 0).any())

    @property
    def is_confirmed(self) -> bool:
        """Whether the file states a zero diagonal and, where it is a square, is symmetric."""
        return (
            self.variant.diagonal
            and self.has_zero_diagonal
            and np.array_equal(self.values, self.values.T, equal_nan=True)
        )


# -- reading -------------------------------------------------------------------------------------


def read_phylip(source: Path) -> NamedMatrix:
    """Read names and distances in whatever variant makes the file a matrix.

    Raises
    ------
    MatrixFileError, TableFileError
        If no variant fits, or several do and give different matrices or names.
    """
    with open_text(source) as file:
        lines = [(k, line.rstrip()) for k, line in enumerate(file, 1) if line.strip()]
    if not lines or not _is_count(lines[0][1]):
        number = lines[0][0] if lines else 1
        raise MatrixFileError(
            f"{source}, line {number}: expected the number of items, as PHYLIP has it"
        )
    n = int(lines[0][1].strip())  # int does not skip all that strip does
    if n == 0:
        raise MatrixFileError(f"{source}: expected at least one item, found an empty matrix")
    lines = lines[1:]
    check_size(source, min(n, len(lines) + 1))
    words = [len(line.split()) for _, line in lines]
    after_name = {
        False: [count - 1 for count in words],
        True: [len(line[NAME_LENGTH:].split()) for _, line in lines],
    }
    readings: list[PhylipReading] = []
    errors: dict[int, TableFileError] = {}
    for variant in VARIANTS if n <= len(lines) else ():
        rows = variant.find_rows(n, after_name[variant.strict], words)
        if not rows or (variant.strict and _names_end_alike(lines, rows)):
            continue
        parser = NumberParser(source, decimal_commas=False)
        try:
            reading = read_variant(variant, lines, rows, parser)
        except TableFileError as error:
            errors.setdefault(parser.line, error)
            continue
        if reading is not None and not any(map(reading.equals, readings)):
            readings.append(reading)
    if not readings:  # report the variant that fits the most lines
        raise errors[max(errors)] if errors else explain_misfit(source, n, lines)
    chosen = choose_reading(source, readings)
    return chosen.values, chosen.names


def _names_end_alike(lines: Lines, rows: Sequence[int]) -> bool:
    """Return whether each name ends at the first blank and within ten characters as well."""
    for k in rows[:-1]:
        line = lines[k][1]
        around = line[NAME_LENGTH - 1 : NAME_LENGTH + 1]  # the last of the name, and the next one
        is_cut = len(around) == 2 and around.split() == [around]
        if is_cut or len(line[:NAME_LENGTH].split()) != 1:
            return False
    return True


def read_variant(
    variant: PhylipVariant, lines: Lines, rows: Sequence[int], parser: NumberParser
) -> PhylipReading | None:
    """Return names and matrix; None if a name is blank or seems to hold distances.

    Row k is on the lines from `rows[k]` up to `rows[k + 1]`. A name seems to hold distances if it
    has a tab, a decimal number or several numbers in it. Raises TableFileError where a distance is
    not a number, or a replicate count not an integer.
    """
    n = len(rows) - 1
    names: list[str] = []
    values = np.zeros((n, n))
    numbers_in_names = False
    for k, (start, stop) in enumerate(pairwise(rows)):
        number, line = lines[start]
        name, words = variant.split(line)
        numbers = [word for word in name.split()[1:] if not is_text(word) and not is_missing(word)]
        if not name or "\t" in name or len(numbers) > 1 or "." in "".join(numbers):
            return None
        names.append(name)
        # Words of the line that lie in the ten characters of the name, or begin there.
        in_name = line.split()[1 : len(line[:NAME_LENGTH].split())] if variant.strict else []
        numbers_in_names |= not all(map(is_text, in_name))
        try:
            parsed = [parser.parse(number, words, 2)]
        except TableFileError:
            whole = line.split()[0]
            if words and len(whole) > NAME_LENGTH and RUNS_INTO_NUMBER.search(words[0]):
                raise _runs_into_number(parser.source, number, whole) from None
            raise
        for number, line in lines[start + 1 : stop]:
            words += line.split()
            parsed.append(parser.parse(number, line.split(), 1))
        row = np.concatenate(parsed)
        if variant.replicates:
            for count in words[1::2]:
                if not (count.isascii() and count.isdigit()):
                    raise TableFileError(
                        f"{parser.source}, line {parser.line}: expected {n} distances of {name!r}, "
                        f"or an integer after each as its replicate count, found {count!r} there"
                    )
            row = np.where(row[1::2] == 0, np.nan, row[::2])
        if variant.part == "upper":
            values[k, n - len(row) :] = row
        else:
            values[k, : len(row)] = row
    if variant.part == "lower":
        values = np.where(np.tri(n, dtype=bool), values, values.T)
    elif variant.part == "upper":
        values = np.where(np.tri(n, dtype=bool), values.T, values)
    return PhylipReading(variant, tuple(names), values, numbers_in_names)


def choose_reading(source: Path, readings: Sequence[PhylipReading]) -> PhylipReading:
    """Return the reading that the file confirms; MatrixFileError if two are as good.

    1. Names that differ beat names that do not.
    2. A consistent triangle beats one that is not, and names without numbers in them beat others. A
       file that is better in one of these and worse in the other is ambiguous.
    3. A zero diagonal in the file beats one that is not there.
    """
    found = list(readings)
    distinct = [one for one in found if len(set(one.names)) == len(one.names)]
    found = distinct or found
    consistent = [one for one in found if one.is_consistent] or found
    plain = [one for one in found if not one.numbers_in_names] or found
    if best := [one for one in consistent if any(one is other for other in plain)]:
        best = [one for one in best if one.is_confirmed] or best
    else:
        best = [consistent[0], plain[0]]
    if len(best) > 1:
        raise MatrixFileError(
            f"{source}: expected one way to read the file, found two: as {best[0].variant}, or as "
            f"{best[1].variant}; write names without blanks and a tab after each, or save it as csv"
        )
    return best[0]


def explain_misfit(source: Path, n: int, lines: Lines) -> MatrixFileError | TableFileError:
    """Return the error of a file that fits no variant: items, numbers, or distances of an item."""
    errors: list[MatrixFileError | TableFileError] = []
    for strict in (False, True):
        variant = PhylipVariant(strict, "square", True, False)
        parser = NumberParser(source, decimal_commas=False)
        names: list[str] = []
        lengths: list[int] = []
        starts: list[int] = []
        try:
            for number, line in lines:
                name, words = variant.split(line)
                starts_row = (
                    len(lines) == n
                    or not names
                    or lengths[-1] >= n
                    or is_text(line.split()[0])
                    or (strict and not line[0].isspace())
                )
                parser.parse(number, words if starts_row else line.split(), 2 if starts_row else 1)
                if starts_row:
                    names.append(name)
                    lengths.append(len(words))
                    starts.append(number)
                else:
                    lengths[-1] += len(line.split())
        except TableFileError as error:
            errors.append(error)
            continue
        if len(names) != n:
            said = f"expected {n} items, as its first line says, found {len(names)}"
        else:
            at, expected = _wrong_length(lengths)
            if lengths[at] == expected - 1 and RUNS_INTO_NUMBER.search(names[at]):
                return _runs_into_number(source, starts[at], names[at])
            said = (
                f"expected {expected} distances of {names[at]!r}, item {at + 1} of {n}, found "
                f"{lengths[at]}"
            )
        return MatrixFileError(f"{source}: {said}")
    return errors[0]


def _runs_into_number(source: Path, line: int, word: str) -> TableFileError:
    """Return the error of a name without a separator behind it."""
    return TableFileError(
        f"{source}, line {line}: the name runs into the first number ({word!r}); put a space "
        "between them"
    )


def _wrong_length(lengths: Sequence[int]) -> tuple[int, int]:
    """Return a row of wrong length and the expected one; the first row tells the variant."""
    n = len(lengths)
    intended = {
        0: PhylipVariant(False, "lower", False, False),
        1: PhylipVariant(False, "lower", True, False),
        n - 1: PhylipVariant(False, "upper", False, False),
        2 * n: PhylipVariant(False, "square", True, True),
    }.get(lengths[0], PhylipVariant(False, "square", True, False))
    expected = [intended.row_length(k, n) for k in range(n)]
    wrong = (k for k in range(n) if lengths[k] != expected[k])
    at = next(wrong, n - 1)
    return at, expected[at]


def looks_like_phylip(source: Path) -> bool:
    """Return whether a text starts with a number of items, and continues."""
    with open_text(source) as file:
        text: Iterator[str] = (line for line in file if line.strip())
        return _is_count(next(text, "")) and next(text, None) is not None


def _is_count(line: str) -> bool:
    text = line.strip()
    return text.isascii() and text.isdigit() and len(text) < 10


# -- writing -------------------------------------------------------------------------------------


def write_phylip(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    """Write a square; its numbers read back as they were.

    Names with spaces take ten characters, as in strict PHYLIP; others what they need.
    """
    names = [str(k) for k in range(len(values))] if items is None else list(items)
    width = max([NAME_LENGTH, *(len(name) + 1 for name in names)])
    if any(map(_has_space_in_name, names)):
        width = NAME_LENGTH + 1
    file.write(f"{len(values)}\n".encode())
    for name, row in zip(names, values.tolist(), strict=True):
        file.write((name.ljust(width) + " ".join(map(repr, row)) + "\n").encode())


def check_phylip_names(target: Path, items: Sequence[str] | None) -> None:
    """Raise MatrixFileError if names would not be read back."""
    names = list(items or ())
    strict = any(map(_has_space_in_name, names)) and max(map(len, names)) <= NAME_LENGTH
    for name in names:
        if name.split() != [name] and not (strict and name == name.strip() != ""):
            raise MatrixFileError(
                f"{target}: expected names without spaces for PHYLIP, or none with more than "
                f"{NAME_LENGTH} characters, found {name!r}; write csv, tsv or npz"
            )


def _has_space_in_name(name: str) -> bool:
    """Return whether a name of ten characters does not end at its first space."""
    return any(is_text(word) for word in name[:NAME_LENGTH].split()[1:])
