r"""Supervised sources of files: what classifiers or regressors say of two items, as a distance.

The source is the Hellinger distance of class probabilities
(:mod:`metricmix.dissimilarity.supervised`), or the difference of predicted numbers
(:mod:`metricmix.dissimilarity.regressors`):

====================  ============================================================================
``learned``           a logistic or ridge regression on the encoded columns
``forest``            a random forest on them, which finds interactions
``learned_graph``     a logistic or ridge regression on attributes smoothed along a graph, or on
                      memberships
``spread``            labels or targets spread over a graph, or over the items that share things
====================  ============================================================================

Every fold of a cross-validation computes them from the labels or targets that it may see. For new
items the models are fitted again, to the labels of the fit, with the same result: a folder holds
the cells and edges, and no model.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.app.ingest.file_sources import ColumnSource, FileSource, NewItemData
from metricmix.app.ingest.graph_file_sources import (
    GraphFileSource,
    MembershipSource,
    PageRankSource,
    SmoothedSource,
)
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.dissimilarity.diffusion import pagerank_smoothed, smoothing_operator
from metricmix.dissimilarity.forests import OutOfBagForest
from metricmix.dissimilarity.regressors import (
    PredictionSource,
    TargetPredictor,
    TargetPropagation,
    for_targets,
)
from metricmix.dissimilarity.supervised import (
    CrossFittedClassifier,
    LabelPropagation,
    Predictor,
    SupervisedSource,
)
from metricmix.dissimilarity.supervised_recipes import digests
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["LearnedSource", "SpreadSource"]


class SupervisedFileSource(FileSource):
    """Distances between what is predicted of two items, computed from labels or targets.

    `predictor` is that of classes; for a numeric target, its counterpart is taken. `for_new_items`
    says whether the model of all labels is kept.
    """

    predictor: Predictor
    for_new_items: bool = False

    def __init__(self, spec: SourceSpec, items: ItemTable) -> None:
        super().__init__(spec, items)
        self.codes, self.n_classes = np.full(self.n, -1), 1
        self.targets = items.targets
        if items.labels is not None and items.targets is None:
            classes = sorted({label for label in items.labels if label})
            number = {label: c for c, label in enumerate(classes)}
            self.codes = np.array([number.get(label, -1) for label in items.labels])
            self.n_classes = max(1, len(classes))

    def relabelled(self, codes: AnyArray, n_classes: int) -> FileSource:
        """Return the source for the labels of a fit, to which new items are compared.

        Without classes, `codes` are targets.
        """
        other = copy(self)
        for name in ("supervised", "predictor"):
            other.__dict__.pop(name, None)
        other.for_new_items = True
        if n_classes:
            other.codes, other.n_classes, other.targets = codes, n_classes, None
        else:
            other.targets = codes
        return other

    @cached_property
    def supervised(self) -> SupervisedSource | PredictionSource:
        """The distances, by the probabilities or numbers of all items."""
        if self.targets is not None:
            return PredictionSource(self.target_predictor(), self.spec.name, self.targets)
        return SupervisedSource(self.predictor, self.spec.name, self.codes, self.n_classes)

    def target_predictor(self) -> TargetPredictor:
        """Return what predicts numbers."""
        return for_targets(self.predictor)

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        return np.asarray(self.supervised.rows(np.arange(self.n)))

    def by_pairs(self) -> SupervisedSource | PredictionSource:
        """Return the same by rows and pairs."""
        return self.supervised

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from what the model of all labels says of new items."""
        if isinstance(self.supervised, PredictionSource):
            return self.supervised.cross(self.new_values(new))
        return self.supervised.cross(self.new_probabilities(new))

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return the class probabilities of new items, (m, C)."""
        raise NotImplementedError

    def new_values(self, new: NewItemData) -> Floats:
        """Return the predicted numbers of new items, (m,)."""
        raise NotImplementedError


class LearnedSource(SupervisedFileSource):
    """A model of the rows of a table: encoded columns, smoothed attributes or memberships.

    A new item with the row of an item of the fit gets its probabilities, or its number.
    """

    def __init__(
        self,
        spec: SourceSpec,
        items: ItemTable,
        base: ColumnSource | SmoothedSource | MembershipSource,
    ) -> None:
        super().__init__(spec, items)
        self.base = base

    @property
    def links(self) -> GraphFileSource | None:
        """The graph that attributes are smoothed along, or the memberships."""
        return self.base.links

    @cached_property
    def rows(self) -> Any:
        """The rows of all items, (n, d)."""
        rows = self.base.table
        return dense(rows) if self.spec.kind == "forest" else rows

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The classifier, and how labelled items are judged without their label."""
        return self._predictor_of(self.rows)

    def _predictor_of(self, rows: Any) -> Predictor:
        if self.spec.kind == "forest":
            return OutOfBagForest(rows, new_items=self.for_new_items)
        return CrossFittedClassifier(rows, new_items=self.for_new_items)

    def new_rows(self, new: NewItemData) -> tuple[Any, Indices]:
        """Return the rows of new items, and the item of the fit with the same row, -1 for none."""
        rows = self.base.new_rows(new)
        rows = dense(rows) if isinstance(self.rows, np.ndarray) else type(self.rows)(rows)
        known = {digest: i for i, digest in reversed(list(enumerate(digests(self.rows))))}
        same = np.array([known.get(digest, -1) for digest in digests(rows)], dtype=np.int64)
        return rows, same

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return what the classifier of all labels says."""
        rows, same = self.new_rows(new)
        assert isinstance(self.supervised, SupervisedSource)
        p = self.supervised.probabilities[same]
        if (same < 0).any():
            classifier = self.supervised.classifier
            assert classifier is not None
            p[same < 0] = classifier.probabilities(rows[same < 0])
        return np.asarray(p)

    def new_values(self, new: NewItemData) -> Floats:
        """Return what the regressor of all targets says: new rows are items of unknown target."""
        rows, same = self.new_rows(new)
        assert isinstance(self.supervised, PredictionSource)
        assert self.targets is not None
        values = self.supervised.values[same]
        unseen = np.flatnonzero(same < 0)
        if len(unseen):
            predictor = for_targets(self._predictor_of(stacked(self.rows, rows[unseen])))
            y = np.append(self.targets, np.full(len(unseen), np.nan))
            values[unseen] = PredictionSource(predictor, self.spec.name, y).values[self.n :]
        return np.asarray(values)


class SpreadSource(SupervisedFileSource):
    """Labels or targets spread over a graph by PageRank."""

    def __init__(self, spec: SourceSpec, items: ItemTable, links: PageRankSource) -> None:
        super().__init__(spec, items)
        self._links = links

    @property
    def links(self) -> PageRankSource:
        """The graph."""
        return self._links

    @cached_property
    def predictor(self) -> LabelPropagation:  # type: ignore[override]
        """PageRank of the labels of each class."""
        return LabelPropagation(smoothing_operator(self.links.graph), self.spec.restart)

    def target_predictor(self) -> TargetPropagation:
        """Return PageRank of the targets."""
        return TargetPropagation(self.predictor, new_items=self.for_new_items)

    def reached(self, new: NewItemData, start: Floats) -> Floats:
        """Return what of `start` (n, d) walks from new items reach, (m, d)."""
        operator = smoothing_operator(self.links.graph)
        spread = pagerank_smoothed(operator, start, self.spec.restart, 1e-6)
        nothing = np.zeros((len(new.items.ids), start.shape[1]))
        return self.links.attached(new, self.spec.restart, nothing, spread)

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return the shares of the classes among the labels that walks from new items reach."""
        of_class = (self.codes[:, None] == np.arange(self.n_classes)).astype(np.float64)
        of_class /= np.maximum(of_class.sum(axis=0), 1.0)
        share = np.maximum(self.reached(new, of_class), 0.0) + 1e-9
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    def new_values(self, new: NewItemData) -> Floats:
        """Return the mean of the targets that walks from new items reach."""
        assert isinstance(self.supervised, PredictionSource)
        if self.supervised.constant:
            return np.zeros(len(new.items.ids))
        return self.supervised.new_values(self.reached(new, self.supervised.model.start))


def dense(table: Any) -> Floats:
    """Return a table as an array."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


def stacked(table: Any, rows: Any) -> Any:
    """Return a table with more rows below."""
    if isinstance(table, np.ndarray):
        return np.vstack([table, rows])
    from scipy.sparse import vstack

    return type(table)(vstack([table, rows]))
