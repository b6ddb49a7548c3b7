"""The same computations on the workers of a Dask cluster (``pip install metricmix[dask]``).

Inside ``with dask.distributed.Client(...)``, long computations use its cluster by themselves:
neighbour search, source values on edges, trees and distances, metric checks; and refits (bootstrap,
cross-validation, the paper's experiments) through joblib's Dask backend. :func:`use_cluster` has
the settings: a folder that all workers can read, where finished blocks are kept, and messages.
Results are those of one machine, bit for bit.
"""

from metricmix.dask.engine import Cluster, active_engine, use_cluster

__all__ = ["Cluster", "active_engine", "use_cluster"]
