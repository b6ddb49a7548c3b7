"""How the objective fell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from metricmix.report.style import PALETTE, figure
from metricmix.solvers.result import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_convergence"]


def plot_convergence(
    traces: Mapping[str, Trace],
    *,
    optimum: float | None = None,
    title: str = "",
    ylabel: str = "objective",
) -> Figure:
    """Return a figure of objective against iteration, a line per trace.

    Parameters
    ----------
    traces : mapping of label to Trace
    optimum : float, optional
        A value to compare with, drawn as a dashed line.
    title, ylabel : str
    """
    picture, axes = figure()
    for k, (label, trace) in enumerate(traces.items()):
        colour = PALETTE[k % len(PALETTE)]
        axes.plot(trace.iteration, trace.objective, color=colour, linewidth=1.6, label=label)
    if optimum is not None:
        axes.axhline(optimum, color="#555555", linestyle="--", linewidth=1.2, label="full gradient")
    axes.set_xlabel("step")
    axes.set_ylabel(ylabel)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    return picture
