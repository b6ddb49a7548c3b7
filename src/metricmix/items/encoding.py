"""The features that columns become, by their kinds (:mod:`metricmix.items.columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import TableFileError
from metricmix.items.cells import quoted
from metricmix.items.columns import MOST_CATEGORIES, Column, infer_columns, is_block, numbers_of
from metricmix.items.in_memory import as_items
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["Encoding", "counts_of", "encode", "encode_data", "filled_numbers"]

MOST_WORDS = 5000
SPARSE_BELOW = 0.3
"""Share of entries other than 0 below which features are a sparse table."""
AS_THEY_ARE = ("number", "date", "plain")


@dataclass(frozen=True, eq=False)
class Encoding:
    """Features (n, d), dense or CSR, the columns they come from, and how others become the same.

    Attributes
    ----------
    features : (n, d) array or CSR array
    columns : tuple of Column
    parts : tuple of pairs
        Columns that become features together, and the fitted transformer; None for numbers.
    """

    features: Any
    columns: tuple[Column, ...]
    parts: tuple[tuple[tuple[Column, ...], Any], ...]

    def transform(self, items: Items) -> Any:
        """Return the features of other items, by the same scales, categories and words."""
        found = [
            scaled(items, columns) if model is None else model.transform(input_of(items, columns))
            for columns, model in self.parts
        ]
        return beside(found, sparse=not isinstance(self.features, np.ndarray))


def encode(items: Items, columns: Sequence[Column]) -> Encoding:
    """Return attributes as features, by the kinds of their columns; not all may be ignored.

    Numbers come first, then counts, categories and texts.
    """
    from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
    from sklearn.preprocessing import OneHotEncoder

    of_kind = {
        kind: tuple(column for column in columns if column.kind == kind)
        for kind in (*AS_THEY_ARE, "count", "category", "text")
    }
    wanted: list[tuple[tuple[Column, ...], Any]] = [
        (of_kind[kind], None) for kind in AS_THEY_ARE if of_kind[kind]
    ]
    if of_kind["count"]:
        wanted.append((of_kind["count"], TfidfTransformer()))
    if of_kind["category"]:
        rare = {"max_categories": MOST_CATEGORIES, "handle_unknown": "infrequent_if_exist"}
        wanted.append((of_kind["category"], OneHotEncoder(**rare)))
    for column in of_kind["text"]:
        words = TfidfVectorizer(max_features=MOST_WORDS, token_pattern=r"(?u)\b\w+\b")
        wanted.append(((column,), words))
    found = []
    for some, model in wanted:
        try:
            found.append(
                scaled(items, some) if model is None else model.fit_transform(input_of(items, some))
            )
        except TableFileError:
            raise
        except ValueError as error:  # such as texts without a word
            names = quoted([column.name for column in some])
            raise TableFileError(f"{items.source}, {names}: {error}") from None
    total = sum(part.shape[1] for part in found) * max(1, len(items.ids))
    entries = sum(part.size if isinstance(part, np.ndarray) else part.nnz for part in found)
    some_sparse = not all(isinstance(part, np.ndarray) for part in found)
    features = beside(found, sparse=some_sparse and entries < SPARSE_BELOW * total)
    return Encoding(features, tuple(c for some, _ in wanted for c in some), tuple(wanted))


def encode_data(data: Any) -> Any:
    """Return a table in memory as features, (n, d), whatever its columns are."""
    items = as_items(data)
    columns = [column for column in infer_columns(items) if column.kind != "ignore"]
    return encode(items, columns).features if columns else np.zeros((len(items), 1))


def beside(parts: Sequence[Any], *, sparse: bool) -> Any:
    """Return tables beside each other, as CSR or as an array."""
    if sparse:
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack(parts, format="csr"))
    return np.hstack([part if isinstance(part, np.ndarray) else part.toarray() for part in parts])


def input_of(items: Items, columns: Sequence[Column]) -> Any:
    """Return columns as a transformer of scikit-learn takes them."""
    if columns[0].kind == "count":
        return counts_of(items, columns)
    if columns[0].kind == "text":
        return items.texts(columns[0].name)
    table: NDArray[np.object_] = np.empty((len(items.ids), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        table[:, k] = items.texts(column.name)
    return table


def counts_of(items: Items, columns: Sequence[Column]) -> Any:
    """Return columns and tables of counts beside each other, CSR (n, d); 0 where missing."""
    from scipy.sparse import csr_array, hstack

    blocks: list[Any] = [items.values(column.name) for column in columns if is_block(items, column)]
    single = [column for column in columns if not is_block(items, column)]
    if single:
        blocks.insert(0, csr_array(filled_numbers(items, single)))
    return blocks[0] if len(blocks) == 1 else csr_array(hstack(blocks, format="csr"))


def filled_numbers(items: Items, columns: Sequence[Column]) -> Floats:
    """Return columns of numbers; a missing number is the median of the fit, a missing count 0."""
    table = np.empty((len(items.ids), len(columns)))
    for k, column in enumerate(columns):
        values = numbers_of(items, column)
        table[:, k] = np.where(np.isnan(values), column.centre, values)
    return table


def scaled(items: Items, columns: Sequence[Column]) -> Floats:
    """Return numbers and dates less their median, without far values, at variance 1."""
    table = filled_numbers(items, columns)
    for k, column in enumerate(columns):
        if column.kind != "plain":
            near = np.clip(table[:, k] - column.centre, -column.reach, column.reach)
            table[:, k] = near / column.spread
    return table
