"""Reading tables of edges in chunks: ids of any kind as numbers, and a value per source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import check_ids, examples, is_frame, plain_list, sorted_ids
from metricmix.exceptions import InputError, MissingPackageError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_integer

__all__ = ["Numbering", "chunks_of", "first_wrong", "read_values"]


def chunks_of(
    table: Any, source: str, target: str, columns: Sequence[str] | None, chunksize: int
) -> Iterator[Any]:
    """Yield DataFrames of at most `chunksize` rows, with all their columns or those named."""
    wanted = None if columns is None else [source, target, *columns]
    if is_frame(table):
        for start in range(0, max(1, len(table)), chunksize):
            yield table.iloc[start : start + chunksize]
        return
    path = Path(table) if isinstance(table, (str, Path)) else None
    if path is None or not path.is_file():
        raise InputError(
            argument="table",
            expected="a DataFrame or the path of a CSV or Parquet file",
            found=type(table).__name__ if path is None else f"{table!r}, which is not a file",
        )
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise MissingPackageError(
                "reading Parquet needs pyarrow: pip install metricmix[tables]"
            ) from None
        file = ParquetFile(path)
        known = None if wanted is None else [c for c in wanted if c in file.schema_arrow.names]
        for batch in file.iter_batches(chunksize, columns=known):
            yield batch.to_pandas()
        return
    try:
        import pandas as pd
    except ImportError:
        raise MissingPackageError(
            "reading CSV needs pandas: pip install metricmix[graphs]"
        ) from None
    # Ids as texts: what one chunk has as numbers, another may not.
    read: Any = pd.read_csv
    keep = None if wanted is None else (lambda name: name in wanted)
    kinds = {source: str, target: str}
    try:
        with read(path, chunksize=chunksize, dtype=kinds, usecols=keep) as chunks:
            yield from chunks
    except pd.errors.EmptyDataError:
        return
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as CSV ({error})", argument="table") from error


def read_values(chunk: Any, names: list[str], row: int) -> AnyArray:
    """Return the values of a chunk, (R, rows), NaN where they are missing."""
    values = np.empty((len(names), len(chunk)))
    for r, name in enumerate(names):
        try:
            values[r] = chunk[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise InputError(
                argument=f"column {name!r}",
                expected=f"numbers in rows {row} to {row + len(chunk) - 1} ({error})",
            ) from None
        wrong = first_wrong(values[r], nan=True)
        if wrong >= 0:
            raise InputError(
                argument=f"column {name!r}",
                expected=f"finite values >= 0, found {values[r, wrong]:g} in row {row + wrong}",
                remedy="leave such edges out",
            )
    return values


class Numbering:
    """Numbers for ids as they come along in chunks, or the places of ids among given items.

    Parameters
    ----------
    items : sequence of ids, int or None
    """

    def __init__(self, items: Any) -> None:
        self.given: AnyArray | None = None
        self.counted = items is not None and np.isscalar(items)
        if self.counted:
            self.given = np.arange(check_integer(items, name="items", low=1))
        elif items is not None:
            self.given = check_ids(items)
        listed = [] if self.given is None else self.given.tolist()
        self.number: dict[Any, int] = {item: k for k, item in enumerate(listed)}
        self.of_numbers = bool(listed) and all(isinstance(item, int) for item in listed)

    def codes(self, ids: Any, row: int, column: str) -> Indices:
        """Return the number of every id of a column."""
        import pandas as pd

        place, different = pd.factorize(ids)
        if (place < 0).any():
            found = row + int(np.argmax(place < 0))
            raise InputError(
                argument=f"column {column!r}", expected=f"an id in row {found}", found="none"
            )
        listed = plain_list(different)
        if self.of_numbers:
            listed = [as_whole(value) for value in listed]
        if self.given is None:
            for value in listed:
                self.number.setdefault(value, len(self.number))
        found_codes = np.array([self.number.get(value, -1) for value in listed], dtype=np.int64)
        unknown = [value for value, k in zip(listed, found_codes, strict=True) if k < 0]
        if unknown:
            raise InputError(
                f"{len(unknown)} ids in column {column!r} are not in items, such as "
                f"{examples(unknown)}",
                argument="table",
                remedy="add them to items, or leave their edges out",
            )
        return np.asarray(found_codes[place])

    def finished(self) -> tuple[Indices, AnyArray | None, int]:
        """Return the final number of each number dealt so far, the ids in order, and n."""
        if self.given is not None:
            n = len(self.given)
            return np.arange(n), None if self.counted else self.given, n
        listed = list(self.number)
        whole = [as_whole(value) for value in listed]
        if all(isinstance(value, int) for value in whole) and len(set(whole)) == len(whole):
            listed = whole
        ordered = sorted_ids(listed)
        place = {value: k for k, value in enumerate(ordered)}
        order = np.array([place[value] for value in listed], dtype=np.int64)
        return order, check_ids(ordered), len(ordered)


def as_whole(value: Any) -> Any:
    """Return a whole number that is written as a text or a float, else the value itself.

    >>> as_whole("12"), as_whole("012"), as_whole(3.0), as_whole("a")
    (12, '012', 3, 'a')
    """
    if isinstance(value, str):
        digits = value.removeprefix("-")
        plain = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
        return int(value) if plain else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def first_wrong(values: AnyArray, *, nan: bool) -> int:
    """Return the place of the first negative or infinite value (or NaN, unless `nan`), or -1."""
    wrong = ~(values >= 0) | np.isinf(values)
    if nan:
        wrong &= ~np.isnan(values)
    return int(np.argmax(wrong)) if wrong.any() else -1
