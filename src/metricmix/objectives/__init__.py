"""What to minimise: objectives over the distances of a learned metric."""

from metricmix.objectives.base import Objective
from metricmix.objectives.label_contrast import LabelContrast
from metricmix.objectives.least_squares import LeastSquares
from metricmix.objectives.separable import Separable
from metricmix.objectives.triplets import Triplets

__all__ = ["LabelContrast", "LeastSquares", "Objective", "Separable", "Triplets"]
