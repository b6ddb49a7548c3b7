"""The paper's linear objective: equal labels near, different labels far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import OBJECTIVES, LabelObjective
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = ["LabelContrast"]


@OBJECTIVES.register(
    "label-contrast",
    order=2,
    words="distances within classes minus distances between classes, balanced",
    numeric=False,
)
class LabelContrast(LabelObjective):
    r"""Distances within classes minus distances between classes.

    .. math:: f = \frac{1}{L^2} \sum_{i, j} (-1)^{[y_i \ne y_j]} d_{ij} + \rho \lVert\alpha\rVert^2

    over ordered pairs of the L labelled items. Unlabelled items (-1) take part in paths only.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them; NaN, None and
        pandas' NA mark them too.
    rho : float
        Weight of the ridge. It must be positive: without it the objective falls without bound as
        the weights grow.
    balanced : bool
        Most pairs differ in class, so the plain mean pushes every weight up alike and ends near
        uniform weights. Balanced, pairs of one class (i ≠ j) and pairs of two classes count one
        half each; stochastic solvers then draw both equally often.
    item_weights : array of n numbers >= 0, optional
        The pair (i, j) counts in proportion to :math:`v_i v_j`, balanced: within its kind. Weight 0
        is the same as no label.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.objectives.LabelContrast([0, 0, 1, -1], rho=0.01).n_terms(4)
    9
    """

    convex = True

    def __init__(
        self,
        y: ArrayLike,
        rho: float = 0.01,
        *,
        balanced: bool = False,
        item_weights: ArrayLike | None = None,
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
        if self.rho == 0:
            raise InputError(
                argument="rho",
                expected="a positive ridge",
                found="0",
                remedy="this objective is linear in the distances and unbounded without it",
            )
        self.balanced = bool(balanced)
        self._sizes = np.bincount(self.codes)
        same = int((self._sizes * (self._sizes - 1)).sum())
        different = len(self.codes) ** 2 - int((self._sizes**2).sum())
        if balanced and same == 0:
            raise InputError(
                argument="y",
                expected=(
                    "at least two items of one class for balanced pairs, found every "
                    "class with a single item"
                ),
            )
        self._same, self._different = same, different
        self._members = np.argsort(self.codes, kind="stable")  # labelled items, class by class
        self._starts = np.cumsum(self._sizes) - self._sizes
        # How much each member weighs together with its partners: within its class, and outside.
        v = self._weights[self._members]
        of_class = np.bincount(self.codes, self._weights)[self.codes[self._members]]
        self._within: Floats = v * (of_class - v)
        self._between: Floats = v * np.maximum(v.sum() - of_class, 0.0)

    @classmethod
    def default_rho(cls, known: Known) -> float:
        """Return 0.1: a linear objective needs a larger ridge."""
        return 1e-1

    @classmethod
    def settings_for(cls, known: Known, stochastic: bool) -> dict[str, Any]:
        """Return that pairs are balanced."""
        return {"balanced": True}

    def n_terms(self, n: int) -> int:
        """Return L², all ordered pairs of labelled items; L (L - 1), without i = j, if balanced."""
        count = len(self.labelled)
        return count * (count - 1 if self.balanced else count)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return the pairs in the order of their rows."""
        i, j = self._positions(terms)
        return self.labelled[i][:, None], self.labelled[j][:, None]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return ±d and ±1."""
        sign = self._sign(terms)
        return sign * d[:, 0], sign[:, None]

    def quadratic(self, terms: Indices, n: int) -> tuple[Floats, Floats, Floats]:
        """Return ±d, which is linear."""
        nothing = np.zeros(len(terms))
        return nothing, self._sign(terms), nothing

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw pairs by their weights, half of them within a class when balanced."""
        if not self.balanced:
            if self._alike:
                return super().sample(rng, size, n)
            count = len(self.labelled)
            i, j = rng.choice(count, (2, size), p=self._weights / self._weights.sum())
            return np.asarray(i * count + j)
        within = int(rng.binomial(size, 0.5))
        drawn = [self.sample_within(rng, within), self.sample_between(rng, size - within)]
        return np.concatenate(drawn)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return them in proportion to the weights, one half for either kind when balanced."""
        if self._alike:
            if not self.balanced:
                return super().probabilities(terms, n)
            return np.where(self._sign(terms) > 0, 0.5 / self._same, 0.5 / self._different)
        i, j = self._positions(terms)
        weight: Floats = self._weights[i] * self._weights[j]
        if not self.balanced:
            return weight / float(self._weights.sum()) ** 2
        same, different = float(self._within.sum()), float(self._between.sum())
        return weight * np.where(self._sign(terms) > 0, 0.5 / same, 0.5 / different)

    def _positions(self, terms: Indices) -> tuple[Indices, Indices]:
        """Return the pairs as positions among the labelled items."""
        count = len(self.labelled)
        if not self.balanced:
            return np.divmod(terms, count)
        i, j = np.divmod(terms, count - 1)
        return i, j + (j >= i)  # step over i itself

    def _term(self, i: Indices, j: Indices) -> Indices:
        """Return the numbers of pairs, i ≠ j, when balanced."""
        return np.asarray(i * (len(self.labelled) - 1) + j - (j > i))

    def _sign(self, terms: Indices) -> Floats:
        i, j = self._positions(terms)
        return np.where(self.codes[i] == self.codes[j], 1.0, -1.0)

    def sample_within(self, rng: np.random.Generator, size: int) -> Indices:
        """Draw ordered pairs of one class, i ≠ j."""
        sizes, members, starts = self._sizes, self._members, self._starts
        if not self._alike:
            a = rng.choice(len(members), size, p=self._within / self._within.sum())
            c = self.codes[members[a]]
            b = self._draw_beside(rng, starts[c], starts[c] + sizes[c], a, a + 1)
            return self._term(members[a], members[b])
        ends = np.cumsum(sizes * (sizes - 1))
        drawn = rng.integers(self._same, size=size)
        c = np.searchsorted(ends, drawn, side="right")
        a, b = np.divmod(drawn - (ends[c] - sizes[c] * (sizes[c] - 1)), sizes[c] - 1)
        b = b + (b >= a)  # step over i itself
        return self._term(members[starts[c] + a], members[starts[c] + b])

    def sample_between(self, rng: np.random.Generator, size: int) -> Indices:
        """Draw ordered pairs of two classes."""
        sizes, members, starts = self._sizes, self._members, self._starts
        if not self._alike:
            a = rng.choice(len(members), size, p=self._between / self._between.sum())
            c = self.codes[members[a]]
            everyone = np.zeros_like(a), np.full_like(a, len(members))
            b = self._draw_beside(rng, *everyone, starts[c], starts[c] + sizes[c])
            return self._term(members[a], members[b])
        others = len(members) - sizes
        ends = np.cumsum(sizes * others)
        drawn = rng.integers(self._different, size=size)
        c = np.searchsorted(ends, drawn, side="right")
        a, b = np.divmod(drawn - (ends[c] - sizes[c] * others[c]), others[c])
        b = b + np.where(b >= starts[c], sizes[c], 0)  # step over the class of i
        return self._term(members[starts[c] + a], members[b])

    def _draw_beside(
        self, rng: np.random.Generator, low: Indices, high: Indices, gap: Indices, resume: Indices
    ) -> Indices:
        """Draw from ``low .. high - 1`` but not ``gap .. resume - 1``, in proportion to weights."""
        below = np.concatenate([[0.0], np.cumsum(self._weights[self._members])])
        before, after = below[gap] - below[low], below[high] - below[resume]
        at = rng.random(len(low)) * (before + after)
        # Rounding must not lead into the gap, nor to a side that is empty.
        first = ((at < before) | (resume == high)) & (gap > low)
        at = np.where(first, below[low] + at, below[resume] + at - before)
        drawn = np.searchsorted(below, at, side="right") - 1
        start, end = np.where(first, low, resume), np.where(first, gap, high)
        return np.asarray(np.clip(drawn, start, end - 1))
