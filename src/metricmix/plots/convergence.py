"""How the objective fell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.plots.style import PALETTE, figure, panels, save_figure
from metricmix.relaxations import (
    CorrelationClustering,
    MaxCut,
    RelaxationTrace,
    SparsestCut,
)
from metricmix.solvers.result import Trace
from metricmix.typing import Floats

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


# -- how both bounds of a certified problem came together ---------------------------------------


def plot_bounds(
    result: Any, path: str | os.PathLike[str] | None = None, *, title: str = ""
) -> Figure:
    r"""Return a figure of both bounds against seconds, and of the gap between them below.

    The optimum lies in the shaded band, whenever the run is stopped. For clusters and cuts that is
    the optimum of the relaxation; what rounding made of it is a line of its own. The gap between
    bounds l and u is a share of the larger one, :math:`(u - l) / \max(|u|, |l|)`, on a logarithmic
    scale; it ends where nothing is left.

    Parameters
    ----------
    result : what `nearest_metric`, `correlation_clustering`, `sparsest_cut`, `max_cut` return
        Or `minimize` by cutting planes, or `minimize_metric` by projection where it proves a bound;
        or the trace of it.
    path : path, optional
        Where to save it too, as PNG and SVG.
    title : str
    """
    seconds, lower, upper = _bounds_of(result)
    gap = (upper - lower) / np.maximum(np.maximum(np.abs(upper), np.abs(lower)), 1e-300)
    picture, axes = panels(2, 1, 7.0, 5.2, sharex=True, height_ratios=[2, 1])
    top, below = axes[:, 0]
    top.fill_between(seconds, lower, upper, color=PALETTE[5], alpha=0.25, linewidth=0, step="post")
    for bound, colour, label in ((upper, 1, "upper bound"), (lower, 0, "lower bound")):
        top.step(seconds, bound, where="post", color=PALETTE[colour], linewidth=1.6, label=label)
    if isinstance(result, (CorrelationClustering, SparsestCut, MaxCut)):
        what = "clusters" if isinstance(result, CorrelationClustering) else "cut"
        line = {"color": PALETTE[3], "linewidth": 1.2, "linestyle": "--"}
        top.axhline(result.objective, label=f"the {what} found", **line)
    top.legend(loc="best", frameon=False, fontsize=9)
    top.set_ylabel("objective")
    top.set_title(title or f"gap {gap[-1]:.2g} after {seconds[-1]:.2g} s", loc="left", fontsize=11)
    left = gap > 0
    if left.any():
        below.step(seconds[left], gap[left], where="post", color=PALETTE[2], linewidth=1.6)
        below.set_yscale("log")
    below.set_ylabel("gap")
    below.set_xlabel("seconds")
    if path is not None:
        save_figure(picture, path)
    return picture


def _bounds_of(result: Any) -> tuple[Floats, Floats, Floats]:
    """Return seconds and both bounds of a result or a trace."""
    trace = getattr(result, "trace", result)
    if isinstance(trace, RelaxationTrace):
        lists = (trace.seconds, trace.lower_bound, trace.upper_bound)
    elif isinstance(trace, Trace) and (trace.bound or "lower_bound" in trace.details):
        lists = (trace.time, trace.bound or trace.details["lower_bound"], trace.objective)
    else:
        raise InputError(
            argument="result",
            expected=(
                "a result with bounds (of nearest_metric, a relaxation, "
                "minimize(method='cutting-plane') or a convex "
                "minimize_metric(method='projected')), or its trace"
            ),
            found=type(result).__name__,
        )
    if not len(trace):
        raise InputError(
            argument="result", expected="a trace of at least one round", found="an empty one"
        )
    seconds, lower, upper = (np.array(values, np.float64) for values in lists)
    known = np.isfinite(lower) & np.isfinite(upper)
    if not known.any():
        raise InputError(
            argument="result", expected="bounds from both sides, found none in the trace"
        )
    return seconds[known], lower[known], upper[known]
