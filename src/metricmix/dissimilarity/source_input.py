"""Sources from user data: arrays, DataFrames and :class:`Source` objects, in one order of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import as_ids, check_ids, examples, is_frame, is_numbering
from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.unknown_pairs import known_both_ways, with_unknown_filled
from metricmix.exceptions import InputError, warn_caller
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_square, check_square_fits, symmetrized, unmasked

__all__ = ["align", "as_block", "as_list", "as_source", "read_sources", "refuse_empty"]


def read_sources(
    sources: Any, names: Sequence[str] | None, directed: bool, items: Any, validate: bool
) -> tuple[list[Source], Sequence[str] | None, AnyArray | None]:
    """Return valid sources in one order of items, their names if stated, and the ids if known.

    Parameters as in :class:`metricmix.DissimilarityStack`.
    """
    if isinstance(sources, Mapping):
        names = list(sources) if names is None else names
        sources = list(sources.values())
    listed = as_list(sources)
    given = [] if names is None else list(names)
    labels = [
        f"stack[{r}] ({given[r]!r})" if r < len(given) else f"stack[{r}]"
        for r in range(len(listed))
    ]
    listed, ids = align(listed, labels, items)
    parts = [
        as_source(source, name=label, directed=directed, validate=validate)
        for source, label in zip(listed, labels, strict=True)
    ]
    n = parts[0].n
    for part, label in zip(parts, labels, strict=True):
        if part.n != n:
            raise InputError(argument=label, expected=f"{n} items as in stack[0]", found=part.n)
    return with_unknown_filled(parts, directed=directed), names, ids


def as_source(source: Any, *, name: str, directed: bool, validate: bool = True) -> Source:
    """Return `source` as a checked :class:`Source`; `name` is what error messages call it."""
    if isinstance(source, Source):
        if source.directed and not directed:
            raise InputError(
                argument=name,
                expected="a symmetric source",
                found="a directed one",
                remedy="pass directed=True",
            )
        if directed and source.rows_only:
            raise InputError(
                argument=name,
                expected="columns as well as rows in a directed stack",
                remedy=(
                    "pass columns= to the source (the same function as rows= if it is symmetric)"
                ),
            )
        if validate:  # a few rows only: all of them would be too many to compute
            some = np.unique(np.linspace(0, source.n - 1, 8).astype(np.int64))
            sample = source.rows(some)[:, some]
            check_square(sample, name=f"{name}, a sample of it", directed=directed)
        return source
    matrix = unmasked(source)
    if validate:
        matrix = check_square(source, name=name, directed=directed, allow_unknown=True)
    if validate and np.isnan(matrix.min()):
        known = known_both_ways(matrix, name, directed=directed)
        incomplete = DenseSource(known, directed=directed)
        incomplete.name = getattr(source, "source_name", None)
        incomplete.n_unknown = int(np.isnan(known).sum())
        return incomplete
    dense = DenseSource(matrix, directed=directed)
    dense.name = getattr(source, "source_name", None)
    dense.n_unreachable = getattr(source, "n_unreachable", 0)
    dense.facts = getattr(source, "facts", None)
    return dense


def is_mapped(array: Any) -> bool:
    """Return whether an array is, or is a view of, a memory map."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def as_block(parts: Sequence[Source], directed: bool) -> AnyArray | None:
    """Return sources in memory as one (R, n, n) array, which kernels read; None for others."""
    matrices = [part.matrix for part in parts if isinstance(part, DenseSource)]
    if len(matrices) < len(parts) or any(map(is_mapped, matrices)):
        return None
    single = all(matrix.dtype == np.float32 for matrix in matrices)
    size = (4 if single else 8) * len(matrices)
    instead = "use fewer items or sources, float32 numbers, or memory maps, which are not copied"
    check_square_fits(len(matrices[0]), size, what="the stack", argument="sources", instead=instead)
    block = np.empty((len(matrices), *matrices[0].shape), np.float32 if single else np.float64)
    for layer, matrix in zip(block, matrices, strict=True):
        layer[...] = matrix if directed else symmetrized(matrix)
    block.flags.writeable = False
    return block


# -- alignment: the same item in the same row of every source -------------------------------------


def as_list(sources: Any) -> list[Any]:
    """Split whatever was given into a list of R sources."""
    if isinstance(sources, Source) or is_frame(sources):
        return [sources]
    if sources is None or np.isscalar(sources):
        raise InputError(
            argument="stack",
            expected="a list of matrices or an (n, n, R) array",
            found=f"{sources!r}",
        )
    if isinstance(sources, np.ndarray):
        if sources.ndim == 2:
            return [sources]
        if sources.ndim == 3 and sources.shape[0] == sources.shape[1]:
            return [sources[:, :, r] for r in range(sources.shape[2])] or refuse_empty()
        raise InputError(
            argument="stack",
            expected="an (n, n, R) array",
            found=f"shape {sources.shape}",
            remedy="np.moveaxis(a, 0, -1) makes one of an (R, n, n) array",
        )
    listed = list(sources)
    return listed or refuse_empty()


def refuse_empty() -> list[Any]:
    """Raise: a stack has sources."""
    raise InputError(argument="stack", expected="at least one dissimilarity", found="none")


