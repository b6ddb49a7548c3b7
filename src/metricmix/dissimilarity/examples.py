r"""Labelled items as examples of their classes.

A supervised source knows where its classes are: certainty of class c is a corner of the simplex,
and the corner that is nearest to an item, in the Hellinger distance, is that of its likeliest
class. Its cross-fitted predictions of labelled items are elsewhere: those of a class that is hard
to tell lie among others. So a labelled item i is two points. As an *item* it is where the sources
see it without its label. As an *example* :math:`e_i` of its class c it has its label:

.. math:: d_r(x, e_i) = \sqrt{1 - \sqrt{p_c(x)}}, \qquad d_r(e_i, e_j) = [y_i \ne y_j]

in a supervised source r, and the distances of the item in all others. Every source is a metric on
the items and the examples together if it is one on the items.

Class means are means of examples (:class:`~metricmix.objectives.ClassMeans`). With a single
supervised source, an item then gets the class that its classifier says.
"""

from __future__ import annotations

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["ExampleSource", "corners_of", "with_examples"]


class ExampleSource(Source):
    """A source between L labelled items, and from them to their examples: 2 L points.

    Point i < L is a labelled item, and L + i its example.

    Parameters
    ----------
    source : Source
    items : (L,) array
        The labelled items.
    codes : (L,) array
        Their classes.
    corners : (n, C) array, optional
        How far the items of a supervised source are from certainty of each class.

    Examples
    --------
    A classifier that is sure of the first item, and wrong about the second:

    >>> import numpy as np
    >>> from metricmix.dissimilarity.supervised import SupervisedSource
    >>> p, codes = np.array([[1.0, 0.0], [0.75, 0.25]]), np.array([0, 1])
    >>> source = SupervisedSource.restored("model", p, Known(codes, 2))
    >>> examples = ExampleSource(source, np.arange(2), codes, source.to_corners)
    >>> examples.rows(np.arange(2)).round(3)
    array([[0.   , 0.366, 0.   , 1.   ],
           [0.366, 0.   , 0.366, 0.707]])
    """

    def __init__(
        self, source: Source, items: Indices, codes: Indices, corners: Floats | None = None
    ) -> None:
        self.source, self.items, self.codes = source, items, codes
        self.corners = None if corners is None else corners[items]
        self.n = 2 * len(items)
        self.name, self.facts, self.supervised = source.name, source.facts, source.supervised

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``."""
        return self.block(indices, np.arange(self.n))

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``."""
        return np.asarray(self.block(np.arange(self.n), indices).T)

    def block(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[np.ix_(i, j)]``."""
        L = len(self.items)
        (first, row), (second, column) = (np.unique(k % L, return_inverse=True) for k in (i, j))
        found = self.source.block(self.items[first], self.items[second])
        return self._with_labels(found[np.ix_(row, column)], i[:, None], j[None, :])

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        L = len(self.items)
        return self._with_labels(self.source.pairs(self.items[i % L], self.items[j % L]), i, j)

    def pairs_among(self, items: Indices, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[items[i], items[j]]`` elementwise, from the block of the labelled items."""
        L, ends = len(self.items), (items[i], items[j])
        if self.corners is not None and (np.maximum(*ends) >= L).all():
            return self._with_labels(np.empty(len(i)), *ends)
        among, place = np.unique(items % L, return_inverse=True)
        values = self.source.pairs_among(self.items[among], place[i], place[j])
        return self._with_labels(values, *ends)

    def _with_labels(self, values: AnyArray, i: Indices, j: Indices) -> AnyArray:
        """Return values between items i % L and j % L as those between points i and j."""
        if self.corners is None:
            return values
        L, corners, of = len(self.items), self.corners, self.codes
        first, second = i % L, j % L
        to, back = corners[first, of[second]], corners[second, of[first]]
        labels = np.where(i < L, to, np.where(j < L, back, of[first] != of[second]))
        return np.where((i < L) & (j < L), values, labels)


def corners_of(stack: DissimilarityStack, n_classes: int) -> dict[int, Floats]:
    """Return how far items are from certainty of each class, (n, C), by number of the source.

    Of the sources that predict these classes.
    """
    found = {r: source.to_corners for r, source in enumerate(stack.sources)}
    return {
        r: corners
        for r, corners in found.items()
        if corners is not None and corners.shape[1] == n_classes
    }


def with_examples(stack: DissimilarityStack, known: Known) -> DissimilarityStack:
    """Return the stack of the labelled items and their examples, at the same scales."""
    corners = corners_of(stack, known.n_classes)
    sources = [
        ExampleSource(source, known.items, known.y, corners.get(r))
        for r, source in enumerate(stack.sources)
    ]
    return DissimilarityStack.of_sources(
        sources, stack.names, stack.directed, scaling=stack.scales, facts=stack.facts
    )
