"""Data sets: well-known real ones, fetched; worked examples and a graph, generated.

A ``fetch_*`` takes its files from `data_home`, else from the folder that the environment variable
METRICMIX_DATA names, else from the user's cache, else from the internet (with pooch, the extra
``metricmix[data]``); wherever they come from, they are checked against known sha256 sums.
"""

from metricmix.datasets.attributed_graph import make_attributed_graph
from metricmix.datasets.citations import fetch_citeseer, fetch_cora, fetch_pubmed
from metricmix.datasets.example_files import load_example
from metricmix.datasets.graphs import fetch_gset, fetch_snap
from metricmix.datasets.mnist import fetch_mnist

__all__ = [
    "fetch_citeseer",
    "fetch_cora",
    "fetch_gset",
    "fetch_mnist",
    "fetch_pubmed",
    "fetch_snap",
    "load_example",
    "make_attributed_graph",
]
