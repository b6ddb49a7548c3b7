"""Cross-validation where only some items have a label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from metricmix.dissimilarity.known import deal
from metricmix.exceptions import InputError
from metricmix.labels import as_labels, is_unlabelled, plain_labels
from metricmix.state import stored
from metricmix.typing import Indices
from metricmix.validation import check_integer

__all__ = ["LabelledKFold"]


@stored("LabelledKFold")
class LabelledKFold(BaseCrossValidator):
    """Cross-validation that splits the labelled items only, and keeps the others in training.

    Each class is spread evenly over the folds, at random; an item that is unlabelled (-1, NaN,
    None or pandas' NA; among texts "" or "-1") is in every training set and in no test set.

    Parameters
    ----------
    n_splits : int
    n_repeats : int
        Number of repetitions, each with new folds.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from metricmix.estimators import LabelledKFold
    >>> for train, test in LabelledKFold(2, random_state=0).split(None, [0, 0, 1, 1, -1]):
    ...     print(len(train), len(test))
    3 2
    3 2
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        self.n_splits = check_integer(n_splits, name="n_splits", low=2)
        self.n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test items of each fold; only y is used."""
        if y is None:
            raise InputError(
                argument="y",
                expected="labels, of which only the known ones are split",
                found="None",
            )
        labels = as_labels(y)
        known = np.flatnonzero(~is_unlabelled(labels))
        if len(known) < self.n_splits:
            raise InputError(
                argument="n_splits",
                expected=f"at most {len(known)}, the number of labelled items",
                found=self.n_splits,
            )
        _, codes = np.unique(plain_labels(labels[known]), return_inverse=True)
        for seed in self.seeds():
            fold = deal(codes, self.n_splits, known.astype(np.uint64), seed)
            for number in range(self.n_splits):
                test = known[fold == number]
                yield np.setdiff1d(np.arange(len(labels)), test), test

    def seeds(self) -> list[int]:
        """Return a seed for the folds of each repetition."""
        given = self.random_state
        if isinstance(given, np.random.Generator):
            return [int(seed) for seed in given.integers(2**31, size=self.n_repeats)]
        drawn = check_random_state(given).randint(2**31 - 1, size=self.n_repeats)
        return [int(seed) for seed in drawn]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds, repeats included."""
        return int(self.n_splits * self.n_repeats)
