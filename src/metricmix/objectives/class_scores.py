"""How far items are from class means in the metric: the scores that rules predict with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array

__all__ = [
    "class_mean_scores",
    "class_offsets",
    "half_means",
    "held_out_scores",
    "inverse_or_zero",
    "label_shares",
    "with_single_labels",
]


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
    ridge = 0.01 * max(1.0, 20.0 / float(sizes[sizes > 1].mean()))

    counted = np.bincount(own, share, minlength=C)

    def loss(b: Floats) -> tuple[float, Floats]:
        z = b - scores
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        total = p.sum(axis=1, keepdims=True)
        value = -(share * (z[rows, own] - np.log(total[:, 0]))).sum()
        return float(value + ridge * (b @ b)), p / total

    b = np.zeros(C)
    value, p = loss(b)
    for _ in range(100):  # Newton steps, some five
        weighted = share[:, None] * p
        slope = weighted.sum(axis=0) - counted + 2.0 * ridge * b
        hessian = np.diag(weighted.sum(axis=0) + 2.0 * ridge) - p.T @ weighted
        move = -np.linalg.solve(hessian, slope)
        gain = -float(slope @ move)
        if gain <= 1e-14:
            break
        t = 1.0
        while (found := loss(b + t * move))[0] > value - 1e-4 * t * gain and t > 1e-9:
            t *= 0.5
        b, (value, p) = b + t * move, found
    return np.where(sizes > 1, b, 0.0)


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
    log_shares = np.log(sizes + 10)
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

    found = minimize_scalar(loss, bounds=(-2.0, 4.0), method="bounded")
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
    means = np.bincount(codes, reach, minlength=len(halves)) * inverse_or_zero(
        sizes.astype(np.float64)
    )
    shared: Floats = halves[several].mean() + 0.75 * (means - means[several].mean())
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
    return np.asarray(ve * inverse_or_zero(ve.sum(axis=0)))


def _checked_distances(d: ArrayLike, count: int) -> Floats:
    array = as_float_array(d, name="d")
    if array.ndim != 2 or array.shape[1] != count:
        raise InputError(
            argument="d",
            expected=f"distances to {count} labelled items in each row",
            found=f"shape {array.shape}",
        )
    return array


def inverse_or_zero(x: Floats) -> Floats:
    """Return 1 / x, and 0 for 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)
