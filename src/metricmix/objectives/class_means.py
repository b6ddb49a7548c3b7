"""Nearest class mean in the metric: a loss to learn by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads
from metricmix.objectives.base import OBJECTIVES, LabelObjective
from metricmix.objectives.class_scores import inverse_or_zero
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = ["LABELS_AT_ONCE", "ClassMeans", "class_means_ridge", "stratified_blocks"]

LABELS_AT_ONCE = 1000
"""Labelled items from which on class means are taken over blocks of half as many, not over all."""


@OBJECTIVES.register(
    "class-means",
    words="leave-one-out cross-entropy of the nearest class mean",
    default=True,
    numeric=False,
)
class ClassMeans(LabelObjective):
    r"""Leave-one-out cross-entropy of the class whose mean is nearest.

    A metric gives the distance to a class mean without coordinates: were d a squared Euclidean
    distance, that of x to the mean of class c would be

    .. math:: s_c(x) = \frac{1}{|c|} \sum_{i \in c} d(x, i)
              - \frac{1}{2 |c|^2} \sum_{i, j \in c} d(i, j)

    with all ordered pairs, i = j included. It is the score of x here whatever the metric, and

    .. math:: f = \frac{1}{|K|} \sum_{x \in K} \bigg( s_{y \setminus x}(x)
              + \log \Big( e^{-s_{y \setminus x}(x)} + \sum_{c \ne y} e^{-s_c(x)} \Big) \bigg)
              + \rho \lVert\alpha\rVert^2

    where x of class y does not count in the mean of its own class, and K are the labelled items
    whose class has another one. An item alone in its class has no term, but its class competes for
    the others. Unlabelled items take part in paths only. Distances run from x to the class.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them; NaN, None and
        pandas' NA mark them too.
    rho : float
        Weight of the ridge. It bounds the weights where some mixture separates the classes.
    block_size : int, optional
        The loss looks at all L² distances of labelled items at once: a single term, right for
        ``method="full"``. With a block size B the items are split into blocks of about B, and each
        block is a term, with class means of its own: what a step of the stochastic solver can
        afford (``batch_size=1`` is then B² pairs). Classes are spread evenly over the blocks, the
        same way every time, by at least two items: a class too small for that is missing from some
        blocks, and does not compete there. Blocks are larger than B where this is needed for each
        to hold two classes, one of them with two items.
    item_weights : array of n numbers >= 0, optional
        All means become weighted ones, those over a class and that over K. Weight 0 is the same as
        no label; an item that outweighs the rest of its class by 10⁵ counts as alone.
    examples : bool
        Whether there are 2 n points, n + i being the example of item i
        (:mod:`metricmix.dissimilarity.examples`). Classes are then made of examples: i and j are
        examples above, and x is an item. Distances between these are symmetric.

    Notes
    -----
    O(L² C) for C classes, as a few products of matrices; with blocks O(L B C).

    Examples
    --------
    Two classes far apart, with little to lose:

    >>> import numpy as np, metricmix as mm
    >>> y = np.array([0, 0, 1, 1])
    >>> d = np.where(y[:, None] == y, 1.0, 5.0)
    >>> np.fill_diagonal(d, 0.0)
    >>> objective = mm.objectives.ClassMeans(y)
    >>> value, slope = objective.evaluate(np.array([0]), d.reshape(1, -1), 4)
    >>> value.round(3)
    array([0.023])
    >>> mm.objectives.ClassMeans(np.arange(100) % 4, block_size=20).n_terms(100)
    5
    """

    convex = True

    def __init__(
        self,
        y: ArrayLike,
        rho: float = 1e-5,
        *,
        block_size: int | None = None,
        item_weights: ArrayLike | None = None,
        examples: bool = False,
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
        self.examples = examples
        if block_size is not None:
            block_size = check_integer(block_size, name="block_size", low=2)
        self.block_size = block_size
        if np.bincount(self.codes).max() < 2:
            raise InputError(
                argument="y",
                expected=("at least two items of one class, found every class with a single item"),
            )
        blocks = stratified_blocks(self.codes, block_size or len(self.codes))
        # Blocks are (n_blocks, B), short ones filled up with items that have no class or weight.
        self._there = blocks >= 0
        blocks = np.where(self._there, blocks, blocks[:, :1])
        self._items = self.labelled[blocks]
        of_class = (self.codes[blocks, None] == np.arange(self.n_classes)) & self._there[..., None]
        self._of_class: Floats = of_class.astype(np.float64)
        self._classes: Indices = self.codes[blocks]
        self._v: Floats = np.where(self._there, self._weights[blocks], 0.0)
        self._totals: Floats = (self._of_class * self._v[..., None]).sum(axis=1)
        own = _own(self._of_class, self._totals[:, None])
        rest = own - self._v
        # Where the others hold less than this share of a class, its mean without x is rounding.
        counts = self._there & (rest > 1e-5 * own)
        self._one_by_rest: Floats = inverse_or_zero(np.where(counts, rest, 0.0))
        counted = np.where(counts, self._v, 0.0)
        of_block = counted.sum(axis=1)
        self._shares: Floats = counted * inverse_or_zero(of_block)[:, None]
        self._probabilities: Floats = of_block / of_block.sum()
        if examples:
            self._mates = class_mates(self._classes, self._there)
            others = self._mates != np.arange(blocks.shape[1])[:, None]
            rows = np.arange(len(blocks))[:, None, None]
            self._mate_weights: Floats = np.where(others, self._v[rows, self._mates], 0.0)

    @classmethod
    def default_rho(cls, known: Known) -> float:
        """Return that of :func:`class_means_ridge`, for the classes that have labels."""
        return class_means_ridge(known.sizes[known.sizes > 0])

    @classmethod
    def settings_for(cls, known: Known, stochastic: bool) -> dict[str, Any]:
        """Return blocks of 20 items for a stochastic solver, of 500 for many labels, else none."""
        many = LABELS_AT_ONCE // 2 if len(known.items) > LABELS_AT_ONCE else None
        return {"block_size": 20 if stochastic else many}

    def check(self, n: int) -> None:
        """Raise InputError unless something is said of each of the n items."""
        super().check(n // 2 if self.examples else n)

    def n_terms(self, n: int) -> int:
        """Return the number of blocks: 1 without a block size."""
        return len(self._items)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return all ordered pairs of each block, row by row; (i, i) fills short blocks up.

        With examples, first those from items to examples, then those between the examples of a
        class.
        """
        items, there = self._items[terms], self._there[terms]
        i, j = np.broadcast_arrays(items[:, :, None], items[:, None, :])
        if not there.all():
            j = np.where(there[:, :, None] & there[:, None, :], j, i)
        i, j = i.reshape(len(terms), -1), j.reshape(len(terms), -1)
        if not self.examples:
            return i, j
        shift, mates = len(self.y), self._mates[terms]
        own = np.broadcast_to(items[:, :, None], mates.shape).reshape(len(terms), -1)
        mate = np.take_along_axis(items[:, None, :], mates, axis=2).reshape(len(terms), -1)
        return np.concatenate([i, own + shift], axis=1), np.concatenate([j, mate], axis=1) + shift

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the cross-entropy of each block, and its derivatives by all its distances."""
        size = self._items.shape[1]
        diagonal = np.arange(size)
        e, v, shares = self._of_class[terms], self._v[terms], self._shares[terms]
        one_by_total, r = inverse_or_zero(self._totals[terms])[:, None], self._one_by_rest[terms]
        ve = v[..., None] * e
        scores = self._scores(terms, d)
        likely, log_total = self._likely(terms, scores)
        value = (shares * (_own(e, scores) + log_total)).sum(axis=1)

        # Backwards: by the scores, by the sums over classes, by the distances.
        by_score = shares[..., None] * (e - likely)
        by_own, by_other = _own(e, by_score), by_score * (1.0 - e)
        by_rest_within = -0.5 * by_own * r**2
        by_within = (e * by_rest_within[..., None] - 0.5 * by_other * one_by_total**2).sum(
            axis=1, keepdims=True
        )
        by_to_class = by_other * one_by_total + e * (by_own * r)[..., None]
        by_to_own = e * (v * (_own(e, by_within) - by_rest_within))[..., None]
        by_from_own = e * (-v * by_rest_within)[..., None]
        across = ve.transpose(0, 2, 1)  # to the items of each class
        if self.examples:
            slope = by_to_class @ across
            by_mates = (by_to_own + by_from_own).sum(axis=2)[..., None] * self._mate_weights[terms]
        else:
            slope = np.concatenate([by_to_class + by_to_own, ve], axis=2) @ np.concatenate(
                [ve, by_from_own], axis=2
            ).transpose(0, 2, 1)
            by_mates = np.empty((len(terms), 0))
        slope[:, diagonal, diagonal] = 0.0
        both = slope.reshape(len(terms), -1), by_mates.reshape(len(terms), -1)
        return value, np.concatenate(both, axis=1)

    def curvature(self, terms: Indices, d: Floats, along: Floats, p: Floats, n: int) -> Floats:
        r"""Return the second derivatives of a sum of blocks along directions.

        Scores are linear in the distances, so that these are, with :math:`q_c` the softmax of
        minus the scores, covariances of the moves of the scores under q.
        """
        likely, _ = self._likely(terms, self._scores(terms, d))
        moves = self._scores(terms, along)
        moves -= (likely * moves).sum(axis=-1, keepdims=True)
        moves *= np.sqrt(likely * (p[:, None] * self._shares[terms])[..., None])
        moves = moves.reshape(len(along), likely.size)
        return np.asarray(moves @ moves.T)

    def _scores(self, terms: Indices, d: Floats) -> Floats:
        """Return the scores of the items of blocks, (..., T, B, C), at distances (..., T, P).

        Without its own weight for the class of an item. Linear in the distances.
        """
        e, v, r = self._of_class[terms], self._v[terms], self._one_by_rest[terms]
        one_by_total = inverse_or_zero(self._totals[terms])[:, None]
        to_class, to_mates, from_mates = self._sums(terms, d)
        within = (e * (v * to_mates)[..., None]).sum(axis=-2, keepdims=True)
        rest_within = _own(e, within) - v * (to_mates + from_mates)
        own_score = _own(e, to_class) * r - 0.5 * rest_within * r**2
        scores = to_class * one_by_total - 0.5 * within * one_by_total**2
        return np.where(e > 0, own_score[..., None], scores)

    def _sums(self, terms: Indices, d: Floats) -> tuple[Floats, Floats, Floats]:
        """Return weighted sums of the distances from items to each class, (..., T, B, C).

        And of what classes are made of, items or examples, to and from the rest of their own class,
        (..., T, B).
        """
        size = self._items.shape[1] ** 2
        about = (self._classes[terms], self._v[terms], self.n_classes)
        to_class, from_own = sums_over_classes(d[..., :size], *about)
        if not self.examples:
            return to_class, _own(self._of_class[terms], to_class), from_own
        weights = self._mate_weights[terms]
        to_mates = (weights * d[..., size:].reshape(*d.shape[:-1], *weights.shape[1:])).sum(axis=-1)
        return to_class, to_mates, to_mates

    def _likely(self, terms: Indices, scores: Floats) -> tuple[Floats, Floats]:
        """Return the softmax of minus the scores, (T, B, C), and the logarithm of its sum."""
        # Classes that are in other blocks do not compete.
        present = self._totals[terms][:, None] > 0
        scores = np.where(present, scores, np.inf)
        least = scores.min(axis=-1, keepdims=True)
        likely = np.exp(least - scores)
        total = likely.sum(axis=-1, keepdims=True)
        likely /= total
        return likely, (np.log(total) - least)[..., 0]

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw blocks by the weight of their items that count."""
        return rng.choice(len(self._probabilities), size, p=self._probabilities)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the shares of the blocks in the items that count."""
        return self._probabilities[terms]


SUMS_AT_ONCE = 1 << 18
"""Distances that a thread sums over classes at a time."""


def sums_over_classes(
    d: Floats, classes: Indices, v: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Return weighted sums of distances (..., T, B²) within T blocks of B items.

    To the items of each class, (..., T, B, C), and from those of the own class, (..., T, B); the
    distance of an item to itself counts as 0. Classes and weights are (T, B).
    """
    blocks, size = classes.shape
    flat = np.ascontiguousarray(d, dtype=np.float64).reshape(-1, blocks, size, size)
    to_class = np.zeros((*flat.shape[:-1], n_classes))
    from_own = np.zeros(flat.shape[:-1])

    step = max(1, SUMS_AT_ONCE * len(flat) // flat.size) if flat.size else 1

    def fill(start: int) -> None:
        some = slice(start, start + step)
        add_over_classes(flat[some], classes, v, to_class[some], from_own[some])

    in_threads(fill, range(0, len(flat), step))
    lead = d.shape[:-2]
    return to_class.reshape(*lead, *to_class.shape[1:]), from_own.reshape(*lead, blocks, size)


@kernel
def add_over_classes(
    d: Floats, classes: Indices, v: Floats, to_class: Floats, from_own: Floats
) -> None:
    """Add v_i d[x, i] to the sums of x by the class of i, and v_x d[x, i] to i if it is of that."""
    for k, t, x in np.ndindex(d.shape[:3]):
        for i in range(d.shape[3]):
            if i == x:
                continue
            c = classes[t, i]
            to_class[k, t, x, c] += v[t, i] * d[k, t, x, i]
            if c == classes[t, x]:
                from_own[k, t, i] += v[t, x] * d[k, t, x, i]


def class_mates(classes: Indices, there: AnyArray) -> Indices:
    """Return the positions of the items of the own class, (T, B, m), in T blocks of B items.

    Shorter lists are filled up with the item itself; so is that of an item that is not there.

    >>> class_mates(np.array([[0, 1, 0, 0]]), np.array([[True, True, True, False]]))[0].tolist()
    [[0, 2], [1, 1], [0, 2], [3, 3]]
    """
    same = (classes[:, :, None] == classes[:, None, :]) & there[:, :, None] & there[:, None, :]
    most = max(1, int(same.sum(axis=2).max()))
    order = np.argsort(~same, axis=2, kind="stable")[:, :, :most]
    own = np.arange(classes.shape[1])[:, None]
    return np.where(np.take_along_axis(same, order, axis=2), order, own)


def class_means_ridge(sizes: Indices) -> float:
    r"""Return the default weight of the ridge of class means, for the labels of each class.

    .. math:: \rho = 10^{-2} (6 / m)^5, \quad \text{at least } 10^{-5}, \qquad
              \rho = 10^{-2} (6 / m)^6 \text{ for } m < 6

    with m labels per class on average. Five labels per class can make any source look perfect, so
    weights stay close to equal ones; twenty cannot.

    >>> [f"{class_means_ridge(np.full(3, m)):.1e}" for m in (2, 5, 10, 20, 40)]
    ['7.3e+00', '3.0e-02', '7.8e-04', '2.4e-05', '1.0e-05']
    """
    times = 6.0 / float(sizes.mean())
    return max(1e-5, 1e-2 * times ** (6 if times > 1.0 else 5))


def _own(of_class: Floats, values: Floats) -> Floats:
    """Return, of values per item and class, that of each item's own class; 0 without a class."""
    return np.asarray((of_class * values).sum(axis=-1))


def stratified_blocks(codes: Indices, block_size: int) -> Indices:
    """Split items into stratified blocks: (n_blocks, B) positions, -1 where a block is shorter.

    As in stratified folds, classes are spread evenly. A class of k items goes to all blocks, or to
    k // 2 of them if there are more, so that every item has another one of its class in its block.
    There are about ``len(codes) / block_size`` blocks, or
    fewer where that is needed for each to hold two classes, one of them with two items.

    Examples
    --------
    >>> stratified_blocks(np.array([0, 0, 0, 0, 1, 1, 1, 1, 1]), 4).shape
    (2, 5)
    """
    sizes = np.bincount(codes)
    n_blocks = max(1, round(len(codes) / block_size))
    while True:
        parts = np.minimum(n_blocks, np.maximum(1, sizes // 2))
        if parts.sum() >= 2 * n_blocks and parts[sizes > 1].sum() >= n_blocks:
            break
        n_blocks -= 1
    # Always the same blocks, but independent of the order of the items.
    rng = np.random.default_rng(0)
    held = np.zeros((2, n_blocks), dtype=np.int64)  # items and classes in each block
    block_of = np.empty(len(codes), dtype=np.int64)
    for c in np.argsort(-sizes, kind="stable"):
        emptiest = np.lexsort(held)[: parts[c]]
        members = rng.permutation(np.flatnonzero(codes == c))
        block_of[members] = emptiest[np.arange(len(members)) % parts[c]]
        held[0] += np.bincount(block_of[members], minlength=n_blocks)
        held[1, emptiest] += 1
    order = np.argsort(block_of, kind="stable")
    starts = np.cumsum(held[0]) - held[0]
    blocks = np.full((n_blocks, held[0].max()), -1)
    blocks[block_of[order], np.arange(len(codes)) - starts[block_of[order]]] = order
    return blocks
