"""From raw data to dissimilarities: features, graphs, and the stack that holds them."""

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.default_sources import sources_for
from metricmix.dissimilarity.diffusion import diffusion
from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet
from metricmix.dissimilarity.features import FeatureSource, features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.mahalanobis import mahalanobis
from metricmix.dissimilarity.matrix import DissimilarityMatrix, SourceFacts, facts
from metricmix.dissimilarity.neighbour_overlap import jaccard, resource_allocation
from metricmix.dissimilarity.path_length import knn_path_length, path_length
from metricmix.dissimilarity.predictions import ProbabilitySource
from metricmix.dissimilarity.recipes import Recipe, as_recipe
from metricmix.dissimilarity.sources import ComputedSource, GraphSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised_recipes import supervised
from metricmix.dissimilarity.threshold_graphs import threshold_graphs

__all__ = [
    "ComputedSource",
    "CrossDissimilarities",
    "CrossEdges",
    "DissimilarityMatrix",
    "DissimilarityStack",
    "EdgeReport",
    "EdgeSet",
    "FeatureSource",
    "Graph",
    "GraphSource",
    "ProbabilitySource",
    "Recipe",
    "Source",
    "SourceFacts",
    "as_graph",
    "as_recipe",
    "diffusion",
    "facts",
    "features",
    "jaccard",
    "knn_path_length",
    "mahalanobis",
    "path_length",
    "resource_allocation",
    "sources_for",
    "supervised",
    "threshold_graphs",
]
