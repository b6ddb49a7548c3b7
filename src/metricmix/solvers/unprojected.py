r"""The problem over edge lengths: only the pairs that the objective looks at are needed.

.. math:: f(\alpha) = \sum_t p_t \, g_t\big(w(\alpha)\big) + \rho \lVert\alpha\rVert^2, \qquad
          w = \mathrm{link}_\beta(m), \quad m = \sum_r \alpha_r M_r

Smooth where the terms are: there are no shortest paths that tie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import check_time
from metricmix.mixture.linear import link_and_derivative
from metricmix.solvers.problem import Problem
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["PairValues", "UnprojectedProblem"]


STORED_UP_TO = 1 << 26
"""Values of the sources that are stored between evaluations: half a gigabyte."""
WEIGHTS_AT_MOST = 256
"""Weights up to which Hessians are computed."""


class PairValues(NamedTuple):
    """Some terms, and the sources at the pairs that they look at.

    Attributes
    ----------
    terms : (T,) array
    sources : (R, E) array
        What weights multiply at pairs.
    which : (T, q) array
        The pairs of each term.
    same : array
        The pairs of an item with itself.
    """

    terms: Indices
    sources: AnyArray
    which: Indices
    same: Indices

    def flow(self, slopes: Floats) -> Floats:
        """Return the sum of derivatives by the distances of terms, (T, q), at each pair, (E,)."""
        total: Floats = np.bincount(
            self.which.ravel(), slopes.ravel(), minlength=self.sources.shape[1]
        ).astype(np.float64, copy=False)
        total[self.same] = 0.0
        return total


@dataclass(frozen=True)
class UnprojectedProblem(Problem):
    """An objective over the edge lengths of a mixture."""

    kind: ClassVar[str] = "unprojected"
    is_cheap = True

    def sampled(self, weights: Floats, terms: Indices) -> tuple[float, Floats]:
        """Return the mean of some terms and its gradient by the weights, without the ridge."""
        return self._evaluate(weights, self._values(terms), np.full(len(terms), 1.0 / len(terms)))

    def estimate(self, weights: Floats, terms: Indices) -> float:
        """Return the objective with only `terms` in the mean, each by its probability."""
        p = self.objective.probabilities(terms, self.n)
        value, _ = self._evaluate(weights, self._values(terms), p / p.sum())
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
        for values in self.stored_sources or self._with_sources():
            check_time()
            p = self.objective.probabilities(values.terms, self.n)
            part, slope = self._evaluate(weights, values, p)
            value, gradient = value + part, gradient + slope
        return value, gradient

    @property
    def has_hessian(self) -> bool:
        """Whether the terms have second derivatives, and weights are few enough for them."""
        if self.link != "softplus" or self.n_weights > WEIGHTS_AT_MOST:
            return False
        first = np.arange(1)
        shape = self.objective.pairs(first, self.n)[0].shape
        given = np.ones(shape), np.empty((0, *shape)), np.ones(1)
        return self.objective.curvature(first, *given, self.n) is not None

    def with_hessian(self, weights: Floats) -> tuple[float, Floats, Floats]:
        r"""Return the objective over all terms, its gradient and its Hessian, (R, R).

        .. math:: \sum_t p_t J_t^T \, \nabla^2 g_t \, J_t
                  + \sum_e f_e \, \mathrm{link}''(m_e) \, M_e M_e^T + 2 \rho I, \qquad
                  J_e = \mathrm{link}'(m_e) M_e

        over terms t and pairs e, where f are the derivatives of the terms by distances.
        """
        value, gradient = self.ridge(weights), self.ridge_gradient(weights)
        hessian = 2.0 * self.objective.rho * np.eye(self.n_weights)
        for values in self.stored_sources or self._with_sources():
            check_time()
            p = self.objective.probabilities(values.terms, self.n)
            w, slope = self._lengths(weights, values)
            d = w[values.which]
            parts, slopes = self.objective.evaluate(values.terms, d, self.n)
            flow = values.flow(slopes * p[:, None]) * slope
            value += float((parts * p).sum())
            gradient = gradient + values.sources @ flow
            bend = flow * (self.beta * (1.0 - slope))  # the second derivative of softplus
            slope[values.same] = 0.0
            along = np.empty((self.n_weights, *d.shape))
            for moves, source in zip(along, values.sources, strict=True):
                np.take(source * slope, values.which, out=moves, mode="clip")
            curved = self.objective.curvature(values.terms, d, along, p, self.n)
            assert curved is not None
            hessian += curved + (values.sources * bend) @ values.sources.T
        return value, gradient, hessian

    def fingerprint(self) -> str:
        """Return a digest that differs from that of the projected problem."""
        return "unprojected " + super().fingerprint()

    def _lengths(self, weights: Floats, values: PairValues) -> tuple[Floats, Floats]:
        """Return lengths and derivatives of the link at pairs."""
        w, slope = link_and_derivative(weights @ values.sources, self.beta, self.link)
        w[values.same] = 0.0
        return w, slope

    def _evaluate(self, weights: Floats, values: PairValues, p: Floats) -> tuple[float, Floats]:
        """Return the sum of p times the terms, and its gradient."""
        w, slope = self._lengths(weights, values)
        parts, slopes = self.objective.evaluate(values.terms, w[values.which], self.n)
        flow = values.flow(slopes * p[:, None])
        flow *= slope
        return float((parts * p).sum()), values.sources @ flow

    def _values(self, terms: Indices, *, once: bool = False) -> PairValues:
        """Return what weights multiply at the pairs of the terms; `once`: at each pair once."""
        i, j = self.objective.pairs(terms, self.n)
        shape = i.shape
        i, j, which = i.ravel(), j.ravel(), np.arange(i.size)
        if once:
            if not self.stack.directed:
                i, j = np.minimum(i, j), np.maximum(i, j)
            keys, which = np.unique(i * self.n + j, return_inverse=True)
            i, j = np.divmod(keys, self.n)
        check_time()
        raw = self.stack.between_any.values_of_pairs(i, j)
        sources = self.parametrisation.terms(raw, i, j)
        check_time()
        return PairValues(terms, sources, which.reshape(shape), np.flatnonzero(i == j))

    @cached_property
    def stored_sources(self) -> list[PairValues] | None:
        """All terms with the sources at their pairs; None where that takes too much memory."""
        i, _ = self.objective.pairs(np.arange(1), self.n)
        fits = self.n_terms * i.shape[1] * self.n_weights <= STORED_UP_TO
        return list(self._with_sources()) if fits else None

    def _with_sources(self) -> Iterator[PairValues]:
        """Yield all terms, a few at a time, with the sources at their pairs."""
        return (self._values(terms, once=True) for terms in self.pieces())
