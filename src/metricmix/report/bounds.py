"""How both bounds of a certified problem came together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.nearness.relaxations.result import RelaxationTrace
from metricmix.nearness.result import NearnessTrace
from metricmix.report.style import PALETTE, panels, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_bounds"]

Floats = NDArray[np.float64]


def plot_bounds(
    result: Any, path: str | os.PathLike[str] | None = None, *, title: str = ""
) -> Figure:
    r"""Return a figure of both bounds against seconds, and of the gap between them below.

    The optimum lies in the shaded band, whenever the run is stopped. The gap between bounds l and u
    is a share of the larger one, :math:`(u - l) / \max(|u|, |l|)`, on a logarithmic scale; it
    ends where nothing is left.

    Parameters
    ----------
    result : what `nearest_metric`, `correlation_clustering`, `sparsest_cut`, `max_cut` return
        Or the trace of it.
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
    elif isinstance(trace, NearnessTrace):
        lists = (trace.time, trace.lower_bound, trace.objective)
    else:
        raise InputError(
            "result: expected what nearest_metric, correlation_clustering, sparsest_cut or max_cut "
            f"returns, or its trace, got {type(result).__name__}"
        )
    if not len(trace):
        raise InputError("result: expected a trace of at least one round, got an empty one")
    seconds, lower, upper = (np.array(values, np.float64) for values in lists)
    return seconds, lower, upper
