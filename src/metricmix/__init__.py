"""metricmix learns one true metric from many dissimilarities.

>>> import metricmix as mm

The parts, in the order the data takes: :mod:`~metricmix.metric` (what a metric is),
:mod:`~metricmix.dissimilarity` (raw data to sources, and the stack of them),
:mod:`~metricmix.mixture` (weights to edge lengths), :mod:`~metricmix.paths` (edge lengths to the
metric), :mod:`~metricmix.objectives` (what to minimise), :mod:`~metricmix.solvers` (how),
:mod:`~metricmix.nearness` (the metric nearest to a dissimilarity) and
:mod:`~metricmix.estimators` (all of it as scikit-learn knows it). People's files come in through
:mod:`~metricmix.gathering`, and :mod:`~metricmix.runs` makes a folder of them. Data to try it on
come from :mod:`~metricmix.datasets`.

Importing it is cheap: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricmix import (
        datasets,
        dissimilarity,
        estimators,
        gathering,
        mixture,
        nearness,
        objectives,
        paths,
        report,
        runs,
        solvers,
    )
    from metricmix.dissimilarity.attributed_graph import sources_for
    from metricmix.dissimilarity.stack import DissimilarityStack
    from metricmix.estimators.classifier import MetricMixtureClassifier
    from metricmix.estimators.labelled_kfold import LabelledKFold
    from metricmix.estimators.mixture import MetricMixture
    from metricmix.estimators.persistence import load, save
    from metricmix.estimators.repair import MetricRepair
    from metricmix.estimators.selection import MetricMixtureClassifierCV
    from metricmix.exceptions import (
        CheckpointError,
        ConvergenceWarning,
        DatasetError,
        DatasetNotFoundError,
        InputError,
        MatrixFileError,
        MetricMixError,
        MissingPackageError,
        ModelFileError,
        NotAMetricError,
        ResultsError,
        TableFileError,
        TooLargeError,
        UnreachableWarning,
    )
    from metricmix.metric import check_metric, is_metric, metric_violations
    from metricmix.mixture.linear import Mixture
    from metricmix.nearness.any_objective import minimize_metric
    from metricmix.nearness.nearest import nearest_metric
    from metricmix.nearness.result import NearnessResult
    from metricmix.paths.all_pairs import path_metric, project
    from metricmix.paths.nearest import nearest_labelled
    from metricmix.paths.neighbours import kneighbors, kneighbors_graph
    from metricmix.paths.pair import Path, shortest_path
    from metricmix.solvers.minimize import minimize
    from metricmix.solvers.result import SolveResult, Status

_ROOMS = (
    "datasets",
    "dissimilarity",
    "estimators",
    "experiments",
    "gathering",
    "mixture",
    "nearness",
    "objectives",
    "paths",
    "report",
    "runs",
    "solvers",
)
_HOME = {
    "CheckpointError": "exceptions",
    "ConvergenceWarning": "exceptions",
    "DatasetError": "exceptions",
    "DatasetNotFoundError": "exceptions",
    "DissimilarityStack": "dissimilarity.stack",
    "InputError": "exceptions",
    "LabelledKFold": "estimators.labelled_kfold",
    "MatrixFileError": "exceptions",
    "MetricMixError": "exceptions",
    "MetricMixture": "estimators.mixture",
    "MetricMixtureClassifier": "estimators.classifier",
    "MetricMixtureClassifierCV": "estimators.selection",
    "MetricRepair": "estimators.repair",
    "MissingPackageError": "exceptions",
    "Mixture": "mixture.linear",
    "ModelFileError": "exceptions",
    "NearnessResult": "nearness.result",
    "NotAMetricError": "exceptions",
    "Path": "paths.pair",
    "ResultsError": "exceptions",
    "SolveResult": "solvers.result",
    "Status": "solvers.result",
    "TableFileError": "exceptions",
    "TooLargeError": "exceptions",
    "UnreachableWarning": "exceptions",
    "check_metric": "metric",
    "is_metric": "metric",
    "kneighbors": "paths.neighbours",
    "kneighbors_graph": "paths.neighbours",
    "load": "estimators.persistence",
    "metric_violations": "metric",
    "minimize": "solvers.minimize",
    "minimize_metric": "nearness.any_objective",
    "nearest_labelled": "paths.nearest",
    "nearest_metric": "nearness.nearest",
    "path_metric": "paths.all_pairs",
    "project": "paths.all_pairs",
    "save": "estimators.persistence",
    "shortest_path": "paths.pair",
    "sources_for": "dissimilarity.attributed_graph",
}

__all__ = [
    "CheckpointError",
    "ConvergenceWarning",
    "DatasetError",
    "DatasetNotFoundError",
    "DissimilarityStack",
    "InputError",
    "LabelledKFold",
    "MatrixFileError",
    "MetricMixError",
    "MetricMixture",
    "MetricMixtureClassifier",
    "MetricMixtureClassifierCV",
    "MetricRepair",
    "MissingPackageError",
    "Mixture",
    "ModelFileError",
    "NearnessResult",
    "NotAMetricError",
    "Path",
    "ResultsError",
    "SolveResult",
    "Status",
    "TableFileError",
    "TooLargeError",
    "UnreachableWarning",
    "check_metric",
    "datasets",
    "dissimilarity",
    "estimators",
    "experiments",
    "gathering",
    "is_metric",
    "kneighbors",
    "kneighbors_graph",
    "load",
    "metric_violations",
    "minimize",
    "minimize_metric",
    "mixture",
    "nearest_labelled",
    "nearest_metric",
    "nearness",
    "objectives",
    "path_metric",
    "paths",
    "project",
    "report",
    "runs",
    "save",
    "shortest_path",
    "solvers",
    "sources_for",
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
