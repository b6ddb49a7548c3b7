r"""A generated citation network: a contextual stochastic block model with degree correction.

n items have classes c, of equal sizes up to one, in random order. A share of them is isolated; the
others get a propensity :math:`\theta_i = \exp(s z_i)`, z standard normal, divided by its mean over
the class (isolated items have 0). There are exactly

.. math:: M = \mathrm{round}(n\,\mathrm{degree} / 2), \qquad
          M_\mathrm{in} = \mathrm{round}(M\,\mathrm{homophily})

links, all different: :math:`M_\mathrm{in}` of them drawn one after the other, with probability
proportional to :math:`\theta_i \theta_j`, among the pairs of one class, the others likewise among
the pairs of two classes. So expected degrees are near :math:`\theta_i\,\mathrm{degree} /
(1 - \mathrm{isolated})`.

Word v belongs to class v mod n_classes. Item i has :math:`1 + \mathrm{Poisson}(L - 1)` words, each
drawn by

.. math:: P(v \mid c) = \frac{1 - \sigma}{n_\mathrm{words}}
          + \sigma\,\frac{[\,v \equiv c\,]}{\#\{u : u \equiv c\}}

with σ the signal: a word of its class, or just any word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import Bunch

from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer, check_number, check_random_state

__all__ = ["adjacency", "make_attributed_graph"]


def adjacency(edges: Indices, n: int, weights: Floats | None = None) -> csr_array[np.float64]:
    """Return the symmetric n × n matrix of the links (i, j): of their weights, else of ones."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    values = np.ones(len(ends)) if weights is None else np.concatenate([weights, weights])
    matrix = csr_array((values, (ends[:, 0], ends[:, 1])), shape=(n, n))
    matrix.sort_indices()
    return matrix


def make_attributed_graph(
    n_items: int = 600,
    n_classes: int = 4,
    *,
    n_words: int = 200,
    degree: float = 8.0,
    degree_spread: float = 0.5,
    homophily: float = 0.8,
    words_per_item: float = 20.0,
    word_signal: float = 0.5,
    isolated: float = 0.02,
    random_state: Any = None,
) -> Any:
    r"""Generate items with words, links and classes, with adjustable noise in both sources.

    The model is written out in :mod:`metricmix.datasets.attributed_graph`.

    Parameters
    ----------
    n_items, n_classes : int
        Items, and classes of equal sizes up to one.
    n_words : int
        Words there are; each belongs to one class.
    degree : float
        Mean degree over all items.
    degree_spread : float
        Standard deviation s of the logarithm of the propensity to have links: 0 gives every item
        the same expected degree, 1 gives hubs.
    homophily : float in [0, 1]
        Share of the links that join items of one class. 1 / n_classes: links say nothing about
        classes; 1: no link leaves a class; 0: none stays in one.
    words_per_item : float
        Expected number of words of an item, at least 1; each item has at least one.
    word_signal : float in [0, 1]
        Share of words drawn from those of the class, the others being drawn from all. 0: words say
        nothing about classes.
    isolated : float in [0, 1]
        Share of items that are kept without links. Others may have none by chance, where `degree`
        is small.
    random_state : None, int or numpy Generator
        The same number gives the same graph.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``: how often an item has a word, a scipy csr_array (n_items, n_words) float64;
        ``edges`` (n_edges, 2): each link once, as (i, j) with i < j; ``graph``: the same as a
        symmetric csr_array (n_items, n_items) of ones; ``target`` (n_items,) int64; ``n_classes``;
        ``DESCR``.

    Raises
    ------
    InputError
        If there are not enough pairs for so many different links.

    Notes
    -----
    Memory and time grow with items, links and words, up to a logarithm.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> papers = mm.datasets.make_attributed_graph(200, 3, homophily=0.75, random_state=0)
    >>> papers.data.shape, papers.edges.shape
    ((200, 200), (800, 2))
    >>> a, b = papers.target[papers.edges].T
    >>> float(np.mean(a == b))
    0.75
    >>> stack = mm.sources_for(papers.data, papers.graph)
    >>> stack.shape
    (200, 200)
    """
    n = check_integer(n_items, name="n_items", low=2)
    n_classes = check_integer(n_classes, name="n_classes", low=2)
    if n_classes > n:
        raise InputError(argument="n_classes", expected=f"at most n_items = {n}", found=n_classes)
    n_words = check_integer(n_words, name="n_words", low=n_classes)
    degree = check_number(degree, name="degree", low=0)
    spread = check_number(degree_spread, name="degree_spread", low=0)
    homophily = check_number(homophily, name="homophily", low=0, high=1)
    length = check_number(words_per_item, name="words_per_item", low=1)
    signal = check_number(word_signal, name="word_signal", low=0, high=1)
    isolated = check_number(isolated, name="isolated", low=0, high=1)
    rng, _ = check_random_state(random_state)

    target = rng.permutation(np.arange(n, dtype=np.int64) % n_classes)
    z = rng.standard_normal(n)
    propensity = np.exp(spread * (z - z.max()))  # at most 1, however large the spread
    propensity[rng.permutation(n)[: round(isolated * n)]] = 0.0
    mass, count = np.bincount(target, propensity), np.bincount(target, propensity > 0)
    scale = np.divide(count, mass, out=np.zeros_like(mass), where=mass > 0)
    propensity *= scale[target]  # mean 1 over the others of a class
    n_edges = round(n * degree / 2)
    n_within = round(n_edges * homophily)
    keys = np.concatenate(
        [
            _draw_links(rng, target, propensity, n_within, within=True),
            _draw_links(rng, target, propensity, n_edges - n_within, within=False),
        ]
    )
    edges = np.stack(np.divmod(np.sort(keys), n), axis=1)

    items = np.repeat(np.arange(n), 1 + rng.poisson(length - 1, n))
    own = target[items]
    n_own = (n_words - own + n_classes - 1) // n_classes  # words v < n_words with v ≡ own
    of_class = own + n_classes * rng.integers(0, n_own)
    of_any = rng.random(len(items)) >= signal
    words = np.where(of_any, rng.integers(0, n_words, len(items)), of_class)
    data = csr_array((np.ones(len(items)), (items, words)), shape=(n, n_words))
    data.sum_duplicates()
    return Bunch(
        data=data,
        edges=edges,
        graph=adjacency(edges, n),
        target=target,
        n_classes=n_classes,
        DESCR=(
            f"Generated by metricmix.datasets.make_attributed_graph: {n} items of {n_classes} "
            f"classes, {len(edges)} links ({n_within} of them within a class), {n_words} words, "
            f"{length:g} an item; homophily {homophily:g}, word_signal {signal:g}, degree_spread "
            f"{spread:g}, isolated {isolated:g}."
        ),
    )


