"""A table of any kind as numbers: measurements, categories, texts, counts and dates.

====================  ==========================================  ==================================
a column of           is recognised by                            and becomes
====================  ==========================================  ==================================
numbers               a numeric type; texts that are all numbers  itself
dates                 a date type; texts such as 2024-05-31       days
categories            bool and category types; other texts        a 0/1 column per value (beyond 50
                                                                  values, the rare ones share one)
texts                 mostly different, most with spaces          tf-idf of words, rows of length 1
codes                 mostly different, 20 characters or more     tf-idf of 2 to 4 characters
counts                20 numeric columns or more, none negative,  tf-idf, rows of length 1
                      of similar size, 90 % of the entries zero
====================  ==========================================  ==================================

A missing number is the median of its column, with a 0/1 column that says so; a missing category is
a category; a missing text has no words. Columns without any value, and short texts that no two rows
share (names, ids), are dropped with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import is_frame
from metricmix.exceptions import InputError, warn_caller
from metricmix.labels import is_missing
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_table, unmasked

__all__ = [
    "EncodedTable",
    "are_counts",
    "as_array",
    "encode_table",
    "sizes_are_similar",
]

MOST_WORDS, TOPICS = 20_000, 100
MANY_COLUMNS, MOSTLY_ZERO, SIMILAR_SIZE = 20, 0.9, 100.0
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].+)?")
CODE = re.compile(r"[-+]?0\d+")
"""A number with zeros in front: a code."""
DAY = timedelta(days=1)
Column = tuple[str, Any]
"""The kind of a column, "number", "category", "words", "characters" or "none", and its values."""


@dataclass(frozen=True)
class EncodedTable:
    """The columns of a table of n rows, by kind.

    Attributes
    ----------
    numbers : (n, d) array
        Measurements and dates; the median of the column where they are missing.
    missing : (n, m) array
        1 where numbers are missing, one column per set of rows.
    categories : (n, c) array
        Number of the category in each column.
    texts : (n, V) sparse array or None
        tf-idf of texts and counts, rows of length 1 (0 without words).
    of_counts : bool
        Whether the table holds nothing but counts.
    """

    numbers: Floats
    missing: Floats
    categories: Indices
    texts: Any = None
    of_counts: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether all rows are equal."""
        dense = (self.numbers, self.missing, self.categories)
        if any((part != part[:1]).any() for part in dense):
            return False
        return self.texts is None or (self.texts.max(axis=0) - self.texts.min(axis=0)).nnz == 0

    @property
    def n_kinds(self) -> int:
        """How many of numbers, categories and texts there are."""
        parts = (self.numbers, self.categories)
        return sum(bool(part.shape[1]) for part in parts) + (self.texts is not None)

    @cached_property
    def topics(self) -> Floats:
        """The texts by their leading singular vectors, (n, 100)."""
        from sklearn.decomposition import TruncatedSVD

        k = min(TOPICS, min(self.texts.shape) - 1)
        if k < 1:
            return np.asarray(self.texts.toarray())
        return np.asarray(TruncatedSVD(k, random_state=0).fit_transform(self.texts))


def encode_table(X: Any) -> EncodedTable:
    """Return the columns of a table by kind.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d), or images (n, height, width)
        What the columns may hold is said above. NaN, None, NA and NaT are missing.

    Raises
    ------
    InputError
        Without rows or columns; for infinite or complex numbers, and for objects that are neither
        numbers, texts nor dates.

    Examples
    --------
    >>> table = encode_table(np.array([[1, "red"], [None, "red"], [3, "blue"]], dtype=object))
    >>> table.numbers.ravel(), table.missing.ravel(), table.categories.ravel()
    (array([1., 2., 3.]), array([0., 1., 0.]), array([1, 1, 0]))
    """
    if is_frame(X):
        names = [repr(name) for name in X.columns]
        plain = [getattr(dtype, "kind", "O") in "iuf" for dtype in X.dtypes]
    else:
        X = as_array(X)
        names = [str(k) for k in range(X.shape[1] if X.ndim > 1 else 0)]
        plain = [X.dtype.kind in "biufc"] * len(names)
    if all(plain) or 0 in X.shape:
        return of_numbers(check_table(X, allow_nan=True), names)
    if is_frame(X):
        series = [X.iloc[:, k] for k in range(len(names))]
        columns = [read_series(*column) for column in zip(series, names, strict=True)]
    else:
        columns = [read_objects(X[:, k].tolist(), name) for k, name in enumerate(names)]
    texts: list[Any] = []
    for k, (kind, values) in enumerate(columns):
        if kind in ("words", "characters"):
            found = word_table(values, kind)
            texts += [] if found is None else [found]
            columns[k] = (kind, values) if found is not None else ("none", "no words")
    report_dropped(
        f"{name} ({why})"
        for name, (kind, why) in zip(names, columns, strict=True)
        if kind == "none"
    )
    labels = [name for name, (kind, _) in zip(names, columns, strict=True) if kind == "number"]
    numbers = [values for kind, values in columns if kind == "number"]
    table = of_numbers(np.column_stack([np.empty((len(X), 0)), *numbers]), labels)
    categories = [codes for kind, codes in columns if kind == "category"]
    if categories:
        table = replace(table, categories=np.column_stack(categories), of_counts=False)
    if texts:
        from scipy.sparse import hstack

        texts += [] if table.texts is None else [table.texts]
        table = replace(table, texts=normalised_rows(hstack(texts)), of_counts=False)
    return table


