r"""Random forests whose labelled rows are judged by the trees that were not grown on them.

Tree t is grown on a bootstrap sample: row i occurs :math:`c_{ti}` times among L draws,

.. math:: c_t \sim \mathrm{Multinomial}(L,\; v / \textstyle\sum_i v_i)

with v the weights of the rows, by default all the same. In a classification tree a row counts
:math:`c_{ti} L / (C_t \sum_{y_j = y_i} c_{tj})`, so that the :math:`C_t` classes of the sample
have the same total weight. A row is judged by the mean of the trees with :math:`c_{ti} = 0`.

Without weights, these are the trees of :class:`~sklearn.ensemble.RandomForestClassifier` with
``class_weight="balanced_subsample"`` (and of the regressor), and the same predictions. A fit has
many small forests, one for each fold and resample. For a hundred labels, growing a tree takes a
tenth of the time that the forest spends on it: it copies and validates a tree, computes class
weights through a general function, and draws the samples again for the rows left out. Here the
trees are those of scikit-learn, and what is around them is not.

Resamples of the labels (:mod:`metricmix.learning.bootstrap`) need no tree afterwards, only what
is said of the rows left out. These follow the splits of a tree while it grows, in compiled code
that keeps no tree (:func:`out_of_bag_means`): the same algorithm with other random numbers, in a
twentieth of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import Predicted, Predictor, Training
from metricmix.kernels.compile import kernel
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "TREES",
    "BaggedTrees",
    "Forest",
    "grown_trees",
    "out_of_bag_means",
]

TREES = 100
COLUMNS_TRIED = 0.5
"""Share of the columns that a split of a tree for numbers is chosen from."""


class BaggedTrees(NamedTuple):
    """Trees, each grown on a bootstrap sample of the rows.

    Attributes
    ----------
    trees : list of scikit-learn trees
    left_out : (T, L) array of bool
        Which rows a tree was not grown on.
    """

    trees: list[Any]
    left_out: AnyArray

    def mean(self, X: AnyArray) -> Floats:
        """Return the mean of what all trees say of the rows X, (m, C), or (m, 1) for a number."""
        total = 0.0
        for tree in self.trees:
            total = total + tree.tree_.predict(X)
        return np.asarray(total / len(self.trees))

    def out_of_bag(self, X: AnyArray) -> Floats:
        """Return the mean of what the trees say that have not seen a row of the fit, (L, C).

        NaN where all trees have seen it.
        """
        total: Any = 0.0
        for tree, unseen in zip(self.trees, self.left_out, strict=True):
            total = total + np.where(unseen[:, None], tree.tree_.predict(X), 0.0)
        judges = self.left_out.sum(axis=0)[:, None].astype(np.float64)
        return np.asarray(np.divide(total, judges, np.full(total.shape, np.nan), where=judges > 0))


def grown_trees(
    new_tree: Callable[[int], Any],
    X: AnyArray,
    y: AnyArray,
    n_trees: int,
    weights: Floats | None = None,
    *,
    balanced: bool = False,
) -> BaggedTrees:
    """Grow trees on bootstrap samples of the rows.

    Parameters
    ----------
    new_tree : callable
        Returns an unfitted tree of scikit-learn, given a seed.
    X : (L, d) array of float32
    y : (L,) array
        Class numbers 0 .. C - 1, all of which occur, or numbers.
    n_trees : int
    weights : (L,) array, optional
        How often a row is drawn, relatively.
    balanced : bool
        Whether the classes of each sample have the same total weight.
    """
    from sklearn import config_context

    L, shares = len(y), None if weights is None else weights / weights.sum()
    random = np.random.RandomState(0)
    trees, left_out = [], np.empty((n_trees, L), dtype=bool)
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for t in range(n_trees):
            seed = int(random.randint(np.iinfo(np.int32).max))
            sampling = np.random.RandomState(seed)
            drawn = sampling.randint(0, L, L) if shares is None else sampling.choice(L, L, p=shares)
            counts = np.bincount(drawn, minlength=L)
            left_out[t] = counts == 0
            own = counts.astype(np.float64)
            if balanced:
                sizes = np.bincount(y, own)
                own *= (L / (np.count_nonzero(sizes) * np.maximum(sizes, 1.0)))[y]
            trees.append(new_tree(seed).fit(X, y, own, check_input=False))
    return BaggedTrees(trees, left_out)


def out_of_bag_means(
    X: AnyArray,
    targets: Floats,
    weights: Floats,
    n_trees: int,
    max_features: int,
    *,
    balanced: bool = False,
) -> Floats:
    r"""Return the means of the trees that were not grown on a row, (n, C); NaN if there is none.

    A node is split where :math:`\lVert S_l \rVert^2 / W_l + \lVert S_r \rVert^2 / W_r` is largest,
    of `max_features` columns drawn at random (more if these are all constant in it), until all rows
    of a leaf have the same targets. W are the sums of the counts of its rows, S those of counts
    times targets: the least squares of numbers, and for class indicators the Gini impurity.

    Parameters
    ----------
    X : (n, d) array
    targets : (n, C) array
        Class indicators, or a column of numbers.
    weights : (n,) array
        How often a row is drawn, relatively; 0 for rows of unknown target.
    n_trees : int
    max_features : int
    balanced : bool
        Whether the classes of each sample have the same total weight.

    Examples
    --------
    >>> X = np.array([0.0, 1, 2, 3, 10, 11, 12, 13])[:, None]
    >>> targets = np.repeat(np.eye(2), 4, axis=0)
    >>> out_of_bag_means(X, targets, np.ones(8), 50, 1, balanced=True).argmax(axis=1)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """
    rng, n = np.random.default_rng(0), len(X)
    drawable = np.flatnonzero(weights > 0)
    shares = weights[drawable] / weights[drawable].sum()
    total, judges = np.zeros(targets.shape), np.zeros(n)
    X, targets = np.ascontiguousarray(X, np.float64), np.ascontiguousarray(targets, np.float64)
    for _ in range(n_trees):
        counts = np.zeros(n)
        counts[drawable] = rng.multinomial(len(drawable), shares)
        judges += counts == 0
        if balanced:
            sizes = counts @ targets
            counts *= targets @ (len(drawable) / (np.count_nonzero(sizes) * np.maximum(sizes, 1.0)))
        add_left_out(X, targets, counts, max_features, rng, total)
    return np.asarray(total / np.where(judges > 0, judges, np.nan)[:, None])


@kernel
def add_left_out(
    X: Floats, targets: Floats, counts: Floats, max_features: int, rng: Any, total: Floats
) -> None:
    """Grow a tree on the rows with counts > 0, and add its leaves to `total` for all others."""
    n, d = X.shape
    C = targets.shape[1]
    order, side = np.arange(n), np.empty(n, np.int64)
    features = np.arange(d)
    starts, ends = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    starts[0], ends[0], waiting = 0, n, 1
    whole, left = np.empty(C), np.empty(C)
    inside, values = np.empty(n, np.int64), np.empty(n)
    while waiting:
        waiting -= 1
        start, end = starts[waiting], ends[waiting]
        whole[:] = 0.0
        weight, squares, size = 0.0, 0.0, 0
        for k in range(start, end):
            i = order[k]
            if counts[i] > 0:
                inside[size] = i
                size += 1
                weight += counts[i]
                for c in range(C):
                    whole[c] += counts[i] * targets[i, c]
                    squares += counts[i] * targets[i, c] ** 2
        explained = 0.0
        for c in range(C):
            explained += whole[c] ** 2 / weight
        best, best_feature, threshold = -1.0, -1, 0.0
        if size > 1 and squares - explained > 1e-12 * squares:
            tried = 0
            for f in range(d):
                if f >= max_features and tried > 0:
                    break
                g = f + int(rng.random() * (d - f))
                features[f], features[g] = features[g], features[f]
                feature = features[f]
                for k in range(size):
                    values[k] = X[inside[k], feature]
                ranked = np.argsort(values[:size])
                if values[ranked[size - 1]] <= values[ranked[0]]:
                    continue
                tried += 1
                left[:] = 0.0
                below = 0.0
                for k in range(size - 1):
                    i = inside[ranked[k]]
                    below += counts[i]
                    for c in range(C):
                        left[c] += counts[i] * targets[i, c]
                    here, following = values[ranked[k]], values[ranked[k + 1]]
                    if following <= here:
                        continue
                    score = 0.0
                    for c in range(C):
                        score += left[c] ** 2 / below + (whole[c] - left[c]) ** 2 / (weight - below)
                    if score > best:
                        best, best_feature = score, feature
                        threshold = here + (following - here) / 2.0
                        if threshold >= following:  # rounding
                            threshold = here
        if best_feature < 0:
            for k in range(start, end):
                if counts[order[k]] == 0:
                    for c in range(C):
                        total[order[k], c] += whole[c] / weight
            continue
        middle, above = start, 0
        for k in range(start, end):
            i = order[k]
            if X[i, best_feature] <= threshold:
                order[middle] = i
                middle += 1
            else:
                side[above] = i
                above += 1
        for k in range(above):
            order[middle + k] = side[k]
        starts[waiting], ends[waiting] = start, middle
        starts[waiting + 1], ends[waiting + 1] = middle, end
        waiting += 2


class Forest(Predictor):
    """A random forest, in which items of known value are judged by the trees not grown on them.

    These are cross-fitted values without folds: one forest instead of eleven. An item that all
    trees have seen, or whose class has no other label, gets equal probabilities; or the mean.

    Parameters
    ----------
    X : (n, d) array
    n_trees : int, optional
        Default 100.
    is_resampled : bool
        Whether nothing is asked of the trees but the means of rows left out, as in resamples:
        :func:`out_of_bag_means`.
    """

    n_folds = 2

    def __init__(
        self, X: Floats, n_trees: int | None = None, *, is_resampled: bool = False
    ) -> None:
        self.X, self.n, self.is_resampled = X, len(X), is_resampled
        self.n_trees = TREES if n_trees is None else n_trees

    def part(self, items: Indices, n_folds: int) -> Forest:
        """Return the predictor for some rows of the table.

        It has as many trees: a label that counts much in a resample is left out by few of them, and
        with fewer trees by none.
        """
        return Forest(self.X[items], self.n_trees, is_resampled=True)

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all rows."""
        items = training.items
        if self.is_resampled:
            values = self.left_out(training)
            return Predicted(self.completed(training, values))
        trees, X = self.grown(training), np.ascontiguousarray(self.X, dtype=np.float32)
        c = 1 if training.is_numeric else len(training.classes)
        values = trees.mean(X) if len(items) < self.n else np.empty((self.n, c))
        values[items] = trees.out_of_bag(X[items])
        return Predicted(self.completed(training, values))

    def fitted_model(self, training: Training, choice: int | None) -> ForestModel:
        """Return the trees."""
        return ForestModel(self.grown(training), training)

    def grown(self, training: Training) -> BaggedTrees:
        """Return the trees grown on the items of known value."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind: Any = DecisionTreeRegressor if training.is_numeric else DecisionTreeClassifier
        tried = COLUMNS_TRIED if training.is_numeric else "sqrt"
        # Without an item its class is smaller, and would seem less likely for it: hence balanced.
        return grown_trees(
            lambda seed: kind(max_features=tried, random_state=seed),
            np.ascontiguousarray(self.X[training.items], dtype=np.float32),
            training.y,
            self.n_trees,
            training.weights,
            balanced=not training.is_numeric,
        )

    def left_out(self, training: Training) -> Floats:
        """Return what trees say of the rows that they were not grown on, (n, c) or (n, 1)."""
        items, y, d = training.items, training.y, self.X.shape[1]
        order = np.concatenate([items, np.setdiff1d(np.arange(self.n), items)])
        weights = np.zeros(self.n)
        weights[: len(y)] = 1.0 if training.weights is None else training.weights
        mean, columns = 0.0, max(1, int(np.sqrt(d)))
        targets = np.zeros((self.n, 1 if training.is_numeric else len(training.classes)))
        if training.is_numeric:
            mean, columns = training.mean, max(1, int(COLUMNS_TRIED * d))
            targets[: len(y), 0] = y - mean
        else:
            targets[np.arange(len(y)), y] = 1.0
        found = out_of_bag_means(
            self.X[order],
            targets,
            weights,
            self.n_trees,
            columns,
            balanced=not training.is_numeric,
        )
        values = np.empty(found.shape)
        values[order] = found + mean
        return values

    def completed(self, training: Training, values: Floats) -> Floats:
        """Return values (n, c) as (n, C) or (n,), those that no tree has judged filled in."""
        unseen = np.isnan(values[:, 0])
        if training.is_numeric:
            return np.where(unseen, training.mean, values[:, 0])
        p = training.full(values)
        alone = np.bincount(training.y)[training.y] == 1
        unseen[training.items[alone]] = True
        p[unseen] = 1.0 / training.n_classes
        return p


class ForestModel(NamedTuple):
    """The trees of all labels or targets."""

    trees: BaggedTrees
    training: Training

    def predict(self, X: Any) -> Floats:
        """Return what is predicted of new rows."""
        found = self.trees.mean(np.ascontiguousarray(X, dtype=np.float32))
        return found[:, 0] if self.training.is_numeric else self.training.full(found)
