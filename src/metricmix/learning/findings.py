r"""What may be wrong with a learned metric: hubs, collapse, twins, and a class that takes all.

==============  ==================================================================================
kind            found if, on a sample
==============  ==================================================================================
``hub``         an item is an inner item of more than 20 % of the shortest paths
``collapse``    more than 20 % of the distances are below a hundredth of that of equal items,
                :math:`\log 2 / \beta`: negative weights pull items together
``twins``       more than 20 % of the items cannot be told from another one by any source that has
                a weight
``majority``    a class is predicted for most of the held-out items, with odds five times those that
                it has among their labels; or for most unlabelled items, with odds ten times those
==============  ==================================================================================

The source that is named as the cause of a hub is the one that makes its edges shorter than others
by most: among those with a negative weight, by which it is far from the others; if there are none,
among those that are no metrics (or all, along sparse edges), by which it is close to them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metricmix.learning.learned import Learned, id_of
from metricmix.learning.rules import ClassMean
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.pair import PathBundle, shortest_paths
from metricmix.typing import Floats, Indices

__all__ = ["MetricFinding", "diagnose"]

N_PAIRS, N_ITEMS, N_EDGES = 300, 64, 256
"""Pairs whose paths are searched, items whose rows are looked at, edges of a hub and others."""
HUB, COLLAPSED, TWINS = 0.2, 0.2, 0.2
"""Shares of paths, of distances and of items from which on there is a finding."""
MOST, NEARLY_ALL, ODDS, MORE_ODDS, FEWEST = 0.5, 0.8, 5.0, 10.0, 10
"""Shares of held-out and of unlabelled items, how far above the labels, and how many items."""
HUBS_NAMED, FAR = 3, 1.2
"""Hubs that are named, and how many times the mean is far."""
BRIDGE = "few edges join the parts that it lies between"


@dataclass(frozen=True)
class MetricFinding:
    """Something that may be wrong with a learned metric.

    Attributes
    ----------
    kind : {"hub", "collapse", "twins", "majority"}
    share : float
        Of the paths, of the distances, of the items, of the predictions.
    sentence : str
        What was found, and its cause.
    item : hashable, optional
        The hub, or one of the twins.
    source : str, optional
        The source that causes it.
    """

    kind: str
    share: float
    sentence: str
    item: Any = None
    source: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.sentence


def diagnose(
    learned: Learned, *, answers: Floats | None = None, random_state: int = 0
) -> tuple[MetricFinding, ...]:
    """Return what may be wrong with a metric that was learned, the most serious first.

    :mod:`metricmix.learning.findings` says what is looked for. It takes the shortest paths of 300
    pairs, the rows of 64 items, and refits without the labels of each fold.

    Parameters
    ----------
    learned : Learned
    answers : (n, C) array, optional
        Class probabilities of all items, those of labelled ones from refits without their labels,
        if these are known already.
    random_state : int
        For the sample.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> rng = np.random.default_rng(0)
    >>> size = np.append(rng.normal(size=39), 40.0)[:, None]  # the last item is far from all
    >>> place = rng.normal(size=(40, 2)) + 2 * (np.arange(40) % 2)[:, None]
    >>> sources = {"size": mm.dissimilarity.features(size),
    ...     "place": mm.dissimilarity.features(place)}
    >>> stack = mm.DissimilarityStack(sources, scaling="mean")
    >>> model = mm.MetricMixtureClassifier(stack, objective=None).fit(None, np.arange(40) % 2)
    >>> model.diagnose()
    ()
    """
    rng = np.random.default_rng(random_state)
    lengths = learned.lengths
    found: list[MetricFinding] = []
    if not lengths.is_metric:
        i, j = sampled_pairs(lengths.n, rng)
        bundle = shortest_paths(lengths, None, i, j).without_infinite()
        if len(bundle):
            found += hubs(lengths, bundle, rng)
            found += collapse(learned, bundle)
    found += twins(lengths, rng)
    if learned.known is not None and learned.task.n_classes and learned.options.rule != "auto":
        if answers is None:
            answers = learned.held_out.among_all(learned)
        found += majority(learned, answers.argmax(axis=1), found)
    return tuple(found)


def sampled_pairs(n: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Return pairs of different items: all of them if these are few."""
    if n * (n - 1) <= 2 * N_PAIRS:
        i, j = np.nonzero(~np.eye(n, dtype=bool))
        return i, j
    i = rng.integers(0, n, N_PAIRS)
    return i, (i + rng.integers(1, n, N_PAIRS)) % n