def as_array(X: Any) -> Any:
    """Return a table as an array of its own type, images as rows of pixels."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    X = unmasked(X)
    if not isinstance(X, np.ndarray):
        try:
            array = np.asarray(X)
        except ValueError:
            raise InputError(
                argument="X", expected="rows of equal length", found="ragged ones"
            ) from None
        # numpy writes numbers beside texts as texts, and None as "None".
        X = array if array.dtype.kind in "biufc" else np.array(X, dtype=object)
    if X.ndim > 2 and X.dtype.kind in "biuf" and X.size:
        return X.reshape(len(X), -1)
    if X.ndim != 2:
        check_table(np.empty(X.shape))
    return X


def of_numbers(table: Any, names: Sequence[str]) -> EncodedTable:
    """Return a table of numbers, dense or sparse, with NaN where they are missing."""
    n, d = table.shape
    nothing, none = np.empty((n, 0)), np.empty((n, 0), dtype=np.int64)
    if d >= MANY_COLUMNS and are_counts(table, MOSTLY_ZERO):
        return EncodedTable(nothing, nothing, none, tf_idf(table), of_counts=True)
    values = np.asarray(table if isinstance(table, np.ndarray) else table.toarray())
    gaps = np.isnan(values)
    if not gaps.any():
        return EncodedTable(values, nothing, none)
    empty = gaps.all(axis=0)
    report_dropped(f"{names[k]} (no value)" for k in np.flatnonzero(empty).tolist())
    values, gaps = values[:, ~empty], gaps[:, ~empty]
    some = np.flatnonzero(gaps.any(axis=0))
    filled = values.copy()
    for k in some:
        filled[gaps[:, k], k] = np.median(values[~gaps[:, k], k])
    return EncodedTable(filled, np.unique(gaps[:, some], axis=1).astype(np.float64), none)


def report_dropped(columns: Iterable[str]) -> None:
    """Warn which columns are dropped, and why."""
    listed = list(columns)
    if listed:
        more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
        warn_caller(f"X: dropped columns {', '.join(listed[:5])}{more}", UserWarning)


# -- columns that are not of a numeric type ------------------------------------------------------


def read_series(series: Any, name: str) -> Column:
    """Return the kind and the values of a column of a DataFrame."""
    kind = getattr(series.dtype, "kind", "O")
    if kind == "f" or kind in "iu":
        frame = series.to_frame(name.strip("'"))
        values = check_table(frame, allow_nan=True).ravel()
        return ("none", "no value") if np.isnan(values).all() else ("number", values)
    if kind in "mM":
        values = series.to_numpy(dtype="datetime64[ns]" if kind == "M" else "timedelta64[ns]")
        return read_times(values)
    if str(series.dtype) == "category":
        codes = np.unique(series.cat.codes, return_inverse=True)[1]
        return ("none", "no value") if series.isna().all() else ("category", codes)
    if kind == "c":
        raise InputError(
            argument="X", expected=f"real numbers in column {name}", found=f"dtype {series.dtype}"
        )
    return read_objects(series.astype(object).tolist(), name)


def read_times(values: AnyArray) -> Column:
    """Return times or durations as days, NaN where they are missing."""
    if np.isnat(values).all():
        return "none", "no value"
    start = values.dtype.type(0, "ns")
    return "number", (values.astype(start.dtype) - start) / np.timedelta64(1, "D")


def read_objects(values: list[Any], name: str) -> Column:
    """Return the kind and the values of a column of Python objects."""
    values = [
        value.decode(errors="replace") if isinstance(value, bytes) else value for value in values
    ]
    known = [i for i, value in enumerate(values) if not is_missing(value) and value != ""]
    types = (str, Real, np.bool_, Decimal, date, timedelta, np.datetime64, np.timedelta64)
    for i in known:
        if not isinstance(values[i], types):
            raise InputError(
                argument="X",
                expected=f"numbers, categories, texts or dates in column {name}",
                found=f"{type(values[i]).__name__} in row {i}",
            )
    if not known:
        return "none", "no value"
    found = [values[i] for i in known]
    numbers = np.full(len(values), np.nan)
    parsed = as_numbers(found)
    if parsed is not None:
        numbers[known] = parsed
        return "number", check_table(numbers[:, None], allow_nan=True).ravel()
    texts = [""] * len(values)
    for i in known:
        texts[i] = str(values[i])
    return text_kind(texts, [texts[i] for i in known])


def as_numbers(values: list[Any]) -> list[float] | None:
    """Return numbers, dates (in days), or texts that are all one of these; None for others."""
    if all(isinstance(value, str) for value in values):
        values = [value.strip() for value in values]
        if all(map(ISO_DATE.fullmatch, values)):
            readers: tuple[Callable[[str], Any], ...] = (datetime.fromisoformat,)
        else:
            readers = () if any(map(CODE.fullmatch, values)) else (float,)
        for read in readers:
            try:
                values = [read(value) for value in values]
            except ValueError:
                return None
    if any(isinstance(value, str | bool | np.bool_) for value in values):
        return None
    if all(isinstance(value, Real | Decimal) for value in values):
        return [float(value) for value in values]
    if all(isinstance(value, timedelta) for value in values):
        return [value / DAY for value in values]
    if all(isinstance(value, date) for value in values):
        return [as_days(value) for value in values]
    if all(isinstance(value, np.datetime64 | np.timedelta64) for value in values):
        return [float(day) for day in read_times(np.array(values))[1]]
    return None


def as_days(value: date) -> float:
    """Return the days since 1970 of a date, with its time if it has one."""
    if not isinstance(value, datetime):
        return float((value - date(1970, 1, 1)).days)
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() / 86400.0


def text_kind(texts: list[str], known: list[str]) -> Column:
    """Return whether texts are words, characters, categories or none of these, and the values."""
    distinct = len(set(known))
    if 2 * distinct > len(known):
        spaced = sum(" " in text.strip() for text in known)
        if 2 * spaced > len(known) and distinct > 1:
            return "words", texts
        long = 20  # characters from which on a text without spaces is more than a name
        if np.mean([len(text) for text in known]) >= long:
            return "characters", texts
    if distinct == len(known) > 1:
        return "none", "no two rows share a value"
    return "category", np.unique(texts, return_inverse=True)[1]


# -- words and counts ----------------------------------------------------------------------------


def word_table(texts: list[str], kind: str) -> Any:
    """Return the tf-idf of the words (or characters) of texts, (n, V) sparse; None without any."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer

    by_kind: dict[str, Any] = {
        "words": {"token_pattern": r"(?u)\b\w+\b"},
        "characters": {"analyzer": "char", "ngram_range": (2, 4)},
    }
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=MOST_WORDS, **by_kind[kind])
    try:
        return csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # no words
        return None


