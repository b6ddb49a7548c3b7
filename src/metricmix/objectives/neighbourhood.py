"""Stochastic neighbours: a labelled item should find one of its own class nearby."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import OBJECTIVES, LabelObjective
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = ["Neighbourhood"]


@OBJECTIVES.register(
    "neighbourhood",
    order=1,
    words="log-likelihood of drawing a neighbour of the same class",
    numeric=False,
)
class Neighbourhood(LabelObjective):
    r"""Log-likelihood of drawing a neighbour of one's own class.

    .. math:: f = -\frac{1}{|K|} \sum_{i \in K} \log \sum_{j \ne i,\, y_j = y_i} p_{ij}
              + \rho \lVert\alpha\rVert^2, \qquad
              p_{ij} = \frac{e^{-d_{ij}}}{\sum_{k \ne i} e^{-d_{ik}}}

    where j and k are labelled items, and K those of them whose class has another one. The distance
    runs from i to its neighbour; unlabelled items take part in paths only.

    These are the neighbours of neighbourhood components analysis [1]_, drawn by the learned metric
    itself rather than by a squared Euclidean distance. That method maximises the expected number of
    items that draw their own class, :math:`\sum_i p_i`. Here it is the probability that all of them
    do, :math:`\sum_i \log p_i`, the other form of [1]_: its derivative does not vanish for items
    that lie far from their class, so a poor start is left behind, and its value compares with
    that of :class:`ClassMeans`.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them; NaN, None and
        pandas' NA mark them too.
    rho : float
        Weight of the ridge. It bounds the weights where some mixture separates the classes.
    item_weights : array of n numbers >= 0, optional
        Item j is drawn with probability proportional to :math:`v_j e^{-d_{ij}}`, and the mean over
        K is weighted too. Weight 0 is the same as no label.

    Notes
    -----
    A term is an item of K with its L distances; all terms cost O(L²).

    References
    ----------
    .. [1] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov: Neighbourhood components analysis,
       NIPS 2004.

    Examples
    --------
    Of five items the last is unlabelled, the fourth alone in its class:

    >>> import numpy as np, metricmix as mm
    >>> objective = mm.objectives.Neighbourhood([0, 0, 0, 1, -1])
    >>> objective.n_terms(5)
    3
    >>> value, slope = objective.evaluate(np.array([0]), np.array([[0.0, 1.0, 1.0, 1.0]]), 5)
    >>> np.exp(-value).round(3)
    array([0.667])
    """

    def __init__(
        self, y: ArrayLike, rho: float = 1e-5, *, item_weights: ArrayLike | None = None
    ) -> None:
        super().__init__(y, rho, item_weights=item_weights)
        self._seekers = np.flatnonzero(np.bincount(self.codes)[self.codes] > 1)
        if len(self._seekers) == 0:
            raise InputError(
                argument="y",
                expected=("at least two items of one class, found every class with a single item"),
            )
        sought = self._weights[self._seekers]
        self._shares: Floats = sought / sought.sum()

    @classmethod
    def default_rho(cls, known: Known) -> float:
        """Return 0.001."""
        return 1e-3

    def n_terms(self, n: int) -> int:
        """Return the number of labelled items whose class has another one."""
        return len(self._seekers)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return all L labelled items for each item, itself included."""
        i = self.labelled[self._seekers[terms]]
        j = np.broadcast_to(self.labelled, (len(terms), len(self.labelled)))
        return np.repeat(i[:, None], len(self.labelled), axis=1), j

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return -log p_i, and how much likelier each j is among the items of i's class."""
        seekers = self._seekers[terms]
        near = np.log(self._weights) - d
        near[np.arange(len(terms)), seekers] = -np.inf
        own = np.where(self.codes[seekers, None] == self.codes, near, -np.inf)
        log_all, share_of_all = _log_sum_exp(near)
        log_own, share_of_own = _log_sum_exp(own)
        return log_all - log_own, share_of_own - share_of_all

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw items by their weights."""
        if self._alike:
            return super().sample(rng, size, n)
        return rng.choice(len(self._shares), size, p=self._shares)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the weights of the items, as shares of all that count."""
        return self._shares[terms]


def _log_sum_exp(x: Floats) -> tuple[Floats, Floats]:
    """Return log sum exp of each row, and its derivatives; each row has a finite entry."""
    high = x.max(axis=1, initial=-np.inf, keepdims=True)
    grown = np.exp(x - high)
    total = grown.sum(axis=1, keepdims=True)
    return (high + np.log(total))[:, 0], grown / total
