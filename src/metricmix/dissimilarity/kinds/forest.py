"""Random forests on columns, whose labelled rows are judged by the trees not grown on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.forests import BaggedTrees, grown_trees
from metricmix.dissimilarity.known import Known, has_others
from metricmix.dissimilarity.learned_sources import ModelSource, dense
from metricmix.dissimilarity.predictors import Predicted, Predictor, Training
from metricmix.dissimilarity.specs import KINDS
from metricmix.typing import Floats, Indices

__all__ = ["ColumnForest", "Forest"]

COLUMNS_TRIED = 0.5
"""Share of the columns that a split of a tree for numbers is chosen from."""


@KINDS.register(
    "forest",
    words="a random forest on columns, which finds interactions",
    example="trees=forest:*",
    order=5,
    needs=("columns",),
    options=("view",),
    model="forest",
    report="random forest",
)
class ColumnForest(ModelSource):
    """Distances between what a random forest on the encoded columns predicts."""

    @cached_property
    def rows(self) -> Any:
        """The rows of all items, dense: (n, d)."""
        return dense(self.base.table)

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The forest, and how labelled items are judged without their label."""
        return Forest(self.rows)


class Forest(Predictor):
    """A random forest, in which items of known value are judged by the trees not grown on them.

    These are cross-fitted values without folds: one forest instead of eleven. Of groups of items,
    the trees are those not grown on any of the group. An item that all
    trees have seen, or whose class has no other label, gets equal probabilities; or the mean.

    Parameters
    ----------
    X : (n, d) array
    n_trees : int, optional
        Default 100.
    """

    n_folds = 2

    def __init__(self, X: Floats, n_trees: int | None = None) -> None:
        self.X, self.n, self.n_trees = X, len(X), n_trees

    def part(self, items: Indices, n_folds: int) -> Forest:
        """Return the predictor for some rows of the table.

        It has as many trees: a label that counts much in a resample is left out by few of them, and
        with fewer trees by none.
        """
        return Forest(self.X[items], self.n_trees)

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all rows."""
        items, trees = training.items, self.grown(training)
        c = 1 if training.is_numeric else len(training.classes)
        values = trees.mean(self.X) if len(items) < self.n else np.empty((self.n, c))
        values[items] = trees.out_of_bag(self.X[items])
        return Predicted(self.completed(training, values))

    def fitted_model(self, training: Training, choice: int | None) -> ForestModel:
        """Return the trees."""
        return ForestModel(self.grown(training), training)

    def grown(self, training: Training) -> BaggedTrees:
        """Return the trees grown on the items of known value."""
        d, n_classes, groups = self.X.shape[1], len(training.classes), training.groups
        if groups is not None:
            groups = np.unique(groups, return_inverse=True)[1]
        # Without an item its class is smaller, and would seem less likely for it: hence balanced.
        return grown_trees(
            self.X[training.items],
            training.y,
            int(COLUMNS_TRIED * d) if training.is_numeric else int(np.sqrt(d)),
            training.weights,
            n_trees=self.n_trees,
            n_classes=0 if training.is_numeric else n_classes,
            balanced=not training.is_numeric,
            groups=groups,
        )

    def completed(self, training: Training, values: Floats) -> Floats:
        """Return values (n, c) as (n, C) or (n,), those that no tree has judged filled in."""
        unseen = np.isnan(values[:, 0])
        if training.is_numeric:
            return np.where(unseen, training.mean, values[:, 0])
        p = training.full(values)
        alone = ~has_others(training.y, training.groups)
        unseen[training.items[alone]] = True
        p[unseen] = 1.0 / training.n_classes
        return p


class ForestModel(NamedTuple):
    """The trees of all labels or targets."""

    trees: BaggedTrees
    training: Training

    def predict(self, X: Any) -> Floats:
        """Return what is predicted of new rows."""
        found = self.trees.mean(X)
        return found[:, 0] if self.training.is_numeric else self.training.full(found)
