r"""Experiment 1: the cost of metric constraints, by Algorithm 1 and by direct solvers.

.. math:: \min_\alpha \; D^{-2} \lVert M_\mathrm{true} - M_\alpha \rVert^2
          \quad \text{s.t.} \quad M_\alpha = \sum_r \alpha_r M_r \text{ is a metric}

The path method fits :math:`P(\mathrm{softplus}(M_\alpha))`, a direct solver constrains
:math:`M_\alpha` itself: two models. Each is scored on the metric that it returns (`error`); the
residual :math:`D^{-2} \lVert M_\mathrm{true} - M_\alpha \rVert^2` of the mixture itself is stored
too (`plain`).

Section 2.2 claims that a general solver runs out of memory, which :class:`GeneralSolver` measures,
and that a step of Algorithm 1 is cheap: :class:`StepCost` counts its operations. Seconds are those
of the processor, on one thread, so that other programs do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import dijkstra

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import TooLargeError
from metricmix.memory import available_bytes
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.mixture.linear import Mixture
from metricmix.objectives import LabelContrast, LeastSquares
from metricmix.paper.data import N_GRAPHS, Data, check_enough, graphs_of, image_metric
from metricmix.paper.experiment import Cell, CellResult, Experiment, generator, solve
from metricmix.paths import path_metric
from metricmix.paths.pair import bundle_paths
from metricmix.solvers.problem import Problem
from metricmix.solvers.result import Progress
from metricmix.typing import Floats, Indices

__all__ = [
    "LINE",
    "METHODS",
    "WEIGHTS",
    "Complexity",
    "GeneralSolver",
    "SmallImprovement",
    "StepCost",
    "default_limits",
    "growing_problem",
    "solve_by",
    "warm_up",
]


SETTINGS = {"rho": 1e-6, "tol": 1e-4, "max_steps": 20_000}
"""Ridge; tolerance of the paper's stopping rule; largest number of steps."""
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
    "rand": {},
}
"""Options of `minimize`; the path methods stop by the paper's rule.

- "path": Algorithm 1 on the mean over pairs, the rule tested every D steps;
- "path, paper's steps": the same with steps of size 1 times D^-2;
- "path, tested every step": the rule as written, which noise ends after a few steps;
- "path, batches": this library's own settings, 32 pairs a step;
- "full gradient", "cutting plane": not in the paper, the latter exact for the direct model;
- "cvx": all constraints at once, a variable per pair of items, as in the paper;
- "cvx, reduced": the same with only the weights as variables;
- "rand": x / ||x||, nothing learned.
"""

SLOW = ("cvx", "cvx, reduced")


