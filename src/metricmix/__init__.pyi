# The public names of the package: type checkers and metricmix/__init__.py read them here.

from metricmix import app as app
from metricmix import datasets as datasets
from metricmix import dissimilarity as dissimilarity
from metricmix import estimators as estimators
from metricmix import mixture as mixture
from metricmix import nearness as nearness
from metricmix import objectives as objectives
from metricmix import paper as paper
from metricmix import paths as paths
from metricmix import plots as plots
from metricmix import relaxations as relaxations
from metricmix import solvers as solvers
from metricmix import torch as torch
from metricmix.app.fit_result import FitResult as FitResult
from metricmix.app.front_door import fit as fit
from metricmix.app.front_door import load as load
from metricmix.dissimilarity.default_sources import sources_for as sources_for
from metricmix.dissimilarity.edge_stack import EdgeStack as EdgeStack
from metricmix.dissimilarity.stack import DissimilarityStack as DissimilarityStack
from metricmix.estimators.classifier import MetricMixtureClassifier as MetricMixtureClassifier
from metricmix.estimators.cross_validation import LabelledKFold as LabelledKFold
from metricmix.estimators.cross_validation import (
    MetricMixtureClassifierCV as MetricMixtureClassifierCV,
)
from metricmix.estimators.metric_mixture import MetricMixture as MetricMixture
from metricmix.estimators.metric_repair import MetricRepair as MetricRepair
from metricmix.estimators.regressor import MetricMixtureRegressor as MetricMixtureRegressor
from metricmix.exceptions import CheckpointError as CheckpointError
from metricmix.exceptions import ClusterError as ClusterError
from metricmix.exceptions import ConvergenceWarning as ConvergenceWarning
from metricmix.exceptions import DatasetError as DatasetError
from metricmix.exceptions import DatasetNotFoundError as DatasetNotFoundError
from metricmix.exceptions import InputError as InputError
from metricmix.exceptions import MatrixFileError as MatrixFileError
from metricmix.exceptions import MetricMixError as MetricMixError
from metricmix.exceptions import MissingPackageError as MissingPackageError
from metricmix.exceptions import ModelFileError as ModelFileError
from metricmix.exceptions import NotAMetricError as NotAMetricError
from metricmix.exceptions import ProjectionWarning as ProjectionWarning
from metricmix.exceptions import ResultsError as ResultsError
from metricmix.exceptions import TableFileError as TableFileError
from metricmix.exceptions import TooLargeError as TooLargeError
from metricmix.exceptions import UnreachableWarning as UnreachableWarning
from metricmix.items.items import Items as Items
from metricmix.items.tables import as_relation as as_relation
from metricmix.metric import check_metric as check_metric
from metricmix.metric import is_metric as is_metric
from metricmix.metric import metric_violations as metric_violations
from metricmix.mixture.linear import Mixture as Mixture
from metricmix.nearness.minimize_metric import minimize_metric as minimize_metric
from metricmix.nearness.nearest_metric import NearnessResult as NearnessResult
from metricmix.nearness.nearest_metric import nearest_metric as nearest_metric
from metricmix.paths.all_pairs import path_metric as path_metric
from metricmix.paths.all_pairs import project as project
from metricmix.paths.distance_files import write_distances as write_distances
from metricmix.paths.learned_metric import Metric as Metric
from metricmix.paths.neighbours import kneighbors as kneighbors
from metricmix.paths.neighbours import kneighbors_graph as kneighbors_graph
from metricmix.paths.neighbours import nearest_labelled as nearest_labelled
from metricmix.paths.pair import Path as Path
from metricmix.paths.pair import shortest_path as shortest_path
from metricmix.paths.sampled_violations import sampled_violations as sampled_violations
from metricmix.solvers.minimize import minimize as minimize
from metricmix.solvers.result import SolveResult as SolveResult
from metricmix.solvers.result import Status as Status
from metricmix.storage.models import save as save

__version__: str
