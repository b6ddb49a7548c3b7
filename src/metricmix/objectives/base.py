r"""What an objective is: a mean over terms, each a function of a few distances, plus a ridge.

.. math:: f(\alpha) = \sum_t p_t \, g_t\big(d_{i_1 j_1}, \dots, d_{i_q j_q}\big)
          + \rho \lVert\alpha\rVert^2

Each term t looks at q pairs of items (one for the paper's separable objectives, two for triplets),
and has probability :math:`p_t`. A stochastic solver draws terms by these probabilities; a full one
sums over all of them. Any objective works with any such solver.

To write one of your own, derive from :class:`Objective` and say how many terms there are, which
pairs they look at, and what they cost; for a function of single distances, :class:`Separable` is
enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.objectives.fingerprint import describe
from metricmix.validation import check_number

__all__ = ["Objective", "check_objective"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def check_objective(objective: object) -> None:
    """Raise InputError unless it is an objective."""
    if not isinstance(objective, Objective):
        raise InputError(
            f"objective: expected an Objective, got {type(objective).__name__}; "
            "see metricmix.objectives"
        )


class Objective(ABC):
    """Base of all objectives; see the module for the mathematics.

    Parameters
    ----------
    rho : float
        Weight of the ridge, >= 0.

    Attributes
    ----------
    convex : bool
        Whether every term is a convex function of its distances; False unless overridden, which
        claims nothing. Where it is True, solvers may prove how good a metric is.
    """

    convex: bool = False

    def __init__(self, rho: float = 0.0) -> None:
        self.rho = check_number(rho, name="rho", low=0)

    @abstractmethod
    def check(self, n: int) -> None:
        """Raise InputError unless the objective fits n items."""

    @abstractmethod
    def n_terms(self, n: int) -> int:
        """Return the number of terms over n items; they are numbered from 0."""

    @abstractmethod
    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return the pairs the terms look at: two (len(terms), q) arrays of items."""

    @abstractmethod
    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return what the terms cost at distances `d`, and the derivatives.

        Parameters
        ----------
        terms : (T,) array
        d : (T, q) array
            Distances of the pairs.
        n : int

        Returns
        -------
        value : (T,) array
        slope : (T, q) array
            Derivative of each term's value by each of its distances.
        """

    def quadratic(self, terms: Indices, n: int) -> tuple[Floats, Floats, Floats] | None:
        """Return (a, b, c) such that each term costs a d² + b d + c of its one distance d.

        None, unless overridden: the terms are of another kind, and exact solvers refuse them.
        """
        return None

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw `size` terms by their probabilities; uniformly unless overridden."""
        return rng.integers(self.n_terms(n), size=size)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the probabilities of the terms; equal unless overridden."""
        return np.full(len(terms), 1.0 / self.n_terms(n))

    def fingerprint(self) -> bytes:
        """Return bytes that differ for different objectives, to recognise a checkpoint by.

        Made from the public attributes: arrays, numbers, the code of functions.
        """
        public = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return type(self).__qualname__.encode() + describe(public)
