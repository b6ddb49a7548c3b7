r"""The whole matrix as the variable: Steps 1–3 of the paper.

.. math:: \min_{X = X^T} \; \sum_t p_t \, g_t\big(P(\mathrm{softplus}_\beta(X))\big)
          + \rho \, \mathrm{mean}(X_{ij}^2)

Each drawn pair moves only the entries on its shortest path, :math:`X_{uv} \leftarrow X_{uv} -
\eta \, g'(d_{ij}) \, \sigma(\beta X_{uv})`. Pairs drawn together move together: a batch is that
many of the paper's steps, taken at one point, not their mean.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.kernels.compile import kernel
from metricmix.kernels.mixing import length_of
from metricmix.mixture.edge_lengths import form_lengths, lengths_of
from metricmix.mixture.linear import link_code, link_derivative
from metricmix.objectives.base import Objective, check_objective
from metricmix.paths.all_pairs import project
from metricmix.paths.pair import bundle_paths
from metricmix.solvers.loop import Progress, Solver, run
from metricmix.solvers.result import SolveResult, Status
from metricmix.solvers.stochastic import SCHEDULES, step_size
from metricmix.typing import Floats, Indices
from metricmix.validation import (
    check_choice,
    check_integer,
    check_number,
    check_random_state,
    check_square,
)

__all__ = ["MatrixState", "WholeMatrix", "descend_along_paths", "move_edges"]


@dataclass
class MatrixState:
    """The variable X, and the mean of the terms drawn since the last check."""

    X: Floats
    seen: float
    count: int
    best: float
    waited: int


class WholeMatrix(Solver[MatrixState]):
    """Stochastic descent over the entries of a matrix; see the module."""

    state_type = MatrixState
    returns = "mean"

    def __init__(
        self,
        objective: Objective,
        X0: Floats,
        *,
        directed: bool,
        link: str,
        beta: float,
        learning_rate: float,
        schedule: str,
        decay: float,
        batch_size: int,
        tol: float | None,
        patience: int,
        n_jobs: int | None,
    ) -> None:
        self.objective, self.X0, self.directed = objective, X0, directed
        self.link, self.beta, self.batch_size, self.n_jobs = link, beta, batch_size, n_jobs
        self.rate = (learning_rate, schedule, decay)
        self.tol, self.patience = tol, patience
        self.n = len(X0)
        self._w = np.empty_like(X0)  # lengths of the state being stepped on
        self._of: Floats | None = None

    @property
    def default_max_iter(self) -> int:
        """As many as draw every term 50 times on average."""
        return -(-50 * self.objective.n_terms(self.n) // self.batch_size)

    def default_check_every(self, max_iter: int) -> int:
        """Return a fiftieth of all iterations."""
        return max(1, max_iter // 50)

    @property
    def tests_convergence(self) -> bool:
        """Only with a `tol`."""
        return self.tol is not None

    def init(self, rng: np.random.Generator) -> MatrixState:
        """Return the start."""
        return MatrixState(self.X0.copy(), 0.0, 0, np.inf, 0)

    def lengths(self, X: Floats) -> Floats:
        """Return the edge lengths of X: formed once, then kept up to date step by step."""
        if self._of is not X:
            block = X[None].view()
            block.flags.writeable = False  # as stacks are, so that the kernel is compiled once
            form_lengths(block, np.ones(1), self.beta, link_code(self.link), 0, self._w)
            self._of = X
        return self._w

    def step(self, state: MatrixState, iteration: int, rng: np.random.Generator) -> MatrixState:
        """Draw terms, find their shortest paths, move the entries on them (in place)."""
        terms = self.objective.sample(rng, self.batch_size, self.n)
        w = self.lengths(state.X)
        i, j = self.objective.pairs(terms, self.n)
        lengths = lengths_of(w, directed=self.directed)
        paths = bundle_paths(lengths, i.ravel(), j.ravel(), n_jobs=self.n_jobs)
        value, slope = self.objective.evaluate(terms, paths.lengths.reshape(i.shape), self.n)
        number, u, v = paths.edges()
        rate = step_size(*self.rate, iteration)
        move = -rate * slope.ravel()[number] * link_derivative(state.X[u, v], self.beta, self.link)
        seen = float(value.mean())
        if self.objective.rho:
            first, second = i.ravel(), j.ravel()
            apart = first != second
            first, second = first[apart], second[apart]
            entries = state.X[first, second]
            u, v = np.concatenate([u, first]), np.concatenate([v, second])
            pull = -rate * 2.0 * self.objective.rho / i.shape[1]
            move = np.concatenate([move, pull * entries])
            seen += self.objective.rho * float(np.sum(entries**2)) / i.size
        if not (np.isfinite(move).all() and np.isfinite(seen)):
            return MatrixState(state.X, np.nan, state.count + 1, state.best, state.waited)
        before = state.X[u, v]
        try:
            move_edges(state.X, w, u, v, move, self.beta, link_code(self.link), not self.directed)
            return MatrixState(
                state.X, state.seen + seen, state.count + 1, state.best, state.waited
            )
        except KeyboardInterrupt:  # half a step is no step
            self._of = None
            state.X[u, v] = before
            if not self.directed:
                state.X[v, u] = before
            raise

    def check(self, state: MatrixState) -> tuple[MatrixState, float]:
        """Return the mean of the terms drawn since the last check."""
        if state.count == 0:
            return state, self.value(state.X)
        objective = state.seen / state.count
        improved = objective < state.best - (self.tol or 0.0) * abs(state.best)
        if improved or not np.isfinite(state.best):
            return MatrixState(state.X, 0.0, 0, objective, 0), objective
        return MatrixState(state.X, 0.0, 0, state.best, state.waited + 1), objective

    def value(self, X: Floats) -> float:
        """Return the exact objective: all pairs, one closure."""
        d = project(self.lengths(X), directed=self.directed, n_jobs=self.n_jobs)
        total = 0.0
        terms_in_all = self.objective.n_terms(self.n)
        for start in range(0, terms_in_all, 1 << 22):
            terms = np.arange(start, min(terms_in_all, start + (1 << 22)))
            i, j = self.objective.pairs(terms, self.n)
            value, _ = self.objective.evaluate(terms, d[i, j], self.n)
            p = self.objective.probabilities(terms, self.n)
            apart = np.where(i == j, 0.0, X[i, j] ** 2).mean(axis=1)
            total += float((value + self.objective.rho * apart) @ p)
        return total

    def status(self, state: MatrixState) -> Status | None:
        """Stop when the mean has not improved for `patience` checks."""
        if self.tol is not None and state.waited >= self.patience:
            return Status.CONVERGED
        return None

    def is_finite(self, state: MatrixState) -> bool:
        """Return whether the last step met finite values."""
        return bool(np.isfinite(state.seen))

    def weights(self, state: MatrixState) -> None:
        """Return None: there are no weights."""

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        digest = hashlib.sha256(self.objective.fingerprint() + self.X0.tobytes())
        settings = (self.directed, self.link, self.beta, self.rate, self.batch_size, self.tol)
        digest.update(repr((*settings, self.patience)).encode())
        return digest.hexdigest()


def descend_along_paths(
    objective: Objective,
    X0: ArrayLike,
    *,
    directed: bool = False,
    link: str = "softplus",
    beta: float = 1.0,
    learning_rate: float = 0.2,
    schedule: str = "inverse",
    decay: float | None = None,
    batch_size: int | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
    patience: int = 5,
    time_limit: float | None = None,
    check_every: int | None = None,
    random_state: int | np.random.Generator | None = None,
    callback: Callable[[Progress], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> SolveResult:
    r"""Minimise an objective over metrics, moving the entries on the shortest paths of drawn pairs.

    .. math:: \min_X \; \sum_t p_t \, g_t\big(P(\mathrm{softplus}_\beta(X))\big)
              + \rho \, \mathrm{mean}(X_{ij}^2)

    Parameters
    ----------
    objective : Objective
        Any: least squares, triplets, labels, your own.
    X0 : (n, n) array
        Where to start, of any sign: the metric is P(softplus(X0)). To start at given lengths w,
        pass ``metricmix.mixture.inverse_link(w)``.
    directed : bool
        Whether the metric may be asymmetric; else X0 must be symmetric.
    link, beta : str, float
        The link and its sharpness.
    learning_rate, schedule : float, str
        Size of the step per drawn pair, and how it falls: "constant", "sqrt" or "inverse".
    decay : float, optional
        Steps after which it begins to fall; default a twentieth of the default `max_iter`.
    batch_size : int, optional
        Terms drawn per step; default n.
    max_iter : int, optional
        Steps; default such that every term is drawn 50 times on average.
    tol, patience : float, int
        Stop when the mean over a check has not improved by the share `tol` for `patience` checks.
    time_limit, check_every, random_state, callback, checkpoint, verbose, n_jobs
        As in :func:`metricmix.minimize`.

    Returns
    -------
    SolveResult
        With `metric`, a metric to rounding, and the exact `objective` at it.
    """
    check_objective(objective)
    rng, seed = check_random_state(random_state)
    if tol is not None:
        check_number(tol, name="tol", low=0)
    X = check_square(
        X0, name="X0", directed=directed, allow_negative=True, require_zero_diagonal=False
    ).astype(np.float64)
    n = len(X)
    objective.check(n)
    batch = check_integer(n if batch_size is None else batch_size, name="batch_size", low=1)
    enough = -(-50 * objective.n_terms(n) // batch)
    solver = WholeMatrix(
        objective,
        X,
        directed=directed,
        link=link,
        beta=check_number(beta, name="beta", low=0, open_low=True),
        learning_rate=check_number(learning_rate, name="learning_rate", low=0, open_low=True),
        schedule=check_choice(schedule, SCHEDULES, name="schedule"),
        decay=check_number(
            max(1.0, enough / 20) if decay is None else decay, name="decay", low=0, open_low=True
        ),
        batch_size=batch,
        tol=tol,
        patience=check_integer(patience, name="patience", low=1),
        n_jobs=n_jobs,
    )
    outcome = run(
        solver,
        rng,
        seed=seed,
        max_iter=max_iter,
        time_limit=time_limit,
        check_every=check_every,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
    )
    X = outcome.state.X
    metric = project(solver.lengths(X), directed=directed, n_jobs=n_jobs)
    return SolveResult(
        objective=solver.value(X),
        objective_kind="exact",
        status=outcome.status,
        n_iter=outcome.n_iter,
        trace=outcome.trace,
        metric=metric,
    ).warn_unless_converged()


# -- moving single entries of a matrix of edge lengths ------------------------------------------


@kernel
def move_edges(
    X: Floats,
    w: Floats,
    u: Indices,
    v: Indices,
    move: Floats,
    beta: float,
    link: int,
    symmetric: bool,
) -> None:
    """Add move[e] to X[u[e], v[e]] (and to its mirror image), then renew the lengths there.

    With the identity link entries stay at 0 or above, where lengths are.
    """
    for e in range(u.shape[0]):
        X[u[e], v[e]] += move[e]
        if link == 0 and X[u[e], v[e]] < 0.0:
            X[u[e], v[e]] = 0.0
        if symmetric:
            X[v[e], u[e]] = X[u[e], v[e]]
    for e in range(u.shape[0]):
        w[u[e], v[e]] = length_of(X[u[e], v[e]], beta, link)
        if symmetric:
            w[v[e], u[e]] = w[u[e], v[e]]
