"""The paper's Figure 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricmix.experiments.results import Results
from metricmix.report import PALETTE, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_convergence"]

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
