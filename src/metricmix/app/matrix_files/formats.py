"""Reading and writing, by what a file's name ends with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from metricmix.app.matrix_files.arrays import (
    MatrixFile,
    check_names,
    read_npy,
    read_npz,
    write_npy,
    write_npz,
)
from metricmix.app.matrix_files.phylip import (
    check_phylip_names,
    looks_like_phylip,
    read_phylip,
    write_phylip,
)
from metricmix.app.matrix_files.text_tables import read_table, write_table
from metricmix.atomic import replacing
from metricmix.exceptions import MatrixFileError, TooLargeError
from metricmix.typing import Floats

__all__ = ["check_target", "read_matrix", "write_matrix"]


@dataclass(frozen=True)
class Format:
    """How a kind of file is read and written."""

    read: Callable[[Path], MatrixFile]
    write: Callable[[BinaryIO, Floats, Sequence[str] | None], None]


def read_matrix(path: str | os.PathLike[str]) -> MatrixFile:
    r"""Read a square matrix; unknown entries are NaN.

    Raises
    ------
    MatrixFileError
        If there is no such file, or it is not what its name says: the sentence names file, line and
        column.
    TooLargeError
        If it does not fit into memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "towns.csv"
    >>> _ = file.write_text("town,Aa,Bo\nAa,0,5\nBo,5,0\n")
    >>> read_matrix(file)
    MatrixFile(values=array([[0., 5.],
           [5., 0.]]), items=('Aa', 'Bo'), rounding=0.0)
    """
    source = Path(path)
    kind = _format_of(source)
    try:
        found = kind.read(source)
    except OSError as error:
        raise MatrixFileError(f"{source}: {error.strerror or error}") from None
    except TooLargeError:
        raise
    except MemoryError:
        raise TooLargeError(f"{source}: the matrix does not fit into memory") from None
    values, n = found.values, len(found.values)
    if not n:
        raise MatrixFileError(f"{source}: expected at least one item, found an empty matrix")
    if found.items is not None:
        check_names(source, found.items, n)
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        i, j = infinite[0].tolist()
        raise MatrixFileError(
            f"{source}: expected finite numbers, found {values[i, j]} for {found.name(i)}, "
            f"{found.name(j)}; NaN stands for an unknown entry"
        )
    return replace(found, values=_completed(values))


def write_matrix(
    path: str | os.PathLike[str], values: NDArray[Any], items: Sequence[str] | None = None
) -> None:
    """Write a square matrix, whole or not at all, in the format that the file's ending names.

    Numbers read back as they were.
    """
    target = Path(path)
    check_target(target, items)
    try:
        with replacing(target) as file:
            _format_of(target).write(file, np.asarray(values, np.float64), items)
    except OSError as error:
        raise MatrixFileError(f"{target}: {error.strerror or error}") from None


def check_target(path: str | os.PathLike[str], items: Sequence[str] | None = None) -> None:
    """Raise MatrixFileError if a matrix with such names could not be written there.

    To be asked before a long computation, not after it.
    """
    target = Path(path)
    kind = _format_of(target)
    if kind.write is write_phylip:
        check_phylip_names(target, items)
    if target.is_dir():
        raise MatrixFileError(f"{target}: expected a file to write, found a folder")
    if not target.parent.is_dir():
        raise MatrixFileError(f"{target}: expected a folder {target.parent}, found none")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise MatrixFileError(f"{target}: nothing may be written in the folder {target.parent}")


def _format_of(path: Path) -> Format:
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise MatrixFileError(f"{path}: expected a name that ends with {', '.join(FORMATS)}")
    return found


def _completed(values: Floats) -> Floats:
    """Fill what needs no thought: a zero diagonal, and a side that is unknown altogether."""
    unknown = np.isnan(values)
    if not unknown.any():
        return values
    below = np.tri(len(values), k=-1, dtype=bool)
    no_lower, no_upper = bool(unknown[below].all()), bool(unknown.T[below].all())
    if no_lower != no_upper:
        values = np.where(below if no_lower else below.T, values.T, values)
    values = values.copy()
    diagonal = np.einsum("ii->i", values)
    diagonal[np.isnan(diagonal)] = 0.0
    return values


def _read_text(source: Path) -> MatrixFile:
    return read_phylip(source) if looks_like_phylip(source) else read_table(source)


PHYLIP = Format(read_phylip, write_phylip)
FORMATS = {
    ".npy": Format(read_npy, write_npy),
    ".npz": Format(read_npz, write_npz),
    ".csv": Format(read_table, write_table(",")),
    ".tsv": Format(read_table, write_table("\t")),
    ".txt": Format(_read_text, write_table("\t")),
    ".phy": PHYLIP,
    ".phylip": PHYLIP,
    ".dist": PHYLIP,
}
