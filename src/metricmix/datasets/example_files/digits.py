"""Handwritten digits, scikit-learn's own: a table of pixels, most of it without a label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from metricmix.datasets.example_files.content import ExampleFiles, Table

__all__ = ["DIGITS"]

N_ITEMS, N_NEW = 1000, 100
LABELLED_PER_DIGIT = 8
UNREADABLE = 40
"""Empty cells."""


def make() -> dict[str, Table]:
    """Return the pixels of digits, those of new ones, and what all of them are."""
    rng = np.random.default_rng(21)
    images, labels = load_digits(return_X_y=True)
    chosen = rng.permutation(len(labels))[: N_ITEMS + N_NEW]
    pixels, digit = images[chosen].astype(int), labels[chosen]
    ids = [f"scan{k:04d}" for k in range(1, len(chosen) + 1)]
    cells = pixels.astype(str).astype(object)
    cells[rng.integers(N_ITEMS, size=UNREADABLE), rng.integers(64, size=UNREADABLE)] = ""
    columns = [f"p{row}_{column}" for row in range(8) for column in range(8)]
    labelled: set[int] = set()
    for c in range(10):
        own: NDArray[np.int64] = np.flatnonzero(digit[:N_ITEMS] == c)
        labelled |= set(own[:LABELLED_PER_DIGIT].tolist())
    old = [
        [ids[i], str(digit[i]) if i in labelled else "", *cells[i].tolist()] for i in range(N_ITEMS)
    ]
    new = [[ids[i], *cells[i].tolist()] for i in range(N_ITEMS, len(ids))]
    truth = [[name, str(label)] for name, label in zip(ids, digit, strict=True)]
    return {
        "digits.csv": [["id", "digit", *columns], *old],
        "new-digits.csv": [["id", *columns], *new],
        "truth.csv": [["id", "digit"], *truth],
    }


DIGITS = ExampleFiles(
    name="digits",
    about=(
        "1000 handwritten digits of 8 x 8 pixels, 80 of them labelled, and 100 new ones that come "
        "later. The simplest case: one table of numbers."
    ),
    files={
        "digits.csv": "id, digit (of 80 images), 64 pixels",
        "new-digits.csv": "id and pixels of 100 more, for metricmix predict",
        "truth.csv": "what all 1100 are, to judge the result with",
    },
    steps=(
        "metricmix fit {folder}/digits.csv --label digit --kind 'p*=plain' -o {folder}/result",
        "metricmix predict {folder}/result {folder}/new-digits.csv -o {folder}/predictions.csv",
    ),
    make=make,
)
