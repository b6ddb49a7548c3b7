"""Figures: learned weights, convergence, certified bounds, reliability of probabilities."""

from metricmix.plots.convergence import plot_bounds, plot_convergence
from metricmix.plots.reliability import plot_reliability
from metricmix.plots.style import PALETTE, figure, panels, save_figure
from metricmix.plots.weights import plot_weights

__all__ = [
    "PALETTE",
    "figure",
    "panels",
    "plot_bounds",
    "plot_convergence",
    "plot_reliability",
    "plot_weights",
    "save_figure",
]
