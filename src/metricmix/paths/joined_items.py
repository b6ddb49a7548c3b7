r"""New items that are joined to a metric: their distances, nearest items and paths.

.. math:: d(x, j) = \min_u \; w(x, u) + d(u, j)

over the items u that a new item x has edges to. x is the first item of its own paths only, so that
the metric between the other items stays as it is. So d(x, j) <= d(x, i) + d(i, j) always holds. The
n items and x together are a metric if and only if no path through x would be shorter,

.. math:: d(i, j) \le w(i, x) + w(x, j) \quad \text{for all } i, j

which holds if the edge lengths of all items together satisfy the triangle inequality, and need not
otherwise: :meth:`Joined.is_metric` checks it. Distances between new items are not defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.item_ids import ItemIds
from metricmix.dissimilarity.known import Known, known_mask
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.contributions import (
    Contributions,
    edge_parts,
    item_position,
    new_edge_parts,
)
from metricmix.paths.geodesic import join_nearest
from metricmix.paths.neighbours import nearest_labelled
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.pair import Path, shortest_path
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_float_array, check_index, check_integer

if TYPE_CHECKING:
    from metricmix.paths.learned_metric import Metric

__all__ = ["Joined", "is_several", "join_items"]

ROWS_AT_ONCE = 256
"""Rows of the metric that are compared with those of a new item at a time."""
NEW = "new item"
"""What a new item is called on its paths, where the items have ids."""


@dataclass(frozen=True, eq=False)
class Joined:
    """M new items that are joined to a metric: what :meth:`Metric.join` returns.

    Attributes
    ----------
    metric : Metric
    items : NewItems
        Their edges. ``items.same[q]`` is the number of the item that new item q is, or -1.
    rows : (M, n, R) array or CrossEdges
        Their dissimilarities, not divided by scales.
    """

    metric: Metric
    items: NewItems
    rows: AnyArray | CrossEdges

    def __len__(self) -> int:
        return len(self.items)

    def distances(self, to: Any = None) -> Floats:
        """Return the distances to some items, (M, T), or to all, which takes all of the metric.

        To a single item, (M,).
        """
        d = self.metric.to_array() if to is None else np.atleast_2d(self.metric.columns(to)).T
        found = self.items.distances(np.ascontiguousarray(d))
        return found if to is None or is_several(to) else found[:, 0]

    def largest_violations(self) -> Floats:
        """Return by how much a path through each new item would be shorter at most, (M,).

        That is the largest d(i, j) - d(i, x) - d(x, j) over all pairs of items, 0 if none is
        positive. O(n²) for each new item, and all of the metric. InputError for directed metrics:
        distances to a new item are not defined there.

        Examples
        --------
        >>> import metricmix as mm
        >>> metric = mm.Metric([[0.0, 6.0], [6.0, 0.0]])
        >>> metric.join([[3.0, 4.0], [1.0, 1.0]]).largest_violations()
        array([0., 4.])
        """
        if self.metric.directed:
            raise InputError("a new item has no distances to it in a directed metric")
        d = self.metric.to_array()
        found = np.zeros(len(self))
        for q, row in enumerate(self.items.distances(d)):
            for i in range(0, len(d), ROWS_AT_ONCE):
                some = slice(i, i + ROWS_AT_ONCE)
                with np.errstate(invalid="ignore"):  # inf - inf, between separate parts
                    excess = d[some] - (row[some, None] + row)
                found[q] = max(found[q], np.nanmax(excess, initial=0.0))
        return found

    def is_metric(self, tol: float = 1e-9) -> bool:
        """Return whether the items are a metric together with each of the new ones by itself.

        Violations up to `tol` times the largest distance count as rounding.
        """
        d = self.metric.to_array()
        scale = float(np.max(d, where=np.isfinite(d), initial=0.0))
        return bool((self.largest_violations() <= tol * scale).all())

    def nearest(self, k: int = 1, known: Known | ArrayLike | None = None) -> Any:
        """Return the k nearest items of each new item: distances and ids, (M, k).

        Among the labelled ones only, if `known` has labels as in :meth:`Metric.nearest_labelled`.
        """
        n = self.metric.n
        wanted = np.ones(n, bool) if known is None else known_mask(known, n)
        if not 1 <= check_integer(k, name="k") <= wanted.sum():
            raise InputError(argument="k", expected=f"1 .. {wanted.sum()}", found=k)
        table = None
        if not wanted.all():
            table = nearest_wanted(self.metric, self.items.lengths, wanted, k)
        distances, items = self.items.nearest(wanted, k, table)
        return distances, self.metric.named(items)

    def path(self, q: int, j: Any) -> Path:
        """Return the shortest path from new item number `q` to item `j`, by ids.

        The new item is called "new item"; n, where the items have no ids. One that is an item of
        the metric has the path of that item.
        """
        _, path = self._path(q, j)
        stack = self.metric.stack
        new = NEW if stack.has_items else self.metric.n
        return Path(path.length, self._names(path, new))

    def contributions(self, q: int, j: Any) -> Contributions:
        """Return how much each source contributes to the distance from new item `q` to item `j`."""
        joined, path = self._path(q, j)
        lengths, names = self.metric.lengths, self.metric.stack.names
        u, v = np.array(path.edges[joined:], dtype=np.int64).reshape(-1, 2).T
        parts = edge_parts(lengths, u, v)
        if joined:
            raw = self.rows.dense_row(q) if isinstance(self.rows, CrossEdges) else self.rows[q].T
            shares = None if self.items.shares is None else self.items.shares[[q]]
            first = np.array(path.nodes[1:2])
            own = new_edge_parts(lengths, raw[:, first], first, shares)
            parts = np.concatenate([own, parts])
        return Contributions(path, self._names(path, NEW), names, parts[:, :-1], parts[:, -1])

    def _path(self, q: int, j: Any) -> tuple[bool, Path]:
        """Return whether new item q is none of the items, and its path, it being number n."""
        lengths, q = self.metric.lengths, check_index(q, len(self), name="q")
        target, same = item_position(self.metric.stack, j, "j"), int(self.items.same[q])
        if same >= 0:
            return False, shortest_path(lengths, None, same, target)
        ends, edges = self.items.edges_of(q)
        onward = nearest_labelled(lengths, None, [target])[0][ends, 0]
        if not len(ends) or np.isinf(edges + onward).all():
            return False, Path(np.inf, ())
        entry = int((edges + onward).argmin())
        rest = shortest_path(lengths, None, ends[entry], target)
        return True, Path(float(edges[entry]) + rest.length, (self.metric.n, *rest.nodes))

    def _names(self, path: Path, new: Any) -> tuple[Any, ...]:
        n, ids = self.metric.n, self.metric.ids
        return tuple(new if v == n else ids[v : v + 1].tolist()[0] for v in path.nodes)


def is_several(items: Any) -> bool:
    """Return whether these are several items: a list or an array, where anything else is an id."""
    return isinstance(items, list | range) or getattr(items, "ndim", 0) > 0


def join_items(metric: Metric, new: Any, *, validate: bool = True) -> Joined:
    """Join new items to a metric, by their dissimilarities or by those on edges of their own."""
    rows, n_jobs = dissimilarities_of(metric, new, validate), metric.n_jobs
    items: NewItems
    if metric.near is not None and not isinstance(rows, CrossEdges):
        near, k = metric.near
        items = join_nearest(metric.lengths, near.lengths, rows, k, n_jobs=n_jobs)
    else:
        items = NewItems.from_rows(metric.lengths, rows, n_jobs=n_jobs)
    return Joined(metric, items, rows)


def dissimilarities_of(metric: Metric, new: Any, validate: bool) -> AnyArray | CrossEdges:
    """Return the raw dissimilarities of new items, or those on their edges, as sources are here."""
    stack, names = metric.stack, metric.stack.names
    values: Any
    if isinstance(new, CrossEdges | CrossDissimilarities):
        if set(new.names) != set(names):
            expected = f"the sources {list(names)}, found {list(new.names)}"
            raise InputError(argument="new", expected=expected)
        ids, columns = new.column_items, None
        if ids is not None and stack.has_items and getattr(new, "has_items", True):
            columns = ItemIds(len(ids), ids).positions(stack.items)
    if isinstance(new, CrossEdges):
        values = new.arranged(names, None if columns is None else columns.tolist())
    elif isinstance(new, CrossDissimilarities):
        values = (new.values * new.scales)[:, :, [new.names.index(name) for name in names]]
        values = values if columns is None else values[:, columns]
    else:
        values = as_float_array(new, name="new")
        values = values[:, :, None] if values.ndim == 2 else values
    size = values.shape[1] if isinstance(values, CrossEdges) else values.shape[1:]
    if size not in (metric.n, (metric.n, len(names))):
        expected = f"shape (M, {metric.n}, {len(names)})"
        raise InputError(argument="new", expected=expected, found=f"{values.shape}")
    if isinstance(values, CrossEdges):
        if stack.edges is None:
            expected = "dissimilarities to all items, found edges"
            raise InputError(argument="new", expected=expected)
        return values
    if stack.edges is not None and metric.near is None:
        return CrossEdges.from_array(values, names)
    if validate and not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
        expected = "finite dissimilarities >= 0, found NaN, infinity or negative ones"
        raise InputError(argument="new", expected=expected)
    return np.asarray(values)


def nearest_wanted(
    metric: Metric, lengths: EdgeLengths, wanted: NDArray[np.bool_], k: int
) -> tuple[Floats, Indices]:
    """Return the k nearest wanted items of every item, and their distances, (n, k).

    That is a search over all items, and new ones may come one by one: the metric keeps the last.
    """
    last = metric.__dict__.get("nearest_wanted")
    if last is None or last[:2] != (lengths, k) or not np.array_equal(last[2], wanted):
        found = nearest_labelled(lengths, None, np.flatnonzero(wanted), k)
        last = lengths, k, wanted.copy(), found
        object.__setattr__(metric, "nearest_wanted", last)
    return last[3]
