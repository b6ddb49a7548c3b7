r"""Distances to labelled items as examples of their classes, in a metric that needs no paths.

.. math:: d(x, e_i) = \mathrm{link}_\beta\Big( \sum_{r \notin S} \alpha_r M_r[x, i]
          + \sum_{r \in S} \alpha_r \sqrt{1 - \sqrt{p_{r, y_i}(x)}} \Big)

with S the supervised sources (:mod:`metricmix.dissimilarity.examples`). Where the sources are
metrics and no weight is negative, this is a metric on the items and the examples. Elsewhere, where
lengths are projected, classes are made of the labelled items themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.examples import corners_of, with_examples
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.mixing import link_in_place
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.contributions import split_lengths
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    from metricmix.learning.learned import Options

__all__ = ["Examples", "examples_of"]

LABELS_AT_ONCE = 64
"""Labelled items whose distances from all items are computed together."""
SMALLEST = 1e-8
"""Singular values of predictions, relatively, below which a direction counts as not predicted."""


def examples_of(
    stack: DissimilarityStack, known: Known | None, options: Options
) -> DissimilarityStack | None:
    """Return the labelled items and their examples if class means are learned on these, else None.

    They are where supervised sources predict the classes and no path is needed whatever the
    weights: these are >= 0, all sources are metrics, and all pairs are edges.
    """
    if known is None or known.is_numeric or options.objective != "class-means":
        return None
    linear = options.network is None and not options.is_local and options.neighbours is None
    direct = linear and options.constraint in ("nonnegative", "simplex")
    direct = direct and options.projection is not True and stack.edges is None
    direct = direct and not stack.directed
    metrics = all(fact is not None and fact.triangle_inequality for fact in stack.facts)
    if not (direct and metrics and corners_of(stack, known.n_classes)):
        return None
    return with_examples(stack, known)


class Examples:
    """The items of a metric, and how far they are from the examples of classes.

    Parameters
    ----------
    lengths : EdgeLengths
        A metric, with a supervised source of weight > 0 at least: see :meth:`of`.
    corners : dict of (n, C) arrays
        Of each such source, by its number, how far items are from certainty of each class.

    Attributes
    ----------
    to_classes : (n, C) array
        What the supervised sources contribute to the distances to the examples of each class.
    others : (R,) array
        The weights of all other sources, and 0 for the supervised ones.
    """

    def __init__(self, lengths: EdgeLengths, corners: dict[int, Floats]) -> None:
        self.lengths, self.corners = lengths, corners
        self.to_classes = self.mixed_corners(corners)
        self.others: Floats = lengths.raw_weights.copy()
        self.others[list(corners)] = 0.0

    @classmethod
    def of(cls, lengths: EdgeLengths, n_classes: int) -> Examples | None:
        """Return the examples of a metric; None where classes are made of the items themselves."""
        if not (lengths.is_metric and lengths.is_linear and n_classes) or lengths.directed:
            return None
        found, weights = corners_of(lengths.stack, n_classes), lengths.raw_weights
        corners = {r: far for r, far in found.items() if weights[r] > 0.0}
        return cls(lengths, corners) if corners else None

    def mixed_corners(self, corners: dict[int, Floats]) -> Floats:
        """Return what the supervised sources contribute to the distances to classes, (M, C)."""
        weights = self.lengths.raw_weights
        return np.asarray(sum(weights[r] * far for r, far in corners.items()))

    def mixed(self, i: Indices, j: Indices) -> Floats:
        """Return what the other sources contribute between items: (len(i), len(j))."""
        total = np.zeros((len(i), len(j)))
        for weight, source in zip(self.others, self.lengths.stack.sources, strict=True):
            if weight > 0.0:
                total += weight * np.asarray(source.block(i, j), dtype=np.float64)
        return total

    def linked(self, m: Floats) -> Floats:
        """Return lengths from values of the mixture, in place."""
        link_in_place(m, self.lengths.beta, self.lengths.link)
        return m

    def from_items(self, labelled: Indices, y: Indices) -> Floats:
        """Return the distances from all items to the examples of labelled ones, (n, L)."""
        found = np.empty((self.lengths.n, len(labelled)))
        for start in range(0, len(labelled), LABELS_AT_ONCE):
            some = slice(start, start + LABELS_AT_ONCE)
            m = np.ascontiguousarray(self.to_classes[:, y[some]].T)
            for weight, source in zip(self.others, self.lengths.stack.sources, strict=True):
                if weight > 0.0:
                    m += weight * np.asarray(source.rows(labelled[some]), dtype=np.float64)
            found[:, some] = self.linked(m).T
        return found

    def between(self, labelled: Indices) -> Floats:
        """Return the distances between the examples of labelled items of one class, (L, L).

        Those to themselves are what examples at the same place have, link(0): a class has no
        advantage from the number of its labels.
        """
        return self.linked(self.mixed(labelled, labelled))

    # -- new items ---------------------------------------------------------------------------------

    @cached_property
    def inverses(self) -> dict[int, Floats]:
        r"""Of each supervised source the (n, C) matrix that finds predictions from distances.

        The Hellinger distances of an item with predictions q to the others are
        :math:`d_i^2 = 1 - \sum_c \sqrt{p_{ic}\, q_c}`, linear equations for :math:`\sqrt{q_c}`.
        """
        roots = {r: 1.0 - np.square(far) for r, far in self.corners.items()}
        return {r: np.asarray(np.linalg.pinv(root, SMALLEST).T) for r, root in roots.items()}

    def corners_of_new(self, rows: AnyArray) -> dict[int, Floats]:
        """Return how far new items are from certainty, (M, C), by source; `rows` are (M, n, R)."""
        roots = {r: (1.0 - np.square(rows[:, :, r])) @ m for r, m in self.inverses.items()}
        return {r: np.sqrt(1.0 - np.clip(root, 0.0, 1.0)) for r, root in roots.items()}

    def from_new(self, rows: AnyArray, same: Indices, labelled: Indices, y: Indices) -> Floats:
        """Return the distances from new items to the examples of labelled ones, (M, L).

        `rows` are their raw dissimilarities (M, n, R); `same` the items that they are, or -1.
        """
        m = np.asarray(rows[:, labelled] @ self.others, dtype=np.float64)
        to_classes = self.mixed_corners(self.corners_of_new(rows))
        known = np.flatnonzero(same >= 0)
        m[known] = self.mixed(same[known], labelled)
        to_classes[known] = self.to_classes[same[known]]
        return self.linked(np.ascontiguousarray(m + to_classes[:, y]))

    # -- by source ---------------------------------------------------------------------------------

    def parts_from(self, item: int, row: AnyArray | None, labelled: Indices, y: Indices) -> Floats:
        """Return the parts of the distances from an item to examples: (L, R + 1), last the link's.

        Of an item of the metric, or of a new one by its raw dissimilarities, `row` (R, n).
        """
        if row is None:
            raw = np.array(self.lengths.stack.raw_pairs(np.full(len(labelled), item), labelled))
            corners = {r: far[item] for r, far in self.corners.items()}
        else:
            raw, found = np.array(row[:, labelled]), self.corners_of_new(row.T[None])
            corners = {r: far[0] for r, far in found.items()}
        for r, far in corners.items():
            raw[r] = far[y]
        return split_lengths(self.lengths, self.lengths.raw_weights[:, None] * raw)

    def parts_between(self, i: Indices, j: Indices) -> Floats:
        """Return the parts of the distances between examples of one class, (E, R + 1)."""
        raw = np.array(self.lengths.stack.raw_pairs(i, j))
        raw[list(self.corners)] = 0.0
        return split_lengths(self.lengths, self.lengths.raw_weights[:, None] * raw)
