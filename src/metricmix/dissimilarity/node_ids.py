"""Node ids: which node of a graph is which item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError

__all__ = ["as_ids", "places", "plain_list", "sorted_ids"]


def as_ids(nodes: Any) -> NDArray[Any]:
    """Return different ids as an array (n,): of int or text, else of Python objects.

    >>> as_ids([(0, 1), "b"])
    array([(0, 1), 'b'], dtype=object)
    """
    if _is_count(nodes):
        return np.arange(_count(nodes))
    if isinstance(nodes, (set, frozenset)):
        raise InputError("nodes: expected ids in the order of the items, got an unordered set")
    listed = plain_list(nodes)
    if not listed:
        raise InputError("nodes: expected at least one node, got none")
    try:
        most, times = Counter(listed).most_common(1)[0]
    except TypeError:
        raise InputError("nodes: expected one hashable id per node, such as a number") from None
    if times > 1:
        raise InputError(f"nodes: expected different ids, found {most!r} {times} times")
    if {type(node) for node in listed} in ({int}, {str}):
        return np.array(listed)
    ids = np.empty(len(listed), dtype=object)
    for k, node in enumerate(listed):  # one by one: numpy would unpack tuples into a second axis
        ids[k] = node
    return ids


def places(values: Any, nodes: Any) -> NDArray[np.int64]:
    """Return the position of every id of `values` among `nodes` (ids, or their number n).

    Numbers are compared by value, whatever their type, and never wrap around: ``2.0`` is node 2,
    while ``-1``, ``2.5``, ``1e30`` and ``2**31`` are errors in a graph of five nodes.

    >>> places(["b", "a", "b"], ["a", "b"])
    array([1, 0, 1])
    """
    if _is_count(nodes):
        return _numbers(values, _count(nodes))
    listed = plain_list(values)
    position = {node: k for k, node in enumerate(as_ids(nodes).tolist())}
    try:
        found = np.array([position.get(value, -1) for value in listed], dtype=np.int64)
    except TypeError:
        raise InputError("graph: expected one hashable id per node, such as a number") from None
    missing = list(dict.fromkeys(listed[k] for k in np.flatnonzero(found < 0)))
    if missing:
        raise InputError(
            f"graph: {len(missing)} node ids are not in nodes, such as "
            f"{', '.join(map(repr, missing[:3]))}; add them to nodes, or leave their edges out"
        )
    return found


def plain_list(values: Iterable[Any]) -> list[Any]:
    """Return `values` as Python objects, so that ids of different number types compare."""
    if hasattr(values, "tolist"):
        return list(values.tolist())
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def sorted_ids(values: Iterable[Any]) -> list[Any]:
    """Return the different ids, in order; ids that have no order stay in order of appearance."""
    found = list(dict.fromkeys(values))
    try:
        return sorted(found)
    except TypeError:
        return found


def _is_count(nodes: Any) -> bool:
    """Tell whether `nodes` is one value, the number n of the nodes 0 .. n-1, and not their ids."""
    return bool(np.isscalar(nodes)) or (isinstance(nodes, np.ndarray) and nodes.ndim == 0)


def _count(nodes: Any) -> int:
    """Return the number of nodes given as ``nodes=n``."""
    nodes = nodes.item() if isinstance(nodes, np.ndarray) else nodes
    if isinstance(nodes, bool) or not isinstance(nodes, (int, np.integer)) or not 0 < nodes < 2**31:
        raise InputError(f"nodes: expected ids, or a number of nodes from 1 up, got {nodes!r}")
    return int(nodes)


def _numbers(values: Any, n: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind == "f":
        good = (array >= 0) & (array < n) & (array == np.floor(array))
    elif array.dtype.kind in "iu":
        good = (array >= 0) & (array < n)
    else:
        good = np.array([_is_number_below(value, n) for value in plain_list(values)], dtype=bool)
    if not good.all():
        found = plain_list(array[~good])
        raise InputError(
            f"graph: expected whole node numbers 0 .. {n - 1}, since nodes={n}, found {found[0]!r} "
            f"({len(found)} such ends of edges); pass nodes=[...] if these are ids"
        )
    return array.astype(np.int64)


def _is_number_below(value: Any, n: int) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < n and value == int(value)
