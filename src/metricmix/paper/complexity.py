r"""Experiment 1: what metric constraints cost, as the paper does it and by constraining directly.

.. math:: \min_\alpha \; D^{-2} \lVert M_\mathrm{true} - M_\alpha \rVert^2
          \quad \text{s.t.} \quad M_\alpha = \sum_r \alpha_r M_r \text{ is a metric}

The path method fits :math:`P(\mathrm{softplus}(M_\alpha))`, the direct ones constrain
:math:`M_\alpha` itself: two models. Each is scored on the metric that it puts out (`error`); the
plain :math:`D^{-2} \lVert M_\mathrm{true} - M_\alpha \rVert^2` stands beside it (`plain`).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning, TooLargeError
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.mixture.linear import Mixture
from metricmix.objectives import LeastSquares
from metricmix.paper.experiment import Cell, Experiment, Found, generator
from metricmix.paper.feature_space import check_not_interrupted
from metricmix.paper.inputs import N_GRAPHS, Data, check_enough, graphs_of, image_metric
from metricmix.paths import path_metric
from metricmix.solvers import minimize
from metricmix.solvers.loop import Progress
from metricmix.solvers.minimize import solver_from_options
from metricmix.solvers.problem import Problem
from metricmix.typing import Floats

__all__ = ["METHODS", "Complexity", "SmallImprovement"]


RHO = 1e-6
TOL = 1e-4
MAX_STEPS = 20_000
ONE_PAIR = {"optimizer": "sgd", "schedule": "sqrt", "batch_size": 1, "learning_rate": 0.1}
METHODS: dict[str, dict[str, Any]] = {
    "path": ONE_PAIR,
    "path, paper's steps": {"scaling": "paper"},
    "path, tested every step": {**ONE_PAIR, "check_every": 1},
    "path, batches": {},
    "full gradient": {"method": "full"},
    "cutting plane": {"method": "cutting-plane"},
    "cvx": {"method": "direct", "form": "matrix", "solver": "OSQP"},
    "cvx, reduced": {"method": "direct", "form": "weights"},
    "trust-constr": {"method": "trust-constr"},
    "rand": {},
}
"""Options of `minimize`; the path methods stop by the paper's rule.

- "path": Algorithm 1 on the mean over pairs, the rule tested every D steps;
- "path, paper's steps": the same with steps of size 1 times D^-2;
- "path, tested every step": the rule to the letter, which noise ends after a few steps;
- "path, batches": this library's own settings, 32 pairs a step;
- "full gradient", "cutting plane": what is new here, the latter exact for the direct model;
- "cvx": all constraints at once, a variable per pair of items, as in the paper;
- "cvx, reduced": the same with only the weights as variables;
- "trust-constr": scipy's solver for general constraints;
- "rand": x / ||x||, nothing learned.
"""

DESCENTS = tuple(method for method in METHODS if method.startswith(("path", "full")))
MANY = 200
SLOW = ("cvx", "cvx, reduced", "trust-constr")


def default_limits() -> dict[str, int]:
    """Return the sizes beyond which a method is not tried: it would take too long."""
    return {
        "trust-constr": 0,
        "cvx": 100,
        "cvx, reduced": 200,
        "path, tested every step": 100,
        "path, paper's steps": 1000,
        "full gradient": 1000,
        "rand": 1000,
    }


@dataclass(frozen=True)
class Complexity(Experiment):
    """Error and seconds of each method against the number of images."""

    sizes: tuple[int, ...] = (40, 50, 60, 70, 80, 100, 200, 500, 1000, 2000, 5000)
    repetitions: int = 10
    few_repetitions: int = 3
    general_sizes: tuple[int, ...] = (8, 12, 16)
    limits: dict[str, int] = field(default_factory=default_limits)

    name: ClassVar[str] = "complexity"
    alone: ClassVar[bool] = True
    settings: ClassVar = {"rho": RHO, "tol": TOL, "max_steps": MAX_STEPS, "methods": METHODS}

    def cells(self) -> list[Cell]:
        """Return a cell per size, method and repetition; fewer of these where it takes long.

        The general solver gets sizes of its own: it takes minutes at 20 images.
        """
        tried = [(D, "trust-constr") for D in self.general_sizes]
        tried += [(D, m) for D in self.sizes for m in METHODS if self.limits.get(m, D) >= D]
        return [
            {"D": D, "method": method, "repetition": k}
            for D, method in tried
            for k in range(self.few_repetitions if self._is_slow(D, method) else self.repetitions)
        ]

    @staticmethod
    def _is_slow(D: int, method: str) -> bool:
        return D > MANY or method in SLOW

    def check(self, data: Data) -> None:
        """Raise unless there are images enough."""
        check_enough(max(self.sizes), len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return a rough share of the time; the direct methods take most of it."""
        D = float(cell["D"])
        if cell["method"] == "trust-constr":
            return D**6 / 1000.0
        return D**3 / 200.0 if cell["method"] in SLOW else 200.0 + D**2 / 50.0

    def run(self, cell: Cell, data: Data, seed: int) -> Found:
        """Solve, with everything on one thread, and score the metric that came out."""
        D, repetition, method = int(cell["D"]), int(cell["repetition"]), str(cell["method"])
        _warm_up(method)
        rng = generator(seed, self.name, D, repetition)
        pixels, _ = data.images.sample(rng, D)
        metric = image_metric(pixels)
        try:
            return _solve(method, metric, graphs_of(metric), rng)
        except TooLargeError as error:
            return Found({"skipped": str(error)})


