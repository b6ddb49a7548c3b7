"""Cost of one step of Algorithm 1 as the data grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.measure import best_time, table
from metricmix.dissimilarity import DissimilarityStack
from metricmix.objectives import LabelContrast
from metricmix.report import PALETTE, figure, save_figure
from metricmix.solvers.problem import Problem

TITLE = "One step of Algorithm 1, R = 4, n = 500 … 8000"
SIZES = (500, 1000, 2000, 4000, 8000)
R, STEPS = 4, 40
PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "step_growth"


def problem(n: int) -> Problem:
    """Return Euclidean distances in four random subspaces of well-separated classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n)
    block = np.empty((R, n, n), np.float32)
    for layer in block:
        X = rng.normal(size=(10, 8))[y] + rng.normal(size=(n, 8))
        squares = (X**2).sum(1)
        gram = squares[:, None] + squares - 2 * X @ X.T
        np.fill_diagonal(gram, 0.0)
        layer[...] = np.sqrt(np.maximum(gram + gram.T, 0.0) / 2)
    stack = DissimilarityStack.from_block(block)
    return Problem(LabelContrast(y, rho=0.01), stack, n_jobs=1)


def run() -> str:
    weights = np.array([0.5, 0.3, -0.2, 0.4])
    times, rows = [], []
    for n in SIZES:
        case = problem(n)
        terms = np.random.default_rng(1).integers(case.n_terms, size=STEPS)

        def steps(case: Problem = case, terms: np.ndarray = terms) -> None:
            for t in range(STEPS):
                case.sampled(weights, terms[t : t + 1])

        seconds = best_time(steps, repeats=5) / STEPS
        formed = None
        if n <= 2000:
            formed = best_time(lambda case=case: case.lengths(weights).matrix(n_jobs=1), repeats=2)
        times.append(seconds)
        rows.append(
            [
                str(n),
                f"{seconds * 1e6:.0f} µs",
                f"{seconds / n * 1e9:.0f} ns",
                f"{formed * 1e3:.0f} ms" if formed else "–",
            ]
        )
    slope = np.polyfit(np.log(SIZES[1:]), np.log(times[1:]), 1)[0]
    picture, axes = figure(6, 4)
    axes.loglog(SIZES, np.array(times) * 1e6, "o-", color=PALETTE[0], label="one step, measured")
    line = times[-1] * np.array(SIZES) / SIZES[-1]
    axes.loglog(SIZES, line * 1e6, "--", color="#555555", label="proportional to n")
    axes.set_xlabel("items n")
    axes.set_ylabel("microseconds")
    axes.set_xticks(SIZES, [str(n) for n in SIZES])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.set_title("One step of Algorithm 1 is linear in n", loc="left", fontsize=11)
    save_figure(picture, PICTURE)
    header = ["n", "one step", "per item", "only forming the n × n lengths"]
    return table(header, rows) + (
        f"\n\nFrom n = {SIZES[1]} on, time grows as n^{slope:.2f}.\n\n"
        "![cost of one step against n](figures/step_growth.png)"
    )
