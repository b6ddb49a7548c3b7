"""The data sets, and how their items are split into labelled, validation and test items.

A *case* is a data set with a split. Citation networks have the Planetoid split and random ones;
images and generated graphs are drawn anew for each split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from metricmix import datasets

Indices = NDArray[np.int64]
Split = tuple[Indices, Indices, Indices]

NETWORKS = ("citeseer", "cora", "pubmed")
IMAGES = ("digits", "mnist")
PLANETOID = "planetoid"
N_RANDOM, N_DRAWS, N_GENERATED = 20, 10, 5
"""Random splits of a network, draws of images, and graphs generated for a point of a curve."""
PER_CLASS, IMAGES_PER_CLASS = 20, 10
N_VALIDATION, N_TEST, N_MNIST = 500, 1000, 2000

UNLIKE = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Shares of links that join items of two classes; with four classes, 0.75 says nothing."""
SHUFFLED = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
"""Shares of items whose words are those of some other item."""
CURVES: dict[str, tuple[float, ...]] = {"links": UNLIKE, "attributes": SHUFFLED}
"""What misleads in the generated graphs, and how much."""
N_ITEMS, N_CLASSES, N_CHOSEN_BY = 600, 4, 120
"""Size, classes and validation items of the generated graphs."""


@dataclass(frozen=True, eq=False)
class Case:
    """A table, perhaps with a graph, and a split of its items.

    Attributes
    ----------
    data, split : str
        Names, which together identify the case.
    X : (n, d) array or sparse array
        Counts of words, or pixels; not negative.
    edges : (n_edges, 2) array or None
        The links of the graph; None for a plain table.
    labels : (n,) array
        Class numbers; -1: unknown.
    train, validation, test : arrays
        Items. Methods know the labels of `train`; those with variants choose by `validation`.
    """

    data: str
    split: str
    X: Any
    edges: Indices | None
    labels: Indices
    train: Indices
    validation: Indices
    test: Indices

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def known(self) -> Indices:
        """The labels of the training items, -1 for all others."""
        known = np.full(self.n, -1)
        known[self.train] = self.labels[self.train]
        return known


def generated_names(curve: str) -> list[str]:
    """Return the names of the generated data sets of a curve, from helpful to misleading."""
    return [f"{curve} {amount:.2f}" for amount in CURVES[curve]]


def is_graph(data: str) -> bool:
    """Return whether the items of a data set have links."""
    return data not in IMAGES


def splits_of(data: str) -> list[str]:
    """Return the names of the splits of a data set."""
    if data in NETWORKS:
        return [PLANETOID, *(f"random {seed}" for seed in range(N_RANDOM))]
    count = N_DRAWS if data in IMAGES else N_GENERATED
    return [f"draw {seed}" for seed in range(count)]


def load_case(data: str, split: str) -> Case:
    """Return a case.

    Raises
    ------
    DatasetNotFoundError
        If its files are missing; nothing is downloaded.
    """
    if data in NETWORKS:
        found = network(data)
        parts = (found.train_index, found.validation_index, found.test_index)
        if split != PLANETOID:
            parts = random_split(found.target, PER_CLASS, N_VALIDATION, N_TEST, seed_of(split))
        return Case(data, split, found.data, found.edges, found.target, *parts)
    if data in IMAGES:
        X, labels = images(data, seed_of(split))
        parts = random_split(labels, IMAGES_PER_CLASS, N_VALIDATION, None, seed_of(split))
        return Case(data, split, X, None, labels, *parts)
    curve, amount = data.split()
    return generated(curve, float(amount), seed_of(split))


def generated(
    curve: str, amount: float, seed: int, n: int = N_ITEMS, n_validation: int = N_CHOSEN_BY
) -> Case:
    """Return a graph whose links or attributes mislead, by a given amount.

    "links": `amount` is the share of links between classes, 1 - homophily. "attributes": words are
    permuted among a share `amount` of the items, which then mostly have those of another class.
    """
    unlike = amount if curve == "links" else 0.25
    found = datasets.make_attributed_graph(
        n, N_CLASSES, homophily=1 - unlike, word_signal=0.35, random_state=seed
    )
    X = found.data
    # Graph, shuffled items and split are drawn with seeds of their own, else the first items of one
    # permutation would be both shuffled and labelled.
    if curve == "attributes":
        rng = np.random.default_rng([seed, 1])
        chosen = rng.permutation(n)[: round(amount * n)]
        row_of = np.arange(n)
        row_of[chosen] = rng.permutation(chosen)
        X = X[row_of]
    parts = random_split(found.target, PER_CLASS, n_validation, None, [seed, 2])
    return Case(f"{curve} {amount:.2f}", f"draw {seed}", X, found.edges, found.target, *parts)


def random_split(
    labels: Indices, per_class: int, n_validation: int, n_test: int | None, seed: int | list[int]
) -> Split:
    """Return items of each class to train on, items to choose by, and items to test on.

    With `n_test` None, all others are tested.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))
    of = labels[order]
    train = np.concatenate([order[of == c][:per_class] for c in range(labels.max() + 1)])
    rest = order[~np.isin(order, train)]
    stop = None if n_test is None else n_validation + n_test
    return train, rest[:n_validation], rest[n_validation:stop]


def seed_of(split: str) -> int:
    """Return the number at the end of a split's name."""
    return int(split.split()[-1])


@cache
def network(name: str) -> Any:
    """Return a citation network."""
    return getattr(datasets, f"fetch_{name}")(download_if_missing=False)


@cache
def all_mnist() -> Any:
    """Return the 70000 images."""
    return datasets.fetch_mnist(download_if_missing=False)


def images(name: str, seed: int) -> tuple[Any, Indices]:
    """Return pixels and classes: all digits of scikit-learn, or 2000 images of MNIST."""
    if name == "digits":
        X, labels = load_digits(return_X_y=True)
        return X, labels
    found = all_mnist()
    drawn = np.random.default_rng(seed).choice(len(found.target), N_MNIST, replace=False)
    return found.data[drawn].astype(np.float64), found.target[drawn]
