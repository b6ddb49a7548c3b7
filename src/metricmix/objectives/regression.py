r"""Numeric targets: nearby items should have similar targets, distant ones different targets.

=============================  =====================================================================
:class:`KernelRegression`      a target is predicted from those of the nearby items; what counts is
                               how well, each item held out
:class:`TargetDifferences`     distances are proportional to differences of targets
=============================  =====================================================================

Both look at the items whose target is known; the others take part in paths only. Targets are
centred and divided by their standard deviation first, after far ones have been moved in
(:func:`standardised`), so that ``rho`` means the same whatever the unit, and one wrong target does
not decide alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.predictions import moved_in
from metricmix.exceptions import InputError
from metricmix.objectives.base import OBJECTIVES, KnownObjective
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array, check_integer

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = [
    "KernelRegression",
    "TargetDifferences",
    "TargetObjective",
    "standardised",
    "target_ridge",
]


def standardised(known: Floats, weights: Floats | None = None) -> Floats:
    """Return targets without far ones, of (weighted) mean 0 and variance 1; 0 if all are equal."""
    y = moved_in(known)
    y = y - np.average(y, weights=weights)
    size = np.abs(y).max(initial=0.0)
    if not size > 0:
        return y
    y = y / size  # squares of large numbers are infinite
    return np.asarray(y / np.sqrt(np.average(np.square(y), weights=weights)))


def target_ridge(n_known: int) -> float:
    r"""Return the default weight of the ridge, for the number of known targets.

    .. math:: \rho = 0.2 / L, \quad \text{at least } 10^{-4} \text{ and at most } 10^{-2}

    >>> [f"{target_ridge(m):.1e}" for m in (10, 100, 1000, 10000)]
    ['1.0e-02', '2.0e-03', '2.0e-04', '1.0e-04']
    """
    return float(np.clip(0.2 / max(1, n_known), 1e-4, 1e-2))


class TargetObjective(KnownObjective):
    """Base of the objectives over numeric targets.

    Parameters
    ----------
    y : array of n numbers
        NaN where the target is unknown.
    rho : float
        Weight of the ridge.
    item_weights : array of n numbers >= 0, optional
        How much each item counts, as in a Bayesian bootstrap; only their ratios matter. Weight 0 is
        the same as no target.

    Attributes
    ----------
    y : (n,) array
    labelled : (L,) array
        Items with a target and a weight.
    targets : (L,) array
        Theirs, standardised.
    item_weights : (n,) array or None
    most : int
        Targets that :meth:`learned_from` takes, drawn at random from more.
    """

    noun = "targets"
    most: ClassVar[int]

    def __init__(self, y: ArrayLike, rho: float, *, item_weights: ArrayLike | None = None) -> None:
        targets = as_float_array(y, name="y").astype(np.float64)
        if targets.ndim != 1 or np.isinf(targets).any():
            found = f"shape {targets.shape}" if targets.ndim != 1 else "infinite ones"
            raise InputError(argument="y", expected="finite targets, NaN if unknown", found=found)
        super().__init__(targets, ~np.isnan(targets), rho, item_weights)
        if len(self.labelled) < 2:
            raise InputError(
                argument="y", expected="at least two known targets", found=len(self.labelled)
            )
        self.targets = standardised(self.y[self.labelled], self._weights)

    @classmethod
    def default_rho(cls, known: Known) -> float:
        """Return that of :func:`target_ridge`."""
        return target_ridge(len(known.items))

    @classmethod
    def learned_from(cls, known: Known) -> Known:
        """Return known targets, :attr:`most` of them at most."""
        if len(known.items) <= cls.most:
            return known
        some = np.random.default_rng(0).choice(known.items, cls.most, replace=False)
        return known.only(some)


@OBJECTIVES.register(
    "kernel-regression",
    words="error of predicting each target from those of nearby items",
    default=True,
    numeric=True,
)
class KernelRegression(TargetObjective):
    r"""Mean squared error of predicting each target from those of the nearby items.

    .. math:: f = \frac{1}{L} \sum_i (\hat y_i - y_i)^2 + \rho \lVert\alpha\rVert^2, \qquad
              \hat y_i = \sum_{j \ne i} p_{ij}\, y_j, \quad
              p_{ij} = \frac{e^{-d_{ij}}}{\sum_{k \ne i} e^{-d_{ik}}}

    over the L items with known targets y, standardised: f is 1 less the held-out :math:`R^2` of
    kernel regression. This is metric learning for kernel regression [1]_ with the learned metric in
    place of a squared Euclidean distance. The size of the weights is the sharpness of the kernel.

    Parameters
    ----------
    y : array of n numbers
        NaN where the target is unknown.
    rho : float
        Weight of the ridge.
    block_size : int, optional
        Predict from items of the same block only: the items are dealt into blocks of about this
        size, such that each has small and large targets. O(L B) distances instead of O(L²).
    item_weights : array of n numbers >= 0, optional
        Item j then has the weight :math:`v_j e^{-d_{ij}}`, and means are weighted.

    Notes
    -----
    A term is an item with its distances to its block.

    References
    ----------
    .. [1] K. Q. Weinberger, G. Tesauro: Metric learning for kernel regression, AISTATS 2007.

    Examples
    --------
    The second item lies between two others, and its target too; the fourth has none:

    >>> import numpy as np, metricmix as mm
    >>> objective = mm.objectives.KernelRegression([1.0, 2.0, 3.0, np.nan])
    >>> value, slope = objective.evaluate(np.array([1]), np.array([[1.0, 0.0, 1.0]]), 4)
    >>> value.round(6) + 0.0
    array([0.])
    """

    most = 4000

    def __init__(
        self,
        y: ArrayLike,
        rho: float = 1e-3,
        *,
        block_size: int | None = None,
        item_weights: ArrayLike | None = None,
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
        if block_size is not None:
            block_size = check_integer(block_size, name="block_size", low=2)
        self.block_size = block_size
        L = len(self.labelled)
        n_blocks = max(1, round(L / (block_size or L)))
        order = np.random.default_rng(0).permutation(L)
        order = order[np.argsort(self.targets[order], kind="stable")]
        block = np.empty(L, dtype=np.int64)
        block[order] = np.arange(L) % n_blocks
        size = -(-L // n_blocks)
        members = np.full((n_blocks, size), -1)
        for b in range(n_blocks):
            own = np.flatnonzero(block == b)
            members[b, : len(own)] = own
        self._block, self._members = block, members
        self._shares: Floats = self._weights / self._weights.sum()

    @classmethod
    def settings_for(cls, known: Known, stochastic: bool) -> dict[str, Any]:
        """Return blocks of 500 items for more than 1000 targets."""
        return {"block_size": 500 if len(known.items) > 1000 else None}

    def n_terms(self, n: int) -> int:
        """Return L, the number of known targets."""
        return len(self.labelled)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return all items of its block for each item, itself included; (i, i) fills up."""
        members = self._members[self._block[terms]]
        members = np.where(members < 0, terms[:, None], members)
        i = np.repeat(self.labelled[terms][:, None], members.shape[1], axis=1)
        return i, self.labelled[members]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the squared errors, and how much each distance changes them."""
        members = self._members[self._block[terms]]
        y, away = self.targets[members], np.log(self._weights)[members] - d
        away[(members < 0) | (members == terms[:, None])] = -np.inf
        p = np.exp(away - away.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        found = (p * y).sum(axis=1)
        error = found - self.targets[terms]
        return error**2, -2.0 * error[:, None] * p * (y - found[:, None])

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw items by their weights."""
        return rng.choice(len(self._shares), size, p=self._shares)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the weights of the items, as shares."""
        return self._shares[terms]


@OBJECTIVES.register(
    "target-differences",
    words="distances proportional to differences of targets",
    numeric=True,
)
class TargetDifferences(TargetObjective):
    r"""Mean squared difference between distances and scaled differences of targets.

    .. math:: f = \frac{\sum_{i \ne j} v_i v_j (d_{ij} - s\,|y_i - y_j|)^2}{\sum_{i \ne j} v_i v_j}
              + \rho \lVert\alpha\rVert^2

    over the ordered pairs of items with known targets. The scale s makes the mean of
    :math:`s\,|y_i - y_j|` equal to 4, about the mean distance that learning starts from. Another
    scale would give a multiple of the metric, since weights are free, but for the link, whose
    distances stay above 0.

    Parameters
    ----------
    y : array of n numbers
        NaN where the target is unknown.
    rho : float
        Weight of the ridge.
    item_weights : array of n numbers >= 0, optional
        The weights v. Default: all alike.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> objective = mm.objectives.TargetDifferences([1.0, 2.0, 4.0, np.nan])
    >>> objective.differences(np.array([1, 2])).round(3)
    array([2., 6.])
    """

    convex = True
    most = 1500

    def __init__(
        self, y: ArrayLike, rho: float = 1e-3, *, item_weights: ArrayLike | None = None
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
        y_sorted, v = np.sort(self.targets), self._weights
        if self.item_weights is None:
            L = len(y_sorted)
            total = 2.0 * float((y_sorted * (2 * np.arange(L) - L + 1)).sum())
            self._total: float = L * (L - 1.0)
        else:
            order = np.argsort(self.targets, kind="stable")
            before = np.cumsum(v[order]) - v[order]
            after = v.sum() - before - v[order]
            total = 2.0 * float((self.targets[order] * v[order] * (before - after)).sum())
            self._total = float(v.sum() ** 2 - np.square(v).sum())
        mean = total / self._total
        self.scale = 4.0 / mean if mean > 0 else 1.0

    def differences(self, terms: Indices) -> Floats:
        """Return the target distances ``s |y_i - y_j|`` of pairs, numbered as in :meth:`pairs`."""
        i, j = np.divmod(terms, len(self.labelled))
        return np.asarray(self.scale * np.abs(self.targets[i] - self.targets[j]))

    def n_terms(self, n: int) -> int:
        """Return L², the number of ordered pairs; those of an item with itself count 0."""
        return len(self.labelled) ** 2

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return term t as the pair (t div L, t mod L) of the items with known targets."""
        i, j = np.divmod(terms, len(self.labelled))
        return self.labelled[i][:, None], self.labelled[j][:, None]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the squared differences and their derivatives."""
        residual = d[:, 0] - self.differences(terms)
        return residual**2, 2.0 * residual[:, None]

    def quadratic(self, terms: Indices, n: int) -> tuple[Floats, Floats, Floats]:
        """Return (d - t)² as d² - 2 t d + t²."""
        t = self.differences(terms)
        return np.ones(len(terms)), -2.0 * t, t**2

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw pairs of different items by their weights."""
        L, share = len(self.labelled), self._weights / self._weights.sum()
        i = np.empty(0, dtype=np.int64)
        j = i
        while len(i) < size:
            a, b = rng.choice(L, (2, 2 * size + 8), p=share)
            i, j = np.append(i, a[a != b]), np.append(j, b[a != b])
        return i[:size] * L + j[:size]

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return v_i v_j as a share of its sum over different items."""
        i, j = np.divmod(terms, len(self.labelled))
        v = self._weights
        return np.asarray(np.where(i == j, 0.0, v[i] * v[j] / self._total))
