"""PHYLIP distance files: the number of items, then a name and distances for each item.

The format does not state its variant. The distances are a square matrix, or the lower or the upper
triangle, with or without the diagonal; rows extend over any number of lines; each distance may be
followed by its number of replicates (PHYLIP's option S), 0 where it is unknown. The number of
distances in each row tells these apart.

A name ends at the first blank (relaxed), or takes ten characters (strict), which may hold blanks
and need no separator behind them. Of all variants that fit, those with different names and a zero
diagonal in the file count first, then those without a diagonal. If they differ in a name or a
distance, the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import BinaryIO

import numpy as np

from metricmix.app.ingest.delimited_text import open_text
from metricmix.app.ingest.matrix_text import NumberParser, check_size
from metricmix.exceptions import MatrixFileError, TableFileError
from metricmix.items.cells import is_text, parse_cell, quoted
from metricmix.items.relation import Matrix
from metricmix.typing import Floats

__all__ = [
    "PhylipVariant",
    "check_phylip_names",
    "looks_like_phylip",
    "read_phylip",
    "write_phylip",
]

NAME_LENGTH = 10
"""Characters of a name in strict PHYLIP."""
PARTS = (("square", True), ("lower", False), ("lower", True), ("upper", False), ("upper", True))
"""Parts of a matrix, with or without the diagonal."""
Lines = Sequence[tuple[int, str]]
"""Lines that are not blank, with their numbers."""


# -- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhylipVariant:
    """How names end, which part of the matrix is stored, and whether counts follow distances."""

    strict: bool
    part: str = "square"
    diagonal: bool = True
    replicates: bool = False

    def row_length(self, k: int, n: int) -> int:
        """Return how many numbers row k of n has."""
        entries = {"square": n, "lower": k + self.diagonal, "upper": n - 1 - k + self.diagonal}
        return entries[self.part] * (1 + self.replicates)

    def split(self, line: str) -> tuple[str, list[str]]:
        """Return the name at the beginning of a line, and the words after it."""
        if self.strict:
            return line[:NAME_LENGTH].strip(), line[NAME_LENGTH:].split()
        name, *words = line.split()
        return name, words

    def find_rows(self, n: int, lines: Lines) -> list[int]:
        """Return the first line of each row, and the end; [] if the lines are not such rows."""
        starts, line = [0], 0
        for row in range(n):
            if line == len(lines):
                return []
            length, found = self.row_length(row, n), len(self.split(lines[line][1])[1])
            line += 1
            while found < length and line < len(lines):
                found += len(lines[line][1].split())
                line += 1
            if found != length:
                return []
            starts.append(line)
        return starts if line == len(lines) else []

    def read(self, lines: Lines, rows: Sequence[int], parser: NumberParser) -> Matrix | None:
        """Return matrix and names; None if a name of ten characters seems to hold distances.

        Row k is on the lines from `rows[k]` up to `rows[k + 1]`. A name seems to hold distances if
        it is blank, or has a tab, a decimal number or several numbers in it. Raises TableFileError
        where a distance is not a number, or a replicate count not an integer.
        """
        n = len(rows) - 1
        names: list[str] = []
        values = np.zeros((n, n))
        for k, (start, stop) in enumerate(pairwise(rows)):
            number, line = lines[start]
            name, words = self.split(line)
            inside = [word for word in name.split()[1:] if np.isfinite(parse_cell(word))]
            if not name or "\t" in name or len(inside) > 1 or "." in "".join(inside):
                return None
            names.append(name)
            parsed = [parser.parse(number, words, 2)]
            for number, line in lines[start + 1 : stop]:
                words += line.split()
                parsed.append(parser.parse(number, line.split(), 1))
            row = np.concatenate(parsed)
            if self.replicates:
                for count in words[1::2]:
                    if not (count.isascii() and count.isdigit()):
                        raise TableFileError(
                            f"{parser.source}, line {parser.line}: expected {n} distances of "
                            f"{name!r}, or an integer after each as its replicate count, found "
                            f"{count!r} there"
                        )
                row = np.where(row[1::2] == 0, np.nan, row[::2])
            if self.part == "upper":
                values[k, n - len(row) :] = row
            else:
                values[k, : len(row)] = row
        if self.part != "square":
            values = np.where(np.tri(n, dtype=bool) == (self.part == "lower"), values, values.T)
        return Matrix(values, tuple(names))


def read_phylip(source: Path) -> Matrix:
    """Read names and distances in the variant that makes the file a matrix.

    Raises
    ------
    MatrixFileError, TableFileError
        If no variant does, or several do and give different matrices.
    """
    file = open_text(source)
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
    best, found = (False, False, False), list[Matrix]()
    errors: dict[int, TableFileError] = {}
    for strict, replicates, (part, diagonal) in product((False, True), (False, True), PARTS):
        variant = PhylipVariant(strict, part, diagonal, replicates)
        rows = variant.find_rows(n, lines)
        parser = NumberParser(source, decimal_commas=False)
        try:
            reading = variant.read(lines, rows, parser) if rows else None
        except TableFileError as error:
            errors.setdefault(parser.line, error)
            continue
        if reading is None:
            continue
        is_zero = not np.nan_to_num(np.diagonal(reading.values)).any()
        order = len(set(reading.items or ())) == n, diagonal and is_zero, is_zero
        if order > best:
            best, found = order, []
        if order == best:
            found.append(reading)
    if not found:
        raise explain_misfit(source, n, lines, errors)
    first = found[0]
    for other in found[1:]:
        same = np.array_equal(first.values, other.values, equal_nan=True)
        if first.items != other.items or not same:
            raise MatrixFileError(
                f"{source}: expected a file that can be read in one way only, found names "
                f"{quoted(first.items or ())} or {quoted(other.items or ())} with other distances; "
                "put a blank behind each name and none into it, or write csv"
            )
    return first


def explain_misfit(
    source: Path, n: int, lines: Lines, errors: Mapping[int, TableFileError]
) -> MatrixFileError | TableFileError:
    """Return the error of a file that fits no variant: items, numbers, or distances of an item.

    `errors` are those of variants whose rows fit, by line; the last line is most likely wrong.
    """
    strict = any(is_text(word) for _, line in lines for word in line.split()[1:])
    rows: list[tuple[int, str]] = []
    lengths: list[int] = []
    for number, line in lines:
        if len(lines) == n or not rows or is_text(line.split()[0]):
            name, words = PhylipVariant(strict).split(line)
            rows.append((number, name))
            lengths.append(len(words))
        else:
            lengths[-1] += len(line.split())
    if errors:
        return errors[max(errors)]
    if len(rows) != n:
        return MatrixFileError(
            f"{source}: expected {n} items, as its first line says, found {len(rows)}"
        )
    variants = (PhylipVariant(strict, *part, twice) for twice in (False, True) for part in PARTS)
    fitting = (variant for variant in variants if variant.row_length(0, n) == lengths[0])
    intended = next(fitting, PhylipVariant(strict))
    expected = [intended.row_length(k, n) for k in range(len(rows))]
    at = next((k for k in range(n) if lengths[k] != expected[k]), -1)
    number, name = rows[at]
    return MatrixFileError(
        f"{source}, line {number}: expected {expected[at]} distances of {name!r}, item "
        f"{at % n + 1} of {n}, found {lengths[at]}; is there a space behind the name?"
    )


def looks_like_phylip(source: Path) -> bool:
    """Return whether a text starts with a number of items, and continues."""
    lines = [line for line in open_text(source) if line.strip()]
    return len(lines) > 1 and _is_count(lines[0])


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
