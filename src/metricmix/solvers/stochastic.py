r"""Algorithm 1: stochastic sub-gradient descent, one shortest path per drawn pair.

.. math:: \alpha \leftarrow \alpha - \eta_t \Big( \nabla_\alpha g_t(d) + 2 \rho \alpha \Big)

with a term t drawn at random in each step. The objective is a *mean* over terms, so a single term
is an unbiased estimate of it, and the step does not shrink as the data grows. (The paper
multiplies both parts by :math:`D^{-2}`; ``scaling="paper"`` does so literally.) Steps are not
checked for descent, as in the paper; what it suggests and leaves undone, checking on a small set
of held-out pairs, is `n_validation`, for early stopping, and `checked`, for rejecting steps as
well.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.solvers.loop import Solver
from metricmix.solvers.problem import Problem, project_weights
from metricmix.solvers.result import Status
from metricmix.typing import Floats
from metricmix.validation import check_choice, check_integer, check_number

__all__ = ["Stochastic", "StochasticState", "step_size"]

SCHEDULES = ("constant", "sqrt", "inverse")
MAX_REDRAWS = 10_000


def step_size(learning_rate: float, schedule: str, decay: float, iteration: int) -> float:
    r"""Return :math:`\eta`, :math:`\eta / \sqrt{1 + t/\tau}` or :math:`\eta / (1 + t/\tau)`."""
    if schedule == "constant":
        return learning_rate
    slowed = 1.0 + iteration / decay
    return learning_rate / (math.sqrt(slowed) if schedule == "sqrt" else slowed)


@dataclass
class StochasticState:
    """Where the descent is: weights, their average, Adam's moments, and what the checks saw."""

    validation: NDArray[np.int64]
    weights: Floats
    average: Floats
    moment: Floats
    square: Floats
    taken: int
    shrink: float
    seen: float
    count: int
    held_out: float
    best: float
    waited: int
    finite: bool


