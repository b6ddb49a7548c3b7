"""Losses over distances: the values of :mod:`metricmix.objectives`, as functions of tensors.

Each takes distances, from whatever module, and returns a number to minimise, without the ridge. All
run on pairs or blocks of items; none needs the distances of all n items.
"""

from __future__ import annotations

from typing import Any

import torch

from metricmix.exceptions import InputError
from metricmix.validation import check_number

__all__ = [
    "class_means_loss",
    "class_means_scores",
    "contrast_loss",
    "least_squares_loss",
    "neighbourhood_loss",
    "triplet_loss",
]


def class_means_loss(d: torch.Tensor, y: Any) -> torch.Tensor:
    r"""Leave-one-out cross-entropy of the class whose mean is nearest.

    .. math:: f = \frac{1}{|K|} \sum_{x \in K} \Big( s_{y \setminus x}(x)
              + \log \sum_c e^{-s_c(x)} \Big)

    with the scores of :class:`metricmix.objectives.ClassMeans`.

    Parameters
    ----------
    d : (L, L) tensor
        Distances between items.
    y : L class numbers
        -1 marks items without a label, which do not count.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> y = torch.tensor([0, 0, 1, 1])
    >>> d = torch.where(y[:, None] == y, 1.0, 5.0).fill_diagonal_(0.0)
    >>> mm.torch.class_means_loss(d, y).round(decimals=3)
    tensor(0.0230)
    """
    d, codes = labelled(d, y)
    of_class = torch.nn.functional.one_hot(codes).to(d.dtype)
    sizes = of_class.sum(dim=0)
    own = sizes[codes]
    counts = own > 1
    if not bool(counts.any()):
        raise InputError(
            argument="y",
            expected="at least two items of one class, found every class with a single item",
        )
    scores, to_class, within = scores_of(d, of_class, sizes)
    to_own = to_class.gather(1, codes[:, None])[:, 0]
    from_own = (d.T @ of_class).gather(1, codes[:, None])[:, 0]
    rest = (own - 1).clamp(min=1.0)
    own_score = to_own / rest - 0.5 * (within[codes] - to_own - from_own) / rest**2
    scores = torch.where(of_class > 0, own_score[:, None], scores)
    losses = own_score + torch.logsumexp(-scores, dim=1)
    return losses[counts].mean()


def class_means_scores(d: torch.Tensor, y: Any, queries: torch.Tensor) -> torch.Tensor:
    """Return how far items are from the mean of each class: (M, C), the smaller, the nearer.

    Parameters
    ----------
    d : (L, L) tensor
        Distances between labelled items.
    y : L class numbers
    queries : (M, L) tensor
        Distances from M other items to these.
    """
    d, codes = labelled(d, y)
    of_class = torch.nn.functional.one_hot(codes).to(d.dtype)
    sizes = of_class.sum(dim=0)
    _, _, within = scores_of(d, of_class, sizes)
    return (queries @ of_class) / sizes - 0.5 * within / sizes**2


def scores_of(
    d: torch.Tensor, of_class: torch.Tensor, sizes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the scores of all items, and the sums of distances to each class and within it."""
    to_class = d @ of_class
    within = (of_class * to_class).sum(dim=0)
    return to_class / sizes - 0.5 * within / sizes**2, to_class, within


def neighbourhood_loss(d: torch.Tensor, y: Any) -> torch.Tensor:
    r"""Minus the log-likelihood of drawing a neighbour of one's own class.

    .. math:: f = -\frac{1}{|K|} \sum_{i \in K} \log \sum_{j \ne i,\, y_j = y_i} p_{ij}, \qquad
              p_{ij} = \frac{e^{-d_{ij}}}{\sum_{k \ne i} e^{-d_{ik}}}

    as in :class:`metricmix.objectives.Neighbourhood`. Parameters as in :func:`class_means_loss`.
    """
    d, codes = labelled(d, y)
    same = codes[:, None] == codes
    itself = torch.eye(len(d), dtype=torch.bool, device=d.device)
    seekers = (same & ~itself).any(dim=1)
    if not bool(seekers.any()):
        raise InputError(
            argument="y",
            expected="at least two items of one class, found every class with a single item",
        )
    near = torch.where(itself, -torch.inf, -d)[seekers]
    own = torch.where(same[seekers], near, -torch.inf)
    return (torch.logsumexp(near, dim=1) - torch.logsumexp(own, dim=1)).mean()


def contrast_loss(d: torch.Tensor, y: Any, *, balanced: bool = False) -> torch.Tensor:
    r"""Distances within classes minus distances between classes.

    .. math:: f = \frac{1}{L^2} \sum_{i, j} (-1)^{[y_i \ne y_j]} d_{ij}

    as in :class:`metricmix.objectives.LabelContrast`; balanced, pairs of one class (i ≠ j) and
    pairs of two count one half each. Parameters as in :func:`class_means_loss`.
    """
    d, codes = labelled(d, y)
    same = codes[:, None] == codes
    if not balanced:
        return torch.where(same, d, -d).mean()
    within = same & ~torch.eye(len(d), dtype=torch.bool, device=d.device)
    if not bool(within.any()):
        raise InputError(
            argument="y",
            expected="at least two items of one class for balanced pairs, found every class with a "
            "single item",
        )
    return (d[within].mean() - d[~same].mean()) / 2


def triplet_loss(near: torch.Tensor, far: torch.Tensor, margin: float = 1.0) -> torch.Tensor:
    r"""Hinge loss on comparisons: :math:`\mathrm{mean} \max(0, \tau + d_{ap} - d_{aq})`.

    As in :class:`metricmix.objectives.Triplets`.

    Parameters
    ----------
    near, far : tensors of one shape
        Distances that should be the smaller ones, and those that should be the larger ones.
    margin : float
    """
    if near.shape != far.shape or not near.numel():
        raise InputError(
            argument="far", expected=f"shape {tuple(near.shape)}", found=f"{tuple(far.shape)}"
        )
    return (check_number(margin, name="margin", low=0) + near - far).clamp(min=0.0).mean()


def least_squares_loss(d: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared difference from target distances; NaN leaves a pair out.

    As in :class:`metricmix.objectives.LeastSquares`, for distances of any shape.
    """
    if d.shape != target.shape:
        raise InputError(
            argument="target", expected=f"shape {tuple(d.shape)}", found=f"{tuple(target.shape)}"
        )
    known = ~torch.isnan(target)
    if not bool(known.any()):
        raise InputError(argument="target", expected="some known distances, found only NaN")
    return (d[known] - target[known]).pow(2).mean()


def labelled(d: torch.Tensor, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distances of the labelled items, and their classes as numbers from 0 on."""
    codes = torch.as_tensor(y, device=d.device)
    if d.ndim != 2 or d.shape != (len(codes), len(codes)) or codes.is_floating_point():
        raise InputError(
            argument="y",
            expected="a class number per item of the distances (L, L)",
            found=f"shape {tuple(codes.shape)} for distances {tuple(d.shape)}",
        )
    known = codes >= 0
    if not bool(known.all()):
        d, codes = d[known][:, known], codes[known]
    found, codes = torch.unique(codes, return_inverse=True)
    if len(found) < 2:
        raise InputError(argument="y", expected=f"at least two classes, found {len(found)}")
    return d, codes
