"""Must-link and cannot-link constraints on pairs of items."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices
from metricmix.validation import check_indices, check_number

__all__ = ["PairConstraints"]


class PairConstraints(Objective):
    r"""Logistic loss on pairs that belong together (must-link, M) or apart (cannot-link, C).

    .. math:: f = \frac{1}{2|M|} \sum_{(i, j) \in M} \log\big(1 + e^{d_{ij} - \tau}\big)
              + \frac{1}{2|C|} \sum_{(i, j) \in C} \log\big(1 + e^{\tau - d_{ij}}\big)
              + \rho \lVert\alpha\rVert^2

    so d is pushed below the threshold :math:`\tau` for the ones and above it for the others, and
    :math:`1 / (1 + e^{d_{ij} - \tau})` may be read as the probability that i and j belong together.
    Either kind counts one half, however many pairs it has; cannot-links alone count fully.

    Parameters
    ----------
    must_link, cannot_link : (P, 2) array of int
        Pairs (i, j) of items. In a directed metric the distance from i to j counts; list both
        orders if both should. A pair that is listed twice counts twice. There may be no must-link,
        but not no cannot-link: must-links alone shrink all distances to nothing.
    rho : float
        Weight of the ridge. It bounds the weights where some mixture separates the two kinds.
    threshold : float
        Where "together" ends; it sets the scale of the metric, and so how sharply the links are
        separated. From 5 to 20 does well with sources of mean 1.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> objective = mm.objectives.PairConstraints([[0, 1]], [[0, 2], [1, 2]], threshold=2.0)
    >>> objective.probabilities(np.arange(3), 3)
    array([0.5 , 0.25, 0.25])
    >>> value, slope = objective.evaluate(np.arange(3), np.array([[1.0], [3.0], [2.0]]), 3)
    >>> value.round(3)
    array([0.313, 0.313, 0.693])
    """

    convex = True

    def __init__(
        self,
        must_link: ArrayLike,
        cannot_link: ArrayLike,
        rho: float = 1e-4,
        *,
        threshold: float = 10.0,
    ) -> None:
        super().__init__(rho)
        self.must_link = _checked_links(must_link, "must_link")
        self.cannot_link = _checked_links(cannot_link, "cannot_link")
        self.threshold = check_number(threshold, name="threshold", low=0, open_low=True)
        if len(self.cannot_link) == 0:
            raise InputError(
                argument="cannot_link",
                expected="at least one pair",
                found="none",
                remedy="must-links alone shrink all distances to zero",
            )
        together = {(min(i, j), max(i, j)) for i, j in self.must_link.tolist()}
        for i, j in self.cannot_link.tolist():
            if (min(i, j), max(i, j)) in together:
                raise InputError(
                    f"must_link, cannot_link: expected different pairs, found ({i}, {j}) in both "
                    "(in either order)"
                )
        self._links = np.concatenate([self.must_link, self.cannot_link])
        must, cannot = len(self.must_link), len(self.cannot_link)
        self._share = 0.5 if must else 0.0
        each = [self._share / max(must, 1), (1.0 - self._share) / cannot]
        self._probabilities: Floats = np.repeat(each, [must, cannot])

    def check(self, n: int) -> None:
        """Raise InputError unless all items exist."""
        check_indices(self.must_link.ravel(), n, name="must_link")
        check_indices(self.cannot_link.ravel(), n, name="cannot_link")

    def n_terms(self, n: int) -> int:
        """Return the number of pairs; the must-links come first."""
        return len(self._links)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return the pairs as they were given."""
        chosen = self._links[terms]
        return chosen[:, :1], chosen[:, 1:]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the logistic loss, and the probability of the wrong answer with its sign."""
        sign = np.where(terms < len(self.must_link), 1.0, -1.0)
        excess = sign * (d[:, 0] - self.threshold)
        wrong = np.exp(-np.logaddexp(0.0, -excess))  # 1 / (1 + exp(-excess)), without overflow
        return np.logaddexp(0.0, excess), (sign * wrong)[:, None]

    def curvature(self, terms: Indices, d: Floats, along: Floats, p: Floats, n: int) -> Floats:
        """Return the second derivatives of a sum of terms along directions."""
        wrong = np.abs(self.evaluate(terms, d, n)[1][:, 0])
        moves = along[..., 0]
        return np.asarray((moves * (p * wrong * (1.0 - wrong))) @ moves.T)

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw half of the terms from the must-links, on average, and half from the others."""
        must, cannot = len(self.must_link), len(self.cannot_link)
        together = int(rng.binomial(size, self._share))
        drawn = [
            rng.integers(max(must, 1), size=together),
            must + rng.integers(cannot, size=size - together),
        ]
        return np.concatenate(drawn)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return equal probabilities within either kind, which count one half each."""
        return self._probabilities[terms]


def _checked_links(links: ArrayLike, name: str) -> Indices:
    try:
        rows = np.asarray(links)
    except ValueError:
        raise InputError(argument=name, expected="rows of two items", found="ragged ones") from None
    if rows.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise InputError(
            argument=name,
            expected="an integer array (P, 2) of pairs of items",
            found=f"shape {rows.shape} and dtype {rows.dtype}",
        )
    alone = np.flatnonzero(rows[:, 0] == rows[:, 1])
    if len(alone):
        i = rows[alone[0], 0]
        raise InputError(
            argument=name, expected=f"pairs of different items, found ({i}, {i}) at row {alone[0]}"
        )
    return rows.astype(np.int64)