def _solve(
    method: str, metric: Floats, stack: DissimilarityStack, rng: np.random.Generator
) -> Found:
    """Return error, steps and seconds of one method."""
    x = rng.normal(size=N_GRAPHS)
    objective = LeastSquares(metric, rho=RHO)
    options: dict[str, Any] = dict(METHODS[method])
    if method in DESCENTS:
        options |= {"n_jobs": 1, "start": x / (x @ x)}
    if method.startswith("path"):
        rule = SmallImprovement(Problem(objective, stack, n_jobs=1), TOL)
        options = {
            "callback": rule,
            "check_every": len(metric),
            "max_iter": MAX_STEPS,
            "random_state": int(rng.integers(1 << 31)),
            **options,
        }
    seconds: dict[str, float] = {}
    if method == "rand":
        mixture, steps, status = Mixture(x / np.linalg.norm(x), stack.names), 0, "COMPLETED"
    else:
        started = time.perf_counter()
        with warnings.catch_warnings():  # how it ended is among the results
            warnings.simplefilter("ignore", ConvergenceWarning)
            solver, options = solver_from_options(options.pop("method", "stochastic"), options)
            result = minimize(objective, stack, solver, **options)
        check_not_interrupted(result)
        seconds = {"total": time.perf_counter() - started, **(result.seconds or {})}
        assert result.mixture is not None
        mixture, steps, status = result.mixture, result.n_iter, result.status.name
    plain = edge_lengths(stack, mixture).mixed_rows(np.arange(len(metric)))
    out = plain if mixture.link == "identity" else path_metric(stack, mixture, n_jobs=1)
    return Found(
        {
            "error": float(np.mean((metric - out) ** 2)),
            "plain": float(np.mean((metric - plain) ** 2)),
            "steps": steps,
            "status": status,
            "violation": metric_violations(out).triangle,
            "weights": mixture.weights.round(6).tolist(),
        },
        seconds,
    )


@cache
def _warm_up(method: str) -> None:
    """Compile and import what a method needs, on a problem too small to matter."""
    rng = np.random.default_rng(0)
    metric = image_metric(rng.uniform(1.0, 2.0, size=(12, 5)))
    _solve(method, metric, graphs_of(metric), rng)


# -- the paper's stopping rule for Experiment 1 -------------------------------------------------


class SmallImprovement:
    r"""Stop when the objective improves by less than a share `tol` between two checks.

    .. math:: \ell^{(t+1)} > \ell^{(t)} (1 - \mathrm{tol})

    with :math:`\ell` over all pairs, as the paper evaluates it: one closure per check. (It writes
    :math:`\ell^{(t+1)} < \ell^{(t)} (1 + 0.0001)`, which any improvement would satisfy.) What a
    check is, is left to `check_every` of the solver: single steps on single pairs go up as often as
    down, and a rule tested after each of them ends after a few.
    """

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem = problem
        self.tol = tol
        self._last: float | None = None

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop."""
        assert progress.weights is not None
        last, now = self._last, self.problem.value(progress.weights)
        self._last = now
        return last is not None and now > last * (1.0 - self.tol)
