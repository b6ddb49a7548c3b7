"""Tables in memory: frames and arrays as columns of values.

Values keep their types. A column of numbers is a column of numbers; texts are typed as those of
files are (:mod:`metricmix.items.columns`), so that the same values mean the same from either door.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.items.cells import MANY_COLUMNS, MOSTLY_ZERO
from metricmix.labels import is_missing
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_table, unmasked

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.items.items import Values

__all__ = ["as_frame", "count_table", "text_of", "texts_of", "values_of"]

PLAIN = (str, Real, np.bool_, Decimal, date, timedelta, np.datetime64, np.timedelta64)
"""What a cell may hold."""


def as_frame(data: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame whose columns have texts as names, each its own.

    A sparse table of counts has no columns there; see :func:`count_table`.
    """
    import pandas as pd

    counts = count_table(data)
    if counts is not None:
        return pd.DataFrame(index=range(counts.shape[0]))
    frame = data if isinstance(data, pd.DataFrame) else read_frame(data)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(argument="data", expected="every column once", found=f"{twice!r} twice")
    return frame.set_axis(names, axis=1)


def count_table(data: Any) -> Any:
    """Return a sparse table of counts as CSR; None for other data.

    Counts are not negative, and most are zero. A sparse table of others, or of few columns, is read
    as an array is.
    """
    if not hasattr(data, "tocsr"):
        return None
    from scipy.sparse import csr_array

    table = csr_array(check_table(data, allow_nan=True), copy=True)
    table.data = np.nan_to_num(table.data)  # a missing count is 0
    table.eliminate_zeros()
    entries = table.shape[0] * table.shape[1]
    if table.shape[1] < MANY_COLUMNS or table.nnz > (1 - MOSTLY_ZERO) * entries:
        return None
    return table if table.data.min(initial=0.0) >= 0 else None


def read_frame(data: Any) -> pd.DataFrame:
    """Return an array, a mapping of columns, a list of records, or a frame of another library."""
    import pandas as pd

    if isinstance(data, str | PathLike):
        raise InputError(
            argument="data",
            expected="a table in memory, found the name of a file",
            remedy="read it first, as with pandas.read_csv, or run metricmix fit",
        )
    if hasattr(data, "to_pandas"):  # polars, pyarrow
        return pd.DataFrame(data.to_pandas())
    if hasattr(data, "toarray"):
        data = data.toarray()
    ragged = InputError(argument="data", expected="rows of equal length, found ragged ones")
    if isinstance(data, Mapping):
        try:
            return pd.DataFrame(dict(data))
        except ValueError:
            raise ragged.replace(expected="columns of equal length, found ragged ones") from None
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return pd.DataFrame(data)
    try:
        array = np.asarray(unmasked(data))
    except ValueError:
        raise ragged from None
    if array.dtype.kind not in "biufmMc":
        array = np.array(data, dtype=object)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.ndim != 2:
        raise InputError(
            argument="data", expected="a table, a row per item", found=f"shape {array.shape}"
        )
    return pd.DataFrame(array)


def values_of(series: pd.Series[Any], name: str) -> tuple[Values, str]:
    """Return the values of a column, and the kind that its type states ("" for none)."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return finite(series.to_numpy(dtype=np.float64, na_value=np.nan), name), ""
    if kind == "M":
        return days_of(series.to_numpy(dtype="datetime64[ns]")), "date"
    if kind == "m":
        return days_of(series.to_numpy(dtype="timedelta64[ns]")), ""
    if kind == "c":
        raise InputError(
            argument="data", expected=f"real numbers in column {name!r}, found complex ones"
        )
    cells = series.astype(object).tolist()
    if str(series.dtype) == "category":
        return texts_of(cells), "category"
    return objects_of(cells, name)


def objects_of(cells: list[Any], name: str) -> tuple[Values, str]:
    """Return the values of a column of Python objects."""
    import pandas as pd

    known = [k for k, cell in enumerate(cells) if not is_missing(cell)]
    for k in known:
        if not isinstance(cells[k], (*PLAIN, bytes)):
            raise InputError(
                argument="data",
                expected=f"numbers, texts or dates in column {name!r}",
                found=f"{type(cells[k]).__name__} in row {k}",
            )
    some = [cells[k] for k in known]
    values = np.full(len(cells), np.nan)
    if some and all(isinstance(cell, date | np.datetime64) for cell in some):
        times = [pd.Timestamp(cell) for cell in some]
        times = [time.tz_convert(None) if time.tzinfo else time for time in times]
        values[known] = days_of(np.array(times, "datetime64[ns]"))
        return values, "date"
    if some and all(isinstance(cell, timedelta | np.timedelta64) for cell in some):
        values[known] = days_of(np.array(some, "timedelta64[ns]"))
        return values, ""
    numbers = all(isinstance(cell, Real | Decimal) and not isinstance(cell, bool) for cell in some)
    if some and numbers:
        values[known] = [float(cell) for cell in some]
        return finite(values, name), ""
    return texts_of(cells), ""


def finite(values: Floats, name: str) -> Floats:
    """Return numbers; InputError if one is infinite."""
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise InputError(
            argument="data", expected=f"finite numbers, found infinity in row {row} of {name!r}"
        )
    return values


def days_of(times: AnyArray) -> Floats:
    """Return times since 1970, or durations, in days; NaN where they are missing."""
    days = times.view(np.int64) / 86400e9
    return np.where(np.isnat(times), np.nan, days)


def texts_of(values: list[Any]) -> tuple[str, ...]:
    """Return ids or labels as texts: whole numbers without a point, "" where missing."""
    return tuple(text_of(value) for value in values)


def text_of(value: Any) -> str:
    """Return an id or a label as text."""
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
