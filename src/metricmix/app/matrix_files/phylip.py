"""Matrices as PHYLIP stores them: the number of items, then a name and its distances for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from metricmix.app.matrix_files.arrays import MatrixFile, check_size
from metricmix.app.matrix_files.text_tables import Numbers, is_name, opened
from metricmix.exceptions import MatrixFileError
from metricmix.typing import Floats

__all__ = ["check_phylip_names", "looks_like_phylip", "read_phylip", "write_phylip"]

Line = tuple[int, str]

NAME = 10
"""Characters that a name has, strictly speaking."""


def read_phylip(source: Path) -> MatrixFile:
    """Read names and distances, square or a triangle; a row may go on over several lines.

    A name ends at the first space. Where nothing fits that way it is the first ten characters of
    its line, as the format has it strictly.
    """
    with opened(source) as file:
        lines = [(k, line.rstrip()) for k, line in enumerate(file, 1) if line.strip()]
    if not lines or not _is_count(lines[0][1]):
        number = lines[0][0] if lines else 1
        raise MatrixFileError(
            f"{source}, line {number}: expected the number of items, as PHYLIP has it"
        )
    n = int(lines[0][1])
    check_size(source, min(n, len(lines)))
    try:
        return _read(source, n, lines[1:], strict=False)
    except MatrixFileError as error:
        if not any(_is_strict(line) for _, line in lines[1:]):
            raise
        try:
            return _read(source, n, lines[1:], strict=True)
        except MatrixFileError:
            raise error from None


def looks_like_phylip(source: Path) -> bool:
    """Return whether a text starts with a number of items, and goes on."""
    with opened(source) as file:
        text = (line for line in file if line.strip())
        return _is_count(next(text, "")) and next(text, None) is not None


def write_phylip(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    """Write a square; its numbers read back as they were.

    Names with spaces take ten characters, as the format has it strictly; others what they need.
    """
    names = [str(k) for k in range(len(values))] if items is None else list(items)
    width = NAME + 1 if _need_strict(names) else max([NAME, *(len(name) + 1 for name in names)])
    file.write(f"{len(values)}\n".encode())
    for name, row in zip(names, values.tolist(), strict=True):
        file.write((name.ljust(width) + " ".join(map(repr, row)) + "\n").encode())


def check_phylip_names(target: Path, items: Sequence[str] | None) -> None:
    """Raise MatrixFileError if names would not be read back."""
    names = list(items or ())
    for name in names:
        if name.split() != [name] and not (
            _need_strict(names) and name == name.strip() != "" and max(map(len, names)) <= NAME
        ):
            raise MatrixFileError(
                f"{target}: expected names without spaces for PHYLIP, or none with more than "
                f"{NAME} characters, found {name!r}; write csv, tsv or npz"
            )


def _need_strict(names: Sequence[str]) -> bool:
    return any(_is_strict(name) for name in names)


def _is_count(line: str) -> bool:
    text = line.strip()
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_strict(line: str) -> bool:
    """Return whether ten characters are a name that would not end at its first space."""
    return any(is_name(word) for word in line[:NAME].split()[1:])


def _read(source: Path, n: int, lines: Sequence[Line], *, strict: bool) -> MatrixFile:
    numbers = Numbers(source, decimal_commas=False)
    items: list[str] = []
    rows: list[Floats] = []
    for number, line in lines:
        words = line.split()
        starts = (
            len(lines) == n  # one line per item
            or not rows
            or len(rows[-1]) >= n
            or is_name(words[0])
            or (strict and not line[0].isspace())
        )
        if starts:
            name, cells = (line[:NAME], line[NAME:].split()) if strict else (words[0], words[1:])
            items.append(name.strip())
            rows.append(numbers.read(number, cells, 1))
        else:
            rows[-1] = np.concatenate([rows[-1], numbers.read(number, words, 0)])
    if len(rows) != n:
        raise MatrixFileError(
            f"{source}: expected {n} items, as its first line says, found {len(rows)}"
        )
    return MatrixFile(_square(source, items, rows), tuple(items))


def _square(source: Path, items: Sequence[str], rows: Sequence[Floats]) -> Floats:
    """Return rows as a matrix: all of them whole, or those of a triangle."""
    n = len(rows)
    lengths = [len(row) for row in rows]
    values = np.zeros((n, n))
    if lengths == [n] * n:
        return np.array(rows).reshape(n, n)
    if lengths == list(range(n)) or lengths == list(range(1, n + 1)):
        for k, row in enumerate(rows):
            values[k, : len(row)] = row
        return np.where(np.tri(n, dtype=bool), values, values.T)
    if lengths == list(range(n))[::-1] or lengths == list(range(1, n + 1))[::-1]:
        for k, row in enumerate(rows):
            values[k, n - len(row) :] = row
        return np.where(np.tri(n, dtype=bool), values.T, values)
    # The first row tells which of these it was meant to be.
    first = lengths[0]
    wanted = {
        n: [n] * n,
        0: list(range(n)),
        1: list(range(1, n + 1)),
        n - 1: list(range(n))[::-1],
    }.get(first, [n] * n)
    at = next(k for k in range(n) if lengths[k] != wanted[k])
    raise MatrixFileError(
        f"{source}: expected {wanted[at]} distances of {items[at]!r}, item {at + 1} of {n}, found "
        f"{lengths[at]}"
    )
