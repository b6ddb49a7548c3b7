r"""Regions of local weights: which items belong to which, by shares that sum to 1.

*Given*: an (n, C) array of yours. *Classes*: the class probabilities by class means under the
common weights, :math:`p_c(i)`; of a labelled item, without its own label. *Learned*: regions in
which different sources separate the classes.

1. Each labelled item is predicted by each source alone, from the 7 nearest other labelled items;
   :math:`\ell_r(i)` is its log loss.
2. A *gate* is a source by which items of a region are near each other. The mean loss around an
   item,

   .. math:: \bar \ell_{r}(i) = \frac1k \sum_{j \in N_g(i)} \ell_r(j),

   over the k = L / 5 labelled items that are nearest to i by gate g (itself left out), says which
   sources separate the classes there.
3. Gate and two sources are those with the smallest mean of :math:`\ell_{r(i)}(i)`, where r(i) is
   the one with the smaller :math:`\bar \ell_r(i)`. A further source is added if that mean falls by
   more than the standard error of the difference.
4. Memberships are :math:`p_r(i) \propto \exp(-4 \bar \ell_r(i))`. A region is named after the
   source that separates the classes there and the gate, such as "borders by area". The gate counts
   through the regions, even if its own weight is 0.

All R² (R - 1) / 2 choices cost O(R³ L), and the losses O(R L² log L), for at most 1000 labelled
items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.learning.learned import Options
from metricmix.learning.rules.rule import check_reached, distances_to, softmax
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.objectives.base import Objective
from metricmix.objectives.class_scores import class_mean_scores, half_means, held_out_scores
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["Gate", "find_gate", "memberships", "regions_of_labels"]

JUDGES = 7
"""Nearest labelled items that predict one by a single source."""
AT_MOST = 1000
"""Labelled items that regions are found from."""
SHARPNESS = 4.0
"""Of memberships, per unit of the difference of mean log losses."""


def memberships(
    lengths: EdgeLengths, objective: Objective, task: Task, options: Options
) -> tuple[AnyArray, list[str] | None]:
    """Return the memberships of all items in regions, (n, C), and the names of these if known."""
    if not isinstance(options.local, str):
        columns = getattr(options.local, "columns", None)
        return np.asarray(options.local), None if columns is None else list(map(str, columns))
    codes = getattr(objective, "y", None)
    if codes is None:
        raise InputError(
            f"{options.local!r} takes an objective over labels",
            argument="local",
            remedy="pass memberships, an (n, C) array",
        )
    known = Known(codes, int(codes.max()) + 1)
    if options.local == "regions":
        return regions_of_labels(lengths.stack.between_any, known)
    labelled, about = known.items, (known.y, known.n_classes)
    d = distances_to(lengths, labelled, options.n_jobs)
    check_reached(d)
    scores = class_mean_scores(d, *about, half_means(d[labelled], *about))
    scores[labelled] = held_out_scores(d[labelled], *about)
    names = task.class_names
    complete = known.n_classes == len(names)  # a fold may lack a class
    return softmax(-scores), names if complete else None


def regions_of_labels(stack: DissimilarityStack, known: Known) -> tuple[Floats, list[str]]:
    """Return the memberships of all items in regions where different sources separate the classes.

    Examples
    --------
    The first column separates the classes where the third is negative, the second elsewhere:

    >>> import numpy as np, metricmix as mm
    >>> rng = np.random.default_rng(0)
    >>> y, place = rng.integers(0, 2, 80), rng.uniform(-1, 1, 80)
    >>> one, two = (np.where(place * side < 0, y, rng.integers(0, 2, 80)) for side in (1, -1))
    >>> stack = mm.DissimilarityStack(
    ...     {
    ...         name: mm.dissimilarity.features((column + 0.1 * rng.normal(size=80))[:, None])
    ...         for name, column in {"one": one, "two": two, "place": place}.items()
    ...     }
    ... )
    >>> p, names = regions_of_labels(stack, Known(y, 2))
    >>> names, float(np.mean((p[:, 0] > 0.5) == (place < 0)))
    (['one by place', 'two by place'], 0.975)
    """
    found = find_gate(stack, known)
    items, L = found.items, len(found.items)
    d = np.asarray(stack.sources[found.gate].block(np.arange(stack.n_items), items), np.float64)
    d[items, np.arange(L)] = np.inf
    near = np.argsort(d, axis=1, kind="stable")[:, : found.k]
    means = found.losses[list(found.chosen)][:, near].mean(axis=2)
    gate = stack.names[found.gate]
    return softmax(-SHARPNESS * means.T), [f"{stack.names[r]} by {gate}" for r in found.chosen]


@dataclass(frozen=True, eq=False)
class Gate:
    """The source by which regions hold together, and the sources that separate the classes in them.

    Attributes
    ----------
    items : (L,) array
        The labelled items that regions are found from, at most 1000.
    gate : int
    chosen : tuple of int
    k : int
        Nearest labelled items that losses are averaged over.
    losses : (R, L) array
        The log loss of each labelled item, predicted by each source alone.
    gain, standard_error : float
        By how much the loss is smaller than that of the best single source.
    """

    items: Indices
    gate: int
    chosen: tuple[int, ...]
    k: int
    losses: Floats
    gain: float
    standard_error: float

    @property
    def is_worth_trying(self) -> bool:
        """Whether the gain is more than one and a half standard errors."""
        return self.gain > 1.5 * self.standard_error


def find_gate(stack: DissimilarityStack, known: Known) -> Gate:
    """Return the gate and the sources of regions, from the labelled items alone."""
    known = known.some(min(len(known.items), AT_MOST))
    items, L, R = known.items, len(known.items), stack.n_sources
    if R == 1:
        raise InputError(
            "regions are where different sources separate the classes, found a single source",
            argument="local",
        )
    between = [np.asarray(source.block(items, items), np.float64) for source in stack.sources]
    losses = np.stack([held_out_losses(d, known) for d in between])
    k = max(min(4, L - 1), L // 5)
    best, gate = np.inf, 0
    chosen: tuple[int, ...] = (0, 1)
    for g, d in enumerate(between):
        around = losses[:, nearest_others(d, k)].mean(axis=2)
        for r in range(R - 1):
            of_pairs = np.where(around[r] <= around[r + 1 :], losses[r], losses[r + 1 :])
            s = int(of_pairs.mean(axis=1).argmin())
            if (loss := of_pairs[s].mean()) < best:
                best, gate, chosen = loss, g, (r, r + 1 + s)
    around = losses[:, nearest_others(between[gate], k)].mean(axis=2)
    now = gated(losses, around, chosen)
    while len(chosen) < R:
        more = [r for r in range(R) if r not in chosen]
        gains = np.stack([now - gated(losses, around, (*chosen, r)) for r in more])
        r = int(gains.mean(axis=1).argmax())
        if gains[r].mean() <= gains[r].std() / np.sqrt(L):
            break
        now, chosen = now - gains[r], (*chosen, more[r])
    gains = losses[losses.mean(axis=1).argmin()] - now
    error = float(gains.std(ddof=1) / np.sqrt(L))
    return Gate(items, gate, chosen, k, losses, float(gains.mean()), error)


def held_out_losses(d: Floats, known: Known) -> Floats:
    """Return the log loss of each labelled item, predicted from the nearest others, (L,)."""
    L, C = len(d), known.n_classes
    near = nearest_others(d, min(JUDGES, L - 1))
    votes = (known.y[near] == known.y[:, None]).sum(axis=1)
    return np.asarray(-np.log((votes + 1.0 / C) / (near.shape[1] + 1.0)))


def nearest_others(d: Floats, k: int) -> Indices:
    """Return the k nearest others of each of L items, (L, k)."""
    d = d.copy()
    np.fill_diagonal(d, np.inf)
    return np.argsort(d, axis=1, kind="stable")[:, :k]


def gated(losses: Floats, around: Floats, chosen: tuple[int, ...]) -> Floats:
    """Return the losses by the one of the chosen sources that is best around each item, (L,)."""
    rows = list(chosen)
    best = around[rows].argmin(axis=0)
    return np.asarray(losses[rows][best, np.arange(losses.shape[1])])
