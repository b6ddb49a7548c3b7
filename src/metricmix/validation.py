"""Input checks: the one place that decides what is acceptable, and says what is not.

Everything public calls these at the door; everything behind the door trusts its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.deadline import Deadline, use_deadline
from metricmix.kernels.threads import in_threads

__all__ = [
    "check_choice",
    "check_copies_fit",
    "check_index",
    "check_indices",
    "check_integer",
    "check_number",
    "check_random_state",
    "check_square",
    "check_square_fits",
    "check_table",
    "symmetrized",
    "unmasked",
]

Result = TypeVar("Result")

LARGE = 1 << 26
"""Bytes up to which nobody asks whether they fit into memory."""
BLOCK_ENTRIES = 1 << 17
"""Entries of a matrix that are read at once."""
SYMMETRY_TOLERANCE = 1e-9
"""Largest asymmetry, relative to the largest entry, that counts as rounding (and is left alone)."""


def check_square_fits(
    n: int,
    bytes_per_entry: float,
    *,
    what: str,
    argument: str,
    instead: str = "take fewer items, or float32 numbers",
) -> None:
    """Raise TooLargeError unless n × n entries of so many bytes fit into memory.

    Small amounts are not checked.
    """
    if bytes_per_entry * n * n > LARGE:
        from metricmix.memory import check_fits

        def needed(items: int) -> float:
            return bytes_per_entry * items * items

        check_fits(needed, n, what=what, instead=instead, argument=argument)


def check_copies_fit(matrix: Any, copies: int, *, what: str, argument: str) -> None:
    """Raise TooLargeError unless copies of an (n, n) array, of its own type, fit into memory."""
    shape: tuple[int, ...] = getattr(matrix, "shape", ())
    if len(shape) == 2:
        size = getattr(getattr(matrix, "dtype", None), "itemsize", 8)
        check_square_fits(int(shape[0]), copies * size, what=what, argument=argument)


def check_square(
    matrix: ArrayLike,
    *,
    name: str = "matrix",
    directed: bool = False,
    allow_infinite: bool = False,
    allow_negative: bool = False,
    require_zero_diagonal: bool = True,
    allow_unknown: bool = False,
    offer_directed: bool = True,
    items: Sequence[object] | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Return `matrix` as a square floating-point array that is a dissimilarity.

    float32 and float64 arrays, memory maps included, pass through uncopied; everything else
    becomes float64. A square array with n >= 1 rows, without NaN (or masked entries) unless
    `allow_unknown`, symmetric up to rounding (1e-9 of the largest entry, 1e-6 in float32) unless
    `directed`, is what comes out; or an
    :class:`~metricmix.exceptions.InputError`, which speaks of `directed` only to those who can pass
    it, and calls rows by their ids if `items` are given.
    """

    def at(i: int, j: int) -> str:
        return f"at ({i}, {j})" if items is None else f"from {items[i]!r} to {items[j]!r}"

    array = as_float_array(matrix, name=name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(
            argument=name, expected="a square matrix (n, n)", found=f"shape {array.shape}"
        )
    n = array.shape[0]
    if n == 0:
        raise InputError(argument=name, expected="at least one item", found="an empty matrix")
    read = partial(survey_rows, array, allow_infinite, allow_unknown, allow_negative, not directed)
    surveys = over_row_blocks(read, n, n_jobs)
    strange = next((survey.strange for survey in surveys if survey.strange is not None), None)
    if strange is not None:
        value = array[strange]
        if value < 0 and np.isfinite(value):
            raise InputError(
                argument=name,
                expected=f"non-negative entries, found {value:.6g} {at(*strange)}",
            )
        raise InputError(
            argument=name,
            expected=f"finite entries, found {value} {at(*strange)}",
            remedy="decide what missing or unreachable pairs are worth and fill them in",
        )
    largest = max(survey.largest for survey in surveys)
    worst, worst_pair = max(((s.gap, s.gap_at) for s in surveys), key=lambda found: found[0])
    if require_zero_diagonal:
        diagonal = np.diagonal(array)
        if allow_unknown:
            diagonal = np.nan_to_num(diagonal, nan=0.0)
        if np.any(np.abs(diagonal) > SYMMETRY_TOLERANCE * largest):
            i = int(np.argmax(np.abs(diagonal)))
            raise InputError(
                argument=name,
                expected=f"a zero diagonal, found {diagonal[i]:.6g} {at(i, i)}",
                remedy="set it to 0 (a similarity must first be turned into a dissimilarity)",
            )
    rounding = max(SYMMETRY_TOLERANCE, 8 * float(np.finfo(array.dtype).eps))
    if worst > rounding * largest:
        raise InputError(
            argument=name,
            expected=f"symmetric, largest asymmetry {worst:.6g} {at(*worst_pair)}",
            remedy=(
                f"{'pass directed=True or ' * offer_directed}symmetrise it, e.g. (M + M.T) / 2"
            ),
        )
    return array


def symmetrized(array: NDArray[Any], *, n_jobs: int | None = None) -> NDArray[Any]:
    """Return an array made exactly symmetric, uncopied if it is: the smaller of two entries counts.

    For what :func:`check_square` took for rounding.
    """

    def is_symmetric(bounds: tuple[int, int]) -> bool:
        start, stop = bounds
        return np.array_equal(array[start:stop, :stop], array[:stop, start:stop].T)

    if all(over_row_blocks(is_symmetric, len(array), n_jobs)):
        return array
    smaller: NDArray[Any] = np.minimum(array, array.T)
    return smaller


def over_row_blocks(
    function: Callable[[tuple[int, int]], Result], n: int, n_jobs: int | None
) -> list[Result]:
    """Return what a function finds in blocks of rows of an (n, n) array, whatever the deadline.

    The second cache holds a few copies of a block.
    """
    step = max(1, BLOCK_ENTRIES // max(n, 1))
    with use_deadline(Deadline()):
        blocks = [(start, min(start + step, n)) for start in range(0, n, step)]
        return in_threads(function, blocks, n_jobs)


def unmasked(values: Any) -> Any:
    """Return a masked array of numbers as a plain one, with NaN in place of its masked entries.

    Anything else is returned as it is. A list of masked rows counts as one masked array.

    >>> unmasked(np.ma.masked_greater([[0, 1], [9, 0]], 5))
    array([[ 0.,  1.],
           [nan,  0.]])
    """
    if isinstance(values, list | tuple) and any(map(np.ma.isMaskedArray, values)):
        values = np.ma.array(values)
    if not np.ma.isMaskedArray(values):
        return values
    if not np.ma.is_masked(values):
        return np.asarray(values)
    if values.dtype.kind in "biu":
        values = values.astype(np.float64)
    if values.dtype.kind not in "fO":
        raise InputError(
            f"masked entries: expected an array of numbers, found dtype {values.dtype}"
        )
    return values.filled(np.nan)


def as_float_array(values: ArrayLike, *, name: str) -> NDArray[Any]:
    """Return `values` as float32 or float64, uncopied where it is one of these already.

    Masked entries of a masked array become NaN.
    """
    if hasattr(values, "toarray"):  # scipy sparse: a zero may mean "no edge" or "distance 0"
        raise InputError(
            argument=name,
            expected="a dense array",
            found=f"a sparse {type(values).__name__}",
            remedy=("a graph becomes a dissimilarity through metricmix.dissimilarity.path_length"),
        )
    values = unmasked(values)
    if not isinstance(values, np.ndarray):  # an array of another library, possibly on disk
        check_copies_fit(values, 1, what="a copy", argument=name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(
            argument=name, expected="rows of equal length", found="ragged ones"
        ) from None
    if array.dtype in (np.float32, np.float64):
        return array
    try:
        if array.dtype.kind not in "biufO":
            raise TypeError
        if array.ndim == 2 and array.shape[0] == array.shape[1]:
            check_square_fits(len(array), 8, what="a copy as float64", argument=name)
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            argument=name, expected="real numbers", found=f"dtype {array.dtype}"
        ) from None


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
                raise InputError(argument=name, expected=f"real numbers, {error}") from None
        table = values = np.ascontiguousarray(as_float_array(X, name=name), dtype=np.float64)
    if table.ndim != 2:
        hint = "; one feature is a column: X.reshape(-1, 1)" if table.ndim == 1 else ""
        raise InputError(
            argument=name, expected="a table (n, d)", found=f"shape {table.shape}{hint}"
        )
    if 0 in table.shape:
        raise InputError(
            argument=name, expected="at least one row and column", found=f"shape {table.shape}"
        )
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
            argument=name,
            expected=f"finite numbers, found {found} in row {row}, column {column}{label}",
            remedy=(
                "mark it as missing by NaN"
                if allow_nan
                else "fill it in, or use metric='nan_euclidean' for missing values"
            ),
        )
    return table


def check_indices(indices: ArrayLike, n: int, *, name: str = "indices") -> NDArray[np.int64]:
    """Return item numbers in 0 .. n-1 as a one-dimensional int64 array (negative ones refused)."""
    array = np.atleast_1d(np.asarray(indices))
    if array.dtype == bool and array.shape == (n,):
        return np.flatnonzero(array).astype(np.int64)
    if array.dtype == bool:
        raise InputError(
            argument=name, expected=f"a mask of {n} items", found=f"shape {array.shape}"
        )
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            argument=name,
            expected="item numbers",
            found=f"dtype {array.dtype} with shape {array.shape}",
        )
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= n:
        raise InputError(
            argument=name,
            expected=f"item numbers in 0 .. {n - 1}, found {low if low < 0 else high}",
        )
    return array.astype(np.int64)


