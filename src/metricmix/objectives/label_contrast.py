"""The paper's linear objective: equal labels near, different labels far."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import Floats, Indices, Objective
from metricmix.validation import check_labels

__all__ = ["LabelContrast"]


class LabelContrast(Objective):
    r"""Distances within classes minus distances between classes.

    .. math:: f = \frac{1}{L^2} \sum_{i, j} (-1)^{[y_i \ne y_j]} d_{ij} + \rho \lVert\alpha\rVert^2

    over ordered pairs of the L labelled items. Unlabelled items (-1) take part in paths only.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them.
    rho : float
        Weight of the ridge. It must be positive: without it the objective falls without bound as
        the weights grow.
    balanced : bool
        Most pairs differ in class, so the plain mean pushes every weight up alike and ends near
        uniform weights. Balanced, pairs of one class (i ≠ j) and pairs of two classes count one
        half each; stochastic solvers then draw both equally often.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.objectives.LabelContrast([0, 0, 1, -1], rho=0.01).n_terms(4)
    9
    """

    def __init__(self, y: ArrayLike, rho: float = 0.01, *, balanced: bool = False) -> None:
        super().__init__(rho)
        if self.rho == 0:
            raise InputError(
                "rho: expected a positive ridge, got 0; "
                "this objective is linear in the distances and unbounded without it"
            )
        self.y = check_labels(y)
        self.labelled = np.flatnonzero(self.y >= 0)
        self.balanced = bool(balanced)
        codes = self.y[self.labelled]
        self._sizes = np.bincount(codes)
        same = int((self._sizes * (self._sizes - 1)).sum())
        different = len(codes) ** 2 - int((self._sizes**2).sum())
        if balanced and same == 0:
            raise InputError(
                "y: expected two items of one class at least for balanced pairs, "
                "found every class with a single item"
            )
        self._same, self._different = same, different
        self._members = np.argsort(codes, kind="stable")  # labelled items, class by class
        self._starts = np.cumsum(self._sizes) - self._sizes

    def check(self, n: int) -> None:
        """Raise InputError unless there is a label for each of the n items."""
        if len(self.y) != n:
            raise InputError(f"y: expected {n} labels, one per item, got {len(self.y)}")

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

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw pairs uniformly, or half of them within a class when balanced."""
        if not self.balanced:
            return super().sample(rng, size, n)
        within = int(rng.binomial(size, 0.5))
        drawn = [self._draw_within(rng, within), self._draw_between(rng, size - within)]
        return np.concatenate(drawn)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return equal probabilities, or one half for either kind of pair when balanced."""
        if not self.balanced:
            return super().probabilities(terms, n)
        return np.where(self._sign(terms) > 0, 0.5 / self._same, 0.5 / self._different)

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
        codes = self.y[self.labelled]
        return np.where(codes[i] == codes[j], 1.0, -1.0)

    def _draw_within(self, rng: np.random.Generator, size: int) -> Indices:
        """Draw ordered pairs of one class, i ≠ j, uniformly."""
        sizes, members, starts = self._sizes, self._members, self._starts
        ends = np.cumsum(sizes * (sizes - 1))
        drawn = rng.integers(self._same, size=size)
        c = np.searchsorted(ends, drawn, side="right")
        a, b = np.divmod(drawn - (ends[c] - sizes[c] * (sizes[c] - 1)), sizes[c] - 1)
        b = b + (b >= a)  # step over i itself
        return self._term(members[starts[c] + a], members[starts[c] + b])

    def _draw_between(self, rng: np.random.Generator, size: int) -> Indices:
        """Draw ordered pairs of two classes uniformly."""
        sizes, members, starts = self._sizes, self._members, self._starts
        others = len(members) - sizes
        ends = np.cumsum(sizes * others)
        drawn = rng.integers(self._different, size=size)
        c = np.searchsorted(ends, drawn, side="right")
        a, b = np.divmod(drawn - (ends[c] - sizes[c] * others[c]), others[c])
        b = b + np.where(b >= starts[c], sizes[c], 0)  # step over the class of i
        return self._term(members[starts[c] + a], members[b])
