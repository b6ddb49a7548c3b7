"""Nearest class mean in the metric: a loss to learn by, and the scores to predict with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import LabelObjective
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array, check_integer

__all__ = [
    "ClassMeans",
    "class_mean_scores",
    "class_offsets",
    "half_means",
    "held_out_scores",
    "label_shares",
    "stratified_blocks",
    "with_single_labels",
]


ALONE = 1e-5
"""Where the others hold less than this share of a class, its mean without the item is rounding."""


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
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
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
        self._v: Floats = np.where(self._there, self._weights[blocks], 0.0)
        self._totals: Floats = (self._of_class * self._v[..., None]).sum(axis=1)
        own = _own(self._of_class, self._totals[:, None])
        rest = own - self._v
        counts = self._there & (rest > ALONE * own)
        self._one_by_rest: Floats = _one_by(np.where(counts, rest, 0.0))
        counted = np.where(counts, self._v, 0.0)
        of_block = counted.sum(axis=1)
        self._shares: Floats = counted * _one_by(of_block)[:, None]
        self._probabilities: Floats = of_block / of_block.sum()

    def n_terms(self, n: int) -> int:
        """Return the number of blocks: 1 without a block size."""
        return len(self._items)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return all ordered pairs of each block, row by row; (i, i) fills short blocks up."""
        items, there = self._items[terms], self._there[terms]
        i, j = np.broadcast_arrays(items[:, :, None], items[:, None, :])
        if not there.all():
            j = np.where(there[:, :, None] & there[:, None, :], j, i)
        return i.reshape(len(terms), -1), j.reshape(len(terms), -1)

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the cross-entropy of each block, and its derivatives by all its distances."""
        size = self._items.shape[1]
        diagonal = np.arange(size)
        d = np.array(d, dtype=np.float64).reshape(len(terms), size, size)
        d[:, diagonal, diagonal] = 0.0
        e, v, shares = self._of_class[terms], self._v[terms], self._shares[terms]
        one_by_total, r = _one_by(self._totals[terms])[:, None], self._one_by_rest[terms]
        ve = v[..., None] * e

        # Sums over classes: of the distances to it, from it, and within it.
        to_class = d @ ve
        to_own = _own(e, to_class)
        from_own = _own(e, d.transpose(0, 2, 1) @ ve)
        within = (ve * to_class).sum(axis=1, keepdims=True)

        scores = to_class * one_by_total - 0.5 * within * one_by_total**2
        rest_within = _own(e, within) - v * (to_own + from_own)
        own_score = to_own * r - 0.5 * rest_within * r**2
        scores = np.where(e > 0, own_score[..., None], scores)
        scores = np.where(one_by_total > 0, scores, np.inf)  # classes that are in other blocks
        least = scores.min(axis=2, keepdims=True)
        grown = np.exp(least - scores)
        total = grown.sum(axis=2, keepdims=True)
        value = (shares * (own_score - least[..., 0] + np.log(total[..., 0]))).sum(axis=1)

        # Backwards: by the scores, by those sums, by the distances.
        by_score = shares[..., None] * (e - grown / total)
        by_own, by_other = _own(e, by_score), by_score * (1.0 - e)
        by_rest_within = -0.5 * by_own * r**2
        by_within = (e * by_rest_within[..., None] - 0.5 * by_other * one_by_total**2).sum(
            axis=1, keepdims=True
        )
        by_to_own = by_own * r + v * (_own(e, by_within) - by_rest_within)
        by_to_class = by_other * one_by_total + e * by_to_own[..., None]
        by_from_own = -v * by_rest_within
        slope = np.concatenate([by_to_class, ve], axis=2) @ np.concatenate(
            [ve, e * by_from_own[..., None]], axis=2
        ).transpose(0, 2, 1)
        slope[:, diagonal, diagonal] = 0.0
        return value, slope.reshape(len(terms), -1)

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw blocks by the weight of their items that count."""
        return rng.choice(len(self._probabilities), size, p=self._probabilities)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the shares of the blocks in the items that count."""
        return self._probabilities[terms]


def class_mean_scores(
    d: ArrayLike,
    codes: ArrayLike,
    n_classes: int,
    within: ArrayLike | None = None,
    *,
    item_weights: ArrayLike | None = None,
) -> Floats:
    r"""Return how far items are from the mean of each class.

    .. math:: s_c(x) = \frac{1}{|c|} \sum_{i \in c} d(x, i) - h_c

    Parameters
    ----------
    d : (m, L) array
        Distances from m items to the L labelled ones.
    codes : (L,) array of int
        Classes of the labelled items, 0 .. n_classes - 1.
    n_classes : int
    within : (n_classes,) array, optional
        :math:`h`, of :func:`half_means`; default 0, which leaves the mean distance to the class.
    item_weights : (L,) array, optional
        For a weighted mean over the class.

    Returns
    -------
    (m, n_classes) array
        The smaller, the nearer; infinite for a class without items.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.objectives.class_mean_scores([[1.0, 3.0, 7.0]], [0, 0, 1], 2, within=[0.5, 0.0])
    array([[1.5, 7. ]])
    """
    ve = _class_shares(codes, n_classes, item_weights)
    means = _checked_distances(d, len(ve)) @ ve
    means[:, ~ve.any(axis=0)] = np.inf
    return means if within is None else means - np.asarray(within, dtype=np.float64)


def half_means(
    d_labelled: ArrayLike,
    codes: ArrayLike,
    n_classes: int,
    *,
    item_weights: ArrayLike | None = None,
) -> Floats:
    r"""Return half of the mean distance within each class, the zeros from i to i included.

    .. math:: h_c = \frac{1}{2 |c|^2} \sum_{i, j \in c} d(i, j)

    Parameters
    ----------
    d_labelled : (L, L) array
        Distances of the labelled items.
    codes, n_classes, item_weights
        As in :func:`class_mean_scores`.

    Returns
    -------
    (n_classes,) array
        0 for a class without items.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.objectives.half_means([[0.0, 2.0, 9.0], [2.0, 0.0, 9.0], [9.0, 9.0, 0.0]], [0, 0, 1], 2)
    array([0.5, 0. ])
    """
    ve = _class_shares(codes, n_classes, item_weights)
    d = _checked_distances(d_labelled, len(ve))
    if len(d) != len(ve):
        raise InputError(
            argument="d", expected=f"{len(ve)} rows, one per labelled item", found=len(d)
        )
    halves: Floats = 0.5 * (ve * (d @ ve)).sum(axis=0)
    return halves


def held_out_scores(d_labelled: ArrayLike, codes: ArrayLike, n_classes: int) -> Floats:
    r"""Return how far labelled items are from the mean of each class, each without its own label.

    .. math:: s_y(x) = \frac{1}{|y| - 1} \sum_{i \in y} d(x, i)
              - \frac{1}{2 (|y| - 1)^2} \sum_{i, j \in y \setminus x} d(i, j)

    for x of class y; to the other classes as in :func:`class_mean_scores` with
    :func:`half_means`.

    Parameters
    ----------
    d_labelled : (L, L) array
        Distances of the labelled items.
    codes, n_classes
        As in :func:`class_mean_scores`.

    Returns
    -------
    (L, n_classes) array
        Infinite for a class without other items.

    Examples
    --------
    >>> import numpy as np
    >>> d = np.array([[0.0, 2.0, 4.0], [2.0, 0.0, 9.0], [4.0, 9.0, 0.0]])
    >>> held_out_scores(d, [0, 0, 1], 2)
    array([[ 2.,  4.],
           [ 2.,  9.],
           [ 6., inf]])
    """
    scores = class_mean_scores(
        d_labelled, codes, n_classes, half_means(d_labelled, codes, n_classes)
    )
    d, of = np.asarray(d_labelled, dtype=np.float64), np.asarray(codes)
    own: Floats = (of[:, None] == of).astype(np.float64)
    rest = own.sum(axis=1) - 1.0
    to_own, from_own = (d * own).sum(axis=1), (d.T * own).sum(axis=1)
    within = own @ to_own - to_own - from_own  # over the pairs of its class without the item
    with np.errstate(divide="ignore", invalid="ignore"):
        held_out = to_own / rest - 0.5 * within / rest**2
    scores[np.arange(len(of)), of] = np.where(rest > 0, held_out, np.inf)
    return scores


REACH = 0.75
"""How far the mean distance of all items to a class stands in for its unknown scatter."""
OFFSET_RIDGE, MANY_LABELS = 0.01, 20.0
"""Weight of the ridge on offsets with so many labels per class or more: small beside a log loss."""
LOG_SHARPNESS = (-2.0, 4.0)
"""Bounds of the logarithm of what scores are multiplied by to be those of probabilities."""
MORE_LABELS = 10
"""Labels that every class gets in addition when its share is told from its labels."""


def class_offsets(held_out: Floats, codes: Indices) -> Floats:
    r"""Return the offsets of the class scores that fit held-out labels best.

    .. math:: \min_b \; -\frac1C \sum_c \frac{1}{|c|} \sum_{x \in c} \log p_c(x)
              + \lambda \lVert b \rVert^2, \qquad p_c(x) \propto e^{b_c - s_c(x)}

    A class mean is as far from the items of a scattered class as the mean distance within it, less
    half of that; what is left of the scatter, offsets make up for. Every class counts the same,
    however many labels it has; those of a single label, which cannot be held out, take no part.
    With m labels per class on average, :math:`\lambda = 0.01 \max(1, 20 / m)`: the scatter of
    three items says little.

    Parameters
    ----------
    held_out : (L, C) array
        Scores of the labelled items, from :func:`held_out_scores`.
    codes : (L,) array
        Their classes.

    Returns
    -------
    (C,) array
        0 for a class with fewer than two labels.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.5], [1.0, 0.9], [2.0, 0.5], [2.0, 0.5]])
    >>> class_offsets(np.tile(scores, (10, 1)), np.tile([0, 0, 1, 1], 10)).round(2)
    array([ 0.43, -0.43])
    """
    from scipy.optimize import minimize

    held_out, codes = np.asarray(held_out), np.asarray(codes)
    C = held_out.shape[1]
    sizes = np.bincount(codes, minlength=C)
    known, many = sizes[codes] > 1, sizes != 1
    if not known.any():
        return np.zeros(C)
    scores, own = np.where(many, held_out[known], np.inf), codes[known]
    scores = scores - scores.min(axis=1, keepdims=True)
    share = 1.0 / (sizes[own] * (sizes > 1).sum())
    rows = np.arange(len(own))
    ridge = OFFSET_RIDGE * max(1.0, MANY_LABELS / float(sizes[sizes > 1].mean()))

    def loss(b: Floats) -> tuple[float, Floats]:
        z = b - scores
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        value = -(share * (z[rows, own] - np.log(total[:, 0]))).sum()
        slope = share @ p - np.bincount(own, share, minlength=C)
        return float(value + ridge * (b @ b)), np.asarray(slope + 2.0 * ridge * b)

    found = np.asarray(minimize(loss, np.zeros(C), jac=True, method="L-BFGS-B").x)
    return np.where(sizes > 1, found, 0.0)


def label_shares(held_out: Floats, codes: Indices) -> Floats:
    r"""Return what the scores of each class are lowered by for its share of the labels.

    .. math:: \frac1t \log \pi_c, \qquad \pi_c = \frac{|c| + 10}{L + 10\, C}, \qquad
              t = \arg\min_t \; -\sum_x \log p_{y(x)}(x), \quad
              p_c(x) \propto \pi_c\, e^{-t\, s_c(x)}

    A class with more labels is likely to have more of the other items, too. Ten labels more for
    every class keep few labels from saying much about that. Scores of a few labels are mostly too
    close to each other to be taken for logarithms of probabilities; t, which is between
    :math:`e^{-2}` and :math:`e^4`, says how far apart they should be, so that shares decide where
    the scores do not.

    Parameters
    ----------
    held_out : (L, C) array
        Scores of the labelled items, from :func:`held_out_scores`, less their offsets.
    codes : (L,) array
        Their classes.

    Returns
    -------
    (C,) array
        Less its mean: 0 where all classes have the same number of labels.

    Examples
    --------
    >>> codes = np.repeat([0, 1], [20, 5])
    >>> scores = np.where(codes[:, None] == [0, 1], 1.0, 1.1)  # every label is told by them
    >>> log_shares = label_shares(scores, codes)
    >>> bool(0.0 < log_shares[0] - log_shares[1] < 0.1)
    True
    """
    from scipy.optimize import minimize_scalar

    held_out, codes = np.asarray(held_out), np.asarray(codes)
    sizes = np.bincount(codes, minlength=held_out.shape[1])
    log_shares = np.log(sizes + MORE_LABELS)
    log_shares -= log_shares.mean()
    if (sizes[sizes > 0] == sizes.max()).all():
        return np.zeros(len(sizes))
    known = sizes[codes] > 1
    scores, own = held_out[known], codes[known]
    scores = scores - scores.min(axis=1, keepdims=True)
    rows = np.arange(len(own))

    def loss(log_t: float) -> float:
        z = log_shares - np.exp(log_t) * scores
        z -= z.max(axis=1, keepdims=True)
        return float((np.log(np.exp(z).sum(axis=1)) - z[rows, own]).mean())

    found = minimize_scalar(loss, bounds=LOG_SHARPNESS, method="bounded")
    return np.asarray(log_shares * np.exp(-float(found.x)))


def with_single_labels(halves: Floats, codes: Indices, reach: Floats) -> Floats:
    r"""Return :math:`h_c` for classes whose scatter is unknown, since some have a single label.

    .. math:: h_c = \bar h + \tfrac34 (r_c - \bar r), \qquad
              r_c = \mathrm{mean}_{i \in c}\, \mathrm{mean}_u\, d(u, i)

    u runs over all items, and bars are means over the classes of several labels, or of all classes
    if there is none. An item that is far from everything, as at the end of a long branch of a tree,
    is far from its own class as well.

    The scatter of a class with a single label is unknown, not 0: with 0 it would lose items to all
    classes whose scatter is known. And if only that class had the mean of the others, a held-out
    item would be recognised by its class having one label less. So all classes are treated alike.
    Without a class of a single label, `halves` are returned as they are.

    Parameters
    ----------
    halves : (C,) array
    codes : (L,) array
        Classes of the labelled items.
    reach : (L,) array
        Mean distance of all items to each labelled one.

    Examples
    --------
    >>> halves, codes = np.array([0.5, 0.0, 1.5]), np.array([0, 0, 1, 2, 2])
    >>> with_single_labels(halves, codes, np.array([2.0, 2.0, 4.0, 2.0, 2.0]))
    array([1. , 2.5, 1. ])
    """
    sizes = np.bincount(codes, minlength=len(halves))
    if not (sizes == 1).any():
        return halves
    several = sizes > 1 if (sizes > 1).any() else sizes == 1
    means = np.bincount(codes, reach, minlength=len(halves)) * _one_by(sizes.astype(np.float64))
    shared: Floats = halves[several].mean() + REACH * (means - means[several].mean())
    return np.where(sizes > 0, shared, halves)


def _class_shares(codes: ArrayLike, n_classes: int, item_weights: ArrayLike | None) -> Floats:
    """Return the (L, C) share of each item in its class."""
    coded = np.asarray(codes)
    if (
        coded.ndim != 1
        or coded.dtype.kind not in "iu"
        or not ((coded >= 0) & (coded < n_classes)).all()
    ):
        raise InputError(
            argument="codes",
            expected=f"whole numbers in 0 .. {n_classes - 1}, one per labelled item",
        )
    weights = np.ones(len(coded))
    if item_weights is not None:
        weights = as_float_array(item_weights, name="item_weights").astype(np.float64)
        if weights.shape != coded.shape:
            raise InputError(
                argument="item_weights",
                expected=f"{len(coded)} numbers, one per labelled item",
                found=f"shape {weights.shape}",
            )
    ve = weights[:, None] * (coded[:, None] == np.arange(n_classes))
    return np.asarray(ve * _one_by(ve.sum(axis=0)))


def _checked_distances(d: ArrayLike, count: int) -> Floats:
    array = as_float_array(d, name="d")
    if array.ndim != 2 or array.shape[1] != count:
        raise InputError(
            argument="d",
            expected=f"distances to {count} labelled items in each row",
            found=f"shape {array.shape}",
        )
    return array


def _own(of_class: Floats, values: Floats) -> Floats:
    """Return, of values per item and class, that of each item's own class; 0 without a class."""
    return np.asarray((of_class * values).sum(axis=2))


def _one_by(x: Floats) -> Floats:
    """Return 1 / x, and 0 for 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


# -- stratified blocks of labelled items ---------------------------------------------------------


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
