"""Pictures of what was learned."""

from metricmix.report.bounds import plot_bounds
from metricmix.report.convergence import plot_convergence
from metricmix.report.reliability import plot_reliability
from metricmix.report.style import PALETTE, figure, panels, save_figure
from metricmix.report.weights import plot_weights

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