def default_limits() -> dict[str, int]:
    """Return the sizes beyond which a method is not tried: it would take too long."""
    return {
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
    limits: dict[str, int] = field(default_factory=default_limits)

    name: ClassVar[str] = "complexity"
    alone: ClassVar[bool] = True
    settings: ClassVar = {**SETTINGS, "methods": METHODS}
    packages: ClassVar = ("cvxpy", "clarabel")

    def cells(self) -> list[Cell]:
        """Return a cell per size, method and repetition; fewer repetitions of slow methods."""
        tried = [(D, m) for D in self.sizes for m in METHODS if self.limits.get(m, D) >= D]
        few, many = range(self.few_repetitions), range(self.repetitions)
        return [
            {"D": D, "method": method, "repetition": k}
            for D, method in tried
            for k in (few if D > 200 or method in SLOW else many)
        ]

    def check(self, data: Data) -> None:
        """Raise InputError if there are too few images."""
        check_enough(max(self.sizes), len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return a rough share of the time; the direct solvers take most of it."""
        D = float(cell["D"])
        return D**3 / 200.0 if cell["method"] in SLOW else 200.0 + D**2 / 50.0

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Solve on one thread, and score the metric that comes out."""
        D, repetition, method = int(cell["D"]), int(cell["repetition"]), str(cell["method"])
        warm_up(method)
        rng = generator(seed, self.name, D, repetition)
        pixels, _ = data.images.sample(rng, D)
        metric = image_metric(pixels)
        try:
            return solve_by(method, metric, graphs_of(metric), rng)
        except TooLargeError as error:
            return CellResult({"skipped": str(error)})


def solve_by(
    method: str, metric: Floats, stack: DissimilarityStack, rng: np.random.Generator
) -> CellResult:
    """Return error, steps and seconds of one of the METHODS."""
    x = rng.normal(size=N_GRAPHS)
    objective = LeastSquares(metric, rho=SETTINGS["rho"])
    options: dict[str, Any] = dict(METHODS[method])
    if method.startswith(("path", "full")):
        options |= {"n_jobs": 1, "start": x / (x @ x)}
    if method.startswith("path"):
        problem = Problem(objective, stack, n_jobs=1)
        options = {
            "callback": SmallImprovement(problem, SETTINGS["tol"]),
            "check_every": len(metric),
            "max_iter": int(SETTINGS["max_steps"]),
            "random_state": int(rng.integers(1 << 31)),
            **options,
        }
    seconds: dict[str, float] = {}
    if method == "rand":
        mixture, steps, status = Mixture(x / np.linalg.norm(x), stack.names), 0, "COMPLETED"
    else:
        started, processor = time.perf_counter(), time.process_time()
        result = solve(objective, stack, **options)
        elapsed, spent = time.perf_counter() - started, time.process_time() - processor
        seconds = {"total": elapsed, **(result.seconds or {})}
        seconds = {part: value * spent / elapsed for part, value in seconds.items()}
        assert result.mixture is not None
        mixture, steps, status = result.mixture, result.n_iter, result.status.name
    plain = edge_lengths(stack, mixture).mixed_rows(np.arange(len(metric)))
    out = plain if mixture.link == "identity" else path_metric(stack, mixture, n_jobs=1)
    return CellResult(
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
def warm_up(method: str) -> None:
    """Compile and import what a method needs, on a tiny problem."""
    rng = np.random.default_rng(0)
    metric = image_metric(rng.uniform(1.0, 2.0, size=(12, 5)))
    solve_by(method, metric, graphs_of(metric), rng)


class SmallImprovement:
    r"""Stop when the objective improves by less than a share `tol` between two checks.

    .. math:: \ell^{(t+1)} > \ell^{(t)} (1 - \mathrm{tol})

    with :math:`\ell` over all pairs, as the paper evaluates it. (The paper writes
    :math:`\ell^{(t+1)} < \ell^{(t)} (1 + 0.0001)`, which any improvement would satisfy.) The
    solver's `check_every` says how many steps there are between two checks: single steps on single
    pairs go up as often as down, and a rule tested after each of them ends after a few.
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


# -- a general solver ---------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneralSolver(Experiment):
    """Peak memory and seconds of scipy's general constrained solver, with sparse constraints.

    Of its first steps: later ones take little more memory, and all of them minutes at D = 80.
    """

    sizes: tuple[int, ...] = (16, 40, 80)
    steps: int = 10

    name: ClassVar[str] = "general-solver"
    alone: ClassVar[bool] = True
    settings: ClassVar = SETTINGS

    def cells(self) -> list[Cell]:
        """Return a cell per size."""
        return [{"D": D} for D in self.sizes]

    def check(self, data: Data) -> None:
        """Raise InputError if there are too few images."""
        check_enough(max(self.sizes), len(data.images.pixels), "images")

    def cost(self, cell: Cell) -> float:
        """Return a cost that grows with the number of constraints."""
        return float(cell["D"]) ** 3 / 5.0

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Solve in a process of its own, whose memory is limited to what is available."""
        D = int(cell["D"])
        pixels, _ = data.images.sample(generator(seed, Complexity.name, D, 0), D)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            metric, limit = image_metric(pixels), available_bytes()
            found = pool.submit(steps_and_memory, metric, self.steps, limit)
            try:
                return found.result()
            except (MemoryError, TooLargeError, BrokenProcessPool) as error:
                return CellResult({"skipped": str(error) or "out of memory"})


def steps_and_memory(metric: Floats, steps: int, limit: int | None) -> CellResult:
    """Take steps of trust-constr; return their seconds and the peak memory of this process."""
    with suppress(ImportError):  # there are systems without limits
        import resource

        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    objective = LeastSquares(metric, rho=SETTINGS["rho"])
    started = time.process_time()
    result = solve(objective, graphs_of(metric), "trust-constr", max_iter=steps)
    found = CellResult({"steps": result.n_iter}, {"total": time.process_time() - started})
    with suppress(OSError):
        peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
        found.values["peak_gib"] = int(peak) / 2**20
    return found


# -- the cost of one step against n -------------------------------------------------------------

R, DIMENSIONS = 4, 25
WEIGHTS = {
    "weights of size 1": np.array([0.5, 0.3, -0.2, 0.4]),
    "ten times larger": np.array([5.0, 3.0, -2.0, 4.0]),
}
"""The larger the weights against the sharpness of the link, the more detours must be ruled out."""
LINE = "squared distances on a line"
"""The worst case: every shortest path passes through all items between its ends."""


@dataclass(frozen=True)
class StepCost(Experiment):
    """Operations and seconds of one step of Algorithm 1 against n, on generated data.

    An operation is a number that is read: a source of a pair that is mixed, or a length that is
    compared.
    """

    sizes: tuple[int, ...] = (250, 500, 1000, 2000, 4000, 8000)
    steps: int = 100

    name: ClassVar[str] = "step-cost"
    alone: ClassVar[bool] = True
    settings: ClassVar = {
        "R": R,
        "dimensions": DIMENSIONS,
        "weights": {k: w.tolist() for k, w in WEIGHTS.items()},
    }

    def cells(self) -> list[Cell]:
        """Return a cell per size."""
        return [{"n": n} for n in self.sizes]

    def check(self, data: Data) -> None:
        """Do nothing: the data is generated."""

    def cost(self, cell: Cell) -> float:
        """Return the cost of forming the data."""
        return 500.0 + float(cell["n"]) ** 2 / 500.0

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Take single steps on one thread, with and without forming all edge lengths."""
        n = int(cell["n"])
        problem = growing_problem(n, seed)
        terms = generator(seed, self.name, n).integers(problem.n_terms, size=self.steps)
        few = terms[: max(2, min(self.steps, 20_000_000 // n**2))]
        i, j = (side.ravel() for side in problem.objective.pairs(terms, n))
        operations, seconds = {"formed": (R + 1.0) * n * n}, {}
        line = line_problem(n)
        for label, weights in {**WEIGHTS, LINE: np.ones(1)}.items():
            one, timed = (line, few) if label == LINE else (problem, terms)
            touched = bundle_paths(one.lengths(weights), i, j, n_jobs=1).rows_touched
            operations[label] = float(touched.mean()) * len(weights) * n
            seconds[label] = seconds_per_step(one.sampled, weights, timed)
        weights = WEIGHTS["weights of size 1"]

        def formed(weights: Floats, term: Indices) -> None:
            """Take a step as the paper writes it: all edge lengths, then Dijkstra's algorithm."""
            i, j = (int(side[0, 0]) for side in problem.objective.pairs(term, n))
            lengths = problem.lengths(weights)
            w: Any = lengths.matrix(n_jobs=1)
            _, before = dijkstra(w, indices=[i], return_predecessors=True)
            edges = []
            while j != i:
                edges.append((before[0, j], j))
                j = int(before[0, j])
            if edges:
                u, v = np.array(edges).T
                lengths.edge_gradient(u, v, np.ones(len(u)))

        seconds["formed"] = seconds_per_step(formed, weights, few, repeats=2)
        return CellResult({"operations": operations}, seconds)


def line_problem(n: int) -> Problem:
    """Return the squared distances of n points on a line."""
    place = np.arange(n, dtype=np.float32)
    stack = DissimilarityStack.from_block((place[:, None] - place)[None] ** 2)
    return Problem(LabelContrast(np.arange(n) % 2, rho=0.01), stack, n_jobs=1)


def growing_problem(n: int, seed: int = 0) -> Problem:
    """Return Euclidean distances in four feature spaces of ten classes, each of mean 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n)
    block = np.empty((R, n, n), np.float32)
    for layer in block:
        X = rng.normal(size=(10, DIMENSIONS))[y] + rng.normal(size=(n, DIMENSIONS))
        squares = (X**2).sum(1)
        gram = squares[:, None] + squares - 2 * X @ X.T
        np.fill_diagonal(gram, 0.0)
        d = np.sqrt(np.maximum(gram + gram.T, 0.0) / 2)
        layer[...] = d / d.mean()
    stack = DissimilarityStack.from_block(block)
    stack.raw_range()  # cached here, so that no step computes it
    return Problem(LabelContrast(y, rho=0.01), stack, n_jobs=1)


def seconds_per_step(
    step: Callable[[Floats, Indices], Any], weights: Floats, terms: Indices, repeats: int = 5
) -> float:
    """Return the seconds of a step, the fastest of several runs, after one that is not timed."""
    step(weights, terms[:1])  # compiles
    times = []
    for _ in range(repeats):
        started = time.process_time()
        for t in range(len(terms)):
            step(weights, terms[t : t + 1])
        times.append(time.process_time() - started)
    return min(times) / len(terms)
