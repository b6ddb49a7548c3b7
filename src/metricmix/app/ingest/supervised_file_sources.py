r"""Supervised sources of files: what classifiers say of two items, as a distance.

The source is the Hellinger distance of class probabilities
(:mod:`metricmix.dissimilarity.supervised`):

====================  ============================================================================
``learned``           a logistic regression on the encoded columns
``forest``            a random forest on them, which finds interactions
``learned_graph``     a logistic regression on attributes smoothed along a graph, or on memberships
``spread``            labels spread over a graph, or over the items that share things
====================  ============================================================================

Every fold of a cross-validation computes them from the labels that it may see. For new items the
classifiers are fitted again, to the labels of the fit, with the same result: a folder holds the
cells and edges, and no classifier.
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
from metricmix.dissimilarity.hellinger import ProbabilitySource
from metricmix.dissimilarity.supervised import (
    CrossFittedClassifier,
    LabelPropagation,
    Predictor,
    SupervisedSource,
)
from metricmix.dissimilarity.supervised_recipes import digests
from metricmix.dissimilarity.table_sources import OutOfBagForest
from metricmix.typing import AnyArray, Floats

__all__ = ["LearnedSource", "SpreadSource"]


class SupervisedFileSource(FileSource):
    """Hellinger distances of class probabilities, computed from labels.

    `for_new_items` says whether the classifier of all labels is kept.
    """

    predictor: Predictor
    for_new_items: bool = False

    def __init__(self, spec: SourceSpec, items: ItemTable) -> None:
        super().__init__(spec, items)
        self.codes, self.n_classes = np.full(self.n, -1), 1
        if items.labels is not None:
            classes = sorted({label for label in items.labels if label})
            number = {label: c for c, label in enumerate(classes)}
            self.codes = np.array([number.get(label, -1) for label in items.labels])
            self.n_classes = max(1, len(classes))

    def relabelled(self, codes: AnyArray, n_classes: int) -> FileSource:
        """Return the source for the labels of a fit, to which new items are compared."""
        other = copy(self)
        for name in ("supervised", "predictor"):
            other.__dict__.pop(name, None)
        other.for_new_items = True
        other.codes, other.n_classes = codes, n_classes
        return other

    @cached_property
    def supervised(self) -> SupervisedSource:
        """The distances, by the probabilities of all items."""
        return SupervisedSource(self.predictor, self.spec.name, self.codes, self.n_classes)

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        return np.asarray(self.supervised.rows(np.arange(self.n)))

    def by_pairs(self) -> ProbabilitySource:
        """Return the same by rows and pairs."""
        return self.supervised

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from what the classifier of all labels says of new items."""
        return self.supervised.cross(self.new_probabilities(new))

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return the class probabilities of new items, (m, C)."""
        raise NotImplementedError


class LearnedSource(SupervisedFileSource):
    """A classifier of the rows of a table: encoded columns, smoothed attributes or memberships.

    A new item with the row of an item of the fit gets its probabilities.
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
        if self.spec.kind == "forest":
            return OutOfBagForest(self.rows, new_items=self.for_new_items)
        return CrossFittedClassifier(self.rows, new_items=self.for_new_items)

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return what the classifier of all labels says."""
        rows = self.base.new_rows(new)
        rows = dense(rows) if isinstance(self.rows, np.ndarray) else type(self.rows)(rows)
        known = {digest: i for i, digest in reversed(list(enumerate(digests(self.rows))))}
        same = np.array([known.get(digest, -1) for digest in digests(rows)], dtype=np.int64)
        p = self.supervised.probabilities[same]
        if (same < 0).any():
            classifier = self.supervised.classifier
            assert classifier is not None
            p[same < 0] = classifier.probabilities(rows[same < 0])
        return np.asarray(p)


class SpreadSource(SupervisedFileSource):
    """Labels spread over a graph by PageRank."""

    def __init__(self, spec: SourceSpec, items: ItemTable, links: PageRankSource) -> None:
        super().__init__(spec, items)
        self._links = links

    @property
    def links(self) -> PageRankSource:
        """The graph."""
        return self._links

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """PageRank of the labels of each class."""
        return LabelPropagation(smoothing_operator(self.links.graph), self.spec.restart)

    def new_probabilities(self, new: NewItemData) -> Floats:
        """Return the shares of the classes among the labels that walks from new items reach."""
        of_class = (self.codes[:, None] == np.arange(self.n_classes)).astype(np.float64)
        of_class /= np.maximum(of_class.sum(axis=0), 1.0)
        operator = smoothing_operator(self.links.graph)
        share = np.maximum(pagerank_smoothed(operator, of_class, self.spec.restart, 1e-6), 0.0)
        nothing = np.zeros((len(new.items.ids), self.n_classes))
        reached = self.links.attached(new, self.spec.restart, nothing, share) + 1e-9
        return np.asarray(reached / reached.sum(axis=1, keepdims=True))


def dense(table: Any) -> Floats:
    """Return a table as an array."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())