@dataclass(frozen=True)
class Stochastic(Solver[StochasticState]):
    """Algorithm 1 and its variants.

    Parameters
    ----------
    problem : Problem
    start : (R,) array
    optimizer : {"adam", "sgd"}
    learning_rate : float
        Size of the first steps; with "adam" about the change of each weight per step.
    schedule : {"constant", "sqrt", "inverse"}
        How the step size falls; `decay` is the number of steps after which it begins to.
    batch_size : int
        Terms per step; 1 is the paper.
    scaling : {"mean", "paper"}
        "paper" multiplies the step by 1 / n², n being all items of the stack.
    averaging : bool
        Return an average of the iterates that favours the later ones.
    n_validation : int
        Number of terms held out (never stepped on) to judge by; 0 for none.
    checked : bool
        Take a step only if the held-out objective does not rise; else try it half as long next
        time.
    tol : float, optional
        Stop when the held-out objective has not improved by this share for `patience` checks.
    patience : int
        Checks without improvement that `tol` waits for.
    """

    problem: Problem
    start: Floats
    optimizer: str = "adam"
    learning_rate: float = 0.05
    schedule: str = "sqrt"
    decay: float = 100.0
    batch_size: int = 32
    scaling: str = "mean"
    averaging: bool = False
    n_validation: int = 0
    checked: bool = False
    tol: float | None = None
    patience: int = 10

    state_type = StochasticState

    def __post_init__(self) -> None:
        check_choice(self.optimizer, ("adam", "sgd"), name="optimizer")
        check_choice(self.schedule, SCHEDULES, name="schedule")
        check_choice(self.scaling, ("mean", "paper"), name="scaling")
        check_number(self.learning_rate, name="learning_rate", low=0, open_low=True)
        check_number(self.decay, name="decay", low=0, open_low=True)
        check_integer(self.batch_size, name="batch_size", low=1)
        check_integer(self.patience, name="patience", low=1)
        check_integer(self.n_validation, name="n_validation")
        if self.tol is not None:
            check_number(self.tol, name="tol", low=0)
        if self.scaling == "paper" and self.optimizer == "adam":
            raise InputError(
                ("scaling='paper' goes with 'sgd', got 'adam', which undoes any scaling"),
                argument="optimizer",
            )
        if (self.checked or self.tol is not None) and self.n_validation == 0:
            which = "checked" if self.checked else "tol"
            raise InputError(
                f"{which} needs held-out terms, got 0", argument="n_validation", remedy="try 200"
            )

    @property
    def returns(self) -> Literal["best", "mean"]:
        """Held-out terms tell which state is best."""
        return "best" if self.n_validation else "mean"

    @property
    def default_max_iter(self) -> int:
        """2000 iterations, or the paper's 500."""
        return 500 if self.scaling == "paper" else 2000

    @property
    def tests_convergence(self) -> bool:
        """Only with a `tol`."""
        return self.tol is not None

    def default_check_every(self, max_iter: int) -> int:
        """Return a hundredth of all iterations."""
        return max(1, max_iter // 100)

    def init(self, rng: np.random.Generator) -> StochasticState:
        """Hold some terms out and return the start."""
        start = project_weights(self.start, self.problem.constraint)
        zeros = np.zeros_like(start)
        held_out = self._hold_out(rng)
        return StochasticState(
            held_out, start, start, zeros, zeros, 0, 1.0, 0.0, 0, math.nan, math.inf, 0, True
        )

    def _hold_out(self, rng: np.random.Generator) -> NDArray[np.int64]:
        problem, wanted = self.problem, self.n_validation
        if not 0 <= wanted < problem.n_terms:
            raise InputError(
                argument="n_validation",
                expected=f"0 .. {problem.n_terms - 1}, fewer than there are terms",
                found=wanted,
            )
        if wanted == 0:
            return np.empty(0, np.int64)
        return rng.choice(problem.n_terms, wanted, replace=False)

    def step(
        self, state: StochasticState, iteration: int, rng: np.random.Generator
    ) -> StochasticState:
        """Draw terms, find their shortest paths, step against the gradient."""
        terms = self._draw(state, rng)
        value, gradient = self.problem.sampled(state.weights, terms)
        ridge = self.problem.ridge_gradient(state.weights)
        moment, square = state.moment, state.square
        rate = step_size(self.learning_rate, self.schedule, self.decay, iteration) * state.shrink
        if self.optimizer == "adam":
            total = gradient + ridge
            moment = 0.9 * moment + 0.1 * total
            square = 0.999 * square + 0.001 * total**2
            mean = moment / (1.0 - 0.9 ** (state.taken + 1))
            spread = np.sqrt(square / (1.0 - 0.999 ** (state.taken + 1)))
            move = rate * mean / (spread + 1e-8)
        elif self.scaling == "paper":
            per_pair = 1.0 / self.problem.n**2
            move = rate * (per_pair * gradient + per_pair * ridge)
        else:
            move = rate * (gradient + ridge)
        weights = project_weights(state.weights - move, self.problem.constraint)
        finite = bool(np.isfinite(value) and np.isfinite(weights).all())
        after = replace(
            state,
            weights=weights,
            moment=moment,
            square=square,
            taken=state.taken + 1,
            seen=state.seen + value,
            count=state.count + 1,
            finite=finite,
        )
        if self.checked and finite:
            after = self._accept_or_reject(state, after)
        # Averages that favour late iterates: weight 2 / (t + 2) for the newest.
        share = 2.0 / (iteration + 2.0)
        return replace(after, average=(1.0 - share) * state.average + share * after.weights)

    def _accept_or_reject(self, before: StochasticState, after: StochasticState) -> StochasticState:
        known = before.held_out
        if math.isnan(known):
            known = self.problem.estimate(before.weights, before.validation)
        reached = self.problem.estimate(after.weights, after.validation)
        if reached <= known:
            return replace(after, held_out=reached, shrink=min(1.0, 1.5 * before.shrink))
        return replace(before, held_out=known, shrink=0.5 * before.shrink)

    def _draw(self, state: StochasticState, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the terms of a step, none of them held out."""
        objective, n = self.problem.objective, self.problem.n
        terms = objective.sample(rng, self.batch_size, n)
        if self.n_validation == 0:
            return terms
        held_out = self._keys(state.validation)
        for _ in range(MAX_REDRAWS):
            clash = np.isin(self._keys(terms), held_out)
            if not clash.any():
                return terms
            terms[clash] = objective.sample(rng, int(clash.sum()), n)
        raise InputError(
            (
                f"{self.n_validation} of {self.problem.n_terms} terms are held out, "
                "and hardly any are left to draw"
            ),
            argument="n_validation",
            remedy="hold out fewer",
        )

    def _keys(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return numbers that agree for terms that look at the same distance."""
        i, j = self.problem.objective.pairs(terms, self.problem.n)
        if i.shape[1] > 1 or self.problem.stack.directed:
            return terms
        return (np.minimum(i, j) * self.problem.n + np.maximum(i, j)).ravel()

    def check(self, state: StochasticState) -> tuple[StochasticState, float]:
        """Return the held-out objective, or the mean of what was drawn since the last check."""
        weights = self.weights(state)
        if self.n_validation == 0:
            if state.count == 0:  # nothing drawn yet: look at a few terms, the same ones every time
                few = np.random.default_rng(0).integers(self.problem.n_terms, size=64)
                return state, self.problem.estimate(weights, few)
            objective = state.seen / state.count + self.problem.ridge(weights)
            return replace(state, seen=0.0, count=0), objective
        objective = self.problem.estimate(weights, state.validation)
        improved = objective < state.best - (self.tol or 0.0) * abs(state.best)
        if improved or not math.isfinite(state.best):
            return replace(state, best=objective, waited=0), objective
        return replace(state, waited=state.waited + 1), objective

    def status(self, state: StochasticState) -> Status | None:
        """Stop when the held-out objective has not improved for `patience` checks."""
        if self.tol is not None and state.waited >= self.patience:
            return Status.CONVERGED
        return None

    def is_finite(self, state: StochasticState) -> bool:
        """Return whether weights and values are finite."""
        return state.finite

    def weights(self, state: StochasticState) -> Floats:
        """Return the weights, or their average."""
        return state.average if self.averaging else state.weights

    def fingerprint(self) -> str:
        """Return a digest of problem and settings."""
        settings = (
            *("stochastic", self.optimizer, self.learning_rate, self.schedule, self.decay),
            *(self.batch_size, self.scaling, self.averaging, self.n_validation, self.checked),
            *(self.tol, self.patience, self.start.tolist()),
        )
        return hashlib.sha256((self.problem.fingerprint() + repr(settings)).encode()).hexdigest()