def check_index(index: Any, n: int, *, name: str = "index") -> int:
    """Return one item number in 0 .. n-1."""
    checked = check_indices(index, n, name=name)
    if len(checked) != 1:
        raise InputError(argument=name, expected="one item number", found=f"{index!r}")
    return int(checked[0])


def check_choice(value: str, choices: tuple[str, ...], *, name: str) -> str:
    """Return `value` if it is among `choices`."""
    if value not in choices:
        raise InputError(
            argument=name, expected=f"one of {', '.join(map(repr, choices))}", found=f"{value!r}"
        )
    return value


def check_number(
    value: Any, *, name: str, low: float = -np.inf, high: float = np.inf, open_low: bool = False
) -> float:
    """Return a finite number in [low, high] (or ]low, high] when `open_low`)."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(argument=name, expected="a number", found=f"{value!r}") from None
    if not np.isfinite(number) or number < low or number > high or (open_low and number == low):
        bounds = f"{'> ' if open_low else '>= '}{low:g}" if low > -np.inf else "finite"
        if high < np.inf:
            bounds += f" and <= {high:g}"
        raise InputError(argument=name, expected=f"a number {bounds}", found=f"{value!r}")
    return number


def check_random_state(random_state: Any) -> tuple[np.random.Generator, int | None]:
    """Return a generator, and the seed it came from where that is a number."""
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            argument="random_state",
            expected="None, a whole number >= 0 or a Generator",
            found=f"{random_state!r}",
        ) from None
    whole = isinstance(random_state, int | np.integer)
    return rng, int(random_state) if whole else None


def check_integer(value: Any, *, name: str, low: int = 0) -> int:
    """Return a whole number >= low."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(argument=name, expected=f"a whole number >= {low}", found=f"{value!r}")
    return int(value)


