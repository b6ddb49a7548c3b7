"""What to minimise: objectives over the distances of a learned metric."""

from metricmix.objectives.base import Objective
from metricmix.objectives.class_means import ClassMeans
from metricmix.objectives.class_scores import class_mean_scores, half_means
from metricmix.objectives.label_contrast import LabelContrast
from metricmix.objectives.least_squares import LeastSquares
from metricmix.objectives.named import make_objective, names
from metricmix.objectives.neighbourhood import Neighbourhood
from metricmix.objectives.pair_constraints import PairConstraints
from metricmix.objectives.regression import KernelRegression, TargetDifferences
from metricmix.objectives.separable import Separable
from metricmix.objectives.triplets import Triplets

__all__ = [
    "ClassMeans",
    "KernelRegression",
    "LabelContrast",
    "LeastSquares",
    "Neighbourhood",
    "Objective",
    "PairConstraints",
    "Separable",
    "TargetDifferences",
    "Triplets",
    "class_mean_scores",
    "half_means",
    "make_objective",
    "names",
]
