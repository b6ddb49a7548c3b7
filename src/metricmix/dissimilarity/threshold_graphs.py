"""The family of graphs of the paper's first two experiments."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.breadth_first import adjacency_lists, breadth_first_all_pairs
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.path_length import (
    Unreachable,
    check_unreachable,
    fill_unreachable,
)
from metricmix.exceptions import InputError
from metricmix.validation import check_integer, check_square, check_square_fits

__all__ = ["threshold_graphs", "thresholds"]


@states(SourceFacts("metric", row_cost="O(E)"))
def threshold_graphs(
    D: ArrayLike,
    n_graphs: int = 8,
    *,
    unreachable: Unreachable = "bridge",
    normalize: bool = True,
) -> list[DissimilarityMatrix]:
    """Path lengths of increasingly dense graphs of one dissimilarity (the paper, Experiment 1).

    For r = 1 .. R::

        xi_r = mean(D) (1/4 + (r - 1) 6 / (4 R))      mean over all n^2 entries
        A_r  = 1[D_ij < xi_r]                         graph: who is closer than xi_r
        M_r  = path length in A_r, every edge 1       scaled to the Frobenius norm of D

    Parameters
    ----------
    D : array (n, n)
        Symmetric dissimilarity.
    n_graphs : int
        R, the number of graphs.
    unreachable
        See :func:`~metricmix.dissimilarity.path_length.path_length`; applied before scaling. The
        first graphs are sparse and mostly disconnected.
    normalize : bool
        Scale every M_r to the norm of D, as the paper does. False leaves whole numbers.

    Returns
    -------
    list of DissimilarityMatrix (n, n)
        Named "threshold_1" .. "threshold_R". Where no pair is below xi_r, or all are, M_r is
        constant off the diagonal: such sources coincide.

    Raises
    ------
    InputError
        If D is not a symmetric dissimilarity or is all zero; if pairs are unreachable under
        ``unreachable="raise"``; for ``unreachable="inf"`` together with `normalize`.

    >>> D = np.abs(np.subtract.outer([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 4.0]))
    >>> threshold_graphs(D, 2, normalize=False)[1]
    DissimilarityMatrix([[0., 1., 2., 3.],
                         [1., 0., 1., 3.],
                         [2., 1., 0., 3.],
                         [3., 3., 3., 0.]])
    """
    check_unreachable(unreachable)
    if normalize and unreachable == "inf":
        raise InputError(
            "'inf' has no norm to scale",
            argument="unreachable",
            remedy="pass normalize=False with it",
        )
    matrix = np.asarray(check_square(D, name="D"), dtype=np.float64)
    bounds = thresholds(matrix, n_graphs)
    check_square_fits(len(matrix), 8 * len(bounds) + 6, what="the graphs' metrics", argument="D")
    norm = float(np.linalg.norm(matrix))
    graphs = []
    for r, bound in enumerate(bounds, start=1):
        below = matrix < bound
        # Symmetric up to rounding is accepted, and rounding may fall on either side of the bound.
        below |= below.T
        np.fill_diagonal(below, False)
        distances = breadth_first_all_pairs(*adjacency_lists(below))
        missing = fill_unreachable(distances, 1.0, unreachable)
        own = float(np.linalg.norm(distances)) if normalize else 0.0
        if own > 0:
            distances *= norm / own
        known = facts("threshold_graphs")
        graphs.append(as_dissimilarity(distances, f"threshold_{r}", missing, facts=known))
    return graphs


def thresholds(D: NDArray[np.floating], n_graphs: int = 8) -> NDArray[np.float64]:
    """Return ``xi_r = mean(D) (1/4 + (r - 1) 6 / (4 R))`` for r = 1 .. R.

    >>> thresholds(np.array([[0.0, 2.0], [2.0, 0.0]]), 3)
    array([0.25, 0.75, 1.25])
    """
    check_integer(n_graphs, name="n_graphs", low=1)
    mean = float(np.mean(D, dtype=np.float64))
    if mean <= 0:
        raise InputError(argument="D", expected="a positive entry somewhere, found zeros only")
    return np.array([mean * (0.25 + r * 6 / (4 * n_graphs)) for r in range(n_graphs)])
