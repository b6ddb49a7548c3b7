"""Cross-validation when labels are few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from metricmix.estimators.labels import is_unlabelled
from metricmix.exceptions import InputError
from metricmix.validation import check_integer

__all__ = ["LabelledKFold"]

Indices = NDArray[np.int64]


class LabelledKFold(BaseCrossValidator):
    """Cross-validation that splits the labelled items only, and keeps the others in training.

    Each class is dealt out evenly over the folds, at random; an item that is unlabelled (-1; among
    texts "" or "-1") is in every training set and in no test set.

    Parameters
    ----------
    n_splits : int
    n_repeats : int
        How often to deal anew.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from metricmix.estimators import LabelledKFold
    >>> for train, test in LabelledKFold(2, random_state=0).split(None, [0, 0, 1, 1, -1]):
    ...     print(train, test)
    [0 3 4] [1 2]
    [1 2 4] [0 3]
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        self.n_splits = check_integer(n_splits, name="n_splits", low=2)
        self.n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test items of each fold; only y is looked at."""
        if y is None:
            raise InputError("y: expected labels, of which only the known ones are split, got None")
        labels = np.asarray(y)
        known = np.flatnonzero(~is_unlabelled(labels))
        if len(known) < self.n_splits:
            raise InputError(
                f"n_splits: expected at most {len(known)}, the number of labelled items, "
                f"got {self.n_splits}"
            )
        given = self.random_state
        rng = given if isinstance(given, np.random.Generator) else check_random_state(given)
        _, codes = np.unique(labels[known], return_inverse=True)
        for _ in range(self.n_repeats):
            # Shuffle, put class by class in a row, and deal the row out like cards.
            shuffled = rng.permutation(len(known))
            row = shuffled[np.argsort(codes[shuffled], kind="stable")]
            fold = np.empty(len(known), dtype=np.int64)
            fold[row] = np.arange(len(known)) % self.n_splits
            for number in range(self.n_splits):
                test = known[fold == number]
                yield np.setdiff1d(np.arange(len(labels)), test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds, repeats included."""
        return int(self.n_splits * self.n_repeats)
