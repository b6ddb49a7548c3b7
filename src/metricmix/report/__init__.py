"""Pictures of what was learned."""

from metricmix.report.convergence import plot_convergence
from metricmix.report.style import PALETTE, figure, save_figure

__all__ = ["PALETTE", "figure", "plot_convergence", "save_figure"]
