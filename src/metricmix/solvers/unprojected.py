r"""The same problem without the projection: distances are the edge lengths themselves.

.. math:: f(\alpha) = \sum_t p_t \, g_t\big(w(\alpha)\big) + \rho \lVert\alpha\rVert^2, \qquad
          w = \mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)

Only the pairs that the terms look at are ever needed, so an evaluation costs O(R) per pair however
many items there are: milliseconds for a few hundred labelled items among thousands. Where few
shortest paths take a detour, as is common for learned weights, its solution is close to that of the
real problem, or a good start for it. The metric of the weights is their projection all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.mixture.link import link, link_derivative
from metricmix.solvers.problem import Floats, Indices, Problem

__all__ = ["UnprojectedProblem"]

KEPT_UP_TO = 1 << 26
"""Values of the sources that are kept between evaluations: half a gigabyte."""


@dataclass(frozen=True)
class UnprojectedProblem(Problem):
    """An objective over the edge lengths of a mixture."""

    def sampled(self, weights: Floats, terms: Indices) -> tuple[float, Floats]:
        """Return the mean of some terms and its gradient by the weights, without the ridge."""
        value, gradient = self._evaluate(
            weights, terms, self._values(terms), np.full(len(terms), 1.0 / len(terms))
        )
        return value, gradient

    def estimate(self, weights: Floats, terms: Indices) -> float:
        """Return the objective with only `terms` in the mean, each by its probability."""
        p = self.objective.probabilities(terms, self.n)
        value, _ = self._evaluate(weights, terms, self._values(terms), p / p.sum())
        return value + self.ridge(weights)

    def value(self, weights: Floats) -> float:
        """Return the objective over all terms."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(
        self, weights: Floats, temperature: float | None = None
    ) -> tuple[float, Floats]:
        """Return the objective over all terms and its gradient."""
        if temperature is not None:
            raise InputError("temperature: soft paths are a projection; pass projection=True")
        value, gradient = self.ridge(weights), self.ridge_gradient(weights)
        for terms, sources in self._everything if self._keeps else self._in_pieces():
            p = self.objective.probabilities(terms, self.n)
            part, slope = self._evaluate(weights, terms, sources, p)
            value, gradient = value + part, gradient + slope
        return value, gradient

    def fingerprint(self) -> str:
        """Return a digest that differs from that of the projected problem."""
        return "unprojected " + super().fingerprint()

    def _evaluate(
        self, weights: Floats, terms: Indices, sources: NDArray[Any], p: Floats
    ) -> tuple[float, Floats]:
        """Return the sum of p times the terms, and its gradient; `sources` is (R, pairs)."""
        i, j = self.objective.pairs(terms, self.n)
        m = weights @ sources
        w = np.where(i == j, 0.0, link(m, self.beta, self.link).reshape(i.shape))
        values, slopes = self.objective.evaluate(terms, w, self.n)
        flow = np.where(i == j, 0.0, slopes * p[:, None]).ravel()
        slope = link_derivative(m, self.beta, self.link)
        return float((values * p).sum()), sources @ (flow * slope)

    def _values(self, terms: Indices) -> NDArray[Any]:
        """Return the scaled sources at the pairs of the terms, (R, pairs)."""
        i, j = self.objective.pairs(terms, self.n)
        raw = self.stack.raw_pairs(i.ravel(), j.ravel())
        return np.asarray(raw / self.stack.scales[:, None])

    @cached_property
    def _keeps(self) -> bool:
        i, _ = self.objective.pairs(np.arange(1), self.n)
        return bool(self.n_terms * i.shape[1] * self.stack.n_sources <= KEPT_UP_TO)

    @cached_property
    def _everything(self) -> list[tuple[Indices, NDArray[Any]]]:
        return list(self._in_pieces())

    def _in_pieces(self) -> Iterator[tuple[Indices, NDArray[Any]]]:
        return ((terms, self._values(terms)) for terms in self.pieces())
