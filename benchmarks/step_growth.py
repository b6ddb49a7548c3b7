"""Cost of one step of Algorithm 1 as the data grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.measure import best_time, headline, table
from metricmix.paper.experiment1_complexity import WEIGHTS, R, growing_problem
from metricmix.paths.pair import bundle_paths
from metricmix.plots import PALETTE, figure, save_figure
from metricmix.solvers.problem import Problem

TITLE = "One step of Algorithm 1, R = 4, n = 500 … 8000"
SIZES = (500, 1000, 2000, 4000, 8000)
STEPS = 100
PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "step_growth"


def run() -> str:
    times: dict[str, list[float]] = {label: [] for label in WEIGHTS}
    rows = []
    for n in SIZES:
        case = growing_problem(n)
        terms = np.random.default_rng(1).integers(case.n_terms, size=STEPS)
        cells = [str(n)]
        for label, weights in WEIGHTS.items():

            def steps(
                case: Problem = case, terms: np.ndarray = terms, weights: np.ndarray = weights
            ) -> None:
                for t in range(STEPS):
                    case.sampled(weights, terms[t : t + 1])

            seconds = best_time(steps, repeats=5) / STEPS
            i, j = (side.ravel() for side in case.objective.pairs(terms, n))
            touched = bundle_paths(case.lengths(weights), i, j, n_jobs=1).rows_touched
            times[label].append(seconds)
            cells += [f"{seconds * 1e6:.0f} µs", f"{touched.mean():.1f}"]
        weights = WEIGHTS["weights of size 1"]
        forming = best_time(
            lambda case=case, weights=weights: case.lengths(weights).matrix(n_jobs=1), repeats=2
        )
        rows.append([*cells, f"{forming * 1e3:.0f} ms"])
    draw(times)
    fits = []
    for label, values in times.items():
        slope, fixed = np.polyfit(SIZES, values, 1, w=1 / np.array(values))
        off = np.abs(np.polyval([slope, fixed], SIZES) / values - 1).max()
        fits.append(
            f"{fixed * 1e6:.0f} µs + {slope * 1e9:.0f} ns · n with {label} "
            f"(off by {off:.0%} at most)"
        )
    headline(f"one step of Algorithm 1, R = {R}, n = {SIZES[-1]}", rows[-1][1], "linear in n")
    header = ["n"]
    for label in WEIGHTS:
        header += [f"one step, {label}", "rows touched"]
    return table([*header, "only forming the n × n lengths"], rows) + (
        f"\n\nA step is linear in n: {'; '.join(fits)}. The constant part is Python overhead, "
        "the rest is mixing and scanning rows. With larger weights, more detours have to be ruled "
        "out; concentrated distances (few dimensions, large weights) need more rows as n grows.\n\n"
        "![cost of one step against n](figures/step_growth.png)"
    )


def draw(times: dict[str, list[float]]) -> None:
    picture, axes = figure(6.4, 4)
    for colour, (label, values) in zip(PALETTE, times.items(), strict=False):
        axes.plot(SIZES, np.array(values) * 1e6, "o", color=colour, label=label)
        line = np.polyfit(SIZES, values, 1, w=1 / np.array(values))
        span = np.array([0, SIZES[-1]])
        axes.plot(span, np.polyval(line, span) * 1e6, "-", color=colour, linewidth=1)
    axes.set_xlabel("items n")
    axes.set_ylabel("microseconds")
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend(frameon=False)
    axes.set_title("One step of Algorithm 1", loc="left", fontsize=11)
    save_figure(picture, PICTURE)