def align(
    sources: Sequence[Any], labels: Sequence[str], items: Any = None
) -> tuple[list[Any], AnyArray | None]:
    """Return the sources with their rows and columns in the order of the items, and the ids.

    Parameters
    ----------
    sources : sequence of arrays, DataFrames or Source
        Those that know their ids (a square DataFrame with an index other than the default one, a
        :class:`~metricmix.dissimilarity.DissimilarityMatrix` with `items`) are reordered, in a
        copy, where their order is another. Pairs of items that they do not have become NaN, with a
        warning. The others are left as they are.
    labels : sequence of str
        What error messages call the sources.
    items : sequence of ids, optional
        Default: the ids of the first source that knows them; None if no source does. Ids that are
        the numbers 0 .. n - 1 in another order, as a networkx graph may have them, are taken for
        the places of the items: their order is 0, 1, …

    >>> M = as_dissimilarity(np.array([[0, 1], [2, 0]]), "steps", items=["b", "a"])
    >>> align([M], ["stack[0]"], items=["a", "b"])
    ([DissimilarityMatrix([[0, 2],
                           [1, 0]])], array(['a', 'b'], dtype='<U1'))
    """
    matrices, own = [], []
    for source, label in zip(sources, labels, strict=True):
        matrix, named = source, None
        if isinstance(source, DissimilarityMatrix):
            named = source.items
        elif is_frame(source):
            matrix, named = read_frame(source, label)
        matrices.append(matrix)
        own.append(named)
    first = next((k for k, named in enumerate(own) if named is not None), None)
    ids, whose = (None, "") if items is None else (check_ids(items), "items")
    if ids is None and first is not None:
        ids, whose = all_ids(own, first), labels[first]
        if ids.dtype.kind == "i" and np.array_equal(np.sort(ids), np.arange(len(ids))):
            ids = np.arange(len(ids))
    for k, (source, named, label) in enumerate(zip(sources, own, labels, strict=True)):
        if named is None or ids is None or named.tolist() == ids.tolist():
            continue
        order = _order(named, ids, f"{label}: expected ids of {whose}", fewer=True)
        matrix = np.asarray(matrices[k])[np.ix_(order, order)]
        if (order < 0).any():
            matrix = without_items(matrix, order < 0, ids, label)
        if isinstance(source, DissimilarityMatrix):
            name, missing, known = source.source_name, source.n_unreachable, source.facts
            matrix = as_dissimilarity(matrix, name, missing, facts=known)
        matrices[k] = matrix
    return matrices, ids


def all_ids(own: Sequence[AnyArray | None], first: int) -> AnyArray:
    """Return the ids of the first source, and those that the others have in addition.

    Only those of the first where others have too few in common with it to mean the same items.
    """
    found = own[first]
    assert found is not None
    listed = dict.fromkeys(found.tolist())
    for named in own:
        if named is None or 2 * len(listed.keys() & set(named.tolist())) <= len(listed):
            continue
        listed |= dict.fromkeys(named.tolist())
    return found if len(listed) == len(found) else as_ids(list(listed))


def read_frame(source: Any, label: str) -> tuple[AnyArray, AnyArray | None]:
    """Return the values of a DataFrame, columns in the order of the rows, and the ids if any."""
    matrix = np.asarray(source)
    rows, columns = source.index, source.columns
    if len(rows) != len(columns) or (is_numbering(rows) and is_numbering(columns)):
        return matrix, None
    ids, across = check_ids(rows, name=label), check_ids(columns, name=label)
    if ids.tolist() != across.tolist():
        order = _order(across, ids, f"{label}: expected columns labelled as its rows")
        matrix = matrix[:, order]
    return matrix, ids


def without_items(matrix: AnyArray, absent: AnyArray, ids: AnyArray, label: str) -> AnyArray:
    """Return a matrix with NaN between absent items and all others, and warn of them."""
    few = examples(ids[absent].tolist())
    warn_caller(
        f"{label}: {int(absent.sum())} of {len(ids)} items are not in it, such as {few}; their "
        "entries are estimated from other sources",
        UserWarning,
    )
    found = matrix.astype(np.result_type(matrix, np.float32))
    found[absent], found[:, absent] = np.nan, np.nan
    return found


def _order(own: AnyArray, wanted: AnyArray, expected: str, fewer: bool = False) -> Indices:
    """Return the places of the ids `wanted` among one's own, which must be the same ids.

    With `fewer`, some may be missing, and have place -1; but not most of them.
    """
    places = {label: k for k, label in enumerate(own.tolist())}
    listed = wanted.tolist()
    missing = [label for label in listed if label not in places]
    known = set(listed)
    surplus = [label for label in places if label not in known]
    if surplus or (missing and not (fewer and 2 * len(missing) < len(listed))):
        found = [
            f"{len(some)} {what}, such as {examples(some)}"
            for some, what in ((missing, "missing"), (surplus, "more"))
            if some
        ]
        raise InputError(
            f"{expected}, found {' and '.join(found)}; keep the items that both have, or pass "
            "np.asarray(source) to match by position"
        )
    return np.array([places.get(label, -1) for label in listed], dtype=np.int64)
