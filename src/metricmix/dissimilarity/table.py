"""What a feature table is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.validation import as_float_array

__all__ = ["check_table"]


def check_table(X: ArrayLike | Any, *, allow_nan: bool = False, name: str = "X") -> Any:
    """Return a feature table as a float64 array, or CSR array, of finite numbers.

    numpy arrays, lists, pandas tables and every scipy sparse format come in; an
    :class:`~metricmix.exceptions.InputError` names the first row and column that holds NaN or inf
    (inf only, when `allow_nan`).

    >>> check_table([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    labels = [str(label) for label in getattr(X, "columns", ())]
    if hasattr(X, "tocsr"):
        table = X.tocsr().astype(np.float64)
        table.sum_duplicates()
        values = table.data
    else:
        if hasattr(X, "to_numpy") and labels:
            try:  # pandas: its own missing value becomes NaN
                X = X.to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise InputError(f"{name}: expected real numbers, {error}") from None
        table = values = np.ascontiguousarray(as_float_array(X, name=name), dtype=np.float64)
    if table.ndim != 2:
        hint = "; one feature is a column: X.reshape(-1, 1)" if table.ndim == 1 else ""
        raise InputError(f"{name}: expected a table (n, d), got shape {table.shape}{hint}")
    if 0 in table.shape:
        raise InputError(f"{name}: expected at least one row and column, got shape {table.shape}")
    bad = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if bad.any():
        if hasattr(table, "tocsr"):
            place = int(np.argmax(bad))
            row = int(np.searchsorted(table.indptr, place, side="right")) - 1
            column, found = int(table.indices[place]), values[place]
        else:
            row, column = (int(k) for k in np.argwhere(bad)[0])
            found = values[row, column]
        label = f" ({labels[column]!r})" if labels else ""
        raise InputError(
            f"{name}: expected finite numbers, found {found} in row {row}, column {column}{label}; "
            "fill it in, or use metric='nan_euclidean' for missing values"
        )
    return table
