"""Network mixtures of a classifier: the settings, and the training.

The network is trained in PyTorch (:mod:`metricmix.torch.train_network`); what is learned is a
:class:`~metricmix.mixture.NetworkMixture`, plain arrays that predict without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metricmix.devices import resolve_device, torch_module
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.linear import Mixture
from metricmix.objectives.base import LabelObjective, Objective
from metricmix.solvers.result import SolveResult
from metricmix.state import stored
from metricmix.validation import check_integer

__all__ = ["Network", "as_network", "fit_network"]


@stored("Network")
@dataclass(frozen=True)
class Network:
    """Settings of a network mixture.

    Parameters
    ----------
    hidden : int
        Hidden units.
    max_iter : int
        Most steps of training.
    patience : int
        Steps without a smaller loss of held-out labels after which training stops.
    n_folds : int
        Folds of the labels, each held out in turn.
    """

    hidden: int = 16
    max_iter: int = 200
    patience: int = 20
    n_folds: int = 4

    def check(self) -> None:
        """Raise InputError unless the settings make sense."""
        for name, low in (("hidden", 1), ("max_iter", 0), ("patience", 1), ("n_folds", 2)):
            check_integer(getattr(self, name), name=f"mixture: {name}", low=low)


def as_network(mixture: Any) -> Network | None:
    """Return the settings of a network, or None for the linear mixture.

    >>> as_network("network").hidden
    16
    """
    if isinstance(mixture, Network):
        mixture.check()
        return mixture
    if mixture not in ("linear", "network"):
        raise InputError(
            argument="mixture",
            expected="'linear', 'network' or Network(...)",
            found=f"{mixture!r}",
        )
    return Network() if mixture == "network" else None


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
