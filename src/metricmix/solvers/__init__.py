"""How to minimise: solvers, the one loop that runs them, the one result they return."""

from metricmix.solvers.cutting_plane import CuttingPlane
from metricmix.solvers.direct import Direct, TrustConstr
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.loop import RunOptions
from metricmix.solvers.matrix_descent import PathDescent, descend_along_paths
from metricmix.solvers.minimize import minimize
from metricmix.solvers.path_generation import PathGeneration
from metricmix.solvers.progress import Progress
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.solvers.stochastic import Stochastic

__all__ = [
    "LBFGS",
    "CuttingPlane",
    "Direct",
    "PathDescent",
    "PathGeneration",
    "Progress",
    "RunOptions",
    "SolveResult",
    "Status",
    "Stochastic",
    "Trace",
    "TrustConstr",
    "descend_along_paths",
    "minimize",
]
