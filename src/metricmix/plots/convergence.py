"""Convergence: the objective against iterations, and certified bounds against seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.plots.style import PALETTE, figure, panels, save_figure
from metricmix.relaxations import CorrelationClustering, Relaxation
from metricmix.solvers.result import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_bounds", "plot_convergence"]


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


# -- certified bounds ---------------------------------------------------------------------------


def plot_bounds(
    result: Any, path: str | os.PathLike[str] | None = None, *, title: str = ""
) -> Figure:
    r"""Return a figure of both bounds on the optimum against seconds, and of the gap below.

    The bounds are the objective and the certified bound of a run. The optimum lies in the shaded
    band between them, at whatever time the run is stopped. For clusters and cuts this is the
    optimum of the relaxation; the objective after rounding is a line of its own. The gap between
    bounds l and u is relative to the larger one, :math:`(u - l) / \max(|u|, |l|)`, on a logarithmic
    scale; gaps of 0 are not drawn.

    Parameters
    ----------
    result : SolveResult or Trace
        Any result with a certified bound: of `nearest_metric`, `correlation_clustering`,
        `sparsest_cut`, `max_cut`, of `minimize` by cutting planes, of `minimize_metric` by
        projection if the objective is convex.
    path : path, optional
        Where to save it too, as PNG and SVG.
    title : str

    Raises
    ------
    InputError
        If there is no certified bound, or the trace is empty.
    """
    trace = getattr(result, "trace", result)
    if not isinstance(trace, Trace):
        raise InputError(
            argument="result",
            expected="a result with a certified bound, or its trace",
            found=type(result).__name__,
        )
    if not len(trace):
        raise InputError(
            argument="result", expected="a trace of at least one check", found="an empty one"
        )
    certified = trace.bound or trace.details.get("lower_bound", [])
    certified = certified or getattr(trace, "lower_bound", [])
    seconds, value, bound = (
        np.array(values, np.float64) for values in (trace.time, trace.objective, certified)
    )
    if not len(bound):
        raise InputError(
            argument="result",
            expected="a result with a certified bound",
            found="a trace without bounds",
            remedy=(
                "nearest_metric, the relaxations, minimize(method='cutting-plane') and "
                "minimize_metric(method='projected') with a convex objective give one"
            ),
        )
    known = np.isfinite(value) & np.isfinite(bound)
    if not known.any():
        raise InputError(argument="result", expected="finite bounds", found="none in the trace")
    seconds, value, bound = seconds[known], value[known], bound[known]
    lower, upper = np.minimum(value, bound), np.maximum(value, bound)
    gap = (upper - lower) / np.maximum(np.maximum(np.abs(upper), np.abs(lower)), 1e-300)
    picture, axes = panels(2, 1, 7.0, 5.2, sharex=True, height_ratios=[2, 1])
    top, below = axes[:, 0]
    top.fill_between(seconds, lower, upper, color=PALETTE[5], alpha=0.25, linewidth=0, step="post")
    for line, colour, label in ((upper, 1, "upper bound"), (lower, 0, "lower bound")):
        top.step(seconds, line, where="post", color=PALETTE[colour], linewidth=1.6, label=label)
    if isinstance(result, Relaxation):
        what = "clusters" if isinstance(result, CorrelationClustering) else "cut"
        style = {"color": PALETTE[3], "linewidth": 1.2, "linestyle": "--"}
        top.axhline(result.objective, label=f"the {what} found", **style)
    top.legend(loc="best", frameon=False, fontsize=9)
    top.set_ylabel("objective")
    top.set_title(title or f"gap {gap[-1]:.2g} after {seconds[-1]:.2g} s", loc="left", fontsize=11)
    positive = gap > 0
    if positive.any():
        below.step(seconds[positive], gap[positive], where="post", color=PALETTE[2], linewidth=1.6)
        below.set_yscale("log")
    below.set_ylabel("gap")
    below.set_xlabel("seconds")
    if path is not None:
        save_figure(picture, path)
    return picture
