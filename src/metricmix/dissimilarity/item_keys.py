"""Keys of items, by which folds and draws do not depend on their order; rows found in a table.

A key is a hash of the id of an item, or of its attributes or dissimilarities where it has no id.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.typing import AnyArray, Indices, Keys

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = ["RowPlaces", "hashed", "item_keys", "keys_of", "row_digests", "row_keys"]


def hashed(keys: Keys, seed: int = 0) -> Keys:
    """Return a random-looking number for each key: the finaliser of splitmix64.

    >>> hashed(np.array([1, 2], dtype=np.uint64)) == hashed(np.array([1, 2], dtype=np.uint64))
    array([ True,  True])
    """
    step, first, second = (
        np.uint64(0x9E3779B97F4A7C15),
        np.uint64(0xBF58476D1CE4E5B9),
        np.uint64(0x94D049BB133111EB),
    )
    with np.errstate(over="ignore"):
        x = keys + step * np.uint64((seed + 1) % 2**64)
        x = (x ^ (x >> np.uint64(30))) * first
        x = (x ^ (x >> np.uint64(27))) * second
        return np.asarray(x ^ (x >> np.uint64(31)))


def keys_of(contents: Iterable[Any]) -> Keys:
    """Return a key for each item from its id, or from bytes that describe it.

    The same contents give the same key in every process.

    >>> keys_of(["a", "b"]).dtype, bool(keys_of(["a"])[0] == keys_of(["a"])[0])
    (dtype('uint64'), True)
    """
    digests = (
        blake2b(one if isinstance(one, bytes) else repr(one).encode(), digest_size=8).digest()
        for one in contents
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def item_keys(stack: DissimilarityStack, known: Known, table: Any = None) -> Keys | None:
    """Return a key for each item of known label or target, 0 for the others; None for numbers.

    From their ids; of items without ids from their attributes, `table` (n, d) or what the sources
    were computed from; else from their dissimilarities to each other; both to five digits, since
    scales that are computed from items in another order differ in the last ones. Of more than 1000
    items without any of these, their numbers decide.

    >>> import numpy as np, metricmix as mm
    >>> D = np.abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    >>> from metricmix.dissimilarity.known import Known
    >>> stack, known = mm.DissimilarityStack([D]), Known(np.array([0, 1, 1]), 2)
    >>> order = np.array([2, 0, 1])
    >>> permuted = item_keys(stack[np.ix_(order, order)], known)
    >>> bool((permuted == item_keys(stack, known)[order]).all())
    True
    """
    items = known.items
    found = own_keys(stack, items, table)
    if found is None:
        return None
    keys = np.zeros(known.n, dtype=np.uint64)
    keys[items] = found
    return keys


def own_keys(stack: DissimilarityStack, items: Indices, table: Any) -> Keys | None:
    """Return the keys of some items; None where only their numbers are left.

    Those of its supervised sources, if there are any: these need not be computed again then.
    """
    for source in () if stack.origin is None else stack.origin.sources:
        held = getattr(source, "known", None)
        if held is not None and held.keys is not None:
            return np.asarray(held.keys[items])
    if stack.has_items:
        return keys_of(stack.items[items].tolist())
    if table is None:
        from metricmix.dissimilarity.sources import data_of

        data = data_of(stack)
        table = None if data is None else data.table
    if table is not None and hasattr(table, "shape") and not hasattr(table, "columns"):
        return row_keys(table, items)
    names = [name for name in stack.names if name not in stack.supervised]
    compared_up_to = 1000  # beyond, items without ids or attributes have no keys of their own
    if not names or len(items) > compared_up_to:
        return None
    i, j = np.repeat(items, len(items)), np.tile(items, len(items))
    some = stack.select(names) if stack.supervised else stack  # selecting may copy matrices
    values = some.raw_pairs(i, j).reshape(len(names), len(items), len(items))
    return keys_of(rounded(np.sort(of_item, axis=1)).tobytes() for of_item in values.swapaxes(0, 1))


def row_keys(table: Any, items: Indices) -> Keys:
    """Return the keys of some items from their rows of a table, dense or CSR, to five digits."""
    found = [np.empty(0, dtype=np.uint64)]
    for start in range(0, len(items), 1024):  # as many rows are made dense at a time
        rows = table[items[start : start + 1024]]
        if hasattr(rows, "toarray"):  # rounded before, since most entries are zero
            rows.sum_duplicates()
            rows = type(rows)((rounded(rows.data), rows.indices, rows.indptr), shape=rows.shape)
            dense = rows.toarray()
        else:
            dense = rounded(np.asarray(rows, dtype=np.float64))
        found.append(keys_of(row.tobytes() for row in np.ascontiguousarray(dense)))
    return np.concatenate(found)


def rounded(values: AnyArray) -> AnyArray:
    """Return values with five digits: sums over other orders differ in the last ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = 10.0 ** (np.floor(np.log10(np.abs(values, dtype=np.float64))) - 4)
        return np.asarray(np.where(values != 0, np.round(values / power) * power, 0.0))


def row_digests(X: AnyArray) -> list[bytes]:
    """Return one digest per row of a table, equal for equal rows."""
    rows = ((row + 0.0).tobytes() for row in X)  # -0.0 becomes 0.0
    return [blake2b(row, digest_size=16).digest() for row in rows]


class RowPlaces:
    """Where rows are found in a table.

    >>> RowPlaces(np.array([[1.0, 2.0], [3.0, 4.0]]))(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([ 1, -1])
    """

    def __init__(self, table: Any) -> None:
        self._places = {digest: i for i, digest in reversed(list(enumerate(digests(table))))}

    def __call__(self, rows: Any) -> Indices:
        """Return the first equal row of the table for each of some rows, -1 where there is none."""
        found = [self._places.get(digest, -1) for digest in digests(rows)]
        return np.array(found, dtype=np.int64)


def digests(table: Any) -> list[bytes]:
    """Return one digest per row of a table, equal for equal rows."""
    if isinstance(table, np.ndarray):
        return row_digests(np.asarray(table, dtype=np.float64))
    found: list[bytes] = []
    for start in range(0, table.shape[0], 1024):  # as many rows are made dense at a time
        found += row_digests(table[start : start + 1024].toarray().astype(np.float64))
    return found
