"""Dissimilarity matrices in files, with the names of their items.

====================  ==========================================================================
``.npy``, ``.npz``    a square array; in an npz the only one there is, or the one called "matrix",
                      with its names in "items" if there are any
``.csv``, ``.tsv``,   numbers, with or without names in the first row, the first column or both;
``.txt``              tabs, semicolons, bars, commas or spaces between; decimal points, or commas
                      where these do not separate; empty cells and "NA" are missing
``.phy``,             PHYLIP: the number of items, then a name and its distances for each; square or
``.phylip``,          a triangle; names up to the first blank, or of ten characters with blanks in
``.dist``             them and no separator behind; with or without replicate counts
``.nwk``,             Newick: path distances between the leaves of the first tree
``.newick``,          (:mod:`metricmix.app.ingest.trees`)
``.tree``, ``.tre``
``.nex``,             NEXUS: the block of DISTANCES, or else path distances in the first tree
``.nexus``,
``.nxs``, ``.trees``
====================  ==========================================================================

Where all entries on one side of the diagonal are missing, the other side counts for both; a
missing entry on the diagonal is 0. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from metricmix.app.ingest.delimited_text import PER_BYTE_OF_TEXT, content_errors, read_bytes
from metricmix.app.ingest.matrix_text import (
    check_names,
    check_size,
    read_delimited_matrix,
    write_delimited_matrix,
)
from metricmix.app.ingest.phylip import (
    check_phylip_names,
    looks_like_phylip,
    read_phylip,
    write_phylip,
)
from metricmix.app.ingest.table_files import read_table
from metricmix.app.ingest.trees import read_tree
from metricmix.atomic import replacing
from metricmix.dissimilarity.matching import places_of
from metricmix.exceptions import (
    MatrixFileError,
    TableFileError,
    TooLargeError,
    array_file_errors,
)
from metricmix.items.cells import parse_cell, quoted
from metricmix.items.relation import Matrix
from metricmix.memory import check_room
from metricmix.typing import AnyArray, Floats

__all__ = [
    "check_target",
    "read_cross_matrix",
    "read_matrix",
    "write_matrix",
]


# -- all formats ---------------------------------------------------------------------------------


def read_matrix(path: str | os.PathLike[str]) -> Matrix:
    r"""Read a square matrix; missing entries are NaN.

    Raises
    ------
    MatrixFileError
        If there is no such file, or it is not what its name says: the message states file, line
        and column.
    TooLargeError
        If it does not fit into memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "towns.csv"
    >>> _ = file.write_text("town,Aa,Bo\nAa,0,5\nBo,5,0\n")
    >>> found = read_matrix(file)
    >>> found.items, found.values.tolist()
    (('Aa', 'Bo'), [[0.0, 5.0], [5.0, 0.0]])
    """
    source = Path(path)
    read = READERS[_suffix(source)]
    try:
        found = read(source)
    except OSError as error:
        raise MatrixFileError(f"{source}: {error.strerror or error}") from None
    except TableFileError as error:
        raise MatrixFileError(str(error)) from None
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
    missing = np.isnan(values)
    if missing.any():
        below = np.tri(n, k=-1, dtype=bool)
        no_lower, no_upper = bool(missing[below].all()), bool(missing.T[below].all())
        if no_lower != no_upper:
            values = np.where(below if no_lower else below.T, values.T, values)
        values = np.where(np.eye(n, dtype=bool) & missing, 0.0, values)
    return replace(found, values=values, source=source)


def write_matrix(
    path: str | os.PathLike[str], values: AnyArray, items: Sequence[str] | None = None
) -> None:
    """Write a square matrix, whole or not at all, in the format of the file's suffix.

    Numbers read back as they were.
    """
    target = Path(path)
    check_target(target, items)
    try:
        with replacing(target) as file:
            WRITERS[_suffix(target)](file, np.asarray(values, np.float64), items)
    except OSError as error:
        raise MatrixFileError(f"{target}: {error.strerror or error}") from None


def check_target(path: str | os.PathLike[str], items: Sequence[str] | None = None) -> None:
    """Raise MatrixFileError if a matrix with such names could not be written there.

    Call it before a long computation.
    """
    target = Path(path)
    if _suffix(target) in TREES:
        raise MatrixFileError(f"{target}: a tree cannot be written; write csv or phy")
    if _suffix(target) in PHYLIP:
        check_phylip_names(target, items)
    if target.is_dir():
        raise MatrixFileError(f"{target}: expected a file to write, found a folder")
    if not target.parent.is_dir():
        raise MatrixFileError(f"{target}: expected a folder {target.parent}, found none")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise MatrixFileError(f"{target}: no permission to write to the folder {target.parent}")


def read_cross_matrix(
    path: str | os.PathLike[str], rows: Sequence[str], columns: Sequence[str]
) -> Floats:
    """Read the dissimilarities from m items to n other items, (m, n), from ``.npy`` or text.

    `rows` and `columns` are their ids. A text has them in its first column and its first row, in
    any order; an array is in their order. Other rows and columns of a text are left out. A tree has
    most of them among its leaves. What is not there, and empty cells, are NaN.
    """
    file, shape = Path(path), (len(rows), len(columns))
    if file.suffix.lower() in TREES:
        matrix = read_matrix(file)
        places = places_of(matrix, rows), places_of(matrix, columns)
        values = matrix.values[np.ix_(*places)]
        values[places[0] < 0], values[:, places[1] < 0] = np.nan, np.nan
    elif file.suffix.lower() == ".npy":
        content = io.BytesIO(read_bytes(file, PER_BYTE_OF_TEXT))
        try:
            values = np.load(content, allow_pickle=False).astype(np.float64)
        except content_errors() as error:
            raise _damaged(file, "npy", error) from None
        if values.shape != shape:
            raise MatrixFileError(
                f"{file}: expected shape {shape}, a row per new item and a column per item of the "
                f"fit, found {values.shape}"
            )
    else:
        table = read_table(file)
        column_of = {name: k for k, name in enumerate(table.rows[0]) if k > 0}
        row_of = {row[0]: k for k, row in enumerate(table.rows) if k > 0}
        for what, ids, found in (("column", columns, column_of), ("row", rows, row_of)):
            if not found.keys() & set(ids):
                raise MatrixFileError(
                    f"{file}: expected a {what} for each of {len(ids)} items, found none, such as "
                    f"for {quoted(ids)}"
                )
        signs = ",." if table.origin.decimal_commas else "."
        values = np.full(shape, np.nan)
        for i, item in enumerate(rows):
            cells = table.rows[row_of[item]] if item in row_of else []
            for j, other in enumerate(columns if cells else ()):
                if other not in column_of:
                    continue
                cell = cells[column_of[other]]
                values[i, j] = parse_cell(cell, signs)
                if np.isinf(values[i, j]):
                    where = table.where(row_of[item], other)
                    raise MatrixFileError(f"{where}: expected a number, found {cell[:40]!r}")
    bad = np.isinf(values) | (values < 0)
    if bad.any():
        i, j = np.argwhere(bad)[0].tolist()
        raise MatrixFileError(
            f"{file}: expected numbers >= 0, found {values[i, j]:g} from {rows[i]!r} to "
            f"{columns[j]!r}"
        )
    return np.asarray(values)


# -- numpy ---------------------------------------------------------------------------------------


def _read_npy(source: Path) -> Matrix:
    """Read the one array; its shape is checked before its content is read."""
    try:
        array = np.lib.format.open_memmap(source, mode="r")
    except array_file_errors() as error:
        raise _damaged(source, "npy", error) from None
    return _matrix_of_array(source, array)


def _read_npz(source: Path) -> Matrix:
    """Read the only array, or the one called matrix, and the names in items."""
    try:
        # numpy does not close a file that it cannot read.
        with open(source, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise MatrixFileError(f"{source}: expected an npz file, found a single array (npy)")
            content: Any = loaded
            with content:
                names = content.files
                if "matrix" not in names and {"format", "shape", "data"} <= set(names):
                    raise MatrixFileError(
                        f"{source}: expected a dense array, found a scipy sparse matrix, in which "
                        "0 and unknown look alike; store its .toarray() with numpy.save, unknown "
                        "entries as NaN"
                    )
                arrays = [name for name in names if name != "items"]
                arrays = ["matrix"] if "matrix" in names else arrays
                if len(arrays) != 1:
                    raise MatrixFileError(
                        f"{source}: expected one array, or one called 'matrix', found "
                        f"{', '.join(map(repr, arrays)) or 'none'}"
                    )
                size = sum(entry.file_size for entry in content.zip.infolist())
                check_room(
                    2 * size, what="reading it", instead="take fewer items", argument=str(source)
                )
                items = content["items"] if "items" in names else None
                return _matrix_of_array(source, content[arrays[0]], items, arrays[0])
    except (MatrixFileError, TooLargeError):
        raise
    except array_file_errors() as error:
        raise _damaged(source, "npz", error) from None


def _matrix_of_array(
    source: Path, array: AnyArray, items: AnyArray | None = None, name: str = ""
) -> Matrix:
    """Check type and shape of an array and of the names beside it."""
    if not isinstance(array, np.ndarray):
        raise MatrixFileError(f"{source}: expected an array, found a file {name!r} of another kind")
    if array.dtype.kind not in "biuf":
        raise MatrixFileError(f"{source}: expected real numbers, found dtype {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise MatrixFileError(f"{source}: expected a square matrix, found shape {array.shape}")
    names = None
    if items is not None:
        if items.ndim != 1 or items.dtype.kind not in "USiu":
            raise MatrixFileError(
                f"{source}: expected a name per item in 'items', found dtype {items.dtype} with "
                f"shape {items.shape}"
            )
        if items.dtype.kind == "S":
            items = np.char.decode(items, "utf-8")
        names = tuple(str(item) for item in items.tolist())
    check_size(source, len(array))
    rounding = 8 * float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
    return Matrix(np.array(array, np.float64, order="C", subok=False), names, rounding)


def _damaged(source: Path, kind: str, error: Exception) -> MatrixFileError:
    reason = str(error).lower()
    if "pickle" in reason or "python object" in reason or "object array" in reason:
        return MatrixFileError(
            f"{source}: expected numbers, found Python objects, which are not read since reading "
            "them could run any code; store plain numbers"
        )
    return MatrixFileError(f"{source}: expected an {kind} file, found none, or a damaged one")


def _write_npz(file: BinaryIO, values: Floats, items: Sequence[str] | None) -> None:
    names: dict[str, Any] = {} if items is None else {"items": np.array(items, dtype=np.str_)}
    np.savez_compressed(file, matrix=values, **names)


# -- formats by suffix ---------------------------------------------------------------------------


def _read_txt(source: Path) -> Matrix:
    return read_phylip(source) if looks_like_phylip(source) else read_delimited_matrix(source)


PHYLIP = (".phy", ".phylip", ".dist")
TREES = (".nwk", ".newick", ".tree", ".tre", ".nex", ".nexus", ".nxs", ".trees")
READERS: dict[str, Callable[[Path], Matrix]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": read_delimited_matrix,
    ".tsv": read_delimited_matrix,
    ".txt": _read_txt,
    **dict.fromkeys(PHYLIP, read_phylip),
    **dict.fromkeys(TREES, read_tree),
}
WRITERS: dict[str, Callable[[BinaryIO, Floats, Sequence[str] | None], None]] = {
    ".npy": lambda file, values, items: np.save(file, values),
    ".npz": _write_npz,
    ".csv": write_delimited_matrix,
    ".tsv": partial(write_delimited_matrix, delimiter="\t"),
    ".txt": partial(write_delimited_matrix, delimiter="\t"),
    **dict.fromkeys(PHYLIP, write_phylip),
}


def _suffix(path: Path) -> str:
    """Return the ending of a name; MatrixFileError if no format has it."""
    if path.suffix.lower() not in READERS:
        raise MatrixFileError(f"{path}: expected a name that ends with {', '.join(READERS)}")
    return path.suffix.lower()
