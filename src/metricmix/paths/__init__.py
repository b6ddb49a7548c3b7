"""Shortest paths over edge lengths: one pair, nearest, from some, all pairs; soft paths."""

from metricmix.paths.all_pairs import path_metric, project
from metricmix.paths.contributions import Contributions
from metricmix.paths.geodesic import Stretch, stretch
from metricmix.paths.joined_items import Joined
from metricmix.paths.learned_metric import Metric
from metricmix.paths.neighbours import kneighbors, kneighbors_graph, nearest_labelled
from metricmix.paths.pair import Path, PathBundle, shortest_path, shortest_paths
from metricmix.paths.sampled_violations import SampledViolations, sampled_violations
from metricmix.paths.soft import SoftPaths, soft_paths
from metricmix.paths.trees import PathTrees, shortest_path_trees

__all__ = [
    "Contributions",
    "Joined",
    "Metric",
    "Path",
    "PathBundle",
    "PathTrees",
    "SampledViolations",
    "SoftPaths",
    "Stretch",
    "kneighbors",
    "kneighbors_graph",
    "nearest_labelled",
    "path_metric",
    "project",
    "sampled_violations",
    "shortest_path",
    "shortest_path_trees",
    "shortest_paths",
    "soft_paths",
    "stretch",
]
