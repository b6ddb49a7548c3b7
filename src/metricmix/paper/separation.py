r"""Figures 2 and 3: how well words and principal components separate topics.

.. math:: r = \frac{v_\mathrm{same}}{v_\mathrm{different}}, \qquad
          v_\mathrm{same} = \sum_{y = y'} \lVert x - x' \rVert^2, \quad
          v_\mathrm{different} = \sum_{y \ne y'} \lVert x - x' \rVert^2

The text of the paper takes sums, the caption of its figure means; both are computed. The smaller
the ratio, the better the separation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metricmix.paper.data import Data, check_enough
from metricmix.paper.experiment import Cell, CellResult, Experiment, generator
from metricmix.typing import Indices

__all__ = ["Separation", "separation_ratios"]


@dataclass(frozen=True)
class Separation(Experiment):
    """Distances within and between topics: ratios, random pairs, and a map of all papers."""

    components: tuple[int, ...] = (2, 5, 10, 40)
    n_pairs: int = 1000

    name: ClassVar[str] = "separation"

    def cells(self) -> list[Cell]:
        """Return the only cell."""
        return [{}]

    def check(self, data: Data) -> None:
        """Raise InputError if there are too few components."""
        check_enough(max(self.components), data.papers.components.shape[1], "components")

    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Compute the ratios over all pairs, and the distances of random pairs."""
        papers = data.papers
        rng = generator(seed, self.name)
        i = rng.integers(len(papers), size=self.n_pairs)
        j = (i + 1 + rng.integers(len(papers) - 1, size=self.n_pairs)) % len(papers)
        words = papers.words.tocsr()
        ratios = {"words": separation_ratios(words, papers.topics)}
        distances = {"words": np.sqrt(np.asarray((words[i] - words[j]).power(2).sum(axis=1)))}
        for n in self.components:
            X = papers.components[:, :n]
            ratios[str(n)] = separation_ratios(X, papers.topics)
            distances[str(n)] = np.linalg.norm(X[i] - X[j], axis=1)
        return CellResult(
            {
                "ratios": ratios,
                "same": (papers.topics[i] == papers.topics[j]).astype(int).tolist(),
                "distances": {k: d.ravel().round(4).tolist() for k, d in distances.items()},
                "map": papers.components[:, :2].round(3).tolist(),
                "topics": papers.topics.tolist(),
            }
        )


def separation_ratios(X: Any, y: Indices) -> dict[str, float]:
    r"""Return v_same / v_different with sums and with means over ordered pairs.

    In linear time, without the pairs: for k items of one class,
    :math:`\sum \lVert x - x' \rVert^2 = 2 k \sum \lVert x \rVert^2 - 2 \lVert \sum x \rVert^2`.

    >>> separation_ratios(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1]))
    {'sum': 0.0769..., 'mean': 0.1538...}
    """
    squares = np.asarray((X.multiply(X) if hasattr(X, "multiply") else X * X).sum(axis=1)).ravel()

    def spread(chosen: NDArray[np.bool_]) -> float:
        total = np.asarray(X[np.flatnonzero(chosen)].sum(axis=0)).ravel()
        return 2.0 * float(chosen.sum() * squares[chosen].sum() - total @ total)

    sizes = np.bincount(y)
    same = sum(spread(y == c) for c in np.flatnonzero(sizes))
    different = spread(np.ones(len(y), bool)) - same
    pairs_same = float((sizes * (sizes - 1)).sum())
    pairs_different = float(len(y) ** 2 - (sizes**2).sum())
    ratio = same / different
    return {"sum": ratio, "mean": ratio * pairs_different / pairs_same}
