"""The citation networks, and how their items are split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix import datasets
from metricmix.exceptions import DatasetNotFoundError

Indices = NDArray[np.int64]
PER_CLASS, N_VALIDATION, N_TEST = 20, 500, 1000


@dataclass(frozen=True)
class Network:
    """Items with words, citations and classes (-1: unknown)."""

    name: str
    words: Any
    edges: Indices
    labels: Indices
    planetoid: tuple[Indices, Indices, Indices]

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1


def load(name: str) -> Network | None:
    """Return a network, or None where it cannot be found without a download."""
    try:
        found = getattr(datasets, f"fetch_{name}")(download_if_missing=False)
    except DatasetNotFoundError:
        return None
    split = (found.train_index, found.validation_index, found.test_index)
    return Network(name, found.data, found.edges, found.target, split)


def random_split(network: Network, seed: int) -> tuple[Indices, Indices, Indices]:
    """Return 20 items of each class to train on, 500 to choose by and 1000 to test on."""
    known = np.flatnonzero(network.labels >= 0)
    order = np.random.default_rng(seed).permutation(known)
    labels = network.labels[order]
    train = np.concatenate([order[labels == c][:PER_CLASS] for c in range(network.n_classes)])
    rest = order[~np.isin(order, train)]
    return train, rest[:N_VALIDATION], rest[N_VALIDATION : N_VALIDATION + N_TEST]
