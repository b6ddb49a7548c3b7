r"""Active learning: which items to label next.

Let p be the probabilities of the fit, :math:`u_j = 1 - (p_{(1)} - p_{(2)})` the uncertainty of item
j by the margin between the two likeliest classes, and :math:`D_j` its distance to the nearest
labelled item. The items S to label next bring labels near to uncertain items,

.. math:: \max_S \; \sum_j u_j \max\Bigl(0,\; 1 - \min_{s \in S} \frac{d(j, s)}{D_j}\Bigr),

and are chosen greedily. The sum is monotone and submodular, so that the greedy choice reaches at
least 1 - 1/e of its maximum. Of numeric targets all items are equally uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.learning.learned import Learned, id_of
from metricmix.paths.neighbours import nearest_labelled
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats
from metricmix.validation import check_integer

__all__ = ["NextLabel", "next_labels"]

CANDIDATES, JUDGED = 1000, 4000
"""Candidates, the most uncertain items, and items drawn at random over which the sum is taken."""
DISTANCES = 10**8
"""Distances that are computed at most: with more than 100 000 items there are fewer candidates."""


@dataclass(frozen=True)
class NextLabel:
    """An item that is worth labelling.

    Attributes
    ----------
    item : id
    share : float
        By how much it increases the sum above, as a share of the uncertainty of all items.
    doubt : float
        The uncertainty of its own label, from 0 to 1.
    stands_for : int
        Unlabelled items that are nearer to it than to any labelled item, or to any item proposed
        before it.
    label : class or number
        What is predicted for it.
    """

    item: Any
    share: float
    doubt: float
    stands_for: int
    label: Any


def next_labels(learned: Learned, k: int = 10, among: Any = None) -> list[NextLabel]:
    """Return the items to label next, the most useful first.

    Parameters
    ----------
    learned : Learned
    k : int
        How many.
    among : (m,) array of int, optional
        Numbers of the items that can be labelled; default: all without a label.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.r_[np.linspace(0, 1, 20), np.linspace(5, 6, 30), 9.0][:, None]
    >>> known = np.full(51, -1)
    >>> known[[0, 5, 50]] = 0, 0, 1
    >>> model = mm.MetricMixtureClassifier({"place": "euclidean"}).fit(place, known)
    >>> 20 <= model.next_labels(1)[0].item < 50  # nothing is known of these thirty
    True
    """
    k = check_integer(k, name="k", low=1)
    task, known = learned.task, learned.labels
    doubt = doubts(learned)
    unknown = np.flatnonzero(~known.mask)
    unknown = unknown[np.isfinite(doubt[unknown])]
    able = unknown if among is None else np.intersect1d(unknown, among)
    order = np.argsort(-doubt[able], kind="stable")
    most = min(CANDIDATES, max(1, DISTANCES // len(doubt)))
    candidates = np.sort(able[order[:most]])
    judged = unknown
    if len(judged) > JUDGED:
        judged = np.sort(np.random.default_rng(0).choice(unknown, JUDGED, replace=False))
    near = nearest_labelled(learned.lengths, labelled=known.items)[0]
    reach = np.asarray(near[:, 0], np.float64)[judged]
    rows = distances_from(
        learned.lengths, candidates, dtype="float32", n_jobs=learned.options.n_jobs
    )[:, judged]
    predicted = task.decode(task.predictions(learned.answers)).tolist()  # no types of numpy
    found = []
    for place, share, size in greedy_choice(rows, reach, doubt[judged], min(k, len(candidates))):
        item = candidates[place]
        found.append(
            NextLabel(
                id_of(learned.whole, int(item)), share, float(doubt[item]), size, predicted[item]
            )
        )
    return found


def doubts(learned: Learned) -> Floats:
    """Return the doubt about every item."""
    if learned.task.is_numeric:
        return np.ones(len(learned.answers))
    largest = np.sort(learned.answers, axis=1)[:, -2:]
    return np.asarray(1.0 - (largest[:, 1] - largest[:, 0]))


def greedy_choice(
    rows: Floats, reach: Floats, weights: Floats, k: int
) -> list[tuple[int, float, int]]:
    """Return the rows with the largest gains one after the other, their gains, and their sizes.

    `rows` are distances from candidates to items, `reach` those of the items to what is labelled;
    gains are shares of the sum of the weights.
    """
    left, total = np.array(reach, np.float64), max(float(weights.sum()), 1e-300)
    free = np.ones(len(rows), bool)
    found = []
    for _ in range(k):
        scale = np.where(left > 0, weights / np.maximum(reach, 1e-300), 0.0)
        gains = np.array([np.maximum(left - row, 0.0) @ scale for row in rows])
        gains[~free] = -1.0
        best = int(gains.argmax())
        free[best] = False
        nearer = rows[best] < left
        found.append((best, float(gains[best] / total), int(nearer.sum())))
        left = np.minimum(left, rows[best])
    return found