# -- paths -----------------------------------------------------------------------------------------


def hubs(lengths: EdgeLengths, bundle: PathBundle, rng: np.random.Generator) -> list[MetricFinding]:
    """Return the items on many paths, and why."""
    n, stack = lengths.n, lengths.stack
    ends = np.concatenate([bundle.nodes[bundle.indptr[:-1]], bundle.nodes[bundle.indptr[1:] - 1]])
    as_end = np.bincount(ends, minlength=n)
    inner = np.bincount(bundle.nodes, minlength=n) - as_end
    share = inner / np.maximum(len(bundle) - as_end, 1)
    found = []
    for h in np.argsort(-share, kind="stable")[:HUBS_NAMED].tolist():
        if share[h] <= HUB:
            break
        source, cause = cause_of_hub(lengths, h, rng)
        item = id_of(stack, h)
        sentence = f"{item!r} is on {100 * share[h]:.0f} % of the shortest paths{cause}"
        found.append(MetricFinding("hub", float(share[h]), sentence, item, source))
    return found


def cause_of_hub(lengths: EdgeLengths, h: int, rng: np.random.Generator) -> tuple[str | None, str]:
    """Return the source that makes the edges of an item short, and a clause that says so."""
    stack, n = lengths.stack, lengths.n
    degrees = None
    if lengths.edges is not None:
        some = rng.integers(0, len(lengths.edges), N_EDGES)
        u, v = (part[some].astype(np.int64) for part in (lengths.edges.tails, lengths.edges.heads))
        degrees = np.diff(lengths.edges.out[0])
    else:
        u, v = sampled_pairs(n, rng)
    own = rng.permutation(neighbours_of(lengths, h))[:N_EDGES]
    mine, others = np.full(len(own), h), (u, v)
    here, there = parts_of(lengths, mine, own), parts_of(lengths, *others)
    shorter = here.mean(axis=1) - there.mean(axis=1)
    # Without negative weights, over all pairs, a source that is a metric makes no detour shorter.
    negative = lengths.raw_weights < 0
    if negative.any():
        shorter = np.where(negative, shorter, np.inf)
    elif degrees is None:
        is_metric = [known is not None and known.triangle_inequality for known in stack.facts]
        shorter[is_metric] = 0.0
    r = int(shorter.argmin())
    if not (shorter[r] < 0 or negative.any()):
        if degrees is None:
            return None, ""
        usual = float(np.median(degrees))
        many = f"it has {degrees[h]} edges (others {usual:.0f})"
        return None, f", because {many if degrees[h] > FAR * usual else BRIDGE}"
    name, weight = stack.names[r], float(lengths.mixture.weights[r])
    raw_here, raw_there = stack.raw_pairs(mine, own)[r].mean(), stack.raw_pairs(*others)[r].mean()
    ratio = raw_here / max(raw_there, 1e-300)
    if weight < 0:
        far = f", and it is far from the others there ({ratio:.2g} times the mean)"
        return name, f", because {name!r} has weight {weight:.3g}{far * bool(ratio > FAR)}"
    if degrees is not None and ratio * FAR > 1.0:
        return None, f", because {BRIDGE}"
    return name, f", because it is close to the others by {name!r} ({ratio:.2g} times the mean)"


def parts_of(lengths: EdgeLengths, u: Indices, v: Indices) -> Floats:
    """Return the weighted values of all sources on some edges, before the link: (R, E)."""
    return lengths.mixed.parts(lengths.stack.raw_pairs(u, v), u, v)


def collapse(learned: Learned, bundle: PathBundle) -> list[MetricFinding]:
    """Return whether many distances are nearly zero, and by which source."""
    lengths, tiny = learned.lengths, learned.nearly_zero(bundle.lengths)
    share = float(tiny.mean())
    if share <= COLLAPSED:
        return []
    path, u, v = bundle.edges()
    on_tiny = tiny[path]
    parts = parts_of(lengths, u[on_tiny], v[on_tiny]).mean(axis=1)
    r = int(parts.argmin())
    name, weight = lengths.stack.names[r], float(lengths.mixture.weights[r])
    sentence = (
        f"{100 * share:.0f} % of the distances are nearly zero (median "
        f"{np.median(bundle.lengths):.2g}), because {name!r} has weight {weight:.3g}; weights >= 0 "
        "cannot do that"
    )
    return [MetricFinding("collapse", share, sentence, source=name)]


