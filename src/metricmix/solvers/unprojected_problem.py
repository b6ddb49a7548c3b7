"""The objective over the edge lengths of a mixture, before shortest paths make it a metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricmix.exceptions import InputError
from metricmix.kernels.threads import check_time
from metricmix.mixture.linear import link_and_derivative
from metricmix.solvers.problem import Problem
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["UnprojectedProblem"]

STORED_UP_TO = 1 << 26
"""Values of the sources that are stored between evaluations: half a gigabyte."""


@dataclass(frozen=True)
class UnprojectedProblem(Problem):
    """An objective over the edge lengths of a mixture."""

    kind: ClassVar[str] = "unprojected"
    is_cheap = True

    def sampled(self, weights: Floats, terms: Indices) -> tuple[float, Floats]:
        """Return the mean of some terms and its gradient by the weights, without the ridge."""
        sources, same = self._values(terms)
        return self._evaluate(weights, terms, sources, same, np.full(len(terms), 1.0 / len(terms)))

    def estimate(self, weights: Floats, terms: Indices) -> float:
        """Return the objective with only `terms` in the mean, each by its probability."""
        p = self.objective.probabilities(terms, self.n)
        value, _ = self._evaluate(weights, terms, *self._values(terms), p / p.sum())
        return value + self.ridge(weights)

    def value(self, weights: Floats) -> float:
        """Return the objective over all terms."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(
        self, weights: Floats, temperature: float | None = None
    ) -> tuple[float, Floats]:
        """Return the objective over all terms and its gradient."""
        if temperature is not None:
            raise InputError(
                "soft paths are a projection", argument="temperature", remedy="pass projection=True"
            )
        value, gradient = self.ridge(weights), self.ridge_gradient(weights)
        for terms, sources, same in self.stored_sources or self._with_sources():
            check_time()
            p = self.objective.probabilities(terms, self.n)
            part, slope = self._evaluate(weights, terms, sources, same, p)
            value, gradient = value + part, gradient + slope
        return value, gradient

    def fingerprint(self) -> str:
        """Return a digest that differs from that of the projected problem."""
        return "unprojected " + super().fingerprint()

    def _evaluate(
        self, weights: Floats, terms: Indices, sources: AnyArray, same: Indices, p: Floats
    ) -> tuple[float, Floats]:
        """Return the sum of p times the terms, and its gradient.

        `sources` is (R, pairs), `same` the numbers of the pairs of an item with itself.
        """
        w, slope = link_and_derivative(weights @ sources, self.beta, self.link)
        w[same] = 0.0
        values, slopes = self.objective.evaluate(terms, w.reshape(len(terms), -1), self.n)
        flow = (slopes * p[:, None]).ravel()
        flow[same] = 0.0
        flow *= slope
        return float((values * p).sum()), sources @ flow

    def _values(self, terms: Indices) -> tuple[AnyArray, Indices]:
        """Return what weights multiply at the pairs of the terms, (R, pairs), and pairs (i, i)."""
        i, j = (ends.ravel() for ends in self.objective.pairs(terms, self.n))
        check_time()
        raw = self.stack.between_any.raw_pairs(i, j)
        check_time()
        return self.parametrisation.terms(raw, i, j), np.flatnonzero(i == j)

    @cached_property
    def stored_sources(self) -> list[tuple[Indices, AnyArray, Indices]] | None:
        """All terms with the sources at their pairs; None where that takes too much memory."""
        i, _ = self.objective.pairs(np.arange(1), self.n)
        fits = self.n_terms * i.shape[1] * self.n_weights <= STORED_UP_TO
        return list(self._with_sources()) if fits else None

    def _with_sources(self) -> Iterator[tuple[Indices, AnyArray, Indices]]:
        """Yield all terms, a few at a time, with the sources at their pairs, and pairs (i, i)."""
        return ((terms, *self._values(terms)) for terms in self.pieces())