def are_counts(table: Any, zeros: float) -> bool:
    """Return whether a table may hold counts, as of words.

    That is: no entry is negative, at least the share `zeros` is zero, and no column is a hundred
    times larger than others, where it is not zero.
    """
    values = table if isinstance(table, np.ndarray) else table.data
    n_nonzero = np.count_nonzero(values)
    if (
        n_nonzero > (1 - zeros) * table.shape[0] * table.shape[1]
        or np.nanmin(values, initial=0) < 0
    ):
        return False
    return sizes_are_similar(table)


def sizes_are_similar(table: Any) -> bool:
    """Return whether no column is a hundred times larger than the median one, zeros left out."""
    if isinstance(table, np.ndarray):
        total, having = np.nansum(np.abs(table), axis=0), np.count_nonzero(table, axis=0)
    else:
        total, having = (
            np.asarray(abs(table).sum(axis=0)).ravel(),
            np.bincount(table.indices, minlength=table.shape[1]),
        )
    means = np.nan_to_num(total[having > 0] / having[having > 0])
    middle = np.sort(means)[(len(means) - 1) // 2 :]  # of two columns, the smaller one
    return len(means) == 0 or bool(middle[-1] <= SIMILAR_SIZE * middle[0])


def tf_idf(table: Any) -> Any:
    """Return counts weighted by rarity, ``1 + log((1 + n) / (1 + rows that have it))``, sparse."""
    from scipy.sparse import csr_array

    counts = csr_array(table, copy=True)
    counts.data[np.isnan(counts.data)] = 0.0
    counts.eliminate_zeros()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = 1.0 + np.log((1.0 + counts.shape[0]) / (1.0 + having))
    return normalised_rows(counts.multiply(rarity))


def normalised_rows(table: Any) -> Any:
    """Return the rows of a sparse table at length 1 (or 0)."""
    from scipy.sparse import csr_array
    from sklearn.preprocessing import normalize

    return csr_array(normalize(csr_array(table)))
