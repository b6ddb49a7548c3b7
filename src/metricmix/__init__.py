"""metricmix learns one true metric from many dissimilarities.

>>> import metricmix as mm

The method, in the order of the data flow: :mod:`~metricmix.metric` (checking a metric),
:mod:`~metricmix.dissimilarity` (raw data to sources, and the stack of them),
:mod:`~metricmix.mixture` (weights to edge lengths), :mod:`~metricmix.paths` (edge lengths to the
metric), :mod:`~metricmix.objectives` (what to minimise), :mod:`~metricmix.solvers` (how) and
:mod:`~metricmix.estimators` (scikit-learn estimators).

Metric-constrained optimisation: :mod:`~metricmix.nearness` (nearest metrics, any objective over
metrics) and :mod:`~metricmix.relaxations` (correlation clustering, sparsest and maximum cut).

The application, from user files to labels and a page: :mod:`~metricmix.app`. The paper's
experiments: :mod:`~metricmix.paper`. Beside these, :mod:`~metricmix.datasets` and
:mod:`~metricmix.plots`; with PyTorch, :mod:`~metricmix.torch`.

Importing the package is cheap: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricmix import (
        app,
        datasets,
        dissimilarity,
        estimators,
        mixture,
        nearness,
        objectives,
        paper,
        paths,
        plots,
        relaxations,
        solvers,
        torch,
    )
    from metricmix.dissimilarity.default_sources import sources_for
    from metricmix.dissimilarity.edge_stack import EdgeStack
    from metricmix.dissimilarity.stack import DissimilarityStack
    from metricmix.estimators.classifier import MetricMixtureClassifier
    from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
    from metricmix.estimators.files.models import load, save
    from metricmix.estimators.metric_mixture import MetricMixture
    from metricmix.estimators.metric_repair import MetricRepair
    from metricmix.estimators.regressor import MetricMixtureRegressor
    from metricmix.estimators.selection import LabelledKFold
    from metricmix.exceptions import (
        CheckpointError,
        ClusterError,
        ConvergenceWarning,
        DatasetError,
        DatasetNotFoundError,
        InputError,
        MatrixFileError,
        MetricMixError,
        MissingPackageError,
        ModelFileError,
        NotAMetricError,
        ProjectionWarning,
        ResultsError,
        TableFileError,
        TooLargeError,
        UnreachableWarning,
    )
    from metricmix.metric import check_metric, is_metric, metric_violations
    from metricmix.mixture.linear import Mixture
    from metricmix.nearness.minimize_metric import minimize_metric
    from metricmix.nearness.nearest_metric import NearnessResult, nearest_metric
    from metricmix.paths.all_pairs import path_metric, project
    from metricmix.paths.distance_files import write_distances
    from metricmix.paths.neighbours import kneighbors, kneighbors_graph, nearest_labelled
    from metricmix.paths.pair import Path, shortest_path
    from metricmix.paths.sampled_violations import sampled_violations
    from metricmix.solvers.minimize import minimize
    from metricmix.solvers.result import SolveResult, Status

_PACKAGES = (
    "app",
    "datasets",
    "dissimilarity",
    "estimators",
    "mixture",
    "nearness",
    "objectives",
    "paper",
    "paths",
    "plots",
    "relaxations",
    "solvers",
    "torch",
)
_HOME = {
    "CheckpointError": "exceptions",
    "ClusterError": "exceptions",
    "ConvergenceWarning": "exceptions",
    "DatasetError": "exceptions",
    "DatasetNotFoundError": "exceptions",
    "DissimilarityStack": "dissimilarity.stack",
    "EdgeStack": "dissimilarity.edge_stack",
    "InputError": "exceptions",
    "LabelledKFold": "estimators.selection",
    "MatrixFileError": "exceptions",
    "MetricMixError": "exceptions",
    "MetricMixture": "estimators.metric_mixture",
    "MetricMixtureClassifier": "estimators.classifier",
    "MetricMixtureClassifierCV": "estimators.cross_validation",
    "MetricMixtureRegressor": "estimators.regressor",
    "MetricRepair": "estimators.metric_repair",
    "MissingPackageError": "exceptions",
    "Mixture": "mixture.linear",
    "ModelFileError": "exceptions",
    "NearnessResult": "nearness.nearest_metric",
    "NotAMetricError": "exceptions",
    "ProjectionWarning": "exceptions",
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
    "load": "estimators.files.models",
    "metric_violations": "metric",
    "minimize": "solvers.minimize",
    "minimize_metric": "nearness.minimize_metric",
    "nearest_labelled": "paths.neighbours",
    "nearest_metric": "nearness.nearest_metric",
    "path_metric": "paths.all_pairs",
    "project": "paths.all_pairs",
    "sampled_violations": "paths.sampled_violations",
    "save": "estimators.files.models",
    "shortest_path": "paths.pair",
    "sources_for": "dissimilarity.default_sources",
    "write_distances": "paths.distance_files",
}

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ConvergenceWarning",
    "DatasetError",
    "DatasetNotFoundError",
    "DissimilarityStack",
    "EdgeStack",
    "InputError",
    "LabelledKFold",
    "MatrixFileError",
    "MetricMixError",
    "MetricMixture",
    "MetricMixtureClassifier",
    "MetricMixtureClassifierCV",
    "MetricMixtureRegressor",
    "MetricRepair",
    "MissingPackageError",
    "Mixture",
    "ModelFileError",
    "NearnessResult",
    "NotAMetricError",
    "Path",
    "ProjectionWarning",
    "ResultsError",
    "SolveResult",
    "Status",
    "TableFileError",
    "TooLargeError",
    "UnreachableWarning",
    "app",
    "check_metric",
    "datasets",
    "dissimilarity",
    "estimators",
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
    "paper",
    "path_metric",
    "paths",
    "plots",
    "project",
    "relaxations",
    "sampled_violations",
    "save",
    "shortest_path",
    "solvers",
    "sources_for",
    "torch",
    "write_distances",
]


def __getattr__(name: str) -> Any:
    if name == "torch":
        from metricmix.devices import torch_module

        torch_module("tensors")  # says how to install PyTorch where it is missing
    if name in _PACKAGES:
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