class RowSurvey(NamedTuple):
    """What :func:`check_square` wants to know of some rows of a matrix.

    Attributes
    ----------
    strange : (int, int) or None
        The first entry that may not be there.
    largest : float
        The largest absolute value of a finite entry.
    gap : float
        The largest difference between mirrored entries, left of the last diagonal entry.
    gap_at : (int, int)
        Where it is.
    """

    strange: tuple[int, int] | None
    largest: float = 0.0
    gap: float = 0.0
    gap_at: tuple[int, int] = (0, 0)


def survey_rows(
    array: NDArray[Any],
    allow_infinite: bool,
    allow_unknown: bool,
    allow_negative: bool,
    symmetric: bool,
    bounds: tuple[int, int],
) -> RowSurvey:
    """Return what is found in some rows."""
    start, stop = bounds
    rows = np.asarray(array[start:stop])
    low, high = float(rows.min()), float(rows.max())  # NaN if there is one
    if np.isfinite(low) and np.isfinite(high):
        largest = max(high, -low)
    else:
        finite = np.isfinite(rows)
        strange = ~finite
        if allow_infinite:
            strange &= rows != np.inf
        if allow_unknown:
            strange &= ~np.isnan(rows)
        if strange.any():
            return RowSurvey(_first(strange, start))
        largest = float(np.max(np.abs(rows), where=finite, initial=0.0))
    if not (low >= 0 or allow_negative) and (rows < 0).any():
        return RowSurvey(_first(rows < 0, start))
    if not symmetric:
        return RowSurvey(None, largest)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(rows[:, :stop] - np.asarray(array[:stop, start:stop]).T)
    gap = float(gaps.max())
    if np.isnan(gap):  # inf - inf, or unknown
        gaps[np.isnan(gaps)] = 0.0
        gap = float(gaps.max())
    if gap == 0:
        return RowSurvey(None, largest)
    row, column = np.unravel_index(int(gaps.argmax()), gaps.shape)
    return RowSurvey(None, largest, gap, (int(row) + start, int(column)))


def _first(mask: NDArray[np.bool_], offset: int) -> tuple[int, int]:
    """First True of a block of rows that starts at row `offset`."""
    i, j = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(i) + offset, int(j)
