"""What a comparison found: methods side by side, on labels that none of them saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricmix.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Comparison", "Method"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
KINDS = {
    "learned": "learned mixture",
    "equal": "equal weights",
    "best-single": "best single source",
    "most-frequent": "most frequent class",
}
"""What is compared besides the sources, and its name."""


@dataclass(frozen=True, eq=False)
class Method:
    """How well one way to label items does on items that it did not see the labels of.

    Attributes
    ----------
    name : str
        Of a source: that of the stack.
    kind : {"learned", "equal", "best-single", "single", "most-frequent"}
    accuracy : (F,) array
        Share of the held-out items that got their label, by fold; all folds of a repeat together.
    mean : float
        The same over all held-out items, so that larger folds count more.
    standard_error : float
        Standard deviation of `accuracy` over folds (F - 1 in its denominator), divided by the
        square root of the number of splits: repeats are not more data. Training sets overlap, so it
        is a guide, and no test.
    predictions : (n_repeats, L) array
        The label of each labelled item while it was held out.
    """

    name: str
    kind: str
    accuracy: Floats
    mean: float
    standard_error: float
    predictions: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learned weights beside simpler choices, on labels that were held out.

    Attributes
    ----------
    methods : tuple of Method
        The learned mixture, equal weights, the best single source, each source, the most frequent
        class.
    how : str
        One sentence that says how it was done.
    classes : (C,) array
    confusion : (C, C) array of int
        How often held-out items of class a (row) got class b (column) from the learned mixture,
        repeats counted each.
    items, labels : (L,) arrays
        The ids and the labels of the labelled items, in the order of the stack.
    chosen : dict of str to int
        In how many folds each source was the best single one on the training labels.
    weights : (F, R) array
        What was learned in each fold.
    n_splits, n_repeats : int
        As used: not more splits than labelled items.
    """

    methods: tuple[Method, ...]
    how: str
    classes: NDArray[Any]
    confusion: Indices
    items: NDArray[Any]
    labels: NDArray[Any]
    chosen: dict[str, int]
    weights: Floats
    n_splits: int
    n_repeats: int

    def __getitem__(self, kind: str) -> Method:
        """Return the method of a kind of which there is one."""
        check_choice(kind, tuple(KINDS), name="kind")
        return next(method for method in self.methods if method.kind == kind)

    @property
    def sources(self) -> tuple[Method, ...]:
        """The single sources, in the order of the stack."""
        return tuple(method for method in self.methods if method.kind == "single")

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per method: name, kind, mean, standard_error."""
        import pandas as pd

        columns = ("name", "kind", "mean", "standard_error")
        return pd.DataFrame({c: [getattr(m, c) for m in self.methods] for c in columns})

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = [f"{m.name:<{width}}  {m.mean:.3f} ± {m.standard_error:.3f}" for m in self.methods]
        return "\n".join([*lines, f"({self.how})"])