def neighbours_of(lengths: EdgeLengths, i: int) -> Indices:
    """Return the items that an item has an edge to: all others, or those of a sparse set."""
    if lengths.edges is None:
        return np.delete(np.arange(lengths.n), i)
    indptr, ends, _ = lengths.edges.out
    return np.asarray(ends[indptr[i] : indptr[i + 1]], dtype=np.int64)


# -- rows ------------------------------------------------------------------------------------------


def twins(lengths: EdgeLengths, rng: np.random.Generator) -> list[MetricFinding]:
    """Return whether many items have an indistinguishable duplicate."""
    stack, n = lengths.stack, lengths.n
    items = np.sort(rng.permutation(n)[:N_ITEMS])
    weights = np.abs(lengths.raw_weights)
    twin = np.full(len(items), -1)
    # Dissimilarity, relative to the mean, up to which two items are not told apart.
    negligible = 1e-6
    for k, a in enumerate(items.tolist()):
        others = neighbours_of(lengths, a)
        values = (
            stack.raw_rows(items[k : k + 1])[:, 0, others]
            if lengths.edges is None
            else stack.raw_pairs(np.full(len(others), a), others)
        )
        apart = weights @ values.astype(np.float64)
        same = np.flatnonzero(apart <= negligible * apart.mean()) if len(apart) else others
        if len(same):
            twin[k] = others[same[0]]
    share = float((twin >= 0).mean())
    if share <= TWINS:
        return []
    k = int(np.flatnonzero(twin >= 0)[0])
    a, b = items[k], twin[k]
    item, other = id_of(stack, int(a)), id_of(stack, int(b))
    values = stack.raw_pairs(np.array([a]), np.array([b]))[:, 0]
    unused = [r for r in np.flatnonzero(values > 0).tolist() if weights[r] == 0]
    sentence = (
        f"{100 * share:.0f} % of the items have a duplicate, such as {item!r} and {other!r}, which "
        "no source with a weight distinguishes"
    )
    source = stack.names[unused[0]] if unused else None
    if source is not None:
        sentence += f"; {source!r} does, but has weight 0"
    return [MetricFinding("twins", share, sentence, item, source)]


# -- predictions -----------------------------------------------------------------------------------


def majority(
    learned: Learned, predicted: Indices, found: list[MetricFinding]
) -> list[MetricFinding]:
    """Return whether a class is predicted far more often than it is given.

    The only label of a class is not held out: no other item could be predicted so without it.
    """
    codes, given, C = learned.labels.values, learned.labels.mask, learned.task.n_classes
    labels = np.bincount(codes[given], minlength=C)
    checks = (
        (given & (labels[codes] > 1), "held-out", MOST, ODDS),
        (~given, "unlabelled", NEARLY_ALL, MORE_ODDS),
    )
    for which, name, least, ratio in checks:
        counts = np.bincount(predicted[which], minlength=C)
        total, c = int(counts.sum()), int(counts.argmax())
        if min(total, labels.sum()) < FEWEST:
            continue
        share, own = counts[c] / total, labels[c] / labels.sum()
        if share < least or odds(counts[c], total) < ratio * odds(labels[c], labels.sum()):
            continue
        label, rule = learned.task.class_labels[c], learned.options.rule
        cause = "the sources hardly separate the classes apart"
        if any(one.kind in ("hub", "collapse") for one in found):
            cause = f"there is a {found[0].kind}"
        elif own >= MOST and not isinstance(rule, ClassMean):
            cause = f"it has most labels and the rule is {rule.name!r}; try 'class-mean'"
        sentence = (
            f"class {label!r} takes {100 * share:.0f} % of the {name} items, and has "
            f"{100 * own:.0f} % of the labels: {cause}"
        )
        return [MetricFinding("majority", float(share), sentence)]
    return []


def odds(k: int, n: int) -> float:
    """Return the odds of k among n, drawn a little towards even ones."""
    return float((k + 0.5) / (n - k + 0.5))
