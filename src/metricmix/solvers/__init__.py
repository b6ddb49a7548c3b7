"""How to minimise: solvers, the one loop that runs them, the one result they return."""

from textwrap import fill

from metricmix.solvers.cutting_plane import CuttingPlane
from metricmix.solvers.direct import Direct, TrustConstr
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.loop import RunOptions
from metricmix.solvers.matrix_descent import PathDescent, descend_along_paths
from metricmix.solvers.minimize import METHODS, minimize
from metricmix.solvers.newton import Newton
from metricmix.solvers.path_generation import PathGeneration
from metricmix.solvers.result import Progress, SolveResult, Status, Trace
from metricmix.solvers.stochastic import Stochastic

__all__ = [
    "LBFGS",
    "CuttingPlane",
    "Direct",
    "Newton",
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


def list_of_methods(linear: bool) -> str:
    """Return the solvers of one kind as a list: name, class, what it does."""
    kept = [said for said in METHODS.declarations() if METHODS[said.name].linear == linear]
    kinds = [f"metricmix.solvers.{METHODS[said.name].__name__}" for said in kept]
    lines = [
        fill(
            f'- "{said.name}", :class:`~{kind}`: {said.words}.',
            100,
            initial_indent=" " * 8,
            subsequent_indent=" " * 10,
        )
        for said, kind in zip(kept, kinds, strict=True)
    ]
    return "\n".join(lines).strip()


assert minimize.__doc__ is not None
for place, linear in (("{path_methods}", False), ("{linear_methods}", True)):
    minimize.__doc__ = minimize.__doc__.replace(place, list_of_methods(linear))
