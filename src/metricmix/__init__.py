"""metricmix learns one true metric from many dissimilarities.

>>> import metricmix as mm

The parts, in the order the data takes: :mod:`~metricmix.metric` (what a metric is),
:mod:`~metricmix.dissimilarity` (raw data to sources, and the stack of them),
:mod:`~metricmix.mixture` (weights to edge lengths), :mod:`~metricmix.paths` (edge lengths to the
metric), :mod:`~metricmix.objectives` (what to minimise) and :mod:`~metricmix.solvers` (how).

Importing it is cheap: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricmix import dissimilarity, mixture, objectives, paths, solvers
    from metricmix.dissimilarity.stack import DissimilarityStack
    from metricmix.exceptions import (
        CheckpointError,
        ConvergenceWarning,
        InputError,
        MetricMixError,
        NotAMetricError,
        UnreachableWarning,
    )
    from metricmix.metric import check_metric, is_metric, metric_violations
    from metricmix.mixture.linear import Mixture
    from metricmix.paths.all_pairs import path_metric, project
    from metricmix.paths.nearest import nearest_labelled
    from metricmix.paths.neighbours import kneighbors, kneighbors_graph
    from metricmix.paths.pair import Path, shortest_path
    from metricmix.solvers.minimize import minimize
    from metricmix.solvers.result import SolveResult, Status
    from metricmix.solvers.whole_matrix import minimize_metric

_ROOMS = ("dissimilarity", "mixture", "objectives", "paths", "solvers")
_HOME = {
    "CheckpointError": "exceptions",
    "ConvergenceWarning": "exceptions",
    "DissimilarityStack": "dissimilarity.stack",
    "InputError": "exceptions",
    "MetricMixError": "exceptions",
    "Mixture": "mixture.linear",
    "NotAMetricError": "exceptions",
    "Path": "paths.pair",
    "SolveResult": "solvers.result",
    "Status": "solvers.result",
    "UnreachableWarning": "exceptions",
    "check_metric": "metric",
    "is_metric": "metric",
    "kneighbors": "paths.neighbours",
    "kneighbors_graph": "paths.neighbours",
    "metric_violations": "metric",
    "minimize": "solvers.minimize",
    "minimize_metric": "solvers.whole_matrix",
    "nearest_labelled": "paths.nearest",
    "path_metric": "paths.all_pairs",
    "project": "paths.all_pairs",
    "shortest_path": "paths.pair",
}

__all__ = [
    "CheckpointError",
    "ConvergenceWarning",
    "DissimilarityStack",
    "InputError",
    "MetricMixError",
    "Mixture",
    "NotAMetricError",
    "Path",
    "SolveResult",
    "Status",
    "UnreachableWarning",
    "check_metric",
    "dissimilarity",
    "is_metric",
    "kneighbors",
    "kneighbors_graph",
    "metric_violations",
    "minimize",
    "minimize_metric",
    "mixture",
    "nearest_labelled",
    "objectives",
    "path_metric",
    "paths",
    "project",
    "shortest_path",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        value: Any = import_module(f"metricmix.{name}")
    elif name in _HOME:
        value = getattr(import_module(f"metricmix.{_HOME[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("metricmix")
    else:
        raise AttributeError(f"module 'metricmix' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
