r"""Random forests: decision trees on bootstrap samples, grown in compiled code.

Tree t is grown on a bootstrap sample: row i occurs :math:`c_{ti}` times among L draws,

.. math:: c_t \sim \mathrm{Multinomial}(L,\; v / \textstyle\sum_i v_i)

with v the weights of the rows, by default all the same. In a balanced classification tree a row
counts :math:`c_{ti} L / (C_t \sum_{y_j = y_i} c_{tj})`, so that the :math:`C_t` classes of the
sample have the same total weight.

A node is split where :math:`\lVert S_l \rVert^2 / W_l + \lVert S_r \rVert^2 / W_r` is largest, of
some columns drawn at random (more if these are all constant in it), until all rows of a leaf have
the same target. W are the sums of the counts of the rows on a side, S those of counts times targets
or class indicators: the least squares of numbers, and for classes the Gini impurity. These are the
trees of :class:`~sklearn.ensemble.RandomForestClassifier` with ``class_weight=
"balanced_subsample"`` and of the regressor, with other random numbers. scikit-learn spends
milliseconds on checks and copies around each tree, more than a small tree takes to grow.

All trees share one order of the rows by each column. Of a large node, the order is that of all rows
without those of other nodes; of a small one, its ranks are sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.threads import in_threads
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["TREES", "BaggedTrees", "grown_trees"]

TREES = 100
"""Trees of a forest."""

TOGETHER = 10
"""Trees that a thread grows at a time."""
INSERTED = 24
"""Rows up to which ranks are sorted by insertion."""
ROWS = 4096
"""Rows that a thread predicts at a time."""


class BaggedTrees(NamedTuple):
    """Trees, each grown on a bootstrap sample of the rows; their nodes one after another.

    Attributes
    ----------
    column : (N,) array
        By which a node is split; -1 for a leaf.
    threshold : (N,) array
        Rows up to it go to the next node.
    other : (N,) array
        The node where all other rows go; of a leaf the row of `leaves` that it predicts.
    leaves : (M, C) array
        Shares of the classes, or numbers, (M, 1).
    roots : (T,) array
    left_out : (T, L) array of bool
        Which rows a tree was not grown on.
    """

    column: Indices
    threshold: Floats
    other: Indices
    leaves: Floats
    roots: Indices
    left_out: AnyArray

    def mean(self, X: AnyArray) -> Floats:
        """Return the mean of what all trees say of the rows X, (m, C), or (m, 1) for a number."""
        return self._mean_of(X, np.ones((len(self.roots), 1), dtype=np.bool_))

    def out_of_bag(self, X: AnyArray) -> Floats:
        """Return the mean of what the trees say that have not seen a row of the fit, (L, C).

        NaN where all trees have seen it.
        """
        return self._mean_of(X, self.left_out)

    def _mean_of(self, X: AnyArray, judges: AnyArray) -> Floats:
        X, judges = np.ascontiguousarray(X, np.float64), judges.T
        found, nodes = np.zeros((len(X), self.leaves.shape[1])), self[:5]

        def predict(start: int) -> None:
            part = slice(start, start + ROWS)
            own = np.broadcast_to(judges, (len(X), len(self.roots)))[part]
            add_leaves(X[part], np.ascontiguousarray(own), *nodes, found[part])

        in_threads(predict, range(0, len(X), ROWS))
        number = judges.sum(axis=1)[:, None].astype(np.float64)
        return np.asarray(found / np.where(number > 0, number, np.nan))


def grown_trees(
    X: AnyArray,
    y: AnyArray,
    columns_tried: int,
    weights: Floats | None = None,
    *,
    n_trees: int | None = None,
    n_classes: int = 0,
    balanced: bool = False,
    groups: Indices | None = None,
) -> BaggedTrees:
    """Grow trees on bootstrap samples of the rows.

    Parameters
    ----------
    X : (L, d) array
    y : (L,) array
        Class numbers 0 .. `n_classes` - 1, or numbers.
    columns_tried : int
        From how many columns, drawn at random, the split of a node is chosen.
    weights : (L,) array, optional
        How often a row is drawn, relatively.
    n_trees : int, optional
        Default 100.
    n_classes : int
        0 for numbers.
    balanced : bool
        Whether the classes of each sample have the same total weight.
    groups : (L,) array, optional
        Groups of rows 0 .. G - 1, which are then drawn as wholes, G of them.

    Examples
    --------
    >>> X = np.array([0.0, 1, 2, 3, 10, 11, 12, 13])[:, None]
    >>> y = np.repeat([0, 1], 4)
    >>> trees = grown_trees(X, y, 1, n_trees=50, n_classes=2)
    >>> trees.mean(np.array([[2.0], [12.0]])).argmax(axis=1)
    array([0, 1])
    >>> trees.out_of_bag(X).argmax(axis=1)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """
    L, n_trees = len(y), TREES if n_trees is None else n_trees
    columns_tried = max(1, min(columns_tried, X.shape[1]))
    X = np.ascontiguousarray(X, dtype=np.float64)
    shares = np.full(L, 1.0 / L) if weights is None else weights / weights.sum()
    rng = np.random.default_rng(0)
    rows = np.ones(L)
    if groups is None:
        counts = rng.multinomial(L, shares, size=n_trees)
    else:
        of_group, sizes = np.bincount(groups, shares), np.bincount(groups)
        drawn = rng.multinomial(len(sizes), of_group / of_group.sum(), size=n_trees)
        counts, rows = drawn[:, groups], shares * (sizes / of_group)[groups]
    seeds = rng.integers(2**63, size=n_trees, dtype=np.uint64)
    left_out, own = counts == 0, counts * rows
    code, number = np.zeros(L, dtype=np.int64), np.ones(L)
    if not n_classes:
        middle = float(np.average(y, weights=weights))
        number = y - middle
    else:
        code = y.astype(np.int64)
        if balanced:
            sizes = own @ (code[:, None] == np.arange(n_classes))
            present = np.count_nonzero(sizes, axis=1)[:, None]
            own *= (L / (present * np.maximum(sizes, 1.0)))[:, code]
    order = np.ascontiguousarray(np.argsort(X, axis=0, kind="stable").T)
    ranks = np.ascontiguousarray(np.argsort(order, axis=1))
    values = np.ascontiguousarray(np.take_along_axis(X.T, order, axis=1))

    def grow(start: int) -> list[tuple[AnyArray, ...]]:
        return [
            grown_tree(order, ranks, values, code, number, own[t], n_classes, columns_tried, seed)
            for t, seed in enumerate(seeds[start : start + TOGETHER], start)
        ]

    trees = [tree for part in in_threads(grow, range(0, n_trees, TOGETHER)) for tree in part]
    column, threshold, other, leaves = (np.concatenate(parts) for parts in zip(*trees, strict=True))
    sizes = np.array([len(tree[0]) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    leaf_starts = np.concatenate([[0], np.cumsum([len(tree[3]) for tree in trees])[:-1]])
    other += np.where(column < 0, np.repeat(leaf_starts, sizes), np.repeat(roots, sizes))
    if not n_classes:
        leaves += middle
    return BaggedTrees(column, threshold, other, leaves, roots, left_out)


@kernel
def grown_tree(
    order: Indices,
    ranks: Indices,
    values: Floats,
    code: Indices,
    number: Floats,
    counts: Floats,
    n_classes: int,
    columns_tried: int,
    seed: int,
) -> tuple[Indices, Floats, Indices, Floats]:
    """Return column, threshold, other child and leaves of the tree grown on rows with counts > 0.

    `order` (d, L) are the rows by each column, `values` their values in this order, `ranks` their
    places in it. A target is `number` times the indicator of `code`.
    """
    d, L = order.shape
    inside = np.flatnonzero(counts)
    size = len(inside)
    column, other = np.full(2 * size, -1), np.empty(2 * size, np.int64)
    threshold, leaves = np.zeros(2 * size), np.empty((size, max(n_classes, 1)))
    starts, ends = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    parents, node_of = np.empty(size + 1, np.int64), np.full(L, -1)
    features, places, kept = np.arange(d), np.empty(size, np.int64), np.empty(size, np.int64)
    whole, left = np.empty(leaves.shape[1]), np.empty(leaves.shape[1])
    starts[0], ends[0], parents[0], waiting = 0, size, -1, 1
    n_nodes, n_leaves, state = 0, 0, np.uint64(seed)
    while waiting:
        waiting -= 1
        start, end, node = starts[waiting], ends[waiting], n_nodes
        n_nodes += 1
        if parents[waiting] >= 0:
            other[parents[waiting]] = node
        weight, squares, total = 0.0, 0.0, 0.0
        for c in range(len(whole)):
            whole[c] = 0.0
        for k in range(start, end):
            i = inside[k]
            node_of[i] = node
            weight += counts[i]
            whole[code[i]] += counts[i] * number[i]
            squares += counts[i] * number[i] ** 2
        for c in range(len(whole)):
            total += whole[c] ** 2
        best, feature, lower, upper = -1.0, -1, 0, 0
        if end - start > 1 and squares - total / weight > 1e-12 * squares:
            tried = 0
            for f in range(d):
                if f >= columns_tried and tried > 0:
                    break
                state, drawn = next_random(state)
                g = f + int(drawn % np.uint64(d - f))
                features[f], features[g] = features[g], features[f]
                one = features[f]
                ordered = places[: end - start]
                sort_ranks(order[one], ranks[one], inside[start:end], node_of, node, ordered)
                if values[one, ordered[-1]] > values[one, ordered[0]]:
                    tried += 1
                    score, place = best_split(
                        order[one], values[one], ordered, code, number, counts, whole, left
                    )
                    if score > best:
                        best, feature = score, one
                        lower, upper = ordered[place], ordered[place + 1]
        if feature < 0:
            other[node] = n_leaves
            for c in range(len(whole)):
                leaves[n_leaves, c] = whole[c] / weight
            n_leaves += 1
            continue
        here, following = values[feature, lower], values[feature, upper]
        column[node], threshold[node] = feature, here + (following - here) / 2.0
        if threshold[node] >= following:  # rounding
            threshold[node] = here
        middle, above = start, 0
        for k in range(start, end):
            i = inside[k]
            if ranks[feature, i] <= lower:
                inside[middle] = i
                middle += 1
            else:
                kept[above] = i
                above += 1
        for k in range(above):
            inside[middle + k] = kept[k]
        starts[waiting], ends[waiting], parents[waiting] = middle, end, node
        starts[waiting + 1], ends[waiting + 1], parents[waiting + 1] = start, middle, -1
        waiting += 2
    return column[:n_nodes], threshold[:n_nodes], other[:n_nodes], leaves[:n_leaves]


@kernel
def sort_ranks(
    order: Indices, ranks: Indices, rows: Indices, node_of: Indices, node: int, found: Indices
) -> None:
    """Write the sorted ranks of the rows of a node into `found`."""
    size = len(rows)
    if size * np.log2(size) > len(order):
        k = 0
        for place in range(len(order)):
            if node_of[order[place]] == node:
                found[k] = place
                k += 1
        return
    for k in range(size):
        one = ranks[rows[k]]
        if size > INSERTED:
            found[k] = one
            continue
        m = k
        while m > 0 and found[m - 1] > one:
            found[m] = found[m - 1]
            m -= 1
        found[m] = one
    if size > INSERTED:
        found.sort()


@kernel
def best_split(
    order: Indices,
    values: Floats,
    ordered: Indices,
    code: Indices,
    number: Floats,
    counts: Floats,
    whole: Floats,
    left: Floats,
) -> tuple[float, int]:
    """Return the best score of a split between two values, and the place of the smaller one."""
    below, above, left_square, right_square = 0.0, 0.0, 0.0, 0.0
    for c in range(len(whole)):
        left[c] = 0.0
        right_square += whole[c] ** 2
    for place in ordered:
        above += counts[order[place]]
    best, at = -1.0, 0
    for k in range(len(ordered) - 1):
        i = order[ordered[k]]
        c, amount = code[i], counts[i] * number[i]
        left_square += amount * (2.0 * left[c] + amount)
        right_square -= amount * (2.0 * (whole[c] - left[c]) - amount)
        left[c] += amount
        below += counts[i]
        above -= counts[i]
        if values[ordered[k + 1]] > values[ordered[k]]:
            score = left_square / below + right_square / above
            if score > best:
                best, at = score, k
    return best, at


@kernel_step
def next_random(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the next state and number of SplitMix64."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@kernel
def add_leaves(
    X: Floats,
    judges: AnyArray,
    column: Indices,
    threshold: Floats,
    other: Indices,
    leaves: Floats,
    roots: Indices,
    total: Floats,
) -> None:
    """Add to `total` (m, C) what the trees say of rows that they judge, by `judges` (m, T)."""
    for t in range(len(roots)):
        for i in range(len(X)):
            if judges[i, t]:
                node = roots[t]
                while column[node] >= 0:
                    node = node + 1 if X[i, column[node]] <= threshold[node] else other[node]
                for c in range(total.shape[1]):
                    total[i, c] += leaves[other[node], c]