def _draw_links(
    rng: np.random.Generator,
    target: Indices,
    theta: Floats,
    m: int,
    *,
    within: bool,
) -> Indices:
    """Return m different pairs i < j as i n + j, drawn by θ_i θ_j within or across classes."""
    n = len(target)
    count = np.bincount(target, theta > 0)
    inside = float(np.sum(count * (count - 1)) / 2)
    possible = inside if within else float(count.sum() * (count.sum() - 1) / 2) - inside
    max_density = 0.5  # largest share of the possible links: drawing different links is slow beyond
    if m > max_density * possible:
        raise InputError(
            argument="degree",
            expected=(
                f"at most {max_density:.0%} of the {possible:.0f} pairs "
                f"{'within classes' if within else 'across classes'} to be linked"
            ),
            found=f"{m} links",
            remedy="lower degree or isolated, change homophily, or take more items",
        )
    order = np.argsort(target, kind="stable")
    heights = np.concatenate([[0.0], np.cumsum(theta[order])])
    starts = heights[np.searchsorted(target[order], np.arange(len(count) + 1))]
    squared = np.cumsum(np.diff(starts) ** 2)

    def ends(low: Any, high: Any, k: int) -> Indices:
        found = np.searchsorted(heights, low + rng.random(k) * (high - low), side="right") - 1
        drawn: Indices = order[np.minimum(found, n - 1)]
        return drawn

    keys = np.empty(0, np.int64)
    for _ in range(200):
        if len(keys) >= m:
            return keys[:m]
        k = 2 * (m - len(keys)) + 64
        low, high = 0.0, heights[-1]
        if within:
            of = np.searchsorted(squared, rng.random(k) * squared[-1], side="right")
            of = np.minimum(of, len(count) - 1)
            low, high = starts[of], starts[of + 1]
        i, j = ends(low, high, k), ends(low, high, k)
        # Rounding can lead just beyond the end of a class, to any item: it is dropped as well.
        kept = (i != j) & ((target[i] == target[j]) == within) & (theta[i] > 0) & (theta[j] > 0)
        i, j = i[kept], j[kept]
        keys = np.concatenate([keys, np.minimum(i, j) * n + np.maximum(i, j)])
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]  # in the order of drawing
    raise InputError(
        argument="degree_spread",
        expected=f"a value that leaves room for {m} different links",
        found="one that gives nearly all of them to few items",
        remedy="lower it, or degree",
    )
