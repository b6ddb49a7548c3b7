"""The paper's Figure 4: seconds against error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.paper.results import Results
from metricmix.plots import PALETTE, figure, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_convergence", "draw_runtime", "draw_step_cost", "growth"]


METHOD_STYLES: dict[str, tuple[str, str]] = {
    "path": (PALETTE[0], "o"),
    "path, paper's steps": (PALETTE[5], "v"),
    "path, batches": (PALETTE[3], "D"),
    "full gradient": (PALETTE[2], "s"),
    "cutting plane": (PALETTE[4], "P"),
    "cvx": (PALETTE[1], "^"),
    "cvx, reduced": ("#8a4b08", "<"),
    "trust-constr": ("#888888", "X"),
}


def draw_runtime(results: Results) -> Figure:
    """Draw the paper's picture, and beside it seconds against D.

    Small and large marks are small and large D; bars are standard deviations. "cvx + extra" counts
    the assembly of the constraints too.
    """
    sizes_there = results.sizes("complexity")
    picture, axes = panels(1, 2, 11.5, 5.0)
    left, right = axes[0]
    for method, (colour, marker) in METHOD_STYLES.items():
        points = _points(results, method)
        if not points:
            continue
        D, error, spread, seconds, total = (
            np.array(column) for column in zip(*points, strict=True)
        )
        sizes = 12.0 * np.sqrt(D / 10.0)
        left.errorbar(
            *(error, seconds), xerr=spread, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.7
        )
        left.scatter(
            *(error, seconds), s=sizes, color=colour, marker=marker, label=method, linewidths=0
        )
        right.plot(D, seconds, color=colour, marker=marker, markersize=5, linewidth=1.3)
        if (total > 1.1 * seconds).any():
            left.scatter(
                error, total, s=sizes, color="black", marker=marker, label=f"{method} + extra"
            )
            right.plot(D, total, color="black", marker=marker, markersize=4, linewidth=0.8)
    rand = [record["values"]["error"] for record in results.records("complexity", method="rand")]
    if rand:
        low, high = np.quantile(rand, [0.1, 0.9])
        left.axvspan(low, high, color="#dddddd", alpha=0.6, label="rand (80 %)")
    for ax in axes[0]:
        ax.set_yscale("log")
        ax.set_xscale("log")
        ax.set_ylabel("seconds")
    left.set_xlabel("mean square error of the metric put out")
    right.set_xlabel("images D")
    shown = [40, 60, 100, 200, 500, 1000, 2000, 5000]
    right.set_xticks(shown, [str(D) for D in shown])
    right.set_xlim(0.9 * min(sizes_there), 1.1 * max(sizes_there))
    right.minorticks_off()
    left.set_title(
        f"larger marks: larger D, {sizes_there[0]} … {sizes_there[-1]}", loc="left", fontsize=10
    )
    picture.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=6,
        fontsize=9,
        frameon=False,
    )
    return picture


def _points(results: Results, method: str) -> list[tuple[float, ...]]:
    """Return D, error and its spread, seconds without and with assembly, for each size."""
    points: list[tuple[float, ...]] = []
    for D in results.sizes("complexity"):
        records: list[Any] = [
            record
            for record in results.records("complexity", D=D, method=method)
            if "error" in record["values"]
        ]
        if records:
            errors = [record["values"]["error"] for record in records]
            total = float(np.mean([record["seconds"]["total"] for record in records]))
            extra = float(np.mean([record["seconds"].get("assembly", 0.0) for record in records]))
            points.append((D, float(np.mean(errors)), float(np.std(errors)), total - extra, total))
    return points


# -- what one step costs against n --------------------------------------------------------------

STEP_STYLES = {
    "weights of size 1": ("rows as they are settled", PALETTE[0], "o"),
    "ten times larger": ("the same, weights ten times larger", PALETTE[5], "v"),
    "formed": ("all lengths formed, then Dijkstra", PALETTE[1], "^"),
}


def draw_step_cost(results: Results) -> Figure:
    """Draw seconds per step, both axes logarithmic, with the growth of each."""
    picture, ax = figure(7.0, 4.6)
    for way, (label, colour, marker) in STEP_STYLES.items():
        n, seconds = _times(results, way)
        ax.plot(
            *(n, seconds),
            color=colour,
            marker=marker,
            linewidth=1.5,
            label=f"{label}: n^{growth(results, way):.1f} at the end",
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(n, [str(int(size)) for size in n])
    ax.set_xlabel("items n")
    ax.set_ylabel("seconds per step, one thread")
    ax.legend(frameon=False, fontsize=9)
    return picture


def growth(results: Results, way: str) -> float:
    """Return the exponent of n over the two largest sizes."""
    n, seconds = _times(results, way)
    if len(n) < 2:
        return float("nan")
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(n[-1] / n[-2]))


def _times(results: Results, way: str) -> tuple[np.ndarray, np.ndarray]:
    found = [
        (record["cell"]["n"], record["seconds"][way]) for record in results.records("step-cost")
    ]
    n, seconds = zip(*sorted(found), strict=True)
    return np.array(n, float), np.array(seconds)


# -- the paper's Figure 1 -----------------------------------------------------------------------

ROWS = {"paper": "the paper's steps\n(η = 1, times D⁻²)", "mean": "mean over pairs\n(η = 1)"}


def draw_convergence(results: Results) -> Figure:
    """Draw objective against step: a column per size, a row per scaling, a line per start."""
    sizes = results.sizes("convergence")
    picture, axes = panels(len(ROWS), len(sizes), 2.6 * len(sizes), 5.2, sharex=True)
    for column, D in enumerate(sizes):
        records = list(results.records("convergence", D=D))
        for row, (scaling, label) in enumerate(ROWS.items()):
            ax = axes[row, column]
            for k, record in enumerate(records):
                found = record["values"]
                colour = PALETTE[k % len(PALETTE)]
                ax.plot(found["step"], found[scaling], color=colour, linewidth=1.4)
            optimum = min(record["values"]["optimum"] for record in records)
            if scaling == "mean":
                ax.axhline(optimum, color="#555555", linestyle="--", linewidth=1.2)
            if column == 0:
                ax.set_ylabel(f"{label}\nobjective")
            if row == 0:
                ax.set_title(f"D = {D} (minimum {optimum:.0f})", loc="left", fontsize=10)
            else:
                ax.set_xlabel("step")
    picture.suptitle(
        "One colour per start; dashed: what the full gradient reaches",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return picture
