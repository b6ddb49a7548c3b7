r"""The problem all weight solvers share: an objective over the metric of a mixture.

.. math:: f(\alpha) = \sum_t p_t \, g_t\big(d(\alpha)\big) + \rho \lVert\alpha\rVert^2, \qquad
          d = P\Big(\mathrm{link}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

Where the shortest path of a pair is unique, the envelope theorem gives the derivative

.. math:: \frac{\partial d_{ij}}{\partial \alpha_r}
          = \sum_{(u, v) \in \gamma_{ij}} \sigma(\beta m_{uv}) \, M_r[u, v]

and any of the shortest paths gives an element of the generalised differential at ties.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.deadline import check_time
from metricmix.kernels.mixing import dense_edge_gradient
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.mixture.edge_lengths import FORMED_UP_TO, EdgeLengths
from metricmix.mixture.linear import LinearWeights, Mixture, Parametrisation
from metricmix.objectives.base import Objective
from metricmix.paths.pair import PathBundle, bundle_paths, trace_edges
from metricmix.paths.soft import soft_paths
from metricmix.paths.trees import (
    ROOTS_PER_CLOSURE,
    bellman_ford,
    distances_from,
    grow_trees,
)
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice

__all__ = ["CONSTRAINTS", "Problem", "project_weights"]


CONSTRAINTS = ("none", "nonnegative", "simplex")


def project_weights(weights: Floats, constraint: str) -> Floats:
    r"""Return the nearest weights that satisfy the constraint.

    .. math:: \arg\min_{x \in C} \lVert x - \alpha \rVert, \qquad
              C = \mathbf R^R, \; \{x \ge 0\} \text{ or } \{x \ge 0, \sum_r x_r = 1\}

    Examples
    --------
    >>> import numpy as np
    >>> project_weights(np.array([0.9, 0.4, -1.0]), "simplex")
    array([0.75, 0.25, 0.  ])
    """
    if constraint == "none" or not np.isfinite(weights).all():
        return weights  # the loop handles values that are not finite
    if constraint == "nonnegative":
        return np.maximum(weights, 0.0)
    if constraint != "simplex":
        check_choice(constraint, CONSTRAINTS, name="constraint")
    # The simplex: shift all weights by the same amount and cut at 0.
    sorted_weights = np.sort(weights)[::-1]
    excess = np.cumsum(sorted_weights) - 1.0
    kept = np.flatnonzero(sorted_weights * np.arange(1, len(weights) + 1) > excess)[-1]
    return np.asarray(np.maximum(weights - excess[kept] / (kept + 1), 0.0))


# -- the objective over the metric of a mixture --------------------------------------------------

PAIRS_AT_ONCE = 1 << 22
"""Full evaluations take the terms in pieces of about this many pairs."""


@dataclass(frozen=True)
class Problem:
    """An objective, a stack, and how weights become edge lengths.

    `weighting` says what the weights mean, where the mixture is not linear. `kind` is what its
    value is called in a :class:`~metricmix.solvers.SolveResult`.
    """

    kind: ClassVar[str] = "exact"

    objective: Objective
    stack: DissimilarityStack
    link: str = "softplus"
    beta: float = 1.0
    constraint: str = "none"
    n_jobs: int | None = None
    centre: Floats | None = None
    weighting: Parametrisation | None = None

    @cached_property
    def parametrisation(self) -> Parametrisation:
        """What the weights mean: `weighting`, or those of a linear mixture."""
        return self.weighting or LinearWeights(self.stack)

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return len(self.parametrisation.names)

    @property
    def n(self) -> int:
        """Number of items."""
        return self.stack.n_items

    @property
    def n_terms(self) -> int:
        """Number of terms of the objective."""
        return self.objective.n_terms(self.n)

    @property
    def is_cheap(self) -> bool:
        """Whether one evaluation over all terms costs little beside a run."""
        return self.n <= 2000

    @property
    def has_hessian(self) -> bool:
        """Whether :meth:`with_hessian` is defined: not where shortest paths tie."""
        return False

    def with_hessian(self, weights: Floats) -> tuple[float, Floats, Floats]:
        """Return the objective, its gradient and its Hessian."""
        raise NotImplementedError

    def mixture(self, weights: Floats) -> Mixture:
        """Return weights as a mixture that means the same on any stack of these sources."""
        return self.parametrisation.mixture(weights, self.link, self.beta)

    def lengths(self, weights: Floats) -> EdgeLengths:
        """Return the edge lengths under `weights`."""
        return EdgeLengths(self.stack, self.mixture(weights))

    def ridge(self, weights: Floats) -> float:
        """Return rho ||weights - centre||²."""
        apart = weights if self.centre is None else weights - self.centre
        return self.objective.rho * float(apart @ apart)

    def ridge_gradient(self, weights: Floats) -> Floats:
        """Return 2 rho (weights - centre)."""
        apart = weights if self.centre is None else weights - self.centre
        return 2.0 * self.objective.rho * apart

    # -- a few terms: Algorithm 1 ----------------------------------------------------------------

    def sampled(self, weights: Floats, terms: Indices) -> tuple[float, Floats]:
        """Return the mean of some terms and its gradient by the weights, without the ridge.

        One bidirectional search per pair: O(R n) each.
        """
        lengths = self.lengths(weights)
        paths, which = self._search(lengths, terms)
        value, slope = self.objective.evaluate(terms, paths.lengths[which], self.n)
        demand = np.bincount(which.ravel(), slope.ravel(), minlength=len(paths)) / len(terms)
        number, u, v = paths.edges()
        return float(value.mean()), lengths.edge_gradient(u, v, demand[number])

    def estimate(self, weights: Floats, terms: Indices) -> float:
        """Return the objective with only `terms` in the mean, each by its probability."""
        paths, which = self._search(self.lengths(weights), terms)
        value, _ = self.objective.evaluate(terms, paths.lengths[which], self.n)
        p = self.objective.probabilities(terms, self.n)
        return float(value @ p / p.sum()) + self.ridge(weights)

    def _search(self, lengths: EdgeLengths, terms: Indices) -> tuple[PathBundle, Indices]:
        """Return shortest paths, and which of them each term depends on."""
        i, j = self.objective.pairs(terms, self.n)
        if i.shape[1] <= 2:  # then hardly any pair is looked at twice
            paths = bundle_paths(lengths, i.ravel(), j.ravel(), bounded=True, n_jobs=self.n_jobs)
            return paths, np.arange(i.size).reshape(i.shape)
        if not self.stack.directed:
            i, j = np.minimum(i, j), np.maximum(i, j)
        # Terms of many pairs have many in common.
        pairs, which = np.unique(i * self.n + j, return_inverse=True)
        first, second = np.divmod(pairs, self.n)
        paths = bundle_paths(lengths, first, second, bounded=True, n_jobs=self.n_jobs)
        return paths, which.reshape(i.shape)

    # -- all terms: the full sub-gradient --------------------------------------------------------

    def value(self, weights: Floats) -> float:
        """Return the objective over all terms."""
        if self.by_pairs:
            return self._pair_by_pair(weights)[0] + self.ridge(weights)
        roots = self._roots
        d = distances_from(self.lengths(weights), roots, n_jobs=self.n_jobs)
        return self._demand(roots, d)[0] + self.ridge(weights)

    def value_and_gradient(
        self, weights: Floats, temperature: float | None = None
    ) -> tuple[float, Floats]:
        """Return the objective and a sub-gradient: all paths, then flows down their trees.

        Where the terms look at few of the pairs of items, each pair is searched by itself. With a
        `temperature`, distances are the soft ones of :mod:`metricmix.paths.soft` and the gradient
        is that of a smooth function.
        """
        lengths = self.lengths(weights)
        roots = self._roots
        if temperature is None:
            cheap = self._pair_by_pair(weights) if self.by_pairs else self.from_few_roots(weights)
            if cheap is not None:
                value, gradient = cheap
                return value + self.ridge(weights), gradient + self.ridge_gradient(weights)
        if temperature is None:
            trees = grow_trees(lengths, roots, n_jobs=self.n_jobs)
            value, demand = self._demand(roots, trees.distances)
            flow = trees.edge_flow(demand, n_jobs=self.n_jobs)
            heads = np.flatnonzero(flow)
            tails = trees.predecessors.ravel()[heads].astype(np.int64)
            on_edge = tails * self.n + heads % self.n
            flows = np.bincount(on_edge, flow.ravel()[heads], minlength=self.n**2)
            edge_flow: Floats = np.asarray(flows, dtype=np.float64).reshape(self.n, self.n)
        else:
            soft = soft_paths(
                lengths.matrix(n_jobs=self.n_jobs), temperature, directed=self.stack.directed
            )
            value, demand = self._demand(roots, soft.distances[roots])
            spread = np.zeros((self.n, self.n))
            spread[roots] = demand
            edge_flow = soft.gradient(spread)
        gradient = self.gradient_through_link(lengths, edge_flow)
        return value + self.ridge(weights), gradient + self.ridge_gradient(weights)

    def pieces(self) -> Iterator[Indices]:
        """Yield the numbers of all terms, a few at a time."""
        pairs_per_term = self.objective.pairs(np.arange(1), self.n)[0].shape[1]
        step = max(1, PAIRS_AT_ONCE // pairs_per_term)
        for start in range(0, self.n_terms, step):
            check_time()
            yield np.arange(start, min(self.n_terms, start + step))

    @cached_property
    def _roots(self) -> Indices:
        """Return the items that pairs start from."""
        used = np.zeros(self.n, dtype=bool)
        for terms in self.pieces():
            used[self.objective.pairs(terms, self.n)[0].ravel()] = True
        return np.flatnonzero(used)

    @cached_property
    def all_pairs(self) -> tuple[Indices, list[tuple[Indices, Indices]]]:
        """All pairs (i, j) that terms look at, as numbers ``i n + j``, and which each term does.

        Both sorted: pieces of the terms, each with the positions of its pairs.
        """
        found = []
        for terms in self.pieces():
            i, j = self.objective.pairs(terms, self.n)
            if not self.stack.directed:
                i, j = np.minimum(i, j), np.maximum(i, j)
            found.append((terms, i * self.n + j))
        keys = np.unique(np.concatenate([np.unique(pairs) for _, pairs in found]))
        return keys, [(terms, np.searchsorted(keys, pairs)) for terms, pairs in found]

    def pair_demand(self, d: Floats) -> tuple[float, Floats]:
        """Return the mean over terms, and its derivatives by the distances `d` of `all_pairs`."""
        value, demand = 0.0, np.zeros(len(d))
        for terms, which in self.all_pairs[1]:
            values, slopes = self.objective.evaluate(terms, d[which], self.n)
            p = self.objective.probabilities(terms, self.n)
            value += float((values * p).sum())
            demand += np.bincount(which.ravel(), (slopes * p[:, None]).ravel(), minlength=len(d))
        return value, demand

    @cached_property
    def by_pairs(self) -> bool:
        """Whether pairs are searched one by one: few of them, and lengths that are not formed."""
        if self.stack.edges is not None:
            return True
        if self.stack.block is not None and self.n <= FORMED_UP_TO and self.weighting is None:
            return False
        pairs = self.n_terms * self.objective.pairs(np.arange(1), self.n)[0].shape[1]
        pairs = pairs if self.stack.directed else pairs / 2
        # A pair costs 16 rows of n numbers, a tree n of them (measured).
        return bool(16 * pairs <= len(self._roots) * self.n)

    def _pair_by_pair(self, weights: Floats) -> tuple[float, Floats]:
        """Return the mean over all terms and its gradient by one search per pair."""
        lengths = self.lengths(weights)
        value, gradient = 0.0, np.zeros_like(weights)
        for terms in self.pieces():
            paths, which = self._search(lengths, terms)
            values, slopes = self.objective.evaluate(terms, paths.lengths[which], self.n)
            p = self.objective.probabilities(terms, self.n)
            value += float((values * p).sum())
            demand = (slopes * p[:, None]).ravel()
            number, u, v = paths.edges()
            flow: Floats = np.bincount(which.ravel(), demand, minlength=len(paths)).astype(float)
            gradient = gradient + lengths.edge_gradient(u, v, flow[number])
        return value, gradient

    def from_few_roots(self, weights: Floats) -> tuple[float, Floats] | None:
        """Return the same from all distances of few roots; None where trees serve better."""
        lengths, roots = self.lengths(weights), self._roots
        few = len(roots) * ROOTS_PER_CLOSURE < self.n <= FORMED_UP_TO
        if lengths.block is None or not few:
            return None
        w = lengths.matrix(n_jobs=self.n_jobs)
        d = bellman_ford(w, roots, n_jobs=self.n_jobs)
        if d is None:
            return None
        value, demand = self._demand(roots, d)
        tree, end = np.nonzero(demand)
        into = np.ascontiguousarray(w.T) if self.stack.directed else w
        edges = trace_edges(into, d, roots, tree, end)
        if edges is None:
            return None
        number, u, v = edges
        return value, lengths.edge_gradient(u, v, demand[tree, end][number])

    def _demand(self, roots: Indices, d: Floats) -> tuple[float, Floats]:
        """Return the mean over terms, and its derivatives by the (roots, n) distances `d`."""
        position = np.full(self.n, -1)
        position[roots] = np.arange(len(roots))
        value, demand = 0.0, np.zeros(d.size)
        for terms in self.pieces():
            i, j = self.objective.pairs(terms, self.n)
            row = position[i]
            values, slopes = self.objective.evaluate(terms, d[row, j], self.n)
            p = self.objective.probabilities(terms, self.n)
            value += float((values * p).sum())  # BLAS would start threads for a dot product
            where = (row * self.n + j).ravel()
            demand += np.bincount(where, (slopes * p[:, None]).ravel(), minlength=d.size)
        return value, demand.reshape(d.shape)

    def gradient_through_link(self, lengths: EdgeLengths, flow: Floats) -> Floats:
        """Return the derivatives by the weights of sum_e flow_e w_e."""
        if lengths.block is None or not lengths.is_linear:
            u, v = np.nonzero(flow)
            return lengths.edge_gradient(u, v, flow[u, v])
        by_row = np.zeros((self.n, self.stack.n_sources))
        shares = np.array_split(np.arange(self.n), 16)

        def fill(share: Indices) -> None:
            dense_edge_gradient(
                *(lengths.block, lengths.raw_weights, lengths.beta, lengths.link),
                *(share, flow, by_row),
            )

        in_threads(fill, shares, threads_for(self.n, self.n_jobs))
        return lengths.in_mixture_order(by_row.sum(axis=0) / self.stack.scales)

    def fingerprint(self) -> str:
        """Return a digest of the problem that identifies its checkpoints."""
        digest = hashlib.sha256(self.objective.fingerprint())
        stack, names = self.stack, self.parametrisation.names
        for part in (names, stack.shape, stack.directed, self.link, self.beta):
            digest.update(repr(part).encode())
        digest.update(self.parametrisation.fingerprint())
        digest.update(self.constraint.encode() + stack.scales.tobytes())
        if self.centre is not None:
            digest.update(self.centre.tobytes())
        if stack.block is not None:
            digest.update(np.ascontiguousarray(stack.block).data)
        else:  # a few rows of what would have to be computed or read
            some = np.unique(np.linspace(0, self.n - 1, 9).astype(np.int64))
            digest.update(np.ascontiguousarray(stack.raw_rows(some)).data)
        return digest.hexdigest()
