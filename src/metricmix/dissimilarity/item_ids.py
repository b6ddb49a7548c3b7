"""Ids of items and of the nodes of a graph: what is accepted, and where an id stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_integer

__all__ = [
    "ItemIds",
    "Numbering",
    "as_ids",
    "check_ids",
    "examples",
    "graph_items",
    "is_frame",
    "is_numbering",
    "places",
    "plain_list",
    "sorted_ids",
    "table_items",
]


class ItemIds:
    """The ids of n items, in order: those given, else 0 .. n-1.

    >>> ids = ItemIds(3, np.array(["a", "b", "c"]))
    >>> ids.positions(["c", "a"])
    array([2, 0])
    """

    def __init__(self, n: int, ids: AnyArray | None = None) -> None:
        self.given = ids is not None
        self.ids: AnyArray = np.arange(n) if ids is None else ids
        self.ids.flags.writeable = False

    def positions(self, wanted: Any) -> Indices:
        """Return where the ids `wanted` stand; of an id repeated by a slice, the first place."""
        numbers = isinstance(wanted, np.ndarray) and wanted.ndim == 1 and wanted.dtype.kind in "iu"
        if numbers and self.are_numbers:
            inside = (wanted >= 0) & (wanted < len(self.ids))
            found = np.where(inside, wanted, -1).astype(np.int64)
            listed: Any = wanted
        else:
            listed = plain_list([wanted] if np.isscalar(wanted) else wanted)
            try:
                found = np.array([self.place(value) for value in listed], dtype=np.int64)
            except TypeError:
                raise InputError(
                    argument="items", expected="hashable ids, such as numbers or text"
                ) from None
        missing = plain_list(dict.fromkeys(listed[k] for k in np.flatnonzero(found < 0)))
        if missing:
            raise InputError(
                (f"{len(missing)} ids are not in the stack, such as {examples(missing)}"),
                argument="items",
                remedy=(
                    f"those of the stack are like {examples(plain_list(self.ids[:2]))}, in "
                    "stack.items"
                ),
            )
        return found

    def place(self, value: Any) -> int:
        """Return where an id stands, -1 if nowhere; a whole number is the text of it, among texts.

        >>> ItemIds(2, np.array(["7", "12"])).place(12)
        1
        """
        number = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if number and self.ids.dtype.kind == "U":
            value = str(value)
        return self.places.get(value, -1)

    def take(self, chosen: Indices) -> ItemIds:
        """Return the ids of some of the items; numbers alone start again at 0."""
        return ItemIds(len(chosen), self.ids[chosen] if self.given else None)

    @cached_property
    def are_numbers(self) -> bool:
        """Whether the ids are 0 .. n-1, in order."""
        return np.array_equal(self.ids, np.arange(len(self.ids)))

    @cached_property
    def places(self) -> dict[Any, int]:
        """The position of every id; of equal ids, that of the first."""
        backwards = range(len(self.ids) - 1, -1, -1)
        return dict(zip(self.ids[::-1].tolist(), backwards, strict=True))


def check_ids(ids: Any, n: int | None = None, *, name: str = "items") -> AnyArray:
    """Return n different hashable ids as a new array (n,): of int or text, else of objects."""
    if np.isscalar(ids):
        raise InputError(
            argument=name, expected="a sequence of ids, one per item", found=f"{ids!r}"
        )
    try:
        checked = as_ids(ids)
    except InputError as error:
        raise error.replace(argument=name) from None
    if n is not None and len(checked) != n:
        raise InputError(argument=name, expected=f"{n} ids, one per item", found=len(checked))
    return checked


def is_numbering(index: Any) -> bool:
    """Return whether an index is pandas' default index (or ``range(n)``), which carries no ids.

    >>> is_numbering(range(3)), is_numbering([0, 1, 2])
    (True, False)
    """
    counts = type(index).__name__ in ("range", "RangeIndex")
    return counts and index.start == 0 and index.step == 1


def is_frame(value: Any) -> bool:
    """Tell whether `value` is a pandas DataFrame, without importing pandas."""
    return all(hasattr(value, attribute) for attribute in ("index", "columns", "to_numpy"))


def table_items(X: Any) -> AnyArray | None:
    """Return the ids of the rows of a feature table, None where rows are only numbered.

    Ids are the index of a DataFrame, unless it is the default one or holds a label twice.
    """
    if not is_frame(X) or is_numbering(X.index) or not X.index.is_unique:
        return None
    return check_ids(X.index, name="X.index")


def graph_items(graph: Any, nodes: Any, ids: AnyArray) -> AnyArray | None:
    """Return `ids`, those of the nodes of a graph, or None where its nodes are only numbered.

    Parameters
    ----------
    graph, nodes
        As they were given to :func:`~metricmix.dissimilarity.graphs.as_graph`.
    ids : array (n,)
        What became of them, ``Graph.nodes``. The ids 0 .. n-1 name the nodes of a networkx graph
        or an edge table; in a matrix, or where ``nodes=n``, they are but the numbers of the rows.
    """
    if not np.array_equal(ids, np.arange(len(ids))):
        return ids
    if nodes is not None:
        named = not (is_numbering(nodes) or _is_count(nodes))
    elif hasattr(graph, "vs"):  # igraph
        named = "name" in graph.vs.attributes()
    elif is_frame(graph):  # an edge table, or a matrix with labels
        named = not (is_numbering(graph.index) and graph.index.equals(graph.columns))
    else:
        named = hasattr(graph, "is_directed")  # networkx
    return ids if named else None


def examples(ids: list[Any]) -> str:
    """Return the first three ids for an error message."""
    return ", ".join(map(repr, ids[:3]))


def as_ids(nodes: Any) -> AnyArray:
    """Return different ids as an array (n,): of int or text, else of Python objects.

    >>> as_ids([(0, 1), "b"])
    array([(0, 1), 'b'], dtype=object)
    """
    if _is_count(nodes):
        return np.arange(_count(nodes))
    if isinstance(nodes, (set, frozenset)):
        raise InputError(
            argument="nodes", expected="ids in the order of the items", found="an unordered set"
        )
    listed = plain_list(nodes)
    if not listed:
        raise InputError(argument="nodes", expected="at least one node", found="none")
    try:
        most, times = Counter(listed).most_common(1)[0]
    except TypeError:
        raise InputError(
            argument="nodes", expected="one hashable id per node, such as a number"
        ) from None
    if times > 1:
        raise InputError(argument="nodes", expected=f"different ids, found {most!r} {times} times")
    if {type(node) for node in listed} in ({int}, {str}):
        return np.array(listed)
    ids = np.empty(len(listed), dtype=object)
    for k, node in enumerate(listed):  # one by one: numpy would unpack tuples into a second axis
        ids[k] = node
    return ids


def places(values: Any, nodes: Any) -> Indices:
    """Return the position of every id of `values` among `nodes` (ids, or their number n).

    Numbers are compared by value, whatever their type, and never wrap around: ``2.0`` is node 2,
    while ``-1``, ``2.5``, ``1e30`` and ``2**31`` are errors in a graph of five nodes.

    >>> places(["b", "a", "b"], ["a", "b"])
    array([1, 0, 1])
    """
    if _is_count(nodes):
        return _node_numbers(values, _count(nodes))
    listed = plain_list(values)
    position = {node: k for k, node in enumerate(as_ids(nodes).tolist())}
    try:
        found = np.array([position.get(value, -1) for value in listed], dtype=np.int64)
    except TypeError:
        raise InputError(
            argument="graph", expected="one hashable id per node, such as a number"
        ) from None
    missing = list(dict.fromkeys(listed[k] for k in np.flatnonzero(found < 0)))
    if missing:
        raise InputError(
            (
                f"{len(missing)} node ids are not in nodes, such as "
                f"{', '.join(map(repr, missing[:3]))}"
            ),
            argument="graph",
            remedy="add them to nodes, or leave their edges out",
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


def _is_count(nodes: Any) -> bool:
    """Tell whether `nodes` is one value, the number n of the nodes 0 .. n-1, and not their ids."""
    return bool(np.isscalar(nodes)) or (isinstance(nodes, np.ndarray) and nodes.ndim == 0)


def _count(nodes: Any) -> int:
    """Return the number of nodes given as ``nodes=n``."""
    nodes = nodes.item() if isinstance(nodes, np.ndarray) else nodes
    if isinstance(nodes, bool) or not isinstance(nodes, (int, np.integer)) or not 0 < nodes < 2**31:
        raise InputError(
            argument="nodes", expected="ids, or a number of nodes from 1 up", found=f"{nodes!r}"
        )
    return int(nodes)


def _node_numbers(values: Any, n: int) -> Indices:
    """Return whole numbers in 0 .. n-1, of any number type, or raise."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        listed = plain_list(values)
        is_number = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in listed]
        good = np.array(
            [ok and 0 <= v < n and v == int(v) for ok, v in zip(is_number, listed, strict=True)],
            dtype=bool,
        )
    else:
        good = (array >= 0) & (array < n)
        if array.dtype.kind == "f":
            good &= array == np.floor(array)
    if not good.all():
        found = plain_list(array[~good])
        raise InputError(
            argument="graph",
            expected=(
                f"whole node numbers 0 .. {n - 1}, since nodes={n}, found "
                f"{found[0]!r} ({len(found)} such ends of edges)"
            ),
            remedy="pass nodes=[...] if these are ids",
        )
    return array.astype(np.int64)
