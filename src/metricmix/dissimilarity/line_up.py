"""The sources given to a stack: one by one, and lined up, the same item in the same row of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.items import check_ids, examples, is_frame, is_numbering
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError

__all__ = ["as_list", "line_up"]


def as_list(sources: Any) -> list[Any]:
    """Split whatever was given into a list of R sources."""
    if isinstance(sources, Source) or is_frame(sources):
        return [sources]
    if sources is None or np.isscalar(sources):
        raise InputError(
            f"stack: expected a list of matrices or an (n, n, R) array, got {sources!r}"
        )
    if isinstance(sources, np.ndarray):
        if sources.ndim == 2:
            return [sources]
        if sources.ndim == 3 and sources.shape[0] == sources.shape[1]:
            return [sources[:, :, r] for r in range(sources.shape[2])] or _refuse_empty()
        raise InputError(
            f"stack: expected an (n, n, R) array, got shape {sources.shape}; "
            "np.moveaxis(a, 0, -1) makes one of an (R, n, n) array"
        )
    listed = list(sources)
    return listed or _refuse_empty()


def _refuse_empty() -> list[Any]:
    raise InputError("stack: expected at least one dissimilarity, got none")


def line_up(
    sources: Sequence[Any], labels: Sequence[str], items: Any = None
) -> tuple[list[Any], NDArray[Any] | None]:
    """Return the sources with their rows and columns in the order of the items, and the ids.

    Parameters
    ----------
    sources : sequence of arrays, DataFrames or Source
        Those that know their ids (a square DataFrame with an index other than the default one, a
        :class:`~metricmix.dissimilarity.DissimilarityMatrix` with `items`) are reordered, in a
        copy, where their order is another. The others are left as they are.
    labels : sequence of str
        What error messages call the sources.
    items : sequence of ids, optional
        Default: the ids of the first source that knows them; None if no source does. Ids that are
        the numbers 0 .. n - 1 in another order, as a networkx graph may have them, are taken for
        the places of the items: their order is 0, 1, …

    >>> M = as_dissimilarity(np.array([[0, 1], [2, 0]]), "steps", items=["b", "a"])
    >>> line_up([M], ["stack[0]"], items=["a", "b"])
    ([DissimilarityMatrix([[0, 2],
                           [1, 0]])], array(['a', 'b'], dtype='<U1'))
    """
    read = [_labelled(source, label) for source, label in zip(sources, labels, strict=True)]
    whose = "items"
    ids = None if items is None else check_ids(items)
    lined_up = []
    for (source, own), label in zip(read, labels, strict=True):
        if own is not None and ids is None:
            numbers = own.dtype.kind == "i" and np.array_equal(np.sort(own), np.arange(len(own)))
            ids, whose = np.arange(len(own)) if numbers else own, label
        if own is not None and ids is not None and own.tolist() != ids.tolist():
            order = _order(own, ids, f"{label}: expected the ids of {whose}")
            source = _reordered(source, order)
        lined_up.append(source)
    return lined_up, ids


def _labelled(source: Any, label: str) -> tuple[Any, NDArray[Any] | None]:
    """Return a source and the ids of its rows and columns, if it knows them."""
    if isinstance(source, DissimilarityMatrix):
        return source, source.items
    if not is_frame(source):
        return source, None
    matrix = np.asarray(source)
    rows, columns = source.index, source.columns
    if len(rows) != len(columns) or (is_numbering(rows) and is_numbering(columns)):
        return matrix, None
    ids, across = check_ids(rows, name=label), check_ids(columns, name=label)
    if ids.tolist() != across.tolist():
        order = _order(across, ids, f"{label}: expected columns labelled as its rows")
        matrix = matrix[:, order]
    return matrix, ids


def _order(own: NDArray[Any], wanted: NDArray[Any], expected: str) -> NDArray[np.int64]:
    """Return the places of the ids `wanted` among one's own, which must be the same ids."""
    places = {label: k for k, label in enumerate(own.tolist())}
    listed = wanted.tolist()
    missing = [label for label in listed if label not in places]
    known = set(listed)
    surplus = [label for label in places if label not in known]
    if missing or surplus:
        found = [
            f"{len(some)} {what}, such as {examples(some)}"
            for some, what in ((missing, "missing"), (surplus, "more"))
            if some
        ]
        raise InputError(
            f"{expected}, found {' and '.join(found)}; keep the items that both have, or pass "
            "np.asarray(source) to go by position"
        )
    return np.array([places[label] for label in listed], dtype=np.int64)


def _reordered(source: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    matrix = np.asarray(source)[np.ix_(order, order)]
    if isinstance(source, DissimilarityMatrix):
        return as_dissimilarity(matrix, source.source_name, source.n_unreachable)
    return matrix
