"""From weights to edge lengths: the mixture, the link, and the lengths by rows."""

from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.mixture.linear import Mixture, inverse_link, link, link_derivative
from metricmix.mixture.local import LocalMixture, RegionWeights
from metricmix.mixture.network import NetworkMixture

__all__ = [
    "EdgeLengths",
    "LocalMixture",
    "Mixture",
    "NetworkMixture",
    "RegionWeights",
    "edge_lengths",
    "inverse_link",
    "link",
    "link_derivative",
]
