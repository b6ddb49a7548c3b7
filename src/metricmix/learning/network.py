"""Network mixtures of a classifier: the training.

The network is trained in PyTorch (:mod:`metricmix.torch.train_network`); what is learned is a
:class:`~metricmix.mixture.NetworkMixture`, plain arrays that predict without it.
"""

from __future__ import annotations

from metricmix.devices import resolve_device, torch_module
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.learning.options import Network
from metricmix.mixture.linear import Mixture
from metricmix.objectives.base import LabelObjective, Objective
from metricmix.solvers.result import SolveResult

__all__ = ["fit_network"]


def fit_network(
    settings: Network,
    stack: DissimilarityStack,
    objective: Objective,
    start: Mixture,
    *,
    monotone: bool,
    projection: bool,
    device: str,
    seed: int,
    verbose: bool,
) -> SolveResult:
    """Return a network mixture trained from a linear one; see the module for where."""
    if not isinstance(objective, LabelObjective):
        raise InputError(
            argument="objective",
            expected="an objective over labels for a network",
            found=type(objective).__name__,
        )
    # With the projection, every step searches shortest paths through all items.
    most = min(settings.max_iter, 40) if projection else settings.max_iter
    result: SolveResult = torch_module("train_network").train_network(
        stack,
        objective,
        start,
        hidden=settings.hidden,
        max_iter=most,
        patience=settings.patience,
        n_folds=settings.n_folds,
        monotone=monotone,
        projection=projection,
        device=resolve_device(device),
        seed=seed,
        verbose=verbose,
    )
    return result
