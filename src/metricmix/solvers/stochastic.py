r"""Algorithm 1: stochastic sub-gradient descent, one shortest path per sampled pair.

.. math:: \alpha \leftarrow \alpha - \eta_t \Big( \nabla_\alpha g_t(d) + 2 \rho \alpha \Big)

with a term t drawn at random in each step. The objective is a *mean* over terms, so a single term
is an unbiased estimate of it, and the step does not shrink as the data grows. (The paper
multiplies both parts by :math:`D^{-2}`; ``scaling="paper"`` does so literally.) Steps are not
checked for descent, as in the paper. The paper suggests, but does not implement, checking them on
a small set of held-out pairs: `n_validation` stops early, and `checked` rejects steps as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from metricmix.exceptions import InputError
from metricmix.solvers.loop import Outcome
from metricmix.solvers.minimize import FEW_TERMS, METHODS, IterativeSolver
from metricmix.solvers.problem import project_weights
from metricmix.solvers.result import SolveResult, Status
from metricmix.state import stored
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice, check_integer, check_number

__all__ = ["Stochastic", "StochasticState", "step_size"]

SCHEDULES = ("constant", "sqrt", "inverse")


def step_size(learning_rate: float, schedule: str, decay: float, iteration: int) -> float:
    r"""Return :math:`\eta`, :math:`\eta / \sqrt{1 + t/\tau}` or :math:`\eta / (1 + t/\tau)`."""
    if schedule == "constant":
        return learning_rate
    slowed = 1.0 + iteration / decay
    return learning_rate / (math.sqrt(slowed) if schedule == "sqrt" else slowed)


@dataclass
class StochasticState:
    """State of the descent: weights, their average, Adam's moments, and values at the checks."""

    validation: Indices
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


UNSET: Any = None
"""The default depends on `scaling`."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "mean": {"optimizer": "adam", "learning_rate": 0.05, "schedule": "sqrt", "batch_size": 32},
    "paper": {"optimizer": "sgd", "learning_rate": 1.0, "schedule": "constant", "batch_size": 1},
}


@METHODS.register(
    "stochastic",
    words="Algorithm 1. Each step draws a few pairs and needs one shortest path each, O(R n) per "
    "pair",
    default=True,
)
@stored("Stochastic")
@dataclass(frozen=True, kw_only=True)
class Stochastic(IterativeSolver[StochasticState]):
    """Algorithm 1 and its variants: ``method="stochastic"``.

    Parameters
    ----------
    optimizer : {"adam", "sgd"}
        Default "adam"; "sgd" with ``scaling="paper"``.
    learning_rate : float
        Size of the first steps; with "adam" about the change of each weight per step. Default 0.05;
        1 with ``scaling="paper"``.
    schedule : {"constant", "sqrt", "inverse"}
        How the step size falls. Default "sqrt"; "constant" with ``scaling="paper"``.
    decay : float
        Number of steps after which the step size begins to fall.
    batch_size : int
        Terms per step. Default 32; 1 with ``scaling="paper"``.
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

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.solvers.Stochastic(scaling="paper").batch_size
    1
    """

    optimizer: str = UNSET
    learning_rate: float = UNSET
    schedule: str = UNSET
    decay: float = 100.0
    batch_size: int = UNSET
    scaling: str = "mean"
    averaging: bool = False
    n_validation: int = 0
    checked: bool = False
    tol: float | None = None
    patience: int = 10

    state_type = StochasticState

    def __post_init__(self) -> None:
        check_choice(self.scaling, tuple(DEFAULTS), name="scaling")
        for name, value in DEFAULTS[self.scaling].items():
            if getattr(self, name) is UNSET:
                object.__setattr__(self, name, value)
        check_choice(self.optimizer, ("adam", "sgd"), name="optimizer")
        check_choice(self.schedule, SCHEDULES, name="schedule")
        check_number(self.learning_rate, name="learning_rate", low=0, open_low=True)
        check_number(self.decay, name="decay", low=0, open_low=True)
        check_integer(self.batch_size, name="batch_size", low=1)
        check_integer(self.patience, name="patience", low=1)
        check_integer(self.n_validation, name="n_validation")
        if self.tol is not None:
            check_number(self.tol, name="tol", low=0)
        if self.scaling == "paper" and self.optimizer == "adam":
            raise InputError(
                "scaling='paper' goes with 'sgd', got 'adam', which undoes any scaling",
                argument="optimizer",
            )
        if (self.checked or self.tol is not None) and self.n_validation == 0:
            which = "checked" if self.checked else "tol"
            raise InputError(
                f"{which} needs held-out terms, got 0", argument="n_validation", remedy="try 200"
            )

    @property
    def returns(self) -> Literal["best", "mean"]:
        """Held-out terms determine the best state."""
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
        n_terms, held_out = self.problem.n_terms, np.empty(0, np.int64)
        if not self.n_validation < n_terms:
            raise InputError(
                argument="n_validation",
                expected=f"0 .. {n_terms - 1}, fewer than there are terms",
                found=self.n_validation,
            )
        if self.n_validation:
            held_out = rng.choice(n_terms, self.n_validation, replace=False)
        start = project_weights(self.start, self.problem.constraint)
        zeros = np.zeros_like(start)
        return StochasticState(
            held_out, start, start, zeros, zeros, 0, 1.0, 0.0, 0, math.nan, math.inf, 0, True
        )

    def step(
        self, state: StochasticState, iteration: int, rng: np.random.Generator
    ) -> StochasticState:
        """Draw terms, find their shortest paths, step against the gradient."""
        terms = self.draw(state, rng)
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
        if self.checked and finite:  # a step that raises the held-out objective is not taken
            known = state.held_out
            if math.isnan(known):
                known = self.problem.estimate(state.weights, state.validation)
            reached = self.problem.estimate(weights, state.validation)
            if reached <= known:
                shrink = min(1.0, 1.5 * state.shrink)
                after = replace(after, held_out=reached, shrink=shrink)
            else:
                after = replace(state, held_out=known, shrink=0.5 * state.shrink)
        # Averages that favour late iterates: weight 2 / (t + 2) for the newest.
        share = 2.0 / (iteration + 2.0)
        return replace(after, average=(1.0 - share) * state.average + share * after.weights)

    def draw(self, state: StochasticState, rng: np.random.Generator) -> Indices:
        """Draw the terms of a step, none of them held out."""
        objective, n = self.problem.objective, self.problem.n
        terms = objective.sample(rng, self.batch_size, n)
        if self.n_validation == 0:
            return terms
        held_out = self._keys(state.validation)
        for _ in range(10_000):
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

    def _keys(self, terms: Indices) -> Indices:
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
                few = np.random.default_rng(0).integers(self.problem.n_terms, size=FEW_TERMS)
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

    @property
    def objective_kind(self) -> str:
        """What a check evaluates."""
        return "held-out" if self.n_validation else "running mean"

    def result(self, outcome: Outcome) -> SolveResult:
        """Return the result, with the objective over all terms where that is cheap."""
        result = super().result(outcome)
        if self.problem.is_cheap:
            value = self.problem.value(self.weights(outcome.state))
            if np.isfinite(value):
                return replace(result, objective=value, objective_kind=self.problem.kind)
        return result
