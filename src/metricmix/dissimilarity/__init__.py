"""From raw data to dissimilarities: features, graphs, and the stack that holds them.

A source has three states:

1. *Specified*, without data (:mod:`~metricmix.dissimilarity.specs`): a kind with the columns, graph
   or matrix of items that it is computed from, or a function of a feature table that is given
   later.
2. *Bound* to items or to a table (:mod:`~metricmix.dissimilarity.item_sources`): it gives the
   dissimilarities of all items, the nearest ones, and those from new items to all.
3. *In a stack* (:mod:`~metricmix.dissimilarity.sources`): rows, blocks and pairs alone, which is
   all that learning needs.
"""

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.default_sources import sources_for
from metricmix.dissimilarity.diffusion import diffusion
from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet
from metricmix.dissimilarity.feature_rows import FeatureSource
from metricmix.dissimilarity.features import features, mahalanobis
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.learned_sources import supervised
from metricmix.dissimilarity.matrix import DissimilarityMatrix, SourceFacts, facts
from metricmix.dissimilarity.neighbour_overlap import jaccard, resource_allocation
from metricmix.dissimilarity.neighbour_paths import knn_path_length
from metricmix.dissimilarity.path_length import GraphSource, path_length
from metricmix.dissimilarity.predictions import ProbabilitySource
from metricmix.dissimilarity.sources import ComputedSource, Source
from metricmix.dissimilarity.specs import TableSpec, as_spec
from metricmix.dissimilarity.stack import DissimilarityStack
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
    "Source",
    "SourceFacts",
    "TableSpec",
    "as_graph",
    "as_spec",
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
